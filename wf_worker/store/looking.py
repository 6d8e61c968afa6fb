"""Looking at runs: none of it reads every frame of a large run, and nothing of it changes one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from wf_core.run_state import Json
from wf_worker.errors import RunDamaged
from wf_worker.queues import NORMAL
from wf_worker.store.audit import audit_any
from wf_worker.store.calls import StoreCalls, text_of
from wf_worker.store.encoding import from_bytes, to_bytes
from wf_worker.store.layout import check_layout
from wf_worker.store.protocol import (
    ActivationProgress,
    RunFilter,
    RunRecord,
    Served,
    TracedStep,
)
from wf_worker.store.slices import Head

_HEADER_FIELDS: Final = (
    *("run_id", "workflow", "version", "digest", "status", "rev", "outcome", "output", "error", "max_steps", "steps"),
    *("flow_digest", "traced", "created", "updated", "ended", "paused", "recovered", "deadline", "forked_from"),
    *("priority", "tags"),
)


LIST_LOOKS: Final = 1_000
"""How many runs one page of a list looks at, where only some of them are wanted."""

ANNOUNCED_SECONDS: Final = 30
"""How long a worker node is believed to serve what it said."""


class Looking(StoreCalls):
    """What can be read of runs."""

    def newest(self, run_id: str) -> str | None:
        """The newest incarnation of a run id, or None."""
        return self.records.newest(run_id)

    def inspect(self, incarnation: str, *, with_input: bool = False) -> RunRecord | None:
        """The run without its frames, or None when there is no such run."""
        header = self._header(incarnation, ("input", "layout") if with_input else ("layout",))
        if header is None:
            return None
        check_layout(incarnation, header.get("layout"))
        return _record(incarnation, header)

    def _header(self, incarnation: str, more: Sequence[str] = ()) -> Mapping[str, bytes] | None:
        header = self.records.header(incarnation, (*_HEADER_FIELDS, *more))
        return None if header is None or header.get("status") in (b"deleting", b"creating") else header

    def list_runs(
        self, runs: RunFilter | None = None, *, before: tuple[int, str] | None = None, limit: int = 50
    ) -> tuple[list[RunRecord], tuple[int, str] | None]:
        """Runs of all shards, newest first, and where the next page begins (creation time, incarnation), or None.

        A page may hold fewer than ``limit`` while more follow: at most :data:`LIST_LOOKS` runs are looked at.
        """
        runs = runs or RunFilter()
        indexes = runs.indexes()
        index = indexes[0] if indexes else None
        records: list[RunRecord] = []
        looked = 0
        while True:
            page, before = self._page(index, runs, before, limit)
            listed = [record for incarnation, created in page if (record := self._listed(incarnation, created))]
            wanted = [record for record in listed if len(indexes) < 2 or runs.shows(record)]
            room = limit - len(records)
            records += wanted[:room]
            looked += len(page)
            if len(wanted) > room:
                last = records[-1]
                return records, (last.created_ms, last.incarnation)
            if before is None or len(records) == limit or looked >= LIST_LOOKS:
                return records, before

    def _page(
        self, index: str | None, runs: RunFilter, before: tuple[int, str] | None, limit: int
    ) -> tuple[list[tuple[str, int]], tuple[int, str] | None]:
        """The next runs of an index in all shards, as incarnation and creation time, and where those behind begin."""
        to_ms = runs.created_to_ms if before is None else before[0]
        found: list[tuple[int, str]] = []
        for shard in range(self.keys.shards):
            most = limit + 1 + (64 if before else 0)
            for incarnation, created in self.records.page(
                shard, index, most, from_ms=runs.created_from_ms, to_ms=to_ms
            ):
                if before is None or (created, incarnation) < before:
                    found.append((created, incarnation))
        found.sort(reverse=True)
        page = found[:limit]
        return [(name, created) for created, name in page], (page[-1] if len(found) > limit else None)

    def _listed(self, incarnation: str, created_ms: int) -> RunRecord | None:
        """One run of a list, in whatever layout. A damaged one is listed as what it is: it may not hide the others."""
        try:
            header = self._header(incarnation)
            return None if header is None else _record(incarnation, header)
        except RunDamaged as damage:
            error: dict[str, Json] = {"type": "damaged", "message": damage.message, "node_id": None, "frame_id": None}
            return RunRecord(
                run_id=incarnation,
                incarnation=incarnation,
                workflow="",
                version="",
                digest="",
                workflow_digest="",
                status="failed",
                revision="",
                outcome=None,
                output=None,
                error=error,
                max_steps=0,
                steps_executed=0,
                trace_count=0,
                created_ms=created_ms,
                updated_ms=created_ms,
                ended_ms=None,
                paused=False,
            )

    def count_runs(self, runs: RunFilter | None = None) -> int | None:
        """How many runs there are; None where that could only be counted one by one."""
        runs = runs or RunFilter()
        indexes = runs.indexes()
        if len(indexes) > 1 or runs.created_from_ms is not None or runs.created_to_ms is not None:
            return None
        index = indexes[0] if indexes else None
        return sum(self.records.count(shard, index) for shard in range(self.keys.shards))

    def trace(self, incarnation: str, start: int, limit: int) -> list[TracedStep]:
        """Trace entries from a zero-based position, at most ``limit``."""
        return [
            TracedStep(number, worker, from_bytes(entry, "trace entry"), discarded or None)
            for number, worker, entry, discarded in self.records.trace(incarnation, start, limit)
        ]

    def progress(self, incarnation: str) -> list[ActivationProgress]:
        """How far every open concurrent foreach is, without reading frames."""
        progress: list[ActivationProgress] = []
        for key, head, template, done, asking in self.records.progress(incarnation):
            words = head.decode().split("|")
            made = from_bytes(template, "activation template")
            total, admitted = int(words[0]), int(words[1])
            progress.append(ActivationProgress(made[2], made[4], key, total, admitted, done, asking))
        return progress

    def counts(self, incarnation: str) -> dict[str, int]:
        """How many frames are ``ready``, ``held``, ``paused``, ``running``, ``waiting``, ``failed`` or ``asking``.

        ``parked`` are those of the ready that a worker gave back because it does not serve them.
        """
        return self.records.counts(incarnation)

    def audit(self, incarnation: str) -> list[str] | None:
        """Every contradiction in the run's records, as sentences; None when there is no such run. Never changes one."""
        return audit_any(self.records, incarnation)

    def waits_until(self, incarnation: str) -> int | None:
        """When the first of the steps that wait for a time goes on, in ms since the epoch; None when none waits."""
        return self.records.next_wait(incarnation)

    def parked(self, incarnation: str) -> dict[str, int]:
        """How many frames wait for a worker that serves a capability, by capability."""
        return dict(sorted(Counter(self.records.parked(incarnation)).items()))

    def announce(self, node: str, capabilities: Sequence[str], queues: Sequence[str]) -> None:
        """A worker node says what it serves; it is believed for :data:`ANNOUNCED_SECONDS`."""
        said: dict[str, Json] = {"capabilities": sorted(capabilities), "queues": sorted(queues)}
        self.records.announce(node, to_bytes(said), ANNOUNCED_SECONDS)

    def withdraw(self, node: str) -> None:
        """A worker node takes back what it announced."""
        self.records.withdraw(node)

    def announced(self) -> Served:
        """What the worker nodes that live serve."""
        said = [from_bytes(data, f"announcement of worker {node}") for node, data in self.records.announced().items()]
        return Served(tuple((frozenset(each["capabilities"]), frozenset(each["queues"])) for each in said))

    def parked_runs(self) -> list[str]:
        """Runs with parked frames."""
        return [incarnation for shard in range(self.keys.shards) for incarnation in self.records.parked_runs(shard)]

    def owners(self, incarnation: str) -> list[str]:
        """The workers that hold claims of a run now, one entry a claim. Reads every live frame: for small runs."""
        reply = self._call("audit", incarnation, self._new_id())
        if reply.word == "gone":
            return []
        heads = reply.values[2]
        parsed = (Head.parse(heads[i + 1], text_of(heads[i])) for i in range(0, len(heads), 2))
        return [head.owner for head in parsed if head.place == "leased"]


def _record(incarnation: str, header: Mapping[str, bytes]) -> RunRecord:
    def text(name: str) -> str:
        value = header.get(name)
        if value is None:
            raise RunDamaged(f"the run has no {name} in its header", path=f"h.{name}")
        return value.decode()

    def optional(name: str) -> str | None:
        value = header.get(name)
        return None if value is None else value.decode()

    def number(name: str) -> int:
        words = text(name)
        if not words.isdigit():
            raise RunDamaged(f"header field {name} is {words!r}, which is no number", path=f"h.{name}")
        return int(words)

    def value(name: str) -> Any:
        data = header.get(name)
        return None if not data else from_bytes(data, f"header field {name}")

    return RunRecord(
        run_id=text("run_id"),
        incarnation=incarnation,
        workflow=text("workflow"),
        version=optional("version") or "",
        digest=text("digest"),
        workflow_digest=text("flow_digest"),
        status=text("status"),
        revision=text("rev"),
        outcome=optional("outcome"),
        output=value("output"),
        error=value("error"),
        max_steps=number("max_steps"),
        steps_executed=number("steps"),
        trace_count=number("traced"),
        created_ms=number("created"),
        updated_ms=number("updated"),
        ended_ms=None if optional("ended") is None else number("ended"),
        paused=optional("paused") == "1",
        recovered_frames=0 if optional("recovered") is None else number("recovered"),
        workflow_input=value("input"),
        deadline_ms=None if optional("deadline") is None else number("deadline"),
        priority=optional("priority") or NORMAL,
        tags=value("tags") or {},
        forked_from=value("forked_from"),
    )
