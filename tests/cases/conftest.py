"""What the cases run on: every kind of store, an API with a worker beside it, and real worker processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.conftest import api, server, settings, store  # noqa: F401  # fixtures
from tests.cases.flows import HANDLERS_FILE
from tests.conformance.conftest import build, case, cluster_server, memory_case, valkey_case  # noqa: F401  # fixtures
from wf_api.cli.stack import Stack
from wf_api.client import WorkflowClient

ENVIRONMENT = {
    "WF_LEASE_SECONDS": "1.5",
    "WF_SWEEP_SECONDS": "0.2",
    "PYTHONPATH": str(Path(__file__).resolve().parents[2]),
}


@pytest.fixture(scope="session")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Valkey, the API and two Celery workers, for all cases that neither kill nor stop one of them."""
    folder = tmp_path_factory.mktemp("cases") / "wf"
    with Stack(folder, [HANDLERS_FILE], workers=2, environment=ENVIRONMENT) as running:
        yield running


@pytest.fixture
def remote(processes: Stack) -> Iterator[WorkflowClient]:
    """A client of the API of those processes."""
    with WorkflowClient(processes.url) as connected:
        yield connected
