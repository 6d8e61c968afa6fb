"""Small workflows for tests of analysis and validation: a graph in one line per edge, details where a test needs them.

A graph is written as ``"each.loop -> work"`` lines. Steps named in ``foreach`` are loops over ``input.items``; every
other name that is not described otherwise is a step of the node ``work``, which takes and gives a field ``value``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wf_core.models import Workflow
from wf_core.tokens import END
from wf_core.validation import ValidationIssue, ValidationIssueCode, validate_workflow

ITEM_SCHEMA: dict[str, Any] = {"type": "object", "properties": {"name": {"type": "string"}}}

INPUT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "items": {"type": "array", "items": ITEM_SCHEMA},
        "value": {"type": "string"},
    },
}
STATE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "value": {"type": "string"},
        "values": {"type": "array", "reducer": "wf.std.append"},
        "errors": {"type": "array"},
    },
}
OUTPUT_SCHEMA: dict[str, Any] = {"type": "object", "properties": {"value": {}}}

WORK: dict[str, Any] = {
    "name": "work",
    "input_schema": {"type": "object", "properties": {"value": {}, "other": {}}},
    "output_schema": {"type": "object", "properties": {"value": {}, "other": {}}},
    "outcomes": ["ok"],
}


def foreach(step_id: str, over: str = "input.items", **changes: Any) -> dict[str, Any]:
    """A serial loop whose alias is its id with ``_item`` behind it."""
    return {"id": step_id, "type": "foreach", "over": over, "as": f"{step_id}_item", **changes}


def node(step_id: str, **changes: Any) -> dict[str, Any]:
    """A step of the node ``work``."""
    return {"id": step_id, "type": "node", "node": "work", **changes}


def condition(step_id: str, check: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A choice, by default on whether ``input.value`` exists."""
    return {"id": step_id, "type": "condition", "check": check or {"op": "exists", "path": "input.value"}}


def end(step_id: str, outcome: str = "ok") -> dict[str, Any]:
    """An end step."""
    return {"id": step_id, "type": "end", "outcome": outcome}


def reads(path: str, target: str = "value") -> dict[str, Any]:
    """A path binding."""
    return {"target": target, "path": path}


def workflow(
    routes: Sequence[str], steps: Sequence[Mapping[str, Any]] = (), *, start: str | None = None, **changes: Any
) -> Workflow:
    """A workflow of the described steps in their order, followed by a plain node for every other name."""
    edges = [_edge(route) for route in routes]
    described = [dict(step) for step in steps]
    known = {step["id"] for step in described} | {END}
    for edge in edges:
        for name in (edge["from"], edge["to"]):
            if name not in known:
                known.add(name)
                described.append(node(name))
    document: dict[str, Any] = {
        "name": "example",
        "input_schema": INPUT_SCHEMA,
        "state_schema": STATE_SCHEMA,
        "output_schema": OUTPUT_SCHEMA,
        "node_defs": [WORK],
        "start": start or described[0]["id"],
        "nodes": described,
        "edges": edges,
    }
    return Workflow.model_validate({**document, **changes})


def found(checked: Workflow) -> list[tuple[str, str]]:
    """Code and place of every issue."""
    return [(issue.code.value, issue.path) for issue in validate_workflow(checked).errors]


def issue_of(checked: Workflow, code: ValidationIssueCode) -> ValidationIssue:
    """The one issue of a code."""
    [issue] = [issue for issue in validate_workflow(checked).errors if issue.code is code]
    return issue


def _edge(route: str) -> dict[str, str]:
    source, target = (side.strip() for side in route.split("->"))
    step_id, _, outcome = source.rpartition(".")
    return {"from": step_id, "outcome": outcome, "to": END if target == "END" else target}
