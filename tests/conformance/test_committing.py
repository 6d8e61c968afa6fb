"""A commit is applied once, whole or not at all, while its claim lasts."""

from __future__ import annotations

from tests.conformance.driving import start
from tests.conformance.workflows import each, items, line
from tests.support.stores import StoreCase
from wf_worker.store.protocol import Claim, CommitStatus


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


def raw_commit(case: StoreCase, claim: Claim, *operations: tuple[str, ...]) -> list[bytes]:
    """A commit of operations that no kernel would ask for."""
    flat = [part for name, *args in operations for part in (name, str(len(args)), *args)]
    return case.records.call(
        "commit", claim.incarnation, "raw", claim.frame, claim.token, 0, "", "", 0, "0", 0, len(operations), *flat
    )


def test_an_arrival_of_an_index_that_has_a_result_is_damage_and_writes_nothing(case: StoreCase) -> None:
    run = start(case, each(active=2), items(3))
    first, second = run.work(run.ready[0])
    run.work(first)
    claim = run.claim(second)
    activation = claim.frame.rpartition(":")[0]
    before = case.contents()

    reply = raw_commit(case, claim, ("writes", claim.frame, "{}\n"), ("arrive", activation, "0", claim.frame, "ok", ""))

    assert reply[0] == b"damaged"
    assert case.contents() == before


def test_an_arrival_at_a_closed_activation_is_damage_and_writes_nothing(case: StoreCase) -> None:
    run = start(case, line())
    claim = run.claim(run.ready[0])
    before = case.contents()

    reply = raw_commit(case, claim, ("place", claim.frame, "step"), ("arrive", "0" * 16, "0", claim.frame, "ok", ""))

    assert reply[0] == b"damaged"
    assert case.contents() == before


def test_placing_a_frame_that_does_not_exist_is_damage_and_writes_nothing(case: StoreCase) -> None:
    run = start(case, line())
    claim = run.claim(run.ready[0])
    before = case.contents()

    assert raw_commit(case, claim, ("place", "0" * 16, "step"))[0] == b"damaged"
    assert case.contents() == before


def test_steps_are_numbered_in_the_order_of_their_commits(case: StoreCase) -> None:
    run = start(case, each(active=2), items(2))
    run.drain()

    entries = case.store.trace(run.incarnation, 0, 100)
    record = case.store.inspect(run.incarnation)

    assert record is not None and (record.trace_count, record.steps_executed) == (len(entries), 5)
    assert [entry.entry["node_id"] for entry in entries] == ["each", "work", "each", "work", "each", "after"]
    assert [entry.step_number for entry in entries] == [1, 2, 1, 3, 4, 5]
    assert {entry.worker for entry in entries} == {"worker"}
    assert case.store.trace(run.incarnation, 4, 1) == entries[4:5]


def test_of_several_failures_the_first_item_in_order_is_the_error_of_the_run(case: StoreCase) -> None:
    run = start(case, each(active=3), items(3))
    claims = [run.claim(message) for message in run.work(run.ready[0])]

    for claim in reversed(claims):
        run.finish(claim, error=ValueError(f"item {claim.frame.rpartition(':')[2]}"))

    record = case.store.inspect(run.incarnation)
    assert record is not None and record.error is not None
    assert (record.status, record.error["message"]) == ("failed", "item 0")


def test_a_failing_run_lets_its_claims_commit_and_admits_nothing_more(case: StoreCase) -> None:
    run = start(case, each(active=2), items(5))
    failing, running = [run.claim(message) for message in run.work(run.ready[0])]
    run.finish(failing, error=ValueError("broken"))
    assert run.status == "running"

    ready = run.finish(running)

    assert ready == ()
    assert run.status == "failed"


def test_an_item_error_that_is_skipped_is_an_arrival(case: StoreCase) -> None:
    run = start(case, each(active=2, item_error={"action": "skip"}), items(3))
    first, second = run.work(run.ready[0])
    ready = run.finish(run.claim(first), error=ValueError("broken"))

    run.drain([second, *ready])

    assert run.status == "completed"
