"""Whatever the broker, the clock and the workers do: the run ends as the sequential engine says."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.support.random_flows import FlowMaker, answer, note, out_of_order
from tests.support.simulation import START_MS, Faults, Simulation
from wf_core.models import Workflow
from wf_core.run_state import RunState, RunStatus
from wf_core.runtime import PreparedSubgraph, execute_workflow, next_due, resume_workflow
from wf_worker.store.protocol import RunRecord


@dataclass
class MovableTime:
    """A clock for the in-memory engine."""

    now: datetime

    def __call__(self) -> datetime:
        return self.now


def sequential(workflow: Workflow, workflow_input: dict[str, Any], children: Mapping[str, Workflow]) -> RunState | None:
    """The in-memory engine's run, answered like the other one; None when it failed."""
    handlers = {"note": note}
    subgraphs = {name: PreparedSubgraph(child, handlers) for name, child in children.items()}
    clock = MovableTime(datetime.fromtimestamp(START_MS / 1000, UTC))
    try:
        run = execute_workflow(workflow, workflow_input, handlers, subgraphs=subgraphs, clock=clock)
        while run.status in (RunStatus.INTERRUPTED, RunStatus.RUNNING):
            payload = None if run.interrupt is None else answer(run.interrupt.payload)
            if payload is None:
                due = next_due(run)
                assert due is not None and due > clock.now
                clock.now = due
            run = resume_workflow(workflow, run, handlers, resume_payload=payload, subgraphs=subgraphs, clock=clock)
    except ValueError as error:
        assert "unlucky" in str(error)
        return None
    return run


def trace_of(entries: list[dict[str, Any]]) -> Counter[str]:
    return Counter(
        repr(
            (
                e["frame_id"],
                e["node_id"],
                e["step_type"],
                {k: v for k, v in e["resolved_input"].items() if k != "active_count"},
                e["outcome"],
                e["next_node_id"],
                e["output"],
                e["state_changes"],
            )
        )
        for e in entries
    )


def compare(simulation: Simulation, record: RunRecord, expected: RunState | None) -> None:
    """Raises AssertionError where the run did not end as the in-memory engine says."""
    if expected is None:
        assert record.status == "failed"
        assert record.error is not None
        assert "unlucky" in str(record.error["message"])
        return
    assert (record.status, record.error) == ("completed", None)
    assert record.output == expected.output
    assert out_of_order(record.output["log"]) is None
    assert record.outcome == expected.outcome
    stored = [step.entry for step in simulation.store.trace(simulation.incarnation, 0, 100_000)]
    local = [
        {
            **{
                name: getattr(entry, name)
                for name in ("frame_id", "node_id", "step_type", "resolved_input", "outcome", "next_node_id", "output")
            },
            "state_changes": [{"path": path, "value": value} for path, value in entry.state_changes.items()],
        }
        for entry in expected.trace
    ]
    assert trace_of(stored) == trace_of(local)


HARSH = Faults(drop=0.1, double=0.1, crash=0.12, freeze=0.12, jump=0.08)
CRUEL = Faults(drop=0.1, double=0.1, crash=0.1, freeze=0.1, jump=0.08, late=0.2, tail=0.03, pause=0.05)
"""What is more, any call may be executed again at any later time, the store may lose its last writes, and somebody
pauses the run now and then."""


@pytest.mark.parametrize(("seed", "faults"), [(seed, (Faults(), HARSH, CRUEL)[seed % 3]) for seed in range(300)])
def test_a_random_workflow_under_faults_ends_like_the_sequential_engine(seed: int, faults: Faults) -> None:
    maker = FlowMaker(random.Random(seed))
    workflow, workflow_input = maker.make()
    workflow.validate_structure().raise_for_errors()
    expected = sequential(workflow, workflow_input, maker.children)

    simulation = Simulation(seed, workflow, workflow_input, faults, maker.children)
    record = simulation.run()

    compare(simulation, record, expected)
