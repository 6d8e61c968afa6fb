"""A worker that meets a full store waits with what it has in hand, and a handler's result is not lost by it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis

from tests.support.inline_worker import InlineWorker
from tests.support.valkey import EmbeddedValkey
from wf_core.models import Workflow
from wf_core.run_state import RuntimeContext
from wf_worker.errors import StoreUnavailable
from wf_worker.patience import patiently
from wf_worker.settings import Settings
from wf_worker.store.opening import open_store
from wf_worker.store.runs import RunStore

LARGE = "x" * 400_000
"""A value that is staged before the commit that names it."""

ANYTHING = {"type": "object", "properties": {"value": {}}}
FLOW = Workflow.model_validate(
    {
        "name": "large",
        "input_schema": ANYTHING,
        "state_schema": ANYTHING,
        "output_schema": ANYTHING,
        "output": [],
        "node_defs": [{"name": "work", "input_schema": ANYTHING, "output_schema": ANYTHING, "outcomes": ["ok"]}],
        "start": "work",
        "nodes": [
            {
                "id": "work",
                "type": "node",
                "node": "work",
                "input": [],
                "output": [{"source": "value", "target": "state.value"}],
            }
        ],
        "edges": [{"from": "work", "outcome": "ok", "to": "__end__"}],
    }
)


class OnWarning(logging.Handler):
    """Does something once, when somebody says for the second time that it waits."""

    def __init__(self, act: Callable[[], Any]) -> None:
        super().__init__(logging.WARNING)
        self.count = 0
        self._act = act

    def emit(self, record: logging.LogRecord) -> None:
        self.count += "waiting for the store" in record.getMessage()
        if self.count == 2:
            self._act()


@contextmanager
def memory_comes_back_when_a_worker_waits(client: redis.Redis) -> Iterator[OnWarning]:
    noticed = OnWarning(lambda: client.config_set("maxmemory", 0))
    logging.getLogger("wf.steps").addHandler(noticed)
    try:
        yield noticed
    finally:
        logging.getLogger("wf.steps").removeHandler(noticed)
        client.config_set("maxmemory", 0)


@pytest.fixture
def store(valkey: EmbeddedValkey) -> Iterator[RunStore]:
    opened = open_store(Settings(store_url=valkey.url))
    yield opened
    opened.records.close()


def start(store: RunStore, worker: InlineWorker) -> str:
    digest = store.publish(FLOW).digest
    created = store.create(store.new_run("run", digest, {}, max_steps=10))
    worker.publish(created.ready)
    return created.incarnation


def status(store: RunStore, incarnation: str) -> str:
    record = store.inspect(incarnation)
    assert record is not None
    return record.status


@pytest.mark.parametrize("at", ["before the claim", "in the handler"])
def test_a_step_that_meets_a_full_store_is_done_once_there_is_memory(
    store: RunStore, valkey: EmbeddedValkey, at: str
) -> None:
    calls: list[int] = []
    with valkey.client() as client, memory_comes_back_when_a_worker_waits(client) as waiting:

        def work(_payload: dict[str, Any], ctx: RuntimeContext) -> dict[str, Any]:
            calls.append(getattr(ctx, "attempt", 0))
            if at == "in the handler":
                client.config_set("maxmemory", 1)
            return {"outcome": "ok", "output": {"value": LARGE}}

        worker = InlineWorker(store, {"work": work})
        run = start(store, worker)
        if at == "before the claim":
            client.config_set("maxmemory", 1)
        worker.drain()

    assert (calls, status(store, run)) == ([1], "completed")
    assert waiting.count >= 2
    assert store.audit(run) == []


def test_a_call_to_a_full_store_is_refused_before_it_writes(store: RunStore, valkey: EmbeddedValkey) -> None:
    worker = InlineWorker(store, {})
    run = start(store, worker)
    with valkey.client() as client:
        before = {key: client.dump(key) for key in client.keys("*")}
        client.config_set("maxmemory", 1)
        try:
            for call in (
                lambda: store.cancel(run),
                lambda: store.pause(run, on=True),
                lambda: store.create(store.new_run("other", store.publish(FLOW).digest, {}, max_steps=10)),
                lambda: store.due(run),
                lambda: store.sweep(store.keys.shard_of_incarnation(run)),
            ):
                try:
                    call()
                except StoreUnavailable as refused:
                    assert refused.code == "store_full"
        finally:
            client.config_set("maxmemory", 0)

        assert {key: client.dump(key) for key in client.keys("*")} == before


def test_a_store_that_stays_away_for_a_lease_is_given_up() -> None:
    calls: list[int] = []

    def away() -> None:
        calls.append(1)
        raise StoreUnavailable("away")

    with pytest.raises(StoreUnavailable):
        patiently(away, lease_ms=150)
    assert len(calls) >= 2


def test_a_store_that_comes_back_within_the_lease_is_not_given_up() -> None:
    answers: Iterator[Exception | str] = iter([StoreUnavailable("away"), StoreUnavailable("away"), "here"])

    def answer() -> str:
        found = next(answers)
        if isinstance(found, Exception):
            raise found
        return found

    assert patiently(answer, lease_ms=30_000) == "here"
