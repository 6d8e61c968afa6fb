"""One store for each test, of each kind in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.support.stores import (
    CLUSTER,
    FAKE,
    KINDS,
    MEMORY,
    NAMED,
    SERVERS,
    VALKEY,
    MemoryCase,
    RedisCase,
    StoreCase,
    cluster_in,
    embedded_case,
    fake_case,
    named_case,
    running,
)
from tests.support.valkey import EmbeddedValkey

Builder = Callable[[str], StoreCase]


@pytest.fixture(scope="session")
def cluster_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedValkey]:
    """One cluster of one node for the whole session."""
    with running(cluster_in(tmp_path_factory.mktemp("cluster"))) as server:
        yield server


@pytest.fixture
def build(request: pytest.FixtureRequest) -> Iterator[Builder]:
    """Builds stores by kind; servers start when the first test wants them."""
    built: list[StoreCase] = []

    def builder(kind: str) -> StoreCase:
        match kind:
            case _ if kind == MEMORY:
                case = MemoryCase()
            case _ if kind == FAKE:
                case = fake_case()
            case _ if kind == VALKEY:
                case = embedded_case(kind, request.getfixturevalue("valkey_server"))
            case _ if kind == CLUSTER:
                case = embedded_case(kind, request.getfixturevalue("cluster_server"))
            case _ if kind == NAMED:
                case = named_case()
            case _:
                raise AssertionError(kind)
        built.append(case)
        return case

    yield builder
    for case in built:
        case.close()


@pytest.fixture(params=KINDS)
def case(request: pytest.FixtureRequest, build: Builder) -> StoreCase:
    """A store of every kind."""
    return build(request.param)


@pytest.fixture(params=SERVERS)
def server_case(request: pytest.FixtureRequest, build: Builder) -> RedisCase:
    """A store on every kind of real server."""
    found = build(request.param)
    assert isinstance(found, RedisCase)
    return found


@pytest.fixture
def valkey_case(build: Builder) -> RedisCase:
    """A store on the embedded server."""
    found = build(VALKEY)
    assert isinstance(found, RedisCase)
    return found


@pytest.fixture
def memory_case(build: Builder) -> MemoryCase:
    """The store in memory, whose time can be moved."""
    found = build(MEMORY)
    assert isinstance(found, MemoryCase)
    return found
