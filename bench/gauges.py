"""What the load proofs measure from outside: a process's memory, the broker's queue, the sets of the store."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import redis

from wf_worker.settings import Settings
from wf_worker.store.keys import RUN_KEYS, Keys


def resident_mib(pid: int) -> float:
    """Memory that a process holds now, in MiB, as the system counts it."""
    shown = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=True)
    return int(shown.stdout) / 1024


@dataclass(frozen=True, slots=True)
class Gauges:
    """A server that is both the store and the broker, looked at with commands of its own."""

    client: Any
    queue: str
    keys: Keys

    def queue_length(self) -> int:
        """Messages that nobody has taken."""
        return int(self.client.llen(self.queue))

    def messages(self) -> int:
        """How many messages were ever put into a queue: kombu does it by LPUSH, which no script of the store uses."""
        return int(self.client.info("commandstats").get("cmdstat_lpush", {}).get("calls", 0))

    def incarnation(self, run_id: str) -> str:
        """The newest run of an id."""
        shard = self.keys.shard(self.keys.shard_of(run_id))
        return self.client.hget(f"{shard}ids", run_id).decode()

    def in_set(self, incarnation: str, name: str) -> int:
        """How many frames of a run are in one of its sets, such as ``WAITS``."""
        return int(self.client.zcard(self.keys.base(incarnation) + RUN_KEYS[name]))

    def runs(self, status: str) -> int:
        """How many runs have a status."""
        return sum(self.client.zcard(f"{self.keys.shard(shard)}runs:{status}") for shard in range(self.keys.shards))


@contextmanager
def gauges(url: str) -> Iterator[Gauges]:
    """Gauges of the server at a URL."""
    client = redis.Redis.from_url(url)
    try:
        yield Gauges(client, Settings().queue, Keys())
    finally:
        client.close()
