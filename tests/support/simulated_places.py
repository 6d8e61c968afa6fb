"""Where a simulated run is kept: the store in memory, or a real Valkey that executes the real scripts. Both have a
clock that the simulation moves, and both can be set back."""

from __future__ import annotations

import copy
import functools
import re
from abc import ABC, abstractmethod
from typing import Any

import wf_worker.store.redis as redis_store
from tests.support.patching import Patch, replaced
from tests.support.simulated_parts import SMALL_SCRIPTS
from wf_worker.store.keys import RUN_KEYS, Keys
from wf_worker.store.memory import MemoryRecords
from wf_worker.store.memory_state import Contents, ShardRecords
from wf_worker.store.redis import RedisRecords, connect

SHARDS = 2
CLOCK_KEY = "simulated-clock"


class Place(ABC):
    """One store. ``records`` are its records, ``now_ms`` its time."""

    records: Any
    now_ms: int

    @abstractmethod
    def set_clock(self, now_ms: int) -> None:
        """It is that late now."""

    @abstractmethod
    def snapshot(self) -> Any:
        """What :meth:`restore` goes back to."""

    @abstractmethod
    def restore(self, snapshot: Any) -> None:
        """The store as it was."""

    @abstractmethod
    def contents(self) -> Contents | None:
        """Everything that it holds, where that can be looked at for nothing."""

    @abstractmethod
    def copy_of(self, incarnation: str) -> Any:
        """What is kept of a run, as a value that can be compared; of its trace what counted."""

    @abstractmethod
    def remains(self) -> list[str]:
        """What is left of any run."""

    def patches(self) -> list[Patch]:
        """What must be replaced for the length of a simulation."""
        return []


class MemoryPlace(Place):
    """The store in memory."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.records = MemoryRecords(Keys(shards=SHARDS), clock=lambda: self.now_ms)

    def set_clock(self, now_ms: int) -> None:
        self.now_ms = now_ms

    def snapshot(self) -> Any:
        return self.records.snapshot()

    def restore(self, snapshot: Any) -> None:
        self.records.restore(snapshot)

    def contents(self) -> Contents | None:
        return self.records.contents

    def copy_of(self, incarnation: str) -> Any:
        run = copy.deepcopy(self.records.contents.runs.get(incarnation))
        if run is not None:
            run.trace = [entry for entry in run.trace if not entry.discarded]
            run.taken.clear()
            run.header.pop("traced", None)
        return run

    def remains(self) -> list[str]:
        contents = self.records.contents
        shards = [
            f"shard {n}: {shard}" for n, shard in contents.shards.items() if _without_empty(shard) != ShardRecords()
        ]
        return [*contents.runs, *shards]


def _without_empty(shard: ShardRecords) -> ShardRecords:
    shard.runs_by = {index: scores for index, scores in shard.runs_by.items() if scores}
    return shard


@functools.cache
def simulated_script(name: str, small: bool, given: str) -> str:
    """A script that asks a key for the time, and whose limits may be small. ``given`` is its text."""
    time = "local t = call('TIME')\n    clock = t[1] * 1000 + math.floor(t[2] / 1000)"
    text = replaced(given, time, f"clock = tonumber(call('GET', '{CLOCK_KEY}'))")
    for limit, value in SMALL_SCRIPTS.items() if small else ():
        if limit == "PAGE_BYTES" and name != "load":
            continue
        text, found = re.subn(rf"local {limit} = \d+", f"local {limit} = {value}", text)
        assert found == 1, f"{limit} is set {found} times in the script {name}"
    return text


class ValkeyPlace(Place):
    """A real server of its own, emptied first."""

    def __init__(self, url: str, now_ms: int, *, small: bool) -> None:
        self.client: Any = connect(url)
        self.client.flushall()
        self._small = small
        self._given = redis_store.script_text
        self.records = RedisRecords(self.client, Keys(shards=SHARDS))
        self.set_clock(now_ms)

    def set_clock(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.client.set(CLOCK_KEY, now_ms)

    def patches(self) -> list[Patch]:
        return [
            Patch(redis_store, "script_text", lambda name: simulated_script(name, self._small, self._given(name))),
        ]

    def snapshot(self) -> Any:
        names = self._names()
        pipe = self.client.pipeline(transaction=False)
        for name in names:
            pipe.dump(name)
        return dict(zip(names, pipe.execute(), strict=True))

    def restore(self, snapshot: Any) -> None:
        pipe = self.client.pipeline(transaction=False)
        pipe.delete(*self._names(), "nothing")
        for name, data in snapshot.items():
            pipe.restore(name, 0, data)
        pipe.execute()

    def contents(self) -> Contents | None:
        return None

    def copy_of(self, incarnation: str) -> Any:
        base = self.records.keys.base(incarnation)
        found = [
            self.client.hgetall(base + RUN_KEYS[name]) for name in ("HEADER", "FRAMES", "BODIES", "ACTIVATIONS", "OPEN")
        ]
        found[0].pop(b"traced", None)
        return found

    def remains(self) -> list[str]:
        return [name.decode() for name in self._names() if name.startswith(b"{")]

    def _names(self) -> list[bytes]:
        return sorted(name for name in self.client.scan_iter(count=10_000) if name != CLOCK_KEY.encode())

    def close(self) -> None:
        """Lets go of the connection."""
        self.client.close()
