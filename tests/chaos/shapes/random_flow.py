"""Random workflows: nested loops, interrupts, retries, subgraphs, waits, failing items."""

from __future__ import annotations

import random

from tests.chaos.shapes.job import Job
from tests.support.random_flows import FlowMaker


def make(rng: random.Random) -> Job:
    """One random workflow with an input."""
    maker = FlowMaker(rng, depth=rng.choice([1, 2, 2, 3]))
    workflow, workflow_input = maker.make()
    return Job(workflow, workflow_input, maker.children)
