"""A store on a cluster of three nodes: shards on every node, a slot that moves, a node that dies and comes back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from redis.crc import key_slot

from tests.conformance.driving import Driver, start
from tests.conformance.scenario import everything, staged
from tests.conformance.workflows import each, items
from tests.support.stores import THREE, RedisCase, cluster_case
from tests.support.valkey_cluster import ValkeyCluster, running
from wf_worker.errors import SettingsInvalid, StoreUnavailable
from wf_worker.settings import Settings
from wf_worker.store.opening import verify_server
from wf_worker.store.redis import RedisRecords, connect

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyCluster]:
    """Three nodes that keep what they have answered over a crash."""
    with running(tmp_path_factory.mktemp("nodes"), 3, append_only=True) as cluster:
        yield cluster


@pytest.fixture
def on_nodes(nodes: ValkeyCluster) -> Iterator[RedisCase]:
    case = cluster_case(THREE, nodes)
    yield case
    assert nodes.refused("CROSSSLOT") == 0
    case.close()


def slot_of(run: Driver) -> int:
    return key_slot(run.case.keys.base(run.incarnation).encode())


def one_name_for_each_node(case: RedisCase, nodes: ValkeyCluster) -> dict[int, str]:
    """Run ids by the port of the node that will have them."""
    shard_of = {f"run-{n}": case.keys.shard(case.keys.shard_of(f"run-{n}")) for n in range(60)}
    return {nodes.owner(key_slot(shard.encode())).port: name for name, shard in shard_of.items()}


def refusal(call: Callable[[], Any]) -> StoreUnavailable:
    with pytest.raises(StoreUnavailable) as refused:
        call()
    return refused.value


def test_runs_of_all_shards_live_on_all_nodes(on_nodes: RedisCase, nodes: ValkeyCluster) -> None:
    names = list(one_name_for_each_node(on_nodes, nodes).values())
    runs = [everything(on_nodes, name) for name in names]
    with on_nodes.unaudited():
        staged(on_nodes)

    assert len({nodes.owner(slot_of(run)).port for run in runs}) == 3
    listed, _ = on_nodes.store.list_runs()
    assert {record.run_id for record in listed} == {*names, "staged"}
    for shard in range(on_nodes.keys.shards):
        on_nodes.store.sweep(shard)
    for run in runs:
        run.drain()
        assert run.status == "interrupted"


def test_a_call_in_a_slot_that_is_moving_is_refused_whole_and_succeeds_when_it_has_moved(
    on_nodes: RedisCase, nodes: ValkeyCluster
) -> None:
    run = start(on_nodes, each(active=2, outstanding=2, interrupt="continue"), items(4))
    queue = list(run.work(run.ready[0]))
    claim = run.claim(queue.pop(0))
    transition = run.transition(claim)
    on_nodes.records.auditing = False  # a run of which a part is elsewhere cannot be read whole
    target = nodes.other_than(nodes.owner(slot_of(run)))
    before = on_nodes.contents()

    refused = 0
    for _left in nodes.move(slot_of(run), target):
        error = refusal(lambda: run.store.commit(claim, transition))
        refused += 1
        assert error.code == "store_unavailable"
        assert on_nodes.contents() == before

    assert refused == sum(1 for key in before if key.startswith(on_nodes.keys.base(run.incarnation)[:7].encode()))
    on_nodes.records.auditing = True
    queue += run.store.commit(claim, transition).ready
    run.drain(queue)
    assert run.status == "completed"
    assert nodes.owner(slot_of(run)) is target


def test_runs_of_a_node_that_was_killed_go_on_when_it_is_back(on_nodes: RedisCase, nodes: ValkeyCluster) -> None:
    run = start(on_nodes, each(active=2, outstanding=2, interrupt="continue"), items(4), run_id="killed")
    queue = list(run.work(run.ready[0]))
    claim = run.claim(queue.pop(0))
    transition = run.transition(claim)
    node = nodes.owner(slot_of(run))

    node.kill()
    error = refusal(lambda: run.store.commit(claim, transition))
    node.start()
    nodes.wait()

    assert error.code == "store_unavailable"
    queue += run.store.commit(claim, transition).ready
    run.drain(queue)
    assert run.status == "completed"


def test_one_node_of_several_that_is_named_as_a_server_is_refused_with_the_repair(nodes: ValkeyCluster) -> None:
    alone = f"redis://127.0.0.1:{nodes.nodes[0].port}/0"
    records = RedisRecords(connect(alone))

    errors = [refusal(lambda shard=shard: records.sweep(shard, 1, 0)) for shard in shards_elsewhere(nodes)]

    assert errors
    assert {"+cluster" in str(error.hint) for error in errors} == {True}
    records.close()
    with pytest.raises(SettingsInvalid, match="cluster of several") as unsuitable:
        verify_server(Settings(store_url=alone))
    assert unsuitable.value.code == "store_unsuitable"


def shards_elsewhere(nodes: ValkeyCluster) -> list[int]:
    """Shards that the first node does not have."""
    keys = RedisRecords(connect(nodes.url)).keys
    slots = {shard: key_slot(keys.shard(shard).encode()) for shard in range(keys.shards)}
    return [shard for shard, slot in slots.items() if nodes.owner(slot) is not nodes.nodes[0]]


def test_a_client_waits_for_a_cluster_that_is_not_there_yet() -> None:
    records = RedisRecords(connect("valkey+cluster://127.0.0.1:1,127.0.0.1:2"))

    assert refusal(records.ping).code == "store_unavailable"
    verify_server(Settings(store_url="redis+cluster://127.0.0.1:1", broker_url="memory://"))
