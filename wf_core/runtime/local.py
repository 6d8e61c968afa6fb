"""Transitions applied to a ``RunState``: what the store scripts do, for one process and one run in memory.

The queue is first in, first out; a frame about to pause goes to the front. Frames are kept after they end, so that a
finished run can be read whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from wf_core.errors import WorkflowExecutionError
from wf_core.run_state import (
    ROOT_FRAME_ID,
    ExecutionFrame,
    FrameStatus,
    Json,
    LineageState,
    RunState,
    RunStatus,
    TraceEntry,
    TraceLevel,
)
from wf_core.runtime.ops.foreach import loop_entry
from wf_core.runtime.scheduler import damaged, foreach_visits, item_frame, new_barrier
from wf_core.runtime.transition import (
    Activation,
    After,
    AppendWrites,
    Arrive,
    At,
    Block,
    CloseActivation,
    CloseScope,
    CommitFields,
    CompleteRun,
    FailRun,
    Offset,
    OpenActivation,
    OpenInterrupt,
    OpenScope,
    Place,
    PutFrame,
    Reach,
    RemoveFrame,
    Retry,
    StepNumber,
    Traced,
    Transition,
    Wait,
)
from wf_core.tokens import END


def apply(
    run: RunState,
    transition: Transition,
    *,
    now_ms: Callable[[], int] | None = None,
    trace: TraceLevel = "full",
) -> None:
    """Applies every operation in order. ``now_ms`` is asked by those that wait for a time from now."""
    base = run.steps_executed
    run.steps_executed += transition.steps
    new: set[str] = set()

    def number(step: StepNumber) -> int:
        return base + step.n if isinstance(step, Offset) else step

    for operation in transition.operations:
        match operation:
            case PutFrame(frame):
                if frame.id not in run.frames:
                    new.add(frame.id)
                put_frame(run, frame)
            case Place(frame_id, _, front):
                mark_frame_pending(run, frame_id, front=front, is_new=frame_id in new)
            case Block(frame_id, child_ids):
                if child_ids:
                    block_frame_on_children(run, frame_id, child_ids)
            case RemoveFrame():
                _end_frame(run, operation)
            case Reach():
                pass  # a run in memory is not begun anew from the middle
            case OpenScope(scope, state):
                run.scopes[scope.id] = replace(scope, committed_state=state)
            case CloseScope():
                pass  # kept, so that a finished run can be read whole
            case AppendWrites(lineage_id, writes):
                run.lineages[lineage_id].writes.extend(writes)
            case CommitFields(scope_id, fields, _):
                run.scopes[scope_id].committed_state.update(fields)
            case OpenActivation(activation):
                _open(run, activation, number(activation.step), trace)
            case Arrive():
                _arrive(run, operation)
            case CloseActivation():
                pass  # the controller's table entry was closed with its frame
            case OpenInterrupt(frame_id, request, step, _):
                request.step_number = number(step)
                run.frames[frame_id].status = FrameStatus.INTERRUPTED
                run.status, run.interrupt = RunStatus.INTERRUPTED, request
            case Wait(frame_id, due, step):
                wait(run.frames[frame_id], due, number(step), now_ms)
            case Retry(frame_id):
                mark_frame_pending(run, frame_id)
            case CompleteRun(outcome, output):
                run.status, run.outcome, run.output = RunStatus.COMPLETED, outcome, output
                run.current_node_id = END
                run.frames[ROOT_FRAME_ID].metadata["workflow_outcome"] = outcome
            case FailRun(_, _, error, _):
                run.status, run.error = RunStatus.FAILED, error.message
            case Traced(entry, step):
                _record(run, entry, number(step), trace)


def _record(run: RunState, entry: TraceEntry, number: int, level: TraceLevel) -> None:
    if level == "off":
        return
    if level == "summary":
        entry = replace(entry, resolved_input={}, output={}, state_changes={})
    entry.step_number = number or None  # 0: an interrupt of a run from before steps were numbered
    run.trace.append(entry)


def put_frame(run: RunState, frame: ExecutionFrame) -> None:
    """Stores a frame; a new one brings its lineage."""
    if frame.id not in run.frames and frame.lineage_id not in run.lineages:
        run.lineages[frame.lineage_id] = LineageState(frame.lineage_id, frame.scope_id, frame.parent_lineage_id)
    run.frames[frame.id] = frame


# ---- the ready queue


def enqueue_frame(run: RunState, frame_id: str, *, front: bool = False) -> None:
    """Queues a pending frame, moving it when it is queued already."""
    frame = run.frames[frame_id]
    if frame.status is not FrameStatus.PENDING:
        raise WorkflowExecutionError(f"cannot enqueue frame {frame_id!r}: it is {frame.status.value}")
    if frame_id in run.ready_frame_ids:
        run.ready_frame_ids.remove(frame_id)
    _queue(run, frame_id, front=front)


def mark_frame_pending(run: RunState, frame_id: str, *, front: bool = False, is_new: bool = False) -> None:
    """The frame is due: pending, without a block reason, queued."""
    frame = run.frames[frame_id]
    frame.metadata.pop("blocked_on", None)
    if frame.status is FrameStatus.PENDING and not is_new:
        enqueue_frame(run, frame_id, front=front)
        return
    # Only pending frames are queued, so this one is not, and a queue of many thousand items need not be searched.
    frame.status = FrameStatus.PENDING
    _queue(run, frame_id, front=front)


def _queue(run: RunState, frame_id: str, *, front: bool) -> None:
    if front:
        run.ready_frame_ids.insert(0, frame_id)
    else:
        run.ready_frame_ids.append(frame_id)


def select_next_frame(run: RunState) -> ExecutionFrame | None:
    """Takes the next pending frame off the queue and makes it the current one; None when the queue is empty."""
    if not run.ready_frame_ids:
        return None
    frame = run.frames[run.ready_frame_ids.pop(0)]
    if frame.status is not FrameStatus.PENDING:
        raise WorkflowExecutionError(f"cannot select frame {frame.id!r}: it is {frame.status.value}")
    frame.status = FrameStatus.RUNNING
    run.current_frame_id = frame.id
    run.sync_from_current_frame()
    return frame


def block_frame_on_children(run: RunState, frame_id: str, child_ids: Sequence[str]) -> None:
    """The frame waits for children; waiting for none would be for ever, and is refused."""
    if not child_ids:
        raise WorkflowExecutionError(f"cannot block frame {frame_id!r} on an empty child set")
    frame = run.frames[frame_id]
    frame.status = FrameStatus.BLOCKED
    frame.metadata["blocked_on"] = {"type": "child_frames", "frame_ids": list(child_ids)}


def _wake_parent(run: RunState, child: ExecutionFrame) -> None:
    parent = run.frames.get(child.parent_frame_id or "")
    if parent is None or parent.status is not FrameStatus.BLOCKED:
        return
    blocked_on: Any = parent.metadata.get("blocked_on")
    if not isinstance(blocked_on, dict) or not isinstance(blocked_on.get("frame_ids"), list):  # pyright: ignore[reportUnknownMemberType]
        raise damaged(f"malformed blocked_on of frame {parent.id!r}", frame_id=parent.id)
    if child.id in blocked_on["frame_ids"]:
        mark_frame_pending(run, parent.id)


def _end_frame(run: RunState, operation: RemoveFrame) -> None:
    frame = run.frames[operation.frame_id]
    frame.status = operation.status
    if operation.finished_at is not None:
        frame.node_id = frame.finished_at_node_id = operation.finished_at
    if operation.outcome is not None:
        frame.metadata["workflow_outcome"] = operation.outcome
    if operation.error is not None:
        frame.metadata["error"] = operation.error.message
        frame.metadata["error_type"] = operation.error.error_type
        frame.metadata["failed_at_node_id"] = operation.error.node_id


# ---- frames that wait for a time


def wait(frame: ExecutionFrame, due: After | At, number: int, now_ms: Callable[[], int] | None) -> None:
    """The frame waits for a time, under the step number that its trace entry will have."""
    if isinstance(due, After) and now_ms is None:
        raise WorkflowExecutionError("nobody here can say what time it is", code="clock_missing")
    at = due.ms if isinstance(due, At) or now_ms is None else now_ms() + due.ms
    frame.status, frame.step_number = FrameStatus.BLOCKED, number
    frame.metadata["blocked_on"] = {"type": "time", "due_ms": at}


def waiting_frames(run: RunState) -> Iterator[tuple[int, str]]:
    """When each frame that waits for a time is due, ms since the epoch, and its id; in the order of the frames."""
    for frame in run.frames.values():
        blocked_on: Any = frame.metadata.get("blocked_on")
        if frame.status is FrameStatus.BLOCKED and isinstance(blocked_on, dict) and "due_ms" in blocked_on:
            yield timer_of(frame)


def timer_of(frame: ExecutionFrame) -> tuple[int, str]:
    """When a waiting frame is due, ms since the epoch, and its id."""
    due_ms: Any = frame.metadata["blocked_on"]["due_ms"]
    if type(due_ms) is not int:
        raise damaged(f"malformed blocked_on of frame {frame.id!r}", frame_id=frame.id)
    return due_ms, frame.id


def wake(run: RunState, frame_id: str) -> ExecutionFrame:
    """The time has come: the frame is the current one."""
    frame = run.frames[frame_id]
    frame.status = FrameStatus.RUNNING
    del frame.metadata["blocked_on"]
    run.current_frame_id = frame_id
    run.sync_from_current_frame()
    return frame


# ---- the window of a concurrent foreach


def barrier_of(controller: ExecutionFrame, node_id: str) -> dict[str, Json]:
    """The live barrier in the controller's metadata, to be changed in place."""
    visits = foreach_visits(controller, node_id)
    if visits.barrier is None:
        raise damaged(f"foreach {node_id!r} of frame {controller.id!r} has no barrier", frame_id=controller.id)
    return visits.barrier


def _open(run: RunState, activation: Activation, number: int, trace: TraceLevel) -> None:
    controller = run.frames[activation.frame_id]
    controller.metadata["foreach_activations"][activation.node_id]["active"]["barrier"] = new_barrier("concurrent")
    admit(run, activation, number, trace=trace)


def admit(run: RunState, activation: Activation, number: int, *, trace: TraceLevel = "full") -> None:
    """Fills the window with the next items, one ``loop`` trace entry each, and blocks the controller on what is out."""
    controller = run.frames[activation.frame_id]
    barrier = barrier_of(controller, activation.node_id)
    active, outstanding = barrier["active_frame_ids"], barrier["outstanding_frame_ids"]
    while (
        barrier["next_index"] < len(activation.items)
        and len(active) < activation.max_active
        and len(outstanding) < activation.max_outstanding
    ):
        index: int = barrier["next_index"]
        frame = item_frame(
            activation=activation.id,
            index=index,
            item=activation.items[index],
            foreach_id=activation.node_id,
            alias=activation.alias,
            body=activation.body_node_id,
            controller_id=controller.id,
            scope_id=activation.scope_id,
            lineage_id=activation.lineage_id,
        )
        if frame.id in run.frames:
            raise WorkflowExecutionError(f"duplicate frame id {frame.id!r}", code="damaged")
        entry = loop_entry(
            controller,
            activation.node_id,
            activation.items[index],
            index,
            activation.body_node_id,
            active_count=len(active),
        )
        _record(run, entry, number, trace)
        put_frame(run, frame)
        _queue(run, frame.id, front=False)
        active.append(frame.id)
        outstanding.append(frame.id)
        barrier["next_index"] = index + 1
    block_frame_on_children(run, controller.id, outstanding)


def _arrive(run: RunState, operation: Arrive) -> None:
    """An item's result: kept once, by index; the controller wakes to settle it."""
    frame = run.frames[operation.frame_id]
    controller = run.frames[frame.parent_frame_id or ""]
    barrier = barrier_of(controller, frame.metadata["foreach_node_id"])
    pending = barrier["pending_results"]
    record = {
        "index": operation.index,
        "frame_id": operation.frame_id,
        "status": "succeeded" if operation.error is None else "failed",
        "lineage_id": operation.lineage_id,
        "error": None if operation.error is None else operation.error.as_record(),
    }
    known = pending.get(str(operation.index))
    if known is not None and (known["frame_id"], known["lineage_id"]) != (operation.frame_id, operation.lineage_id):
        raise damaged(
            f"the result of index {operation.index} belongs to frame {known['frame_id']!r}", frame_id=controller.id
        )
    pending[str(operation.index)] = record
    for live in (barrier["active_frame_ids"], barrier["outstanding_frame_ids"]):
        if operation.frame_id not in live:
            raise damaged(f"frame {operation.frame_id!r} is not active in its barrier", frame_id=controller.id)
        live.remove(operation.frame_id)
    _wake_parent(run, frame)


# ---- at rest


def resolve_no_ready_frames(run: RunState) -> RunStatus:
    """What an empty queue means. A run that can neither move nor be answered is an error, with all its frames named."""
    frames = run.frames.values()
    if run.status is RunStatus.INTERRUPTED:
        return RunStatus.INTERRUPTED
    if any(f.parent_frame_id is None and f.status is FrameStatus.COMPLETED for f in frames):
        return RunStatus.COMPLETED
    if any(f.status is FrameStatus.FAILED for f in frames):
        return RunStatus.FAILED
    if frames and all(f.status is FrameStatus.COMPLETED for f in frames):
        return RunStatus.COMPLETED
    summary = f"ready_frame_ids={run.ready_frame_ids!r} current_frame_id={run.current_frame_id!r} " + " ".join(
        f"{f.id}:{f.status.value}@{f.node_id}" for f in frames
    )
    if any(f.status is FrameStatus.BLOCKED for f in frames):
        raise WorkflowExecutionError(f"the run is deadlocked: {summary}", code="deadlocked")
    raise WorkflowExecutionError(f"no ready frames: {summary}", code="no_ready_frames")


def controller_can_finish(run: RunState, controller: ExecutionFrame, node_id: str, items: int) -> bool:
    """Whether every item was admitted and has a result."""
    barrier = barrier_of(controller, node_id)
    return barrier["next_index"] >= items and not barrier["outstanding_frame_ids"]
