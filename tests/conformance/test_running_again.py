"""Any call may be executed again, at once or much later, without its caller knowing: that changes nothing."""

from __future__ import annotations

import pytest

from tests.conformance.driving import Driver
from tests.conformance.scenario import everything, staged
from tests.support.stores import Sent, StoreCase

LATER_BY_DESIGN = {"renew", "due"}
"""What moves a time when it is executed again: an expiry by the claim's own token, the next look of a sweeper."""

NAMES_NO_REVISION = {"pause"}
"""Executed again much later it pauses or goes on once more."""


def test_every_call_executed_again_at_once_changes_nothing(case: StoreCase) -> None:
    seen: set[str] = set()

    def twice(sent: Sent) -> None:
        seen.add(sent[0])
        before = case.contents()
        case.records.again(sent)
        if sent[0] not in LATER_BY_DESIGN:
            assert case.contents() == before, f"{sent[0]} executed again"

    case.records.after = twice
    run = everything(case)
    case.records.after = lambda _sent: None

    assert seen >= {
        "create",
        "claim",
        "commit",
        "renew",
        "give_back",
        "lost",
        "republish",
        "interrupt",
        "resume",
        "pause",
        "release",
        "due",
    }
    finish(run)


def test_every_call_executed_again_much_later_changes_nothing(case: StoreCase) -> None:
    run = everything(case)
    before = case.contents()

    for sent in list(case.records.sent):
        if sent[0] not in LATER_BY_DESIGN | NAMES_NO_REVISION:
            case.records.again(sent)
            assert case.contents() == before, f"{sent[0]} executed again"

    finish(run)


@pytest.mark.parametrize("at", [0, 1, 2])
def test_every_chunk_executed_again_after_the_last_changes_nothing(case: StoreCase, at: int) -> None:
    repeated: list[Sent] = []

    def late_chunk(sent: Sent) -> None:
        if sent[0] == "stage":
            repeated.append(sent)
            if len(repeated) == 3:
                before = case.contents()
                assert case.records.again(repeated[at])[0] == b"staged"
                assert case.contents() == before

    case.records.after = late_chunk
    with case.unaudited():
        run = staged(case)

    assert len(repeated) == 3 and run.store.progress(run.incarnation)[0].total == 900


def finish(run: Driver) -> None:
    """The run goes on to its end as if nothing had been repeated."""
    for _ in range(50):
        run.drain()
        due = run.store.due(run.incarnation)
        if run.status == "completed" or due is None:
            break
        run.ready = run.answer() if run.numbers() else run.store.release(run.incarnation)
        for frame, token in due.expired:
            run.ready = (*run.ready, *run.store.lost(run.incarnation, frame, token)[1])
    assert run.status == "completed"
