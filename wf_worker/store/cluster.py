"""A client of a cluster of several nodes, made when it is first used.

redis-py asks a cluster for its slots as soon as a client is made. A worker or an API that starts while the cluster is
down shall wait for it as it waits for a single server, so the client is made with the first call.
"""

from __future__ import annotations

import threading
from typing import Any, Final

from redis.backoff import ExponentialBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.connection import parse_url  # pyright: ignore[reportUnknownVariableType]
from redis.retry import Retry

RETRIES: Final = 5
"""How often a call is sent again while a node is silent or the cluster has no owner for a slot."""


class ClusterClient:
    """Everything that a :class:`redis.cluster.RedisCluster` has, from the first use on. Safe for threads."""

    def __init__(self, urls: list[str], **options: Any) -> None:
        """``urls``: redis:// or rediss:// of one node or more, from which the others are found."""
        self._urls = urls
        self._options = options
        self._lock = threading.Lock()
        self._made: RedisCluster | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client(), name)

    def _client(self) -> RedisCluster:
        if self._made is None:
            with self._lock:
                if self._made is None:
                    self._made = self._connected()
        return self._made

    def _connected(self) -> RedisCluster:
        parse: Any = parse_url  # without types  # pyright: ignore[reportUnknownVariableType]
        parsed: list[dict[str, Any]] = [dict(parse(url)) for url in self._urls]
        nodes = [ClusterNode(address.pop("host"), address.pop("port", 6379)) for address in parsed]
        options: dict[str, Any] = {**self._options, **parsed[0]}
        options.pop("db", None)
        # Not every slot needs an owner for this client to be made: runs whose node lives go on.
        return RedisCluster(
            startup_nodes=nodes,
            require_full_coverage=False,
            retry=Retry(ExponentialBackoff(cap=1.0, base=0.05), RETRIES),
            **options,
        )

    def close(self) -> None:
        """Closes what was opened. The next use opens it anew."""
        with self._lock:
            made, self._made = self._made, None
        if made is not None:
            made.close()
