"""A failed run goes on: what failed is tried anew, what was done stays done."""

from __future__ import annotations

import pytest

from tests.conformance.driving import Driver, asks_about, start
from tests.conformance.workflows import each, each_rests, items, line
from tests.support.stores import MemoryCase, StoreCase
from wf_core.runtime.transition import Purpose
from wf_worker.errors import RunDamaged
from wf_worker.store.protocol import Ready

TROUBLE = ValueError("no")


def go_on(run: Driver, **more: int) -> tuple[Ready, ...]:
    word, messages = run.store.retry_failed(run.incarnation, **more)
    assert word == "retried"
    return messages


def failed(case: StoreCase) -> Driver:
    run = start(case, line())
    run.finish(run.claim(run.ready[0]), error=TROUBLE)
    assert run.status == "failed"
    return run


def test_the_failed_step_is_the_same_visit_with_a_fresh_count_of_failures(case: StoreCase) -> None:
    run = failed(case)

    [message] = go_on(run)

    claim = run.claim(message)
    assert (claim.purpose, claim.step, claim.failures, run.status) == (Purpose.STEP, 1, 0, "running")
    run.drain(run.finish(claim))
    record = run.store.inspect(run.incarnation)
    assert record is not None and (record.status, record.error, record.ended_ms is None) == ("completed", None, False)


def test_a_run_that_goes_on_can_fail_again(case: StoreCase) -> None:
    run = failed(case)
    [message] = go_on(run)
    run.finish(run.claim(message), error=ValueError("again"))

    record = run.store.inspect(run.incarnation)
    assert record is not None and record.error is not None
    assert (record.status, record.error["message"]) == ("failed", "again")
    assert len(go_on(run)) == 1


def test_finished_items_stay_also_those_that_ended_after_the_failure(case: StoreCase) -> None:
    run = start(case, each(active=3), items(6))
    first, second, third = (run.claim(message) for message in run.work(run.ready[0]))
    run.finish(first)
    run.finish(second, error=TROUBLE)
    run.finish(third)
    assert run.status == "failed"

    worked = run.drain(go_on(run))
    due = run.store.due(run.incarnation)
    assert due is not None
    # The items that were admitted in the meantime, and the loop's admission, had lost their messages.
    messages = [
        message
        for frame in due.unclaimed
        for message in run.store.republish(run.incarnation, frame.frame, frame.score, look_ms=9, send=True)[1]
    ]
    worked += run.drain(messages)

    assert run.status in ("completed", "running")
    entries = [step.entry for step in run.store.trace(run.incarnation, 0, 100)]
    done = [entry["frame_id"] for entry in entries if entry["node_id"] == "work"]
    assert len(done) == len(set(done))
    assert worked >= 1


def test_several_failed_items_are_all_tried_anew(case: StoreCase) -> None:
    run = start(case, each(active=3), items(3))
    claims = [run.claim(message) for message in run.work(run.ready[0])]
    for claim in claims:
        run.finish(claim, error=TROUBLE)
    assert (run.status, run.places()) == ("failed", {"blocked": 1, "failed": 3})

    run.drain(go_on(run))

    assert run.status == "completed"


def test_a_barrier_that_failed_is_replayed_anew(case: StoreCase) -> None:
    run = start(case, each(active=2, work={"output": [{"source": "value", "target": "state.last"}]}), items(2))
    run.drain()
    assert run.status == "failed"

    [message] = go_on(run)

    assert run.claim(message).purpose is Purpose.FINISH


def test_open_interrupts_are_asked_again(case: StoreCase) -> None:
    run = start(case, each(active=2, interrupt="continue"), items(2))
    first, second = (run.claim(message) for message in run.work(run.ready[0]))
    run.finish(first, "ask")
    run.finish(second, error=TROUBLE)
    assert run.status == "failed"

    run.drain(go_on(run))

    assert (run.status, len(run.numbers())) == ("interrupted", 1)
    run.drain(run.answer())
    assert run.status == "completed"


def test_waits_go_on_and_times_that_have_passed_are_due(memory_case: MemoryCase) -> None:
    run = start(memory_case, each_rests(active=2, for_seconds=5), items(2))
    first, second = (run.claim(message) for message in run.work(run.ready[0]))
    run.finish(first)
    run.finish(second, error=TROUBLE)
    memory_case.clock.advance(5_000)

    run.drain(go_on(run))
    assert run.store.fire(run.incarnation)[0] == 1


def test_a_run_that_met_its_budget_goes_on_with_a_larger_one(case: StoreCase) -> None:
    run = start(case, line(), max_steps=1)
    run.drain()
    assert run.status == "failed"

    run.drain(go_on(run))
    assert run.status == "failed"
    run.drain(go_on(run, max_steps=5))

    record = run.store.inspect(run.incarnation)
    assert record is not None and (record.status, record.max_steps, record.steps_executed) == ("completed", 5, 2)


@pytest.mark.parametrize("ending", ["completed", "cancelled", "running"])
def test_only_a_failed_run_goes_on(case: StoreCase, ending: str) -> None:
    run = start(case, line())
    if ending == "completed":
        run.drain()
    elif ending == "cancelled":
        run.store.cancel(run.incarnation)
    else:
        run.claim(run.ready[0])
    before = case.contents()

    assert run.store.retry_failed(run.incarnation)[0] == "not_failed"
    assert run.store.retry_failed("00-gone")[0] == "gone"
    assert case.contents() == before


def test_the_same_call_again_changes_nothing(case: StoreCase) -> None:
    run = failed(case)
    go_on(run)
    before = case.contents()

    reply = case.records.again(case.records.last("retry_failed"))

    assert reply[0] == b"retried"
    assert case.contents() == before


def test_a_damaged_run_does_not_go_on(case: StoreCase) -> None:
    run = failed(case)
    go_on(run)
    run.store.fail_damaged(run.incarnation, RunDamaged("a record is gone", path="f"))

    assert run.store.retry_failed(run.incarnation)[0] == "damaged"


def test_a_paused_run_that_goes_on_stays_paused(case: StoreCase) -> None:
    run = start(case, each(active=2), items(2))
    first, second = (run.claim(message) for message in run.work(run.ready[0]))
    run.store.pause(run.incarnation, on=True)
    run.finish(first)
    run.finish(second, error=TROUBLE)
    assert run.status == "failed"

    assert go_on(run) == ()
    assert run.places().get("paused", 0) >= 1
    _, messages = run.store.pause(run.incarnation, on=False)
    run.drain(messages)
    assert run.status == "completed"


def test_the_asking_item_holds_again_what_it_held(case: StoreCase) -> None:
    run = start(case, each(active=2), items(3))
    first, second = (run.claim(message) for message in run.work(run.ready[0]))
    run.finish(first, "ask")
    run.finish(second, error=TROUBLE)

    run.drain(go_on(run), asks_about(0))

    assert run.status == "interrupted"
    assert run.places()["held"] >= 1
    run.drain(run.answer())
    assert run.status == "completed"


@pytest.mark.parametrize("budget", [1, 2])
def test_a_budget_that_is_used_up_already_is_refused(case: StoreCase, budget: int) -> None:
    failing = start(case, each(active=1), items(3), max_steps=2, run_id="other")
    failing.drain()
    assert failing.status == "failed"
    before = case.contents()

    assert failing.store.retry_failed(failing.incarnation, max_steps=budget)[0] == "budget"
    assert case.contents() == before


def test_a_cancellation_that_came_too_late_does_not_end_the_run_when_it_is_executed_again(case: StoreCase) -> None:
    run = failed(case)
    assert run.store.cancel(run.incarnation) == "over"
    go_on(run)

    assert case.records.again(case.records.last("cancel"))[0] == b"changed"

    assert run.status == "running"
