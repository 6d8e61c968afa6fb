"""An export is read from every kind of store alike, page by page, and says where a run is damaged."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.conformance.driving import Driver, start
from tests.conformance.test_forking import WORKFLOWS, asking_once, resting_run
from tests.conformance.workflows import line
from tests.support.stores import RedisCase, StoreCase
from wf_core.errors import WfError
from wf_worker.store.keys import RUN_KEYS


def records_of(run: Driver) -> list[dict[str, Any]]:
    return list(run.store.export(run.incarnation))


def kinds_of(run: Driver) -> Counter[str]:
    return Counter(record["kind"] for record in records_of(run))


@pytest.mark.parametrize("name", sorted(WORKFLOWS))
def test_every_record_of_a_run_is_in_its_export_once(case: StoreCase, name: str) -> None:
    run = resting_run(case, name)
    places = run.places()

    kinds = kinds_of(run)
    record = run.store.inspect(run.incarnation)
    assert record is not None

    assert kinds["frame"] == sum(places.values())
    assert kinds["interrupt"] == places["open"] == len(run.numbers())
    assert kinds["trace"] == record.trace_count
    assert kinds["result"] == sum(activation.done for activation in run.store.progress(run.incarnation))
    assert (kinds["workflow"], kinds["scope"], kinds["damage"]) == (1, 1, 0)


def test_a_large_value_is_whole_in_an_export(case: StoreCase) -> None:
    run = start(case, line(), {"value": "x" * 600_000})
    run.drain()

    state = {record["field"]: record["value"] for record in records_of(run) if record["kind"] == "state"}

    assert state == {"value": "x" * 600_000, "last": "x" * 600_000}


def test_an_export_changes_nothing(case: StoreCase) -> None:
    run = resting_run(case, "nested")
    before = case.contents()

    records_of(run)

    assert case.contents() == before


def test_a_run_that_moves_is_refused_at_the_beginning_and_at_the_end(case: StoreCase) -> None:
    run = start(case, line())
    with pytest.raises(WfError) as moving:
        run.store.export(run.incarnation)
    run.drain(chooses=asking_once)

    records = run.store.export(run.incarnation)
    next(records)
    run.answer()

    with pytest.raises(WfError) as moved:
        list(records)
    assert (moving.value.code, moved.value.code) == ("run_not_at_rest", "run_not_at_rest")


def test_a_frame_that_cannot_be_read_is_named_and_the_rest_is_exported(server_case: RedisCase) -> None:
    run = resting_run(server_case, "nested")
    frames = sum(run.places().values())
    server_case.records.auditing = False
    base = server_case.keys.base(run.incarnation)
    root = next(key for key, head in server_case.client.hgetall(base + RUN_KEYS["FRAMES"]).items() if b":" not in key)
    server_case.client.hset(base + RUN_KEYS["BODIES"], root, "nonsense")

    records = records_of(run)

    [damage] = [record for record in records if record["kind"] == "damage"]
    assert root.decode() in damage["message"]
    assert sum(1 for record in records if record["kind"] == "frame") == frames - 1
