"""Interrupts that are not answered in time."""

from __future__ import annotations

import pytest

from tests.conformance.driving import Driver, asks_about, start
from tests.conformance.workflows import asking, each, items
from tests.support.stores import MemoryCase, StoreCase
from wf_core.runtime.transition import Purpose
from wf_worker.errors import RequestRefused
from wf_worker.store.protocol import Ready

SECOND = 1000
EXPIRES = {"expires_seconds": 1, "outcomes": ["submitted", "expired"]}


def expire(run: Driver) -> tuple[Ready, ...]:
    """Expires the one interrupt that is overdue, as a sweeper does."""
    due = run.store.due(run.incarnation)
    assert due is not None
    [(what, expiry)] = due.overdue
    word, messages = run.store.expire(run.incarnation, int(what.removeprefix("i")), expiry)
    assert word == "expired"
    return messages


def asked(case: StoreCase, **ask: object) -> Driver:
    run = start(case, asking(**(ask or EXPIRES)))
    run.drain()
    assert run.status == "interrupted"
    return run


def refused(run: Driver, number: int = 1) -> str:
    with pytest.raises(RequestRefused) as refusal:
        run.answer(number)
    return refusal.value.code


def test_an_interrupt_says_until_when_it_takes_answers(memory_case: MemoryCase) -> None:
    run = asked(memory_case, expires_seconds=9)
    [opened] = run.store.interrupts(run.incarnation)

    assert opened.expires_ms == opened.opened_ms + 9 * SECOND


def test_an_answer_in_time_counts_and_leaves_nothing_to_expire(case: StoreCase) -> None:
    run = asked(case)
    run.drain(run.answer())
    case.pass_time(SECOND + 1)

    due = run.store.due(run.incarnation)
    assert due is not None and due.overdue == ()
    assert run.status == "completed"


def test_past_its_time_it_takes_no_answer_whether_or_not_anybody_has_noticed(case: StoreCase) -> None:
    run = asked(case)
    case.pass_time(SECOND + 1)

    assert refused(run) == "interrupt_expired"
    expire(run)
    assert refused(run) == "interrupt_expired"


def test_the_step_goes_on_with_expired_where_it_declares_that(case: StoreCase) -> None:
    run = asked(case)
    case.pass_time(SECOND + 1)

    [message] = expire(run)
    assert run.status == "running"
    claim = run.claim(message)
    assert (claim.purpose, claim.step) == (Purpose.EXPIRED, 1)
    run.drain(run.finish(claim))

    assert run.status == "completed"
    trace = run.store.trace(run.incarnation, 0, 9)
    traced = [(step.step_number, step.entry["node_id"], step.entry["outcome"]) for step in trace]
    assert traced == [(1, "ask", "interrupt"), (1, "ask", "expired"), (2, "unanswered", "ok")]


def test_without_that_outcome_the_step_fails(case: StoreCase) -> None:
    run = asked(case, expires_seconds=1)
    case.pass_time(SECOND + 1)
    run.drain(expire(run))

    record = run.store.inspect(run.incarnation)
    assert record is not None and record.status == "failed"
    assert record.error is not None and record.error["type"] == "interrupt_expired"


def test_nobody_can_answer_with_the_outcome_that_stands_for_no_answer(case: StoreCase) -> None:
    run = asked(case)
    [opened] = run.store.interrupts(run.incarnation)

    assert opened.request.outcomes == ["submitted"]


def test_expiring_names_the_time_it_read_and_acts_once(memory_case: MemoryCase) -> None:
    run = asked(memory_case)
    memory_case.clock.advance(SECOND)
    before = memory_case.contents()
    assert run.store.expire(run.incarnation, 1, "0") == ("refused", ())
    assert memory_case.contents() == before

    due = run.store.due(run.incarnation)
    assert due is not None
    [(_, expiry)] = due.overdue
    assert run.store.expire(run.incarnation, 1, expiry)[0] == "expired"
    assert run.store.expire(run.incarnation, 1, expiry) == ("refused", ())


def test_it_expires_at_its_time_and_not_a_millisecond_before(memory_case: MemoryCase) -> None:
    run = asked(memory_case)
    shard = memory_case.keys.shard_of_incarnation(run.incarnation)
    memory_case.store.sweep(shard)
    run.store.due(run.incarnation)

    memory_case.clock.advance(SECOND - 1)
    assert memory_case.store.sweep(shard) == []
    memory_case.clock.advance(1)
    assert memory_case.store.sweep(shard) == [run.incarnation]
    assert len(expire(run)) == 1


def test_the_siblings_that_it_held_go_on(case: StoreCase) -> None:
    run = start(case, each(active=2, ask={"expires_seconds": 1}, item_error={"action": "skip"}), items(4))
    run.drain(chooses=asks_about(0))
    assert run.status == "interrupted"
    case.pass_time(SECOND + 1)

    run.drain(expire(run))

    assert run.status == "completed"


def test_under_continue_an_expired_item_comes_back_into_the_window(case: StoreCase) -> None:
    loop = each(active=1, interrupt="continue", ask={"expires_seconds": 1}, item_error={"action": "skip"})
    run = start(case, loop, items(4))
    run.drain(chooses=asks_about(0))
    assert run.status == "interrupted"
    case.pass_time(SECOND + 1)

    run.drain(expire(run))

    assert run.status == "completed"


def test_a_cancelled_run_does_not_expire(memory_case: MemoryCase) -> None:
    run = asked(memory_case)
    run.store.cancel(run.incarnation)
    memory_case.clock.advance(SECOND)

    assert run.store.expire(run.incarnation, 1, str(memory_case.clock())) == ("refused", ())
