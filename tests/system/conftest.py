"""Real processes: an embedded Valkey, the API and two Celery workers, driven over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
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
