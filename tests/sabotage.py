"""Whether the simulation notices when a rule of the store is switched off: ``python -m tests.sabotage [NAME ...]``.

Each sabotage of tests/simulation/sabotages.py is tried on seeds 0, 1, 2 ... until one fails; that seed is printed, and
it fails in the same way each time: ``python -m tests.sabotage NAME --first SEED --seeds 1``. Before that, seeds without
a sabotage must find nothing. Exits 1 when they do, and when a sabotage is not found.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import sys
import time
from dataclasses import dataclass

from tests.simulation.sabotages import SABOTAGES
from tests.support.patching import patched
from tests.support.simulation import simulate
from tests.support.tapes import NotReplayed

CONTROL = "none"
CONTROL_SEEDS = 300


@dataclass(frozen=True)
class Search:
    """Seeds to try one sabotage on, or none of them."""

    name: str
    first: int
    seeds: int


@dataclass(frozen=True)
class Found:
    """The first seed that failed, and how; None where none did."""

    name: str
    seed: int | None
    how: str
    tried: int


def search(wanted: Search) -> Found:
    """Tries seed after seed."""
    logging.disable(logging.CRITICAL)
    patches = [patch for sabotage in SABOTAGES if sabotage.name == wanted.name for patch in sabotage.patches()]
    with patched(patches):
        for seed in range(wanted.first, wanted.first + wanted.seeds):
            try:
                simulate(seed)
            except NotReplayed as fault:
                raise RuntimeError(f"seed {seed}: {fault}") from fault  # that is the simulation's own fault
            except Exception as fault:  # whatever it is, it was noticed
                return Found(wanted.name, seed, f"{type(fault).__name__}: {fault}", seed - wanted.first + 1)
    return Found(wanted.name, None, "", wanted.seeds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--seeds", type=int, default=2_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    unknown = set(options.names) - {sabotage.name for sabotage in SABOTAGES}
    if unknown:
        parser.error(f"no such sabotage: {', '.join(sorted(unknown))}")
    chosen = [sabotage for sabotage in SABOTAGES if sabotage.name in (options.names or {s.name for s in SABOTAGES})]
    searches = [Search(sabotage.name, options.first, options.seeds) for sabotage in chosen]
    control = [] if options.names else [Search(CONTROL, options.first, CONTROL_SEEDS)]
    began = time.monotonic()
    found: dict[str, Found] = {}
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        for one in pool.imap_unordered(search, [*control, *searches], chunksize=1):
            found[one.name] = one
            shown = "nothing" if one.seed is None else f"seed {one.seed}: {one.how[:160]}"
            print(f"{one.name}: {shown} ({one.tried} seeds, {time.monotonic() - began:.0f} s)", flush=True)
    missed = [sabotage.name for sabotage in chosen if found[sabotage.name].seed is None]
    alarms = CONTROL in found and found[CONTROL].seed is not None
    seconds = time.monotonic() - began
    told = ", ".join(f"{sabotage.name} {found[sabotage.name].seed}" for sabotage in chosen)
    if alarms:
        print(f"sabotage: seed {found[CONTROL].seed} fails without a sabotage: {found[CONTROL].how}")
    if missed:
        print(f"sabotage: not found: {', '.join(missed)}")
    print(f"sabotage: {len(chosen) - len(missed)} of {len(chosen)} found in {seconds:.0f} s, by seed: {told}")
    return 1 if missed or alarms else 0


if __name__ == "__main__":
    sys.exit(main())
