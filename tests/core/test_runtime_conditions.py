"""Conditions: what exists, what compares, and when an argument is looked at."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter

from tests.support.engines import trace_of
from tests.support.workflow_documents import condition, workflow
from wf_core.conditions import eval_condition, safe_resolve_path
from wf_core.errors import WorkflowExecutionError
from wf_core.models import Condition
from wf_core.paths import GraphSourcePath
from wf_core.runtime import execute_workflow

STATE = {"null": None, "n": 3, "text": "b", "list": [1], "box": {"deep": 1}}
MISSING = {"path": "state.gone"}


def holds(check: dict[str, Any]) -> bool:
    parsed: Condition = TypeAdapter(Condition).validate_python(check)
    return eval_condition(parsed, STATE, {"i": 1}, {"prior_outcome": "ok", "foreach": {}})


def compare(op: str, left: Any, right: Any) -> dict[str, Any]:
    def operand(value: Any) -> dict[str, Any]:
        return value if isinstance(value, dict) and set(value) == {"path"} else {"value": value}

    return {"op": op, "left": operand(left), "right": operand(right)}


def path(text: str) -> dict[str, str]:
    return {"path": text}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("state.n", True),
        ("state.null", True),
        ("state.gone", False),
        ("state.box.deep", True),
        ("state.n.deep", False),
        ("state.null.deep", False),
        ("state", True),
        ("input.i", True),
        ("context.prior_outcome", True),
        ("context.foreach.each", False),
    ],
)
def test_a_present_null_exists_and_a_missing_path_does_not(text: str, found: bool) -> None:
    assert holds({"op": "exists", "path": text}) is found
    assert holds({"op": "not", "arg": {"op": "exists", "path": text}}) is not found


@pytest.mark.parametrize(
    ("op", "left", "right", "truth"),
    [
        ("eq", path("state.null"), None, True),
        ("ne", path("state.null"), None, False),
        ("eq", path("state.n"), 3, True),
        ("eq", True, 1, True),
        ("ne", path("state.text"), "b", False),
        ("eq", path("state.list"), [1], True),
        ("gt", path("state.n"), 2, True),
        ("ge", path("state.n"), 3, True),
        ("lt", path("state.n"), 3, False),
        ("le", path("state.n"), 3, True),
        ("gt", path("state.text"), "a", True),
        ("eq", path("input.i"), 1, True),
        ("eq", path("context.prior_outcome"), "ok", True),
    ],
)
def test_comparisons(op: str, left: Any, right: Any, truth: bool) -> None:
    assert holds(compare(op, left, right)) is truth


@pytest.mark.parametrize("op", ["eq", "ne", "gt", "ge", "lt", "le"])
def test_a_comparison_with_a_missing_path_fails(op: str) -> None:
    with pytest.raises(
        WorkflowExecutionError, match=r"condition reads a missing path.*state.gone is missing"
    ) as caught:
        holds(compare(op, MISSING, 1))

    assert (caught.value.code, caught.value.path) == ("source_path_missing", "state.gone")


@pytest.mark.parametrize(
    ("left", "right"), [(path("state.text"), 1), (path("state.null"), 1), (path("state.box"), path("state.box"))]
)
@pytest.mark.parametrize("op", ["gt", "ge", "lt", "le"])
def test_values_without_an_order_fail(op: str, left: Any, right: Any) -> None:
    with pytest.raises(WorkflowExecutionError, match="cannot compare") as caught:
        holds(compare(op, left, right))

    assert caught.value.code == "not_comparable"


def test_and_and_or_stop_at_the_first_argument_that_decides() -> None:
    guard, danger = {"op": "exists", "path": "state.gone"}, compare("gt", MISSING, 1)

    assert holds({"op": "and", "args": [guard, danger]}) is False
    assert holds({"op": "or", "args": [{"op": "not", "arg": guard}, danger]}) is True
    with pytest.raises(WorkflowExecutionError):
        holds({"op": "or", "args": [guard, danger]})


def test_a_path_can_be_read_by_itself() -> None:
    found = safe_resolve_path(GraphSourcePath.parse("state.box.deep"), state=STATE, workflow_input={}, context={})

    assert found == 1
    with pytest.raises(WorkflowExecutionError, match=r"state.gone"):
        safe_resolve_path(GraphSourcePath.parse("state.gone"), state=STATE, workflow_input={}, context={})


@pytest.mark.parametrize(("given", "taken"), [({"value": "x"}, "true"), ({}, "false")])
def test_the_predicate_shows_in_the_trace_and_chooses_the_edge(given: dict[str, Any], taken: str) -> None:
    run = execute_workflow(workflow(["check.true -> END", "check.false -> END"], [condition("check")]), given, {})

    assert trace_of(run) == [f"check.{taken} -> __end__"]
    assert run.trace[0].output == {"predicate": taken == "true"}
    assert run.trace[0].step_type == "condition"
