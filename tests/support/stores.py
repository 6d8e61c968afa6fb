"""Run stores of every kind for tests: in memory, over fakeredis, a real Valkey, clusters of one node and of three.

A store made here audits the run after every call, so a test that passes has also shown that nothing in between was
ever in two places, forgotten or counted wrongly.
"""

from __future__ import annotations

import copy
import itertools
import os
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import fakeredis
import redis

from tests.support.valkey import EmbeddedValkey
from tests.support.valkey_cluster import ONE_URL, THREE_URL, ValkeyCluster
from wf_worker.store.audit import audit_run
from wf_worker.store.keys import RUN_KEYS, Keys
from wf_worker.store.memory import MemoryRecords
from wf_worker.store.redis import RedisRecords, connect
from wf_worker.store.runs import RunStore

SERVER_URL = "WF_TEST_REDIS_URL"
"""Names a running server to test against as well. Only keys under a prefix of the test's own are touched there."""

MEMORY, FAKE, VALKEY, CLUSTER, THREE, NAMED = "memory", "fakeredis", "valkey", "cluster", "three_nodes", "named"
SERVERS = (
    VALKEY,
    CLUSTER,
    *([THREE] if os.environ.get(THREE_URL) else []),
    *([NAMED] if os.environ.get(SERVER_URL) else []),
)
KINDS = (MEMORY, FAKE, *SERVERS)


class MovableClock:
    """A store's time in ms, moved by the test."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms

    def advance(self, ms: int) -> None:
        """Time passes."""
        self.now_ms += ms


def counted_ids(prefix: str = "id") -> Callable[[], str]:
    """Ids that are the same in every store: ``id000001`` and so on."""
    numbers = itertools.count(1)
    return lambda: f"{prefix}{next(numbers):06d}"


Sent = tuple[str, str, str, tuple[str | bytes | int, ...]]
"""One call as it was sent: script, incarnation, call id, arguments."""


class AuditedRecords:
    """Records that audit the run after every call.

    ``before`` is called ahead of each call and ``after`` behind it; ``sent`` keeps what was called.
    """

    def __init__(self, records: Any) -> None:
        self.inner = records
        self.auditing = True
        self.before: Callable[[], None] = lambda: None
        self.after: Callable[[Sent], None] = lambda _sent: None
        self.sent: list[Sent] = []

    def call(self, script: str, incarnation: str, call_id: str, *args: str | bytes | int) -> list[Any]:
        """The call's answer, once the run has been found whole."""
        self.before()
        sent = (script, incarnation, call_id, args)
        self.sent.append(sent)
        reply = self._audited(sent)
        self.after(sent)
        return reply

    def _audited(self, sent: Sent) -> list[Any]:
        script, incarnation, call_id, args = sent
        reply = self.inner.call(script, incarnation, call_id, *args)
        if self.auditing:
            found = audit_run(self.inner, incarnation)
            assert not found, f"after {script}: {'; '.join(found)}"
        return reply

    def again(self, sent: Sent) -> list[Any]:
        """The very same call once more, as a client does that has lost the answer."""
        return self._audited(sent)

    def last(self, script: str) -> Sent:
        """The latest call of a script."""
        return next(sent for sent in reversed(self.sent) if sent[0] == script)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class StoreCase(ABC):
    """One store under test. Subclasses say how to look at its records from outside."""

    def __init__(self, kind: str, records: Any, keys: Keys) -> None:
        self.kind = kind
        self.records = AuditedRecords(records)
        self.keys = keys
        self.store = self.new_store()

    def new_store(self, **settings: Any) -> RunStore:
        """Another process on the same records, with its own settings."""
        return RunStore(self.records, self.keys, **settings)

    @contextmanager
    def unaudited(self) -> Iterator[None]:
        """For runs that are too large to be read whole after every call."""
        self.records.auditing = False
        try:
            yield
        finally:
            self.records.auditing = True

    @abstractmethod
    def contents(self) -> Any:
        """Everything stored, as a value that can be compared."""

    @abstractmethod
    def snapshot(self) -> Any:
        """What :meth:`restore` sets the store back to."""

    @abstractmethod
    def restore(self, snapshot: Any) -> None:
        """The store as it was: its last writes are lost."""

    @abstractmethod
    def drop_header(self, incarnation: str) -> None:
        """Deletes a run's header, and nothing else."""

    @abstractmethod
    def put_header(self, incarnation: str, fields: dict[str, str]) -> None:
        """Sets header fields of a run."""

    @abstractmethod
    def pass_time(self, ms: int) -> None:
        """Returns when the store's time is that much later. A server's time is waited for."""

    def close(self) -> None:
        """Lets go of what was opened."""
        self.records.close()


class MemoryCase(StoreCase):
    """The store in memory, with a clock that the test moves."""

    def __init__(self) -> None:
        self.clock = MovableClock()
        self.memory = MemoryRecords(clock=self.clock)
        super().__init__(MEMORY, self.memory, self.memory.keys)

    def contents(self) -> Any:
        held = copy.deepcopy(self.memory.contents)
        return held.runs, {number: shard for number, shard in held.shards.items() if shard != type(shard)()}

    def snapshot(self) -> Any:
        return self.memory.snapshot()

    def restore(self, snapshot: Any) -> None:
        self.memory.restore(snapshot)

    def put_header(self, incarnation: str, fields: dict[str, str]) -> None:
        header = self.memory.contents.runs[incarnation].header
        header.update({name: value.encode() for name, value in fields.items()})

    def drop_header(self, incarnation: str) -> None:
        self.memory.contents.runs[incarnation].header.clear()

    def pass_time(self, ms: int) -> None:
        self.clock.advance(ms)


class RedisCase(StoreCase):
    """A store over a client of Redis, Valkey or fakeredis; ``prefix`` keeps tests on a shared server apart."""

    def __init__(self, kind: str, client: redis.Redis, prefix: str = "wf") -> None:
        self.client = client
        keys = Keys(prefix)
        super().__init__(kind, RedisRecords(client, keys), keys)

    def node_of(self, key: str) -> redis.Redis:
        """A client of the very server that holds a key."""
        client: Any = self.client
        return client.get_redis_connection(client.get_node_from_key(key)) if self.kind == THREE else client

    def names(self) -> list[bytes]:
        """The names of all keys of this store."""
        return sorted(key for key in self.client.scan_iter(count=1000) if self._ours(key))

    def _ours(self, key: bytes) -> bool:
        prefix = self.keys.prefix.encode()
        return key.startswith((b"{" + prefix + b":", prefix + b":"))

    def contents(self) -> Any:
        return {key: self._value(key) for key in self.names()}

    def _value(self, key: bytes) -> Any:
        match self.client.type(key):
            case b"hash":
                return self.client.hgetall(key)
            case b"zset":
                return self.client.zrange(key, 0, -1, withscores=True)
            case b"set":
                return self.client.smembers(key)
            case b"stream":
                return self.client.xrange(key)
            case b"list":
                return self.client.lrange(key, 0, -1)
            case _:
                return self.client.get(key)

    def snapshot(self) -> Any:
        return {key: self.client.dump(key) for key in self.names()}

    def restore(self, snapshot: Any) -> None:
        for key in self.names():
            self.client.delete(key)
        for key, data in snapshot.items():
            self.client.restore(key, 0, data)

    def put_header(self, incarnation: str, fields: dict[str, str]) -> None:
        self.client.hset(self.keys.base(incarnation) + RUN_KEYS["HEADER"], mapping=fields)

    def drop_header(self, incarnation: str) -> None:
        self.client.delete(self.keys.base(incarnation) + RUN_KEYS["HEADER"])

    def pass_time(self, ms: int) -> None:
        until = self._now() + ms
        deadline = time.monotonic() + 5 + ms / 1000
        while self._now() < until:
            assert time.monotonic() < deadline, "the server's time stands still"

    def _now(self) -> int:
        seconds, micros = self.client.time()
        return seconds * 1000 + micros // 1000

    def close(self) -> None:
        if self.kind in (NAMED, THREE):
            for key in self.names():
                self.client.delete(key)
        super().close()


def fake_case() -> RedisCase:
    """A store over fakeredis, which executes the scripts with a Lua of its own."""
    return RedisCase(FAKE, fakeredis.FakeStrictRedis(server=fakeredis.FakeServer()))


def embedded_case(kind: str, server: EmbeddedValkey | ValkeyCluster) -> RedisCase:
    """A store over an embedded server, which is emptied first."""
    client = connect(server.url)
    client.flushall()
    return RedisCase(kind, client)


def cluster_case(kind: str, cluster: ValkeyCluster | None) -> RedisCase:
    """A store over a cluster: the one given, which is emptied first, or the one that the environment names."""
    if cluster is not None:
        return embedded_case(kind, cluster)
    url = os.environ[ONE_URL if kind == CLUSTER else THREE_URL]
    return RedisCase(kind, connect(url), f"wftest{secrets.token_hex(6)}")


def named_case() -> RedisCase:
    """A store on the server that the environment names, under a prefix nobody else has."""
    return RedisCase(NAMED, connect(os.environ[SERVER_URL]), f"wftest{secrets.token_hex(6)}")
