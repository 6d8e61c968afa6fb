"""The interrupt step: ask, wait, take one answer."""

from __future__ import annotations

from typing import Any

from wf_core.analysis.graph import EXPIRED_OUTCOME
from wf_core.errors import WorkflowExecutionError
from wf_core.expressions import copy_json, resolve_bindings
from wf_core.models.steps import InterruptNode
from wf_core.plan import Plan
from wf_core.run_state import SUBGRAPH_FRAME, ExecutionFrame, InterruptRequest, InterruptRoute, Json
from wf_core.runtime.draft import Draft, trace_entry
from wf_core.runtime.flow import Destination, destination, move
from wf_core.runtime.patches import build_patch
from wf_core.runtime.transition import After, OpenInterrupt, StepNumber
from wf_core.schema_checks import SchemaCheck


def open_interrupt(draft: Draft, frame: ExecutionFrame, step: InterruptNode) -> None:
    """Resolves and checks the request and waits. A request that does not fit its schema fails, it does not pause."""
    plan = draft.plan(frame)
    payload = resolve_bindings(step.request, draft.sources(frame), label=f"interrupt {step.id!r}")
    plan.interrupts[step.id].request.check(payload, f"interrupt request for {step.id}")
    number = draft.count()
    shown_frame, shown_node, route = _place(draft, frame)
    request = InterruptRequest(
        id=f"interrupt:{shown_node}",
        frame_id=shown_frame,
        node_id=shown_node,
        kind=step.kind,
        payload=copy_json(payload),
        route=route,
        outcomes=[outcome for outcome in step.outcomes if step.expires_seconds is None or outcome != EXPIRED_OUTCOME],
        request_schema=copy_json(step.request_schema),
        resume_schema=copy_json(step.resume_schema),
        typed=step.has_explicit_contract,
    )
    draft.put(frame)
    expires = None if step.expires_seconds is None else After(1000 * step.expires_seconds)
    draft.add(OpenInterrupt(frame.id, request, number, expires))
    draft.trace(
        number,
        trace_entry(
            frame,
            "interrupt",
            resolved_input=payload,
            outcome="interrupt",
            next_node_id=step.id,
            output=copy_json(payload),
        ),
    )


def _place(draft: Draft, frame: ExecutionFrame) -> tuple[str, str, InterruptRoute | None]:
    """Frame and step as people see them: inside a child scope, those of the nearest enclosing boundary."""
    current = frame
    while current.kind != SUBGRAPH_FRAME:
        if current.parent_frame_id is None:
            return frame.id, frame.node_id, None
        current = draft.require_frame(current.parent_frame_id, current.id)
    caller = draft.require_frame(current.parent_frame_id, current.id)
    scope = draft.scope(frame.scope_id)
    route = InterruptRoute(
        frame_id=frame.id,
        node_id=frame.node_id,
        scope_id=frame.scope_id,
        lineage_id=frame.lineage_id,
        parent_frame_id=caller.id,
        workflow_ref=None if scope is None else scope.workflow_ref,
    )
    return caller.id, caller.node_id, route


def waiting_place(request: InterruptRequest) -> tuple[str, str]:
    """Frame and step that really wait for the answer."""
    return (
        (request.route.frame_id, request.route.node_id)
        if request.route is not None
        else (request.frame_id, request.node_id)
    )


def check_answer(
    plan: Plan, frame: ExecutionFrame, request: InterruptRequest, payload: Any, outcome: str
) -> InterruptNode:
    """Raises when the answer cannot be taken; changes nothing.

    In this order: the frame still stands at that interrupt (``interrupt_not_open``), the outcome is declared
    (``resume_outcome_undeclared``), the payload satisfies the schema stored when the run paused, whatever the
    workflow says today (``resume_payload_invalid``).
    """
    frame_id, node_id = waiting_place(request)
    step = plan.steps.get(node_id)
    moved = request.route is not None and (frame.scope_id, frame.lineage_id) != (
        request.route.scope_id,
        request.route.lineage_id,
    )
    if frame.id != frame_id or frame.node_id != node_id or moved or not isinstance(step, InterruptNode):
        raise WorkflowExecutionError(f"frame {frame_id!r} no longer waits at {node_id!r}", code="interrupt_not_open")
    if not request.resumable:
        raise WorkflowExecutionError(f"interrupt {request.id!r} cannot be resumed", code="interrupt_not_resumable")
    if outcome not in request.outcomes:
        raise WorkflowExecutionError(
            f"interrupt {request.id!r} does not declare the outcome {outcome!r}",
            code="resume_outcome_undeclared",
            path="resume_outcome",
            hint=f"answer with one of: {', '.join(request.outcomes)}",
        )
    label = f"interrupt resume for {step.id}"
    try:
        SchemaCheck(request.resume_schema).check(payload, label)
    except WorkflowExecutionError as error:
        raise WorkflowExecutionError(
            error.message,
            code="resume_payload_invalid",
            path="resume_payload" + (error.path or "").removeprefix(label),
            hint="the interrupt shows the schema it wants as resume_schema; nothing was consumed, answer again",
        ) from error
    return step


def take_answer(
    draft: Draft, frame: ExecutionFrame, step: InterruptNode, payload: dict[str, Json], outcome: str, number: StepNumber
) -> Destination:
    """Applies the resume bindings in the interrupt's own scope and says where the frame goes.

    Raises, having changed nothing, when a binding fails. The answer takes no step of its own.
    """
    plan = draft.plan(frame)
    answer: dict[str, Json] = copy_json(payload)
    patch = build_patch(plan, step.resume, answer, draft.state(frame), label=f"interrupt resume for {step.id!r}")
    to = destination(draft, plan, frame, outcome)
    changes = draft.write(frame, patch)
    draft.trace(
        number,
        trace_entry(
            frame,
            "interrupt",
            resolved_input=answer,
            outcome=outcome,
            next_node_id=to.node_id,
            output=answer,
            changes=changes,
        ),
    )
    return to


def expire(draft: Draft, frame: ExecutionFrame, step: InterruptNode, number: StepNumber) -> str | None:
    """Nobody answered in time. The step goes on with ``expired`` where it declares that, else it has failed."""
    if EXPIRED_OUTCOME not in step.outcomes:
        raise WorkflowExecutionError(
            f"interrupt {step.id!r} was not answered within expires_seconds={step.expires_seconds}",
            code="interrupt_expired",
            path=f"nodes[{step.id}]",
            hint=f"declare the outcome {EXPIRED_OUTCOME!r} and say where it leads, or allow more time",
        )
    to = destination(draft, draft.plan(frame), frame, EXPIRED_OUTCOME)
    entry = trace_entry(frame, "interrupt", resolved_input={}, outcome=EXPIRED_OUTCOME, next_node_id=to.node_id)
    draft.trace(number, entry)
    return move(draft, frame, to, EXPIRED_OUTCOME)
