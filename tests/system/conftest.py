"""Real processes: an embedded Valkey, the API and two Celery workers, driven over HTTP."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from wf_api.cli.stack import Stack
from wf_api.client import WorkflowClient

JOBS = str(Path(__file__).resolve().parents[1] / "support" / "jobs.py")
ENVIRONMENT = {
    "WF_LEASE_SECONDS": "1.5",
    "WF_SWEEP_SECONDS": "0.2",
    "PYTHONPATH": str(Path(__file__).resolve().parents[2]),
}


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    """A whole installation of its own, with two workers."""
    with Stack(tmp_path / "wf", [JOBS], workers=2, environment=ENVIRONMENT) as running:
        yield running


@pytest.fixture
def client(stack: Stack) -> Iterator[WorkflowClient]:
    with WorkflowClient(stack.url) as connected:
        yield connected


def eventually(condition: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    """Waits for a condition with a deadline; never for a time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"did not happen in {seconds} s: {what}"
        time.sleep(0.02)
