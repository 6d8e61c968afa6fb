"""What goes wrong in a step is the step's failure, and says what it was."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tests.support import jobs
from tests.worker.test_sweeping import World
from wf_core.run_state import RuntimeContext
from wf_worker.handlers import HandlerRegistry
from wf_worker.store.protocol import RunRecord


def run_with(world: World, handler: Any) -> RunRecord:
    registry = HandlerRegistry()
    registry.add_handler("square", handler)
    object.__setattr__(world.runner, "handlers", registry)
    run = world.start([1])
    world.drain()
    record = world.store.inspect(run)
    assert record is not None
    return record


def test_an_exception_whose_text_cannot_be_stored_is_recorded_all_the_same() -> None:
    def fail(payload: dict[str, Any], ctx: RuntimeContext) -> dict[str, Any]:
        raise ValueError("bad \ud800 text")

    record = run_with(World(), fail)

    assert record.status == "failed"
    assert record.error == {
        "type": "ValueError",
        "message": r"bad \ud800 text",
        "node_id": "square",
        "frame_id": "root:each#0:0",
    }


def test_the_traceback_of_a_handler_is_in_the_log_with_run_and_step(caplog: pytest.LogCaptureFixture) -> None:
    def fail(payload: dict[str, Any], ctx: RuntimeContext) -> dict[str, Any]:
        raise ValueError("boom")

    with caplog.at_level(logging.WARNING, "wf.steps"):
        run_with(World(), fail)

    record = next(record for record in caplog.records if "handler failed" in record.message)
    assert "run=run" in record.message
    assert "node=square" in record.message
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == "boom"


def test_a_run_of_which_a_record_is_missing_fails_and_names_it() -> None:
    world = World()
    published = world.store.publish(jobs.squares().compile())
    created = world.store.create(
        world.store.new_run("run", published.digest, {"numbers": list(range(100))}, max_steps=999)
    )
    world.queue.publish(created.ready)
    world.runner.run(world.queue.sent.pop(0))  # walks to the loop
    world.runner.run(world.queue.sent.pop(0))  # opens it
    contents: Any = world.store.records
    activation = next(iter(contents.contents.runs[created.incarnation].items))
    contents.contents.runs[created.incarnation].items[activation].pop("0")
    world.drain()

    record = world.store.inspect(created.incarnation)
    assert record is not None
    assert record.status == "failed"
    assert record.error is not None
    assert record.error["type"] == "damaged"
    assert "loop_item" in record.error["message"]
