"""Cycles, returns and visits of valid workflows, as their runs show them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.engines import echo, fresh_run, trace_of
from tests.support.workflow_documents import condition, foreach, found, node, reads, workflow
from wf_core.models import Workflow
from wf_core.plan import Program, compile_plan
from wf_core.run_codec import dump_run_state, load_run_state
from wf_core.run_state import ITEM_FRAME, SUBGRAPH_FRAME, FrameStatus, RunState, RunStatus, RuntimeContext
from wf_core.runtime import PreparedSubgraph, execute_workflow, kernel, resume_workflow, step_workflow
from wf_core.runtime.kernel import Walk
from wf_core.runtime.slice import RunStateSlice
from wf_core.runtime.transition import CloseActivation

CONCURRENT: dict[str, Any] = {"mode": "concurrent", "concurrent": {"max_active": 2, "max_outstanding": 3}}
MODES = pytest.mark.parametrize("mode", [{}, CONCURRENT], ids=["serial", "concurrent"])
STATE: dict[str, Any] = {
    "type": "object",
    "properties": {"left": {"type": "integer"}, "values": {"type": "array", "reducer": "wf.std.append"}},
}
INPUT = {"type": "object", "properties": {"items": {"type": "array"}, "left": {"type": "integer"}}}
OUTPUT = {"type": "object", "properties": {"values": {}, "left": {}}}
LEFT = {"op": "gt", "left": {"path": "state.left"}, "right": {"value": 0}}
COUNT_DOWN = node("down", input=[reads("state.left")], output=[{"source": "value", "target": "state.left"}])


def flow(routes: list[str], steps: list[dict[str, Any]], **changes: Any) -> Workflow:
    made = workflow(routes, steps, input_schema=INPUT, state_schema=STATE, output_schema=OUTPUT, **changes)
    assert found(made) == []
    return made


def down(payload: dict[str, Any], context: RuntimeContext) -> dict[str, Any]:
    return {"value": payload["value"] - 1}


def items_of(run: RunState) -> list[Any]:
    return [frame for frame in run.frames.values() if frame.kind == ITEM_FRAME]


def reloaded(run: RunState) -> RunState:
    return load_run_state(json.loads(json.dumps(dump_run_state(run))))


# ---- cycles


def test_a_closed_cycle_outside_every_loop_is_valid_and_keeps_running() -> None:
    made = flow(["a.ok -> b", "b.ok -> a"], [])
    run = fresh_run(made)

    for _ in range(25):
        step_workflow(made, run, {"work": echo})
        assert (run.status, run.ready_frame_ids) == (RunStatus.RUNNING, ["root"])

    assert [entry.node_id for entry in run.trace] == [*"ab"] * 12 + ["a"]


@pytest.mark.parametrize("turns", [0, 1, 4])
def test_a_cycle_with_an_exit_leaves_after_its_turns(turns: int) -> None:
    made = flow(["more.true -> down", "down.ok -> more", "more.false -> END"], [condition("more", LEFT), COUNT_DOWN])

    run = execute_workflow(made, {"left": turns}, {"work": down})

    assert run.status is RunStatus.COMPLETED
    assert [entry.node_id for entry in run.trace] == ["more", "down"] * turns + ["more"]
    assert run.output["left"] == 0


@MODES
def test_a_cycle_in_a_body_turns_in_the_items_own_frame_and_then_returns(mode: dict[str, Any]) -> None:
    made = flow(
        ["each.loop -> down", "down.ok -> more", "more.true -> down", "more.false -> each", "each.done -> END"],
        [foreach("each", **mode), COUNT_DOWN, condition("more", LEFT)],
    )

    run = execute_workflow(made, {"left": 3, "items": [{}]}, {"work": down})

    [item] = items_of(run)
    turned = [(entry.node_id, entry.frame_id) for entry in run.trace if entry.node_id != "each"]
    assert turned == [("down", item.id), ("more", item.id)] * 3
    assert (item.status, item.finished_at_node_id) == (FrameStatus.COMPLETED, "each")


@MODES
def test_both_branches_of_a_condition_may_return(mode: dict[str, Any]) -> None:
    big = {"op": "gt", "left": {"path": "context.each_item"}, "right": {"value": 1}}
    made = flow(
        ["each.loop -> big", "big.true -> work", "big.false -> each", "work.ok -> each", "each.done -> END"],
        [
            foreach("each", **mode),
            condition("big", big),
            node("work", input=[reads("context.each_item")], output=[{"source": "value", "target": "state.values"}]),
        ],
    )

    run = execute_workflow(made, {"items": [1, 2, 0, 3]}, {"work": echo})

    assert run.output["values"] == [2, 3]
    assert [frame.finished_at_node_id for frame in items_of(run)] == ["each"] * 4
    assert trace_of(run).count("big.false -> each") == 2


# ---- returns


def loop(mode: dict[str, Any], *, after: bool = False) -> Workflow:
    """each -> work, and a step after the loop where one is asked for."""
    ends = ["each.done -> after", "after.ok -> END"] if after else ["each.done -> END"]
    return flow(
        ["each.loop -> work", "work.ok -> each", *ends],
        [
            foreach("each", **mode),
            node("work", input=[reads("context.each_item")], output=[{"source": "value", "target": "state.values"}]),
        ],
    )


def test_a_serial_controller_waits_for_its_one_item_and_its_return_admits_the_next() -> None:
    made = loop({})
    run = fresh_run(made, {"items": ["a", "b"]})

    for index in (0, 1):
        step_workflow(made, run, {"work": echo})
        item = items_of(run)[index]
        assert (run.frames["root"].status, run.ready_frame_ids) == (FrameStatus.BLOCKED, [item.id])
        assert run.frames["root"].metadata["blocked_on"] == {"type": "child_frames", "frame_ids": [item.id]}
        assert len(items_of(run)) == index + 1
        step_workflow(made, run, {"work": echo})
        assert item.status is FrameStatus.COMPLETED
        assert (run.frames["root"].status, run.ready_frame_ids) == (FrameStatus.PENDING, ["root"])
        assert "blocked_on" not in run.frames["root"].metadata

    step_workflow(made, run, {"work": echo})
    assert run.status is RunStatus.COMPLETED


@MODES
def test_trace_and_stored_run_show_where_an_item_returned(mode: dict[str, Any]) -> None:
    made = loop(mode)
    run = fresh_run(made, {"items": ["a", "b", "c"]})

    while not run.trace or run.trace[-1].node_id != "work":
        step_workflow(made, run, {"work": echo})
    stored = json.loads(json.dumps(dump_run_state(run)))["state"]

    assert (stored["trace"][-1]["node_id"], stored["trace"][-1]["next_node_id"]) == ("work", "each")
    frame = stored["frames"]["root:each#0:0"]
    assert (frame["status"], frame["node_id"], frame["finished_at_node_id"]) == ("completed", "each", "each")
    assert {f["finished_at_node_id"] for f in stored["frames"].values() if f["status"] != "completed"} == {None}


@MODES
def test_an_item_returns_after_the_child_workflow_in_its_body_has_ended(mode: dict[str, Any]) -> None:
    ports = {
        "input_schema": {"type": "object", "properties": {"value": {}}},
        "output_schema": {"type": "object", "properties": {"value": {}}},
    }
    child = workflow(["work.ok -> END"], name="child", **ports)
    made = flow(
        ["each.loop -> call", "call.ok -> each", "each.done -> END"],
        [
            foreach("each", **mode),
            {
                "id": "call",
                "type": "subgraph",
                "workflow": "child",
                **ports,
                "input": [reads("context.each_item")],
                "output": [{"source": "value", "target": "state.values"}],
            },
        ],
    )

    run = execute_workflow(
        made, {"items": ["a", "b", "c"]}, {}, subgraphs={"child": PreparedSubgraph(child, {"work": echo})}
    )

    assert run.output["values"] == ["a", "b", "c"]
    lines = trace_of(run)
    assert lines.count("work.ok -> __end__") == lines.count("call.ok -> each") == 3
    for item in items_of(run):
        [child_frame] = [f for f in run.frames.values() if f.kind == SUBGRAPH_FRAME and f.parent_frame_id == item.id]
        assert (item.status, item.finished_at_node_id) == (FrameStatus.COMPLETED, "each")
        assert (child_frame.status, child_frame.metadata["workflow_outcome"]) == (FrameStatus.COMPLETED, "ok")
        order = [entry.frame_id for entry in run.trace if entry.frame_id in (item.id, child_frame.id)]
        assert order == [child_frame.id, item.id]


# ---- visits


@MODES
def test_the_open_visit_survives_being_stored_and_a_closed_one_stays_closed(mode: dict[str, Any]) -> None:
    made = loop(mode, after=True)
    run = fresh_run(made, {"items": ["a", "b", "c"]})
    for _ in range(3):
        step_workflow(made, run, {"work": echo})
    before = json.loads(json.dumps(run.frames["root"].metadata["foreach_activations"]))
    assert before["each"]["active"]["id"] == "root:each#0"

    again = reloaded(run)
    assert again.frames["root"].metadata["foreach_activations"] == before
    done = resume_workflow(made, again, {"work": echo})

    assert done.output["values"] == ["a", "b", "c"]
    assert reloaded(done).frames["root"].metadata["foreach_activations"] == {
        "each": {"next_sequence": 1, "active": None}
    }


def test_a_visit_that_is_closed_cannot_be_closed_again() -> None:
    made = loop(CONCURRENT, after=True)
    run = execute_workflow(made, {"items": ["a"]}, {"work": echo})
    run.frames["root"].node_id, state = "each", dict(run.state)

    again = kernel.finish_foreach(Program(compile_plan(made), {}), RunStateSlice(run), "root", walk=Walk())

    assert "without an open visit" in str(again.error)
    assert [o for o in again.operations if isinstance(o, CloseActivation)] == []
    assert run.state == state
