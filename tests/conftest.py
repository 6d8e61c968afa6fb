"""Fixtures that more than one folder of tests uses."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from hypothesis import Phase, settings

from tests.support.valkey import EmbeddedValkey

# For `make mutants`: the same examples every time, and no search for the smallest one that fails.
settings.register_profile(
    "mutants", derandomize=True, database=None, deadline=None, phases=(Phase.explicit, Phase.generate)
)


def pytest_runtest_teardown() -> None:
    """The simulation silences logging for a whole process; the next test may need what is logged."""
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="session")
def valkey_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedValkey]:
    """One embedded server for the whole session; nothing of it is kept."""
    server = EmbeddedValkey(tmp_path_factory.mktemp("valkey"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def valkey(valkey_server: EmbeddedValkey) -> EmbeddedValkey:
    """The session's server, empty."""
    with valkey_server.client() as client:
        client.flushall()
    return valkey_server
