"""To open the page of a run with tens of thousands of items killed the API server.

Every item was loaded and summed up at each request (apache/airflow#63975, apache/airflow#57776, apache/airflow#49579).
Here counters stand beside the items, entries are paged, and no request reads what grows with them: the bytes and the
round trips are counted at two sizes. ``make pages`` opens 20,000 items of three steps from ten clients at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
import redis

from bench.load_jobs import three_steps
from tests.api.conftest import served
from tests.support.inline_worker import InlineWorker
from tests.support.valkey import EmbeddedValkey
from wf_api.http import create_app
from wf_core.run_state import RuntimeContext
from wf_worker.settings import Settings
from wf_worker.store.keys import Keys
from wf_worker.store.opening import open_store
from wf_worker.store.redis import RedisRecords
from wf_worker.store.runs import RunStore

PAGES = ("", "/progress", "/interrupts", "/trace?limit=100", "/trace?limit=100&start=100")
SIZES = (100, 300)


class CountedLine(redis.Connection):
    """A connection that counts what is sent: a command, or a pipeline of them."""

    sent = 0

    def send_packed_command(self, command: Any, check_health: bool = True) -> None:
        CountedLine.sent += 1
        super().send_packed_command(command, check_health)


@dataclass
class Page:
    """What one request cost: bytes of its answer, round trips to the store."""

    body: dict[str, Any]
    size: int
    trips: int


@dataclass
class Middle:
    """The pages of a run of so many items, looked at from the handler of the item in its middle."""

    valkey: EmbeddedValkey
    items: int
    pages: dict[str, Page] = field(default_factory=dict[str, Page])

    def run(self) -> dict[str, Page]:
        """Runs it to the end; the pages as they were in the middle."""
        with self.api() as (store, worker, http):
            numbers = list(range(self.items))
            http.post(
                "/v1/workflows", json={"workflow": three_steps().compile().model_dump(mode="json", by_alias=True)}
            )
            body = {"workflow": "three_steps", "input": {"numbers": numbers}, "limits": {"max_steps": 4 * self.items}}
            started = http.post("/v1/runs", json=body)
            assert started.status_code == 201, started.text
            self.url = f"/v1/runs/{started.json()['run_id']}"
            worker.drain()
            record = store.inspect(store.newest(started.json()["run_id"]) or "")
            assert record is not None
            assert (record.status, record.output) == ("completed", {"total": sum(numbers)}), record.error
        return self.pages

    @contextmanager
    def api(self) -> Iterator[tuple[RunStore, InlineWorker, httpx.Client]]:
        settings = Settings(store_url=self.valkey.url)
        pool = redis.ConnectionPool(connection_class=CountedLine, host="127.0.0.1", port=self.valkey.port, protocol=2)
        counted = RunStore(RedisRecords(redis.Redis(connection_pool=pool), Keys()), Keys())
        store = open_store(settings)
        names = {"first_step": self.step, "second_step": self.step, "third_step": self.step}
        worker = InlineWorker(store, names)
        with (
            served(create_app(counted, worker.publish, settings)) as url,
            httpx.Client(base_url=url, timeout=60) as self.http,
        ):
            yield store, worker, self.http
        store.records.close()
        counted.records.close()

    def step(self, payload: dict[str, Any], context: RuntimeContext) -> dict[str, Any]:
        if payload["n"] == self.items // 2 and not self.pages:
            for path in PAGES:
                self.http.get(self.url + path)  # once before, so that what is kept is there
                before = CountedLine.sent
                response = self.http.get(self.url + path)
                assert response.status_code == 200
                self.pages[path] = Page(response.json(), len(response.content), CountedLine.sent - before)
        return {"n": payload["n"]}


def test_a_page_of_ten_times_the_items_costs_as_many_round_trips_and_as_many_bytes(valkey: EmbeddedValkey) -> None:
    small, large = (Middle(valkey, items).run() for items in SIZES)

    for path in PAGES:
        assert large[path].trips == small[path].trips <= 6, path
        # Numbers have a digit more.
        assert large[path].size <= 1.25 * small[path].size < 200_000, path
    assert large[""].size < 4_000
    [progress] = large["/progress"].body["foreach"]
    assert progress["total"] == SIZES[1] and 0 < progress["done"] <= progress["admitted"] <= SIZES[1]
    for path in PAGES[3:]:
        assert len(large[path].body["trace"]) == 100
        assert large[path].body["next_start"] == large[path].body["start"] + 100


@pytest.mark.parametrize("limit", [101, 1_000_000])
def test_nobody_can_ask_for_more_than_a_page(api: Any, limit: int) -> None:
    refused = api.get("/v1/runs/x/trace", limit=limit)

    assert refused.status_code == 422
