"""The wait step: nothing happens until a time has come. The kernel has no clock: it says what to wait for."""

from __future__ import annotations

import math

from wf_core.analysis.graph import ELAPSED_OUTCOME
from wf_core.errors import WorkflowExecutionError
from wf_core.instants import parse_instant
from wf_core.models.steps import WaitNode
from wf_core.paths import GraphSourcePath, PathResolutionError
from wf_core.run_state import ExecutionFrame, Json
from wf_core.runtime.draft import Draft, trace_entry
from wf_core.runtime.flow import destination, move
from wf_core.runtime.transition import After, At, StepNumber, Wait


def begin(draft: Draft, frame: ExecutionFrame, step: WaitNode) -> None:
    """Works out the time and waits. The step counts now, and is traced when it is over."""
    due = After(math.ceil(step.for_seconds * 1000)) if step.for_seconds is not None else At(_until(draft, frame, step))
    number = draft.count()
    draft.put(frame)
    draft.add(Wait(frame.id, due, number))


def elapse(draft: Draft, frame: ExecutionFrame, step: WaitNode, number: StepNumber) -> str | None:
    """The time has come."""
    to = destination(draft, draft.plan(frame), frame, ELAPSED_OUTCOME)
    # Nobody changes what a waiting frame reads, so a path says now what it said when the wait began.
    waited: Json = {"for_seconds": step.for_seconds} if step.until is None else {"until": _text(draft, frame, step)}
    draft.trace(
        number,
        trace_entry(frame, "wait", resolved_input=waited, outcome=ELAPSED_OUTCOME, next_node_id=to.node_id),
    )
    return move(draft, frame, to, ELAPSED_OUTCOME)


def _until(draft: Draft, frame: ExecutionFrame, step: WaitNode) -> int:
    text = _text(draft, frame, step)
    if not isinstance(text, str):
        raise _not_a_time(step, f"found {'null' if text is None else type(text).__name__}")
    try:
        return parse_instant(text)
    except ValueError as error:
        raise _not_a_time(step, str(error)) from error


def _text(draft: Draft, frame: ExecutionFrame, step: WaitNode) -> Json:
    if not isinstance(step.until, GraphSourcePath):
        return step.until
    try:
        return draft.sources(frame).read(step.until)
    except PathResolutionError as error:
        raise WorkflowExecutionError(
            f"wait {step.id!r}: {error}", code="source_path_missing", path=f"nodes[{step.id}].until"
        ) from error


def _not_a_time(step: WaitNode, fault: str) -> WorkflowExecutionError:
    return WorkflowExecutionError(
        f"wait {step.id!r} needs a time at {step.until}: {fault}",
        code="wait_time_invalid",
        path=f"nodes[{step.id}].until",
        hint="write a time with its offset, such as 2030-01-31T09:00:00Z or 2030-01-31T10:00:00+01:00",
    )
