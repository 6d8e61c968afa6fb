"""Records of the store as the wire shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from wf_api.wire import (
    ForeachProgress,
    InboxEntry,
    InterruptView,
    Origin,
    Priority,
    RunEntry,
    RunErrorView,
    RunStatus,
    RunView,
    TraceEntryView,
)
from wf_core.instants import instant_of
from wf_worker.store.protocol import ActivationProgress, OpenInterrupt, RunRecord, TracedStep


def time_text(ms: int) -> str:
    """A time of the store as RFC 3339."""
    return instant_of(ms).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def run_view(
    record: RunRecord,
    interrupts: Sequence[OpenInterrupt],
    waits_until_ms: int | None,
    parked: dict[str, int],
    *,
    with_input: bool = False,
) -> RunView:
    """The run envelope. An ended run has no open interrupts, whatever is still stored of them."""
    shown = [] if record.ended else [interrupt_view(opened) for opened in interrupts]
    view: RunView = {
        "run_id": record.run_id,
        "workflow": record.workflow,
        "version": record.version,
        "digest": record.workflow_digest,
        "status": cast(RunStatus, record.status),
        "paused": record.paused and not record.ended,
        "revision": record.revision,
        "resume_readiness": "ready" if shown else "not_applicable",
        "outcome": record.outcome,
        "output": record.output,
        "error": None if record.error is None else _error_view(record.error),
        "interrupt": shown[0] if shown else None,
        "interrupts": shown,
        "waits_until": None if waits_until_ms is None else time_text(waits_until_ms),
        "parked": parked,
        "limits": {"max_steps": record.max_steps},
        "priority": cast(Priority, record.priority),
        "tags": dict(record.tags),
        "steps_executed": record.steps_executed,
        "recovered_frames": record.recovered_frames,
        "trace_count": record.trace_count,
        "created_at": time_text(record.created_ms),
        "updated_at": time_text(record.updated_ms),
        "ended_at": None if record.ended_ms is None else time_text(record.ended_ms),
        "deadline_at": None if record.deadline_ms is None else time_text(record.deadline_ms),
        "forked_from": cast("Origin | None", record.forked_from),
    }
    if with_input:
        view["input"] = record.workflow_input
    return view


def run_entry(record: RunRecord) -> RunEntry:
    """The run in a list."""
    return {
        "run_id": record.run_id,
        "workflow": record.workflow,
        "version": record.version,
        "digest": record.workflow_digest,
        "status": cast(RunStatus, record.status),
        "paused": record.paused and not record.ended,
        "outcome": record.outcome,
        "priority": cast(Priority, record.priority),
        "tags": dict(record.tags),
        "steps_executed": record.steps_executed,
        "created_at": time_text(record.created_ms),
        "updated_at": time_text(record.updated_ms),
        "ended_at": None if record.ended_ms is None else time_text(record.ended_ms),
    }


def interrupt_view(opened: OpenInterrupt) -> InterruptView:
    """An open interrupt."""
    request = opened.request
    return {
        "id": request.id,
        "interrupt_key": request.key,
        "revision": opened.revision,
        "frame_id": request.frame_id,
        "node_id": request.node_id,
        "kind": request.kind,
        "payload": request.payload,
        "outcomes": list(request.outcomes),
        "request_schema": request.request_schema,
        "resume_schema": request.resume_schema,
        "typed": request.typed,
        "resumable": request.resumable,
        "step_number": opened.number,
        "opened_at": time_text(opened.opened_ms),
        "expires_at": None if opened.expires_ms is None else time_text(opened.expires_ms),
    }


def inbox_entry(opened: OpenInterrupt, record: RunRecord) -> InboxEntry:
    """An open interrupt, and the run that asks."""
    return {
        **interrupt_view(opened),
        "run_id": record.run_id,
        "workflow": record.workflow,
        "version": record.version,
    }


def trace_view(step: TracedStep) -> TraceEntryView:
    """A trace entry."""
    return cast(
        TraceEntryView,
        {"step_number": step.step_number, **step.entry, "worker": step.worker, "discarded": step.discarded},
    )


def progress_view(progress: ActivationProgress) -> ForeachProgress:
    """An open concurrent foreach."""
    return {
        "node_id": progress.node_id,
        "frame_id": progress.frame_id,
        "activation": progress.activation,
        "total": progress.total,
        "admitted": progress.admitted,
        "active": progress.active,
        "asking": progress.asking,
        "done": progress.done,
    }


def _error_view(error: dict[str, Any]) -> RunErrorView:
    return {
        "type": str(error.get("type", "error")),
        "message": str(error.get("message", "")),
        "node_id": error.get("node_id"),
        "frame_id": error.get("frame_id"),
    }
