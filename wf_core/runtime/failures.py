"""What an exception in a step means: a failed run, or a failed item that its foreach takes in."""

from __future__ import annotations

from typing import Final

from wf_core.errors import WfError, WorkflowExecutionError, WorkflowStepLimitExceeded
from wf_core.models.steps import ForeachNode
from wf_core.run_state import ExecutionFrame, FrameStatus
from wf_core.runtime.draft import Draft, open_visit_mode
from wf_core.runtime.scheduler import ForeachIterationMetadata, damaged, foreach_visits, with_visit
from wf_core.runtime.slice import loaded
from wf_core.runtime.starting import purpose_at
from wf_core.runtime.transition import Arrive, FailRun, ItemError, Purpose, RemoveFrame, RunError

_FATAL: Final = frozenset({"damaged", "stale_activation"})


def take_failure(draft: Draft, frame: ExecutionFrame, error: Exception) -> str | None:
    """The policy of the frame's immediate foreach decides. Gives the frame that the walk goes on with, if any.

    Damaged state and an exhausted budget are nobody's item: they fail the run.
    """
    try:
        iteration = None if is_fatal(error) else ForeachIterationMetadata.from_frame(frame)
        if iteration is not None:
            owner = draft.plan(frame).step(iteration.foreach_node_id)
            if not isinstance(owner, ForeachNode):
                raise damaged(f"frame {frame.id!r} belongs to {owner.id!r}, which is no foreach", frame_id=frame.id)
            if owner.item_error.action != "fail":
                return _take_item(draft, frame, iteration, error)
    except WfError as damage:  # nobody can say whose item this is, so no policy can take it in
        damage.__cause__ = error
        error = damage
    fail_run(draft, frame, error)
    return None


def fail_run(draft: Draft, frame: ExecutionFrame, error: Exception) -> None:
    """The run fails at this frame."""
    draft.error = error
    draft.add(FailRun(frame.id, failure_order(draft, frame), run_error(error, frame), _again(draft, frame)))


def _again(draft: Draft, frame: ExecutionFrame) -> Purpose:
    """What the frame is due for should the run go on: the step at which it stands, or the end of its open foreach."""
    try:
        step = draft.plan(frame).step(frame.node_id)
        concurrent = isinstance(step, ForeachNode) and step.mode == "concurrent"
        is_open = concurrent and foreach_visits(frame, step.id).active_id is not None
    except WfError:  # damaged: nobody goes on from here
        return Purpose.WALK
    return Purpose.FINISH if is_open else purpose_at(step)


def is_fatal(error: BaseException) -> bool:
    """Whether no foreach policy may handle the error."""
    return isinstance(error, WorkflowStepLimitExceeded) or (isinstance(error, WfError) and error.code in _FATAL)


def run_error(error: BaseException, frame: ExecutionFrame) -> RunError:
    """The record of a failure: the engine's own errors by code, a handler's by class name."""
    kind = error.code if isinstance(error, WfError) else type(error).__name__
    return RunError(kind, error_text(error), frame.node_id, frame.id)


def error_text(error: BaseException) -> str:
    """What an exception says, as text that can be stored: a lone surrogate is shown by its escape."""
    return str(error).encode(errors="backslashreplace").decode()


def failure_order(draft: Draft, frame: ExecutionFrame) -> tuple[int, ...]:
    """The indexes of the items around the frame, outermost first: which failure counts as the first."""
    indexes: list[int] = []
    current: ExecutionFrame | None = frame
    seen: set[str] = set()
    while current is not None and current.id not in seen:
        seen.add(current.id)
        index = current.metadata.get("loop_index")
        if type(index) is int:
            indexes.append(index)
        current = None if current.parent_frame_id is None else draft.frame(current.parent_frame_id)
    return tuple(reversed(indexes))


def _take_item(
    draft: Draft, frame: ExecutionFrame, iteration: ForeachIterationMetadata, error: Exception
) -> str | None:
    record = ItemError(
        iteration.loop_index,
        frame.id,
        frame.node_id,
        type(error).__name__,
        error_text(error),
        loaded(iteration.loop_item),
    )
    controller = draft.require_frame(frame.parent_frame_id, frame.id)
    concurrent = open_visit_mode(controller, iteration) == "concurrent"
    if concurrent:
        draft.add(Arrive(iteration.activation_id, iteration.loop_index, frame.id, frame.lineage_id, record))
    draft.remove(RemoveFrame(frame.id, FrameStatus.FAILED, error=record))
    if concurrent:
        return None
    visits = foreach_visits(controller, iteration.foreach_node_id)
    if visits.barrier is None or visits.active_id is None:
        raise WorkflowExecutionError(
            f"serial foreach {iteration.foreach_node_id!r} lost its barrier",
            code="damaged",
            path=f"frames[{controller.id}]",
        )
    pending = {
        **visits.barrier["pending_results"],
        str(iteration.loop_index): {
            "index": iteration.loop_index,
            "frame_id": frame.id,
            "status": "failed",
            "lineage_id": frame.lineage_id,
            "error": record.as_record(),
        },
    }
    active = {"id": visits.active_id, "barrier": {**visits.barrier, "pending_results": pending}}
    draft.put(with_visit(controller, iteration.foreach_node_id, next_sequence=visits.next_sequence, active=active))
    return controller.id
