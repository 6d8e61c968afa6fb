"""The records of a store as Python values: what the keys of :mod:`wf_worker.store.keys` hold, name for name."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Final

Scores = dict[str, int]
"""A sorted set: member to score, in ms."""

FINAL: Final = ("completed", "failed", "cancelled")
"""Statuses of a run to which nothing happens any more."""


def by_score(scores: Scores) -> list[str]:
    """The members of a sorted set in the server's order: by score, equal ones by name."""
    return sorted(scores, key=lambda member: (scores[member], member))


@dataclass(slots=True)
class FrameHead:
    """A frame head, word for word as lua/shared/records.lua lists it."""

    place: str = "blocked"
    purpose: str = ""
    rev: str = ""
    token: str = ""
    owner: str = ""
    step: str = ""
    attempt: int = 0
    losses: int = 0
    failures: int = 0
    node: str = ""
    parent: str = ""
    scope: str = ""
    chain: str = ""
    kind: str = ""
    act: str = ""
    since: str = ""
    looks: int = 0
    limits: str = ""
    began: str = ""
    left: str = ""
    until: str = ""

    def text(self) -> bytes:
        """The head as it is stored."""
        return "|".join(str(getattr(self, word)) for word in _HEAD_WORDS).encode()


_HEAD_WORDS: Final = tuple(word.name for word in fields(FrameHead))


@dataclass(slots=True)
class ActivationHead:
    """The head of an open concurrent activation, word for word as lua/shared/records.lua lists it."""

    items: int
    next_index: int
    max_active: int
    max_outstanding: int
    policy: str
    controller: str
    chain: str
    node: str
    scope: str
    purpose: str
    limits: str
    step: str
    rev: str

    def text(self) -> bytes:
        """The head as it is stored."""
        return "|".join(str(getattr(self, word)) for word in _ACTIVATION_WORDS).encode()


_ACTIVATION_WORDS: Final = tuple(word.name for word in fields(ActivationHead))


@dataclass(slots=True)
class OpenRecord:
    """An open interrupt: its head, word for word, and its opaque record."""

    frame: str
    rev: str
    hold: str
    near_act: str
    near_index: str
    opened: int
    expiry: str
    record: bytes

    def text(self) -> bytes:
        """The head as it is stored."""
        words = (self.frame, self.rev, self.hold, self.near_act, self.near_index, str(self.opened), self.expiry)
        return "|".join(words).encode()


@dataclass(slots=True)
class TraceRecord:
    """One trace entry: step number, worker, entry, and why it tells of a result that did not count, or empty."""

    number: str
    worker: str
    entry: bytes
    discarded: str = ""


@dataclass(slots=True)
class EventRecord:
    """One event: its place in the order, its text."""

    ordinal: int
    text: bytes


@dataclass(slots=True)
class RunRecords:
    """One run. An empty header means that there is none, whatever else is left of it."""

    header: dict[str, bytes] = field(default_factory=dict[str, bytes])
    frames: dict[str, FrameHead] = field(default_factory=dict[str, FrameHead])
    bodies: dict[str, bytes] = field(default_factory=dict[str, bytes])
    ready: Scores = field(default_factory=Scores)
    held: Scores = field(default_factory=Scores)
    paused: Scores = field(default_factory=Scores)
    leases: Scores = field(default_factory=Scores)
    waits: Scores = field(default_factory=Scores)
    failed: Scores = field(default_factory=Scores)
    due: Scores = field(default_factory=Scores)
    beats: dict[str, bytes] = field(default_factory=dict[str, bytes])
    parked: dict[str, str] = field(default_factory=dict[str, str])
    taken: dict[str, str] = field(default_factory=dict[str, str])
    open: dict[str, OpenRecord] = field(default_factory=dict[str, OpenRecord])
    closed: dict[str, bytes] = field(default_factory=dict[str, bytes])
    holds: dict[str, str] = field(default_factory=dict[str, str])
    activations: dict[str, ActivationHead] = field(default_factory=dict[str, ActivationHead])
    templates: dict[str, bytes] = field(default_factory=dict[str, bytes])
    items: dict[str, dict[str, bytes]] = field(default_factory=dict[str, dict[str, bytes]])
    results: dict[str, dict[str, bytes]] = field(default_factory=dict[str, dict[str, bytes]])
    waiting: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    state: dict[str, dict[str, bytes]] = field(default_factory=dict[str, dict[str, bytes]])
    scopes: dict[str, bytes] = field(default_factory=dict[str, bytes])
    lineages: dict[str, bytes] = field(default_factory=dict[str, bytes])
    overlays: dict[str, dict[bytes, bytes]] = field(default_factory=dict[str, dict[bytes, bytes]])
    staged: dict[str, bytes] = field(default_factory=dict[str, bytes])
    journal: dict[str, bytes] = field(default_factory=dict[str, bytes])
    trace: list[TraceRecord] = field(default_factory=list[TraceRecord])
    events: list[EventRecord] = field(default_factory=list[EventRecord])
    names: set[str] = field(default_factory=set[str])


@dataclass(slots=True)
class ShardRecords:
    """The indexes of one shard."""

    attention: Scores = field(default_factory=Scores)
    ids: dict[str, str] = field(default_factory=dict[str, str])
    runs: Scores = field(default_factory=Scores)
    runs_by: dict[str, Scores] = field(default_factory=dict[str, Scores])
    """Of one status, one workflow, with one tag: by the name of the index."""
    inbox: Scores = field(default_factory=Scores)
    parked: set[str] = field(default_factory=set[str])


@dataclass(slots=True)
class Contents:
    """Everything a store holds."""

    identity: str = ""
    shards: dict[int, ShardRecords] = field(default_factory=dict[int, ShardRecords])
    runs: dict[str, RunRecords] = field(default_factory=dict[str, RunRecords])
    documents: dict[str, bytes] = field(default_factory=dict[str, bytes])
    flows: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    workers: dict[str, tuple[bytes, int]] = field(default_factory=dict[str, tuple[bytes, int]])
    reserved: dict[str, tuple[bytes, int]] = field(default_factory=dict[str, tuple[bytes, int]])

    def shard(self, number: int) -> ShardRecords:
        """The indexes of a shard."""
        return self.shards.setdefault(number, ShardRecords())
