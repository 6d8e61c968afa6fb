"""Processes are killed, or stopped for a while and let go on."""

from __future__ import annotations

import random
import signal
import time

from tests.chaos.installation import SERVER, Installation

API_SHARE = 0.12
"""How many of the kills hit the API."""
EARLY_SHARE = 0.2
"""How many of the others may hit a worker that has not begun to work."""


def kill(installation: Installation, rng: random.Random) -> str:
    """SIGKILL for a worker with its children, one child of a worker's pool, or the API."""
    api, early, child = rng.random() < API_SHARE, rng.random() < EARLY_SHARE, rng.random() < 0.5
    name = SERVER if api else rng.choice((not early and installation.working) or installation.worker_names)
    if name != SERVER and child and installation.kill_child(name):
        return f"killed a child of {name}"
    installation.kill(name)
    return f"killed {name}"


def stop(installation: Installation, rng: random.Random) -> str:
    """SIGSTOP for a worker, for less or for more than a lease; then it goes on with whatever it held."""
    name, seconds = rng.choice(installation.worker_names), rng.choice([0.5, 2.0, 5.0, 8.0])
    process = installation.processes[name]
    stopped = process.popen
    process.signal(signal.SIGSTOP)
    time.sleep(seconds)
    if process.popen is stopped:  # else it was killed meanwhile, and another one runs
        process.signal(signal.SIGCONT)
    return f"stopped {name} for {seconds} s"
