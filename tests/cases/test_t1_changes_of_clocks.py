"""On the day when clocks change a schedule ran at the wrong hour, crashed, or had an interval of no length.

Times were stepped on the wall and the zone was attached afterwards (apache/airflow#7999, apache/airflow#30088,
apache/airflow PR#70089). This engine has no schedules. What it has of the kind is ``wait`` until a time: that is an
instant, written with its offset; two that look alike on the wall are told apart by it, and a time without one is
refused. The instants below are those at which the named schedules are due.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests.api.conftest import Api
from tests.cases.flows import END, ToWorker, flow, found, inline, step
from tests.support.inline_worker import InlineWorker
from tests.support.stores import MemoryCase
from wf_core.instants import instant_of
from wf_worker.sweeper import Receipts, Sweeper

SCHEDULES: dict[str, tuple[list[str], list[str]]] = {
    # At 7 and at 8 in the morning in Los Angeles; clocks go forward on 8 March 2020.
    "0 7-8 * * *": (
        [
            *("2020-03-07T07:00:00-08:00", "2020-03-07T08:00:00-08:00"),
            *("2020-03-08T07:00:00-07:00", "2020-03-08T08:00:00-07:00", "2020-03-09T07:00:00-07:00"),
        ],
        [
            *("2020-03-07T15:00", "2020-03-07T16:00", "2020-03-08T14:00", "2020-03-08T15:00", "2020-03-09T14:00"),
        ],
    ),
    # Every four hours at twenty past; forward at two on 12 March 2023.
    "20 */4 * * *": (
        [
            *("2023-03-11T20:20:00-08:00", "2023-03-12T00:20:00-08:00"),
            *("2023-03-12T04:20:00-07:00", "2023-03-12T08:20:00-07:00"),
        ],
        ["2023-03-12T04:20", "2023-03-12T08:20", "2023-03-12T11:20", "2023-03-12T15:20"],
    ),
    # Ten past midnight in Montreal, over the same night.
    "10 0 * * *": (
        ["2023-03-11T00:10:00-05:00", "2023-03-12T00:10:00-05:00", "2023-03-13T00:10:00-04:00"],
        ["2023-03-11T05:10", "2023-03-12T05:10", "2023-03-13T04:10"],
    ),
    # Half past one, twice: clocks go back on 5 November 2023.
    "the doubled hour": (
        ["2023-11-05T01:30:00-04:00", "2023-11-05T01:30:00-05:00"],
        ["2023-11-05T05:30", "2023-11-05T06:30"],
    ),
}


def waits_for(until: Any) -> dict[str, Any]:
    """Waits for each of the times in turn."""
    return flow(
        "waits",
        [
            {"id": "each", "type": "foreach", "over": "input.times", "as": "time"},
            {"id": "rest", "type": "wait", "until": until},
            step("seen", "echo", "context.foreach.each.item", "state.seen"),
        ],
        [("each", "loop", "rest"), ("rest", "elapsed", "seen"), ("seen", "ok", "each"), ("each", "done", END)],
        takes={"times": {"type": "array", "items": {}}},
        state={"seen": {"type": "array", "reducer": "wf.std.append"}},
        gives={"seen": {}},
    )


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_run_goes_on_at_each_instant_and_never_before_it(memory_case: MemoryCase, name: str) -> None:
    times, instants = SCHEDULES[name]
    store = memory_case.store
    memory_case.clock.now_ms = 1_500_000_000_000
    went_on: list[int] = []
    document, given = waits_for("context.foreach.each.item"), {"times": times}
    with memory_case.unaudited(), inline(store, document, given) as (worker, run):
        sweeper = Sweeper(store, ToWorker(worker), Receipts())
        while (due := store.waits_until(run)) is not None:
            memory_case.clock.now_ms = due - 1
            assert sweeper.sweep().fired == 0
            # A sweeper that has just looked looks again within ten seconds.
            memory_case.clock.now_ms = due + 10_000
            assert sweeper.sweep().fired == 1
            worker.drain()
            went_on.append(due)

    assert [instant_of(ms).isoformat()[:16] for ms in went_on] == instants
    assert all(earlier < later for earlier, later in itertools.pairwise(went_on))
    assert found(store, run).output == {"seen": times}


@pytest.mark.parametrize(
    "text",
    ["2023-03-12T02:30:00", "2023-03-12 02:30", "2023-03-12", "2023-03-12T02:30:00 America/Montreal", "02:30", ""],
)
def test_a_time_on_the_wall_is_no_instant_and_refused(api: Api, memory_case: MemoryCase, text: str) -> None:
    refused = api.post("/v1/workflows", {"workflow": waits_for(text)})
    with (
        memory_case.unaudited(),
        inline(memory_case.store, waits_for("context.foreach.each.item"), {"times": [text]}) as (_, run),
    ):
        record = found(memory_case.store, run)

    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "workflow_invalid")
    assert record.error is not None
    assert (record.status, record.error["type"], record.error["node_id"]) == ("failed", "wait_time_invalid", "rest")


def test_an_instant_that_has_passed_is_not_waited_for(memory_case: MemoryCase) -> None:
    times = ["2020-03-08T07:00:00-07:00", "2020-03-08T07:00:00-08:00"]
    with (
        memory_case.unaudited(),
        inline(memory_case.store, waits_for("context.foreach.each.item"), {"times": times}) as (worker, run),
    ):
        assert isinstance(worker, InlineWorker)
        assert found(memory_case.store, run).output == {"seen": times}
