"""A store without memory: calls are refused before they write, everybody waits, and goes on when there is memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
import redis

from tests.support import jobs
from tests.support.installations import EMBEDDED, RABBITMQ, Servers
from tests.support.waiting import eventually
from wf_api.cli.stack import Stack
from wf_api.client import WorkflowClient


@contextmanager
def full(store: redis.Redis) -> Iterator[None]:
    """The store takes no writes for as long as the block lasts."""
    store.config_set("maxmemory", 1)
    try:
        yield
    finally:
        store.config_set("maxmemory", 0)


def test_a_run_that_meets_a_full_store_stands_still_and_completes_when_there_is_memory(
    servers: Servers, stack: Stack, client: WorkflowClient
) -> None:
    if servers.kind not in (EMBEDDED, RABBITMQ):
        pytest.skip("the memory of a server that is someone else's is left alone")
    flow = jobs.squares()
    client.publish(flow)
    numbers = list(range(1_000))
    run_id = client.start("squares", {"numbers": numbers})["run_id"]
    with redis.Redis.from_url(stack.store_url) as store:
        eventually(lambda: client.inspect(run_id)["steps_executed"] >= 100, "a hundred steps are done")
        with full(store):
            refused = httpx.post(f"{stack.url}/v1/runs", json={"workflow": "squares", "input": {"numbers": [1]}})
            paused = httpx.post(f"{stack.url}/v1/runs/{run_id}/pause")
            workers = [part for part in stack.parts if part.is_worker]
            eventually(
                lambda: all(b"the run store is full" in part.output() for part in workers),
                lambda: f"both workers meet it: {[part.tail() for part in workers]}",
            )
            assert client.inspect(run_id)["status"] == "running"
            assert client.audit(run_id) == {"run_id": run_id, "whole": True, "findings": []}
    view = client.wait(run_id, timeout=120)

    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "store_full")
    assert "retry-after" in refused.headers
    assert (paused.status_code, view["paused"]) == (503, False)
    assert view["status"] == "completed"
    assert view["output"] == flow.execute({"numbers": numbers}).output
    assert view["steps_executed"] == 1_002
    assert all(part.alive for part in stack.parts)
    assert client.list()["total"] == 1
    assert client.audit(run_id)["whole"]
