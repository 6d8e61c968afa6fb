"""Leases: renewed by their owner, given back without an attempt, taken away when they are over."""

from __future__ import annotations

import pytest

from tests.conformance.driving import Driver, start
from tests.conformance.workflows import each, items, line
from tests.support.stores import MemoryCase, StoreCase
from wf_worker.store.protocol import CommitStatus


@pytest.fixture
def run(case: StoreCase) -> Driver:
    """A run whose leases are over as soon as they begin."""
    return start(case, line(), lease_ms=0, max_losses=2)


def test_a_renewed_lease_lasts_longer(case: StoreCase, run: Driver) -> None:
    claim = run.claim(run.ready[0])

    assert case.store.renew(claim) == "renewed"
    assert case.store.renew(claim) == "renewed"
    assert run.store.lost(run.incarnation, claim.frame, claim.token)[0] == "alive"


def test_a_renewal_with_a_token_that_was_taken_away_is_stale(case: StoreCase, run: Driver) -> None:
    claim = run.claim(run.ready[0])
    run.store.lost(run.incarnation, claim.frame, claim.token)
    before = case.contents()

    assert case.store.renew(claim) == "stale"
    assert case.contents() == before


def test_a_renewal_tells_a_cancelled_run(case: StoreCase, run: Driver) -> None:
    claim = run.claim(run.ready[0])
    case.store.cancel(run.incarnation)

    assert case.store.renew(claim) == "cancelled"


def test_a_claim_given_back_is_ready_again_and_its_attempt_does_not_count(case: StoreCase, run: Driver) -> None:
    claim = run.claim(run.ready[0])

    [ready] = case.store.give_back(claim)
    again = run.claim(ready)

    assert ready.revision != run.ready[0].revision
    assert (again.step, again.attempt, again.losses) == (1, 1, 0)


def test_giving_back_twice_changes_nothing_the_second_time(case: StoreCase, run: Driver) -> None:
    claim = run.claim(run.ready[0])
    case.store.give_back(claim)
    before = case.contents()

    assert case.records.again(case.records.last("give_back"))[0] == b"stale"
    assert case.contents() == before


def test_a_claim_given_back_for_later_sends_no_message_now(case: StoreCase, run: Driver) -> None:
    claim = run.claim(run.ready[0])

    assert case.store.give_back(claim, look_ms=1) == ()

    case.pass_time(2)
    due = case.store.due(run.incarnation)
    assert due is not None and [frame.frame for frame in due.unclaimed] == [claim.frame]


def test_a_claim_is_not_lost_before_its_lease_is_over(case: StoreCase) -> None:
    run = start(case, line(), lease_ms=60_000)
    claim = run.claim(run.ready[0])
    before = case.contents()

    assert run.store.lost(run.incarnation, claim.frame, claim.token) == ("alive", ())
    assert case.contents() == before


def test_a_claim_is_lost_at_once_when_its_owner_is_known_dead(case: StoreCase) -> None:
    run = start(case, line(), lease_ms=60_000)
    claim = run.claim(run.ready[0])

    word, ready = run.store.lost(run.incarnation, claim.frame, claim.token, known_dead=True)

    assert word == "lost" and [message.frame for message in ready] == [claim.frame]


def test_ten_detections_of_one_loss_are_one_loss(case: StoreCase, run: Driver) -> None:
    claim = run.claim(run.ready[0])

    answers = [run.store.lost(run.incarnation, claim.frame, claim.token) for _ in range(10)]

    assert [word for word, _ in answers] == ["lost"] + ["stale"] * 9
    assert run.claim(answers[0][1][0]).losses == 1
    record = case.store.inspect(run.incarnation)
    assert record is not None and record.recovered_frames == 1


def test_past_the_losses_a_visit_may_have_the_kernel_is_asked_and_past_twice_that_and_two_the_run_fails(
    case: StoreCase, run: Driver
) -> None:
    purposes: list[str] = []
    ready = run.ready
    while ready:
        claim = run.claim(ready[0])
        purposes.append(claim.purpose.value)
        word, ready = run.store.lost(run.incarnation, claim.frame, claim.token)
        assert word == "lost"

    # Two losses are allowed: the third makes it `lost`; the kernel's own claimers die four times more.
    assert purposes == ["step"] * 3 + ["lost"] * 4
    record = case.store.inspect(run.incarnation)
    assert record is not None and record.error is not None
    assert (record.status, record.error["type"], run.places()) == ("failed", "worker_lost", {"failed": 1})


def test_a_lost_frame_whose_kernel_answers_takes_its_error_policy(case: StoreCase) -> None:
    run = start(case, each(active=1, item_error={"action": "skip"}), items(1), lease_ms=0, max_losses=0)
    [item] = run.work(run.ready[0])
    claim = run.claim(item)
    _, [again] = run.store.lost(run.incarnation, claim.frame, claim.token)
    asked = run.claim(again)
    assert asked.purpose.value == "lost"

    run.drain(run.finish(asked, error=RuntimeError("its workers died")))

    assert run.status == "completed"


def test_a_claim_lost_in_a_failing_run_ends_it(case: StoreCase) -> None:
    run = start(case, each(active=2), items(2), lease_ms=0)
    failing, lost = [run.claim(message) for message in run.work(run.ready[0])]
    run.finish(failing, error=ValueError("broken"))
    assert run.status == "running"

    word, ready = run.store.lost(run.incarnation, lost.frame, lost.token)

    assert (word, ready, run.status) == ("lost", (), "failed")


def test_a_zombie_can_do_nothing_any_more(case: StoreCase, run: Driver) -> None:
    zombie = run.claim(run.ready[0])
    transition = run.transition(zombie)
    _, [message] = run.store.lost(run.incarnation, zombie.frame, zombie.token)
    run.claim(message)
    before = case.contents()

    assert run.store.commit(zombie, transition).status is CommitStatus.REFUSED
    assert case.store.renew(zombie) == "stale"
    assert case.store.give_back(zombie) == ()
    assert run.store.lost(run.incarnation, zombie.frame, zombie.token)[0] == "stale"
    assert case.contents() == before


def test_a_lease_is_over_when_its_time_has_come(memory_case: MemoryCase) -> None:
    run = start(memory_case, line(), lease_ms=1000)
    claim = run.claim(run.ready[0])

    memory_case.clock.advance(999)
    assert run.store.lost(run.incarnation, claim.frame, claim.token)[0] == "alive"
    memory_case.clock.advance(1)
    assert run.store.lost(run.incarnation, claim.frame, claim.token)[0] == "lost"
