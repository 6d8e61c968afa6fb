"""Whether a server can keep runs: its version, what it does when it is full, what it keeps over a crash."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from wf_worker.durability import Durability
from wf_worker.errors import SettingsInvalid

OLDEST: Final = (6, 2)
"""Oldest Redis whose commands the scripts use; every Valkey is newer."""


def check_server(facts: Mapping[str, Any]) -> list[str]:
    """Warnings about a server, from what it says of itself (:meth:`RedisRecords.facts`).

    Raises :class:`SettingsInvalid` with code ``store_unsuitable`` for one that may lose records or lacks commands.
    """
    version = str(facts.get("redis_version", ""))
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if numbers and numbers < OLDEST:
        raise _unsuitable(f"it is Redis {version}", "use Valkey, or Redis 6.2 or later")
    if int(facts.get("cluster_size", 1)) > 1:
        raise _unsuitable("it is one node of a cluster of several", "write WF_STORE_URL as redis+cluster://host:port")
    policy, limit = str(facts.get("maxmemory_policy", "noeviction")), int(facts.get("maxmemory", 0))
    if policy != "noeviction" and limit > 0:
        raise _unsuitable(
            f"its maxmemory-policy is {policy}: it would delete records of runs when it is full",
            "set maxmemory-policy noeviction, or use a server of its own",
        )
    warnings: list[str] = []
    if policy != "noeviction":
        warnings.append(f"its maxmemory-policy is {policy}; set noeviction before it is given a maxmemory")
    if not int(facts.get("aof_enabled", 1)):
        warnings.append("it keeps no append-only file: when it crashes, what came after its last snapshot is lost")
    if facts.get("role", "master") in ("slave", "replica"):
        raise _unsuitable("it is a replica, which takes no writes", "name the primary")
    return warnings


def check_durability(promised: Durability, kept: Mapping[str, str] | None) -> None:
    """Raises :class:`SettingsInvalid` with code ``durability_unavailable`` where a server keeps less than is promised.

    ``kept`` is what the server says of its settings; None when it does not tell them.
    """
    if promised.level not in ("everysec", "always"):
        return
    if kept is None:
        fault, hint = "it does not tell its settings", "allow CONFIG GET, or promise less"
    else:
        append, sync = kept.get("appendonly"), kept.get("appendfsync", "")
        if append == "yes" and sync in ("everysec", "always") and Durability.parse(sync).covers(promised):
            return
        fault = f"its appendonly is {append}, its appendfsync {sync}"
        hint = f"set appendonly yes and appendfsync {promised}, or promise less"
    raise SettingsInvalid(
        f"the server of the run store does not keep durability {promised}: {fault}",
        code="durability_unavailable",
        path="WF_DURABILITY",
        hint=hint,
    )


def _unsuitable(fault: str, hint: str) -> SettingsInvalid:
    return SettingsInvalid(
        f"the server of the run store cannot keep runs: {fault}",
        code="store_unsuitable",
        path="WF_STORE_URL",
        hint=hint,
    )
