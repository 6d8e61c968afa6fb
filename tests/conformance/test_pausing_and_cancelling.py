"""Pausing stops new claims; cancelling ends a run at once, whatever is under way."""

from __future__ import annotations

from tests.conformance.driving import Driver, start
from tests.conformance.workflows import each, items, line
from tests.support.stores import StoreCase
from wf_worker.store.protocol import CommitStatus, Refusal, Refused


def refusal(run: Driver, at: int = 0) -> Refused:
    answer = run.store.claim(run.ready[at], owner="other")
    assert isinstance(answer, Refusal)
    return answer.reason


def test_a_paused_run_refuses_claims_and_keeps_the_frame_until_it_goes_on(case: StoreCase) -> None:
    run = start(case, line())
    assert run.store.pause(run.incarnation, on=True) == ("paused", ())

    assert (refusal(run), run.places()) == (Refused.PAUSED, {"paused": 1})
    assert refusal(run) is Refused.STALE

    word, ready = run.store.pause(run.incarnation, on=False)
    assert word == "running"
    run.drain(ready)
    assert run.status == "completed"


def test_running_handlers_commit_while_the_run_is_paused(case: StoreCase) -> None:
    run = start(case, each(active=2), items(4))
    first, second = (run.claim(message) for message in run.work(run.ready[0]))
    run.store.pause(run.incarnation, on=True)

    assert (run.finish(first), run.finish(second)) == ((), ())

    # Two items could be admitted: the controller knows it.
    assert run.places() == {"paused": 1}
    _, ready = run.store.pause(run.incarnation, on=False)
    run.drain(ready)
    assert run.status == "completed"


def test_pausing_and_going_on_twice_change_nothing_the_second_time(case: StoreCase) -> None:
    run = start(case, line())
    for on in (True, False):
        run.store.pause(run.incarnation, on=on)
        before = case.contents()
        run.store.pause(run.incarnation, on=on)
        assert case.contents() == before


def test_a_message_of_before_the_pause_is_good_when_nobody_tried_it_meanwhile(case: StoreCase) -> None:
    run = start(case, line())
    run.store.pause(run.incarnation, on=True)
    run.store.pause(run.incarnation, on=False)

    run.drain()

    assert run.status == "completed"


def test_a_pause_over_more_frames_than_a_page_is_released_in_pages(case: StoreCase) -> None:
    run = start(case, each(active=65, outstanding=65), items(65))
    [opening] = run.work(run.ready[0])
    run.ready = run.work(opening)
    run.store.pause(run.incarnation, on=True)
    assert {refusal(run, at) for at in range(65)} == {Refused.PAUSED}

    _, ready = run.store.pause(run.incarnation, on=False)
    due = run.store.due(run.incarnation)
    assert due is not None and due.release and len(ready) == 64
    more = run.store.release(run.incarnation)
    assert len(more) == 1

    run.drain([*ready, *more])
    assert run.status == "completed"


def test_an_ended_run_is_neither_paused_nor_cancelled(case: StoreCase) -> None:
    run = start(case, line())
    run.drain()
    before = case.contents()

    assert run.store.pause(run.incarnation, on=True) == ("over", ())
    assert run.store.cancel(run.incarnation) == "over"
    assert case.contents() == before


def test_a_cancelled_run_refuses_everything_after(case: StoreCase) -> None:
    run = start(case, each(active=3), items(5), lease_ms=0)
    first, second, ready = run.work(run.ready[0])
    run.ready = (ready,)
    claim = run.claim(second)
    transition = run.transition(claim)
    run.finish(run.claim(first), "ask")
    assert run.store.cancel(run.incarnation, reason="enough") == "cancelled"
    before = case.contents()

    assert refusal(run) is Refused.OVER
    assert run.store.commit(claim, transition).status is CommitStatus.REFUSED
    assert run.store.renew(claim) == "cancelled"
    assert run.store.give_back(claim) == ()
    assert run.store.lost(run.incarnation, claim.frame, claim.token) == ("over", ())
    assert run.store.release(run.incarnation) == ()
    assert run.store.republish(run.incarnation, ready.frame, "0", look_ms=0, send=True) == ("refused", ())
    assert run.store.pause(run.incarnation, on=True) == ("over", ())
    assert case.contents() == before
    record = run.store.inspect(run.incarnation)
    assert record is not None and record.error is not None
    assert (record.status, record.error["message"]) == ("cancelled", "enough")
    assert record.ended_ms is not None


def test_cancelling_again_gives_the_same_answer(case: StoreCase) -> None:
    run = start(case, line())
    run.store.cancel(run.incarnation)
    before = case.contents()

    assert case.records.again(case.records.last("cancel"))[0] == b"cancelled"
    assert run.store.cancel(run.incarnation) == "over"
    assert case.contents() == before


def test_cancelling_under_a_revision_that_has_changed_is_refused(case: StoreCase) -> None:
    run = start(case, line())
    record = run.store.inspect(run.incarnation)
    assert record is not None
    run.claim(run.ready[0])
    before = case.contents()

    reply = case.records.call("cancel", run.incarnation, "call", record.revision, b"{}")

    assert reply[0] == b"changed" and reply[1] != record.revision.encode()
    assert case.contents() == before


def test_a_pause_that_is_executed_again_after_the_run_has_gone_on_does_not_pause_it(case: StoreCase) -> None:
    run = start(case, line())
    revision = run.store.inspect(run.incarnation)
    assert revision is not None
    assert case.records.call("pause", run.incarnation, "first", "1", revision.revision)[0] == b"paused"
    run.store.pause(run.incarnation, on=False)

    assert case.records.call("pause", run.incarnation, "first", "1", revision.revision)[0] == b"changed"

    run.drain()
    assert run.status == "completed"
