"""The workflow builder: steps, routes and contracts, put together in Python and compiled to a workflow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal, Self

from wf_core.authoring.bindings import (
    StepInputs,
    StepOutputs,
    WorkflowOutputs,
    state_target,
    step_inputs,
    step_outputs,
    workflow_outputs,
)
from wf_core.authoring.decisions import Case, DecisionResult, DecisionTargets, MatchCases, choice_cases, match_cases
from wf_core.authoring.expressions import CheckLike, SourceLike, condition_from, source_path
from wf_core.authoring.graph import BranchRef, BranchResult, HandleResult, StepGraph, StepRef, step_id_of
from wf_core.authoring.name_bindings import inputs_by_name, outputs_by_name
from wf_core.authoring.nodes import (
    AsyncHandler,
    NodeSpec,
    SyncHandler,
    build_async_registry,
    build_registry,
)
from wf_core.authoring.outcomes import checked_outcomes
from wf_core.authoring.reducers import AuthoredReducer, ReducerCatalog
from wf_core.authoring.schemas import SchemaLike, schema_ref_from, state_schema_from
from wf_core.authoring.standard import RUNTIME_ERROR
from wf_core.authoring.subgraphs import PreparedChild, PreparedChildren
from wf_core.errors import WorkflowExecutionError
from wf_core.instants import milliseconds
from wf_core.models.conditions import Condition
from wf_core.models.input_bindings import InputBinding, InputValueBinding, StepInputBinding
from wf_core.models.refs import CapabilityRef
from wf_core.models.retries import RetryPolicy
from wf_core.models.schemas import NodeDef
from wf_core.models.steps import (
    ConditionNode,
    EndNode,
    ForeachConcurrentPolicy,
    ForeachItemErrorPolicy,
    ForeachNode,
    InterruptNode,
    JoinNode,
    NodeUse,
    OutputBinding,
    SubgraphNode,
    WaitNode,
)
from wf_core.models.workflow import Workflow
from wf_core.models.workflow_refs import WorkflowRef, workflow_ref_from
from wf_core.paths import LocalPath
from wf_core.plan import condition_paths
from wf_core.reducers import ReducerDefinition
from wf_core.run_limits import RunLimits
from wf_core.run_state import RunState, TraceLevel
from wf_core.runtime import Clock, execute_workflow, execute_workflow_async, resume_workflow, resume_workflow_async
from wf_core.tokens import END
from wf_core.validation import ValidationReport

DEFAULT_KEY: Final = "default"

ForeachMode = Literal["serial", "concurrent"]


class WorkflowBuilder:
    """Puts a workflow together. Steps stand in the order of the calls that made them.

    A step is referred to by the object that made it or by its id. Mistakes in the graph are no exceptions: they are
    in the report of :meth:`validate_local`.
    """

    def __init__(
        self,
        name: str,
        input_schema: SchemaLike,
        state_schema: SchemaLike,
        output_schema: SchemaLike,
        outcomes: Sequence[str] = ("ok",),
        start: StepRef | None = None,
        reducers: ReducerCatalog | Iterable[AuthoredReducer] | None = None,
    ) -> None:
        self.name = name
        self._input_schema = schema_ref_from(input_schema)
        self._state_schema = state_schema_from(state_schema)
        self._output_schema = schema_ref_from(output_schema)
        self._outcomes = checked_outcomes(outcomes, f"workflow {name!r}")
        self._start = None if start is None else step_id_of(start)
        self._output: list[InputBinding] = []
        self._node_defs: list[NodeDef] = []
        self._specs: dict[str, NodeSpec[Any, Any]] = {}
        self._graph = StepGraph()
        self._children = PreparedChildren()
        catalog = reducers if isinstance(reducers, ReducerCatalog) else ReducerCatalog.from_reducers(*(reducers or ()))
        self._reducers = dict(catalog.definitions)

    @classmethod
    def from_workflow(cls, workflow: Workflow, *, node_specs: Iterable[NodeSpec[Any, Any]] = ()) -> Self:
        """A builder that goes on with a workflow; compiled at once it gives an equal one.

        ``node_specs`` are the capabilities behind its node definitions, for local runs; the workflows that it enters
        are prepared with :meth:`prepare_subgraph`.
        """
        source = workflow.model_copy(deep=True)
        builder = cls(source.name, source.input_schema, source.state_schema, source.output_schema, start=source.start)
        # As they stand: making them anew would not keep every keyword as it was written.
        builder._input_schema, builder._output_schema = source.input_schema, source.output_schema
        builder._state_schema, builder._outcomes = source.state_schema, source.outcomes
        builder._output, builder._node_defs = source.output, source.node_defs
        for step in source.nodes:
            builder._graph.add(step)
        for edge in source.edges:
            builder._graph.connect(edge.from_, edge.outcome, edge.to)
        defined = {definition.name for definition in source.node_defs}
        # Decisions without a default use it; an author has no reason to pass it in.
        builder._specs = {spec.name: spec for spec in (RUNTIME_ERROR, *node_specs) if spec.name in defined}
        return builder

    # --- Steps --------------------------------------------------------------------------------------------------------

    def use(
        self,
        spec: NodeSpec[Any, Any],
        *,
        id: str | None = None,
        input: StepInputs | None = None,
        output: StepOutputs | None = None,
        desc: str | None = None,
        retry: int | RetryPolicy | None = None,
        timeout_seconds: int | None = None,
        total_timeout_seconds: int | None = None,
        queue_timeout_seconds: int | None = None,
        heartbeat_seconds: int | None = None,
    ) -> NodeUse:
        """A step that calls a capability.

        Omitted bindings are found by name: an input field in the state, else in the workflow's input, else it stays
        unbound; an output field in the state. An empty list means no bindings. ``retry`` and time limits that
        are left out are those of the capability. ``ValueError`` when another capability of the same name is in use.
        """
        definition = self._definition(spec)
        step = self._add_use(
            definition.name,
            id=id,
            input=inputs_by_name(definition, state=self._state_schema, workflow_input=self._input_schema)
            if input is None
            else step_inputs(input),
            output=outputs_by_name(definition, state=self._state_schema) if output is None else step_outputs(output),
            desc=spec.description if desc is None else desc,
            retry=retry,
            timeout_seconds=timeout_seconds,
            total_timeout_seconds=total_timeout_seconds,
            queue_timeout_seconds=queue_timeout_seconds,
            heartbeat_seconds=heartbeat_seconds,
        )
        self._register(spec, definition)  # last: a refused step leaves nothing behind
        return step

    def use_ref(
        self,
        ref: str | CapabilityRef,
        *,
        id: str | None = None,
        input: StepInputs = (),
        output: StepOutputs = (),
        desc: str | None = None,
        retry: int | RetryPolicy | None = None,
        timeout_seconds: int | None = None,
        total_timeout_seconds: int | None = None,
        queue_timeout_seconds: int | None = None,
        heartbeat_seconds: int | None = None,
    ) -> NodeUse:
        """A step that calls a capability resolved elsewhere: nothing is registered, nothing is bound by name."""
        return self._add_use(
            str(ref),
            id=id,
            input=step_inputs(input),
            output=step_outputs(output),
            desc=desc,
            retry=retry,
            timeout_seconds=timeout_seconds,
            total_timeout_seconds=total_timeout_seconds,
            queue_timeout_seconds=queue_timeout_seconds,
            heartbeat_seconds=heartbeat_seconds,
        )

    def subgraph(
        self,
        workflow: Workflow,
        *,
        id: str | None = None,
        input: StepInputs = (),
        output: StepOutputs = (),
        workflow_ref: WorkflowRef | str | Mapping[str, Any] | None = None,
        desc: str | None = None,
    ) -> SubgraphNode:
        """A step that runs another workflow, such as :meth:`prepare_subgraph` gives, and has its outcomes.

        The child sees what ``input`` binds and nothing else of its caller; nothing is bound by name. ``workflow_ref``
        is its name, or the name and version it is published under, ``{"artifact_id", "version"}``; left out it is
        the workflow's name.
        """
        if not isinstance(workflow, Workflow):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers are not all typed
            raise TypeError(f"unsupported child workflow {workflow!r}: pass a workflow, as prepare_subgraph gives it")
        ref = WorkflowRef(name=workflow.name) if workflow_ref is None else workflow_ref_from(workflow_ref)
        return self._graph.add(
            SubgraphNode(
                id=self._graph.free_id(id, ref.name or ref.artifact_id or ref.display),
                workflow=ref,
                desc=desc,
                input_schema=workflow.input_schema.model_copy(deep=True),
                output_schema=workflow.output_schema.model_copy(deep=True),
                input=step_inputs(input),
                output=step_outputs(output),
                outcomes=list(workflow.outcomes),
            )
        )

    def prepare_subgraph(self, child: WorkflowBuilder) -> Workflow:
        """Compile a child and keep it for local runs, with its capabilities, its reducers and its own children.

        It is kept as it stands now. ``ValueError`` when another child of the same name is prepared, here or below the
        child, or when one has the name of this workflow.
        """
        workflow = child.compile()
        prepared = PreparedChild(workflow.model_copy(deep=True), dict(child._specs), dict(child._reducers))
        self._children.add(prepared, child._children, caller=self.name)
        return workflow

    def prepared_subgraphs(self) -> tuple[Workflow, ...]:
        """The children that were prepared, and theirs, each behind those it was prepared with.

        Workers run a child that is published: publish these before a run is started.
        """
        return self._children.workflows

    def foreach(
        self,
        *,
        over: SourceLike,
        as_: str,
        id: str | None = None,
        mode: ForeachMode = "serial",
        item_error: ForeachItemErrorPolicy | str | Mapping[str, Any] = "fail",
        concurrent: ForeachConcurrentPolicy | Mapping[str, Any] | None = None,
    ) -> ForeachNode:
        """A loop over a list. Its ``item`` and ``index`` are the paths by which the body reads where it is.

        Route ``loop`` to the body and the body's last outcome back to the loop. ``item_error`` is ``"fail"``,
        ``"skip"``, or ``{"action": "collect", "collect_to": state_path("errors")}``; with the last two there is the
        outcome ``completed_with_errors`` beside ``done``. ``concurrent`` belongs to the concurrent mode.
        """
        if isinstance(item_error, Mapping) and item_error.get("collect_to") is not None:
            item_error = {**item_error, "collect_to": state_target(item_error["collect_to"])}
        return self._graph.add(
            ForeachNode(
                id=self._graph.free_id(id, f"foreach_{as_}"),
                over=source_path(over),
                as_=as_,
                mode=mode,
                item_error=ForeachItemErrorPolicy.model_validate(item_error),
                concurrent=None if concurrent is None else ForeachConcurrentPolicy.model_validate(concurrent),
            )
        )

    def interrupt(
        self,
        *,
        kind: str,
        id: str | None = None,
        request: StepInputs = (),
        resume: StepOutputs = (),
        outcomes: Sequence[str] = ("submitted",),
        request_schema: SchemaLike | None = None,
        resume_schema: SchemaLike | None = None,
        expires_seconds: int | None = None,
    ) -> InterruptNode:
        """A step that waits for an answer from outside.

        ``request`` binds what is asked, ``resume`` writes the answer to the state. The schemas describe objects; a
        given one is the contract of the question or of the answer. Past ``expires_seconds`` no answer is taken: the
        step goes on with ``expired`` where that is one of its outcomes, else it fails.
        """
        schemas = {"request_schema": request_schema, "resume_schema": resume_schema}
        documents: dict[str, Any] = {
            name: schema_ref_from(schema).as_json_schema() for name, schema in schemas.items() if schema is not None
        }
        return self._graph.add(
            InterruptNode(
                id=self._graph.free_id(id, f"interrupt_{kind}"),
                kind=kind,
                request=step_inputs(request),
                resume=step_outputs(resume),
                outcomes=checked_outcomes(outcomes, f"interrupt {kind!r}"),
                expires_seconds=expires_seconds,
                **documents,
            )
        )

    def wait(
        self, *, id: str | None = None, for_seconds: float | None = None, until: SourceLike | datetime | None = None
    ) -> WaitNode:
        """A step that goes on with ``elapsed`` after some seconds, or at a time; it holds no worker meanwhile.

        One of the two. ``until`` is a time with its zone, as a ``datetime`` or as RFC 3339 text, or the path where the
        run finds such a text.
        """
        moment: Any = until
        if isinstance(until, datetime):
            milliseconds(until)  # refuses one without a zone
            moment = until.isoformat()
        elif until is not None and not isinstance(until, str):
            moment = source_path(until)
        return self._graph.add(WaitNode(id=self._graph.free_id(id, "wait"), for_seconds=for_seconds, until=moment))

    def condition(self, *, check: CheckLike, id: str | None = None) -> ConditionNode:
        """A step with the outcomes ``true`` and ``false``."""
        return self._add_condition(condition_from(check), id=id, base=None)

    def join(self, *, id: str | None = None) -> JoinNode:
        """A step that only goes on, with ``done``."""
        return self._graph.add(JoinNode(id=self._graph.free_id(id, "join")))

    def end(self, outcome: str = "ok", *, id: str | None = None) -> EndNode:
        """A step that ends the workflow with one of its outcomes."""
        return self._graph.add(EndNode(id=self._graph.free_id(id, f"end_{outcome}"), outcome=outcome))

    def remove_step(self, step: StepRef) -> None:
        """Take a step out; ``KeyError`` without one, ``ValueError`` naming the routes that still mention it.

        The definition of a capability goes with its last use, and with the entry point the builder has none.
        """
        removed = self._graph.remove(step_id_of(step))
        if self._start == removed.id:
            self._start = None
        if isinstance(removed, NodeUse) and not any(
            isinstance(other, NodeUse) and other.node == removed.node for other in self._graph.steps
        ):
            self._specs.pop(removed.node, None)
            self._node_defs = [definition for definition in self._node_defs if definition.name != removed.node]

    # --- Routes -------------------------------------------------------------------------------------------------------

    def set_entry_point(self, step: StepRef) -> None:
        """The step that a run begins with."""
        self._start = step_id_of(step)

    def connect(self, from_: StepRef, outcome: str, to: BranchRef) -> tuple[StepRef, StepRef]:
        """Append a route, even beside one for the same outcome; gives source and target."""
        source, target = step_id_of(from_), self._target(to)
        self._graph.connect(source, outcome, step_id_of(target))
        return from_, target

    def set_route(self, source: StepRef, outcome: str, target: BranchRef) -> tuple[StepRef, StepRef]:
        """Make this the one route for the outcome; gives source and target."""
        source_id, resolved = step_id_of(source), self._target(target)
        self._graph.set_route(source_id, outcome, step_id_of(resolved))
        return source, resolved

    def remove_route(self, source: StepRef, outcome: str) -> None:
        """Take the route for an outcome out; ``KeyError`` without one."""
        self._graph.remove_route(step_id_of(source), outcome)

    def branch(self, source: StepRef, targets: Mapping[str, BranchRef]) -> BranchResult:
        """Route several outcomes of one step; ``ValueError`` for none."""
        if not targets:
            raise ValueError("a branch needs at least one outcome")
        return BranchResult(
            source, {outcome: self.set_route(source, outcome, target)[1] for outcome, target in targets.items()}
        )

    def handle(self, *branches: tuple[StepRef, str], to: BranchRef) -> HandleResult:
        """Route several steps' outcomes to one step, each by itself; ``ValueError`` for none."""
        if not branches:
            raise ValueError("handle needs at least one (step, outcome)")
        target = self._target(to)
        for source, outcome in branches:
            self.set_route(source, outcome, target)
        return HandleResult(target, branches)

    # --- Decisions ----------------------------------------------------------------------------------------------------

    def when(
        self, check: CheckLike, *, then: BranchRef, otherwise: BranchRef | None = None, id: str | None = None
    ) -> DecisionResult:
        """One condition and its two ways on, ``True`` and ``False``.

        Without ``otherwise`` the step fails when the condition is false. That way on ends outside every loop: in the
        body of a loop, name one.
        """
        return self._decide([Case(True, condition_from(check), then)], otherwise, False, id)

    def choose(
        self, *cases: tuple[CheckLike, BranchRef], default: BranchRef | None = None, id: str | None = None
    ) -> DecisionResult:
        """Conditions asked in order; the first that holds decides. Keys are positions and ``"default"``.

        A missing default fails as in :meth:`when`. ``ValueError`` without cases.
        """
        return self._decide(choice_cases(cases), default, DEFAULT_KEY, id)

    def match(
        self, path: SourceLike, cases: MatchCases, *, default: BranchRef | None = None, id: str | None = None
    ) -> DecisionResult:
        """Values that one path is compared with, in order; the first that is equal decides.

        Values are equal as in Python: 1 matches true. Keys are the values and ``"default"``. A missing default fails
        as in :meth:`when`. ``ValueError`` without cases.
        """
        return self._decide(match_cases(path, cases), default, DEFAULT_KEY, id)

    # --- The workflow as a whole --------------------------------------------------------------------------------------

    def set_output(self, bindings: WorkflowOutputs) -> None:
        """What the workflow's output is made of, in order; without any, state fields of the same names."""
        self._output = workflow_outputs(bindings)

    def set_contract(
        self,
        *,
        input_schema: SchemaLike | None = None,
        state_schema: SchemaLike | None = None,
        output_schema: SchemaLike | None = None,
        outcomes: Sequence[str] | None = None,
    ) -> None:
        """Replace what is given; nothing is replaced when a part of it is refused. Bindings stay as they are."""
        new_input = self._input_schema if input_schema is None else schema_ref_from(input_schema)
        new_state = self._state_schema if state_schema is None else state_schema_from(state_schema)
        new_output = self._output_schema if output_schema is None else schema_ref_from(output_schema)
        new_outcomes = self._outcomes if outcomes is None else checked_outcomes(outcomes, f"workflow {self.name!r}")
        self._input_schema, self._state_schema, self._output_schema = new_input, new_state, new_output
        self._outcomes = new_outcomes

    def compile(self) -> Workflow:
        """The workflow as data, detached from the builder and not validated; an error without an entry point."""
        if self._start is None:
            raise WorkflowExecutionError(
                f"workflow {self.name!r} has no entry point",
                code="entry_point_missing",
                path="start",
                hint="call set_entry_point with its first step",
            )
        return Workflow(
            name=self.name,
            input_schema=self._input_schema,
            state_schema=self._state_schema,
            output_schema=self._output_schema,
            output=self._output,
            node_defs=self._node_defs,
            outcomes=self._outcomes,
            start=self._start,
            nodes=self._graph.steps,
            edges=self._graph.edges,
        ).model_copy(deep=True)

    def validate_local(self) -> ValidationReport:
        """Every fault of the workflow as it stands."""
        return self.compile().validate_structure()

    # --- Local runs ---------------------------------------------------------------------------------------------------

    def registry(self) -> dict[str, SyncHandler]:
        """The handlers of the capabilities in use; ``TypeError`` when one of them is asynchronous."""
        return build_registry(*self._specs.values())

    def async_registry(self) -> dict[str, AsyncHandler]:
        """The handlers of the capabilities in use, for an event loop."""
        return build_async_registry(*self._specs.values())

    def reducer_registry(self) -> dict[str, ReducerDefinition]:
        """The reducers that the builder was given."""
        return dict(self._reducers)

    def execute(
        self,
        input: Mapping[str, Any],
        *,
        limits: RunLimits | None = None,
        clock: Clock | None = None,
        trace: TraceLevel = "full",
    ) -> RunState:
        """Run the workflow in memory until it completes or waits; raises what a step raised.

        ``clock`` says what time it is: needed where a step waits for a time. ``trace`` says how much history is kept.
        """
        workflow = self.compile()
        return execute_workflow(
            workflow,
            dict(input),
            self.registry(),
            reducers=self._reducers,
            subgraphs=self._children.for_run(workflow, build_registry),
            limits=limits,
            clock=clock,
            trace=trace,
        )

    async def execute_async(
        self,
        input: Mapping[str, Any],
        *,
        limits: RunLimits | None = None,
        clock: Clock | None = None,
        trace: TraceLevel = "full",
    ) -> RunState:
        """Like :meth:`execute`, with asynchronous capabilities."""
        workflow = self.compile()
        return await execute_workflow_async(
            workflow,
            dict(input),
            self.async_registry(),
            reducers=self._reducers,
            subgraphs=self._children.for_run(workflow, build_async_registry),
            limits=limits,
            clock=clock,
            trace=trace,
        )

    def resume(
        self,
        run: RunState,
        *,
        payload: Mapping[str, Any] | None = None,
        outcome: str = "submitted",
        clock: Clock | None = None,
        trace: TraceLevel = "full",
    ) -> RunState:
        """Answer the interrupt of a run, or go on with a run that waits for nothing, or for a time that has come."""
        workflow = self.compile()
        return resume_workflow(
            workflow,
            run,
            self.registry(),
            resume_payload=None if payload is None else dict(payload),
            resume_outcome=outcome,
            reducers=self._reducers,
            subgraphs=self._children.for_run(workflow, build_registry),
            clock=clock,
            trace=trace,
        )

    async def resume_async(
        self,
        run: RunState,
        *,
        payload: Mapping[str, Any] | None = None,
        outcome: str = "submitted",
        clock: Clock | None = None,
        trace: TraceLevel = "full",
    ) -> RunState:
        """Like :meth:`resume`, with asynchronous capabilities."""
        workflow = self.compile()
        return await resume_workflow_async(
            workflow,
            run,
            self.async_registry(),
            resume_payload=None if payload is None else dict(payload),
            resume_outcome=outcome,
            reducers=self._reducers,
            subgraphs=self._children.for_run(workflow, build_async_registry),
            clock=clock,
            trace=trace,
        )

    # --- Leaves -------------------------------------------------------------------------------------------------------

    def _definition(self, spec: NodeSpec[Any, Any]) -> NodeDef:
        """The spec's definition: the one in the workflow, or a new one that is not in it yet."""
        if not isinstance(spec, NodeSpec):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers are not all typed
            raise TypeError(f"unsupported capability {spec!r}: make it one with node()")
        known = self._specs.get(spec.name)
        defined = next((definition for definition in self._node_defs if definition.name == spec.name), None)
        if defined is not None and known == spec:
            return defined
        new = spec.to_node_def()
        if known is not None or (defined is not None and defined != new):
            raise ValueError(f"another capability named {spec.name!r} is in use: give this one another name")
        return new if defined is None else defined

    def _register(self, spec: NodeSpec[Any, Any], definition: NodeDef) -> None:
        if spec.name not in self._specs:
            self._specs[spec.name] = spec
            if definition not in self._node_defs:
                self._node_defs.append(definition)

    def _add_use(
        self,
        name: str,
        *,
        id: str | None,
        input: list[StepInputBinding],
        output: list[OutputBinding],
        desc: str | None,
        retry: int | RetryPolicy | None,
        timeout_seconds: int | None,
        total_timeout_seconds: int | None,
        queue_timeout_seconds: int | None,
        heartbeat_seconds: int | None,
    ) -> NodeUse:
        return self._graph.add(
            NodeUse(
                id=self._graph.free_id(id, name),
                node=name,
                desc=desc,
                input=input,
                output=output,
                retry=retry,
                timeout_seconds=timeout_seconds,
                total_timeout_seconds=total_timeout_seconds,
                queue_timeout_seconds=queue_timeout_seconds,
                heartbeat_seconds=heartbeat_seconds,
            )
        )

    def _add_condition(self, check: Condition, *, id: str | None, base: str | None) -> ConditionNode:
        if base is None:
            first = next(condition_paths(check), None)
            base = "condition" if first is None else str(first)
        return self._graph.add(ConditionNode(id=self._graph.free_id(id, base), check=check))

    def _target(self, target: BranchRef) -> StepRef:
        return self.use(target) if isinstance(target, NodeSpec) else target

    def _decide(
        self, cases: Sequence[Case], fallback: BranchRef | None, fallback_key: object, id: str | None
    ) -> DecisionResult:
        """A chain of conditions, each asked when the one before it is false."""
        if not cases:
            raise ValueError("a decision needs at least one case")
        conditions: list[ConditionNode] = []
        targets: list[tuple[object, StepRef]] = []
        for case in cases:
            condition = self._add_condition(case.check, id=None if conditions else id, base=id)
            if conditions:
                self.set_route(conditions[-1], "false", condition)
            _, target = self.set_route(condition, "true", case.target)
            conditions.append(condition)
            targets.append((case.key, target))
        if fallback is None:
            fallback = self._failure(conditions[0])
        _, last = self.set_route(conditions[-1], "false", fallback)
        targets.append((fallback_key, last))
        return DecisionResult(conditions[0], tuple(conditions), DecisionTargets(targets), last)

    def _failure(self, decision: ConditionNode) -> NodeUse:
        message = f"decision {decision.id!r}: no case holds and there is no default"
        failure = self.use(
            RUNTIME_ERROR, input=[InputValueBinding(target=LocalPath(("message",)), value=message)], output=[]
        )
        self.set_route(failure, "ok", END)
        return failure
