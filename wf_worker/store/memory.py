"""Records in the memory of one process: the first store to try, and the one a simulation can set back.

It answers every call byte for byte as the scripts do; the conformance suite holds the two together.
"""

from __future__ import annotations

import math
import pickle
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, cast

from wf_worker.store.keys import LAYOUT, Keys
from wf_worker.store.layout import check_layout
from wf_worker.store.memory_copies import record_of
from wf_worker.store.memory_rules import SCAN, Arguments, Call
from wf_worker.store.memory_scripts import SCRIPTS
from wf_worker.store.memory_state import Contents, RunRecords, Scores, by_score
from wf_worker.store.protocol import RecordKind


def wall_clock_ms() -> int:
    """This machine's time in ms."""
    return time.time_ns() // 1_000_000


class MemoryRecords:
    """Implements :class:`wf_worker.store.protocol.Records`. Safe for threads.

    ``clock`` gives the store's time in ms.
    """

    def __init__(self, keys: Keys | None = None, *, clock: Callable[[], int] = wall_clock_ms) -> None:
        self.keys = keys or Keys()
        self.contents = Contents()
        self._clock = clock
        self._lock = threading.Lock()

    def snapshot(self) -> bytes:
        """Everything the store holds now, as a value that later calls do not change."""
        with self._lock:
            return pickle.dumps(self.contents)

    def restore(self, snapshot: bytes) -> None:
        """Sets the store back to what :meth:`snapshot` saw, as if its later writes had been lost."""
        with self._lock:
            self.contents = cast(Contents, pickle.loads(snapshot))

    # ---- calls

    def call(self, script: str, incarnation: str, call_id: str, *args: str | bytes | int) -> list[Any]:
        shard = self.keys.shard_of_incarnation(incarnation)
        values = [arg if isinstance(arg, bytes) else str(arg).encode() for arg in args]
        with self._lock:
            check_layout(incarnation, self._run(incarnation).header.get("layout"))
            return SCRIPTS[script](Call(self.contents, shard, incarnation, call_id, self._clock()), Arguments(values))

    def sweep(self, shard: int, most: int, hold_off_ms: int, ahead_ms: int = 0) -> list[str]:
        with self._lock:
            now, attention = self._clock(), self.contents.shard(shard).attention
            due = [incarnation for incarnation in by_score(attention) if attention[incarnation] <= now + ahead_ms]
            taken: list[str] = []
            others: list[str] = []
            for incarnation in due[: max(most, SCAN)]:
                if len(taken) == most:
                    break
                (taken if self._is_ours(incarnation) else others).append(incarnation)
            put_off = taken + (others if len(others) == SCAN else [])
            attention.update(dict.fromkeys(put_off, now + hold_off_ms))
            return taken

    def _is_ours(self, incarnation: str) -> bool:
        return self._run(incarnation).header.get("layout", LAYOUT.encode()) == LAYOUT.encode()

    # ---- plain reads

    def newest(self, run_id: str) -> str | None:
        with self._lock:
            return self.contents.shard(self.keys.shard_of(run_id)).ids.get(run_id)

    def header(self, incarnation: str, fields: Sequence[str]) -> dict[str, bytes] | None:
        with self._lock:
            header = self._run(incarnation).header
            return {name: header[name] for name in fields if name in header} or None

    def whole_header(self, incarnation: str) -> dict[str, bytes]:
        with self._lock:
            return dict(self._run(incarnation).header)

    def fields(self, incarnation: str, key: str, names: Sequence[str]) -> list[bytes | None]:
        with self._lock:
            flat = record_of(self._run(incarnation), key)
        found = dict(zip(flat[::2], flat[1::2], strict=True))
        return [found.get(name.encode()) for name in names]

    def scan(self, incarnation: str, kind: RecordKind, key: str, cursor: int, most: int) -> tuple[list[bytes], int]:
        with self._lock:
            values = record_of(self._run(incarnation), key)
        if kind == "text":
            piece, end = values[0][cursor : cursor + 1024 * most], cursor + 1024 * most
            return [piece], end if end < len(values[0]) else 0
        size = most * {"set": 1, "trace": 5}.get(kind, 2)
        return values[cursor : cursor + size], cursor + size if cursor + size < len(values) else 0

    def page(
        self, shard: int, index: str | None, most: int, *, from_ms: int | None = None, to_ms: int | None = None
    ) -> list[tuple[str, int]]:
        with self._lock:
            scores = self._runs(shard, index)
            oldest, newest = (0 if from_ms is None else from_ms), (math.inf if to_ms is None else to_ms)
            found = [name for name in reversed(by_score(scores)) if oldest <= scores[name] <= newest]
            return [(incarnation, scores[incarnation]) for incarnation in found[:most]]

    def count(self, shard: int, index: str | None) -> int:
        with self._lock:
            return len(self._runs(shard, index))

    def trace(self, incarnation: str, start: int, most: int) -> list[tuple[int, str, bytes, str]]:
        with self._lock:
            entries = self._run(incarnation).trace[max(0, start) :][:most]
            return [(int(entry.number), entry.worker, entry.entry, entry.discarded) for entry in entries]

    def events(self, incarnation: str, first: int, most: int) -> list[tuple[int, bytes]]:
        with self._lock:
            kept = [event for event in self._run(incarnation).events if event.ordinal >= first]
            return [(event.ordinal, event.text) for event in kept[:most]]

    def last_events(self, incarnations: Sequence[str]) -> list[str | None]:
        with self._lock:
            headers = [self._run(incarnation).header for incarnation in incarnations]
            return [header["events"].decode() if "events" in header else None for header in headers]

    def interrupts(self, incarnation: str) -> dict[int, tuple[bytes, bytes]]:
        with self._lock:
            return {
                int(number): (opened.text(), opened.record) for number, opened in self._run(incarnation).open.items()
            }

    def inbox(self, shard: int, after: tuple[int, str] | None, most: int) -> list[tuple[int, str]]:
        with self._lock:
            places = sorted((at, member) for member, at in self.contents.shard(shard).inbox.items())
            return [place for place in places if place > (after or (-1, ""))][:most]

    def open_interrupt(self, incarnation: str, number: int) -> tuple[bytes, bytes] | None:
        with self._lock:
            opened = self._run(incarnation).open.get(str(number))
            return None if opened is None else (opened.text(), opened.record)

    def progress(self, incarnation: str) -> list[tuple[str, bytes, bytes, int, int]]:
        with self._lock:
            run = self._run(incarnation)
            return [
                (key, act.text(), run.templates[key], len(run.results.get(key, {})), len(run.waiting.get(key, ())))
                for key, act in run.activations.items()
            ]

    def counts(self, incarnation: str) -> dict[str, int]:
        with self._lock:
            run = self._run(incarnation)
            return {
                "ready": len(run.ready),
                "held": len(run.held),
                "paused": len(run.paused),
                "running": len(run.leases),
                "waiting": len(run.waits),
                "failed": len(run.failed),
                "asking": len(run.open),
                "parked": len(run.parked),
            }

    def parked_runs(self, shard: int) -> list[str]:
        with self._lock:
            return sorted(self.contents.shard(shard).parked)

    def parked(self, incarnation: str) -> list[str]:
        with self._lock:
            return list(self._run(incarnation).parked.values())

    def next_wait(self, incarnation: str) -> int | None:
        with self._lock:
            return min(self._run(incarnation).waits.values(), default=None)

    def _run(self, incarnation: str) -> RunRecords:
        return self.contents.runs.get(incarnation) or RunRecords()

    def _runs(self, shard: int, index: str | None) -> Scores:
        records = self.contents.shard(shard)
        return records.runs_by.get(index, {}) if index else records.runs

    # ---- documents and the like

    def put_document(self, digest: str, data: bytes) -> None:
        with self._lock:
            self.contents.documents[digest] = data

    def document(self, digest: str) -> bytes | None:
        with self._lock:
            return self.contents.documents.get(digest)

    def add_version(self, name: str, version: str, digest: str) -> str:
        with self._lock:
            return self.contents.flows.setdefault(name, {}).setdefault(version, digest)

    def versions(self, name: str) -> dict[str, str]:
        with self._lock:
            return dict(self.contents.flows.get(name, {}))

    def flow_names(self) -> list[str]:
        with self._lock:
            return list(self.contents.flows)

    def reserve(self, key: str, value: bytes, seconds: int) -> bytes:
        with self._lock:
            now = self._clock()
            held = self.contents.reserved.get(key)
            if held is not None and held[1] > now:
                return held[0]
            self.contents.reserved[key] = (value, now + seconds * 1000)
            return value

    def announce(self, name: str, data: bytes, seconds: int) -> None:
        with self._lock:
            self.contents.workers[name] = (data, self._clock() + 1000 * seconds)

    def withdraw(self, name: str) -> None:
        with self._lock:
            self.contents.workers.pop(name, None)

    def announced(self) -> dict[str, bytes]:
        with self._lock:
            now = self._clock()
            return {name: data for name, (data, until) in sorted(self.contents.workers.items()) if until > now}

    def identity(self, candidate: str) -> str:
        with self._lock:
            self.contents.identity = self.contents.identity or candidate
            return self.contents.identity

    def confirm(self, incarnation: str, call_id: str) -> None:
        """Memory has no replicas."""

    def ping(self) -> None:
        """Memory is always there."""

    def close(self) -> None:
        """Nothing to close."""
