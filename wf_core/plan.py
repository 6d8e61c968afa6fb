"""A validated workflow made ready to run: immutable, indexed, with what each step reads.

A plan is compiled once per process and digest. Nothing in it depends on a run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from wf_core.analysis.control_regions import analyze_control_regions
from wf_core.errors import WorkflowExecutionError
from wf_core.models.conditions import BinaryCondition, Condition, ExistsCondition, NotCondition, PathOperand
from wf_core.models.input_bindings import (
    ArrayExpression,
    InputExpression,
    InputExpressionBinding,
    InputPathBinding,
    ObjectExpression,
    PathExpression,
    StepInputBinding,
)
from wf_core.models.reducers import ReducerRef
from wf_core.models.schemas import NodeDef, StateSchema
from wf_core.models.steps import (
    ConditionNode,
    EndNode,
    ForeachNode,
    InterruptNode,
    NodeUse,
    OutputBinding,
    Step,
    SubgraphNode,
    WaitNode,
)
from wf_core.models.workflow import Workflow
from wf_core.models.workflow_refs import WorkflowRef
from wf_core.paths import GraphSourcePath, StatePath
from wf_core.reducers import DEFAULT_REDUCER, ReducerDefinition, reducer_table
from wf_core.retry_rules import RetryRules, retry_rules
from wf_core.run_state import RuntimeScope
from wf_core.schema_checks import SchemaCheck
from wf_core.tokens import END


@dataclass(frozen=True, slots=True)
class FieldRule:
    """How one declared state field is merged and checked."""

    reducer: ReducerRef
    check: SchemaCheck
    traced: bool = True
    """Whether the trace shows what is written there."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What a step, and every control step that may follow it without a handler, reads of its scope.

    A hint that saves round trips: what it misses costs one more load, never correctness.
    """

    state: frozenset[str] = frozenset()
    whole_state: bool = False
    input: bool = False

    def __or__(self, other: Needs) -> Needs:
        return Needs(self.state | other.state, self.whole_state or other.whole_state, self.input or other.input)


@dataclass(frozen=True, slots=True)
class NodeContract:
    """A node definition with its schemas compiled."""

    definition: NodeDef
    input: SchemaCheck
    output: SchemaCheck


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """How long a node step may take, in seconds; None is for ever. Core has no clock: a host keeps them."""

    attempt: int | None = None
    total: int | None = None
    queue: int | None = None
    heartbeat: int | None = None

    @property
    def none(self) -> bool:
        """Whether there is no limit at all."""
        return (self.attempt, self.total, self.queue, self.heartbeat) == (None, None, None, None)


@dataclass(frozen=True, slots=True)
class BoundaryContract:
    """The two schemas of a subgraph step, compiled."""

    input: SchemaCheck
    output: SchemaCheck


@dataclass(frozen=True, slots=True)
class InterruptContract:
    """The request schema of an interrupt step, compiled. The resume schema is compiled from the stored request."""

    request: SchemaCheck


@dataclass(frozen=True, slots=True)
class Plan:
    """One workflow, indexed by step id and route."""

    workflow: Workflow
    digest: str
    steps: Mapping[str, Step]
    positions: Mapping[str, int]
    routes: Mapping[tuple[str, str], str]
    contracts: Mapping[str, NodeContract]
    interrupts: Mapping[str, InterruptContract]
    boundaries: Mapping[str, BoundaryContract]
    fields: Mapping[tuple[str, ...], FieldRule]
    fields_below: Mapping[tuple[str, ...], tuple[tuple[str, ...], ...]]
    """The declared fields below each place that has any, deepest first."""
    needs: Mapping[str, Needs]
    retries: Mapping[str, RetryRules]
    """When each node step is tried again."""
    time_limits: Mapping[str, TimeLimits]
    """How long each node step may take; those without a limit are left out."""
    queues: Mapping[str, str]
    """The queue of each node step whose capability names one."""
    reducers: Mapping[str, ReducerDefinition]
    input_check: SchemaCheck
    output_check: SchemaCheck

    def step(self, node_id: str) -> Step:
        """The step of that id; :class:`WorkflowExecutionError` when the workflow has none."""
        step = self.steps.get(node_id)
        if step is None:
            raise WorkflowExecutionError(
                f"workflow {self.workflow.name!r} has no step {node_id!r}",
                code="unknown_step",
                path=f"nodes[{node_id}]",
            )
        return step

    def route(self, node_id: str, outcome: str) -> str:
        """Where the outcome leads: a step id or END; an error when no edge says so."""
        target = self.routes.get((node_id, outcome))
        if target is None:
            raise WorkflowExecutionError(
                f"step {node_id!r} has no edge for outcome {outcome!r}",
                code="missing_edge",
                path=f"nodes[{node_id}]",
                hint=f"add an edge from {node_id!r} with outcome {outcome!r}",
            )
        return target

    def fields_to_check(self, path: StatePath) -> Iterator[tuple[str, ...]]:
        """The declared fields that a write there may break: those below it, deepest first, then the exactly declared
        one or else the nearest declared above it."""
        yield from self.fields_below.get(path.parts, ())
        for n in range(len(path.parts), 0, -1):
            if path.parts[:n] in self.fields:
                yield path.parts[:n]
                return

    def is_traced(self, path: StatePath) -> bool:
        """Whether the trace shows a write there. The nearest declared field decides, and any hidden one below it."""
        return all(self.fields[declared].traced for declared in self.fields_to_check(path))

    def reducer_for(self, path: StatePath) -> ReducerRef:
        """The reducer declared at exactly this path; parents and children lend nothing."""
        rule = self.fields.get(path.parts)
        return rule.reducer if rule is not None else DEFAULT_REDUCER


class Program:
    """A workflow with everything it can enter: its own plan, and the prepared child workflows by lookup key.

    One flat mapping of children serves every depth. A child that is no valid workflow is an error when it is entered.
    Every step of all plans has one position, by which store records name it.
    """

    def __init__(self, root: Plan, children: Mapping[str, Plan | ValidationFailed] | None = None) -> None:
        self.root = root
        self.children = dict(children or {})
        self._offsets: dict[str, int] = {}
        self._plans: list[tuple[int, Plan]] = [(0, root)]
        offset = len(root.workflow.nodes)
        for key in sorted(self.children):
            plan = self.children[key]
            if isinstance(plan, Plan):
                self._offsets[key] = offset
                self._plans.append((offset, plan))
                offset += len(plan.workflow.nodes)

    def for_scope(self, scope: RuntimeScope | None) -> Plan:
        """The plan that owns a scope."""
        return self.root if scope is None or scope.workflow_ref is None else self.child(scope.workflow_ref)

    def child(self, ref: WorkflowRef) -> Plan:
        """The prepared child of that name or artifact."""
        plan = self.children.get(ref.display)
        if plan is None:
            raise WorkflowExecutionError(
                f"no prepared child workflow {ref.display!r}",
                code="child_workflow_missing",
                hint="pass it in subgraphs, or publish it before the run is started",
            )
        if isinstance(plan, ValidationFailed):
            raise WorkflowExecutionError(
                f"the prepared child workflow {ref.display!r} is not valid: {plan.reason}",
                code="child_workflow_invalid",
            )
        return plan

    def position(self, scope: RuntimeScope | None, node_id: str) -> int:
        """The position of a step of the workflow that a scope runs."""
        plan = self.for_scope(scope)
        plan.step(node_id)
        offset = 0 if scope is None or scope.workflow_ref is None else self._offsets[scope.workflow_ref.display]
        return offset + plan.positions[node_id]

    def steps(self) -> Iterator[Step]:
        """Every step of the workflow and of its children."""
        for _, plan in self._plans:
            yield from plan.workflow.nodes

    def step_at(self, position: int) -> tuple[Plan, Step]:
        """The step of a position, and the plan it belongs to."""
        for offset, plan in reversed(self._plans):
            if offset <= position < offset + len(plan.workflow.nodes):
                return plan, plan.workflow.nodes[position - offset]
        raise WorkflowExecutionError(f"no step has the position {position}", code="damaged", path="f")


@dataclass(frozen=True, slots=True)
class ValidationFailed:
    """Stands for a prepared child that is no valid workflow."""

    reason: str


def workflow_digest(workflow: Workflow) -> str:
    """SHA-256 over the canonical JSON of the document, as ``sha256:<hex>``."""
    return document_digest(workflow.model_dump(mode="json", by_alias=True))


def document_digest(document: Mapping[str, Any]) -> str:
    """The digest of a workflow's JSON document as it is, whatever models of another version would make of it."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def compile_plan(
    workflow: Workflow, *, reducers: Mapping[str, ReducerDefinition] | None = None, digest: str | None = None
) -> Plan:
    """Indexes a workflow that has passed validation and compiles its schemas. ``digest`` is its own where not given."""
    steps: dict[str, Step] = {step.id: step for step in workflow.nodes}
    routes = {(edge.from_, edge.outcome): edge.to for edge in workflow.edges}
    fields = compile_fields(workflow.state_schema)
    return Plan(
        workflow=workflow,
        digest=digest or workflow_digest(workflow),
        steps=steps,
        positions={step.id: i for i, step in enumerate(workflow.nodes)},
        routes=routes,
        contracts={
            d.name: NodeContract(
                d, SchemaCheck(d.input_schema.as_json_schema()), SchemaCheck(d.output_schema.as_json_schema())
            )
            for d in workflow.node_defs
        },
        interrupts={
            step.id: InterruptContract(SchemaCheck(step.request_schema))
            for step in workflow.nodes
            if isinstance(step, InterruptNode)
        },
        boundaries={
            step.id: BoundaryContract(
                SchemaCheck(step.input_schema.as_json_schema()), SchemaCheck(step.output_schema.as_json_schema())
            )
            for step in workflow.nodes
            if isinstance(step, SubgraphNode)
        },
        fields=fields,
        fields_below=_fields_below(fields),
        needs=_all_needs(workflow, steps, routes, fields),
        retries=_all_retries(workflow),
        time_limits=_all_time_limits(workflow),
        queues=_all_queues(workflow),
        reducers=reducer_table(reducers),
        input_check=SchemaCheck(workflow.input_schema.as_json_schema()),
        output_check=SchemaCheck(workflow.output_schema.as_json_schema()),
    )


def _all_retries(workflow: Workflow) -> dict[str, RetryRules]:
    definitions = {definition.name: definition.retry for definition in workflow.node_defs}
    return {
        step.id: retry_rules(step.retry, definitions.get(step.node))
        for step in workflow.nodes
        if isinstance(step, NodeUse)
    }


def _all_time_limits(workflow: Workflow) -> dict[str, TimeLimits]:
    definitions = {definition.name: definition for definition in workflow.node_defs}
    found: dict[str, TimeLimits] = {}
    for step in workflow.nodes:
        if isinstance(step, NodeUse):
            own, shared = _time_limits(step), _time_limits(definitions.get(step.node))
            limits = TimeLimits(
                *(mine if mine is not None else theirs for mine, theirs in zip(own, shared, strict=True))
            )
            if not limits.none:
                found[step.id] = limits
    return found


def _all_queues(workflow: Workflow) -> dict[str, str]:
    named = {definition.name: definition.queue for definition in workflow.node_defs if definition.queue is not None}
    return {step.id: named[step.node] for step in workflow.nodes if isinstance(step, NodeUse) and step.node in named}


def _time_limits(holder: NodeUse | NodeDef | None) -> tuple[int | None, ...]:
    if holder is None:
        return (None,) * 4
    return (
        holder.timeout_seconds,
        holder.total_timeout_seconds,
        holder.queue_timeout_seconds,
        holder.heartbeat_seconds,
    )


def compile_fields(schema: StateSchema) -> dict[tuple[str, ...], FieldRule]:
    """The declared state fields by path segments."""
    return {
        path.parts: FieldRule(decl.reducer, SchemaCheck(decl.validation_schema.as_json_schema()), decl.trace)
        for path, decl in schema.field_index().items()
    }


def _fields_below(fields: Mapping[tuple[str, ...], FieldRule]) -> dict[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    below: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for parts in fields:
        for n in range(1, len(parts)):
            below.setdefault(parts[:n], []).append(parts)
    return {parts: tuple(sorted(found, key=len, reverse=True)) for parts, found in below.items()}


def handler_name(step: Step) -> str | None:
    """The handler a step needs a worker for, or None for a control step that the kernel walks through."""
    return step.node if isinstance(step, NodeUse) else None


# ---- read sets

_FOLLOWED_BY_WORKER: Final = (NodeUse,)


def _all_needs(
    workflow: Workflow,
    steps: Mapping[str, Step],
    routes: Mapping[tuple[str, str], str],
    fields: Mapping[tuple[str, ...], FieldRule],
) -> dict[str, Needs]:
    own = {step_id: _own_needs(step, fields) for step_id, step in steps.items()}
    owners = analyze_control_regions(workflow).owner_stack_by_node
    onward: dict[str, set[str]] = {step_id: set() for step_id in steps}
    for (source, outcome), target in routes.items():
        if source in onward and _walk_goes_on(steps, owners, source, outcome, target):
            onward[source].add(target)
    at_end = _output_needs(workflow)
    return {step_id: _closure(step_id, steps, own, onward, at_end) for step_id in steps}


def _walk_goes_on(
    steps: Mapping[str, Step], owners: Mapping[str, tuple[str, ...]], source: str, outcome: str, target: str
) -> bool:
    """Whether the same transition may walk over the edge.

    It does not into an item of a concurrent foreach, which the store makes, nor out of one: an arrival reads nothing
    of the list. (If it seemed to, every item would be sent the whole list.) Nor past an interrupt, which waits.
    """
    step, to = steps[source], steps.get(target)
    if isinstance(step, InterruptNode):
        return False
    if isinstance(step, ForeachNode) and step.mode == "concurrent" and outcome == "loop":
        return False
    returns = owners.get(source, ())[-1:] == (target,)
    return not (returns and isinstance(to, ForeachNode) and to.mode == "concurrent")


def _closure(
    start: str, steps: Mapping[str, Step], own: Mapping[str, Needs], onward: Mapping[str, set[str]], at_end: Needs
) -> Needs:
    needs, seen, queue = own[start], {start}, list(onward[start])
    while queue:
        target = queue.pop()
        if target == END or isinstance(steps.get(target), EndNode):
            needs |= at_end
        if target in seen or target not in steps:
            continue
        seen.add(target)
        step = steps[target]
        if isinstance(step, _FOLLOWED_BY_WORKER):
            continue
        needs |= own[target]
        if not isinstance(step, WaitNode):  # whoever goes on after it reads anew
            queue.extend(onward[target])
    return needs


def _own_needs(step: Step, fields: Mapping[tuple[str, ...], FieldRule]) -> Needs:
    if isinstance(step, NodeUse):
        return _read(_binding_paths(step.input)) | _written(step.output, fields)
    if isinstance(step, ConditionNode):
        return _read(condition_paths(step.check))
    if isinstance(step, ForeachNode):
        return _read([step.over])
    if isinstance(step, InterruptNode):
        return _read(_binding_paths(step.request))
    if isinstance(step, SubgraphNode):
        return _read(_binding_paths(step.input)) | _written(step.output, fields)
    if isinstance(step, WaitNode) and isinstance(step.until, GraphSourcePath):
        return _read([step.until])
    return Needs()


def _output_needs(workflow: Workflow) -> Needs:
    if workflow.output:
        return _read(_binding_paths(workflow.output))
    return Needs(state=frozenset(workflow.output_schema.properties))


def _read(paths: Iterator[GraphSourcePath] | list[GraphSourcePath]) -> Needs:
    state: set[str] = set()
    whole = reads_input = False
    for path in paths:
        if path.root == "input":
            reads_input = True
        elif path.root == "state":
            state.update(path.parts[:1])
            whole = whole or not path.parts
    return Needs(frozenset(state), whole, reads_input)


def _written(bindings: list[OutputBinding], fields: Mapping[tuple[str, ...], FieldRule]) -> Needs:
    """The fields whose present value a write reads: all but a plain replacement of a whole top-level field."""
    state: set[str] = set()
    for binding in bindings:
        parts = binding.target.parts
        rule = fields.get(parts)
        if len(parts) > 1 or (rule is not None and rule.reducer.name != DEFAULT_REDUCER.name):
            state.update(parts[:1])
    return Needs(frozenset(state))


def _binding_paths(bindings: Any) -> Iterator[GraphSourcePath]:
    binding: StepInputBinding
    for binding in bindings:
        if isinstance(binding, InputPathBinding):
            yield binding.path
        elif isinstance(binding, InputExpressionBinding):
            yield from expression_paths(binding.expression)


def expression_paths(expression: InputExpression) -> Iterator[GraphSourcePath]:
    """Every path that an input expression reads."""
    if isinstance(expression, PathExpression):
        yield expression.path
    elif isinstance(expression, ArrayExpression):
        for item in expression.items:
            yield from expression_paths(item)
    elif isinstance(expression, ObjectExpression):
        for item in expression.fields.values():
            yield from expression_paths(item)


def condition_paths(condition: Condition) -> Iterator[GraphSourcePath]:
    """Every path that a condition reads."""
    if isinstance(condition, ExistsCondition):
        yield condition.path
    elif isinstance(condition, NotCondition):
        yield from condition_paths(condition.arg)
    elif isinstance(condition, BinaryCondition):
        for operand in (condition.left, condition.right):
            if isinstance(operand, PathOperand):
                yield operand.path
    else:
        for argument in condition.args:
            yield from condition_paths(argument)
