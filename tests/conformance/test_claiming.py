"""A claim gives a ready frame to one token, under the revision that its message names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.conformance.driving import start
from tests.conformance.workflows import each, items, line
from tests.support.stores import StoreCase
from wf_worker.store.protocol import Claim, Ready, Refusal, Refused


def refused(case: StoreCase, ready: Ready, *, token: str | None = None) -> Refused:
    answer = case.store.claim(ready, owner="other", token=token)
    assert isinstance(answer, Refusal)
    return answer.reason


def test_a_claim_brings_the_slice_and_makes_the_run_running(case: StoreCase) -> None:
    run = start(case, line(), {"value": "x"})

    claim = run.claim(run.ready[0])

    assert (claim.step, claim.attempt, claim.losses, claim.denied) == (1, 1, 0, False)
    assert (claim.view.run_id, claim.view.max_steps, claim.view.own.node_id) == ("run", 10_000, "first")
    assert run.status == "running"


def test_a_duplicate_message_is_stale_once_the_frame_is_claimed(case: StoreCase) -> None:
    run = start(case, line())
    run.claim(run.ready[0])

    assert refused(case, run.ready[0]) is Refused.STALE


def test_a_message_with_another_revision_is_stale(case: StoreCase) -> None:
    run = start(case, line())

    assert refused(case, replace(run.ready[0], revision="1.other")) is Refused.STALE


def test_a_message_for_an_unknown_frame_is_stale(case: StoreCase) -> None:
    run = start(case, line())

    assert refused(case, replace(run.ready[0], frame="0" * 16)) is Refused.STALE


def test_claiming_again_with_the_current_token_gives_the_slice_again_and_changes_nothing(case: StoreCase) -> None:
    run = start(case, line(), {"value": "x"})
    first = run.claim(run.ready[0], token="mine")
    before = case.contents()

    second = run.claim(run.ready[0], token="mine")

    assert (second.revision, second.step, second.attempt) == (first.revision, first.step, first.attempt)
    assert second.view.own == first.view.own
    assert case.contents() == before


def test_a_claim_with_another_token_is_refused_while_the_lease_lasts_or_not(case: StoreCase) -> None:
    run = start(case, line(), lease_ms=0)
    run.claim(run.ready[0], token="mine")

    assert refused(case, run.ready[0], token="other") is Refused.STALE


@pytest.mark.parametrize("token", ["mine", "other"])
def test_a_claim_on_an_ended_run_is_over_whatever_its_token(case: StoreCase, token: str) -> None:
    run = start(case, line())
    run.claim(run.ready[0], token="mine")
    case.store.cancel(run.incarnation)

    assert refused(case, run.ready[0], token=token) is Refused.OVER


def test_a_claim_on_a_failing_run_is_over(case: StoreCase) -> None:
    run = start(case, each(active=3), items(3))
    [controller] = run.ready
    first, second, third = run.work(controller)
    claim, running = run.claim(first), run.claim(second)
    run.finish(claim, error=ValueError("broken"))

    assert run.status == "running"
    assert refused(case, third) is Refused.OVER

    run.finish(running)
    assert run.status == "failed"


def test_all_attempts_of_a_visit_share_their_step_number(case: StoreCase) -> None:
    run = start(case, line(), lease_ms=0)
    first = run.claim(run.ready[0])
    _, ready = case.store.lost(run.incarnation, first.frame, first.token)

    second = run.claim(ready[0])

    assert (first.step, second.step) == (1, 1)
    assert (first.attempt, second.attempt) == (1, 2)
    assert second.losses == 1


def test_the_next_visit_has_a_new_number_and_begins_with_its_first_attempt(case: StoreCase) -> None:
    run = start(case, line(), lease_ms=0)
    lost = run.claim(run.ready[0])
    _, ready = case.store.lost(run.incarnation, lost.frame, lost.token)
    [following] = run.work(ready[0])

    claim = run.claim(following)

    assert (claim.step, claim.attempt, claim.losses) == (2, 1, 0)


def test_concurrent_visits_have_numbers_of_their_own(case: StoreCase) -> None:
    run = start(case, each(active=4), items(4))
    ready = run.work(run.ready[0])

    assert [run.claim(message).step for message in ready] == [2, 3, 4, 5]


def test_the_budget_denies_a_step_and_counts_neither_a_step_nor_an_attempt(case: StoreCase) -> None:
    run = start(case, line(), max_steps=1)
    [second] = run.work(run.ready[0])

    denied = run.claim(second, token="mine")
    again = run.claim(second, token="mine")

    assert (denied.denied, denied.step, denied.attempt) == (True, None, 0)
    assert again.denied
    run.finish(denied)
    record = case.store.inspect(run.incarnation)
    assert record is not None and record.error is not None
    assert (record.status, record.steps_executed) == ("failed", 1)


def test_a_claim_of_a_controller_that_may_admit_admits_and_takes_no_lease(case: StoreCase) -> None:
    run = start(case, each(active=100, outstanding=100), items(80))
    opening = run.work(run.ready[0])
    messages = run.work(opening[0])
    [admission] = [ready for ready in messages if ready.node == "each"]

    answer = case.store.claim(admission, owner="worker")

    assert isinstance(answer, Refusal) and answer.reason is Refused.ADMITTED
    assert len(answer.ready) == 16
    assert run.places() == {"ready": 80, "blocked": 1}


def test_a_commit_may_claim_the_next_step_of_its_frame_whose_message_is_then_not_sent(case: StoreCase) -> None:
    run = start(case, line(), {"value": "x"})
    claim = run.claim(run.ready[0])

    committed = run.commit(claim, next_token="next", ready_node="second")

    assert committed.ready == ()
    assert committed.claim is not None and committed.claim.view.own.node_id == "second"
    assert (committed.claim.step, committed.claim.attempt) == (2, 1)
    run.finish(committed.claim)
    assert run.status == "completed"


def test_the_token_of_a_next_claim_is_told_its_slice_again(case: StoreCase) -> None:
    run = start(case, line(), {"value": "x"})
    committed = run.commit(run.claim(run.ready[0]), next_token="next", ready_node="second")
    assert committed.claim is not None
    lost_message = replace(run.ready[0], node="second")

    again = case.store.claim(lost_message, owner="worker", token="next")

    assert isinstance(again, Claim) and again.revision == committed.claim.revision


def test_an_owner_may_not_hold_what_separates_words(case: StoreCase) -> None:
    run = start(case, line())

    with pytest.raises(ValueError, match="owner"):
        case.store.claim(run.ready[0], owner="a|b")
