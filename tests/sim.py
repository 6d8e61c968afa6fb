"""The real step runner, sweeper, kernel and store under faults, by seed.

    python -m tests.sim [--seeds N] [--first S]

Every seed makes a random workflow and runs it over a simulated broker and clock: messages get lost, doubled and late,
workers crash and freeze, any call is executed again later, the store loses its last writes, somebody pauses the run.
After every step an audit must find the records in agreement; at the end the run must be as the engine in memory says.
Exits 1 at the first seed that is not, and prints it: the same seed fails in the same way.
"""

from __future__ import annotations

import argparse
import logging
import random
import sys
from collections import Counter

from tests.simulation.test_equality import CRUEL, HARSH, compare, sequential
from tests.support.random_flows import FlowMaker
from tests.support.simulation import Faults, Simulation

KINDS = (
    *("dropped", "doubled", "crashed", "frozen", "zombies", "waited", "repeated", "lost tails", "paused"),
    *("recovered", "republished", "fired", "timed out", "discarded"),
)
"""What can happen to a run, as a simulation counts it."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1_000)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    seen: Counter[str] = Counter()
    for seed in range(options.first, options.first + options.seeds):
        try:
            seen.update(simulated(seed, (Faults(), HARSH, CRUEL, CRUEL)[seed % 4]))
        except Exception as fault:  # whatever it is, the seed must be told
            print(f"sim: seed {seed}: {type(fault).__name__}: {str(fault)[:2000]}")
            return 1
    kinds = [kind for kind in KINDS if seen[kind]]
    told = ", ".join(f"{kind} {seen[kind]}" for kind in kinds)
    print(f"sim: {options.seeds} seeds from {options.first}, all right; {len(kinds)} kinds of faults: {told}")
    return 0


def simulated(seed: int, faults: Faults) -> Counter[str]:
    """What happened to the workflow of a seed; AssertionError where it did not end as it must."""
    maker = FlowMaker(random.Random(seed))
    workflow, workflow_input = maker.make()
    expected = sequential(workflow, workflow_input, maker.children)
    simulation = Simulation(seed, workflow, workflow_input, faults, maker.children)
    compare(simulation, simulation.run(), expected)
    return simulation.seen


if __name__ == "__main__":
    sys.exit(main())
