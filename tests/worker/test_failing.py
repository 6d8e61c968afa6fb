"""What goes wrong in a step is the step's failure, and says what it was."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tests.support import jobs
from tests.worker.test_sweeping import World
from wf_core.authoring import END, RetryPolicy, WorkflowBuilder, output_to, state_path
from wf_core.run_state import RuntimeContext
from wf_worker.errors import RunDamaged, StoreUnavailable
from wf_worker.handlers import HandlerRegistry
from wf_worker.store.protocol import Claim, RunRecord


def run_with(world: World, handler: Any) -> RunRecord:
    registry = HandlerRegistry()
    registry.add_handler("square", handler)
    object.__setattr__(world.runner, "handlers", registry)
    run = world.start([1])
    world.drain()
    record = world.store.inspect(run)
    assert record is not None
    return record


def test_an_exception_whose_text_cannot_be_stored_is_recorded_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "wf.steps")  # nor could it be sent from one process of the tests to another

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


def test_a_store_that_loses_staged_chunks_under_a_living_claim_gets_them_again() -> None:
    world = World()
    published = world.store.publish(jobs.squares().compile())
    new = world.store.new_run("run", published.digest, {"numbers": list(range(1_000))}, max_steps=9_999)
    created = world.store.create(new)
    world.queue.publish(created.ready)
    world.runner.run(world.queue.sent.pop(0))  # walks to the loop, whose opening is a call of its own
    records: Any = world.store.records
    call, staged, losses = records.call, list[bytes](), list[str]()

    def losing(script: str, *args: Any) -> list[Any]:
        if script == "stage" and not staged:
            staged.append(records.snapshot())
        elif script in ("stage", "commit") and len(losses) < 2:
            losses.append(script)
            records.restore(staged[0])  # the claim is kept, what was staged since is gone
        return call(script, *args)

    records.call = losing
    world.drain()

    record = world.store.inspect(created.incarnation)
    assert record is not None
    assert losses == ["stage", "stage"]
    assert (record.status, record.error) == ("completed", None)


def test_a_step_that_reads_the_whole_state_beside_a_field_named_like_a_wildcard_runs() -> None:
    from wf_core.models import Workflow

    star = {
        "type": "object",
        "properties": {"*": {"type": "integer", "default": 1}, "a": {"type": "integer", "default": 2}},
    }
    document = {
        "name": "stars",
        "input_schema": {"type": "object"},
        "state_schema": star,
        "output_schema": {"type": "object", "properties": {"star": {}}},
        "output": [{"target": "star", "path": 'state."*"'}],
        "node_defs": [
            {
                "name": "square",
                "input_schema": {"type": "object", "properties": {"star": {}, "a": {}, "n": {}}},
                "output_schema": {"type": "object"},
                "outcomes": ["ok"],
            }
        ],
        "start": "read",
        "nodes": [
            {
                "id": "read",
                "type": "node",
                "node": "square",
                "input": [{"target": "star", "path": 'state."*"'}, {"target": "a", "path": "state.a"}],
            }
        ],
        "edges": [{"from": "read", "outcome": "ok", "to": "__end__"}],
    }
    world, seen = World(), list[Any]()
    registry = HandlerRegistry()
    registry.add_handler("square", lambda payload, ctx: seen.append(payload) or {})
    object.__setattr__(world.runner, "handlers", registry)
    published = world.store.publish(Workflow.model_validate(document))
    created = world.store.create(world.store.new_run("run", published.digest, {}, max_steps=10))
    world.queue.publish(created.ready)
    world.drain()

    assert seen == [{"star": 1, "a": 2}]
    assert world.status(created.incarnation) == "completed"


@pytest.mark.parametrize("fault", ["leak", "client"])
def test_an_error_of_the_engine_that_a_handler_raises_is_the_handlers_own(fault: str) -> None:
    def fail(payload: dict[str, Any], ctx: RuntimeContext) -> dict[str, Any]:
        raise RunDamaged("somewhere else") if fault == "leak" else StoreUnavailable("another store")

    record = run_with(World(), fail)

    assert record.status == "failed"
    assert record.error is not None
    assert record.error["type"] == "handler_failed"


def test_a_sum_that_is_no_number_any_more_fails_its_step() -> None:
    def huge(payload: dict[str, Any], ctx: RuntimeContext) -> dict[str, Any]:
        return {"line": "x", "total": 1.7e308}

    world = World()
    registry = HandlerRegistry()
    registry.add_handler("square", huge)
    object.__setattr__(world.runner, "handlers", registry)
    flow = jobs.squares()
    document = flow.compile().model_dump(mode="json", by_alias=True)
    document["state_schema"]["properties"]["total"]["type"] = "number"
    document["node_defs"][0]["output_schema"] = {"type": "object", "properties": {"line": {}, "total": {}}}
    document["output_schema"] = {"type": "object"}
    from wf_core.models import Workflow

    published = world.store.publish(Workflow.model_validate(document))
    created = world.store.create(world.store.new_run("run", published.digest, {"numbers": [1, 2, 3]}, max_steps=99))
    world.queue.publish(created.ready)
    world.drain()

    record = world.store.inspect(created.incarnation)
    assert record is not None
    assert record.error is not None
    assert record.error["type"] == "reducer_failed"
    assert "not a finite number" in record.error["message"]


def test_a_value_too_large_for_the_trace_is_traced_by_its_size_and_kept_in_the_state() -> None:
    text = "x" * 100_000

    record = run_with(World(), lambda payload, ctx: {"line": text, "total": 1})

    assert record.output == {"lines": [text], "total": 1}


def test_the_trace_names_the_size_of_what_it_leaves_out() -> None:
    world, text = World(), "x" * 100_000
    registry = HandlerRegistry()
    registry.add_handler("square", lambda payload, ctx: {"line": text, "total": 1})
    object.__setattr__(world.runner, "handlers", registry)
    run = world.start([1])
    world.drain()

    entries = {
        step.entry["node_id"]: step.entry for step in world.store.trace(run, 0, 100) if step.entry["outcome"] != "loop"
    }
    assert entries["square"]["output"] == {"omitted_bytes": len(text) + len('{"line":"","total":1}')}
    changes = {change["path"]: change["value"] for change in entries["each"]["state_changes"]}
    assert changes == {"state.lines": {"omitted_bytes": len(text) + 4}, "state.total": 1}


def limited(**rules: Any) -> WorkflowBuilder:
    """One step of ``square`` with its own retry policy and time limits."""
    flow = WorkflowBuilder("limited", jobs.Number, jobs.Squared, jobs.Squared)
    step = flow.use(
        jobs.square, output=[output_to("line", state_path("line")), output_to("total", state_path("total"))]
    )
    for name, value in rules.items():
        setattr(step, name, value)
    flow.set_entry_point(step)
    flow.set_route(step, "ok", END)
    return flow


def started(world: World, flow: WorkflowBuilder) -> str:
    digest = world.store.publish(flow.compile()).digest
    created = world.store.create(world.store.new_run("run", digest, {"n": 3}, max_steps=100))
    world.queue.publish(created.ready)
    return created.incarnation


def error_of(world: World, incarnation: str) -> str:
    record = world.store.inspect(incarnation)
    assert record is not None and record.error is not None, record
    return str(record.error["type"])


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ({"line": {1, 2}}, "result_not_json"),
        ({"line": "x" * 2_000_000}, "payload_too_large"),
        ({"line": 1, "total": 1}, "payload_invalid"),
        ({"outcome": "unheard of", "output": {}}, "outcome_undeclared"),
        ("text", "result_not_supported"),
    ],
)
def test_an_answer_that_cannot_be_kept_is_not_asked_for_again(answer: Any, code: str) -> None:
    world, calls = World(), list[int]()
    registry = HandlerRegistry()

    def answering(payload: dict[str, Any], ctx: RuntimeContext) -> Any:
        calls.append(1)
        return answer

    registry.add_handler("square", answering)
    object.__setattr__(world.runner, "handlers", registry)
    run = started(world, limited(retry=5))
    world.drain()

    assert (error_of(world, run), len(calls)) == (code, 1)


def test_a_step_that_nobody_takes_up_fails_as_such() -> None:
    world = World()
    run = started(world, limited(queue_timeout_seconds=10, retry=5))
    world.queue.sent.clear()
    world.now_ms += 10_000

    assert world.sweeper.sweep().timed_out == 1
    world.drain()

    assert error_of(world, run) == "queue_timeout"


@pytest.mark.parametrize(
    ("limit", "code"),
    [
        ("timeout_seconds", "attempt_timeout"),
        ("total_timeout_seconds", "total_timeout"),
        ("heartbeat_seconds", "heartbeat_timeout"),
    ],
)
def test_a_step_whose_handler_does_not_end_in_time_fails_as_such(limit: str, code: str) -> None:
    world = World()
    run = started(world, limited(**{limit: 10}))
    claim = world.store.claim(world.queue.sent.pop(), owner="slow")
    assert isinstance(claim, Claim)
    world.now_ms += 10_000

    assert world.sweeper.sweep().timed_out == 1
    world.drain()

    assert error_of(world, run) == code


def test_an_attempt_out_of_time_is_tried_again_like_any_failure_unless_the_policy_says_never() -> None:
    for policy, status in ((RetryPolicy(max_attempts=2), "completed"), (never_after_time(), "failed")):
        world = World()
        run = started(world, limited(timeout_seconds=10, retry=policy))
        world.store.claim(world.queue.sent.pop(), owner="slow")
        for _ in range(3):
            world.now_ms += 10_000
            world.sweeper.sweep()
            world.drain()

        assert world.status(run) == status


def never_after_time() -> RetryPolicy:
    return RetryPolicy(max_attempts=2, non_retryable=["attempt_timeout"])


def test_a_state_field_that_would_grow_above_its_limit_fails_the_step_and_is_not_written() -> None:
    world = World()
    world.store.field_bytes = 12

    run = world.start([1, 22, 333])
    world.drain()

    record = world.store.inspect(run)
    assert record is not None and record.error is not None
    assert (record.status, record.error["type"]) == ("failed", "payload_too_large")
    assert record.error["message"] == "state field 'lines' would have 16 bytes, the limit is 12"
    assert record.error["node_id"] == "each"
