"""A handler that failed is tried again: no worker and no message meanwhile, and one visit all the while."""

from __future__ import annotations

from tests.conformance.driving import Driver, start
from tests.conformance.workflows import each, items, line
from tests.support.stores import MemoryCase, StoreCase
from wf_core.runtime.transition import Purpose
from wf_worker.store.protocol import Claim, Ready

SOON = {"max_attempts": 3, "initial_seconds": 0.001, "jitter": "none"}
TROUBLE = ConnectionError("no answer")


def again(run: Driver) -> Claim:
    """The claim of the next attempt, whose time has come."""
    run.case.pass_time(2)
    count, [message] = run.store.fire(run.incarnation)
    assert count == 1
    return run.claim(message)


def failed_once(run: Driver, message: Ready) -> Claim:
    claim = run.claim(message)
    assert run.finish(claim, error=TROUBLE) == ()
    return claim


def test_the_next_attempt_is_of_the_same_visit(case: StoreCase) -> None:
    run = start(case, line(retry=SOON))
    first = failed_once(run, run.ready[0])
    assert (run.places(), run.status) == ({"waits": 1}, "running")

    second = again(run)

    assert (second.purpose, second.step, second.attempt, second.failures) == (Purpose.STEP, first.step, 2, 1)
    run.drain(run.finish(second))
    record = run.store.inspect(run.incarnation)
    assert record is not None and (record.status, record.steps_executed) == ("completed", 2)


def test_after_the_last_attempt_the_run_fails_with_its_error(case: StoreCase) -> None:
    run = start(case, line(retry=SOON))
    failed_once(run, run.ready[0])
    run.finish(again(run), error=TROUBLE)
    run.finish(again(run), error=ValueError("the last word"))

    record = run.store.inspect(run.incarnation)
    assert record is not None and record.status == "failed"
    assert record.error is not None and record.error["message"] == "the last word"


def test_each_delay_is_longer_than_the_one_before_it(memory_case: MemoryCase) -> None:
    policy = {"max_attempts": 9, "initial_seconds": 10, "multiplier": 3, "max_seconds": 60, "jitter": "none"}
    run = start(memory_case, line(retry=policy))
    [message], delays = run.ready, []
    for _ in range(4):
        run.finish(run.claim(message), error=TROUBLE)
        due = run.store.waits_until(run.incarnation)
        assert due is not None
        delays.append(due - memory_case.clock())
        memory_case.clock.advance(delays[-1])
        _, [message] = run.store.fire(run.incarnation)

    assert delays == [10_000, 30_000, 60_000, 60_000]


def test_an_item_is_tried_again_before_its_loop_takes_the_failure_in(case: StoreCase) -> None:
    run = start(case, each(active=1, work={"retry": SOON}, item_error={"action": "skip"}), items(2))
    [message] = run.work(run.ready[0])
    failed_once(run, message)
    run.finish(again(run), error=TROUBLE)
    assert run.places() == {"blocked": 1, "waits": 1}

    run.drain(run.finish(again(run), error=TROUBLE))

    record = run.store.inspect(run.incarnation)
    assert record is not None and record.status == "completed"
    loops = [step.entry for step in run.store.trace(run.incarnation, 0, 100) if step.entry["outcome"] == "loop"]
    assert len(loops) == 2


def test_the_next_step_begins_with_a_fresh_count_of_failures(case: StoreCase) -> None:
    run = start(case, line(retry=SOON))
    failed_once(run, run.ready[0])
    [message] = run.finish(again(run))

    second = run.claim(message)
    assert (second.attempt, second.failures) == (1, 0)


def test_lost_workers_are_no_failures_of_the_handler(case: StoreCase) -> None:
    run = start(case, line(retry=SOON), lease_ms=0)
    lost = run.claim(run.ready[0])
    _, [message] = run.store.lost(run.incarnation, lost.frame, lost.token)

    claim = failed_once(run, message)

    assert (claim.attempt, claim.losses, claim.failures) == (2, 1, 0)
    assert (again(run).failures, run.status) == (1, "running")


def test_a_cancelled_run_is_not_tried_again(case: StoreCase) -> None:
    run = start(case, line(retry=SOON))
    failed_once(run, run.ready[0])
    run.store.cancel(run.incarnation)
    case.pass_time(2)

    assert run.store.fire(run.incarnation) == (0, ())
    assert run.status == "cancelled"


def test_a_failure_elsewhere_ends_the_run_although_an_attempt_is_due_later(case: StoreCase) -> None:
    policy = {**SOON, "non_retryable": ["ValueError"]}
    run = start(case, each(work={"retry": policy}), items(2))
    first, second = run.work(run.ready[0])
    failed_once(run, first)
    run.finish(run.claim(second), error=ValueError("no"))

    assert run.status == "failed"
    assert run.places() == {"blocked": 1, "waits": 1, "failed": 1}
