"""The real engine under faults, by seed. What is simulated, and what is asked of it: docs/simulation.md.

    python -m tests.sim [--seeds N] [--first S] [--valkey EVERY] [--jobs J]

Every seed makes a random workflow, people who do something with it, and a world in which things go wrong. Some of the
seeds run over the real scripts on an embedded Valkey, the others over the store in memory. Exits 1 at the first seed
that does not end as it must, and prints it: the same seed fails in the same way.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import multiprocessing
import os
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.support.history import START_MS
from tests.support.simulated_places import ValkeyPlace
from tests.support.simulation import Simulation, faults_of, scenario_of
from tests.support.tapes import NotReplayed
from tests.support.valkey import EmbeddedValkey

CHUNK: Final = 25
VALKEY_EVERY: Final = 8

KINDS: Final = (
    *("dropped", "doubled", "reordered", "flushed", "broker down", "replies lost", "store silent", "repeated"),
    *("lost tails", "frozen", "zombies", "waited", "leases not renewed"),
    *(f"crashed: {what}" for what in ("step", "sweep", "start", "answer", "cancel", "pause", "retry")),
)
"""What can go wrong, as a simulation counts it."""

SERVER: list[str] = []
"""The URL of this process's own server."""


@dataclass
class Part:
    """What came of some seeds; ``fault`` of the last one, if it was not right."""

    seen: Counter[str] = field(default_factory=Counter[str])
    over_scripts: int = 0
    seed: int = -1
    fault: str = ""


def some(work: tuple[int, int, int]) -> Part:
    """Simulates the seeds of a range."""
    logging.disable(logging.CRITICAL)
    part = Part()
    for seed in range(work[0], work[1]):
        try:
            over_scripts = bool(work[2]) and seed % work[2] == 0
            part.seen.update(simulated(seed, SERVER[0] if over_scripts else None))
            part.over_scripts += over_scripts
        except (Exception, NotReplayed) as fault:  # whatever it is, the seed must be told
            part.seed, part.fault = seed, f"{type(fault).__name__}: {str(fault)[:2000]}"
            break
    return part


def simulated(seed: int, server: str | None) -> Counter[str]:
    """What happened to the scenario of a seed; AssertionError where something was not as it must be."""
    scenario = scenario_of(seed)
    if server is None:
        simulation = Simulation(seed, scenario, faults_of(seed))
        simulation.run()
    else:
        place = ValkeyPlace(server, START_MS, small=scenario.small)
        with contextlib.closing(place):
            simulation = Simulation(seed, scenario, faults_of(seed // VALKEY_EVERY), place)
            simulation.run()
    return simulation.seen


def take_server(urls: Any) -> None:
    """Each process gets a server of its own."""
    SERVER.append(urls.get())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--valkey", type=int, default=VALKEY_EVERY, metavar="EVERY", help="0: none over the scripts")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    last = options.first + options.seeds
    work = [(at, min(at + CHUNK, last), options.valkey) for at in range(options.first, last, CHUNK)]
    began = time.monotonic()
    total = Part()
    context = multiprocessing.get_context("spawn")
    with contextlib.ExitStack() as stack:
        urls = context.Queue()
        for _ in range(options.jobs):
            server = EmbeddedValkey(Path(stack.enter_context(tempfile.TemporaryDirectory())))
            server.start()
            stack.callback(server.stop)
            urls.put(server.url)
        pool = stack.enter_context(context.Pool(options.jobs, take_server, (urls,)))
        for part in pool.imap(some, work):
            if part.fault:
                print(f"sim: seed {part.seed}: {part.fault}")
                print(f"sim: again: python -m tests.sim --first {part.seed} --seeds 1 --valkey {options.valkey}")
                return 1
            total.seen.update(part.seen)
            total.over_scripts += part.over_scripts
    told = ", ".join(f"{kind} {total.seen[kind]}" for kind in KINDS if total.seen[kind])
    kinds = sum(1 for kind in KINDS if total.seen[kind])
    ends = ", ".join(f"{what} {count}" for what, count in sorted(total.seen.items()) if what.startswith("ended"))
    print(
        f"sim: {options.seeds} seeds from {options.first} in {time.monotonic() - began:.0f} s, "
        f"{total.over_scripts} of them over the scripts, all right ({ends}); {kinds} kinds of faults: {told}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
