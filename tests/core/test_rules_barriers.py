"""What items of a concurrent loop see of their own writes, and what of them reaches the state."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.support.engines import echo, fresh_run
from tests.support.workflow_documents import foreach, node, reads, workflow
from wf_core.errors import WorkflowExecutionError
from wf_core.models import Workflow
from wf_core.run_state import RunStatus, RuntimeContext
from wf_core.runtime import execute_workflow, execute_workflow_async, resume_workflow

CONCURRENT: dict[str, Any] = {"mode": "concurrent", "concurrent": {"max_active": 2, "max_outstanding": 3}}
MODES = pytest.mark.parametrize("mode", [{}, CONCURRENT], ids=["serial", "concurrent"])
INPUT = {"type": "object", "properties": {"items": {"type": "array"}}}
STATE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "total": {"type": "integer", "reducer": "wf.std.add", "default": 10},
        "last": {"default": "nobody"},
        "errors": {"type": "array", "reducer": "wf.std.append", "default": ["known before"]},
    },
}
OUTPUT = {"type": "object", "properties": {"total": {}, "last": {}, "errors": {}}}
ADD = [{"source": "value", "target": "state.total"}]


def test_an_item_reads_its_own_sum_and_the_barrier_counts_each_part_once() -> None:
    seen: list[tuple[int, int]] = []

    def look(payload: dict[str, Any], context: RuntimeContext) -> dict[str, Any]:
        seen.append((context.foreach["each"].index, payload["value"]))
        return {}

    made = workflow(
        [
            "each.loop -> add",
            "add.ok -> look",
            "look.ok -> more",
            "more.ok -> look2",
            "look2.ok -> each",
            "each.done -> END",
        ],
        [
            foreach("each", **CONCURRENT),
            node("add", input=[reads("context.each_item")], output=ADD),
            node("look", node="look", input=[reads("state.total")]),
            node("more", input=[{"target": "value", "value": 100}], output=ADD),
            node("look2", node="look", input=[reads("state.total")]),
        ],
        input_schema=INPUT,
        state_schema=STATE,
        output_schema=OUTPUT,
        node_defs=[
            {
                "name": name,
                "input_schema": {"type": "object", "properties": {"value": {}}},
                "output_schema": {"type": "object", "properties": {"value": {}}},
                "outcomes": ["ok"],
            }
            for name in ("work", "look")
        ],
    )

    run = execute_workflow(made, {"items": [1, 2, 3]}, {"work": echo, "look": look})

    assert sorted(seen) == [(n, 10 + item + more) for n, item in enumerate((1, 2, 3)) for more in (0, 100)]
    assert run.output["total"] == 10 + 1 + 2 + 3 + 300


def racing() -> Workflow:
    """Items add to a total and then replace one field, which two of them may not."""
    return workflow(
        ["each.loop -> add", "add.ok -> claim", "claim.ok -> each", "each.done -> END"],
        [
            foreach("each", **CONCURRENT),
            node("add", input=[reads("context.each_item")], output=ADD),
            node("claim", input=[reads("context.each_item")], output=[{"source": "value", "target": "state.last"}]),
        ],
        input_schema=INPUT,
        state_schema=STATE,
        output_schema=OUTPUT,
    )


def test_one_item_may_replace_a_field_and_two_commit_nothing_at_all() -> None:
    assert execute_workflow(racing(), {"items": [5]}, {"work": echo}).output["last"] == 5

    run = fresh_run(racing(), {"items": [1, 2]})
    before = copy.deepcopy(run.state)
    with pytest.raises(WorkflowExecutionError, match=r"overlapping sibling writes to state\.last"):
        resume_workflow(racing(), run, {"work": echo})

    assert run.status is RunStatus.FAILED
    assert run.state == before
    assert run.state is run.scopes["root"].committed_state
    assert [entry for entry in run.trace if entry.state_changes] == []


async def test_a_conflict_is_the_same_with_async_handlers() -> None:
    async def work(payload: dict[str, Any], context: RuntimeContext) -> dict[str, Any]:
        return payload

    with pytest.raises(WorkflowExecutionError, match=r"overlapping sibling writes to state\.last"):
        await execute_workflow_async(racing(), {"items": [1, 2]}, {"work": work})


def collecting(outer: dict[str, Any], inner: dict[str, Any]) -> Workflow:
    collect = {"action": "collect", "collect_to": "state.errors"}
    return workflow(
        [
            "o.loop -> i",
            "i.loop -> work",
            "work.ok -> i",
            "i.done -> o",
            "i.completed_with_errors -> o",
            "o.done -> END",
        ],
        [
            foreach("o", **outer),
            foreach("i", "context.o_item", item_error=collect, **inner),
            node("work", input=[reads("context.i_item")], output=ADD),
        ],
        input_schema={"type": "object", "properties": {"items": {"type": "array", "items": {"type": "array"}}}},
        state_schema=STATE,
        output_schema=OUTPUT,
    )


@MODES
@pytest.mark.parametrize("inner", [{}, CONCURRENT], ids=["serial", "concurrent"])
def test_a_collected_list_goes_where_the_loops_writes_go(mode: dict[str, Any], inner: dict[str, Any]) -> None:
    def work(payload: dict[str, Any], context: RuntimeContext) -> dict[str, Any]:
        if payload["value"] < 0:
            raise ValueError(f"{payload['value']}")
        return payload

    run = execute_workflow(collecting(mode, inner), {"items": [[1, -1], [], [-2, 2, -3]]}, {"work": work})

    assert run.output["total"] == 13
    assert run.output["errors"][0] == "known before"
    assert [(record["index"], record["message"]) for record in run.output["errors"][1:]] == [
        (1, "-1"),
        (0, "-2"),
        (2, "-3"),
    ]
    inner_ends = [entry for entry in run.trace if entry.node_id == "i" and entry.outcome != "loop"]
    assert [bool(entry.state_changes) for entry in inner_ends] == [not mode] * 3
    assert sorted(entry.outcome for entry in inner_ends) == ["completed_with_errors"] * 2 + ["done"]
