"""Records in Redis or Valkey: every script by its hash, sent whole where a server does not know it."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Sequence
from importlib import resources
from typing import Any, Final, TypeVar, cast

import redis
from redis.backoff import ExponentialBackoff
from redis.exceptions import (
    BusyLoadingError,
    MovedError,
    NoScriptError,
    OutOfMemoryError,
    RedisClusterException,
    RedisError,
    ResponseError,
)
from redis.exceptions import ConnectionError as ServerLost
from redis.exceptions import TimeoutError as ServerSilent
from redis.retry import Retry

from wf_worker.cluster_urls import names_cluster, node_urls
from wf_worker.errors import RunDamaged, StoreError, StoreUnavailable
from wf_worker.store.cluster import ClusterClient
from wf_worker.store.keys import RUN_KEYS, SHARD_KEYS, Keys, lua_names
from wf_worker.store.layout import refuse_other_layout
from wf_worker.store.protocol import RecordKind

T = TypeVar("T")

ACKNOWLEDGED: Final = ("create", "copy_open", "resume", "cancel", "pause", "retry_failed")
"""Calls whose success somebody is told, and which replicas have to confirm where that is promised."""

CONFIRM_MS: Final = 2_000
"""How long replicas have time to confirm."""


SHARED: Final = (
    *("records", "events", "places", "windows", "status", "reading", "claims", "interrupts", "operations"),
    *("beginnings", "layout"),
)
"""What every script begins with, in an order in which each part knows those before it."""


_COUNTED_SETS: Final = {
    "ready": "READY",
    "held": "HELD",
    "paused": "PAUSED",
    "running": "LEASES",
    "waiting": "WAITS",
    "failed": "FAILED",
}


@functools.cache
def script_text(name: str) -> str:
    """A whole script: key names, what all share, its own text."""
    lua = resources.files("wf_worker.store").joinpath("lua")
    shared = lua.joinpath("shared")
    parts = [*(shared.joinpath(f"{part}.lua") for part in SHARED), lua.joinpath(f"{name}.lua")]
    return lua_names() + "\n".join(part.read_text() for part in parts)


@functools.cache
def script_hash(name: str) -> str:
    """The name that a server gives to a script."""
    return hashlib.sha1(script_text(name).encode()).hexdigest()


def connect(url: str) -> redis.Redis:
    """A client with bounded waits. valkey:// and valkeys:// are read as redis:// and rediss://, and a scheme that ends
    with ``+cluster`` names nodes of a cluster."""
    common: dict[str, Any] = {
        "protocol": 2,
        "socket_timeout": 10,
        "socket_connect_timeout": 5,
        "socket_keepalive": True,
        "health_check_interval": 25,
        "client_name": "wf-store",
    }
    if names_cluster(url):
        return cast(redis.Redis, ClusterClient([_plain(node) for node in node_urls(url)], **common))
    made: Any = redis.Redis.from_url(  # pyright: ignore[reportUnknownMemberType]
        _plain(url),
        # Every call may be executed again, so repeating one whose answer was lost is always right.
        retry=Retry(ExponentialBackoff(cap=1.0, base=0.05), 3),
        retry_on_error=[ServerLost, ServerSilent, BusyLoadingError],
        **common,
    )
    return cast(redis.Redis, made)


def _plain(url: str) -> str:
    return url.replace("valkeys://", "rediss://", 1).replace("valkey://", "redis://", 1)


Page = tuple[list[bytes], int]


def _hash_page(client: Any, key: str, cursor: int, most: int) -> Page:
    following, fields = client.hscan(key, cursor, count=most)
    return [part for pair in fields.items() for part in pair], int(following)


def _set_page(client: Any, key: str, cursor: int, most: int) -> Page:
    following, members = client.sscan(key, cursor, count=most)
    return list(members), int(following)


def _scores_page(client: Any, key: str, cursor: int, most: int) -> Page:
    rows = client.zrange(key, cursor, cursor + most - 1, withscores=True)
    page = [part for member, score in rows for part in (member, b"%d" % int(score))]
    return page, cursor + most if len(rows) == most else 0


def _text_page(client: Any, key: str, cursor: int, most: int) -> Page:
    piece = client.getrange(key, cursor, cursor + 1024 * most - 1)
    return [piece], cursor + len(piece) if len(piece) == 1024 * most else 0


def _trace_page(client: Any, key: str, cursor: int, most: int) -> Page:
    rows = client.xrange(key, min=f"{cursor + 1}-0", max="+", count=most)
    page = [
        part
        for id_, entry in rows
        for part in (id_.split(b"-")[0], entry[b"n"], entry[b"w"], entry[b"e"], entry.get(b"d", b""))
    ]
    return page, cursor + most if len(rows) == most else 0


_PAGES: Final[dict[RecordKind, Callable[[Any, str, int, int], Page]]] = {
    "hash": _hash_page,
    "scores": _scores_page,
    "set": _set_page,
    "text": _text_page,
    "trace": _trace_page,
}


class RedisRecords:
    """Implements :class:`wf_worker.store.protocol.Records` over a redis-py client."""

    def __init__(self, client: redis.Redis, keys: Keys | None = None, *, confirmations: int = 0) -> None:
        self.client = client
        self.keys = keys or Keys()
        self._confirmations = confirmations

    # ---- scripts

    def call(self, script: str, incarnation: str, call_id: str, *args: str | bytes | int) -> list[Any]:
        base = self.keys.base(incarnation)
        shard = self.keys.shard(self.keys.shard_of_incarnation(incarnation))
        reply = self._run(script, shard, base + RUN_KEYS["HEADER"], base, shard, incarnation, call_id, *args)
        refuse_other_layout(incarnation, reply)
        if script in ACKNOWLEDGED:
            self.confirm(incarnation, call_id)
        return reply

    def confirm(self, incarnation: str, call_id: str) -> None:
        shard = self.keys.shard(self.keys.shard_of_incarnation(incarnation))
        if self._confirmations:
            self._guard(lambda: self._confirm(shard + SHARD_KEYS["CONFIRMED"], call_id))

    def _confirm(self, key: str, call_id: str) -> None:
        """Returns when the replicas have everything that the server had written by now.

        WAIT counts from the last write of its own connection, so one is made: a call that was sent again and changed
        nothing is confirmed by it as well.
        """
        client: Any = self.client
        # WAIT names no key: in a cluster it has to be said to the node that has this one.
        node = (
            client.get_redis_connection(client.get_node_from_key(key)) if isinstance(client, ClusterClient) else client
        )
        pipe = node.pipeline(transaction=False)
        pipe.set(key, call_id)
        pipe.execute_command("WAIT", self._confirmations, CONFIRM_MS)
        _, confirmed = pipe.execute()
        if confirmed < self._confirmations:
            raise StoreUnavailable(
                f"{confirmed} of {self._confirmations} replicas have confirmed in {CONFIRM_MS} ms",
                code="durability_unconfirmed",
                hint="send the request again under the same key: what is there already is not done twice",
            )

    def sweep(self, shard: int, most: int, hold_off_ms: int, ahead_ms: int = 0) -> list[str]:
        prefix = self.keys.shard(shard)
        args = (most, hold_off_ms, ahead_ms)
        reply = self._run("sweep", prefix, prefix + SHARD_KEYS["ATTENTION"], "", prefix, "", "", *args)
        return [incarnation.decode() for incarnation in reply[1]]

    def _run(self, script: str, shard: str, key: str, *args: str | bytes | int) -> list[Any]:
        # A script names keys that it computes. Where a slot moves key by key some of them are on another node, and
        # would be missing in the middle of it. The second key is never there: a server that moves the slot, or takes
        # it in, sees that it has one key and lacks another, and refuses the whole call (TRYAGAIN) before it begins.
        keys = (key, shard + SHARD_KEYS["NEVER"])

        def once() -> list[Any]:
            digest = script_hash(script)
            try:
                return cast(list[Any], self.client.evalsha(digest, len(keys), *keys, *args))  # pyright: ignore[reportUnknownMemberType]
            except NoScriptError:
                # The server restarted, was flushed, or is another node than before: nothing was executed. The text
                # goes where the key is; another node of a cluster may be away.
                text = script_text(script)
                return cast(list[Any], self.client.eval(text, len(keys), *keys, *args))  # pyright: ignore[reportUnknownMemberType]

        return self._guard(once)

    def _guard(self, act: Callable[[], T]) -> T:
        try:
            return act()
        except (RedisError, RedisClusterException) as error:
            raise self._translated(error) from error

    def _translated(self, error: RedisError | RedisClusterException) -> StoreError:
        """What an error of the client means: damage, a fault of a script, or a server that refuses work for now."""
        text = str(error)
        if "WRONGTYPE" in text:
            return RunDamaged(f"a record has the wrong type: {text}")
        # Older servers wrap what a command inside a script was refused with.
        if isinstance(error, OutOfMemoryError) or "OOM command not allowed" in text:
            hint = "give the server memory, or set a larger maxmemory; nothing was written"
            return StoreUnavailable("the run store is full", code="store_full", hint=hint)
        if isinstance(error, MovedError):
            hint = "write the scheme of WF_STORE_URL with +cluster: redis+cluster://host:port"
            return StoreUnavailable("the run store is one node of a cluster, and others have its slots", hint=hint)
        if isinstance(error, ResponseError) and "user_script" in text:
            return StoreError(f"a script of the run store failed: {text}", code="store_script_failed")
        return StoreUnavailable(
            f"the run store cannot be reached or refuses work: {text}", hint="check WF_STORE_URL and the server"
        )

    # ---- plain reads

    def newest(self, run_id: str) -> str | None:
        key = self.keys.shard(self.keys.shard_of(run_id)) + SHARD_KEYS["IDS"]
        value = self._guard(lambda: cast("bytes | None", self.client.hget(key, run_id)))
        return None if value is None else value.decode()

    def header(self, incarnation: str, fields: Sequence[str]) -> dict[str, bytes] | None:
        key = self.keys.base(incarnation) + RUN_KEYS["HEADER"]
        values = self._guard(lambda: cast("list[bytes | None]", self.client.hmget(key, list(fields))))
        found = {name: value for name, value in zip(fields, values, strict=True) if value is not None}
        return found or None

    def whole_header(self, incarnation: str) -> dict[str, bytes]:
        key = self.keys.base(incarnation) + RUN_KEYS["HEADER"]
        fields = self._guard(lambda: cast("dict[bytes, bytes]", self.client.hgetall(key)))
        return {name.decode(): value for name, value in fields.items()}

    def fields(self, incarnation: str, key: str, names: Sequence[str]) -> list[bytes | None]:
        if not names:
            return []
        name = self.keys.base(incarnation) + key
        return self._guard(lambda: cast("list[bytes | None]", self.client.hmget(name, list(names))))

    def scan(self, incarnation: str, kind: RecordKind, key: str, cursor: int, most: int) -> tuple[list[bytes], int]:
        name = self.keys.base(incarnation) + key
        return self._guard(lambda: _PAGES[kind](self.client, name, cursor, most))

    def _runs(self, shard: int, index: str | None) -> str:
        return self.keys.shard(shard) + SHARD_KEYS["RUNS"] + (f":{index}" if index else "")

    def page(
        self, shard: int, index: str | None, most: int, *, from_ms: int | None = None, to_ms: int | None = None
    ) -> list[tuple[str, int]]:
        newest, oldest = ("+inf" if to_ms is None else to_ms), ("-inf" if from_ms is None else from_ms)
        key = self._runs(shard, index)
        rows = self._guard(
            lambda: cast(
                "list[tuple[bytes, float]]",
                self.client.zrevrangebyscore(key, newest, oldest, start=0, num=most, withscores=True),  # pyright: ignore[reportUnknownMemberType]
            )
        )
        return [(member.decode(), int(score)) for member, score in rows]

    def count(self, shard: int, index: str | None) -> int:
        key = self._runs(shard, index)
        return self._guard(lambda: self.client.zcard(key))

    def trace(self, incarnation: str, start: int, most: int) -> list[tuple[int, str, bytes, str]]:
        key = self.keys.base(incarnation) + RUN_KEYS["TRACE"]
        rows = self._guard(
            lambda: cast(
                "list[tuple[bytes, dict[bytes, bytes]]]",
                self.client.xrange(key, min=f"{start + 1}-0", max="+", count=most),
            )  # pyright: ignore[reportUnknownMemberType]
        )
        return [
            (int(fields[b"n"]), fields[b"w"].decode(), fields[b"e"], fields.get(b"d", b"").decode())
            for _, fields in rows
        ]

    def events(self, incarnation: str, first: int, most: int) -> list[tuple[int, bytes]]:
        client: Any = self.client
        key = self.keys.base(incarnation) + RUN_KEYS["EVENTS"]
        rows = self._guard(
            lambda: cast(
                "list[tuple[bytes, dict[bytes, bytes]]]", client.xrange(key, min=f"{first}-0", max="+", count=most)
            )
        )
        return [(int(name.partition(b"-")[0]), fields[b"e"]) for name, fields in rows]

    def last_events(self, incarnations: Sequence[str]) -> list[str | None]:
        pipe: Any = self.client.pipeline(transaction=False)  # pyright: ignore[reportUnknownMemberType]
        for incarnation in incarnations:
            pipe.hget(self.keys.base(incarnation) + RUN_KEYS["HEADER"], "events")
        # A damaged header is one run's matter: whoever reads that run is told.
        found = self._guard(lambda: cast("list[Any]", pipe.execute(raise_on_error=False))) if incarnations else []
        return [value.decode() if isinstance(value, bytes) else None for value in found]

    def interrupts(self, incarnation: str) -> dict[int, tuple[bytes, bytes]]:
        key = self.keys.base(incarnation) + RUN_KEYS["OPEN"]
        fields = self._guard(lambda: cast("dict[bytes, bytes]", self.client.hgetall(key)))
        opened: dict[int, tuple[bytes, bytes]] = {}
        for name, head in fields.items():
            if name.startswith(b"b"):
                continue
            record = fields.get(b"b" + name)
            if record is None or not name.isdigit():
                raise RunDamaged(f"interrupt {name.decode(errors='replace')} has no record", path=f"open[{name!r}]")
            opened[int(name)] = (head, record)
        return opened

    def inbox(self, shard: int, after: tuple[int, str] | None, most: int) -> list[tuple[int, str]]:
        client: Any = self.client
        key = self.keys.shard(shard) + SHARD_KEYS["INBOX"]
        found: list[tuple[int, str]] = []
        offset, bound = 0, "-inf" if after is None else after[0]
        while len(found) < most:
            rows = self._guard(
                lambda start=offset: cast(
                    "list[tuple[bytes, float]]",
                    client.zrangebyscore(key, bound, "+inf", start=start, num=most + 1, withscores=True),
                )
            )
            found += [place for member, at in rows if (place := (int(at), member.decode())) > (after or (-1, ""))]
            offset += len(rows)
            if len(rows) <= most:
                break
        return found[:most]

    def open_interrupt(self, incarnation: str, number: int) -> tuple[bytes, bytes] | None:
        client: Any = self.client
        key = self.keys.base(incarnation) + RUN_KEYS["OPEN"]
        found = self._guard(lambda: cast("list[bytes | None]", client.hmget(key, [str(number), f"b{number}"])))
        head, record = found
        if head is None:
            return None
        if record is None:
            raise RunDamaged(f"interrupt {number} has no record", path=f"open[{number}]")
        return head, record

    def progress(self, incarnation: str) -> list[tuple[str, bytes, bytes, int, int]]:
        base = self.keys.base(incarnation)
        fields = self._guard(lambda: cast("dict[bytes, bytes]", self.client.hgetall(base + RUN_KEYS["ACTIVATIONS"])))
        acts = [name for name in fields if not name.endswith(b":t")]
        pipe: Any = self.client.pipeline(transaction=False)  # pyright: ignore[reportUnknownMemberType]
        for name in acts:
            pipe.hlen(base + RUN_KEYS["RESULTS"] + name.decode())
            pipe.scard(base + RUN_KEYS["WAITING"] + name.decode())
        sizes = self._guard(lambda: cast("list[int]", pipe.execute())) if acts else []
        return [
            (name.decode(), fields[name], fields[name + b":t"], sizes[2 * i], sizes[2 * i + 1])
            for i, name in enumerate(acts)
        ]

    def counts(self, incarnation: str) -> dict[str, int]:
        base = self.keys.base(incarnation)
        pipe: Any = self.client.pipeline(transaction=False)  # pyright: ignore[reportUnknownMemberType]
        for name in _COUNTED_SETS.values():
            pipe.zcard(base + RUN_KEYS[name])
        pipe.hlen(base + RUN_KEYS["OPEN"])
        pipe.hlen(base + RUN_KEYS["PARKED"])
        *sizes, opened, parked = self._guard(lambda: cast("list[int]", pipe.execute()))
        found = dict(zip(_COUNTED_SETS, sizes, strict=True))
        return {**found, "asking": opened // 2, "parked": parked}  # an open interrupt is a head and a record

    def parked_runs(self, shard: int) -> list[str]:
        client: Any = self.client
        key = self.keys.shard(shard) + SHARD_KEYS["PARKED_RUNS"]
        return sorted(member.decode() for member in self._guard(lambda: cast("set[bytes]", client.smembers(key))))

    def parked(self, incarnation: str) -> list[str]:
        client: Any = self.client
        key = self.keys.base(incarnation) + RUN_KEYS["PARKED"]
        return [value.decode() for value in self._guard(lambda: cast("list[bytes]", client.hvals(key)))]

    def next_wait(self, incarnation: str) -> int | None:
        waits = self.keys.base(incarnation) + RUN_KEYS["WAITS"]
        client: Any = self.client
        first = self._guard(lambda: cast("list[tuple[bytes, float]]", client.zrange(waits, 0, 0, withscores=True)))
        return int(first[0][1]) if first else None

    # ---- documents and the like

    def put_document(self, digest: str, data: bytes) -> None:
        self._guard(lambda: self.client.set(self.keys.document(digest), data))

    def document(self, digest: str) -> bytes | None:
        return self._guard(lambda: cast("bytes | None", self.client.get(self.keys.document(digest))))

    def add_version(self, name: str, version: str, digest: str) -> str:
        self._guard(lambda: self.client.sadd(self.keys.flows(), name))
        self._guard(lambda: self.client.hsetnx(self.keys.flow(name), version, digest))
        return self._guard(lambda: cast(bytes, self.client.hget(self.keys.flow(name), version))).decode()

    def versions(self, name: str) -> dict[str, str]:
        fields = self._guard(lambda: cast("dict[bytes, bytes]", self.client.hgetall(self.keys.flow(name))))
        return {version.decode(): digest.decode() for version, digest in fields.items()}

    def flow_names(self) -> list[str]:
        return [
            name.decode() for name in self._guard(lambda: cast("set[bytes]", self.client.smembers(self.keys.flows())))
        ]

    def reserve(self, key: str, value: bytes, seconds: int) -> bytes:
        name = self.keys.idempotency(key)
        while True:
            if self._guard(lambda: self.client.set(name, value, nx=True, ex=seconds)):
                return value
            held = self._guard(lambda: cast("bytes | None", self.client.get(name)))
            if held is not None:  # else it expired between the two calls
                return held

    def announce(self, name: str, data: bytes, seconds: int) -> None:
        client: Any = self.client
        self._guard(lambda: client.set(self.keys.worker(name), data, ex=seconds))
        self._guard(lambda: client.sadd(self.keys.workers(), name))

    def withdraw(self, name: str) -> None:
        client: Any = self.client
        self._guard(lambda: client.delete(self.keys.worker(name)))
        self._guard(lambda: client.srem(self.keys.workers(), name))

    def announced(self) -> dict[str, bytes]:
        client: Any = self.client
        names = self._guard(lambda: cast("set[bytes]", client.smembers(self.keys.workers())))
        found: dict[str, bytes] = {}
        for name in sorted(member.decode() for member in names):
            data = self._guard(lambda name=name: cast("bytes | None", client.get(self.keys.worker(name))))
            if data is None:
                self._guard(lambda name=name: client.srem(self.keys.workers(), name))
            else:
                found[name] = data
        return found

    def identity(self, candidate: str) -> str:
        name = self.keys.identity()
        self._guard(lambda: self.client.set(name, candidate, nx=True))
        held = self._guard(lambda: cast("bytes | None", self.client.get(name)))
        return candidate if held is None else held.decode()

    def ping(self) -> None:
        # A real script on a run that is not there: a server that answers PING but cannot execute scripts is not ready.
        self.call("renew", self.keys.incarnation("ping", "ping"), "ping", "", "", 0)

    def facts(self) -> list[dict[str, Any]]:
        """What each primary says of itself (``INFO``), one of a server or several of a cluster. A server that was named
        alone and is a node of a cluster says as ``cluster_size`` how many have slots there.

        Raises :class:`StoreUnavailable` when one cannot be reached.
        """
        client: Any = self.client
        if isinstance(client, ClusterClient):
            primaries: list[Any] = self._guard(lambda: client.get_primaries())
            return [self._guard(lambda node=node: client.get_redis_connection(node).info()) for node in primaries]
        said = self._guard(lambda: cast("dict[str, Any]", client.info()))
        if said.get("cluster_enabled"):
            cluster = self._guard(lambda: cast("dict[str, str]", client.cluster("INFO")))
            said["cluster_size"] = int(cluster["cluster_size"])
        return [said]

    def persistence(self) -> list[dict[str, str] | None]:
        """What each primary says of its append-only file; None for one that does not tell its settings."""
        client: Any = self.client
        try:
            if not isinstance(client, ClusterClient):
                return [cast("dict[str, str]", client.config_get("append*"))]
            return [client.get_redis_connection(node).config_get("append*") for node in client.get_primaries()]
        except ResponseError:
            return [None]
        except (RedisError, RedisClusterException) as error:
            raise self._translated(error) from error

    def close(self) -> None:
        self.client.close()
