"""A result that came too late counts no more, and the trace says so once."""

from __future__ import annotations

import pytest

from tests.conformance.driving import Driver, start
from tests.conformance.workflows import line
from tests.support.stores import StoreCase
from wf_worker.store.protocol import Claim, CommitStatus

LATE = {"value": "late"}


@pytest.fixture
def run(case: StoreCase) -> Driver:
    """A run whose leases are over as soon as they begin."""
    return start(case, line(), lease_ms=0)


def discarded(run: Driver) -> list[tuple[int, str, str | None]]:
    """Number, outcome and reason of each entry that tells of a result which did not count."""
    return [
        (step.step_number, step.entry["outcome"], step.discarded)
        for step in run.store.trace(run.incarnation, 0, 100)
        if step.discarded is not None
    ]


def zombie_of(run: Driver) -> Claim:
    """A claim that was taken from its worker, and given to another one."""
    zombie = run.claim(run.ready[0])
    _, [message] = run.store.lost(run.incarnation, zombie.frame, zombie.token)
    run.ready = (message,)
    return zombie


def test_the_result_of_a_lost_claim_is_traced_as_discarded(case: StoreCase, run: Driver) -> None:
    zombie = zombie_of(run)
    assert run.commit(zombie).status is CommitStatus.REFUSED

    assert run.store.discard(zombie, LATE) == "traced"

    assert discarded(run) == [(1, "discarded", "lost")]
    [told] = run.store.trace(run.incarnation, 0, 10)
    assert (told.worker, told.entry["node_id"], told.entry["output"]) == ("worker", "first", LATE)
    assert (told.entry["next_node_id"], told.entry["state_changes"]) == ("", [])
    record = case.store.inspect(run.incarnation)
    assert record is not None and record.trace_count == 1


def test_a_late_result_is_told_once_however_often_it_is_said(case: StoreCase, run: Driver) -> None:
    zombie = zombie_of(run)
    run.store.discard(zombie, LATE)
    before = case.contents()

    assert case.records.again(case.records.last("discard"))[0] == b"refused"
    assert run.store.discard(zombie, {"value": "later still"}) == "refused"
    assert case.contents() == before


def test_the_result_of_a_cancelled_run_is_traced_with_its_status_and_the_run_stays_cancelled(
    case: StoreCase, run: Driver
) -> None:
    claim = run.claim(run.ready[0])
    case.store.cancel(run.incarnation)
    assert run.commit(claim).reason == "over"

    assert [run.store.discard(claim, LATE) for _ in range(3)] == ["traced", "refused", "refused"]

    assert (discarded(run), run.status) == ([(1, "discarded", "cancelled")], "cancelled")


@pytest.mark.parametrize("noticed", ["by_the_sweeper", "by_the_commit"])
def test_the_result_of_an_attempt_whose_time_was_over_says_which_limit_it_missed(case: StoreCase, noticed: str) -> None:
    run = start(case, line(timeout_seconds=1))
    claim = run.claim(run.ready[0])
    transition = run.transition(claim)
    case.pass_time(1001)
    if noticed == "by_the_sweeper":
        due = run.store.due(run.incarnation)
        assert due is not None
        [(frame, score)] = due.overdue
        run.store.fence(run.incarnation, frame, score)
    assert run.store.commit(claim, transition).status is CommitStatus.REFUSED

    assert run.store.discard(claim, LATE) == "traced"

    assert discarded(run) == [(1, "discarded", "attempt_timeout")]


def test_a_late_result_is_told_after_its_run_has_ended_well(case: StoreCase, run: Driver) -> None:
    zombie = zombie_of(run)
    run.drain()
    assert run.status == "completed"

    assert run.store.discard(zombie, LATE) == "traced"

    assert (discarded(run), run.status) == ([(1, "discarded", "lost")], "completed")


def test_a_claim_that_is_good_a_token_never_given_and_a_run_that_is_gone_are_told_of_nothing(
    case: StoreCase, run: Driver
) -> None:
    claim = run.claim(run.ready[0])
    before = case.contents()
    assert run.store.discard(claim, LATE) == "refused"
    case.store.cancel(run.incarnation)
    ended = case.contents()

    claim.token = "of-a-future-that-was-lost"
    assert run.store.discard(claim, LATE) == "refused"
    assert case.contents() == ended
    assert before != ended

    case.drop_header(run.incarnation)
    assert run.store.discard(claim, LATE) == "gone"


def test_a_run_without_a_trace_keeps_nothing_of_late_results(case: StoreCase) -> None:
    run = start(case, line(), lease_ms=0, extras={"trace": "off"})
    zombie = zombie_of(run)
    before = case.contents()

    assert run.store.discard(zombie, LATE) == "refused"
    assert case.contents() == before


def test_a_run_in_summary_tells_of_late_results_without_their_payload(case: StoreCase) -> None:
    run = start(case, line(), lease_ms=0, extras={"trace": "summary"})
    zombie = zombie_of(run)

    run.store.discard(zombie, LATE)

    [told] = run.store.trace(run.incarnation, 0, 10)
    assert (told.discarded, told.entry["output"]) == ("lost", {})
