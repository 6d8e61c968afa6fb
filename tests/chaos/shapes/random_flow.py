"""Random workflows: nested loops, interrupts, retries, subgraphs, waits, failing items."""

from __future__ import annotations

import random
from typing import Final

from tests.chaos.shapes.job import Job
from tests.support.random_flows import FlowMaker

MOST_STEPS: Final = 200


def make(rng: random.Random) -> Job:
    """One random workflow with an input. Loops over what other loops wrote grow fast: those that
    would take too many steps are left out."""
    while True:
        maker = FlowMaker(rng, depth=rng.choice([1, 2, 2, 3]))
        workflow, workflow_input = maker.make()
        job = Job(workflow, workflow_input, maker.children, most=MOST_STEPS)
        if not job.too_long:
            return job
