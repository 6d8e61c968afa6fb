"""Ended runs are kept for a time, and then nothing of them is left."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.driving import Driver, asks_about, start
from tests.conformance.workflows import each, items, line, nested
from tests.support.stores import MemoryCase, StoreCase
from wf_worker.errors import RunDamaged

DAY = 24 * 3600 * 1000


def kept(
    case: StoreCase, workflow: Any, workflow_input: Any = None, *, keep: str = "1,1,1", run_id: str = "run"
) -> Driver:
    return start(case, workflow, workflow_input, run_id=run_id, extras={"keep": keep})


def reap(run: Driver, most: int = 500) -> int:
    """Reaps page by page; how many pages it took."""
    pages = 1
    while (word := run.store.reap(run.incarnation, most=most)) == "more":
        pages += 1
    assert word == "reaped"
    return pages


def names(case: StoreCase, run: Driver) -> list[str]:
    """Everything stored that names the run."""
    return [str(part) for part in _flat(case.contents()) if run.incarnation in str(part) or str(part) == "run"]


def _flat(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [part for key, item in value.items() for part in (key, *_flat(item))]
    if isinstance(value, list | tuple | set | frozenset):
        return [part for item in value for part in _flat(item)]
    return [value]


@pytest.mark.parametrize("ending", ["completed", "failed", "cancelled"])
def test_nothing_of_an_ended_run_is_left_whatever_it_was_doing(case: StoreCase, ending: str) -> None:
    run = kept(case, nested(outer="continue", inner="quiesce", active=3), items(4, 3))
    if ending == "completed":
        run.drain()
    else:
        run.drain(chooses=asks_about(1))
        if ending == "cancelled":
            run.store.cancel(run.incarnation)
        else:
            run.store.fail_damaged(run.incarnation, RunDamaged("a record is gone", path="f"))
    assert run.status == ending and names(case, run) != []
    case.pass_time(2)

    reap(run)

    assert names(case, run) == []
    assert run.store.inspect(run.incarnation) is None and run.store.newest("run") is None


def test_a_large_run_goes_page_by_page_and_is_gone_from_the_first(case: StoreCase) -> None:
    run = kept(case, each(active=30, outstanding=30), items(40))
    claims = [run.claim(message) for message in run.work(run.ready[0])]
    run.store.cancel(run.incarnation)
    case.pass_time(2)

    first = run.store.reap(run.incarnation, most=7)

    if case.kind != "memory":
        assert first == "more"
        assert run.store.due(run.incarnation) is not None
        assert run.store.renew(claims[0]) == "gone"
        assert reap(run, most=7) >= 1
    assert names(case, run) == []


def test_a_run_is_kept_until_its_time_is_over(memory_case: MemoryCase) -> None:
    run = kept(memory_case, line(), keep=f"{DAY},{2 * DAY},{3 * DAY}")
    run.drain()
    shard = memory_case.keys.shard_of_incarnation(run.incarnation)

    memory_case.clock.advance(DAY - 1)
    assert memory_case.store.sweep(shard) == []
    assert run.store.reap(run.incarnation) == "refused"
    memory_case.clock.advance(1)
    assert memory_case.store.sweep(shard) == [run.incarnation]
    due = run.store.due(run.incarnation)
    assert due is not None and due.reap
    assert run.store.reap(run.incarnation) == "reaped"
    assert run.store.reap(run.incarnation) == "gone"


@pytest.mark.parametrize("ending", ["failed", "cancelled"])
def test_each_kind_of_end_has_its_own_time(memory_case: MemoryCase, ending: str) -> None:
    run = kept(memory_case, line(), keep=f"0,{2 * DAY},{3 * DAY}")
    if ending == "failed":
        run.finish(run.claim(run.ready[0]), error=ValueError("no"))
    else:
        run.store.cancel(run.incarnation)
    days = 2 if ending == "failed" else 3

    memory_case.clock.advance(days * DAY - 1)
    assert run.store.reap(run.incarnation) == "refused"
    memory_case.clock.advance(1)
    assert run.store.reap(run.incarnation) == "reaped"


def test_a_run_without_a_time_is_kept_for_ever(memory_case: MemoryCase) -> None:
    run = start(memory_case, line())
    run.drain()
    memory_case.clock.advance(10_000 * DAY)

    assert run.store.reap(run.incarnation) == "refused"
    assert run.status == "completed"


def test_a_run_that_goes_on_is_not_reaped(case: StoreCase) -> None:
    run = kept(case, line())
    run.finish(run.claim(run.ready[0]), error=ValueError("no"))
    _, messages = run.store.retry_failed(run.incarnation)
    case.pass_time(2)

    assert run.store.reap(run.incarnation) == "refused"
    run.drain(messages)
    assert run.status == "completed"


def test_reaping_an_old_incarnation_leaves_the_new_one_alone(case: StoreCase) -> None:
    old = kept(case, line())
    old.drain()
    store = case.store
    new = store.new_run("run", old.digest, {"value": "x"}, max_steps=10, closed_policy="allow")
    created = store.create(new)
    case.pass_time(2)

    reap(old)

    assert store.newest("run") == created.incarnation
    assert store.inspect(created.incarnation) is not None
