"""One store for each test, of each kind in turn."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from tests.support.stores import (
    CLUSTER,
    FAKE,
    KINDS,
    MEMORY,
    NAMED,
    SERVERS,
    THREE,
    VALKEY,
    MemoryCase,
    RedisCase,
    StoreCase,
    cluster_case,
    embedded_case,
    fake_case,
    named_case,
)
from tests.support.valkey_cluster import ONE_URL, THREE_URL, ValkeyCluster, running

Builder = Callable[[str], StoreCase]


ON_CLUSTERS = {CLUSTER, THREE}


def marked(kinds: Iterable[str]) -> list[Any]:
    """The kinds as parameters. ``-m cluster`` selects those in cluster mode."""
    return [pytest.param(kind, marks=pytest.mark.cluster if kind in ON_CLUSTERS else ()) for kind in kinds]


@pytest.fixture(scope="session")
def cluster_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyCluster | None]:
    """One cluster of one node for the whole session, unless the environment names one."""
    if os.environ.get(ONE_URL):
        yield None
        return
    with running(tmp_path_factory.mktemp("cluster"), 1) as server:
        yield server


@pytest.fixture(scope="session")
def three_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyCluster | None]:
    """One cluster of three nodes for the whole session, unless the environment names one."""
    if os.environ.get(THREE_URL):
        yield None
        return
    with running(tmp_path_factory.mktemp("three"), 3) as servers:
        yield servers


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
                case = cluster_case(kind, request.getfixturevalue("cluster_server"))
            case _ if kind == THREE:
                case = cluster_case(kind, request.getfixturevalue("three_nodes"))
            case _ if kind == NAMED:
                case = named_case()
            case _:
                raise AssertionError(kind)
        built.append(case)
        return case

    yield builder
    for case in built:
        case.close()


@pytest.fixture(params=marked(KINDS))
def case(request: pytest.FixtureRequest, build: Builder) -> StoreCase:
    """A store of every kind."""
    return build(request.param)


@pytest.fixture(params=marked(SERVERS))
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
