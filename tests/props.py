"""Random workflows over every engine: ``python -m tests.props [--count N] [--seed S]``.

Each workflow (nested loops of both modes, conditions, subgraphs, interrupts, failures, reducers) runs in the in-memory
engine, over the store in memory under faults, and (every fourth) over a real Valkey with messages in any order and
twice. State, output, outcome and the multiset of trace entries must be equal. Exits 1 at the first disagreement, with
the seed that shows it.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.support.history import START_MS
from tests.support.simulated_places import Place, ValkeyPlace
from tests.support.simulation import CRUEL, HARSH, REORDER, Faults, Simulation, scenario_of
from tests.support.valkey import EmbeddedValkey


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    ends: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        server = EmbeddedValkey(Path(folder))
        server.start()
        try:
            for seed in range(options.seed, options.seed + options.count):
                fault = one(seed, server, ends, seen)
                if fault is not None:
                    print(f"props: seed {seed} disagrees: {fault}")
                    return 1
        finally:
            server.stop()
    shapes = ", ".join(f"{name} {count}" for name, count in sorted(ends.items()))
    faults = ", ".join(f"{name} {count}" for name, count in seen.most_common(12))
    print(f"props: {options.count} workflows from seed {options.seed}, 0 disagreements ({shapes}; {faults})")
    return 0


def one(seed: int, server: EmbeddedValkey, ends: Counter[str], seen: Counter[str]) -> str | None:
    """What is wrong with the workflow of a seed, or None."""
    scenario = scenario_of(seed, ())
    report = scenario.workflow.validate_structure()
    if not report.ok:
        return f"the workflow is not valid: {report.errors}"
    places: list[tuple[str, Place | None, Faults]] = [("the store in memory", None, CRUEL if seed % 2 else HARSH)]
    if seed % 4 == 0:
        places.append(("Valkey", ValkeyPlace(server.url, START_MS, small=scenario.small), REORDER))
    for name, place, faults in places:
        simulation = Simulation(seed, scenario, faults, place)
        try:
            simulation.run()
        except AssertionError as error:
            return f"over {name}: {str(error)[:2000]}"
        finally:
            if isinstance(place, ValkeyPlace):
                place.close()
        ends.update({what: count for what, count in simulation.seen.items() if what.startswith("ended")})
        seen.update(simulation.seen)
    return None


if __name__ == "__main__":
    sys.exit(main())
