"""Loops and child workflows may be inside one another up to a limit, all of them together."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from tests.support.engines import echo
from tests.support.workflow_documents import foreach, found, issue_of, workflow
from wf_core.errors import WorkflowExecutionError
from wf_core.models import Workflow
from wf_core.run_limits import MAX_NESTING, RunLimits
from wf_core.run_state import RunStatus
from wf_core.runtime import PreparedSubgraph, execute_workflow
from wf_core.validation import ValidationIssueCode

INPUT: dict[str, Any] = {"type": "object", "properties": {"items": {"type": "array"}}}
CONCURRENT: dict[str, Any] = {"mode": "concurrent", "concurrent": {}}


def nested(depth: int, innermost: dict[str, Any] | None = None, mode: dict[str, Any] | None = None) -> Workflow:
    """Loops over the same list inside one another, around a step."""
    names = [f"f{level}" for level in range(depth)]
    inside = innermost or {"id": "work", "type": "node", "node": "work"}
    routes = [f"{outer}.loop -> {inner}" for outer, inner in zip(names, [*names[1:], inside["id"]], strict=True)]
    routes += [f"{inner}.done -> {outer}" for outer, inner in pairwise(names)]
    routes += [f"{inside['id']}.{'done' if inside['type'] == 'foreach' else 'ok'} -> {names[-1]}", "f0.done -> END"]
    steps = [foreach(name, **(mode or {})) for name in names]
    return workflow(routes, [*steps, inside], input_schema=INPUT)


@pytest.mark.parametrize("mode", [{}, CONCURRENT], ids=["serial", "concurrent"])
def test_as_many_loops_as_the_limit_says_are_run(mode: dict[str, Any]) -> None:
    run = execute_workflow(nested(MAX_NESTING, mode=mode), {"items": [1]}, {"work": echo})

    assert run.status is RunStatus.COMPLETED
    assert sum(entry.node_id == "work" for entry in run.trace) == 1


def test_one_loop_more_is_a_mistake_at_the_innermost() -> None:
    issue = issue_of(nested(MAX_NESTING + 1), ValidationIssueCode.NESTING_TOO_DEEP)

    assert issue.path == f"nodes[{MAX_NESTING}]"


def test_a_child_workflow_inside_the_innermost_loop_is_one_too_many() -> None:
    call = {"id": "call", "type": "subgraph", "workflow": "child"}

    assert ValidationIssueCode.NESTING_TOO_DEEP in {code for code, _ in found(nested(MAX_NESTING, call))}
    assert found(nested(MAX_NESTING - 1, call)) == []


@pytest.mark.parametrize("inside", [4, 5])
def test_the_loops_of_callers_count_when_the_child_runs(inside: int) -> None:
    """27 loops and the child leave room for four loops in it."""
    call = {
        "id": "call",
        "type": "subgraph",
        "workflow": "child",
        "input": [{"target": "items", "path": "input.items"}],
    }
    call["input_schema"] = INPUT
    child = nested(inside)
    outer = MAX_NESTING - 5

    def execute() -> Any:
        return execute_workflow(
            nested(outer, call),
            {"items": [1]},
            {"work": echo},
            subgraphs={"child": PreparedSubgraph(child, {"work": echo})},
        )

    if inside == 4:
        assert execute().status is RunStatus.COMPLETED
        return
    with pytest.raises(WorkflowExecutionError) as refused:
        execute()
    assert (refused.value.code, refused.value.path) == ("nesting_too_deep", "nodes[f4]")
    assert f"'f4' is inside {MAX_NESTING} loops" in refused.value.message
    assert refused.value.hint is not None and "child workflow that enters itself" in refused.value.hint


def test_a_child_that_enters_itself_is_stopped_by_the_limit() -> None:
    child = workflow(["again.ok -> END"], [{"id": "again", "type": "subgraph", "workflow": "child"}])

    with pytest.raises(WorkflowExecutionError) as refused:
        execute_workflow(
            child, {}, {}, subgraphs={"child": PreparedSubgraph(child, {})}, limits=RunLimits(max_steps=1_000)
        )

    assert refused.value.code == "nesting_too_deep"
