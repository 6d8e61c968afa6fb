"""A run that is gone stays gone: no late call brings back any of its keys."""

from __future__ import annotations

from tests.conformance.scenario import everything, staged
from tests.support.stores import StoreCase

INDEX_ONLY = "due"
"""Takes a run that is gone out of the index in which it was found."""


def test_no_late_call_on_a_deleted_run_writes_anything(case: StoreCase) -> None:
    run = everything(case)
    case.store.cancel(run.incarnation)
    case.records.call("load", run.incarnation, "call", "frame", "token", 1, "input", "scope")
    sent = [call for call in case.records.sent if call[0] != "create"]
    case.drop_header(run.incarnation)
    case.store.due(run.incarnation)
    before = case.contents()

    answers = {call[0]: case.records.again(call)[0] for call in sent}

    assert set(answers.values()) == {b"gone"}
    assert case.contents() == before
    assert INDEX_ONLY in answers and len(answers) >= 13


def test_no_late_chunk_on_a_deleted_run_writes_anything(case: StoreCase) -> None:
    with case.unaudited():
        run = staged(case)
        sent = [call for call in case.records.sent if call[0] in ("stage", "commit")]
        case.drop_header(run.incarnation)
        before = case.contents()

        answers = {case.records.again(call)[0] for call in sent}

    assert answers == {b"gone"}
    assert case.contents() == before


def test_a_deleted_run_leaves_the_attention_of_sweepers(case: StoreCase) -> None:
    run = everything(case)
    case.drop_header(run.incarnation)

    assert case.store.due(run.incarnation) is None
    assert case.store.sweep(case.keys.shard_of_incarnation(run.incarnation)) == []
    assert case.store.inspect(run.incarnation) is None
