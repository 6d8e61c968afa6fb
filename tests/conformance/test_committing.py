"""A commit is applied once, whole or not at all, while its claim lasts."""

from __future__ import annotations

import pytest

from tests.conformance.driving import start
from tests.conformance.workflows import each, items, line
from tests.support.stores import StoreCase
from wf_worker.errors import RunDamaged
from wf_worker.store.protocol import CommitStatus


def test_a_commit_applied_again_changes_nothing(case: StoreCase) -> None:
    run = start(case, line())
    claim = run.claim(run.ready[0])
    transition = run.transition(claim)
    first = run.store.commit(claim, transition, call_id="call")
    before = case.contents()

    second = run.store.commit(claim, transition, call_id="call")

    assert (first.status, second.status) == (CommitStatus.DONE, CommitStatus.AGAIN)
    assert case.contents() == before


def test_a_commit_applied_again_after_its_frame_has_moved_on_is_refused(case: StoreCase) -> None:
    run = start(case, line())
    claim = run.claim(run.ready[0])
    transition = run.transition(claim)
    [following] = run.store.commit(claim, transition, call_id="call").ready
    run.claim(following)
    before = case.contents()

    again = run.store.commit(claim, transition, call_id="call")

    assert (again.status, again.reason) == (CommitStatus.REFUSED, "stale")
    assert case.contents() == before


def test_a_second_commit_of_one_claim_is_refused(case: StoreCase) -> None:
    run = start(case, line())
    claim = run.claim(run.ready[0])
    transition = run.transition(claim)
    run.store.commit(claim, transition)
    before = case.contents()

    second = run.store.commit(claim, transition)

    assert (second.status, second.reason) == (CommitStatus.REFUSED, "stale")
    assert case.contents() == before


def test_a_commit_after_the_claim_was_taken_away_is_refused(case: StoreCase) -> None:
    run = start(case, line(), lease_ms=0)
    zombie = run.claim(run.ready[0])
    transition = run.transition(zombie)
    case.store.lost(run.incarnation, zombie.frame, zombie.token)
    before = case.contents()

    assert run.store.commit(zombie, transition).status is CommitStatus.REFUSED
    assert case.contents() == before


def test_a_commit_whose_lease_is_over_is_good_while_nobody_took_the_claim(case: StoreCase) -> None:
    run = start(case, line(), lease_ms=0)
    claim = run.claim(run.ready[0])

    assert run.commit(claim).status is CommitStatus.DONE


def test_a_commit_beyond_the_budget_writes_nothing_and_says_how_far_it_may_walk(case: StoreCase) -> None:
    run = start(case, line(), max_steps=1)
    claim = run.claim(run.ready[0])
    transition = run.transition(claim, "ask")
    before = case.contents()

    denied = run.store.commit(claim, transition, call_id="call")

    assert (denied.status, denied.left, denied.max_steps) == (CommitStatus.BUDGET, 0, 1)
    assert case.contents() == before
    walked = run.store.commit(claim, run.transition(claim, "ask", left=0), call_id="call")
    assert walked.status is CommitStatus.DONE
    assert run.status == "failed"


def test_an_arrival_of_an_index_that_has_a_result_is_damage_and_writes_nothing(case: StoreCase) -> None:
    run = start(case, each(active=2), items(3))
    first, second = run.work(run.ready[0])
    run.work(first)
    claim = run.claim(second)
    run.transition(claim)
    run.commit(claim, call_id="arrival")
    script, incarnation, _, args = case.records.last("commit")
    [third] = [message for message in case.store.due(run.incarnation, most=9).unclaimed] if False else [None]
    assert third is None
    ready = [frame for frame in case.records.inner.call("audit", incarnation, "look")[3]]
    head = case.records.inner.call("audit", incarnation, "look")[2]
    assert ready and head and script == "commit" and args
