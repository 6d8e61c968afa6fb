"""Start and edges: they name existing steps and declared outcomes, and no outcome is left without an edge."""

from __future__ import annotations

from wf_core.analysis.graph import Route, raw, texts
from wf_core.models.workflow import Edge
from wf_core.tokens import END
from wf_core.validation.bindings import Facts, checked_list, hint_for_name, shown
from wf_core.validation.issues import ValidationIssueCode

DEFAULT_OUTCOME = "ok"


def check_start(facts: Facts) -> None:
    """The start is a step."""
    start = raw(facts.workflow.start)
    if facts.graph.start is None:
        hint = hint_for_step(start, facts) if isinstance(start, str) else None
        facts.report.add(ValidationIssueCode.UNKNOWN_START, "start", f"start {shown(start)} is no step", hint)


def check_edges(facts: Facts) -> None:
    """Each edge by itself, in the order of the list."""
    _report_malformed_edges(facts)
    seen: set[tuple[str, str]] = set()
    for route in facts.graph.routes:
        key = (route.source, route.outcome)
        if key in seen:
            facts.report.add(
                ValidationIssueCode.DUPLICATE_EDGE,
                f"edges[{route.index}]",
                f"step {route.source!r} has more than one edge for outcome {route.outcome!r}",
            )
        seen.add(key)
        _check_source(route, facts)
        _check_target(route, facts)


def check_missing_edges(facts: Facts) -> None:
    """Every outcome that a reachable step declares has an edge."""
    reachable = facts.graph.reachable()
    for step_id, step in facts.graph.steps.items():
        outcomes = facts.graph.outcomes_of(step)
        if step_id not in reachable or outcomes is None:
            continue
        wired = {route.outcome for route in facts.graph.routes_from(step_id)}
        missing = [outcome for outcome in outcomes if outcome not in wired]
        if missing:
            names = ", ".join(map(repr, missing))
            facts.report.add(
                ValidationIssueCode.MISSING_OUTCOME_EDGE,
                f"nodes[{step_id}]",
                f"step {step_id!r} has no edge for: {names}",
                f"add an edge from {step_id!r} for each of: {names}",
            )


def hint_for_step(wanted: str, facts: Facts) -> str | None:
    """The step id that was probably meant, if there is one like it."""
    hint = hint_for_name(wanted, list(facts.graph.steps), "step")
    return hint if hint.startswith("did you mean") else None


def _report_malformed_edges(facts: Facts) -> None:
    for index, edge in enumerate(checked_list(facts.workflow.edges, "edges", facts.report)):
        if not isinstance(edge, Edge):
            message = f"expected an edge, found {shown(edge)}"
            facts.report.add(ValidationIssueCode.MALFORMED_MODEL, f"edges[{index}]", message)
            continue
        values: dict[str, object] = {"from": edge.from_, "outcome": edge.outcome, "to": edge.to}
        for name, value in values.items():
            if not isinstance(value, str):
                message = f"expected text, found {shown(value)}"
                facts.report.add(ValidationIssueCode.MALFORMED_MODEL, f"edges[{index}].{name}", message)


def _check_source(route: Route, facts: Facts) -> None:
    step = facts.graph.steps.get(route.source)
    if step is None:
        facts.report.add(
            ValidationIssueCode.UNKNOWN_EDGE_SOURCE,
            f"edges[{route.index}].from",
            f"edge leaves unknown step {route.source!r}",
            hint_for_step(route.source, facts),
        )
        return
    outcomes = facts.graph.outcomes_of(step)
    if outcomes is not None and route.outcome not in outcomes:
        declared = ", ".join(map(repr, outcomes)) or "none"
        facts.report.add(
            ValidationIssueCode.UNDECLARED_EDGE_OUTCOME,
            f"edges[{route.index}].outcome",
            f"step {route.source!r} does not declare outcome {route.outcome!r}",
            f"use a declared outcome ({declared}), or delete the edge",
        )


def _check_target(route: Route, facts: Facts) -> None:
    location = f"edges[{route.index}].to"
    if route.target == END:
        if DEFAULT_OUTCOME not in texts(facts.workflow.outcomes):
            facts.report.add(
                ValidationIssueCode.UNDECLARED_WORKFLOW_OUTCOME,
                location,
                f"an edge to {END} ends the workflow with {DEFAULT_OUTCOME!r}, which it does not declare",
                f"add {DEFAULT_OUTCOME!r} to the workflow's outcomes, or lead to an end step with a declared outcome",
            )
    elif route.target not in facts.graph.steps:
        facts.report.add(
            ValidationIssueCode.UNKNOWN_EDGE_DESTINATION,
            location,
            f"edge leads to unknown step {route.target!r}",
            hint_for_step(route.target, facts),
        )
