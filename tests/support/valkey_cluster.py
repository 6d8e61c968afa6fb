"""Servers in cluster mode for tests: one node that has every slot, or several on this machine that share them."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from redis.exceptions import RedisError

from tests.support.valkey import EmbeddedValkey
from wf_api.cli.stack import free_port, valkey_binary

ONE_URL: Final = "WF_TEST_CLUSTER_URL"
THREE_URL: Final = "WF_TEST_THREE_NODES_URL"
"""Name clusters that run already, of one node and of three. ``make cluster`` sets them."""

SLOTS: Final = 16384
START_SECONDS: Final = 30
NODE_TIMEOUT_MS: Final = "1000"
"""How long a node may be silent until the others call it failed."""


class Node(EmbeddedValkey):
    """One server in cluster mode. It has no slots until it is given some."""

    def __init__(self, folder: Path, *, append_only: bool = False) -> None:
        folder.mkdir(exist_ok=True)
        super().__init__(folder, append_only=append_only)
        self.bus = free_port()

    def start(self) -> None:
        command = [str(valkey_binary()), "--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(self.folder)]
        command += ["--cluster-enabled", "yes", "--cluster-port", str(self.bus)]
        command += ["--cluster-node-timeout", NODE_TIMEOUT_MS, "--save", ""]
        command += ["--appendonly", "yes", "--appendfsync", "always"] if self.append_only else ["--appendonly", "no"]
        with (self.folder / "valkey.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        with self.client() as client:
            _until(client.ping, lambda: self.process is not None and self.process.poll() is None)

    def ask(self, *words: Any) -> Any:
        """The answer to one command."""
        with self.client() as client:
            return client.execute_command(*words)

    @property
    def id(self) -> str:
        """What the node calls itself in the cluster."""
        return self.ask("CLUSTER", "MYID").decode()

    def agrees(self, nodes: int) -> bool:
        """Whether it knows so many nodes with slots, and every slot is served."""
        info = self.ask("CLUSTER INFO")
        return info["cluster_state"] == "ok" and int(info["cluster_size"]) == nodes

    def refused(self, word: str) -> int:
        """How often it has answered with an error of that name since it started."""
        with self.client() as client:
            stats: Any = client.info("errorstats")
        return int(stats.get(f"errorstat_{word}", {"count": 0})["count"])


class ValkeyCluster:
    """``count`` nodes with their files below ``folder``; the slots are dealt out in equal ranges."""

    def __init__(self, folder: Path, count: int, *, append_only: bool = False) -> None:
        self.nodes = [Node(folder / f"node-{i}", append_only=append_only) for i in range(count)]

    @property
    def url(self) -> str:
        """The store's URL. A lone node is spoken to as a server that stands alone."""
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)
        return f"redis://{hosts}/0" if len(self.nodes) == 1 else f"redis+cluster://{hosts}"

    def start(self) -> None:
        count = len(self.nodes)
        for i, node in enumerate(self.nodes):
            node.start()
            node.ask("CLUSTER", "ADDSLOTSRANGE", SLOTS * i // count, SLOTS * (i + 1) // count - 1)
            node.ask("CLUSTER", "SET-CONFIG-EPOCH", i + 1)
        for other in self.nodes[1:]:
            self.nodes[0].ask("CLUSTER", "MEET", "127.0.0.1", other.port, other.bus)
        self.wait()

    def wait(self) -> None:
        """Returns once all nodes agree that all slots are served."""
        _until(lambda: all(node.agrees(len(self.nodes)) for node in self.nodes), lambda: True)

    def stop(self) -> None:
        for node in self.nodes:
            node.stop()

    def refused(self, word: str) -> int:
        """How often any node has answered with an error of that name."""
        return sum(node.refused(word) for node in self.nodes)

    def move(self, slot: int, target: Node, at_once: int = 1) -> Iterator[int]:
        """Moves a slot to another node, some keys at a time, and yields after each time how many are left."""
        source = self.owner(slot)
        target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id)
        source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", target.id)
        while names := source.ask("CLUSTER", "GETKEYSINSLOT", slot, at_once):
            source.ask("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *names)
            yield source.ask("CLUSTER", "COUNTKEYSINSLOT", slot)
        for node in (target, source, *self.nodes):
            node.ask("CLUSTER", "SETSLOT", slot, "NODE", target.id)

    def other_than(self, node: Node) -> Node:
        """A node that is not this one."""
        return next(other for other in self.nodes if other is not node)

    def owner(self, slot: int) -> Node:
        """The node that has a slot."""
        for first, last, primary, *_ in self.nodes[0].ask("CLUSTER", "SLOTS"):
            if first <= slot <= last:
                return next(node for node in self.nodes if node.port == primary[1])
        raise AssertionError(f"nobody has slot {slot}")


@contextmanager
def running(folder: Path, count: int, *, append_only: bool = False) -> Iterator[ValkeyCluster]:
    """A cluster, for as long as the block lasts."""
    cluster = ValkeyCluster(folder, count, append_only=append_only)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def _until(holds: Callable[[], Any], alive: Callable[[], bool]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            if holds():
                return
        except (RedisError, OSError):
            if not alive():
                raise
        assert time.monotonic() < deadline, "the cluster does not start"
        time.sleep(0.02)
