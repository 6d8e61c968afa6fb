"""Connections are cut, slowed and refused, and replies get lost."""

from __future__ import annotations

import random
import time

from tests.chaos.installation import Installation
from tests.support.proxy import Proxy


def _one(installation: Installation, rng: random.Random) -> tuple[str, Proxy]:
    return rng.choice(
        [("store", installation.to_store), ("broker", installation.to_broker), ("API", installation.to_server)]
    )


def cut(installation: Installation, rng: random.Random) -> str:
    """Every connection of one network at once."""
    name, proxy = _one(installation, rng)
    return f"cut {proxy.cut()} connections to the {name}"


def lose_replies(installation: Installation, rng: random.Random) -> str:
    """The next replies never arrive: what was asked for was done, and nobody knows."""
    name, proxy = _one(installation, rng)
    proxy.replies_to_lose = rng.randrange(1, 8)
    return f"lost {proxy.replies_to_lose} replies of the {name}"


def slow(installation: Installation, rng: random.Random) -> str:
    """Everything takes longer for some seconds."""
    name, proxy = _one(installation, rng)
    proxy.delay_seconds, seconds = rng.choice([0.01, 0.05, 0.2]), rng.uniform(1, 5)
    proxy.bytes_per_second = rng.choice([0.0, 200_000.0])
    time.sleep(seconds)
    proxy.delay_seconds = proxy.bytes_per_second = 0.0
    return f"slowed the {name} for {seconds:.1f} s"


def outage(installation: Installation, rng: random.Random) -> str:
    """Nobody reaches a server for a while."""
    name, proxy = _one(installation, rng)
    seconds = rng.uniform(0.5, 4)
    proxy.refusing = True
    proxy.cut()
    time.sleep(seconds)
    proxy.refusing = False
    return f"no {name} for {seconds:.1f} s"
