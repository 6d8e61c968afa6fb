"""Frames that wait for a time: no worker, no message, and when it has come one of each."""

from __future__ import annotations

import pytest

from tests.conformance.driving import Driver, asks_about, start
from tests.conformance.workflows import each_rests, items, resting
from tests.support.stores import FAKE, MemoryCase, StoreCase
from wf_core.runtime.transition import Purpose
from wf_worker.errors import RunDamaged
from wf_worker.store.protocol import Ready

MINUTE = 60_000


def fire_all(run: Driver) -> tuple[Ready, ...]:
    """Fires as a sweeper does; the messages."""
    messages: list[Ready] = []
    while (page := run.store.fire(run.incarnation))[0]:
        messages += page[1]
    return tuple(messages)


def elapsed(run: Driver) -> int:
    due = run.store.due(run.incarnation)
    assert due is not None
    return due.elapsed


def test_a_waiting_frame_has_no_message_and_the_run_is_running(case: StoreCase) -> None:
    run = start(case, resting(for_seconds=60))

    assert run.work(run.ready[0]) == ()

    assert (run.places(), run.status, elapsed(run)) == ({"waits": 1}, "running", 0)
    assert run.store.fire(run.incarnation) == (0, ())


def test_when_the_time_has_come_the_frame_is_due_once(case: StoreCase) -> None:
    run = start(case, resting(for_seconds=0.02))
    run.work(run.ready[0])
    case.pass_time(21)
    assert elapsed(run) == 1

    count, [message] = run.store.fire(run.incarnation)

    assert (count, message.node) == (1, "rest")
    assert run.store.fire(run.incarnation) == (0, ())
    claim = run.claim(message)
    assert (claim.purpose, claim.step) == (Purpose.ELAPSED, 2)
    run.drain(run.finish(claim))
    record = run.store.inspect(run.incarnation)
    assert record is not None and (record.status, record.steps_executed) == ("completed", 3)
    trace = run.store.trace(run.incarnation, 0, 100)
    traced = [(step.step_number, step.entry["node_id"], step.entry["outcome"]) for step in trace]
    assert traced == [(1, "first", "ok"), (2, "rest", "elapsed"), (3, "second", "ok")]


def test_a_time_that_has_passed_is_due_at_once(case: StoreCase) -> None:
    run = start(case, resting(until="2001-01-01T00:00:00Z"))

    [message] = run.work(run.ready[0])

    assert run.claim(message).purpose is Purpose.ELAPSED


def test_a_frame_is_due_at_its_time_and_not_a_millisecond_before(memory_case: MemoryCase) -> None:
    run = start(memory_case, resting(for_seconds=60))
    run.work(run.ready[0])

    memory_case.clock.advance(MINUTE - 1)
    assert (elapsed(run), run.store.fire(run.incarnation)) == (0, (0, ()))
    memory_case.clock.advance(1)
    assert (elapsed(run), run.store.fire(run.incarnation)[0]) == (1, 1)


def test_a_sweeper_gets_the_run_when_the_time_has_come_and_not_before(memory_case: MemoryCase) -> None:
    run = start(memory_case, resting(for_seconds=60))
    run.work(run.ready[0])
    shard = memory_case.keys.shard_of_incarnation(run.incarnation)
    memory_case.store.sweep(shard)
    run.store.due(run.incarnation)

    memory_case.clock.advance(MINUTE - 1)
    assert memory_case.store.sweep(shard) == []
    memory_case.clock.advance(1)
    assert memory_case.store.sweep(shard) == [run.incarnation]


def test_a_worker_that_dies_as_it_goes_on_after_a_wait_is_replaced_and_the_wait_is_not_repeated(
    case: StoreCase,
) -> None:
    run = start(case, resting(until="2001-01-01T00:00:00Z"), lease_ms=0)
    [message] = run.work(run.ready[0])
    lost = run.claim(message)

    word, [again] = run.store.lost(run.incarnation, lost.frame, lost.token)

    claim = run.claim(again)
    assert (word, claim.purpose, claim.step) == ("lost", Purpose.ELAPSED, lost.step)
    run.drain(run.finish(claim))
    assert run.status == "completed"


def test_many_frames_whose_time_has_come_are_due_page_by_page(case: StoreCase) -> None:
    count = 70 if case.kind != FAKE else 66
    run = start(case, each_rests(active=count, outstanding=count, for_seconds=0.001), items(count))
    queue = list(run.ready)
    while queue:  # every item is worked on before the first is fired
        queue += run.work(queue.pop(0))
    case.pass_time(2)

    first, messages = run.store.fire(run.incarnation)

    assert (first, len(messages), elapsed(run)) == (64, 64, count - 64)
    run.drain((*messages, *fire_all(run)))
    assert run.status == "completed"


def test_times_pass_while_a_run_is_paused_and_the_frames_rest_until_it_goes_on(case: StoreCase) -> None:
    run = start(case, resting(for_seconds=0.001))
    run.work(run.ready[0])
    run.store.pause(run.incarnation, on=True)
    case.pass_time(2)

    assert run.store.fire(run.incarnation) == (1, ())
    assert run.places() == {"paused": 1}

    _, messages = run.store.pause(run.incarnation, on=False)
    run.drain(messages)
    assert run.status == "completed"


def test_frames_under_a_hold_rest_until_the_answer_although_their_time_has_come(case: StoreCase) -> None:
    run = start(case, each_rests(for_seconds=0.001), items(2))
    run.drain(chooses=asks_about(1))
    assert (run.places(), run.status) == ({"blocked": 1, "open": 1, "waits": 1}, "interrupted")
    case.pass_time(2)

    assert run.store.fire(run.incarnation) == (1, ())
    assert (run.places(), run.status) == ({"blocked": 1, "open": 1, "held": 1}, "interrupted")

    run.drain(run.answer())
    assert run.status == "completed"


def test_a_waiting_item_beside_an_open_interrupt_that_holds_nothing_keeps_the_run_running(case: StoreCase) -> None:
    run = start(case, each_rests(for_seconds=0.001, interrupt="continue"), items(2))
    run.drain(chooses=asks_about(1))
    assert run.status == "running"
    case.pass_time(2)

    run.drain(fire_all(run))

    assert run.status == "interrupted"
    run.drain(run.answer())
    assert run.status == "completed"


def test_waiting_items_keep_their_place_in_the_window(case: StoreCase) -> None:
    run = start(case, each_rests(active=2, for_seconds=0.001), items(3))
    run.drain()
    assert run.places() == {"blocked": 1, "waits": 2}
    case.pass_time(2)

    run.drain(fire_all(run))
    case.pass_time(2)
    run.drain(fire_all(run))

    assert run.status == "completed"


def test_a_run_that_ended_or_fails_fires_nothing(case: StoreCase) -> None:
    cancelled = start(case, resting(for_seconds=0.001))
    cancelled.work(cancelled.ready[0])
    case.pass_time(2)
    cancelled.store.cancel(cancelled.incarnation)
    before = case.contents()

    assert cancelled.store.fire(cancelled.incarnation) == (0, ())
    assert cancelled.store.fire("00-gone") == (0, ())
    assert case.contents() == before


def test_an_item_that_fails_the_run_leaves_what_waits_where_it_is(case: StoreCase) -> None:
    run = start(case, each_rests(for_seconds=0.001), items(2))
    first, second = run.work(run.ready[0])
    run.work(first)
    run.finish(run.claim(second), error=ValueError("no"))
    case.pass_time(2)

    assert run.status == "failed"
    assert run.places() == {"blocked": 1, "waits": 1, "failed": 1}
    assert run.store.fire(run.incarnation) == (0, ())


def test_the_next_time_that_a_run_waits_for_can_be_seen(case: StoreCase) -> None:
    run = start(case, resting(until="2100-01-01T00:00:00Z"))
    assert run.store.waits_until(run.incarnation) is None

    run.work(run.ready[0])

    assert run.store.waits_until(run.incarnation) == 4_102_444_800_000


@pytest.mark.parametrize("due", ["2100-01-01T00:00:00Z", "9999-12-31T23:59:59.999Z"])
def test_far_times_are_waited_for_too(case: StoreCase, due: str) -> None:
    run = start(case, resting(until="input.value"), {"value": due})
    run.work(run.ready[0])

    assert run.places() == {"waits": 1}


def test_a_waiting_frame_whose_record_is_gone_is_damage(memory_case: MemoryCase) -> None:
    run = start(memory_case, resting(for_seconds=1))
    run.work(run.ready[0])
    memory_case.clock.advance(1000)
    memory_case.memory.contents.runs[run.incarnation].frames.clear()

    with memory_case.unaudited(), pytest.raises(RunDamaged):
        run.store.fire(run.incarnation)
