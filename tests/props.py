"""Random workflows over every engine: ``python -m tests.props [--count N] [--seed S]``.

Each workflow (nested loops of both modes, conditions, subgraphs, interrupts, failures, reducers) runs in the in-memory
engine, over the store in memory under faults, and (every fourth) over a real Valkey with messages in any order and
twice. State, output, outcome and the multiset of trace entries must be equal. Exits 1 at the first disagreement, with
the seed that shows it.
"""

from __future__ import annotations

import argparse
import logging
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from tests.simulation.test_equality import CRUEL, HARSH, compare, sequential
from tests.support.random_flows import FlowMaker
from tests.support.simulation import Faults, Simulation
from tests.support.valkey import EmbeddedValkey
from wf_worker.store.keys import Keys
from wf_worker.store.redis import RedisRecords, connect

REORDER = Faults(drop=0, double=0.1, crash=0, freeze=0, jump=0)


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
    maker = FlowMaker(random.Random(seed))
    workflow, workflow_input = maker.make()
    report = workflow.validate_structure()
    if not report.ok:
        return f"the workflow is not valid: {report.errors}"
    expected = sequential(workflow, workflow_input, maker.children)
    stores: list[tuple[str, Any, Faults]] = [("the store in memory", None, CRUEL if seed % 2 else HARSH)]
    if seed % 4 == 0:
        with server.client() as client:
            client.flushall()
        stores.append(("Valkey", RedisRecords(connect(server.url), Keys()), REORDER))
    for name, records, faults in stores:
        simulation = Simulation(seed, workflow, workflow_input, faults, maker.children, records)
        try:
            record = simulation.run()
            compare(simulation, record, expected)
        except AssertionError as error:
            return f"over {name}: {str(error)[:2000]}"
        finally:
            if records is not None:
                records.close()
        ends[record.status] += 1
        seen.update(simulation.seen)
    return None


if __name__ == "__main__":
    sys.exit(main())
