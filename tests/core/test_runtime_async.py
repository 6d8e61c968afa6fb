"""Batches of concurrent items: claimed and numbered in queue order, settled together, finished in queue order."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support.engines import echo, fresh_run
from tests.support.workflow_documents import foreach, node, reads, workflow
from wf_core.errors import WorkflowExecutionError, WorkflowStepLimitExceeded
from wf_core.models import Workflow
from wf_core.run_state import ITEM_FRAME, FrameStatus, RunState, RunStatus, RuntimeContext
from wf_core.runtime import execute_workflow_async, resume_workflow_async, step_workflow_async

INPUT = {"type": "object", "properties": {"items": {"type": "array"}}}
STATE: dict[str, Any] = {
    "type": "object",
    "properties": {"values": {"type": "array", "reducer": "wf.std.append"}, "errors": {"type": "array"}},
}


def loop(policy: str = "fail", width: int = 4, **changes: Any) -> Workflow:
    return workflow(
        ["each.loop -> work", "work.ok -> each", "each.done -> END"]
        + ([] if policy == "fail" else ["each.completed_with_errors -> END"]),
        [
            foreach(
                "each",
                mode="concurrent",
                concurrent={"max_active": width, "max_outstanding": width},
                item_error=policy,
                **changes,
            ),
            node("work", input=[reads("context.each_item")], output=[{"source": "value", "target": "state.values"}]),
        ],
        input_schema=INPUT,
        state_schema=STATE,
        output_schema={"type": "object", "properties": {"values": {}}},
    )


def items_of(run: RunState) -> list[Any]:
    return [frame for frame in run.frames.values() if frame.kind == ITEM_FRAME]


class Barrier:
    """Handlers that all wait until ``count`` of them have begun, then answer from the last to the first."""

    def __init__(self, count: int) -> None:
        self.begun: list[Any] = []
        self.ended: list[Any] = []
        self._count = count
        self._turns = [asyncio.Event() for _ in range(count + 1)]

    async def __call__(self, payload: dict[str, Any], context: RuntimeContext) -> dict[str, Any]:
        position = len(self.begun)
        self.begun.append(payload["value"])
        if len(self.begun) == self._count:
            self._turns[self._count].set()
        await self._turns[position + 1].wait()
        self.ended.append(payload["value"])
        self._turns[position].set()
        if str(payload["value"]).startswith("bad"):
            raise ValueError(payload["value"])
        return payload


async def test_handlers_of_one_batch_run_together_and_finish_in_queue_order() -> None:
    work = Barrier(3)

    run = await execute_workflow_async(loop(), {"items": [*"abc"]}, {"work": work})

    assert work.begun == [*"abc"] and work.ended == [*"cba"]
    entries = [entry for entry in run.trace if entry.node_id == "work"]
    assert [entry.resolved_input["value"] for entry in entries] == [*"abc"]
    assert [entry.step_number for entry in entries] == [2, 3, 4]
    assert run.output["values"] == [*"abc"]


async def test_a_batch_never_claims_more_than_the_budget_admits() -> None:
    run = fresh_run(loop(), {"items": [*"abcd"]}, max_steps=3)
    calls: list[Any] = []

    async def work(payload: dict[str, Any], context: RuntimeContext) -> dict[str, Any]:
        calls.append(payload["value"])
        return payload

    await step_workflow_async(loop(), run, {"work": work})
    await step_workflow_async(loop(), run, {"work": work})

    assert calls == ["a", "b"]
    assert run.steps_executed == 3
    waiting = items_of(run)[2:]
    assert run.ready_frame_ids[:2] == [frame.id for frame in waiting]
    assert [(frame.status, frame.step_number) for frame in waiting] == [(FrameStatus.PENDING, None)] * 2

    with pytest.raises(WorkflowStepLimitExceeded):
        await step_workflow_async(loop(), run, {"work": work})
    assert [(f.status, f.step_number) for f in waiting] == [(FrameStatus.RUNNING, None), (FrameStatus.PENDING, None)]
    assert calls == ["a", "b"]


async def test_an_unhandled_failure_lets_siblings_settle_and_drops_later_results() -> None:
    run, work = fresh_run(loop(), {"items": ["a", "bad", "c"]}), Barrier(3)

    with pytest.raises(ValueError, match="bad"):
        await resume_workflow_async(loop(), run, {"work": work})

    assert work.ended == ["c", "bad", "a"]
    assert run.status is RunStatus.FAILED
    assert run.steps_executed == 4
    assert [e.resolved_input["value"] for e in run.trace if e.node_id == "work"] == ["a"]
    assert [f.status for f in items_of(run)] == [FrameStatus.COMPLETED, FrameStatus.FAILED, FrameStatus.RUNNING]
    assert "values" not in run.state


async def test_a_handled_failure_lets_the_batch_go_on() -> None:
    run = await execute_workflow_async(loop("skip"), {"items": ["a", "bad", "c"]}, {"work": Barrier(3)})

    assert run.output["values"] == ["a", "c"]


async def test_an_input_that_cannot_be_resolved_takes_its_turn_among_the_answers() -> None:
    """Its siblings' handlers are called all the same, and what stands before it in the queue is committed."""
    made = loop()
    made.nodes[1].input[0] = (
        made.nodes[1]
        .input[0]
        .model_copy(  # type: ignore[union-attr]
            update={"path": made.nodes[1].input[0].path.parse("context.each_item.name")}  # type: ignore[union-attr]
        )
    )
    run, calls = fresh_run(made, {"items": [{"name": "a"}, {}, {"name": "c"}]}), list[Any]()

    async def work(payload: dict[str, Any], context: RuntimeContext) -> dict[str, Any]:
        calls.append(payload["value"])
        return payload

    with pytest.raises(WorkflowExecutionError, match="name is missing"):
        await resume_workflow_async(made, run, {"work": work})

    assert calls == ["a", "c"]
    assert [e.resolved_input["value"] for e in run.trace if e.node_id == "work"] == ["a"]


async def test_only_siblings_of_one_visit_are_batched() -> None:
    made = workflow(
        ["o.loop -> i", "i.loop -> work", "work.ok -> i", "i.done -> o", "o.done -> END"],
        [
            foreach("o", mode="concurrent", concurrent={"max_active": 2, "max_outstanding": 2}),
            foreach("i", "context.o_item", mode="concurrent", concurrent={"max_active": 2, "max_outstanding": 2}),
            node("work", input=[reads("context.i_item")]),
        ],
        input_schema={"type": "object", "properties": {"items": {"type": "array", "items": {"type": "array"}}}},
    )
    run, sizes, batch = fresh_run(made, {"items": [["a", "b"], ["c", "d"]]}), list[int](), list[Any]()

    async def work(payload: dict[str, Any], context: RuntimeContext) -> dict[str, Any]:
        batch.append((context.foreach["o"].index, payload["value"]))
        return payload

    while run.status in (RunStatus.PENDING, RunStatus.RUNNING):
        batch.clear()
        await step_workflow_async(made, run, {"work": work})
        if batch:
            assert len({outer for outer, _ in batch}) == 1
            sizes.append(len(batch))

    assert sizes == [2, 2]


async def test_serial_items_are_never_batched() -> None:
    made = workflow(["each.loop -> work", "work.ok -> each", "each.done -> END"], [foreach("each")], input_schema=INPUT)

    run = await execute_workflow_async(made, {"items": [1, 2]}, {"work": echo})

    assert [e.node_id for e in run.trace] == ["each", "work", "each", "work", "each"]
