"""What a claim reads in further calls, and what it writes ahead of its commit, is fenced by its token."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.driving import Driver, start
from tests.conformance.workflows import each, items, line
from tests.support.stores import StoreCase
from wf_worker.store.keys import short
from wf_worker.store.protocol import Claim, CommitStatus


def stage(
    case: StoreCase, claim: Claim, kind: str, name: str, offset: int, *pieces: bytes, token: str | None = None
) -> tuple[str, int | None]:
    reply = case.records.call(
        "stage", claim.incarnation, "stage", claim.frame, token or claim.token, kind, name, offset, len(pieces), *pieces
    )
    return reply[0].decode(), int(reply[1]) if reply[0] in (b"staged", b"gap") else None


def load(case: StoreCase, run: Driver, frame: str, token: str, *wants: str | int) -> Any:
    reply = case.records.call("load", run.incarnation, "load", frame, token, 1, *wants)
    return reply[1][0] if reply[0] == b"loaded" else reply[0].decode()


@pytest.fixture
def run(case: StoreCase) -> Driver:
    return start(case, line(), {"value": "x"})


def test_a_load_reads_state_and_input_under_the_token(case: StoreCase, run: Driver) -> None:
    claim = run.claim(run.ready[0])
    scope = claim.view.head(claim.frame_id).scope

    assert load(case, run, claim.frame, claim.token, "input", short("root")) == b'{"value":"x"}'
    assert load(case, run, claim.frame, claim.token, "state", scope, 2, "value", "absent") == [b'="x"', None]
    assert load(case, run, claim.frame, claim.token, "state", scope, -1) == [b"value", b'="x"']


def test_a_load_with_another_token_is_stale(case: StoreCase, run: Driver) -> None:
    claim = run.claim(run.ready[0])

    assert load(case, run, claim.frame, "other", "input", short("root")) == "stale"
    assert load(case, run, claim.frame, "", "input", short("root")) == "stale"


def test_a_load_after_the_run_has_ended_is_stale(case: StoreCase, run: Driver) -> None:
    claim = run.claim(run.ready[0])
    case.store.cancel(run.incarnation)

    assert load(case, run, claim.frame, claim.token, "input", short("root")) == "stale"


def test_a_frame_at_an_interrupt_is_read_under_its_revision(case: StoreCase, run: Driver) -> None:
    claim = run.claim(run.ready[0])
    run.finish(claim, "ask")
    [opened] = case.store.interrupts(run.incarnation)

    assert load(case, run, claim.frame, opened.revision, "input", short("root")) == b'{"value":"x"}'
    assert load(case, run, claim.frame, claim.token, "input", short("root")) == "stale"


def test_items_and_results_of_a_foreach_are_loaded_by_index(case: StoreCase) -> None:
    run = start(case, each(active=3), items(3))
    ready = run.work(run.ready[0])
    for message in ready[:2]:
        finish = run.work(message)
    claim = run.claim(ready[2])
    assert load(case, run, claim.frame, claim.token, "item", claim.frame) == b'={"name":"n2","orders":[]}'
    finish = run.finish(claim)
    controller = run.claim(finish[0])
    activation = claim.frame.rpartition(":")[0]

    count, results = load(case, run, controller.frame, controller.token, "results", activation, 1, 3)

    assert count == b"3"
    assert [result.startswith(b"ok|") for result in results] == [True, True]


def test_staging_needs_the_token(case: StoreCase, run: Driver) -> None:
    claim = run.claim(run.ready[0])
    before = case.contents()

    assert stage(case, claim, "value", "v", 0, b"abc", token="other") == ("stale", None)
    assert stage(case, claim, "items", "a", 0, b"1", token="other") == ("stale", None)
    assert case.contents() == before


def test_a_value_is_appended_in_pieces_and_a_repeated_piece_is_seen_by_the_length(case: StoreCase, run: Driver) -> None:
    claim = run.claim(run.ready[0])

    assert stage(case, claim, "value", "v", 0, b"abc") == ("staged", 3)
    assert stage(case, claim, "value", "v", 0, b"abc") == ("staged", 3)
    assert stage(case, claim, "value", "v", 3, b"de") == ("staged", 5)
    assert stage(case, claim, "value", "v", 3, b"de") == ("staged", 5)
    assert load(case, run, claim.frame, claim.token, "large", "v") == b"abcde"


def test_a_piece_that_does_not_follow_is_a_gap_and_writes_nothing(case: StoreCase, run: Driver) -> None:
    claim = run.claim(run.ready[0])
    stage(case, claim, "value", "v", 0, b"abc")
    stage(case, claim, "items", "a", 0, b"1")

    assert stage(case, claim, "value", "v", 4, b"x") == ("gap", 3)
    assert stage(case, claim, "items", "a", 2, b"x") == ("gap", 1)
    assert load(case, run, claim.frame, claim.token, "large", "v") == b"abc"


def test_the_first_piece_empties_what_an_earlier_claimer_left(case: StoreCase) -> None:
    run = start(case, line(), lease_ms=0)
    first = run.claim(run.ready[0])
    stage(case, first, "value", "v", 0, b"old and long")
    stage(case, first, "items", "a", 0, b"1", b"2", b"3")
    _, ready = case.store.lost(run.incarnation, first.frame, first.token)

    second = run.claim(ready[0])

    assert stage(case, second, "value", "v", 0, b"new") == ("staged", 3)
    assert stage(case, second, "items", "a", 0, b"4") == ("staged", 1)
    assert stage(case, first, "value", "v", 0, b"zombie") == ("stale", None)
    assert load(case, run, second.frame, second.token, "large", "v") == b"new"


@pytest.mark.parametrize("kind", ["value", "items"])
def test_a_first_piece_that_arrives_once_more_after_the_others_takes_nothing_away(
    case: StoreCase, run: Driver, kind: str
) -> None:
    claim = run.claim(run.ready[0])
    stage(case, claim, kind, "v", 0, b"a")
    stage(case, claim, kind, "v", 1, b"b")
    stage(case, claim, kind, "v", 2, b"c")
    before = case.contents()

    late = [stage(case, claim, kind, "v", 0, b"a"), stage(case, claim, kind, "v", 1, b"b")]

    assert late == [("staged", 3), ("staged", 3)]
    assert case.contents() == before


def test_a_large_foreach_is_staged_and_opened_with_all_its_items(case: StoreCase) -> None:
    run = start(case, each(active=3, outstanding=3), items(1000))
    [opening] = run.work(run.ready[0])

    claim = run.claim(opening)
    ready = run.finish(claim)

    assert claim.purpose.value == "open"
    assert len(ready) == 3
    assert [progress.total for progress in case.store.progress(run.incarnation)] == [1000]


def test_a_commit_whose_staged_items_are_incomplete_is_refused_whole(case: StoreCase) -> None:
    run = start(case, each(active=3, outstanding=3), items(100))
    [opening] = run.work(run.ready[0])
    claim = run.claim(opening)
    run.commit(claim, call_id="opening")
    *_, commit = [sent for sent in case.records.sent if sent[0] == "commit"]
    fresh = start(case, each(active=3, outstanding=3), items(100), run_id="fresh")
    [opening] = fresh.work(fresh.ready[0])
    other = fresh.claim(opening)
    before = case.contents()

    reply = case.records.call("commit", fresh.incarnation, "opening", other.frame, other.token, *commit[3][2:])

    assert reply[0] == b"unstaged"
    assert case.contents() == before


def test_a_large_value_is_staged_read_back_and_let_go_of_when_it_is_replaced(case: StoreCase) -> None:
    run = start(case, line(), {"value": "y" * 300_000})
    with case.unaudited():
        [second] = run.work(run.ready[0])
        claim = run.claim(second)
        committed = run.store.commit(claim, run.transition(claim))

    assert committed.status is CommitStatus.DONE
    assert run.status == "completed"
