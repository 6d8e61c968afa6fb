"""The wire contract: what the API answers, shared by the server and the clients.

Times are RFC 3339 in UTC with milliseconds, by the store's clock. A value that is not known yet is null.
"""

from __future__ import annotations

from typing import Any, Final, Literal, NotRequired

from typing_extensions import TypedDict

Json = Any
RunStatus = Literal["pending", "running", "interrupted", "completed", "failed", "cancelled"]
ENDED: Final = frozenset({"completed", "failed", "cancelled"})
"""Statuses after which nothing happens to a run any more."""

SETTLED: Final = ENDED | {"interrupted"}
"""Statuses in which a run does not move by itself: it has ended, or it waits for an answer."""

Priority = Literal["low", "normal", "high"]
MAX_WAIT_SECONDS: Final = 60
MAX_PAGE: Final = 100


class PublishedView(TypedDict):
    """A workflow version. ``created`` is false when this very version was there already."""

    name: str
    version: str
    digest: str
    created: bool


class WorkflowEntry(TypedDict):
    """A published workflow in a list."""

    name: str
    latest: str
    versions: int


class WorkflowPage(TypedDict):
    """Published workflows by name."""

    workflows: list[WorkflowEntry]
    total: int
    next_cursor: str | None


class VersionEntry(TypedDict):
    """One version of a workflow."""

    version: str
    digest: str


class VersionsView(TypedDict):
    """All versions of a workflow, oldest first."""

    name: str
    latest: str
    versions: list[VersionEntry]


class WorkflowView(TypedDict):
    """One version of a workflow with its document."""

    name: str
    version: str
    digest: str
    workflow: dict[str, Json]


class InterruptView(TypedDict):
    """An open interrupt. ``interrupt_key`` names exactly this pause, ``revision`` tells it from a lost one."""

    id: str
    interrupt_key: str
    revision: str
    frame_id: str
    node_id: str
    kind: str
    payload: dict[str, Json]
    outcomes: list[str]
    request_schema: dict[str, Json]
    resume_schema: dict[str, Json]
    typed: bool
    resumable: bool
    step_number: int
    opened_at: str
    expires_at: str | None


class RunErrorView(TypedDict):
    """Why a run stopped."""

    type: str
    message: str
    node_id: str | None
    frame_id: str | None


class LimitsView(TypedDict):
    """The budget of a run."""

    max_steps: int


class Origin(TypedDict):
    """The run that another one was made from; ``step`` is where a rerun began, null for a fork."""

    run_id: str
    incarnation: str
    step: str | None


class RunView(TypedDict):
    """A run. ``interrupt`` is the oldest of the open ``interrupts``; ``waits_until`` is when the first of the steps
    goes on that wait for a time; ``parked`` counts steps by the capability that no worker served so far."""

    run_id: str
    workflow: str
    version: str
    digest: str
    status: RunStatus
    paused: bool
    revision: str
    resume_readiness: Literal["ready", "not_applicable"]
    outcome: str | None
    output: Json
    error: RunErrorView | None
    interrupt: InterruptView | None
    interrupts: list[InterruptView]
    waits_until: str | None
    parked: dict[str, int]
    limits: LimitsView
    priority: Priority
    tags: dict[str, str]
    steps_executed: int
    recovered_frames: int
    trace_count: int
    created_at: str
    updated_at: str
    ended_at: str | None
    deadline_at: str | None
    forked_from: Origin | None
    input: NotRequired[dict[str, Json]]


class RunEntry(TypedDict):
    """A run in a list."""

    run_id: str
    workflow: str
    version: str
    digest: str
    status: RunStatus
    paused: bool
    outcome: str | None
    priority: Priority
    tags: dict[str, str]
    steps_executed: int
    created_at: str
    updated_at: str
    ended_at: str | None


class RunPage(TypedDict):
    """Runs, newest first. A filtered page may hold fewer than ``limit`` while more follow; ``total`` is null where the
    runs could only be counted one by one."""

    runs: list[RunEntry]
    total: int | None
    limit: int
    next_cursor: str | None


class StateChange(TypedDict):
    """A write that was committed."""

    path: str
    value: Json


class TraceEntryView(TypedDict):
    """One finished step; or, where ``discarded`` says why, a handler's result that came too late to count.

    Such an entry has the outcome ``discarded``, the number of the visit that it was for, and no next node."""

    step_number: int
    frame_id: str
    node_id: str
    step_type: str
    scope_id: str | None
    lineage_id: str | None
    activation_id: str | None
    resolved_input: Json
    outcome: str
    next_node_id: str
    output: Json
    state_changes: list[StateChange]
    worker: str
    discarded: str | None


class TracePage(TypedDict):
    """A range of a run's trace; ``next_start`` is null at its end."""

    run_id: str
    trace: list[TraceEntryView]
    start: int
    limit: int
    total: int
    next_start: int | None


EventKind = Literal[
    "status",
    "step",
    "foreach_opened",
    "interrupt_opened",
    "interrupt_closed",
    "attempt_failed",
    "item_failed",
    "step_failed",
    "paused",
    "unpaused",
    "gap",
]


class RunEventView(TypedDict):
    """Something that happened to a run. ``id`` is what a reader names to go on behind it.

    ``status`` stands with the kind ``status``; ``step_number`` (null where the step had none yet), ``node_id`` and
    ``frame`` (its name in the store and in logs; ``index`` of an item of a concurrent loop) with all kinds that happen
    at a step. A ``step`` has its ``outcome`` and ``next_node_id`` (null at an end), an interrupt its ``interrupt_key``
    and, when it is closed, its ``answer`` (``answered`` or ``expired``), a failed attempt its number and its ``cause``
    (``error``, ``lost``, ``attempt_timeout``, ``heartbeat_timeout``), a loop that was opened the number of its
    ``items``. A ``gap`` has no id: so many events were ``skipped``, which are no longer kept.
    """

    id: str | None
    kind: EventKind
    at: str | None
    status: NotRequired[RunStatus]
    step_number: NotRequired[int | None]
    node_id: NotRequired[str | None]
    step_type: NotRequired[str | None]
    frame: NotRequired[str]
    index: NotRequired[int]
    outcome: NotRequired[str]
    next_node_id: NotRequired[str | None]
    interrupt_key: NotRequired[str]
    answer: NotRequired[Literal["answered", "expired"]]
    attempt: NotRequired[int]
    cause: NotRequired[str]
    items: NotRequired[int]
    skipped: NotRequired[int]


class EventPage(TypedDict):
    """Events of a run, oldest first. ``last_id`` is what to pass as ``after`` next; ``ended``: nothing follows."""

    run_id: str
    events: list[RunEventView]
    limit: int
    last_id: str | None
    ended: bool


class InterruptList(TypedDict):
    """The open interrupts of a run, oldest first."""

    run_id: str
    status: RunStatus
    interrupts: list[InterruptView]


class InboxEntry(InterruptView):
    """An open interrupt, and the run that asks."""

    run_id: str
    workflow: str
    version: str


class InboxPage(TypedDict):
    """Open interrupts of all runs, oldest first. A filtered page may hold fewer than ``limit`` while more follow."""

    interrupts: list[InboxEntry]
    limit: int
    next_cursor: str | None


class FrameCounts(TypedDict):
    """How many frames of a run stand where. ``running`` are claimed by a worker, ``waiting`` are due at a time,
    ``asking`` stand at open interrupts, ``failed`` can be retried. ``parked`` of the ``ready`` are served by nobody who
    was asked."""

    ready: int
    held: int
    paused: int
    running: int
    waiting: int
    asking: int
    failed: int
    parked: int


class ForeachProgress(TypedDict):
    """How far an open concurrent foreach is: of ``total`` items ``admitted`` were begun and ``done`` have a result.

    Of those that were begun, ``asking`` wait for an answer while others go on, and ``active`` are under way.
    ``activation`` names this visit of the loop: frames of its items are ``<activation>:<index>``.
    """

    node_id: str
    frame_id: str
    activation: str
    total: int
    admitted: int
    active: int
    asking: int
    done: int


class ProgressView(TypedDict):
    """How far a run is."""

    run_id: str
    status: RunStatus
    steps_executed: int
    limits: LimitsView
    frames: FrameCounts
    foreach: list[ForeachProgress]


class AuditView(TypedDict):
    """Whether a run's records agree with one another; ``findings`` are the contradictions, as sentences."""

    run_id: str
    whole: bool
    findings: list[str]


class CancelView(TypedDict):
    """The answer to a cancel. ``changed`` is false when the run had ended before."""

    run_id: str
    status: RunStatus
    changed: bool


class ErrorBody(TypedDict):
    """What went wrong: a stable code, a sentence, the place, and what to do about it."""

    code: str
    message: str
    path: str | None
    hint: str | None
    details: NotRequired[dict[str, Json]]


class ErrorView(TypedDict):
    """The one shape of every error."""

    error: ErrorBody
