"""A store that lost its last writes: whoever worked in the lost future is refused, the run goes on from what is kept.

Numbers are given out again in the history that follows, with other contents; names never are.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conformance.driving import Driver, start
from tests.conformance.workflows import each, items, line
from tests.support.stores import MEMORY, SERVERS, StoreCase
from wf_core.errors import WfError
from wf_worker.store.protocol import CommitStatus, Ready, Refusal, Refused


@pytest.fixture(params=(MEMORY, *SERVERS))
def case(request: pytest.FixtureRequest, build: Callable[[str], StoreCase]) -> StoreCase:
    """A store that can be set back."""
    return build(request.param)


def refusal(run: Driver, ready: Ready) -> Refused:
    answer = run.store.claim(ready, owner="late")
    assert isinstance(answer, Refusal), answer
    return answer.reason


def test_a_claim_that_was_kept_is_good(case: StoreCase) -> None:
    run = start(case, line())
    claim = run.claim(run.ready[0])
    kept = case.snapshot()
    run.finish(claim)

    case.restore(kept)

    run.drain(run.finish(claim))
    assert run.status == "completed"


def test_a_worker_of_the_lost_future_can_do_nothing(case: StoreCase) -> None:
    run = start(case, line())
    kept = case.snapshot()
    zombie = run.claim(run.ready[0])
    transition = run.transition(zombie)

    case.restore(kept)
    living = run.claim(run.ready[0])
    before = case.contents()

    # Both are attempt 1 of step 1 of the same frame.
    assert (zombie.attempt, zombie.step, zombie.frame) == (living.attempt, living.step, living.frame)
    assert run.store.commit(zombie, transition).status is CommitStatus.REFUSED
    assert run.store.renew(zombie) == "stale"
    assert run.store.give_back(zombie) == ()
    assert run.store.lost(run.incarnation, zombie.frame, zombie.token)[0] == "stale"
    load = case.records.call("load", run.incarnation, "call", zombie.frame, zombie.token, 1, "input", "scope")
    stage = case.records.call("stage", run.incarnation, "call", zombie.frame, zombie.token, "value", "v", 0, 1, b"x")
    assert (load[0], stage[0]) == (b"stale", b"stale")
    assert case.contents() == before
    run.drain(run.finish(living))
    assert run.status == "completed"


def test_the_token_of_a_next_claim_of_the_lost_future_is_refused(case: StoreCase) -> None:
    run = start(case, line())
    claim = run.claim(run.ready[0])
    kept = case.snapshot()
    committed = run.commit(claim, next_token="next", ready_node="second")
    assert committed.claim is not None
    zombie, transition = committed.claim, run.transition(committed.claim)

    case.restore(kept)

    assert run.store.commit(zombie, transition).status is CommitStatus.REFUSED
    run.drain(run.finish(claim))
    assert run.status == "completed"


def test_messages_of_the_lost_future_are_stale_although_their_sequence_comes_again(case: StoreCase) -> None:
    run = start(case, line())
    claim = run.claim(run.ready[0])
    kept = case.snapshot()
    [old] = run.finish(claim)

    case.restore(kept)
    [new] = run.finish(claim)

    assert (old.frame, old.node) == (new.frame, new.node)
    assert old.revision.partition(".")[0] == new.revision.partition(".")[0] and old.revision != new.revision
    assert refusal(run, old) is Refused.STALE
    run.drain([new])
    assert run.status == "completed"


def test_an_answer_to_a_question_of_the_lost_future_is_refused_by_its_revision(case: StoreCase) -> None:
    run = start(case, line())
    claim = run.claim(run.ready[0])
    kept = case.snapshot()
    run.finish(claim, "ask")
    [old] = run.store.interrupts(run.incarnation)

    case.restore(kept)
    run.finish(claim, "ask")
    [new] = run.store.interrupts(run.incarnation)
    before = case.contents()

    assert old.number == new.number
    with pytest.raises(WfError) as found:
        run.answer(old.number, revision=old.revision)
    assert found.value.code == "interrupt_revision_stale"
    assert case.contents() == before
    run.drain(run.answer(new.number, revision=new.revision))
    assert run.status == "completed"


def test_an_answer_that_was_lost_leaves_its_question_open(case: StoreCase) -> None:
    run = start(case, line())
    run.drain(chooses=lambda _: "ask")
    kept = case.snapshot()
    [after] = run.answer()

    case.restore(kept)

    assert refusal(run, after) is Refused.STALE
    assert (run.status, len(run.numbers())) == ("interrupted", 1)
    run.drain(run.answer())
    assert run.status == "completed"


def test_a_foreach_set_back_in_the_middle_gives_every_item_one_result(case: StoreCase) -> None:
    run = start(case, each(active=3), items(8))
    queue = list(run.work(run.ready[0]))
    for _ in range(2):
        queue += run.work(queue.pop(0))
    kept, messages = case.snapshot(), list(queue)
    lost_future: list[Ready] = []
    while queue:
        ready = run.work(queue.pop(0))
        lost_future += ready
        queue += ready
    assert run.status == "completed"

    case.restore(kept)
    for message in lost_future:
        assert refusal(run, message) is Refused.STALE
    run.drain(messages)

    record = run.store.inspect(run.incarnation)
    assert record is not None and (record.status, record.steps_executed) == ("completed", 11)


def test_a_run_created_in_the_lost_future_is_gone(case: StoreCase) -> None:
    kept = case.snapshot()
    run = start(case, line())
    claim = run.claim(run.ready[0])
    transition = run.transition(claim)

    case.restore(kept)

    assert refusal(run, run.ready[0]) is Refused.GONE
    assert run.store.commit(claim, transition).status is CommitStatus.REFUSED
    assert run.store.inspect(run.incarnation) is None
