"""URLs that name nodes of a cluster: ``valkey+cluster://user:password@a:6379,b:6379``."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

MARK: Final = "+cluster"
"""What the scheme of such a URL ends with."""


def names_cluster(url: str) -> bool:
    """Whether a URL says that it names nodes of a cluster."""
    return url.partition("://")[0].endswith(MARK)


def node_urls(url: str) -> list[str]:
    """One plain URL for each node that is named; user, password and options are those of all."""
    scheme, _, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    user, at, hosts = authority.rpartition("@")
    plain = scheme.removesuffix(MARK)
    return [f"{plain}://{user}{at}{host}{slash}{path}" for host in hosts.split(",")]


def cluster_fault(url: str) -> str | None:
    """What is wrong with such a URL, or None. A cluster has no numbered databases."""
    for node in node_urls(url):
        parts = urlsplit(node)
        if not parts.hostname:
            return "each node of a cluster needs a host: redis+cluster://host:6379,other:6379"
        if parts.path not in ("", "/", "/0"):
            return "a cluster has database 0 only"
    return None
