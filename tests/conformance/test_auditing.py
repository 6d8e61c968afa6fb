"""An audit reads a run of any size, and finds the same whether it reads it at once or in pages."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.driving import Driver, asks_about, start
from tests.conformance.scenario import everything
from tests.conformance.workflows import each, items
from tests.support.stores import RedisCase, StoreCase
from wf_worker.errors import RequestRefused
from wf_worker.store.audit import audit_any, audit_run
from wf_worker.store.keys import RUN_KEYS


def in_pages(run: Driver, records: Any = None, page: int = 3) -> list[str] | None:
    return audit_any(records or run.case.records.inner, run.incarnation, small=0, page=page)


def wide(case: StoreCase) -> Driver:
    """A run with more frames than any page holds, some of which ask."""
    run = start(case, each(active=300, outstanding=400, interrupt="continue"), items(300), run_id="wide")
    with case.unaudited():
        queue = list(run.work(run.ready[0]))
        for _ in range(40):
            queue += run.work(queue.pop(0), asks_about(*range(20)))
    return run


def test_a_run_is_whole_also_when_it_is_read_in_pages(case: StoreCase) -> None:
    run, other = everything(case), wide(case)

    assert in_pages(run) == in_pages(run, page=1000) == []
    assert in_pages(other, page=20) == []
    assert run.store.audit(run.incarnation) == [] and other.store.audit(other.incarnation) == []


def test_pages_show_every_contradiction_that_one_look_shows(server_case: RedisCase) -> None:
    run = wide(server_case)
    base = server_case.keys.base(run.incarnation)
    frames = server_case.client.zrange(base + RUN_KEYS["READY"], 0, 2)
    server_case.client.zadd(base + RUN_KEYS["HELD"], {frames[0]: 1, b"nobody": 1})
    server_case.client.hdel(base + RUN_KEYS["FRAMES"], frames[1])
    server_case.client.hincrby(base + RUN_KEYS["HEADER"], "max_steps", -20_000)

    found = in_pages(run, page=7)

    assert found is not None and sorted(found) == sorted(audit_run(server_case.records.inner, run.incarnation))
    assert len(found) >= 4


class Moving:
    """Records of a run to which something happens after some of the pages."""

    def __init__(self, run: Driver, times: int) -> None:
        self.pages = 0
        self._run = run
        self._times = times

    def call(self, script: str, *args: Any) -> list[Any]:
        answer = self._run.case.records.inner.call(script, *args)
        self.pages += 1
        if self.pages % 4 == 0 and self._times > 0:
            self._times -= 1
            self._run.store.pause(self._run.incarnation, on=self._times % 2 == 0)
        return answer


def test_a_run_that_moves_between_two_pages_is_read_again(case: StoreCase) -> None:
    run = everything(case)
    calm, restless = Moving(run, times=0), Moving(run, times=2)

    assert in_pages(run, calm) == in_pages(run, restless) == []
    assert restless.pages > calm.pages


def test_a_run_that_never_stands_still_is_said_to_move(case: StoreCase) -> None:
    run = everything(case)

    with pytest.raises(RequestRefused) as refusal:
        in_pages(run, Moving(run, times=1000))

    assert refusal.value.code == "run_moving"


def test_there_is_nothing_to_audit_of_a_run_that_is_not_there(case: StoreCase) -> None:
    assert case.store.audit(case.keys.incarnation("nobody", "x")) is None


def test_an_audit_writes_nothing(case: StoreCase) -> None:
    run = everything(case)
    before = case.contents()

    in_pages(run)
    run.store.audit(run.incarnation)

    assert case.contents() == before


def test_counts_say_where_frames_stand_and_agree_with_their_heads(case: StoreCase) -> None:
    run = wide(case)
    places = run.places()

    counts = run.store.counts(run.incarnation)
    [loop] = run.store.progress(run.incarnation)

    assert counts["asking"] == places["open"] == 20
    assert counts["ready"] == places["ready"]
    assert (loop.total, loop.asking) == (300, 20)
    # One more is ready: the loop itself, which has items left to admit.
    assert loop.active == loop.admitted - loop.done - 20 == counts["ready"] - 1
