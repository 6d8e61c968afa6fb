"""The events of a run: one order, read from any id on.

An id, ``<ordinal>.<mark>``, names the whole history up to its event. One that the run does not have is refused: its
event is no longer kept, or lies in a future that the store has lost, or belongs to another run. So whoever reads on
from an id gets what followed it, or is told that this cannot be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from wf_worker.errors import RequestRefused, RunDamaged
from wf_worker.store.calls import StoreCalls
from wf_worker.store.memory_state import FINAL

STEP: Final = "step"
_STEP_WORD: Final = "s"
_AT_STEPS: Final = {
    _STEP_WORD: 3,
    "foreach_opened": 2,
    "interrupt_opened": 2,
    "interrupt_closed": 2,
    "attempt_failed": 3,
    "item_failed": 1,
    "step_failed": 1,
}
"""Kinds that happen at a step, and into how many pieces the words behind step number and position are cut at most."""


@dataclass(frozen=True, slots=True)
class RunEvent:
    """One event. ``details`` are the words of its kind, as lua/shared/events.lua lists them behind the position.

    ``step`` and ``position`` are None where the event is about the run as a whole, or its frame had no step number yet.
    """

    ordinal: int
    mark: str
    since_ms: int
    """When, in ms since the run was created."""
    kind: str
    step: int | None
    position: int | None
    details: tuple[str, ...]

    @property
    def id(self) -> str:
        """What a reader names to go on behind it."""
        return f"{self.ordinal}.{self.mark}"

    @property
    def ends(self) -> bool:
        """Whether nothing follows it, unless somebody lets the run go on."""
        return self.kind == "status" and self.details[0] in FINAL


@dataclass(frozen=True, slots=True)
class EventPage:
    """Events that follow one another. ``skipped`` ones came before them and are no longer kept.

    ``last_id`` is where to go on: the id of the last event, or where the page began. ``ended``: nothing follows.
    """

    events: tuple[RunEvent, ...]
    skipped: int
    last_id: str | None
    ended: bool


class Events(StoreCalls):
    """Reading what happens to runs."""

    def events(self, incarnation: str, *, after: str | None = None, limit: int = 100) -> EventPage:
        """The events behind an id, or from the first that is kept.

        Raises :class:`RequestRefused` with ``event_id_unknown``, or ``events_trimmed`` (details: the oldest one kept).
        """
        named = None if after is None else _ordinal(after)
        found = [_event(ordinal, text) for ordinal, text in self.records.events(incarnation, named or 1, limit + 2)]
        if after is None:
            skipped = found[0].ordinal - 1 if found else 0
        else:
            if not found or found[0].id != after:
                raise self._unknown(incarnation, after, named or 0)
            skipped = 0
        following = found if after is None else found[1:]
        page = following[:limit]
        last = page[-1] if page else found[0] if found else None
        return EventPage(
            events=tuple(page),
            skipped=skipped,
            last_id=None if last is None else last.id,
            ended=len(following) == len(page) and last is not None and last.ends,
        )

    def last_events(self, incarnations: Sequence[str]) -> list[str | None]:
        """The id of the last event of each run, read in one go; None where there is no such run, or no event."""
        return self.records.last_events(incarnations)

    def _unknown(self, incarnation: str, after: str, named: int) -> RequestRefused:
        oldest = self.records.events(incarnation, 1, 1)
        if oldest and 0 < named < oldest[0][0]:
            kept = _event(*oldest[0])
            return RequestRefused(
                f"the events behind {after} are no longer kept, the oldest that is kept is {kept.id}",
                code="events_trimmed",
                path="after",
                hint="begin anew without an id; the trace of the run may show what is missing",
                details={"oldest": kept.id},
            )
        return RequestRefused(
            f"the run has no event {after}",
            code="event_id_unknown",
            path="after",
            hint="begin anew without an id: the store has lost its last writes, or the id is another run's",
        )


def _ordinal(event_id: str) -> int:
    number = event_id.partition(".")[0]
    return int(number) if number.isascii() and number.isdigit() and len(number) <= 15 else 0


def _event(ordinal: int, text: bytes) -> RunEvent:
    what = f"event {ordinal}"
    words = text.decode().split("|", 3)
    try:
        mark, since_ms, kind, *rest = words
        if kind not in _AT_STEPS:
            return RunEvent(ordinal, mark, int(since_ms), kind, None, None, tuple(rest[0].split("|")) if rest else ())
        step, position, *details = rest[0].split("|", 1 + _AT_STEPS[kind])
        return RunEvent(
            ordinal,
            mark,
            int(since_ms),
            STEP if kind == _STEP_WORD else kind,
            int(step) if step else None,
            int(position) if position else None,
            tuple(details),
        )
    except (ValueError, IndexError) as error:
        raise RunDamaged(f"{what} is malformed: {error}", path=f"e[{ordinal}]") from error
