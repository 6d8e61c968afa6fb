"""The servers lose something: the broker its messages, the store its process or its scripts."""

from __future__ import annotations

import random

from tests.chaos.installation import Installation


def flush_broker(installation: Installation, rng: random.Random) -> str:
    """Everything that the broker holds is gone, declarations of queues included."""
    if installation.broker_url is not None:
        return "left a foreign broker alone"
    with installation.broker.client() as client:
        client.flushall()
    return "flushed the broker"


def restart_store(installation: Installation, rng: random.Random) -> str:
    """SIGKILL for the store; it comes back on the same files after a moment."""
    seconds = rng.uniform(0, 2)
    installation.restart_store(seconds)
    return f"killed the store, back after {seconds:.1f} s"


def flush_scripts(installation: Installation, rng: random.Random) -> str:
    """The store forgets every script that was loaded."""
    with installation.store.client() as client:
        client.script_flush()
    return "flushed the store's scripts"
