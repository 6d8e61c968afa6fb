"""What a handler gets on a worker: its place in the run, and this attempt's own facts."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Final

from wf_core.errors import WorkflowExecutionError
from wf_core.models.json_values import validate_strict_json_value
from wf_core.run_state import Json, RuntimeContext
from wf_core.runtime.ops.nodes import NodeCall
from wf_worker.store.encoding import to_bytes
from wf_worker.store.protocol import Claim


@dataclass(slots=True)
class WorkerContext(RuntimeContext):
    """The context of a handler call on a worker.

    ``attempt`` counts from 1. ``idempotency_key`` is the same for every attempt of one visit of one frame, and never
    that of another node or run: give it to outside systems that should act once.
    """

    run_id: str = ""
    attempt: int = 1
    idempotency_key: str = ""
    deadline: float | None = None
    """When this call is out of time, in seconds since the epoch by the store's clock; None without a limit."""
    last_heartbeat: Json = None
    """What an earlier attempt gave to :meth:`heartbeat` last."""
    is_cancelled: Callable[[], bool] = bool
    beat: Callable[[bytes], None] = lambda _: None
    logger: logging.LoggerAdapter[logging.Logger] = field(
        default_factory=lambda: logging.LoggerAdapter(logging.getLogger("wf.handler"), {})
    )

    @property
    def cancelled(self) -> bool:
        """Whether the result of this call will be refused: the run was cancelled, or the claim was lost."""
        return self.is_cancelled()

    def heartbeat(self, details: Json = None) -> None:
        """Says that this handler is alive, which a step with ``heartbeat_seconds`` wants to hear that often.

        ``details`` are JSON, kept for the next attempt. The lease is renewed by a thread all the while; that alone is
        no sign of life. Raises ``not_json`` or ``payload_too_large`` for details that cannot be kept.
        """
        self.beat(b"" if details is None else _details(details))


def worker_context(
    call: NodeCall, claim: Claim, *, is_cancelled: Callable[[], bool], beat: Callable[[bytes], None]
) -> WorkerContext:
    """The kernel's context with this attempt's facts."""
    base = call.context
    view = claim.view
    given = {f.name: getattr(base, f.name) for f in fields(RuntimeContext)}
    given["retry_count"] = claim.attempt - 1
    place = {"run": view.run_id, "frame": claim.frame, "node": call.node_id, "attempt": claim.attempt}
    return WorkerContext(
        **given,
        run_id=view.run_id,
        attempt=claim.attempt,
        idempotency_key=idempotency_key(claim, call),
        is_cancelled=is_cancelled,
        beat=beat,
        deadline=None if claim.deadline_ms is None else claim.deadline_ms / 1000,
        last_heartbeat=claim.last_heartbeat,
        logger=logging.LoggerAdapter(logging.getLogger("wf.handler"), place),
    )


MAX_DETAILS_BYTES: Final = 64 * 1024
"""Largest details of a heartbeat, as JSON."""


def _details(details: Json) -> bytes:
    try:
        data = to_bytes(validate_strict_json_value(details))
    except ValueError as error:
        raise WorkflowExecutionError(f"the details of a heartbeat are not JSON: {error}", code="not_json") from error
    if len(data) > MAX_DETAILS_BYTES:
        raise WorkflowExecutionError(
            f"the details of a heartbeat have {len(data)} bytes, the limit is {MAX_DETAILS_BYTES}",
            code="payload_too_large",
        )
    return data


def idempotency_key(claim: Claim, call: NodeCall) -> str:
    """Stable over attempts: incarnation, frame, node and visit, hashed."""
    text = f"{claim.incarnation}|{call.frame_id}|{call.node_id}|{claim.step}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]
