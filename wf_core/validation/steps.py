"""Each step by itself: its id, what it refers to, what it reads and writes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from wf_core.analysis.control_regions import ControlRegionAnalysis
from wf_core.analysis.graph import AnyStep, as_list, as_step, raw, steps_of, texts
from wf_core.context_contracts import RESERVED_CONTEXT_KEYS, SCOPED_CONTEXT_KEY
from wf_core.models.conditions import (
    BinaryCondition,
    ExistsCondition,
    LiteralOperand,
    NotCondition,
    PathOperand,
    VariadicCondition,
)
from wf_core.models.steps import (
    ConditionNode,
    EndNode,
    ForeachConcurrentPolicy,
    ForeachItemErrorPolicy,
    ForeachNode,
    InterruptNode,
    JoinNode,
    NodeUse,
    SubgraphNode,
    WaitNode,
    is_sound_wait,
)
from wf_core.models.workflow import Workflow
from wf_core.paths import GraphSourcePath
from wf_core.schema_navigation import declares_array, property_names
from wf_core.tokens import END, START
from wf_core.validation.bindings import (
    INTERRUPT_REQUEST_RULES,
    INTERRUPT_RESUME_RULES,
    Facts,
    Malformed,
    PathUse,
    check_inputs,
    check_outputs,
    check_source,
    checked_list,
    hint_for_name,
    shown,
    state_path,
    step_input_rules,
    step_output_rules,
)
from wf_core.validation.issues import ValidationIssueCode, ValidationReport

MAX_CONDITION_DEPTH: Final = 256
"""Levels of nesting in one condition; no document that is deeper can be parsed."""

MAX_CONDITION_NODES: Final = 16_384
"""Conditions in one tree."""


@dataclass(frozen=True, slots=True)
class ConditionPath:
    """A path that a condition reads: ``holder`` is the place of the test or operand, ``location`` that of the path."""

    holder: str
    location: str
    value: object


@dataclass(frozen=True, slots=True)
class NoArguments:
    """The place of an ``and`` or ``or`` without arguments."""

    location: str


def check_steps(facts: Facts) -> None:
    """Every step, in the order of the list."""
    seen: set[str] = set()
    for index, value in enumerate(checked_list(facts.workflow.nodes, "nodes", facts.report)):
        location = f"nodes[{index}]"
        step = as_step(value)
        if step is None:
            message = f"expected a step with an id, found {shown(value)}"
            facts.report.add(ValidationIssueCode.MALFORMED_MODEL, location, message)
            continue
        _check_id(step, location, seen, facts)
        _check_step(step, location, facts)


def check_aliases(workflow: Workflow, regions: ControlRegionAnalysis, report: ValidationReport) -> None:
    """No alias hides another context field: neither a standard one nor that of a loop around its own."""
    aliases: dict[str, object] = {}
    for _, step in steps_of(workflow):
        if isinstance(step, ForeachNode):
            aliases.setdefault(step.id, step.as_)

    for index, step in steps_of(workflow):
        if not isinstance(step, ForeachNode):
            continue
        alias = raw(step.as_)
        around = regions.owner_stack_by_node.get(step.id, ())
        holder = next((owner for owner in around if aliases.get(owner) == alias), None)
        if not isinstance(alias, str) or not alias.strip():
            message = f"foreach {step.id!r} needs a non-empty alias, found {shown(alias)}"
        elif alias in RESERVED_CONTEXT_KEYS or alias == SCOPED_CONTEXT_KEY:
            message = f"alias {alias!r} of foreach {step.id!r} is a reserved context field"
        elif holder is not None:
            message = f"alias {alias!r} of foreach {step.id!r} is the alias of foreach {holder!r} around it"
        else:
            continue
        report.add(ValidationIssueCode.FOREACH_CONTEXT_ALIAS_CONFLICT, f"nodes[{index}].as", message)


def condition_parts(condition: object, location: str) -> Iterator[ConditionPath | NoArguments | Malformed]:
    """Every path that a condition reads, and every place in it that is unsound."""
    # A stack of our own, and limits: a condition that was changed after parsing may even contain itself.
    pending: list[tuple[object, str, int]] = [(condition, location, 1)]
    visited = 0
    while pending:
        current, at, depth = pending.pop()
        visited += 1
        if depth > MAX_CONDITION_DEPTH or visited > MAX_CONDITION_NODES:
            yield Malformed(location, "the condition is nested too deep or has too many parts")
            return
        if isinstance(current, ExistsCondition):
            yield ConditionPath(at, f"{at}.path", current.path)
        elif isinstance(current, NotCondition):
            pending.append((current.arg, f"{at}.arg", depth + 1))
        elif isinstance(current, BinaryCondition):
            yield from _operand_parts(current.left, f"{at}.left")
            yield from _operand_parts(current.right, f"{at}.right")
        elif isinstance(current, VariadicCondition):
            arguments = as_list(current.args)
            if not isinstance(raw(current.args), list):
                yield Malformed(f"{at}.args", f"expected a list, found {shown(current.args)}")
            elif not arguments:
                yield NoArguments(f"{at}.args")
            for index, argument in reversed(list(enumerate(arguments))):
                pending.append((argument, f"{at}.args[{index}]", depth + 1))
        else:
            yield Malformed(at, f"expected a condition, found {shown(current)}")


def _operand_parts(operand: object, at: str) -> Iterator[ConditionPath | Malformed]:
    if isinstance(operand, PathOperand):
        yield ConditionPath(at, f"{at}.path", operand.path)
    elif not isinstance(operand, LiteralOperand):
        yield Malformed(at, f"expected an operand, found {shown(operand)}")


def _check_id(step: AnyStep, location: str, seen: set[str], facts: Facts) -> None:
    if step.id in seen:
        facts.report.add(
            ValidationIssueCode.DUPLICATE_NODE_ID, f"{location}.id", f"step id {step.id!r} is used more than once"
        )
    elif step.id in (START, END):
        facts.report.add(
            ValidationIssueCode.DUPLICATE_NODE_ID, f"{location}.id", f"step id {step.id!r} is a reserved token"
        )
    seen.add(step.id)


def _check_step(step: AnyStep, location: str, facts: Facts) -> None:
    match step:
        case NodeUse():
            _check_node(step, location, facts)
        case SubgraphNode():
            _check_subgraph(step, location, facts)
        case ConditionNode():
            _check_condition(step, location, facts)
        case ForeachNode():
            _check_foreach(step, location, facts)
        case InterruptNode():
            check_inputs(step.request, f"{location}.request", INTERRUPT_REQUEST_RULES, facts)
            check_outputs(step.resume, f"{location}.resume", INTERRUPT_RESUME_RULES, facts)
        case WaitNode():
            _check_wait(step, location, facts)
        case EndNode():
            _check_end(step, location, facts)
        case JoinNode():
            pass


def _check_node(step: NodeUse, location: str, facts: Facts) -> None:
    name = raw(step.node)
    definition = facts.graph.node_defs.get(name) if isinstance(name, str) else None
    if definition is None:
        hint = hint_for_name(name, list(facts.graph.node_defs), "node definition") if isinstance(name, str) else None
        facts.report.add(
            ValidationIssueCode.UNKNOWN_NODE_DEF,
            f"{location}.node",
            f"step {step.id!r} uses unknown node definition {shown(name)}",
            hint if hint is not None and hint.startswith("did you mean") else None,
        )
        return
    check_inputs(step.input, f"{location}.input", step_input_rules(property_names(definition.input_schema)), facts)
    check_outputs(step.output, f"{location}.output", step_output_rules(property_names(definition.output_schema)), facts)


def _check_subgraph(step: SubgraphNode, location: str, facts: Facts) -> None:
    check_inputs(step.input, f"{location}.input", step_input_rules(property_names(step.input_schema)), facts)
    check_outputs(step.output, f"{location}.output", step_output_rules(property_names(step.output_schema)), facts)


def _check_condition(step: ConditionNode, location: str, facts: Facts) -> None:
    for part in condition_parts(step.check, f"{location}.check"):
        if isinstance(part, NoArguments):
            message = f"a condition of step {step.id!r} has no arguments"
            facts.report.add(ValidationIssueCode.EMPTY_CONDITION_ARGS, part.location, message)
        elif isinstance(part, Malformed):
            check_source(part, ValidationIssueCode.INVALID_CONDITION_PATH, facts)
        else:
            check_source(PathUse(part.holder, part.value), ValidationIssueCode.INVALID_CONDITION_PATH, facts)


def _check_foreach(step: ForeachNode, location: str, facts: Facts) -> None:
    check_source(PathUse(f"{location}.over", step.over), ValidationIssueCode.INVALID_FOREACH_SOURCE, facts)
    policy = raw(step.item_error)
    if not isinstance(policy, ForeachItemErrorPolicy):
        message = f"expected an item error policy, found {shown(policy)}"
        facts.report.add(ValidationIssueCode.MALFORMED_MODEL, f"{location}.item_error", message)
    elif policy.action == "collect":
        _check_collect(policy, f"{location}.item_error.collect_to", facts)
    if (step.mode == "concurrent") != isinstance(step.concurrent, ForeachConcurrentPolicy):
        facts.report.add(
            ValidationIssueCode.MALFORMED_MODEL,
            f"{location}.concurrent",
            f"foreach {step.id!r} has mode {shown(step.mode)}; only a concurrent one has a concurrent policy",
            "set the concurrent policy exactly when mode is 'concurrent'",
        )


def _check_wait(step: WaitNode, location: str, facts: Facts) -> None:
    until = raw(step.until)
    if not is_sound_wait(step.for_seconds, until):
        message = f"wait {step.id!r} needs a number of seconds, or a time, or the path of one: one of them"
        facts.report.add(ValidationIssueCode.MALFORMED_MODEL, location, message)
    elif isinstance(until, GraphSourcePath):
        check_source(PathUse(f"{location}.until", until), ValidationIssueCode.INVALID_SOURCE_PATH, facts)


def _check_collect(policy: ForeachItemErrorPolicy, location: str, facts: Facts) -> None:
    code = ValidationIssueCode.INVALID_FOREACH_COLLECT_DESTINATION
    target = state_path(policy.collect_to)
    if target is None:
        message = f"errors are collected to an array state field; {shown(policy.collect_to)} is no state path"
        facts.report.add(code, location, message)
    elif not declares_array(facts.state_document, target.parts):
        facts.report.add(code, location, f"errors are collected to an array state field; {str(target)!r} declares none")


def _check_end(step: EndNode, location: str, facts: Facts) -> None:
    outcome = raw(step.outcome)
    declared = texts(facts.workflow.outcomes)
    if outcome not in declared:
        facts.report.add(
            ValidationIssueCode.UNDECLARED_WORKFLOW_OUTCOME,
            f"{location}.outcome",
            f"step {step.id!r} ends the workflow with {shown(outcome)}, which it does not declare",
            f"add the outcome to the workflow's outcomes, or end with one of: {', '.join(map(repr, declared))}",
        )
