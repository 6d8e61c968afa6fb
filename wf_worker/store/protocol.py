"""What a run store promises, in kernel terms, and the values it speaks in.

A store keeps runs as records and changes them by calls. Every store keeps these promises:

* A call is applied whole or not at all, and at the moment it is answered.
* Every call may be executed again at any later time, unknown to its caller. It names what it acts on (a revision, a
  token, a score, a call id), and its second execution changes nothing.
* No revision, token or incarnation is given out twice, also not after the store lost its last writes.
* While a frame is claimed, or stands at an open interrupt, nobody else changes what it reads.
* A run that is gone stays gone: a late call does not bring back its keys.

:class:`Records` is the narrow seam below: one method for each script, and plain reads. The Redis and the in-memory
implementation are held to one conformance suite.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, Protocol

from wf_core.run_state import InterruptRequest, Json
from wf_core.runtime.transition import Purpose
from wf_worker.store.keys import tag_index, workflow_index
from wf_worker.store.slices import StoredSlice

RecordKind = Literal["hash", "scores", "set", "text", "trace"]


class Records(Protocol):
    """The records of a store: scripts by name, and reads that need no script. Values are bytes."""

    def call(self, script: str, incarnation: str, call_id: str, *args: str | bytes | int) -> list[Any]:
        """Executes a script on a run; its answer, the messages to send, the run's workflow digest and its priority."""
        ...

    def sweep(self, shard: int, most: int, hold_off_ms: int, ahead_ms: int = 0) -> list[str]:
        """Takes runs of a shard that want attention within ``ahead_ms``; nobody else gets them for ``hold_off_ms``."""
        ...

    def newest(self, run_id: str) -> str | None:
        """The newest incarnation of a run id."""
        ...

    def header(self, incarnation: str, fields: Sequence[str]) -> dict[str, bytes] | None:
        """Header fields that exist; None when there is no such run."""
        ...

    def whole_header(self, incarnation: str) -> dict[str, bytes]:
        """Every header field; empty when there is no such run."""
        ...

    def fields(self, incarnation: str, key: str, names: Sequence[str]) -> list[bytes | None]:
        """Fields of a hash of a run, in the order of their names."""
        ...

    def scan(self, incarnation: str, kind: RecordKind, key: str, cursor: int, most: int) -> tuple[list[bytes], int]:
        """About ``most`` values of one record, flat, and the cursor of the next page, 0 at the end.

        hash: fields and values. scores: members and scores. set: members. text: one piece from byte ``cursor``, of
        ``most`` KiB. trace: ordinal, step number, worker, entry and why it did not count by turns. ``key`` is the
        record's below the run.
        """
        ...

    def page(
        self, shard: int, index: str | None, most: int, *, from_ms: int | None = None, to_ms: int | None = None
    ) -> list[tuple[str, int]]:
        """Runs of a shard, or of one of its indexes, newest first, created in a time: incarnation and creation."""
        ...

    def count(self, shard: int, index: str | None) -> int:
        """How many runs a shard has, or one of its indexes."""
        ...

    def trace(self, incarnation: str, start: int, most: int) -> list[tuple[int, str, bytes, str]]:
        """Trace entries from a zero-based ordinal: step number, worker, entry, why it was discarded, if so."""
        ...

    def events(self, incarnation: str, first: int, most: int) -> list[tuple[int, bytes]]:
        """Events that are kept, from an ordinal on: ordinal, text."""
        ...

    def last_events(self, incarnations: Sequence[str]) -> list[str | None]:
        """The id of the last event of each run, in one round trip; None where there is none."""
        ...

    def interrupts(self, incarnation: str) -> dict[int, tuple[bytes, bytes]]:
        """Open interrupts by step number: head and record."""
        ...

    def inbox(self, shard: int, after: tuple[int, str] | None, most: int) -> list[tuple[int, str]]:
        """Open interrupts of a shard, oldest first, behind a place: opening time in ms, ``<incarnation>#<number>``."""
        ...

    def open_interrupt(self, incarnation: str, number: int) -> tuple[bytes, bytes] | None:
        """Head and record of one open interrupt."""
        ...

    def progress(self, incarnation: str) -> list[tuple[str, bytes, bytes, int, int]]:
        """Open concurrent activations: key, head, template, number of results, of items that wait for an answer."""
        ...

    def counts(self, incarnation: str) -> dict[str, int]:
        """How many frames stand at each place, by the sizes of the sets alone, and how many of the ready are parked."""
        ...

    def parked_runs(self, shard: int) -> list[str]:
        """Runs of a shard with frames that were given back unserved."""
        ...

    def parked(self, incarnation: str) -> list[str]:
        """The capabilities that a run's parked frames wait for, one entry a frame."""
        ...

    def next_wait(self, incarnation: str) -> int | None:
        """When the first of the frames that wait for a time is due, in ms; None when none waits."""
        ...

    def put_document(self, digest: str, data: bytes) -> None:
        """Stores a workflow document under its digest."""
        ...

    def document(self, digest: str) -> bytes | None:
        """A workflow document."""
        ...

    def add_version(self, name: str, version: str, digest: str) -> str:
        """Binds a version of a name to a digest unless it is bound; the digest it is bound to."""
        ...

    def versions(self, name: str) -> dict[str, str]:
        """The versions of a workflow: version to digest."""
        ...

    def flow_names(self) -> list[str]:
        """The names of all published workflows."""
        ...

    def reserve(self, key: str, value: bytes, seconds: int) -> bytes:
        """Reserves an idempotency key unless it is; the value it holds."""
        ...

    def announce(self, name: str, data: bytes, seconds: int) -> None:
        """A worker node says what it serves; forgotten after so many seconds unless it is said again."""
        ...

    def withdraw(self, name: str) -> None:
        """A worker node serves nothing any more."""
        ...

    def announced(self) -> dict[str, bytes]:
        """What the worker nodes that live said last."""
        ...

    def identity(self, candidate: str) -> str:
        """What the store calls itself: the first candidate it was ever given."""
        ...

    def confirm(self, incarnation: str, call_id: str) -> None:
        """Returns once all that was written of a run is as durable as is promised; ``durability_unconfirmed`` if that
        takes too long."""
        ...

    def ping(self) -> None:
        """Runs a real script; raises :class:`~wf_worker.errors.StoreUnavailable` when that is not possible."""
        ...

    def close(self) -> None:
        """Closes connections."""
        ...


@dataclass(frozen=True, slots=True)
class Ready:
    """A frame that a message should name.

    ``frame`` is its store key, ``node`` the id of its step and ``position`` that step's place in the program; ``label``
    is the capability (or the kind of control step) that people see in Celery's tools. ``queue`` is the one that the
    capability names, if any, and ``priority`` that of the run.
    """

    incarnation: str
    frame: str
    revision: str
    digest: str
    node: str
    position: int
    label: str = ""
    queue: str | None = None
    priority: str = "normal"


@dataclass(frozen=True, slots=True)
class Published:
    """A workflow version in the store."""

    name: str
    version: str
    digest: str
    created: bool


@dataclass(frozen=True, slots=True)
class NewRun:
    """A submit, before it is in the store. ``extras`` are further header fields."""

    run_id: str
    incarnation: str
    call_id: str
    digest: str
    workflow_input: dict[str, Json]
    max_steps: int
    open_policy: str = "fail"
    closed_policy: str = "reject"
    extras: Mapping[str, str] = field(default_factory=dict[str, str])
    tags: Mapping[str, str] = field(default_factory=dict[str, str])
    """What the run can be found by."""


@dataclass(frozen=True, slots=True)
class NewCopy:
    """A run that is to be made from another one.

    ``max_steps`` None keeps the source's budget. ``patch`` holds new values of top-level state fields. ``extras`` are
    further header fields.
    """

    run_id: str
    incarnation: str
    call_id: str
    max_steps: int | None = None
    patch: Mapping[str, Json] = field(default_factory=dict[str, Json])
    extras: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Created:
    """A submit's answer. ``created`` is False where the run id was in use: then ``incarnation`` is the one using it."""

    created: bool
    run_id: str
    incarnation: str
    status: str
    ready: tuple[Ready, ...] = ()


class Refused(StrEnum):
    """Why a call was refused. Expected conditions, not errors: whoever is told stops and does nothing."""

    GONE = "gone"
    """There is no such run (any more)."""
    OVER = "over"
    """The run has ended or is failing."""
    STALE = "stale"
    """The frame has moved on, or the claim was taken away."""
    PAUSED = "paused"
    HELD = "held"
    ADMITTED = "admitted"
    """Nothing was refused: the call itself admitted items, and no handler is needed."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refused claim, with the messages that the call brought forth all the same."""

    reason: Refused
    ready: tuple[Ready, ...] = ()


@dataclass(slots=True)
class Claim:
    """A frame that is ours until its lease runs out. ``step`` is the number of this visit, whose ``attempt`` this is
    after so many ``losses`` of workers and ``failures`` of the handler; ``denied`` says that the budget admits no more
    steps."""

    incarnation: str
    frame: str
    token: str
    owner: str
    purpose: Purpose
    step: int | None
    attempt: int
    losses: int
    failures: int
    denied: bool
    revision: str
    view: StoredSlice
    deadline_ms: int | None = None
    """When the handler is out of time, ms since the epoch by the store's clock."""
    last_heartbeat: Json = None
    """What the handler of an earlier attempt said last."""

    @property
    def frame_id(self) -> str:
        """The id of the claimed frame."""
        return self.view.frame_id


class CommitStatus(StrEnum):
    """How a commit ended."""

    DONE = "done"
    AGAIN = "again"
    """This very call had been applied before; its messages are found by the sweeper if they were not sent."""
    REFUSED = "refused"
    """The claim is gone (or the run is): nothing was written."""
    BUDGET = "budget"
    """The budget admits only ``left`` of the steps walked: walk again, that far."""


@dataclass(frozen=True, slots=True)
class Committed:
    """A commit's answer. ``claim`` is the next step of the same frame, where one was asked for and could be claimed."""

    status: CommitStatus
    ready: tuple[Ready, ...] = ()
    left: int = 0
    max_steps: int = 0
    claim: Claim | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class OpenInterrupt:
    """An open interrupt as people see it. ``revision`` tells two pauses under one key apart after a lost tail."""

    request: InterruptRequest
    revision: str
    opened_ms: int
    expires_ms: int | None = None
    """From when on it takes no answer, ms since the epoch."""

    @property
    def number(self) -> int:
        """The step number that is its key within the run."""
        return self.request.step_number or 0


@dataclass(frozen=True, slots=True)
class RunRecord:
    """What is known of a run without its frames. Times are ms since the epoch, by the store's clock."""

    run_id: str
    incarnation: str
    workflow: str
    version: str
    digest: str
    """Of the program that the run executes: the workflow with all that it enters."""
    workflow_digest: str
    status: str
    revision: str
    outcome: str | None
    output: Json
    error: dict[str, Json] | None
    max_steps: int
    steps_executed: int
    trace_count: int
    created_ms: int
    updated_ms: int
    ended_ms: int | None
    paused: bool
    recovered_frames: int = 0
    """How often a frame was taken from a worker that was lost."""
    workflow_input: Json = None
    deadline_ms: int | None = None
    """When the run fails unless it has ended."""
    priority: str = "normal"
    tags: Mapping[str, str] = field(default_factory=dict[str, str])
    forked_from: dict[str, Json] | None = None
    """The run that this one was made from: ``run_id``, ``incarnation``, and the ``step`` of a rerun or null."""

    @property
    def ended(self) -> bool:
        """Whether nothing will happen to it any more."""
        return self.status in ("completed", "failed", "cancelled")


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs a list shows: those that are all of this. Times are ms since the epoch, both included."""

    status: str | None = None
    workflow: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict[str, str])
    created_from_ms: int | None = None
    created_to_ms: int | None = None

    def indexes(self) -> tuple[str, ...]:
        """The indexes that hold every run it shows, those first that are likely to hold few others."""
        tags = (tag_index(name, value) for name, value in sorted(self.tags.items()))
        workflow = () if self.workflow is None else (workflow_index(self.workflow),)
        return (*tags, *workflow, *(() if self.status is None else (self.status,)))

    def shows(self, record: RunRecord) -> bool:
        """Whether a run is what the filter asks for, its time apart."""
        return (
            self.status in (None, record.status)
            and self.workflow in (None, record.workflow)
            and all(record.tags.get(name) == value for name, value in self.tags.items())
        )


@dataclass(frozen=True, slots=True)
class TracedStep:
    """One trace entry as it is stored; ``entry`` is the wire form without its step number.

    ``discarded`` says why the handler's result did not count, where it came too late: ``lost``, ``<limit>_timeout``, or
    the status with which the run had ended; else None.
    """

    step_number: int
    worker: str
    entry: dict[str, Json]
    discarded: str | None = None


@dataclass(frozen=True, slots=True)
class ActivationProgress:
    """How far an open concurrent foreach is."""

    node_id: str
    frame_id: str
    activation: str
    """Its key: items are frames ``<key>:<index>``."""
    total: int
    admitted: int
    done: int
    asking: int = 0
    """Items that wait for an answer while others go on."""

    @property
    def active(self) -> int:
        """Items that are under way."""
        return self.admitted - self.done - self.asking


@dataclass(frozen=True, slots=True)
class Served:
    """What the worker nodes that live serve: for each its capabilities and the queues whose messages it takes."""

    nodes: tuple[tuple[frozenset[str], frozenset[str]], ...]

    @property
    def capabilities(self) -> frozenset[str]:
        """What is served by anybody."""
        return frozenset(name for capabilities, _ in self.nodes for name in capabilities)

    def unserved(self, capability: str | None, queue: str) -> str:
        """What people are told of a step that no node would do, or an empty text. Without a node nothing is known."""
        if capability is None or not self.nodes:
            return ""
        able = [queues for capabilities, queues in self.nodes if capability in capabilities]
        if not able:
            return capability
        return "" if any(queue in queues for queues in able) else f"{capability} (queue {queue})"


@dataclass(frozen=True, slots=True)
class DueRun:
    """What of a run wants a sweeper now: expired claims as (frame, token), unclaimed frames with their score, how
    many frames wait for a time that has come, and frames whose deadline has passed as (frame, score).

    ``now_ms`` is the store's clock: workers' clocks decide nothing.
    """

    incarnation: str
    status: str
    release: bool
    now_ms: int
    expired: tuple[tuple[str, str], ...]
    unclaimed: tuple[UnclaimedFrame, ...]
    elapsed: int = 0
    overdue: tuple[tuple[str, str], ...] = ()
    reap: bool = False
    """Whether it has ended and nothing of it is to be left."""


@dataclass(frozen=True, slots=True)
class UnclaimedFrame:
    """A ready frame that nobody has claimed by the time it was looked for."""

    frame: str
    score: str
    since_ms: int
    looks: int
    capability: str | None
    """What its step needs of a worker; None for a control step, which every worker can do."""
    queue: str | None
    priority: str
