"""Whether what a run committed is one history: the sequential engine, fed with the results that were committed.

Handlers give fresh values, so two executions of one visit never give the same. The run's trace says which result of
each visit was committed. The engine in memory executes the workflow once more and gets those results; each must
have been computed from the very payload, at the very place, that the engine gives to that visit. Then everything else
must be equal as well: output, outcome, steps, trace.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tests.support.patching import Patch, patched
from tests.support.random_flows import answer, note, out_of_order
from wf_core.errors import WorkflowStepLimitExceeded
from wf_core.models import Workflow
from wf_core.run_limits import RunLimits
from wf_core.run_state import RunState, RunStatus, RuntimeContext
from wf_core.runtime import PreparedSubgraph, engine, execute_workflow, next_due, resume_workflow
from wf_core.runtime.engine import build_program
from wf_worker.store.protocol import RunRecord

START_MS = 1_700_000_000_000
"""What time it is when a simulation begins; random workflows wait until a time shortly after."""

Note = Callable[[dict[str, Any], RuntimeContext], dict[str, Any]]

_PATCHING = threading.Lock()
"""A patch is the module's: two threads that patch and restore in turns would give each other's program to an engine."""


@dataclass
class MovableTime:
    """A clock for the in-memory engine."""

    now: datetime

    def __call__(self) -> datetime:
        return self.now


def widened(workflow: Workflow) -> Workflow:
    """The workflow with windows that take all items at once: a loop's items then begin in one step, as in the store."""
    document = workflow.model_dump(mode="json", by_alias=True)
    for node in document["nodes"]:
        if node["type"] == "foreach" and node["mode"] == "concurrent":
            node["concurrent"].update(max_active=1_000, max_outstanding=1_000)
    return Workflow.model_validate(document)


def sequential(
    workflow: Workflow,
    workflow_input: dict[str, Any],
    children: Mapping[str, Workflow],
    handler: Note = note,
    *,
    most: int = 5_000,
    now_ms: int = START_MS,
) -> RunState | str:
    """The in-memory engine's run, answered like the other one; the message of its error when it failed. ``most`` is its
    budget."""
    handlers = {"note": handler}
    subgraphs = {name: PreparedSubgraph(child, handlers) for name, child in children.items()}
    program = build_program(workflow, None, subgraphs)
    # Compiled once: the engine would do so anew with every answer.
    once = [Patch(engine, "build_program", lambda *_: program)]
    clock = MovableTime(datetime.fromtimestamp(now_ms / 1000, UTC))
    with _PATCHING, patched(once):
        try:
            return _driven(workflow, workflow_input, handlers, subgraphs, clock, RunLimits(max_steps=most))
        except (ValueError, WorkflowStepLimitExceeded) as error:
            return str(error)


def _driven(
    workflow: Workflow,
    workflow_input: dict[str, Any],
    handlers: Mapping[str, Note],
    subgraphs: Mapping[str, PreparedSubgraph[Any]],
    clock: MovableTime,
    limits: RunLimits,
) -> RunState:
    run = execute_workflow(workflow, workflow_input, handlers, subgraphs=subgraphs, clock=clock, limits=limits)
    while run.status in (RunStatus.INTERRUPTED, RunStatus.RUNNING):
        payload = None if run.interrupt is None else answer(run.interrupt.payload)
        if payload is None:
            due = next_due(run)
            assert due is not None and due > clock.now
            clock.now = due
        run = resume_workflow(workflow, run, handlers, resume_payload=payload, subgraphs=subgraphs, clock=clock)
    return run


def steps_of(run: RunState) -> int:
    """The steps that the store counts for what the engine in memory did: that one counts also each turn of a concurrent
    loop's controller. What is traced has a number; the start of a child, which is not, comes with the child's end."""
    children = sum(1 for entry in run.trace if entry.step_type == "subgraph")
    return len({entry.step_number for entry in run.trace}) + children


class Committed:
    """A handler that gives each visit what was committed for it."""

    def __init__(self, trace: Sequence[dict[str, Any]], *, mended: bool, whole: bool) -> None:
        self._mended = mended
        self._whole = whole
        self.raised = 0
        """Visits that failed. They took a step, too, and are not traced."""
        self._outputs: dict[tuple[str, str], deque[dict[str, Any]]] = defaultdict(deque)
        for entry in trace:
            if entry["step_type"] == "node":
                self._outputs[entry["frame_id"], entry["node_id"]].append(entry["output"])

    def __call__(self, payload: dict[str, Any], ctx: RuntimeContext) -> dict[str, Any]:
        outputs = self._outputs[ctx.frame_id, ctx.current_node_id]
        if not outputs:
            try:
                expected = note(payload, ctx, mended=self._mended)
            except ValueError:
                self.raised += 1
                raise
            assert not self._whole, f"I1: {ctx.current_node_id} in {ctx.frame_id} was never committed"
            return expected
        given = outputs.popleft()
        nonce = given["line"]["text"].rsplit(" ", 2)[1]
        expected = note(payload, ctx, nonce, mended=self._mended)
        assert given == expected, f"I3: of another history: {given}, where {expected} was to be"
        return given

    def left_over(self) -> list[str]:
        """Visits that were committed and that the sequential engine does not make."""
        return [f"{node} in {frame}" for (frame, node), outputs in self._outputs.items() if outputs]


def trace_of(entries: Sequence[dict[str, Any]]) -> Counter[str]:
    """The trace without its order, step numbers and window sizes, in which engines may differ."""
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


_SHOWN = ("frame_id", "node_id", "step_type", "resolved_input", "outcome", "next_node_id", "output")


def local_trace(run: RunState) -> list[dict[str, Any]]:
    """The trace of a run in memory, as workers write it."""
    return [
        {
            **{name: getattr(entry, name) for name in _SHOWN},
            "state_changes": [{"path": path, "value": value} for path, value in entry.state_changes.items()],
        }
        for entry in run.trace
    ]


def compare(
    record: RunRecord,
    trace: Sequence[dict[str, Any]],
    workflow: Workflow,
    workflow_input: dict[str, Any],
    children: Mapping[str, Workflow],
    *,
    mended: bool = False,
) -> None:
    """Raises AssertionError where the run did not end as the sequential engine says of the :func:`widened` workflow."""
    error = record.error or {}
    assert error.get("type") != "damaged", f"I8: {error}"
    committed = Committed(trace, mended=mended, whole=record.status == "completed")
    expected = sequential(workflow, workflow_input, children, committed)
    if isinstance(expected, str):
        assert record.status == "failed", f"I3: {record.status}, where the sequential engine fails: {expected}"
        assert "unlucky" in str(error["message"]), f"I3: failed of {error}, the sequential engine of {expected}"
        return
    steps = steps_of(expected) + committed.raised
    if steps > record.max_steps:
        assert record.status == "failed", f"I3: {record.status} with {record.max_steps} steps, where {steps} are needed"
        assert "max_steps" in str(error["message"]), f"I3: failed of {error}, not of its budget"
        return
    assert (record.status, record.error) == ("completed", None), f"I3: {record.status}: {record.error}"
    assert committed.left_over() == [], f"I3: committed and not to be: {committed.left_over()}"
    assert record.output == expected.output, f"I3: output {record.output}, not {expected.output}"
    assert out_of_order(record.output["log"]) is None
    assert record.outcome == expected.outcome
    assert record.steps_executed == steps, f"I3: {record.steps_executed} steps, sequentially {steps}"
    assert trace_of(trace) == trace_of(local_trace(expected)), "I3: the traces differ"
