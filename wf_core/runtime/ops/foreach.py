"""The foreach step: open a visit, go from item to item, close it.

A serial visit is one chain of frames: its progress lies in the controller's metadata. A concurrent one is opened
here and finished here; in between the store admits items and takes arrivals, so that many workers need not agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from wf_core.errors import WorkflowExecutionError
from wf_core.models.steps import ForeachNode
from wf_core.paths import PathResolutionError, StatePath
from wf_core.plan import Plan, handler_name
from wf_core.run_state import ExecutionFrame, Json
from wf_core.runtime.barriers import replay
from wf_core.runtime.draft import Draft, check_nesting, trace_entry
from wf_core.runtime.flow import Destination, destination, move
from wf_core.runtime.patches import Patch, stage
from wf_core.runtime.scheduler import (
    ForeachVisits,
    activation_id,
    damaged,
    foreach_visits,
    item_frame,
    new_barrier,
    with_visit,
)
from wf_core.runtime.transition import (
    Activation,
    Block,
    CloseActivation,
    ItemResult,
    OpenActivation,
    Place,
    Purpose,
    StepNumber,
)

MAX_ITEMS = 1_000_000
"""Items of one foreach."""


def dispatch(draft: Draft, frame: ExecutionFrame, step: ForeachNode, *, inline_items: int | None) -> str | None:
    """What the controller does when the walk reaches it, or comes back to it from a serial item.

    ``inline_items`` is how long a list may be to open a concurrent visit inside this transition; a longer one is
    opened by a call of its own. None opens any.
    """
    visits = foreach_visits(frame, step.id)
    if visits.mode is not None and visits.mode != step.mode:
        raise mode_changed(frame, step, visits)
    if step.mode == "serial":
        return _serial(draft, frame, step, visits)
    if visits.active_id is not None:
        raise damaged(
            f"concurrent foreach {step.id!r} of frame {frame.id!r} was entered while its visit is open",
            frame_id=frame.id,
        )
    check_nesting(draft, frame)
    items = read_items(draft, frame, step)
    if not items:
        return _empty(draft, frame, step, visits)
    if inline_items is not None and len(items) > inline_items:
        draft.put(frame)
        draft.add(Place(frame.id, Purpose.OPEN))
        return None
    return open_concurrent(draft, frame, step, visits, items)


def mode_changed(frame: ExecutionFrame, step: ForeachNode, visits: ForeachVisits) -> WorkflowExecutionError:
    """The error for a visit that goes on in another mode than it began in."""
    return damaged(
        f"foreach {step.id!r} of frame {frame.id!r} began in mode {visits.mode!r}, the workflow says {step.mode!r}",
        frame_id=frame.id,
    )


def read_items(draft: Draft, frame: ExecutionFrame, step: ForeachNode) -> list[Any]:
    """The list behind ``over``. A missing path, a null or anything else that is no list is an error, never empty."""
    try:
        value = draft.sources(frame).read(step.over)
    except PathResolutionError as error:
        raise WorkflowExecutionError(
            f"foreach {step.id!r}: {error}", code="source_path_missing", path=f"nodes[{step.id}].over"
        ) from error
    if not isinstance(value, list):
        raise WorkflowExecutionError(
            f"foreach {step.id!r} needs a list at {step.over}, "
            f"found {'null' if value is None else type(value).__name__}",
            code="foreach_source_not_a_list",
            path=f"nodes[{step.id}].over",
        )
    items = cast("list[Any]", value)
    if len(items) > MAX_ITEMS:
        raise WorkflowExecutionError(
            f"foreach {step.id!r} has {len(items)} items, the limit is {MAX_ITEMS}",
            code="foreach_too_large",
            path=f"nodes[{step.id}].over",
        )
    return items


# ---- serial


def _serial(draft: Draft, frame: ExecutionFrame, step: ForeachNode, visits: ForeachVisits) -> str | None:
    plan = draft.plan(frame)
    if visits.active_id is None:
        check_nesting(draft, frame)
    items = read_items(draft, frame, step)
    if visits.active_id is None:
        active_id, sequence, barrier = (
            activation_id(frame.id, step.id, visits.next_sequence),
            visits.next_sequence + 1,
            new_barrier("serial"),
        )
    else:
        if visits.barrier is None:
            raise damaged(f"serial foreach {step.id!r} of frame {frame.id!r} has no barrier", frame_id=frame.id)
        active_id, sequence, barrier = visits.active_id, visits.next_sequence, visits.barrier
    index: int = barrier["next_index"]
    if index >= len(items):
        return _serial_done(draft, plan, frame, step, replace(visits, next_sequence=sequence), barrier, len(items))
    body = plan.route(step.id, "loop")
    number = draft.count()
    item = item_frame(
        activation=active_id,
        index=index,
        item=items[index],
        foreach_id=step.id,
        alias=step.as_,
        body=body,
        controller_id=frame.id,
        scope_id=frame.scope_id,
        lineage_id=frame.lineage_id,
    )
    if draft.frame(item.id) is not None:
        raise damaged(f"duplicate frame id {item.id!r}", frame_id=item.id)
    progress = {**barrier, "next_index": index + 1, "active_frame_ids": [item.id], "outstanding_frame_ids": [item.id]}
    draft.put(with_visit(frame, step.id, next_sequence=sequence, active={"id": active_id, "barrier": progress}))
    draft.put(item)
    draft.add(Block(frame.id, (item.id,)))
    draft.trace(number, loop_entry(frame, step.id, item.metadata["loop_item"], index, body))
    return item.id


def _serial_done(
    draft: Draft,
    plan: Plan,
    frame: ExecutionFrame,
    step: ForeachNode,
    visits: ForeachVisits,
    barrier: dict[str, Json],
    count: int,
) -> str | None:
    pending: dict[str, Any] = barrier["pending_results"]
    errors: list[Json] = [pending[key]["error"] for key in sorted(pending, key=int)]
    patch = None
    if step.item_error.collect_to is not None:
        patch = stage(plan, [(step.item_error.collect_to, errors)], draft.state(frame))
    outcome = "completed_with_errors" if errors else "done"
    return _close(draft, frame, step, visits, outcome, patch, {"count": count, "index": barrier["next_index"]})


# ---- concurrent


def open_concurrent(
    draft: Draft, frame: ExecutionFrame, step: ForeachNode, visits: ForeachVisits, items: Sequence[Json]
) -> None:
    """Opens a visit: one step of the budget. The store admits the items."""
    number = draft.count()
    active_id = activation_id(frame.id, step.id, visits.next_sequence)
    draft.put(with_visit(frame, step.id, next_sequence=visits.next_sequence + 1, active={"id": active_id}))
    draft.add(Block(frame.id))
    draft.add(OpenActivation(activation(draft.plan(frame), frame, step, active_id, items, number)))


def activation(
    plan: Plan, frame: ExecutionFrame, step: ForeachNode, active_id: str, items: Sequence[Json], number: StepNumber
) -> Activation:
    """All that the store needs to make item frames of this visit."""
    if step.concurrent is None:
        raise damaged(f"concurrent foreach {step.id!r} has no concurrent policy", frame_id=frame.id)
    body = plan.route(step.id, "loop")
    return Activation(
        id=active_id,
        frame_id=frame.id,
        node_id=step.id,
        alias=step.as_,
        scope_id=frame.scope_id,
        lineage_id=frame.lineage_id,
        items=items,
        max_active=step.concurrent.max_active,
        max_outstanding=step.concurrent.max_outstanding,
        interrupt=step.concurrent.interrupt,
        body_node_id=body,
        body_purpose=Purpose.WALK if handler_name(plan.step(body)) is None else Purpose.STEP,
        step=number,
    )


def _empty(draft: Draft, frame: ExecutionFrame, step: ForeachNode, visits: ForeachVisits) -> str | None:
    """A list without items is done at once: one step, no frames."""
    opened = with_visit(
        frame,
        step.id,
        next_sequence=visits.next_sequence + 1,
        active={"id": activation_id(frame.id, step.id, visits.next_sequence)},
    )
    return _finish(draft, opened, step, foreach_visits(opened, step.id), (), close=False)


def finish(draft: Draft, frame: ExecutionFrame, step: ForeachNode) -> str | None:
    """Every item has a result: replay the barrier, close the visit, go on."""
    visits = foreach_visits(frame, step.id)
    if visits.active_id is None:
        raise damaged(f"foreach {step.id!r} of frame {frame.id!r} finishes without an open visit", frame_id=frame.id)
    results = draft.results(frame, step.id, visits.active_id)
    for position, result in enumerate(results):
        if result.index != position:
            raise damaged(
                f"foreach {step.id!r} of frame {frame.id!r}: no result for item {position}", frame_id=frame.id
            )
    return _finish(draft, frame, step, visits, results, close=True)


def _finish(
    draft: Draft,
    frame: ExecutionFrame,
    step: ForeachNode,
    visits: ForeachVisits,
    results: Sequence[ItemResult],
    *,
    close: bool,
) -> str | None:
    plan = draft.plan(frame)
    errors: list[Json] = [result.error.as_record() for result in results if result.error is not None]
    collect: tuple[StatePath, list[Json]] | None = None
    if step.item_error.collect_to is not None:
        collect = (step.item_error.collect_to, errors)
    patch = replay(plan, [result for result in results if result.error is None], draft.state(frame), collect=collect)
    outcome = "completed_with_errors" if errors else "done"
    summary = {
        "count": len(results),
        "index": len(results),
        "committed_items": len(results) - len(errors),
        "failed_items": len(errors),
    }
    closed = CloseActivation(visits.active_id, frame.id, step.id) if close and visits.active_id is not None else None
    return _close(draft, frame, step, visits, outcome, patch, summary, closed)


def _close(
    draft: Draft,
    frame: ExecutionFrame,
    step: ForeachNode,
    visits: ForeachVisits,
    outcome: str,
    patch: Patch | None,
    summary: dict[str, Json],
    closed: CloseActivation | None = None,
) -> str | None:
    """The visit ends before the outgoing edge is followed; its sequence stays, so that a later visit gets new ids."""
    to: Destination = destination(draft, draft.plan(frame), frame, outcome)
    number = draft.count()
    changes = draft.write(frame, patch) if patch is not None else {}
    draft.trace(
        number,
        trace_entry(
            frame, "foreach", resolved_input=summary, outcome=outcome, next_node_id=to.node_id, changes=changes
        ),
    )
    if closed is not None:
        draft.add(closed)
    # Looked up again: a failed item may have changed the controller's body in this very walk.
    controller = draft.require_frame(frame.id, frame.id)
    controller = with_visit(controller, step.id, next_sequence=visits.next_sequence, active=None)
    controller = replace(controller, metadata={k: v for k, v in controller.metadata.items() if k != "blocked_on"})
    draft.put(controller)
    return move(draft, controller, to, outcome)


def loop_entry(controller: ExecutionFrame, node_id: str, item: Json, index: int, body: str, **more: Json) -> Any:
    """The trace entry of an admission."""
    entry = trace_entry(
        controller, "foreach", resolved_input={"item": item, "index": index, **more}, outcome="loop", next_node_id=body
    )
    entry.node_id = node_id
    return entry
