"""Workers are told to end while they work, and others take over."""

from __future__ import annotations

import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import jobs
from tests.support.installations import Servers
from tests.support.waiting import eventually
from tests.system.conftest import installed
from wf_api.cli.stack import Part, Stack
from wf_api.client import WorkflowApiError, WorkflowClient

SOURCES = Path(__file__).resolve().parents[2]


@pytest.fixture(params=["1", "2"], ids=["solo", "prefork"])
def held(
    request: pytest.FixtureRequest, tmp_path: Path, servers: Servers, environment: dict[str, str]
) -> Iterator[tuple[Stack, str, Part]]:
    """A run whose item 3 is in its handler, on the only worker there is. ``grace`` of the test decides the rest."""
    more = {"WF_GRACE_SECONDS": getattr(request.function, "grace", "60")}
    with installed(tmp_path, servers, {**environment, **more}, workers=0) as stack:
        worker = stack.start_worker("--concurrency", request.param)
        stack.wait_for_workers(1)
        with WorkflowClient(stack.url) as client:
            client.publish(jobs.holding())
            run_id = client.start("holding", {"folder": str(tmp_path), "numbers": [3]})["run_id"]
        eventually(lambda: attempts(tmp_path) == 1, "item 3 is in its handler")
        yield stack, run_id, worker


def attempts(folder: Path) -> int:
    notes = folder / "attempts-3"
    return len(notes.read_text().splitlines()) if notes.exists() else 0


def test_a_worker_that_is_told_to_end_finishes_its_handler_and_takes_nothing_new(
    held: tuple[Stack, str, Part], tmp_path: Path
) -> None:
    stack, run_id, worker = held
    worker.process.send_signal(signal.SIGTERM)
    with WorkflowClient(stack.url) as client:
        (tmp_path / "release").touch()
        eventually(lambda: not worker.alive, "the worker has ended")
        assert worker.process.returncode == 0
        stack.start_worker()
        view = client.wait(run_id, timeout=60)

    assert (view["status"], view["recovered_frames"], attempts(tmp_path)) == ("completed", 0, 1)


def test_a_handler_that_outlasts_the_grace_time_is_done_again_elsewhere(
    held: tuple[Stack, str, Part], tmp_path: Path
) -> None:
    stack, run_id, worker = held
    worker.process.send_signal(signal.SIGTERM)
    eventually(lambda: not worker.alive, "the worker has ended although its handler has not")
    stack.start_worker()
    eventually(lambda: attempts(tmp_path) == 2, "item 3 is in a handler again")
    (tmp_path / "release").touch()
    with WorkflowClient(stack.url) as client:
        view = client.wait(run_id, timeout=60)

    assert view["status"] == "completed"
    assert view["recovered_frames"] == 1


test_a_handler_that_outlasts_the_grace_time_is_done_again_elsewhere.grace = "0.5"  # type: ignore[attr-defined]


def test_messages_that_a_worker_had_fetched_and_not_begun_are_given_back_when_it_ends(
    tmp_path: Path, servers: Servers, environment: dict[str, str]
) -> None:
    without_sweeps = {**environment, "WF_SWEEP_SECONDS": "600", "WF_GRACE_SECONDS": "60"}
    with installed(tmp_path, servers, without_sweeps, workers=0) as stack, WorkflowClient(stack.url) as client:
        worker = stack.start_worker("--concurrency", "2")
        stack.wait_for_workers(1)
        client.publish(jobs.holding())
        held = [client.start("holding", {"folder": str(tmp_path), "numbers": [3]})["run_id"] for _ in range(2)]
        eventually(lambda: attempts(tmp_path) == 2, "both processes are in a handler")
        fetched = [client.start("holding", {"folder": str(tmp_path), "numbers": [3]})["run_id"] for _ in range(2)]
        eventually(lambda: servers.queue_is_empty(stack), "the worker has fetched what it cannot begin")

        worker.process.send_signal(signal.SIGTERM)
        (tmp_path / "release").touch()
        eventually(lambda: not worker.alive, "the worker has ended")

        # Two were fetched; what follows the two items that ended was sent for and taken up by nobody.
        assert servers.queued(stack) == 4
        stack.start_worker()
        views = [client.wait(run_id, timeout=60) for run_id in [*held, *fetched]]

    assert [(view["status"], view["recovered_frames"]) for view in views] == [("completed", 0)] * 4
    assert attempts(tmp_path) == 4


def next_release(folder: Path) -> str:
    """A copy of these packages that writes the next record layout, as ``PYTHONPATH``."""
    for package in ("wf_core", "wf_worker", "wf_api"):
        shutil.copytree(SOURCES / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    keys = folder / "wf_worker" / "store" / "keys.py"
    changed, count = re.subn(r'^LAYOUT: Final = ".*"$', 'LAYOUT: Final = "next"', keys.read_text(), flags=re.MULTILINE)
    assert count == 1
    keys.write_text(changed)
    return f"{folder}:{SOURCES}"


def test_workers_of_two_releases_side_by_side_each_do_the_runs_whose_records_they_know(
    tmp_path: Path, servers: Servers, environment: dict[str, str]
) -> None:
    jobs_here = {"folder": str(tmp_path), "numbers": [1, 2]}
    with installed(tmp_path, servers, environment, workers=1) as stack, WorkflowClient(stack.url) as present:
        present.publish(jobs.holding())
        # The folder that a command is given in would come before the path.
        stack.environment = {**environment, "PYTHONPATH": next_release(tmp_path / "next"), "PYTHONSAFEPATH": "1"}
        stack.port = 0
        stack.start_server()
        (tmp_path / "release").touch()
        with WorkflowClient(stack.url) as following:
            of_next = following.start("holding", jobs_here)["run_id"]
            of_present = present.start("holding", jobs_here)["run_id"]
            done = present.wait(of_present, timeout=60)
            eventually(lambda: "left to a newer worker" in worker_log(stack), "the old worker has seen the new run")
            waiting = following.inspect(of_next)
            with pytest.raises(WorkflowApiError) as caught:
                present.inspect(of_next)
            assert {view["run_id"] for view in present.list()["runs"]} == {of_next, of_present}

            stack.start_worker()
            stack.wait_for_workers(1)
            views = [following.wait(of_next, timeout=60), present.wait(of_present, timeout=60)]

    assert (done["status"], waiting["status"], caught.value.code) == ("completed", "pending", "run_layout_unknown")
    assert [(view["status"], view["output"]) for view in views] == [("completed", done["output"])] * 2


def worker_log(stack: Stack) -> str:
    return next(part for part in stack.parts if part.is_worker).output().decode()
