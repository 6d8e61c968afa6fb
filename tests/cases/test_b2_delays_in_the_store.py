"""Thousands of delayed tasks were pulled into the memory of one worker until it was killed, then into the next one's.

A task with an ETA is kept by the worker that received it, beyond every prefetch limit (celery/celery#9849,
celery/celery#2218, celery/celery#2541). Here a delay is an entry in a sorted set of the store; a message is sent when
it is due, and has no ETA. ``make timers`` shows it with 20,000 items and ten minutes.
"""

from __future__ import annotations

import json
from typing import Any

from bench.gauges import gauges
from bench.timers import due_now
from tests.cases.flows import END, ToWorker, contract, each, fails_once, flow, found, inline, item, step
from tests.support.inline_worker import InlineWorker
from tests.support.stores import MemoryCase
from tests.support.valkey import EmbeddedValkey
from tests.support.waiting import eventually
from wf_api.cli.stack import Stack
from wf_api.client import WorkflowClient
from wf_worker.app import celery_app
from wf_worker.dispatch import Dispatcher
from wf_worker.settings import Settings
from wf_worker.store.protocol import Ready
from wf_worker.sweeper import Receipts, Sweeper

ITEMS = 300
TEN_MINUTES = {"max_attempts": 2, "initial_seconds": 600.0, "max_seconds": 600.0, "jitter": "none"}


def backing_off() -> dict[str, Any]:
    """All items are under way at once, and each fails once."""
    return flow(
        "backing_off",
        [
            each("each", "input.numbers", active=ITEMS),
            step("work", "fails_once", item("each"), "state.seen", retry=TEN_MINUTES),
        ],
        [("each", "loop", "work"), ("work", "ok", "each"), ("each", "done", END)],
        takes={"numbers": {"type": "array", "items": {}}},
        state={"seen": {"type": "array", "reducer": "wf.std.append"}},
        gives={"seen": {}},
        defs=[contract("fails_once")],
    )


def test_delays_stand_in_the_store_and_nothing_of_them_in_broker_or_worker(
    processes: Stack, remote: WorkflowClient
) -> None:
    remote.publish(backing_off())
    numbers = list(range(ITEMS))
    with gauges(processes.store_url) as gauge:
        before = gauge.messages()
        run_id = remote.start("backing_off", {"numbers": numbers})["run_id"]
        incarnation = gauge.incarnation(run_id)
        eventually(lambda: gauge.in_set(incarnation, "WAITS") == ITEMS, "every item waits in the store")
        sent = gauge.messages() - before
        assert gauge.queue_length() == 0
        assert int(gauge.client.hlen("unacked")) <= 2
        # One message an item, one to begin, and one for each page of 64 admissions.
        assert ITEMS + 1 <= sent <= ITEMS + 1 + ITEMS // 64 + 1
        view = remote.inspect(run_id)
        assert (view["status"], view["waits_until"] is not None) == ("running", True)

        due_now(gauge, incarnation)
        ended = remote.wait(run_id, "ended", timeout=60)

    assert (ended["status"], ended["output"]) == ("completed", {"seen": numbers})


def test_any_other_worker_takes_the_delays_up_when_they_are_due_and_not_before(memory_case: MemoryCase) -> None:
    store = memory_case.store
    numbers = list(range(ITEMS))
    with memory_case.unaudited(), inline(store, backing_off(), {"numbers": numbers}) as (_, run):
        other = InlineWorker(store, {"fails_once": fails_once})
        sweeper = Sweeper(store, ToWorker(other), Receipts())
        memory_case.clock.advance(600_000 - 1)
        assert sweeper.sweep().fired == 0
        memory_case.clock.advance(10_001)
        assert sweeper.sweep().fired == ITEMS
        other.drain()

    assert found(store, run).output == {"seen": numbers}


def test_no_message_carries_a_time_at_which_it_is_to_be_done(valkey: EmbeddedValkey) -> None:
    settings = Settings(store_url=valkey.url)
    dispatcher = Dispatcher(celery_app(settings), settings, lambda: "store")
    dispatcher.publish([Ready("00-x", "f", "1.a", "sha256:0", "work", 0)])
    dispatcher.close()

    with valkey.client() as client:
        [message] = [json.loads(text) for text in client.lrange(settings.queue, 0, -1)]
    assert (message["headers"]["eta"], message["headers"]["expires"]) == (None, None)
