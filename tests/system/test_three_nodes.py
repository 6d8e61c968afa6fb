"""A run store on three nodes of a cluster, under real workers: a slot moves, a node dies and comes back."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from redis.crc import key_slot

from tests.support import jobs
from tests.support.valkey_cluster import THREE_URL, Node, ValkeyCluster, running
from tests.support.waiting import eventually
from tests.system.conftest import ENVIRONMENT, JOBS
from wf_api.cli.stack import Stack
from wf_api.client import WorkflowClient
from wf_worker.store.keys import Keys

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(not os.environ.get(THREE_URL), reason=f"{THREE_URL} names no cluster: make cluster"),
]

NUMBERS = list(range(300))


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[ValkeyCluster]:
    """Three nodes of this test alone, which keep what they have answered over a crash."""
    (tmp_path / "nodes").mkdir()
    with running(tmp_path / "nodes", 3, append_only=True) as cluster:
        yield cluster
        assert cluster.refused("CROSSSLOT") == 0


@pytest.fixture
def client(tmp_path: Path, nodes: ValkeyCluster) -> Iterator[WorkflowClient]:
    """An installation whose runs are on the three nodes; its broker is a server of its own."""
    environment = {**ENVIRONMENT, "WF_STORE_URL": nodes.url}
    with (
        Stack(tmp_path / "wf", [JOBS], workers=2, environment=environment) as stack,
        WorkflowClient(stack.url) as connected,
    ):
        yield connected


def begun(client: WorkflowClient, nodes: ValkeyCluster) -> tuple[str, int, Node]:
    """A run in the middle of its work, its slot, and the node that has it."""
    client.publish(jobs.squares())
    run_id = client.start("squares", {"numbers": NUMBERS})["run_id"]
    eventually(lambda: client.inspect(run_id)["steps_executed"] >= 50, "50 steps are done")
    keys = Keys()
    slot = key_slot(keys.shard(keys.shard_of(run_id)).encode())
    return run_id, slot, nodes.owner(slot)


def assert_ended_right(view: dict[str, Any]) -> None:
    assert view["status"] == "completed", view["error"]
    assert view["output"] == jobs.squares().execute({"numbers": NUMBERS}).output
    assert view["steps_executed"] == len(NUMBERS) + 2


def test_a_run_ends_right_although_its_slot_moves_to_another_node_in_the_middle(
    client: WorkflowClient, nodes: ValkeyCluster
) -> None:
    run_id, slot, source = begun(client, nodes)
    target = nodes.other_than(source)

    moved = sum(1 for _left in nodes.move(slot, target, at_once=10))

    assert moved > 2
    assert nodes.owner(slot) is target
    assert_ended_right(client.wait(run_id, timeout=100))


def test_a_run_ends_right_although_its_node_is_killed_in_the_middle(
    client: WorkflowClient, nodes: ValkeyCluster
) -> None:
    run_id, _slot, node = begun(client, nodes)

    node.kill()
    node.start()
    nodes.wait()

    assert_ended_right(client.wait(run_id, timeout=100))
