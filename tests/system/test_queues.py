"""Queues of capabilities and priorities of runs, on real worker processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.waiting import eventually
from tests.system.conftest import ENVIRONMENT
from wf_api.cli.stack import Stack
from wf_api.client import WorkflowClient

FLOWS = """
import os
from pydantic import BaseModel
from wf_core.authoring import END, WorkflowBuilder, node


class Mark(BaseModel):
    file: str
    text: str


class Done(BaseModel):
    pid: int = 0


@node(queue="gpu")
def render(payload: Mark) -> Done:
    with open(payload.file, "a") as marks:
        marks.write(payload.text + " ")
    return Done(pid=os.getpid())


@node
def write(payload: Mark) -> Done:
    with open(payload.file, "a") as marks:
        marks.write(payload.text + " ")
    return Done(pid=os.getpid())


def line(name, *steps):
    flow = WorkflowBuilder(name, Mark, Done, Done)
    used = [flow.use(step, id=f"step{i}") for i, step in enumerate(steps)]
    flow.set_entry_point(used[0])
    for this, following in zip(used, [*used[1:], END]):
        flow.set_route(this, "ok", following)
    return flow


writing = line("writing", write)
rendering = line("rendering", write, render, write)
"""


@pytest.fixture
def module(tmp_path: Path) -> str:
    path = tmp_path / "flows.py"
    path.write_text(FLOWS)
    return str(path)


def publish(client: WorkflowClient) -> None:
    made: dict[str, object] = {}
    exec(FLOWS, made)
    client.publish(made["writing"])  # type: ignore[arg-type]
    client.publish(made["rendering"])  # type: ignore[arg-type]


def test_a_worker_takes_up_urgent_runs_first_and_low_ones_last(tmp_path: Path, module: str) -> None:
    marks = tmp_path / "marks"
    with (
        Stack(tmp_path / "wf", [module], workers=0, environment=ENVIRONMENT) as stack,
        WorkflowClient(stack.url) as client,
    ):
        publish(client)
        runs = [
            client.start("writing", {"file": str(marks), "text": priority}, priority=priority)["run_id"]
            for priority in ("low", "normal", "high", "low", "normal", "high")
        ]

        stack.start_worker()
        for run_id in runs:
            assert client.wait(run_id, timeout=60)["status"] == "completed"

    assert marks.read_text().split() == ["high", "high", "normal", "normal", "low", "low"]


def test_a_step_runs_on_workers_of_its_queue_only_and_says_so_when_there_is_none(tmp_path: Path, module: str) -> None:
    with (
        Stack(tmp_path / "wf", [module], workers=0, environment=ENVIRONMENT) as stack,
        WorkflowClient(stack.url) as client,
    ):
        publish(client)
        common = stack.start_worker("--queue", "wf")
        run_id = client.start("rendering", {"file": str(tmp_path / "marks"), "text": "x"}, priority="high")["run_id"]
        eventually(
            lambda: client.inspect(run_id)["parked"] == {"render (queue gpu.high)": 1}, "the step is parked", seconds=30
        )

        special = stack.start_worker("--queue", "gpu")
        view = client.wait(run_id, timeout=60)

        assert (view["status"], view["parked"]) == ("completed", {})
        ran_on = [int(step["worker"].rpartition(":")[2]) for step in client.trace(run_id)["trace"]]
        assert ran_on == [common.process.pid, special.process.pid, common.process.pid]
