"""Runs on real worker processes give what the in-memory engine gives."""

from __future__ import annotations

import random

from tests.support import jobs
from wf_api.cli.stack import Stack
from wf_api.client import WorkflowClient


def test_two_thousand_concurrent_items_over_two_workers_equal_the_in_memory_engine(
    stack: Stack, client: WorkflowClient
) -> None:
    flow = jobs.squares()
    numbers = [random.Random(7).randrange(1_000) for _ in range(2_000)]
    client.publish(flow)

    run = client.start("squares", {"numbers": numbers})
    view = client.wait(run["run_id"], timeout=100)

    local = flow.execute({"numbers": numbers})
    assert view["status"] == "completed"
    assert view["output"] == local.output
    assert view["steps_executed"] == 2_000 + 2
    pages = [
        client.trace(run["run_id"], start=start, limit=100)["trace"] for start in range(0, view["trace_count"], 100)
    ]
    workers = {entry["worker"] for page in pages for entry in page if entry["step_type"] == "node"}
    assert len(workers) == 2


def test_async_handlers_run_on_the_workers_event_loop(stack: Stack, client: WorkflowClient) -> None:
    flow = jobs.squares("async_squares", jobs.square_slowly)
    client.publish(flow)

    run = client.start("async_squares", {"numbers": [1, 2, 3]})
    view = client.wait(run["run_id"], timeout=60)

    assert view["output"] == {"lines": ["1", "2", "3"], "total": 14}
