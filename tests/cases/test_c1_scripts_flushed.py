"""The server forgets its scripts at any moment, or is restarted: no run notices, and health tells the truth.

Seen in groupmq#16, cashews#386 and redis-py PR 4206: hashes of scripts cached for ever, every call failing for hours,
and a health check that only pings.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.api.conftest import served
from tests.api.workflows import DOUBLE, HANDLERS
from tests.chaos.shapes import wide_loop
from tests.support.inline_worker import InlineWorker
from tests.support.random_flows import note
from tests.support.stores import AuditedRecords
from tests.support.valkey import EmbeddedValkey
from wf_api.http import create_app
from wf_worker.settings import Settings
from wf_worker.store.keys import Keys
from wf_worker.store.opening import open_store
from wf_worker.store.protocol import Records
from wf_worker.store.redis import RedisRecords, connect
from wf_worker.store.runs import RunStore

FLUSHES = 50


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedValkey]:
    """A server of our own. Its files keep records; scripts are never kept."""
    server = EmbeddedValkey(tmp_path, append_only=True)
    server.start()
    yield server
    server.kill()


def run_with(server: EmbeddedValkey, disturb: Callable[[], None], times: int) -> None:
    """A run in which ``disturb`` is called so many times, each ahead of another call of the store."""
    rng, calls = random.Random(1), AuditedRecords(RedisRecords(connect(server.url)))
    calls.auditing = False
    records: Records = calls  # type: ignore[assignment]
    store, job = RunStore(records, Keys()), wide_loop.make(rng)
    assert job.expected is not None
    digest = store.publish(job.workflow).digest
    left = times

    def before() -> None:
        nonlocal left
        if left and rng.random() < 0.3:
            left -= 1
            disturb()

    calls.before = before
    worker = InlineWorker(store, {"note": note})
    new = store.new_run("run", digest, job.workflow_input, max_steps=10_000)
    worker.publish(store.create(new).ready)
    worker.drain()
    record = store.inspect(new.incarnation)

    assert left == 0
    assert record is not None
    assert (record.status, record.error) == ("completed", None)
    assert record.output == job.expected.output
    records.close()


def test_a_run_does_not_notice_that_scripts_and_functions_are_flushed(server: EmbeddedValkey) -> None:
    def flush() -> None:
        with server.client() as client:
            client.script_flush()
            client.function_flush()

    run_with(server, flush, FLUSHES)


def test_a_run_does_not_notice_that_the_server_is_killed_and_started_again(server: EmbeddedValkey) -> None:
    def restart() -> None:
        server.kill()
        server.start()

    run_with(server, restart, 5)


def test_health_is_red_only_while_calls_truly_fail(server: EmbeddedValkey) -> None:
    settings = Settings(store_url=server.url)
    store = open_store(settings)
    app = create_app(store, InlineWorker(store, HANDLERS).publish, settings)
    with served(app) as url, httpx.Client(base_url=url, timeout=30) as http, server.client() as client:
        http.post("/v1/workflows", json={"workflow": DOUBLE}).raise_for_status()

        def health_and_call() -> tuple[int, int]:
            ready = http.get("/readyz").status_code
            return ready, http.post("/v1/runs", json={"workflow": "double", "input": {"n": 1}}).status_code

        good, bad = (200, 201), (503, 503)
        assert health_and_call() == good
        client.script_flush()
        assert health_and_call() == good

        client.acl_setuser("default", enabled=True, categories=["-@scripting"], commands=[])
        assert client.ping()  # a check that only pings would be green
        assert health_and_call() == bad
        client.acl_setuser("default", enabled=True, categories=["+@all"], commands=[])
        assert health_and_call() == good

        server.kill()
        assert health_and_call() == bad
        server.start()
        assert health_and_call() == good
    store.records.close()
