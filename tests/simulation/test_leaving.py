"""Random workflows that are left somewhere in the middle: what goes on from there ends as the whole run would have."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.support.engines import trace_multiset
from tests.support.history import MovableTime, sequential
from tests.support.one_run import OneRun, compare
from tests.support.random_flows import FlowMaker, answer, note
from wf_core.models import Workflow
from wf_core.run_codec import dump_run_state, load_run_state
from wf_core.run_export import FORMAT, load_exported_run
from wf_core.run_state import RunState, RunStatus
from wf_core.runtime import PreparedSubgraph, next_due, resume_workflow
from wf_worker.store.protocol import NewCopy

MOST_STEPS = 150
"""Loops over what other loops wrote grow fast: larger workflows are made anew."""


class Left:
    """A random run that was left after a random number of steps."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        while True:
            self.maker = FlowMaker(rng)
            self.workflow, self.workflow_input = self.maker.make()
            self.expected = sequential(self.workflow, self.workflow_input, self.maker.children, most=MOST_STEPS)
            if not isinstance(self.expected, str) or "unlucky" in self.expected:
                break
        self.simulation = OneRun(seed, self.workflow, self.workflow_input, self.maker.children)
        self.simulation.run_for(random.Random(seed).randrange(2, 24))

    def copy(self) -> NewCopy:
        return NewCopy("copy", self.simulation.store.keys.incarnation("copy", "copy"), "copy")


def exported(simulation: OneRun) -> list[str]:
    """The run as the lines of an export."""
    record = simulation.store.inspect(simulation.incarnation, with_input=True)
    assert record is not None
    view = {
        "workflow": record.workflow,
        "status": record.status,
        "input": record.workflow_input,
        "outcome": record.outcome,
        "output": record.output,
        "error": record.error,
        "limits": {"max_steps": record.max_steps},
        "steps_executed": record.steps_executed,
    }
    lines: list[dict[str, Any]] = [{"kind": "header", "format": FORMAT, "run": view}]
    lines += simulation.store.export(simulation.incarnation)
    return [json.dumps(line) for line in [*lines, {"kind": "end", "lines": len(lines) + 1}]]


def in_memory(workflow: Workflow, run: RunState, children: dict[str, Workflow], now_ms: int) -> RunState | None:
    """The run at its end, answered as the other ones are; None when it failed."""
    handlers = {"note": note}
    subgraphs = {name: PreparedSubgraph(child, handlers) for name, child in children.items()}
    clock = MovableTime(datetime.fromtimestamp(now_ms / 1000, UTC))
    try:
        while run.status is not RunStatus.COMPLETED:
            payload = None if run.interrupt is None else answer(run.interrupt.payload)
            run = resume_workflow(workflow, run, handlers, resume_payload=payload, subgraphs=subgraphs, clock=clock)
            due = next_due(run)
            if run.status is RunStatus.RUNNING and due is not None:
                clock.now = max(clock.now, due)
    except ValueError as error:
        assert "unlucky" in str(error)
        return None
    return run


@pytest.mark.parametrize("seed", range(80))
def test_a_fork_of_a_run_that_was_left_ends_like_the_sequential_engine(seed: int) -> None:
    left = Left(seed)
    if left.simulation.record.status == "completed":
        return

    left.simulation.go_on_as(left.simulation.store.fork(left.simulation.incarnation, left.copy()))

    compare(left.simulation, left.simulation.run(), left.expected)


@pytest.mark.parametrize("seed", range(80))
def test_a_rerun_from_any_step_that_was_reached_ends_like_the_sequential_engine(seed: int) -> None:
    left = Left(seed)
    store, source = left.simulation.store, left.simulation.incarnation
    positions = [
        int(slot[1:])
        for slot, _ in zip(*[iter(store.records.scan(source, "hash", "j", 0, 10_000)[0])] * 2, strict=True)
        if slot.startswith(b"@")
    ]
    step = left.workflow.nodes[random.Random(seed).choice(sorted(positions))].id

    left.simulation.go_on_as(store.rerun(source, step, left.copy()))
    record = left.simulation.run()

    assert record.status == ("failed" if isinstance(left.expected, str) else "completed")
    if not isinstance(left.expected, str):
        assert (record.outcome, record.output) == (left.expected.outcome, left.expected.output)


@pytest.mark.parametrize("seed", range(80))
def test_an_export_of_a_run_that_was_left_ends_in_memory_like_the_sequential_engine(seed: int) -> None:
    left = Left(seed)
    lines = exported(left.simulation)

    run = load_exported_run(lines)

    assert load_run_state(dump_run_state(run)) == run
    if run.status is RunStatus.FAILED:
        assert isinstance(left.expected, str)
        return
    ended = in_memory(left.workflow, run, left.maker.children, left.simulation.now_ms)
    if isinstance(left.expected, str) or ended is None:
        assert isinstance(left.expected, str)
        assert ended is None
        return
    assert (ended.outcome, ended.output, ended.state) == (
        left.expected.outcome,
        left.expected.output,
        left.expected.state,
    )
    assert trace_multiset(replace(ended)) == trace_multiset(left.expected)
