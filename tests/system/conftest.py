"""Real processes: a store, a broker, the API and two Celery workers, driven over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.installations import Servers, kinds
from wf_api.cli.stack import Stack
from wf_api.client import WorkflowClient

JOBS = str(Path(__file__).resolve().parents[1] / "support" / "jobs.py")
ENVIRONMENT = {
    "WF_LEASE_SECONDS": "1.5",
    "WF_SWEEP_SECONDS": "0.2",
    "PYTHONPATH": str(Path(__file__).resolve().parents[2]),
}


@pytest.fixture(params=kinds())
def servers(request: pytest.FixtureRequest) -> Servers:
    """The embedded server, and then those that the environment names."""
    return Servers(request.param)


@pytest.fixture
def environment(servers: Servers) -> dict[str, str]:
    """What the processes are told."""
    return {**ENVIRONMENT, **servers.variables}


@pytest.fixture
def stack(tmp_path: Path, servers: Servers, environment: dict[str, str]) -> Iterator[Stack]:
    """A whole installation of its own, with two workers."""
    with installed(tmp_path, servers, environment) as running:
        yield running


@contextmanager
def installed(folder: Path, servers: Servers, environment: dict[str, str], workers: int = 2) -> Iterator[Stack]:
    """An installation, of which nothing is left on shared servers."""
    stack = Stack(folder / "wf", [JOBS], workers=workers, environment=environment)
    try:
        stack.start()
        yield stack
    finally:
        for part in [part for part in stack.parts if part.name != "store"]:
            stack.end(part)
        servers.clear(stack)
        stack.stop()


@pytest.fixture
def client(stack: Stack) -> Iterator[WorkflowClient]:
    with WorkflowClient(stack.url) as connected:
        yield connected
