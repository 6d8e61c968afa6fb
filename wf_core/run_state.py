"""What a run is: frames, scopes, lineages, interrupts and trace, as plain data.

``RunState`` is the whole of one run in memory. The distributed store keeps the same parts as separate
records; the kernel sees either through a :class:`wf_core.runtime.slice.RunSlice`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum, StrEnum
from typing import Any, Final, Literal, TypeAlias

from wf_core.models.reducers import ReducerRef
from wf_core.models.workflow_refs import WorkflowRef
from wf_core.paths import GraphSourcePath, LocalPath, StatePath
from wf_core.run_limits import RunLimits

ROOT_SCOPE_ID: Final = "root"
ROOT_LINEAGE_ID: Final = "root"
ROOT_FRAME_ID: Final = "root"

WORKFLOW_FRAME: Final = "workflow"
ITEM_FRAME: Final = "foreach_iteration"
SUBGRAPH_FRAME: Final = "subgraph_root"

Json = Any
"""A JSON value: null, bool, int, finite float, str, list or str-keyed dict of JSON values."""


TraceLevel: TypeAlias = Literal["full", "summary", "off"]
"""How much of a run's history is kept: entries with their payloads, without them, or none."""


class RunStatus(StrEnum):
    """Where a run stands. The distributed store adds ``cancelled``."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


class FrameStatus(StrEnum):
    """Where a frame stands."""

    PENDING = "pending"
    RUNNING = "running"
    BLOCKED = "blocked"
    COMPLETED = "completed"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


@dataclass(slots=True)
class StateWrite:
    """One write that waits in a lineage.

    ``incoming_value`` is what the step contributed and what a barrier replays; ``visible_value`` is the
    reducer's result, read by later steps of the same lineage.
    """

    path: StatePath
    incoming_value: Json
    visible_value: Json
    reducer: ReducerRef


@dataclass(slots=True)
class RuntimeScope:
    """One invocation of a workflow: its input, its committed state, and which workflow it is."""

    id: str
    workflow_name: str
    workflow_input: dict[str, Json] = field(default_factory=dict[str, Json])
    committed_state: dict[str, Json] = field(default_factory=dict[str, Json])
    workflow_ref: WorkflowRef | None = None


@dataclass(slots=True)
class LineageState:
    """An ordered list of writes that are pending in one scope, on top of a parent lineage."""

    id: str
    scope_id: str
    parent_id: str | None = None
    writes: list[StateWrite] = field(default_factory=list[StateWrite])


@dataclass(slots=True)
class ExecutionFrame:
    """A scheduler position. ``id`` is opaque; ``metadata`` is JSON and read through typed helpers only."""

    id: str
    kind: str
    node_id: str
    status: FrameStatus = FrameStatus.PENDING
    parent_frame_id: str | None = None
    scope_id: str = ROOT_SCOPE_ID
    lineage_id: str = ROOT_LINEAGE_ID
    parent_lineage_id: str | None = None
    prior_outcome: str | None = None
    activated_incoming_edge: str | None = None
    metadata: dict[str, Json] = field(default_factory=dict[str, Json])
    finished_at_node_id: str | None = None
    step_number: int | None = None


@dataclass(frozen=True, slots=True)
class ForeachContext:
    """One active iteration as a handler sees it. ``item`` is a copy; identities are opaque."""

    node_id: str
    activation_id: str
    frame_id: str
    scope_id: str
    lineage_id: str
    index: int
    item: object


@dataclass(slots=True)
class RuntimeContext:
    """What a handler may know of its place in the run.

    ``foreach`` maps the static id of every active loop of the same scope, outermost first, to its entry.
    ``platform`` is the host's own object, passed to the async entry points and never persisted.
    """

    current_node_id: str
    frame_id: str = ROOT_FRAME_ID
    scope_id: str = ROOT_SCOPE_ID
    lineage_id: str = ROOT_LINEAGE_ID
    parent_lineage_id: str | None = None
    retry_count: int = 0
    prior_outcome: str | None = None
    activated_incoming_edge: str | None = None
    metadata: dict[str, Json] = field(default_factory=dict[str, Json])
    platform: object = None
    foreach: Mapping[str, ForeachContext] = field(default_factory=dict[str, ForeachContext])


@dataclass(slots=True)
class TraceEntry:
    """One finished step. History for people: no rule reads it.

    ``state_changes`` maps a path string to the value that was committed; writes that only wait in a
    lineage do not show here.
    """

    frame_id: str
    node_id: str
    step_type: str
    resolved_input: Json
    outcome: str
    next_node_id: str
    output: Json = field(default_factory=dict[str, Json])
    state_changes: dict[str, Json] = field(default_factory=dict[str, Json])
    step_number: int | None = None


@dataclass(slots=True)
class StepExecutionResult:
    """What one step produced, before its route is followed."""

    outcome: str
    resolved_input: Json = field(default_factory=dict[str, Json])
    output: Json = field(default_factory=dict[str, Json])
    state_changes: dict[str, Json] = field(default_factory=dict[str, Json])


@dataclass(slots=True)
class InterruptRoute:
    """The real place of an interrupt that shows itself at an enclosing subgraph boundary."""

    frame_id: str
    node_id: str
    scope_id: str
    lineage_id: str
    parent_frame_id: str | None
    workflow_ref: WorkflowRef | None


def permissive_object_schema() -> dict[str, Json]:
    """The schema of an interrupt without a contract: any object."""
    return {"type": "object", "additionalProperties": True}


@dataclass(slots=True)
class InterruptRequest:
    """A pause that waits for an answer. ``(id, step_number)`` identifies one pause."""

    id: str
    frame_id: str
    node_id: str
    kind: str
    payload: dict[str, Json] = field(default_factory=dict[str, Json])
    resumable: bool = True
    route: InterruptRoute | None = None
    outcomes: list[str] = field(default_factory=lambda: ["submitted"])
    request_schema: dict[str, Json] = field(default_factory=permissive_object_schema)
    resume_schema: dict[str, Json] = field(default_factory=permissive_object_schema)
    typed: bool = False
    step_number: int | None = None

    @property
    def key(self) -> str:
        """The key under which exactly this pause is answered."""
        return f"{self.id}#{self.step_number}"


@dataclass(slots=True)
class RunState:
    """The whole of one run. ``state`` is always the committed state of the scope ``root``, the same object."""

    workflow_name: str
    status: RunStatus
    workflow_input: dict[str, Json]
    state: dict[str, Json]
    outcome: str | None = None
    output: Json = field(default_factory=dict[str, Json])
    trace: list[TraceEntry] = field(default_factory=list[TraceEntry])
    frames: dict[str, ExecutionFrame] = field(default_factory=dict[str, ExecutionFrame])
    scopes: dict[str, RuntimeScope] = field(default_factory=dict[str, RuntimeScope])
    lineages: dict[str, LineageState] = field(default_factory=dict[str, LineageState])
    ready_frame_ids: list[str] = field(default_factory=list[str])
    current_frame_id: str | None = None
    current_node_id: str | None = None
    prior_outcome: str | None = None
    activated_incoming_edge: str | None = None
    error: str | None = None
    interrupt: InterruptRequest | None = None
    limits: RunLimits = field(default_factory=RunLimits)
    steps_executed: int = 0

    @property
    def steps_remaining(self) -> int:
        """How many step attempts the budget still admits."""
        return max(self.limits.max_steps - self.steps_executed, 0)

    def current_frame(self) -> ExecutionFrame:
        """The selected frame; ``ValueError`` when none is selected or it does not exist."""
        if self.current_frame_id is None:
            raise ValueError("the run has no current frame (current_frame_id=None)")
        frame = self.frames.get(self.current_frame_id)
        if frame is None:
            raise ValueError(f"the current frame {self.current_frame_id!r} does not exist")
        return frame

    def sync_from_current_frame(self) -> None:
        """Copies the selected frame's position into the ``current_*`` fields, for inspection."""
        frame = self.current_frame()
        self.current_node_id = frame.node_id
        self.prior_outcome = frame.prior_outcome
        self.activated_incoming_edge = frame.activated_incoming_edge

    def to_dict(self) -> dict[str, Json]:
        """A plain recursive dict for inspection; no storage format."""
        plain: dict[str, Json] = _plain(self)
        return plain


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, GraphSourcePath | StatePath | LocalPath):
        return str(value)
    if isinstance(value, ReducerRef | WorkflowRef):
        return value.model_dump(mode="json")
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]  # pyright: ignore[reportUnknownVariableType]
    return value
