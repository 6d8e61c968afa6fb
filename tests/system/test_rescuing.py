"""Whatever dies or is lost, every run still ends right, once."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.support import jobs
from tests.support.installations import Servers
from tests.support.waiting import eventually
from wf_api.cli.stack import Stack
from wf_api.client import WorkflowClient


def attempts(folder: Path, n: int) -> list[tuple[int, int, str]]:
    path = folder / f"attempts-{n}"
    lines = path.read_text().splitlines() if path.exists() else []
    return [(int(pid), int(attempt), key) for pid, attempt, key in (line.split(" ") for line in lines)]


def test_an_item_whose_worker_is_killed_in_its_handler_runs_again_and_commits_once(
    stack: Stack, client: WorkflowClient, tmp_path: Path
) -> None:
    client.publish(jobs.holding())
    run = client.start("holding", {"folder": str(tmp_path), "numbers": [1, 2, 3, 4, 5, 6]})
    eventually(lambda: len(attempts(tmp_path, 3)) == 1, "item 3 is in its handler")

    victim = attempts(tmp_path, 3)[0][0]
    os.kill(victim, signal.SIGKILL)
    eventually(lambda: len(attempts(tmp_path, 3)) == 2, "item 3 is in a handler again")
    (tmp_path / "release").touch()
    view = client.wait(run["run_id"], timeout=60)

    first, second = attempts(tmp_path, 3)
    assert first[0] != second[0]
    assert (first[1], second[1]) == (1, 2)
    assert first[2] == second[2] != ""
    assert view["output"] == {"lines": ["1", "2", "3", "4", "5", "6"], "total": 6}
    assert view["recovered_frames"] >= 1


def test_a_run_finishes_although_the_broker_loses_its_messages_in_mid_run(
    stack: Stack, client: WorkflowClient, servers: Servers
) -> None:
    flow = jobs.squares()
    client.publish(flow)
    run = client.start("squares", {"numbers": list(range(1_000))})

    for done in (100, 300, 500):
        eventually(lambda done=done: client.inspect(run["run_id"])["steps_executed"] >= done, f"{done} steps are done")
        servers.lose_messages(stack)
    view = client.wait(run["run_id"], timeout=100)

    assert view["status"] == "completed"
    assert view["output"] == flow.execute({"numbers": list(range(1_000))}).output


def test_a_frozen_worker_that_wakes_up_after_its_lease_changes_nothing(
    stack: Stack, client: WorkflowClient, tmp_path: Path
) -> None:
    client.publish(jobs.holding())
    run = client.start("holding", {"folder": str(tmp_path), "numbers": [3]})
    eventually(lambda: len(attempts(tmp_path, 3)) == 1, "item 3 is in its handler")
    frozen = attempts(tmp_path, 3)[0][0]

    os.kill(frozen, signal.SIGSTOP)
    eventually(lambda: len(attempts(tmp_path, 3)) == 2, "another worker has taken item 3")
    (tmp_path / "release").touch()
    view = client.wait(run["run_id"], timeout=60)
    os.kill(frozen, signal.SIGCONT)

    log = next(part.log for part in stack.parts if part.process.pid == frozen)
    eventually(
        lambda: b"discarded" in log.read_bytes() or b"result refused" in log.read_bytes(),
        "the zombie's commit is refused",
    )
    assert view["output"] == {"lines": ["3"], "total": 1}
    assert client.inspect(run["run_id"])["output"] == {"lines": ["3"], "total": 1}
