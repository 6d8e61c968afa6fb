"""Steps that are out of time: shut out first, then the kernel is asked what that means."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.driving import Driver, asks_about, start
from tests.conformance.workflows import each, items, line
from tests.support.stores import MemoryCase, StoreCase
from wf_core.runtime.transition import Purpose
from wf_worker.store.protocol import Claim, CommitStatus, Ready

SECOND = 1000
AGAIN = {"max_attempts": 9, "initial_seconds": 4, "multiplier": 1, "jitter": "none"}


def overdue(run: Driver) -> tuple[tuple[str, str], ...]:
    due = run.store.due(run.incarnation)
    assert due is not None
    return due.overdue


def fence(run: Driver) -> Ready:
    """Fences the one frame that is overdue; the message to its next claimer."""
    [(frame, score)] = overdue(run)
    word, [message] = run.store.fence(run.incarnation, frame, score)
    assert word == "fenced"
    return message


def claimed(run: Driver, message: Ready, after: int = 0) -> Claim:
    """A claim, so many ms later."""
    assert isinstance(run.case, MemoryCase)
    run.case.clock.advance(after)
    return run.claim(message)


@pytest.mark.parametrize(
    ("limits", "deadline"),
    [
        ({}, None),
        ({"timeout_seconds": 3}, 3),
        ({"total_timeout_seconds": 5}, 5),
        ({"timeout_seconds": 3, "total_timeout_seconds": 2}, 2),
        ({"queue_timeout_seconds": 1}, None),
        ({"heartbeat_seconds": 1}, None),
    ],
)
def test_a_claimer_is_told_when_its_handler_is_out_of_time(
    memory_case: MemoryCase, limits: dict[str, int], deadline: int | None
) -> None:
    run = start(memory_case, line(**limits))
    claim = run.claim(run.ready[0])

    expected = None if deadline is None else memory_case.clock() + deadline * SECOND
    assert claim.deadline_ms == expected


def test_an_attempt_that_is_out_of_time_is_shut_out(case: StoreCase) -> None:
    run = start(case, line(timeout_seconds=1))
    slow = run.claim(run.ready[0])
    late = run.transition(slow)
    assert overdue(run) == ()
    case.pass_time(SECOND + 1)

    message = fence(run)

    assert run.store.commit(slow, late).status is CommitStatus.REFUSED
    assert run.store.renew(slow) == "stale"
    next_claim = run.claim(message)
    assert (next_claim.purpose, next_claim.step, next_claim.attempt) == (Purpose.ATTEMPT_TIMEOUT, slow.step, 1)
    assert overdue(run) == ()


def test_a_deadline_is_due_at_its_time_and_not_a_millisecond_before(memory_case: MemoryCase) -> None:
    run = start(memory_case, line(timeout_seconds=3))
    run.claim(run.ready[0])

    memory_case.clock.advance(3 * SECOND - 1)
    assert overdue(run) == ()
    memory_case.clock.advance(1)
    assert len(overdue(run)) == 1


def test_a_step_that_ends_in_time_leaves_no_deadline(memory_case: MemoryCase) -> None:
    run = start(memory_case, line(timeout_seconds=3, heartbeat_seconds=1, queue_timeout_seconds=1))
    run.drain()
    memory_case.clock.advance(10 * SECOND)

    assert (run.status, overdue(run)) == ("completed", ())


@pytest.mark.parametrize("score", ["0", "nonsense"])
def test_fencing_names_the_deadline_it_read(memory_case: MemoryCase, score: str) -> None:
    run = start(memory_case, line(timeout_seconds=1))
    claim = run.claim(run.ready[0])
    memory_case.clock.advance(SECOND)

    assert run.store.fence(run.incarnation, claim.frame, score) == ("refused", ())
    [(frame, right)] = overdue(run)
    assert run.store.fence(run.incarnation, frame, right)[0] == "fenced"
    assert run.store.fence(run.incarnation, frame, right) == ("refused", ())


def test_every_attempt_has_its_own_time_and_all_together_theirs(memory_case: MemoryCase) -> None:
    run = start(memory_case, line(timeout_seconds=3, total_timeout_seconds=12, retry=AGAIN))
    begun = memory_case.clock()
    run.finish(claimed(run, run.ready[0]), error=ValueError("first"))
    memory_case.clock.advance(4 * SECOND)
    _, [message] = run.store.fire(run.incarnation)
    assert run.claim(message).deadline_ms == begun + 7 * SECOND
    memory_case.clock.advance(3 * SECOND)
    timed_out = run.claim(fence(run))
    run.finish(timed_out, error=TimeoutError())
    memory_case.clock.advance(4 * SECOND)
    _, [message] = run.store.fire(run.incarnation)

    assert run.claim(message).deadline_ms == begun + 12 * SECOND


def test_an_attempt_that_would_come_too_late_is_not_waited_for(memory_case: MemoryCase) -> None:
    run = start(memory_case, line(total_timeout_seconds=4, retry=AGAIN))

    [message] = run.finish(claimed(run, run.ready[0]), error=ValueError("first"))

    assert run.claim(message).purpose is Purpose.TOTAL_TIMEOUT


def test_a_sign_of_life_gives_more_time_and_is_kept_for_the_next_attempt(memory_case: MemoryCase) -> None:
    run = start(memory_case, line(heartbeat_seconds=2, retry=AGAIN))
    claim = run.claim(run.ready[0])
    memory_case.clock.advance(SECOND)
    assert run.store.renew(claim, heartbeat=True, details=b'{"done":7}') == "renewed"
    memory_case.clock.advance(SECOND)
    run.store.renew(claim)  # by the thread: no sign of life
    assert overdue(run) == ()
    memory_case.clock.advance(SECOND)

    lost = run.claim(fence(run))

    assert (lost.purpose, lost.last_heartbeat) == (Purpose.HEARTBEAT_TIMEOUT, {"done": 7})
    run.finish(lost, error=TimeoutError())
    memory_case.clock.advance(4 * SECOND)
    _, [message] = run.store.fire(run.incarnation)
    assert run.claim(message).last_heartbeat == {"done": 7}


def test_the_next_step_hears_nothing_of_it(case: StoreCase) -> None:
    run = start(case, line())
    claim = run.claim(run.ready[0])
    run.store.renew(claim, heartbeat=True, details=b"[1]")
    [message] = run.finish(claim)

    assert run.claim(message).last_heartbeat is None


def test_signs_of_life_do_not_put_off_the_end_of_an_attempt(memory_case: MemoryCase) -> None:
    run = start(memory_case, line(heartbeat_seconds=2, timeout_seconds=3))
    claim = run.claim(run.ready[0])
    for _ in range(3):
        memory_case.clock.advance(SECOND)
        run.store.renew(claim, heartbeat=True)

    assert run.claim(fence(run)).purpose is Purpose.ATTEMPT_TIMEOUT


def test_a_step_that_nobody_takes_up_is_out_of_time(case: StoreCase) -> None:
    run = start(case, line(queue_timeout_seconds=1))
    case.pass_time(SECOND + 1)

    message = fence(run)

    late = run.store.claim(run.ready[0], owner="late")
    assert not isinstance(late, Claim)
    claim = run.claim(message)
    assert (claim.purpose, claim.step, claim.attempt) == (Purpose.QUEUE_TIMEOUT, None, 0)


def test_the_queues_clock_stands_still_while_the_run_is_paused(memory_case: MemoryCase) -> None:
    run = start(memory_case, line(queue_timeout_seconds=5))
    memory_case.clock.advance(3 * SECOND)
    run.store.pause(run.incarnation, on=True)
    run.store.claim(run.ready[0], owner="refused")
    memory_case.clock.advance(60 * SECOND)
    assert overdue(run) == ()
    _, [message] = run.store.pause(run.incarnation, on=False)

    memory_case.clock.advance(2 * SECOND - 1)
    assert overdue(run) == ()
    memory_case.clock.advance(1)
    assert [frame for frame, _ in overdue(run)] == [message.frame]


def test_a_frame_that_nobody_looked_for_during_a_pause_is_not_overdue_after_it(memory_case: MemoryCase) -> None:
    run = start(memory_case, line(queue_timeout_seconds=5))
    memory_case.clock.advance(3 * SECOND)
    run.store.pause(run.incarnation, on=True)
    memory_case.clock.advance(60 * SECOND)

    [(frame, score)] = overdue(run)
    assert run.store.fence(run.incarnation, frame, score) == ("stopped", ())
    assert (run.places(), overdue(run)) == ({"paused": 1}, ())
    run.store.pause(run.incarnation, on=False)
    memory_case.clock.advance(2 * SECOND - 1)
    assert overdue(run) == ()
    memory_case.clock.advance(1)
    assert len(overdue(run)) == 1


def test_the_queues_clock_stands_still_from_the_moment_an_interrupt_holds_a_frame(case: StoreCase) -> None:
    run = start(case, each(active=2, work={"queue_timeout_seconds": 1}), items(2))
    asking, _ = run.work(run.ready[0])
    run.work(asking, asks_about(0))
    case.pass_time(SECOND + 1)

    [(frame, score)] = overdue(run)
    assert run.store.fence(run.incarnation, frame, score)[0] == "stopped"
    assert run.places() == {"blocked": 1, "open": 1, "held": 1}
    run.drain(run.answer())
    assert run.status == "completed"


def test_items_have_the_limits_of_their_first_step(memory_case: MemoryCase) -> None:
    run = start(memory_case, each(active=2, work={"timeout_seconds": 3, "queue_timeout_seconds": 9}), items(3))
    first, _ = run.work(run.ready[0])

    assert run.claim(first).deadline_ms == memory_case.clock() + 3 * SECOND
    memory_case.clock.advance(9 * SECOND)
    assert len(overdue(run)) == 2


def test_a_held_item_is_not_overdue(memory_case: MemoryCase) -> None:
    run = start(memory_case, each(active=2, work={"queue_timeout_seconds": 5}), items(2))
    asking, waiting = run.work(run.ready[0])
    run.work(asking, asks_about(0))
    run.work(waiting)
    memory_case.clock.advance(60 * SECOND)
    assert (run.places(), overdue(run)) == ({"blocked": 1, "open": 1, "held": 1}, ())

    run.drain(run.answer())

    assert run.status == "completed"


def test_a_hanging_handler_does_not_keep_a_failing_run_alive(memory_case: MemoryCase) -> None:
    run = start(memory_case, each(active=2, work={"timeout_seconds": 5}), items(2))
    hanging, failing = run.work(run.ready[0])
    run.claim(hanging)
    run.finish(run.claim(failing), error=ValueError("no"))
    assert run.status == "running"
    memory_case.clock.advance(5 * SECOND)

    [(frame, score)] = overdue(run)
    run.store.fence(run.incarnation, frame, score)

    assert run.status == "failed"


def test_a_sweeper_gets_the_run_when_a_deadline_has_passed(memory_case: MemoryCase) -> None:
    run = start(memory_case, line(timeout_seconds=3), lease_ms=60 * SECOND)
    run.claim(run.ready[0])
    shard = memory_case.keys.shard_of_incarnation(run.incarnation)
    memory_case.store.sweep(shard)
    run.store.due(run.incarnation)

    memory_case.clock.advance(3 * SECOND - 1)
    assert memory_case.store.sweep(shard) == []
    memory_case.clock.advance(1)
    assert memory_case.store.sweep(shard) == [run.incarnation]


def limits_of(run: Driver, frame: str) -> Any:
    reply = run.case.records.inner.call("audit", run.incarnation, "look")
    heads = dict(zip(reply[2][::2], reply[2][1::2], strict=True))
    return heads[frame.encode()].split(b"|")[17]


def test_the_step_behind_has_limits_of_its_own(memory_case: MemoryCase) -> None:
    run = start(memory_case, line(timeout_seconds=3))
    [message] = run.work(run.ready[0])

    assert (run.claim(message).deadline_ms, limits_of(run, message.frame)) == (None, b"")


def test_a_result_that_comes_too_late_counts_no_more_though_nobody_has_noticed_yet(case: StoreCase) -> None:
    run = start(case, line(timeout_seconds=1))
    slow = run.claim(run.ready[0])
    case.pass_time(SECOND + 1)

    late = run.store.commit(slow, run.transition(slow))

    assert (late.status, late.reason) == (CommitStatus.REFUSED, "late")
    [message] = late.ready
    assert run.claim(message).purpose is Purpose.ATTEMPT_TIMEOUT


def test_no_attempt_begins_after_the_time_of_all(memory_case: MemoryCase) -> None:
    run = start(memory_case, line(total_timeout_seconds=5, retry=AGAIN))
    run.finish(claimed(run, run.ready[0]), error=ValueError("first"))
    memory_case.clock.advance(4 * SECOND)
    _, [message] = run.store.fire(run.incarnation)

    claim = claimed(run, message, after=2 * SECOND)

    assert (claim.purpose, claim.attempt) == (Purpose.TOTAL_TIMEOUT, 1)
