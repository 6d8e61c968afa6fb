"""Waits on real processes: nobody holds anything, and the time is kept by the store."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from tests.support import jobs
from tests.support.installations import Servers
from tests.support.waiting import eventually
from wf_api.cli.stack import Stack
from wf_api.client import WorkflowClient


def store_time(store: Any) -> datetime:
    seconds, micros = store.time()
    return datetime.fromtimestamp(seconds, UTC) + timedelta(microseconds=micros)


def test_a_run_waits_without_workers_and_goes_on_when_there_are_some_again(
    stack: Stack, client: WorkflowClient, servers: Servers
) -> None:
    client.publish(jobs.resting(0.1))
    store = servers.store(stack)
    due = store_time(store) + timedelta(seconds=6)
    run_id = client.start("resting", {"numbers": [1, 2, 3, 4, 5], "due": due.isoformat()})["run_id"]
    # Every item has rested and is squared: the run waits for the time of its input.
    eventually(lambda: client.inspect(run_id)["steps_executed"] == 13, "the run waits")

    waiting = client.inspect(run_id)
    assert servers.queue_is_empty(stack)
    for part in [part for part in stack.parts if part.name.startswith("worker-")]:
        stack.kill(part)
        stack.parts.remove(part)
    assert waiting["status"] == "running" and waiting["waits_until"] is not None
    assert abs(datetime.fromisoformat(waiting["waits_until"]) - due) <= timedelta(milliseconds=1)
    eventually(lambda: store_time(store) > due, "the time has come")
    store.close()
    stack.start_worker()
    view = client.wait(run_id, timeout=60)

    assert (view["status"], view["error"], view["waits_until"]) == ("completed", None, None)
    assert view["output"] == {"lines": ["1", "2", "3", "4", "5"], "total": 55}
    entries = client.trace(run_id, limit=100)["trace"]
    assert [(entry["step_type"], entry["outcome"]) for entry in entries].count(("wait", "elapsed")) == 6
    assert entries[-1]["resolved_input"] == {"until": due.isoformat()}
