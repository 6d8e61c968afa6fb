"""What one event changes: a transition, as data.

A transition is a list of operations in the order in which they must be applied. Applied to a ``RunState`` by
:mod:`wf_core.runtime.local` it gives the in-memory engine; applied by one store script it gives the distributed
one. Either applies all of it or none of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from wf_core.run_state import (
    ExecutionFrame,
    FrameStatus,
    InterruptRequest,
    Json,
    RuntimeScope,
    StateWrite,
    TraceEntry,
)


class Purpose(StrEnum):
    """Why a frame is due: what the worker that claims it asks the kernel."""

    STEP = "step"
    """It stands at a step that needs a handler."""
    WALK = "walk"
    """It stands at a control step; walk on from there."""
    OPEN = "open"
    """It stands at a foreach whose list is too large to open inside another transition."""
    ADMIT = "admit"
    """Its foreach window has room; the store admits items, no kernel is asked."""
    FINISH = "finish"
    """Every item of its foreach has a result; replay the barrier."""
    ELAPSED = "elapsed"
    """It stands at a wait whose time has come; go on from there."""
    ATTEMPT_TIMEOUT = "attempt_timeout"
    """Its handler took longer than one attempt may."""
    TOTAL_TIMEOUT = "total_timeout"
    """All its attempts took longer than they may."""
    QUEUE_TIMEOUT = "queue_timeout"
    """Nobody took it up in time."""
    HEARTBEAT_TIMEOUT = "heartbeat_timeout"
    """Its handler gave no sign of life for too long."""
    EXPIRED = "expired"
    """Nobody answered its interrupt in time."""
    LOST = "lost"
    """Its workers died more often than its limit allows; the kernel decides what that failure means."""


class Offset(NamedTuple):
    """A step number that the store completes: the run's count before this transition, plus ``n`` (from 1)."""

    n: int


StepNumber = int | Offset


class After(NamedTuple):
    """So many milliseconds from now, by the clock of whoever applies the transition."""

    ms: int


class At(NamedTuple):
    """At this time, milliseconds since the epoch."""

    ms: int


@dataclass(frozen=True, slots=True)
class PutFrame:
    """The frame is new, or its body changed. A new frame brings its lineage with it."""

    frame: ExecutionFrame


@dataclass(frozen=True, slots=True)
class Place:
    """The frame is due. ``front`` asks the in-memory queue to take it first."""

    frame_id: str
    purpose: Purpose
    front: bool = False


@dataclass(frozen=True, slots=True)
class Block:
    """The frame waits for its children; nothing is due for it until they arrive."""

    frame_id: str
    child_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RemoveFrame:
    """The frame has ended (``completed``, or ``failed`` where a foreach policy handled its error).

    ``finished_at`` is the owner an item returned to, or None for a frame that reached an end.
    """

    frame_id: str
    status: FrameStatus
    finished_at: str | None = None
    error: ItemError | None = None
    outcome: str | None = None
    """How the workflow of its scope ended, for the root frame of a child scope."""


@dataclass(frozen=True, slots=True)
class Reach:
    """The root frame came to a step, outside every loop. A store remembers the first time, so that a new run can begin
    there; the engine in memory does not."""

    node_id: str
    prior_outcome: str
    origin: str
    """The step it came from."""


@dataclass(frozen=True, slots=True)
class OpenScope:
    """A child workflow begins: its scope, with its input, and its first state."""

    scope: RuntimeScope
    state: dict[str, Json]


@dataclass(frozen=True, slots=True)
class CloseScope:
    """A child workflow's output was taken; nothing reads its scope any more."""

    scope_id: str


@dataclass(frozen=True, slots=True)
class AppendWrites:
    """Writes that wait in a lineage until a barrier replays them."""

    lineage_id: str
    writes: tuple[StateWrite, ...]


@dataclass(frozen=True, slots=True)
class CommitFields:
    """New values of top-level state fields of a scope; ``writes`` says which paths changed."""

    scope_id: str
    fields: dict[str, Json]
    writes: tuple[StateWrite, ...]


@dataclass(frozen=True, slots=True)
class ItemError:
    """Why an item failed, as ``collect`` records it."""

    index: int
    frame_id: str
    node_id: str
    error_type: str
    message: str
    item: Json

    def as_record(self) -> dict[str, Json]:
        """The JSON form that ``collect_to`` receives."""
        return {
            "index": self.index,
            "frame_id": self.frame_id,
            "node_id": self.node_id,
            "error_type": self.error_type,
            "message": self.message,
            "item": self.item,
        }


@dataclass(frozen=True, slots=True)
class ItemResult:
    """How one item of a concurrent foreach ended: its buffered writes, or its error."""

    index: int
    writes: tuple[StateWrite, ...] = ()
    error: ItemError | None = None


@dataclass(frozen=True, slots=True)
class Activation:
    """One dynamic visit of a concurrent foreach: its window, and all that an item frame is made from.

    ``frame_id`` is the controller. The items' frames are ``<id>:<index>``, their lineages ``<id>[<index>]``, in the
    controller's scope, on top of ``lineage_id``.
    """

    id: str
    frame_id: str
    node_id: str
    alias: str
    scope_id: str
    lineage_id: str
    items: Sequence[Json]
    max_active: int
    max_outstanding: int
    interrupt: str
    body_node_id: str
    body_purpose: Purpose
    step: StepNumber


@dataclass(frozen=True, slots=True)
class OpenActivation:
    """The foreach opens; the store admits the first window of items and the rest as others arrive."""

    activation: Activation


@dataclass(frozen=True, slots=True)
class Arrive:
    """An item reached the barrier: its frame goes, its lineage (or error) becomes the item's result."""

    activation_id: str
    index: int
    frame_id: str
    lineage_id: str
    error: ItemError | None = None


@dataclass(frozen=True, slots=True)
class CloseActivation:
    """The barrier was replayed; a later result for this activation is refused."""

    activation_id: str
    frame_id: str
    node_id: str


@dataclass(frozen=True, slots=True)
class OpenInterrupt:
    """The frame waits for an answer."""

    frame_id: str
    request: InterruptRequest
    step: StepNumber
    expires: After | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """The frame waits for a time. It is due for ``Purpose.ELAPSED`` when that has come, at once where it has passed."""

    frame_id: str
    due: After | At
    step: StepNumber


@dataclass(frozen=True, slots=True)
class Retry:
    """The frame's handler failed, and is tried again after a time: the same visit, one failure more."""

    frame_id: str
    due: After


@dataclass(frozen=True, slots=True)
class CompleteRun:
    """The root frame reached its end."""

    outcome: str
    output: Json


@dataclass(frozen=True, slots=True)
class RunError:
    """Why a run failed: ``type`` is a stable code for the engine's own errors, else the exception's class name."""

    type: str
    message: str
    node_id: str | None = None
    frame_id: str | None = None

    def as_record(self) -> dict[str, Json]:
        """The JSON form that the API shows."""
        return {"type": self.type, "message": self.message, "node_id": self.node_id, "frame_id": self.frame_id}


@dataclass(frozen=True, slots=True)
class FailRun:
    """The run fails at this frame. Of several failures the one with the smallest ``order`` is the run's error.

    ``order`` holds the indexes of the enclosing items, outermost first. ``again`` is what the frame is due for when
    somebody lets the failed run go on.
    """

    frame_id: str
    order: tuple[int, ...]
    error: RunError
    again: Purpose


@dataclass(frozen=True, slots=True)
class Traced:
    """A finished step. No rule may read it."""

    entry: TraceEntry
    step: StepNumber


Operation = (
    PutFrame
    | Place
    | Block
    | RemoveFrame
    | Reach
    | OpenScope
    | CloseScope
    | AppendWrites
    | CommitFields
    | OpenActivation
    | Arrive
    | CloseActivation
    | OpenInterrupt
    | Wait
    | Retry
    | CompleteRun
    | FailRun
    | Traced
)


@dataclass(frozen=True, slots=True)
class Transition:
    """What one event changes. A store applies all of it or none of it, in this order."""

    frame_id: str
    """The frame that the event was about; its claim ends with this transition."""
    operations: tuple[Operation, ...] = ()
    steps: int = 0
    """How many control steps it walked: units of the run's budget, numbered after the run's count."""
    error: BaseException | None = field(default=None, compare=False)
    """The exception behind a ``FailRun``, for an engine that raises it to its caller. Never stored."""
