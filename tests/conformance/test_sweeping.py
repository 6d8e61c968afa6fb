"""What a sweeper finds: expired claims, unclaimed frames, runs that want attention."""

from __future__ import annotations

from tests.conformance.driving import Driver, start
from tests.conformance.workflows import line
from tests.support.stores import MemoryCase, StoreCase


def parked(case: StoreCase) -> Driver:
    """A run whose only frame is ready and was not claimed by the time it was looked for."""
    run = start(case, line())
    case.store.give_back(run.claim(run.ready[0]), look_ms=1)
    case.pass_time(2)
    return run


def expired(case: StoreCase, run_id: str = "run") -> Driver:
    """A run whose only frame is claimed, its lease over."""
    run = start(case, line(), run_id=run_id, lease_ms=0)
    run.claim(run.ready[0])
    return run


def shard_of(case: StoreCase, run: Driver) -> int:
    return case.keys.shard_of_incarnation(run.incarnation)


def test_an_expired_claim_is_due_with_the_token_that_names_its_loss(case: StoreCase) -> None:
    run = start(case, line(), lease_ms=0)
    claim = run.claim(run.ready[0])

    due = case.store.due(run.incarnation)

    assert due is not None and due.expired == ((claim.frame, claim.token),) and due.unclaimed == ()


def test_a_living_claim_and_a_fresh_message_are_not_due(case: StoreCase) -> None:
    claimed, fresh = start(case, line(), run_id="claimed"), start(case, line(), run_id="fresh")
    claimed.claim(claimed.ready[0])

    for run in (claimed, fresh):
        due = case.store.due(run.incarnation)
        assert due is not None and (due.expired, due.unclaimed) == ((), ())


def test_an_unclaimed_frame_is_due_and_its_message_can_be_sent_again(case: StoreCase) -> None:
    run = parked(case)
    due = case.store.due(run.incarnation)
    assert due is not None
    [frame] = due.unclaimed

    word, [message] = case.store.republish(run.incarnation, frame.frame, frame.score, look_ms=5000, send=True)

    assert (word, frame.looks, message.node) == ("sent", 0, "first")
    assert run.claim(message).attempt == 1


def test_republishing_names_the_score_it_read(case: StoreCase) -> None:
    run = parked(case)
    due = case.store.due(run.incarnation)
    assert due is not None
    [frame] = due.unclaimed
    assert case.store.republish(run.incarnation, frame.frame, frame.score, look_ms=5000, send=False) == ("later", ())
    before = case.contents()

    again = case.store.republish(run.incarnation, frame.frame, frame.score, look_ms=5000, send=True)

    assert again == ("refused", ())
    assert case.contents() == before


def test_republishing_a_frame_that_was_claimed_meanwhile_is_refused(case: StoreCase) -> None:
    run = start(case, line())
    claim = run.claim(run.ready[0])
    case.store.give_back(claim, look_ms=1)
    case.pass_time(2)
    due = case.store.due(run.incarnation)
    assert due is not None
    [frame] = due.unclaimed
    _, [message] = case.store.republish(run.incarnation, frame.frame, frame.score, look_ms=0, send=True)
    run.claim(message)

    assert case.store.republish(run.incarnation, frame.frame, frame.score, look_ms=0, send=True) == ("refused", ())


def test_a_frame_that_is_looked_for_later_is_not_due_before(memory_case: MemoryCase) -> None:
    run = start(memory_case, line())
    memory_case.clock.advance(5000)
    due = memory_case.store.due(run.incarnation)
    assert due is not None
    [frame] = due.unclaimed
    memory_case.store.republish(run.incarnation, frame.frame, frame.score, look_ms=10_000, send=False)

    memory_case.clock.advance(9_999)
    early = memory_case.store.due(run.incarnation)
    memory_case.clock.advance(1)
    late = memory_case.store.due(run.incarnation)

    assert early is not None and early.unclaimed == ()
    assert late is not None and [(found.frame, found.looks) for found in late.unclaimed] == [(frame.frame, 1)]


def test_two_sweepers_take_different_runs(case: StoreCase) -> None:
    runs = [expired(case, f"run-{i}") for i in range(40)]
    shards = {shard_of(case, run) for run in runs}

    first = [incarnation for shard in shards for incarnation in case.store.sweep(shard, most=1)]
    second = [incarnation for shard in shards for incarnation in case.store.sweep(shard)]
    third = [incarnation for shard in shards for incarnation in case.store.sweep(shard)]

    assert set(first).isdisjoint(second) and third == []
    assert {*first, *second} == {run.incarnation for run in runs}


def test_a_run_that_was_taken_comes_back_when_its_sweeper_died(memory_case: MemoryCase) -> None:
    run = expired(memory_case)
    shard = shard_of(memory_case, run)
    assert memory_case.store.sweep(shard, hold_off_ms=10_000) == [run.incarnation]

    memory_case.clock.advance(9_999)
    assert memory_case.store.sweep(shard) == []
    memory_case.clock.advance(1)
    assert memory_case.store.sweep(shard) == [run.incarnation]


def test_a_run_is_looked_at_when_its_lease_is_over(memory_case: MemoryCase) -> None:
    run = start(memory_case, line(), lease_ms=30_000)
    run.claim(run.ready[0])
    shard = shard_of(memory_case, run)
    memory_case.clock.advance(5_000)
    memory_case.store.sweep(shard)
    memory_case.store.due(run.incarnation)

    memory_case.clock.advance(24_999)
    assert memory_case.store.sweep(shard) == []
    memory_case.clock.advance(1)
    assert memory_case.store.sweep(shard) == [run.incarnation]


def test_a_run_at_rest_wants_no_attention(memory_case: MemoryCase) -> None:
    run = start(memory_case, line())
    run.drain(chooses=lambda _: "ask")
    assert run.status == "interrupted"
    memory_case.clock.advance(60_000)
    shard = shard_of(memory_case, run)
    for incarnation in memory_case.store.sweep(shard):
        memory_case.store.due(incarnation)

    memory_case.clock.advance(3_600_000)
    assert memory_case.store.sweep(shard) == []


def test_an_answer_brings_a_run_back_to_attention(memory_case: MemoryCase) -> None:
    run = start(memory_case, line())
    run.drain(chooses=lambda _: "ask")
    memory_case.clock.advance(60_000)
    memory_case.store.due(run.incarnation)
    run.answer()

    memory_case.clock.advance(5_000)
    assert memory_case.store.sweep(shard_of(memory_case, run)) == [run.incarnation]


def test_an_ended_run_wants_no_attention(case: StoreCase) -> None:
    run = expired(case)
    case.store.cancel(run.incarnation)

    due = case.store.due(run.incarnation)

    assert case.store.sweep(shard_of(case, run)) == []
    assert due is not None and (due.status, due.expired, due.unclaimed, due.release) == ("cancelled", (), (), False)
