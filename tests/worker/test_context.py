"""What a handler's context says of its call, when a real step runner makes it."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tests.support.inline_worker import InlineWorker
from tests.worker.test_full_store import FLOW
from wf_core.models import Workflow
from wf_core.run_state import RuntimeContext
from wf_worker.context import WorkerContext
from wf_worker.store.memory import MemoryRecords
from wf_worker.store.runs import RunStore


def limited() -> Workflow:
    """The one step may take a minute for each attempt."""
    document = FLOW.model_dump(mode="json", by_alias=True)
    document["nodes"][0]["timeout_seconds"] = 60
    return Workflow.model_validate(document)


def test_a_handler_knows_its_run_its_attempt_its_key_its_deadline_and_logs_with_its_place(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen: list[WorkerContext] = []
    store = RunStore(MemoryRecords(clock=lambda: 1_700_000_000_000))

    def work(_payload: dict[str, Any], ctx: RuntimeContext) -> dict[str, Any]:
        assert isinstance(ctx, WorkerContext)
        seen.append(ctx)
        ctx.logger.info("at work")
        return {"outcome": "ok", "output": {}}

    worker = InlineWorker(store, {"work": work})
    created = store.create(store.new_run("mine", store.publish(limited()).digest, {}, max_steps=10))
    worker.publish(created.ready)
    with caplog.at_level(logging.INFO, "wf.handler"):
        worker.drain()

    [context] = seen
    assert (context.run_id, context.attempt, context.retry_count) == ("mine", 1, 0)
    assert len(context.idempotency_key) == 32
    assert context.deadline == 1_700_000_060.0
    assert (context.cancelled, context.last_heartbeat) == (False, None)
    [record] = [record for record in caplog.records if record.name == "wf.handler"]
    bound = {name: vars(record)[name] for name in ("run", "frame", "node", "attempt")}
    assert bound == {"run": "mine", "frame": created.ready[0].frame, "node": "work", "attempt": 1}


def test_a_handler_of_a_run_that_was_cancelled_sees_it_and_its_heartbeats_are_kept_for_the_next_attempt() -> None:
    store = RunStore(MemoryRecords())
    said: list[Any] = []

    def work(_payload: dict[str, Any], ctx: RuntimeContext) -> dict[str, Any]:
        assert isinstance(ctx, WorkerContext)
        said.append((ctx.attempt, ctx.last_heartbeat, ctx.idempotency_key))
        ctx.heartbeat({"row": 7})
        if ctx.attempt == 1:
            raise ConnectionError("again")
        store.cancel(created.incarnation)
        ctx.heartbeat()
        said.append(ctx.cancelled)
        return {"outcome": "ok", "output": {}}

    worker = InlineWorker(store, {"work": work})
    document = FLOW.model_dump(mode="json", by_alias=True)
    document["nodes"][0]["retry"] = {"max_attempts": 2, "initial_seconds": 0.0, "jitter": "none"}
    flow = Workflow.model_validate(document)
    created = store.create(store.new_run("mine", store.publish(flow).digest, {}, max_steps=10))
    worker.publish(created.ready)
    worker.drain()
    for _ in range(1000):
        fired, ready = store.fire(created.incarnation)
        if fired:
            worker.publish(ready)
            break
    worker.drain()

    first, second, cancelled = said
    assert (first[:2], second[:2], cancelled) == ((1, None), (2, {"row": 7}), True)
    assert first[2] == second[2]
