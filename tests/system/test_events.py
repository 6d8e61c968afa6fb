"""A reader of events outlives the server it reads from."""

from __future__ import annotations

import signal
from pathlib import Path

from tests.support import jobs
from tests.support.waiting import eventually
from wf_api.cli.stack import Stack
from wf_api.client import WorkflowClient


def test_a_reader_whose_server_is_killed_goes_on_with_the_next_one_and_gets_every_event_once(
    stack: Stack, client: WorkflowClient, tmp_path: Path
) -> None:
    client.publish(jobs.holding())
    run_id = client.start("holding", {"folder": str(tmp_path), "numbers": list(range(1, 30))})["run_id"]
    eventually(lambda: (tmp_path / "attempts-3").exists(), "item 3 is in its handler")
    reader = client.events(run_id)
    found = [next(reader), next(reader)]

    server = next(part for part in stack.parts if part.name == "server")
    server.process.send_signal(signal.SIGKILL)
    server.process.wait()
    stack.start_server()
    (tmp_path / "release").touch()
    found += list(reader)

    with WorkflowClient(stack.url) as other:
        whole = list(other.events(run_id))
    assert found == whole
    assert found[-1].get("status") == "completed"
    assert sorted(event["index"] for event in found if event["kind"] == "step" and "index" in event) == list(range(29))
    ordinals = [int((event["id"] or "").partition(".")[0]) for event in found]
    assert ordinals == list(range(1, len(found) + 1))


def test_a_server_that_is_told_to_stop_does_not_wait_for_its_readers(stack: Stack, client: WorkflowClient) -> None:
    flow = jobs.resting(3600)
    client.publish(flow)
    run_id = client.start("resting", {"numbers": [1], "due": "2100-01-01T00:00:00Z"})["run_id"]
    reader = client.events(run_id)
    next(reader)
    server = next(part for part in stack.parts if part.name == "server")

    server.process.send_signal(signal.SIGTERM)

    # Less than its time for requests that are under way, after which it would cut them off.
    server.process.wait(timeout=8)
    assert b"Cancel" not in server.output()
