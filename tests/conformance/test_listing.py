"""Runs are found by status, workflow, tags and time, in pages that miss none and show none twice."""

from __future__ import annotations

import pytest

from tests.conformance.driving import start
from tests.conformance.workflows import each, items, line
from tests.support.stores import MemoryCase, StoreCase
from wf_worker.store.looking import LIST_LOOKS
from wf_worker.store.protocol import RunFilter

SHAPES = {"line": line(), "each": each()}
RUNS = [
    ("a", "line", {"team": "blue", "env": "test"}),
    ("b", "each", {"team": "blue"}),
    ("c", "line", {"team": "red"}),
    ("d", "line", {}),
    ("e", "each", {"team": "blue", "env": "test"}),
]


def fill(case: StoreCase) -> dict[str, int]:
    """When each run was created."""
    times: dict[str, int] = {}
    for run_id, shape, tags in RUNS:
        digest = case.store.publish(SHAPES[shape]).digest
        given = items(1) if shape == "each" else {"value": "x"}
        created = case.store.create(case.store.new_run(run_id, digest, given, max_steps=99, tags=tags))
        record = case.store.inspect(created.incarnation)
        assert record is not None
        times[run_id] = record.created_ms
        case.pass_time(2)
    case.store.cancel(case.store.newest("a") or "")
    return times


def found(case: StoreCase, wanted: RunFilter, limit: int = 50) -> str:
    """The ids of every page, one after another."""
    names, before = "", None
    while True:
        page, before = case.store.list_runs(wanted, before=before, limit=limit)
        names += "".join(record.run_id for record in page)
        if before is None:
            return names


@pytest.mark.parametrize("limit", [1, 2, 50])
@pytest.mark.parametrize(
    ("wanted", "expected", "total"),
    [
        (RunFilter(), "edcba", 5),
        (RunFilter(workflow="line"), "dca", 3),
        (RunFilter(tags={"team": "blue"}), "eba", 3),
        (RunFilter(tags={"team": "blue", "env": "test"}), "ea", None),
        (RunFilter(tags={"team": "green"}), "", 0),
        (RunFilter(status="cancelled"), "a", 1),
        (RunFilter(status="pending", tags={"team": "blue"}, workflow="each"), "eb", None),
        (RunFilter(status="cancelled", tags={"team": "red"}), "", None),
    ],
)
def test_a_filter_shows_the_runs_that_are_all_of_it(
    case: StoreCase, wanted: RunFilter, expected: str, total: int | None, limit: int
) -> None:
    fill(case)

    assert found(case, wanted, limit) == expected
    assert case.store.count_runs(wanted) == total


def test_a_time_includes_both_its_ends(case: StoreCase) -> None:
    times = fill(case)

    assert found(case, RunFilter(created_from_ms=times["b"], created_to_ms=times["d"])) == "dcb"
    assert found(case, RunFilter(created_from_ms=times["c"] + 1, workflow="line"), 1) == "d"
    assert found(case, RunFilter(created_to_ms=times["b"] - 1)) == "a"


def test_a_run_tells_its_tags_and_its_priority(case: StoreCase) -> None:
    fill(case)

    tagged, plain = (case.store.inspect(case.store.newest(name) or "") for name in ("a", "d"))

    assert tagged is not None and plain is not None
    assert (tagged.tags, tagged.priority) == ({"team": "blue", "env": "test"}, "normal")
    assert plain.tags == {}


def test_a_page_looks_at_a_bounded_number_of_runs_and_says_where_to_go_on(memory_case: MemoryCase) -> None:
    for number in range(LIST_LOOKS + 60):
        start(memory_case, line(), run_id=f"run{number}", extras={})

    page, following = memory_case.store.list_runs(RunFilter(status="pending", workflow="other"), limit=50)
    rare, more = memory_case.store.list_runs(RunFilter(status="failed", workflow="line"), limit=50)

    assert (page, following) == ([], None)
    assert rare == [] and more is not None
    assert memory_case.store.list_runs(RunFilter(status="failed", workflow="line"), before=more) == ([], None)


def test_nothing_is_left_in_an_index_when_a_run_is_gone(memory_case: MemoryCase) -> None:
    digest = memory_case.store.publish(line()).digest
    new = memory_case.store.new_run(
        "run", digest, {"value": "x"}, max_steps=9, tags={"team": "blue"}, extras={"keep": "1000,1000,1000"}
    )
    incarnation = memory_case.store.create(new).incarnation
    memory_case.store.cancel(incarnation)
    memory_case.pass_time(1_001)

    while memory_case.store.reap(incarnation) == "more":
        pass

    assert found(memory_case, RunFilter(tags={"team": "blue"})) == ""
    assert memory_case.store.count_runs(RunFilter(workflow="line")) == 0
    shards = memory_case.memory.contents.shards.values()
    assert not any(scores for shard in shards for scores in shard.runs_by.values())
