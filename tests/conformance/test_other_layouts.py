"""A run whose records a newer release wrote is left alone, whatever is asked, and stays in lists."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.conformance.copying import new_copy
from tests.conformance.driving import start
from tests.conformance.scenario import everything
from tests.conformance.workflows import line
from tests.support.stores import StoreCase
from wf_worker.errors import LayoutUnknown
from wf_worker.store.keys import LAYOUT

NEWER = str(int(LAYOUT) + 1)
LOOKED_AT = 512
"""How many runs of a shard one sweep looks at."""


def test_every_run_says_the_layout_of_its_records(case: StoreCase) -> None:
    run = start(case, line())
    copy = case.store.rerun(run.incarnation, "first", new_copy(case))

    for incarnation in (run.incarnation, copy.incarnation):
        assert case.records.whole_header(incarnation)["layout"] == LAYOUT.encode()


def test_every_call_about_a_run_of_another_layout_is_refused_and_changes_nothing(case: StoreCase) -> None:
    everything(case)
    calls = list(case.records.sent)
    incarnations = {incarnation for _, incarnation, _, _ in calls}
    case.records.auditing = False
    for incarnation in incarnations:
        case.put_header(incarnation, {"layout": NEWER})
    before = case.contents()

    assert len({script for script, *_ in calls}) > 10
    for script, incarnation, call_id, args in calls:
        with pytest.raises(LayoutUnknown) as caught:
            case.records.inner.call(script, incarnation, call_id, *args)
        assert (caught.value.code, f"layout {NEWER}" in caught.value.message) == ("run_layout_unknown", True)
    assert case.contents() == before


def test_a_run_of_another_layout_is_listed_and_neither_shown_nor_copied(case: StoreCase) -> None:
    run = start(case, line())
    case.put_header(run.incarnation, {"layout": NEWER})

    records, _ = case.store.list_runs()
    assert [record.run_id for record in records] == ["run"]
    with pytest.raises(LayoutUnknown):
        case.store.inspect(run.incarnation)
    with pytest.raises(LayoutUnknown):
        case.store.fork(run.incarnation, new_copy(case))
    with pytest.raises(LayoutUnknown):
        case.store.audit(run.incarnation)


def in_shard(case: StoreCase, shard: int) -> Iterator[str]:
    """Run ids of one shard."""
    return (f"run-{n}" for n in itertools.count() if case.keys.shard_of(f"run-{n}") == shard)


def test_a_sweep_takes_no_run_of_another_layout_and_leaves_it_to_others(case: StoreCase) -> None:
    theirs, ours = (start(case, line(), run_id=run_id) for run_id in itertools.islice(in_shard(case, 3), 2))
    case.put_header(theirs.incarnation, {"layout": NEWER})

    assert case.store.sweep(3, ahead_ms=60_000) == [ours.incarnation]
    case.put_header(theirs.incarnation, {"layout": LAYOUT})
    assert case.store.sweep(3, hold_off_ms=0, ahead_ms=5_000) == [theirs.incarnation]


def test_many_runs_of_another_layout_do_not_hide_the_runs_behind_them(case: StoreCase) -> None:
    with case.unaudited():
        ids = in_shard(case, 3)
        for run_id in itertools.islice(ids, LOOKED_AT):
            case.put_header(start(case, line(), run_id=run_id).incarnation, {"layout": NEWER})
        case.pass_time(2)
        last = start(case, line(), run_id=next(ids))

        assert case.store.sweep(3, ahead_ms=60_000) == []
        assert case.store.sweep(3, ahead_ms=5_000) == [last.incarnation]
