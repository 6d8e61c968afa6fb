"""Waits in memory: the engine has no clock of its own, so its host says what time it is and when it goes on."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.engines import echo, trace_of
from tests.support.workflow_documents import condition, foreach, node, reads, workflow
from wf_core.errors import WorkflowExecutionError, WorkflowStepLimitExceeded
from wf_core.models import Workflow
from wf_core.run_codec import dump_run_state, load_run_state
from wf_core.run_limits import RunLimits
from wf_core.run_state import FrameStatus, RunState, RunStatus
from wf_core.runtime import (
    PreparedSubgraph,
    execute_workflow,
    execute_workflow_async,
    next_due,
    resume_workflow,
    resume_workflow_async,
    step_workflow,
)

MORNING = datetime(2030, 1, 31, 9, tzinfo=UTC)
INPUT = {"type": "object", "properties": {"items": {"type": "array"}, "due": {}}}
STATE = {"type": "object", "properties": {"values": {"type": "array", "reducer": "wf.std.append"}}}
HANDLERS = {"work": echo}
CONCURRENT: dict[str, Any] = {"mode": "concurrent", "concurrent": {"max_active": 2, "max_outstanding": 2}}


@dataclass
class Clock:
    """What time it is; the test moves it."""

    now: datetime = MORNING
    asked: int = field(default=0, init=False)

    def __call__(self) -> datetime:
        self.asked += 1
        return self.now

    def pass_seconds(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


def rest(**moment: Any) -> Workflow:
    return workflow(
        ["rest.elapsed -> work", "work.ok -> END"], [{"id": "rest", "type": "wait", **moment}], input_schema=INPUT
    )


def each(mode: dict[str, Any], **moment: Any) -> Workflow:
    """Every item rests, and is noted then."""
    noted = node(
        "work", input=[reads("context.foreach.each.item")], output=[{"source": "value", "target": "state.values"}]
    )
    return workflow(
        ["each.loop -> rest", "rest.elapsed -> work", "work.ok -> each", "each.done -> END"],
        [foreach("each", **mode), {"id": "rest", "type": "wait", **moment}, noted],
        input_schema=INPUT,
        state_schema=STATE,
        output_schema={"type": "object", "properties": {"values": {}}},
    )


def to_the_end(made: Workflow, run: RunState, clock: Clock) -> int:
    """Goes on whenever something is due; how many times that was."""
    rounds = 0
    while run.status is RunStatus.RUNNING:
        due = next_due(run)
        assert due is not None
        clock.now = max(clock.now, due)
        resume_workflow(made, run, HANDLERS, clock=clock)
        rounds += 1
    return rounds


def test_a_run_that_waits_comes_back_running_and_says_until_when() -> None:
    clock = Clock()

    run = execute_workflow(rest(for_seconds=90), {}, HANDLERS, clock=clock)

    assert (run.status, next_due(run)) == (RunStatus.RUNNING, MORNING + timedelta(seconds=90))
    assert run.trace == [] and run.steps_executed == 1


def test_it_goes_on_when_the_time_has_come_and_not_before() -> None:
    clock, made = Clock(), rest(for_seconds=90)
    run = execute_workflow(made, {}, HANDLERS, clock=clock)

    clock.pass_seconds(89.999)
    resume_workflow(made, run, HANDLERS, clock=clock)
    assert run.status is RunStatus.RUNNING

    clock.pass_seconds(0.001)
    resume_workflow(made, run, HANDLERS, clock=clock)
    assert (run.status, next_due(run)) == (RunStatus.COMPLETED, None)
    assert trace_of(run) == ["rest.elapsed -> work", "work.ok -> __end__"]
    [entry, _] = run.trace
    assert (entry.step_type, entry.step_number, entry.resolved_input, entry.output) == (
        "wait",
        1,
        {"for_seconds": 90},
        {},
    )
    assert run.steps_executed == 2


def test_a_wait_sees_the_step_before_it_and_is_seen_by_the_one_behind_it() -> None:
    clock, made, seen = Clock(), rest(for_seconds=1), []

    def work(payload: dict[str, Any], context: Any) -> dict[str, Any]:
        seen.append((context.prior_outcome, context.activated_incoming_edge, context.metadata))
        return {}

    run = execute_workflow(made, {}, {"work": work}, clock=clock)
    clock.pass_seconds(1)
    resume_workflow(made, run, {"work": work}, clock=clock)

    assert seen == [("elapsed", "rest", {})]


@pytest.mark.parametrize(
    ("moment", "workflow_input"),
    [
        ({"until": "2030-01-31T10:00:00+01:00"}, {}),
        ({"until": "input.due"}, {"due": "2030-01-31T08:59:59.999Z"}),
        ({"until": "1999-12-31T23:59:59Z"}, {}),
    ],
)
def test_a_time_that_has_passed_is_no_wait(moment: dict[str, Any], workflow_input: dict[str, Any]) -> None:
    run = execute_workflow(rest(**moment), workflow_input, HANDLERS, clock=Clock())

    assert run.status is RunStatus.COMPLETED


def test_a_time_may_be_read_from_the_run_and_is_shown_in_the_trace() -> None:
    clock, made = Clock(), rest(until="input.due")
    run = execute_workflow(made, {"due": "2030-01-31T10:00:00Z"}, HANDLERS, clock=clock)

    assert next_due(run) == MORNING + timedelta(hours=1)
    assert to_the_end(made, run, clock) == 1
    assert run.trace[0].resolved_input == {"until": "2030-01-31T10:00:00Z"}


@pytest.mark.parametrize("due", [None, 1_896_080_400, "2030-01-31", "2030-01-31T09:00:00", ["2030-01-31T09:00:00Z"]])
def test_a_value_that_is_no_time_fails_the_step(due: Any) -> None:
    with pytest.raises(WorkflowExecutionError) as failed:
        execute_workflow(rest(until="input.due"), {"due": due}, HANDLERS, clock=Clock())

    assert (failed.value.code, failed.value.path) == ("wait_time_invalid", "nodes[rest].until")


def test_a_time_that_is_not_there_fails_the_step() -> None:
    with pytest.raises(WorkflowExecutionError) as failed:
        execute_workflow(rest(until="input.due"), {}, HANDLERS, clock=Clock())

    assert failed.value.code == "source_path_missing"


def test_without_a_clock_a_workflow_that_waits_is_refused_before_anything_happens() -> None:
    with pytest.raises(WorkflowExecutionError) as refused:
        execute_workflow(rest(for_seconds=1), {}, HANDLERS)

    assert (refused.value.code, refused.value.path) == ("clock_missing", "nodes[rest]")
    run = execute_workflow(rest(for_seconds=1), {}, HANDLERS, clock=Clock())
    before = dump_run_state(run)
    with pytest.raises(WorkflowExecutionError):
        resume_workflow(rest(for_seconds=1), run, HANDLERS)
    assert dump_run_state(run) == before


def test_a_clock_without_a_zone_names_no_time() -> None:
    with pytest.raises(ValueError, match="time zone"):
        execute_workflow(rest(for_seconds=1), {}, HANDLERS, clock=lambda: datetime(2030, 1, 31))  # noqa: DTZ001


def test_the_clock_is_not_asked_where_nothing_waits() -> None:
    clock = Clock()

    execute_workflow(workflow(["work.ok -> END"]), {}, HANDLERS, clock=clock)

    assert clock.asked == 0


@pytest.mark.parametrize("mode", [{}, CONCURRENT], ids=["serial", "concurrent"])
def test_items_wait_each_for_itself_and_commit_in_their_order(mode: dict[str, Any]) -> None:
    clock, made = Clock(), each(mode, until="context.foreach.each.item")
    times = ["2030-01-31T09:00:03Z", "2030-01-31T09:00:01Z", "2030-01-31T09:00:02Z"]

    run = execute_workflow(made, {"items": times}, HANDLERS, clock=clock)
    to_the_end(made, run, clock)

    assert (run.status, run.output) == (RunStatus.COMPLETED, {"values": times})
    elapsed = [entry.frame_id[-1] for entry in run.trace if entry.node_id == "rest"]
    assert elapsed == (["0", "1", "2"] if mode == {} else ["1", "2", "0"])


def test_waiting_items_keep_their_place_in_the_window() -> None:
    clock, made = Clock(), each(CONCURRENT, for_seconds=10)

    run = execute_workflow(made, {"items": ["a", "b", "c"]}, HANDLERS, clock=clock)

    waiting = [frame.id for frame in run.frames.values() if frame.node_id == "rest"]
    assert waiting == ["root:each#0:0", "root:each#0:1"]
    assert to_the_end(made, run, clock) == 2
    assert run.output == {"values": ["a", "b", "c"]}


def test_skipped_items_do_not_end_a_run_whose_other_items_wait() -> None:
    clock = Clock()
    made = workflow(
        [
            "each.loop -> work",
            "work.ok -> rest",
            "rest.elapsed -> each",
            "each.done -> END",
            "each.completed_with_errors -> END",
        ],
        [
            foreach("each", **CONCURRENT, item_error="skip"),
            node("work", input=[reads("context.foreach.each.item")]),
            {"id": "rest", "type": "wait", "for_seconds": 5},
        ],
        input_schema=INPUT,
    )

    def fails_on_odd(payload: dict[str, Any], context: Any) -> dict[str, Any]:
        if payload["value"] % 2:
            raise ValueError("odd")
        return {}

    run = execute_workflow(made, {"items": [1, 2, 3]}, {"work": fails_on_odd}, clock=clock)
    assert run.status is RunStatus.RUNNING
    clock.pass_seconds(5)
    resume_workflow(made, run, {"work": fails_on_odd}, clock=clock)

    assert run.status is RunStatus.COMPLETED
    assert "each.completed_with_errors -> __end__" in trace_of(run)


def test_a_waiting_run_survives_being_stored() -> None:
    clock, made = Clock(), each(CONCURRENT, for_seconds=10)
    run = execute_workflow(made, {"items": ["a", "b", "c"]}, HANDLERS, clock=clock)

    stored = load_run_state(dump_run_state(run))

    assert next_due(stored) == MORNING + timedelta(seconds=10)
    to_the_end(made, stored, clock)
    assert stored.output == {"values": ["a", "b", "c"]}


def test_a_malformed_time_of_a_waiting_frame_is_damage() -> None:
    clock, made = Clock(), rest(for_seconds=10)
    run = execute_workflow(made, {}, HANDLERS, clock=clock)
    run.frames["root"].metadata["blocked_on"]["due_ms"] = "soon"

    with pytest.raises(WorkflowExecutionError, match="malformed") as damage:
        resume_workflow(made, run, HANDLERS, clock=clock)
    assert damage.value.code == "damaged"


def test_an_interrupt_pauses_what_waits_as_well() -> None:
    clock = Clock()
    is_second = {"op": "eq", "left": {"path": "context.foreach.each.index"}, "right": {"value": 1}}
    made = workflow(
        [
            "each.loop -> which",
            "which.true -> soon",
            "which.false -> rest",
            "soon.elapsed -> ask",
            "ask.submitted -> each",
            "rest.elapsed -> each",
            "each.done -> END",
        ],
        [
            foreach("each", **CONCURRENT),
            condition("which", is_second),
            {"id": "soon", "type": "wait", "for_seconds": 1},
            {"id": "ask", "type": "interrupt", "kind": "approval"},
            {"id": "rest", "type": "wait", "for_seconds": 5},
        ],
        input_schema=INPUT,
    )
    run = execute_workflow(made, {"items": [1, 2]}, HANDLERS, clock=clock)
    clock.pass_seconds(1)
    assert resume_workflow(made, run, HANDLERS, clock=clock).status is RunStatus.INTERRUPTED

    clock.pass_seconds(60)
    assert resume_workflow(made, run, HANDLERS, clock=clock).status is RunStatus.INTERRUPTED
    assert resume_workflow(made, run, HANDLERS, resume_payload={}, clock=clock).status is RunStatus.COMPLETED


def test_a_child_workflow_may_wait_and_needs_the_clock_too() -> None:
    clock, child = Clock(), rest(for_seconds=5)
    made = workflow(["call.ok -> END"], [{"id": "call", "type": "subgraph", "workflow": "child"}])
    subgraphs = {"child": PreparedSubgraph(child, HANDLERS)}
    with pytest.raises(WorkflowExecutionError, match="clock"):
        execute_workflow(made, {}, HANDLERS, subgraphs=subgraphs)

    run = execute_workflow(made, {}, HANDLERS, subgraphs=subgraphs, clock=clock)
    clock.pass_seconds(5)
    resume_workflow(made, run, HANDLERS, subgraphs=subgraphs, clock=clock)

    assert trace_of(run) == ["rest.elapsed -> work", "work.ok -> __end__", "call.ok -> __end__"]


def test_asynchronous_runs_wait_alike() -> None:
    clock, made = Clock(), each(CONCURRENT, for_seconds=10)

    async def go() -> RunState:
        run = await execute_workflow_async(made, {"items": ["a", "b", "c"]}, HANDLERS, clock=clock)
        while run.status is RunStatus.RUNNING:
            clock.pass_seconds(10)
            await resume_workflow_async(made, run, HANDLERS, clock=clock)
        return run

    assert asyncio.run(go()).output == {"values": ["a", "b", "c"]}


def test_step_by_step_nothing_moves_before_the_time() -> None:
    clock, made = Clock(), rest(for_seconds=10)
    run = execute_workflow(made, {}, HANDLERS, clock=clock)

    step_workflow(made, run, HANDLERS, clock=clock)
    assert run.trace == []
    clock.pass_seconds(10)
    step_workflow(made, run, HANDLERS, clock=clock)
    assert trace_of(run) == ["rest.elapsed -> work"]
    assert run.frames["root"].status is FrameStatus.PENDING


def test_a_wait_counts_once_against_the_budget_when_it_begins() -> None:
    clock, made = Clock(), rest(for_seconds=10)
    run = execute_workflow(made, {}, HANDLERS, clock=clock, limits=RunLimits(1))
    clock.pass_seconds(10)

    with pytest.raises(WorkflowStepLimitExceeded) as met:
        resume_workflow(made, run, HANDLERS, clock=clock)

    assert met.value.node_id == "work"
    assert trace_of(run) == ["rest.elapsed -> work"]
