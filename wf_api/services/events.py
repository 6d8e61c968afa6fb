"""What happens to a run, event by event."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from wf_api.services.runs import run_not_found
from wf_api.services.views import time_text
from wf_api.wire import EventKind, EventPage, RunEventView, RunStatus
from wf_core.plan import Program
from wf_worker.errors import RequestRefused
from wf_worker.store.events import RunEvent
from wf_worker.store.runs import RunStore

_WITHOUT_CAUSE = {"step": "error"}
"""A failed attempt's cause in the store is what its frame was due for: the step itself, where the handler raised."""


@dataclass(frozen=True, slots=True)
class WatchedRun:
    """A run that somebody reads the events of: this very run, also when its id is used anew meanwhile."""

    run_id: str
    incarnation: str
    digest: str
    created_ms: int


@dataclass(frozen=True, slots=True)
class Batch:
    """Events as they are shown, where to go on, and whether nothing follows."""

    events: list[RunEventView]
    last_id: str | None
    ended: bool


class EventService:
    """Reading events, over a store."""

    def __init__(self, store: RunStore) -> None:
        self._store = store

    def find(self, run_id: str) -> WatchedRun:
        """The run that has this id now; ``run_not_found`` when there is none."""
        incarnation = self._store.newest(run_id)
        record = None if incarnation is None else self._store.inspect(incarnation)
        if record is None:
            raise run_not_found(run_id)
        return WatchedRun(record.run_id, record.incarnation, record.digest, record.created_ms)

    def page(self, run_id: str, *, after: str | None = None, limit: int = 50) -> EventPage:
        """Events of a run behind an id, or from the oldest that is kept.

        Raises ``run_not_found``, ``event_id_unknown``, ``events_trimmed``.
        """
        batch = self.read(self.find(run_id), after, limit)
        return {
            "run_id": run_id,
            "events": batch.events,
            "limit": limit,
            "last_id": batch.last_id,
            "ended": batch.ended,
        }

    def read(self, run: WatchedRun, after: str | None, limit: int) -> Batch:
        """What follows an id."""
        try:
            page = self._store.events(run.incarnation, after=after, limit=limit)
        except RequestRefused:
            if self._store.inspect(run.incarnation) is None:  # its retention has passed
                raise run_not_found(run.run_id) from None
            raise
        ended = page.ended
        if page.last_id is None:  # no event at all: a run from before there were any, or one that was removed
            record = self._store.inspect(run.incarnation)
            if record is None:
                raise run_not_found(run.run_id)
            ended = record.ended
        program = self._store.program(run.digest) if page.events else None
        shown: list[RunEventView] = [_gap(page.skipped)] if page.skipped else []
        shown += [_event(event, program, run.created_ms) for event in page.events if program is not None]
        return Batch(shown, page.last_id, ended)

    def last_events(self, incarnations: Sequence[str]) -> list[str | None]:
        """The id of the last event of each run."""
        return self._store.last_events(incarnations)


def _gap(skipped: int) -> RunEventView:
    return {"id": None, "kind": "gap", "at": None, "skipped": skipped}


def _event(event: RunEvent, program: Program, created_ms: int) -> RunEventView:
    view: RunEventView = {
        "id": event.id,
        "kind": cast(EventKind, event.kind),
        "at": time_text(created_ms + event.since_ms),
    }
    if event.kind == "status":
        view["status"] = cast(RunStatus, event.details[0])
    elif event.details:
        _at_step(view, event, program)
    return view


def _at_step(view: RunEventView, event: RunEvent, program: Program) -> None:
    frame, *more = event.details
    step = None if event.position is None else program.step_at(event.position)[1]
    view["step_number"] = event.step
    view["node_id"] = None if step is None else step.id
    view["step_type"] = None if step is None else step.type
    view["frame"] = frame
    _, colon, index = frame.partition(":")
    if colon:
        view["index"] = int(index)
    match event.kind:
        case "step":
            view["next_node_id"] = program.step_at(int(more[0]))[1].id if more[0] else None
            view["outcome"] = more[1]
        case "foreach_opened":
            view["items"] = int(more[0])
        case "interrupt_opened" | "interrupt_closed":
            view["interrupt_key"] = f"interrupt:{view['node_id']}#{event.step}"
            if more[0]:
                view["answer"] = "expired" if more[0] == "expired" else "answered"
        case "attempt_failed":
            view["attempt"] = int(more[0])
            view["cause"] = _WITHOUT_CAUSE.get(more[1], more[1])
        case _:
            pass
