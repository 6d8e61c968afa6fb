"""What a handler gets on a worker: its place in the run, and this attempt's own facts."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, fields

from wf_core.run_state import RuntimeContext
from wf_core.runtime.ops.nodes import NodeCall
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
    is_cancelled: Callable[[], bool] = bool
    renew: Callable[[], None] = lambda: None
    logger: logging.LoggerAdapter[logging.Logger] = field(
        default_factory=lambda: logging.LoggerAdapter(logging.getLogger("wf.handler"), {})
    )

    @property
    def cancelled(self) -> bool:
        """Whether the result of this call will be refused: the run was cancelled, or the claim was lost."""
        return self.is_cancelled()

    def heartbeat(self) -> None:
        """Renews the lease now. A thread renews it all the while; a handler need not."""
        self.renew()


def worker_context(
    call: NodeCall, claim: Claim, *, is_cancelled: Callable[[], bool], renew: Callable[[], None]
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
        renew=renew,
        logger=logging.LoggerAdapter(logging.getLogger("wf.handler"), place),
    )


def idempotency_key(claim: Claim, call: NodeCall) -> str:
    """Stable over attempts: incarnation, frame, node and visit, hashed."""
    text = f"{claim.incarnation}|{call.frame_id}|{call.node_id}|{claim.step}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]
