"""Runs that have to end by a time."""

from __future__ import annotations

from tests.conformance.driving import Driver, start
from tests.conformance.workflows import asking, line
from tests.support.stores import MemoryCase, StoreCase
from wf_core.models import Workflow
from wf_worker.store.protocol import CommitStatus


def timed(case: StoreCase, workflow: Workflow, ms: int = 1) -> Driver:
    return start(case, workflow, extras={"deadline_ms": str(ms)})


def end(run: Driver) -> str:
    """Ends the run at its deadline as a sweeper does."""
    due = run.store.due(run.incarnation)
    assert due is not None
    [(what, score)] = due.overdue
    assert what == "run"
    return run.store.end_at_deadline(run.incarnation, score)


def test_a_run_that_has_not_ended_by_its_deadline_fails_at_once(case: StoreCase) -> None:
    run = timed(case, line())
    claim = run.claim(run.ready[0])
    transition = run.transition(claim)
    case.pass_time(2)

    assert end(run) == "failed"

    record = run.store.inspect(run.incarnation)
    assert record is not None and record.error is not None
    assert (record.status, record.error["type"]) == ("failed", "deadline_exceeded")
    assert run.store.commit(claim, transition).status is CommitStatus.REFUSED


def test_one_that_waits_for_an_answer_fails_as_well(case: StoreCase) -> None:
    run = timed(case, asking())
    run.drain()
    case.pass_time(2)

    assert end(run) == "failed"
    assert run.status == "failed"


def test_a_run_that_ended_in_time_is_left_alone(case: StoreCase) -> None:
    run = timed(case, line())
    run.drain()
    case.pass_time(2)
    before = case.contents()

    assert run.store.end_at_deadline(run.incarnation, "0") == "refused"
    assert run.store.end_at_deadline("00-gone", "0") == "gone"
    assert case.contents() == before


def test_it_fails_at_its_time_and_not_a_millisecond_before(memory_case: MemoryCase) -> None:
    run = timed(memory_case, line(), 5_000)
    run.claim(run.ready[0])
    record = run.store.inspect(run.incarnation)
    assert record is not None and record.deadline_ms == record.created_ms + 5_000

    memory_case.clock.advance(4_999)
    due = run.store.due(run.incarnation)
    assert due is not None and due.overdue == ()
    memory_case.clock.advance(1)
    assert end(run) == "failed"


def test_a_run_that_failed_for_it_goes_on_without_a_deadline(case: StoreCase) -> None:
    run = timed(case, line())
    case.pass_time(2)
    end(run)

    word, _ = run.store.retry_failed(run.incarnation)
    due = run.store.due(run.incarnation)

    assert word == "retried" and due is not None and due.overdue == ()
    assert run.status == "running"
