"""How much of a run's history is kept, which no rule of the run may notice."""

from __future__ import annotations

import asyncio
import tracemalloc
from typing import Any

import pytest

from tests.support.workflow_documents import condition, foreach, node, reads, workflow
from wf_core.models import Workflow
from wf_core.run_limits import RunLimits
from wf_core.run_state import RunState, RunStatus, RuntimeContext, TraceLevel
from wf_core.runtime import execute_workflow, execute_workflow_async, resume_workflow

CONCURRENT: dict[str, Any] = {"mode": "concurrent", "concurrent": {"max_active": 2, "max_outstanding": 2}}
STATE = {
    "type": "object",
    "properties": {"value": {"type": "integer"}, "values": {"type": "array", "reducer": "wf.std.append"}},
}


def add_one(payload: dict[str, Any], context: RuntimeContext) -> dict[str, Any]:
    return {"value": payload["value"] + 1}


def loops() -> Workflow:
    work = node(
        "work", input=[reads("context.foreach.each.item")], output=[{"source": "value", "target": "state.values"}]
    )
    return workflow(
        ["each.loop -> work", "work.ok -> each", "each.done -> ask", "ask.submitted -> END"],
        [foreach("each", **CONCURRENT), work, {"id": "ask", "type": "interrupt", "kind": "approval"}],
        input_schema={"type": "object", "properties": {"items": {"type": "array"}}},
        state_schema=STATE,
        output_schema={"type": "object", "properties": {"values": {}}},
    )


def finished(level: TraceLevel) -> RunState:
    run = execute_workflow(loops(), {"items": [1, 2, 3]}, {"work": add_one}, trace=level)
    assert run.status is RunStatus.INTERRUPTED
    return resume_workflow(loops(), run, {"work": add_one}, resume_payload={"yes": True}, trace=level)


def test_a_summary_has_every_entry_without_its_payloads() -> None:
    full, summary = finished("full"), finished("summary")

    def outline(run: RunState) -> list[Any]:
        return [(e.frame_id, e.node_id, e.step_type, e.outcome, e.next_node_id, e.step_number) for e in run.trace]

    assert outline(summary) == outline(full)
    assert all((entry.resolved_input, entry.output, entry.state_changes) == ({}, {}, {}) for entry in summary.trace)
    assert any(entry.output for entry in full.trace)


@pytest.mark.parametrize("level", ["full", "summary", "off"])
def test_state_output_and_budget_are_the_same_at_every_level(level: TraceLevel) -> None:
    run = finished(level)

    assert (run.status, run.output) == (RunStatus.COMPLETED, {"values": [2, 3, 4]})
    assert run.steps_executed == finished("full").steps_executed


def test_without_a_trace_nothing_is_kept_in_either_shell() -> None:
    assert finished("off").trace == []
    started = execute_workflow_async(loops(), {"items": [1, 2, 3]}, {"work": add_one}, trace="off")
    assert asyncio.run(started).trace == []


def counting(until: int) -> Workflow:
    """Adds one to a number until it is high enough, in one frame."""
    return workflow(
        ["work.ok -> more", "more.true -> work", "more.false -> END"],
        [
            node("work", input=[reads("state.value")], output=[{"source": "value", "target": "state.value"}]),
            condition("more", {"op": "lt", "left": {"path": "state.value"}, "right": {"value": until}}),
        ],
        input_schema={"type": "object", "properties": {"value": {"type": "integer"}}},
        state_schema=STATE,
    )


def test_without_a_trace_memory_does_not_grow_with_the_steps() -> None:
    def kept(steps: int) -> int:
        made, limits = counting(steps), RunLimits(max_steps=3 * steps)
        tracemalloc.start()
        run = execute_workflow(made, {"value": 0}, {"work": add_one}, limits=limits, trace="off")
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert run.state["value"] == steps
        return held

    kept(100)  # what is made once for all runs is made here
    # The least of three: another thread of the process may hold something at the very moment.
    assert min(kept(4_000) for _ in range(3)) < kept(200) + 50_000


HIDING: dict[str, Any] = {
    "type": "object",
    "properties": {
        "secret": {"trace": False},
        "list": {"type": "array", "reducer": "wf.std.append", "trace": False},
        "person": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "card": {"trace": False}},
        },
        "shown": {},
    },
}


@pytest.mark.parametrize(
    ("target", "value", "shown"),
    [
        ("state.shown", 1, True),
        ("state.secret", 1, False),
        ("state.secret.below", 1, False),
        ("state.list", [1], False),
        ("state.person.name", "Ada", True),
        ("state.person.card", "4111", False),
        ("state.person", {"name": "Ada", "card": "4111"}, False),
    ],
)
def test_a_field_that_is_not_traced_shows_no_changes(target: str, value: Any, shown: bool) -> None:
    made = workflow(
        ["work.ok -> END"], [node("work", output=[{"source": "value", "target": target}])], state_schema=HIDING
    )

    run = execute_workflow(made, {}, {"work": lambda payload, context: {"value": value}})

    assert run.trace[0].state_changes == ({target: value} if shown else {})
    assert run.state != {}


def test_the_barrier_of_a_loop_hides_such_a_field_too() -> None:
    made = loops()
    made.state_schema.properties["values"] = {"type": "array", "reducer": "wf.std.append", "trace": False}
    run = execute_workflow(made, {"items": [1, 2, 3]}, {"work": add_one})

    [done] = [entry for entry in run.trace if entry.outcome == "done"]
    assert (done.state_changes, run.state["values"]) == ({}, [2, 3, 4])
