"""A dead task was found twice before it was marked; the second find used up its retry, and it failed untried.

To find and to mark were two steps, and finding goes on every few seconds (apache/airflow#31212,
apache/airflow#51969). Here a loss is bound to the token of the claim that was lost: the same one found again changes
nothing, and losses are counted apart from failures.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.cases.conftest import ENVIRONMENT
from tests.cases.flows import END, HANDLERS_FILE, NOTE, flow, notes, noting
from tests.conformance.driving import start
from tests.conformance.workflows import line
from tests.support.stores import RedisCase
from tests.support.waiting import eventually
from wf_api.cli.stack import Stack
from wf_api.client import WorkflowClient
from wf_worker.store.redis import RedisRecords, connect
from wf_worker.store.runs import RunStore

FAILS_SECOND = flow(
    "fails_second",
    [noting("work", "work", True, also=[{"target": "fails", "path": "input.fails"}], retry=2)],
    [("work", "ok", END)],
    takes={"file": {}, "fails": {}},
    defs=[NOTE],
)


@pytest.fixture
def three_workers(tmp_path: Path) -> Iterator[Stack]:
    """Three processes that each look for lost work twenty times a second."""
    environment = {**ENVIRONMENT, "WF_LEASE_SECONDS": "1", "WF_SWEEP_SECONDS": "0.05"}
    with Stack(tmp_path / "wf", [HANDLERS_FILE], workers=3, environment=environment) as running:
        yield running


def test_a_killed_worker_costs_one_attempt_and_no_retry(three_workers: Stack, tmp_path: Path) -> None:
    with WorkflowClient(three_workers.url) as client:
        client.publish(FAILS_SECOND)
        for fails, attempts in (([], [1, 2]), ([2], [1, 2, 3])):
            file = tmp_path / f"notes{len(fails)}"
            run_id = client.start("fails_second", {"file": str(file), "fails": fails})["run_id"]
            eventually(lambda file=file: len(notes(file)) == 1, "the first attempt is in its handler")

            os.kill(notes(file)[0][2], signal.SIGKILL)
            eventually(lambda file=file: len(notes(file)) == 2, "another worker has taken it up")
            Path(f"{file}.release").touch()
            ended = client.wait(run_id, "ended", timeout=60)

            assert (ended["status"], ended["recovered_frames"], ended["trace_count"]) == ("completed", 1, 1)
            assert [attempt for _, attempt, _ in notes(file)] == attempts


def test_thirty_detections_at_once_of_one_loss_are_one_loss(valkey_case: RedisCase) -> None:
    run = start(valkey_case, line(), lease_ms=0)
    claim = run.claim(run.ready[0])
    clients = [connect(f"redis://127.0.0.1:{valkey_case.client.get_connection_kwargs()['port']}/0") for _ in range(3)]
    stores = [RunStore(RedisRecords(client, valkey_case.keys), valkey_case.keys) for client in clients]

    with ThreadPoolExecutor(3) as pool:
        found = pool.map(lambda i: stores[i % 3].lost(run.incarnation, claim.frame, claim.token)[0], range(30))
        words = sorted(found)
    for client in clients:
        client.close()

    assert words == ["lost"] + ["stale"] * 29
    record = valkey_case.store.inspect(run.incarnation)
    assert record is not None and record.recovered_frames == 1
