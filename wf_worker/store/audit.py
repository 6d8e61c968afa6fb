"""Whether a run's records agree with one another.

An audit proves of what it read that every live frame stands in exactly one place, that no window is open which nobody
is due to fill, and that what is counted twice is counted alike. A small run is read in one call; a large one in pages,
and from the beginning again when it has moved between two of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from wf_worker.errors import RequestRefused, RunDamaged
from wf_worker.store.memory_state import FINAL
from wf_worker.store.protocol import Records
from wf_worker.store.slices import Head

PLACES: Final = ("ready", "held", "paused", "leased", "waits", "failed")
"""Places that have a set of their own, in the order in which the audit call answers them."""

SETS: Final = ("ready", "held", "paused", "leases", "waits", "failed")
"""The names of those sets."""

SMALL: Final = 2_000
"""Frames and interrupts of a run that is read in one call."""

PAGE: Final = 500
PAGED_TRIES: Final = 5

DUE: Final = ("ready", "held", "paused")
ACTIVATION_WORDS: Final = 13


def audit_run(records: Records, incarnation: str) -> list[str]:
    """Every contradiction found in a run, as sentences; empty when there is none, or no such run."""
    reply = records.call("audit", incarnation, "audit")
    if reply[0] == b"gone":
        return []
    return _findings(reply)


def _findings(reply: Sequence[Any]) -> list[str]:
    try:
        return list(_Audit(_read(reply)).findings())
    except (RunDamaged, ValueError, KeyError) as error:
        return [f"a record cannot be read: {error}"]


def audit_any(records: Records, incarnation: str, *, small: int = SMALL, page: int = PAGE) -> list[str] | None:
    """Every contradiction found in a run of any size, as sentences; None when there is no such run.

    A run of up to ``small`` frames and interrupts is read in one call, a larger one by ``page`` records at a time.
    Raises :class:`RequestRefused` with ``run_moving`` for a large run that is never the same for as long as it is read.
    """
    for _ in range(PAGED_TRIES):
        first = records.call("audit_page", incarnation, "audit", "header", "0", page)
        if first[0] == b"gone":
            return None
        _, frames, interrupts = first[3]
        if int(frames) + int(interrupts) <= small:
            return audit_run(records, incarnation)
        reply = _in_pages(records, incarnation, first, page)
        if reply is not None:
            return _findings(reply)
    raise RequestRefused(
        "the run changes faster than it can be read",
        code="run_moving",
        hint="pause the run, let its handlers end, and ask again",
    )


def _in_pages(records: Records, incarnation: str, first: Sequence[Any], page: int) -> Sequence[Any] | None:
    """What the audit call answers of a run, read page by page; None when the run moved meanwhile."""
    sequence, (header, _, _) = first[1], first[3]
    read: dict[str, list[Any]] = {}
    for record in ("f", *SETS, "open", "holds", "a", "due", "e"):
        read[record], cursor = [], b""
        while cursor != b"0":
            answer = records.call("audit_page", incarnation, "audit", record, cursor or b"0", page)
            if answer[0] == b"gone" or answer[1] != sequence:
                return None
            cursor = answer[2]
            read[record] += answer[3]
    activations, counts = _apart(read["a"])
    sets = [list(dict.fromkeys(read[name])) for name in SETS]
    due = list(dict.fromkeys(read["due"]))
    return ["audit", header, read["f"], *sets, read["open"], read["holds"], activations, counts, due, read["e"], []]


def _apart(rows: Sequence[bytes]) -> tuple[list[bytes], list[bytes]]:
    """Activations and templates by key, and the two counts of each activation."""
    activations: list[bytes] = []
    counts: dict[bytes, tuple[bytes, bytes]] = {}
    for key, head, results, waiting in zip(*[iter(rows)] * 4, strict=True):
        activations += [key, head]
        if not key.endswith(b":t"):
            counts[key] = (results, waiting)
    return activations, [part for key, sizes in counts.items() for part in (key, *sizes)]


@dataclass(frozen=True, slots=True)
class _Activation:
    items: int
    next_index: int
    max_active: int
    max_outstanding: int
    policy: str
    controller: str
    chain: str
    results: int
    waiting: int

    @property
    def last(self) -> int:
        """The index before which the window lets items be admitted."""
        waiting = self.waiting if self.policy == "c" else 0
        return min(self.items, self.results + self.max_outstanding, self.results + waiting + self.max_active)


@dataclass(frozen=True, slots=True)
class _OpenInterrupt:
    frame: str
    revision: str
    hold: str
    near_activation: str
    expiry: str


@dataclass(frozen=True, slots=True)
class _EventStream:
    """How many events are kept, the ordinals of the first and the last of them, and the last one's text."""

    kept: int
    first: int
    last: int
    text: str


@dataclass(frozen=True, slots=True)
class _Run:
    header: dict[str, str]
    heads: dict[str, Head]
    sets: dict[str, list[str]]
    open: dict[int, _OpenInterrupt]
    holds: dict[str, int]
    activations: dict[str, _Activation]
    templates: set[str]
    due: set[str]
    events: _EventStream
    journal: list[tuple[str, str, str]]
    """Slot, value where it is short, length of the large value that it names."""

    @property
    def ended(self) -> bool:
        return self.header["status"] in FINAL

    @property
    def failing(self) -> bool:
        return self.header.get("failing", "") != ""

    @property
    def paused(self) -> bool:
        """Whether the run is paused: going on begins a release, whatever is held or paused until then."""
        return self.header.get("paused") == "1"

    @property
    def releasing(self) -> bool:
        return self.header.get("release", "") != ""


class _Audit:
    def __init__(self, run: _Run) -> None:
        self.run = run
        self.children = Counter(head.parent for head in run.heads.values() if head.parent)
        self.items = Counter(key.rpartition(":")[0] for key, head in run.heads.items() if head.kind == "c")

    def findings(self) -> Iterator[str]:
        yield from self._sets()
        yield from self._deadlines()
        yield from self._counters()
        yield from self._events()
        yield from self._journal()
        if self.run.header["status"] == "completed":
            yield from self._nothing_left()
        if self.run.ended:
            return
        for key, head in self.run.heads.items():
            yield from self._frame(key, head)
        for key, act in self.run.activations.items():
            yield from self._activation(key, act)
        yield from self._interrupts()
        yield from self._holds()
        yield from self._status()

    # ---- one place

    def _sets(self) -> Iterator[str]:
        heads = self.run.heads
        for place, members in self.run.sets.items():
            for key in members:
                if key not in heads:
                    yield f"frame {key} is in the set {place} and has no head"
                elif heads[key].place != place:
                    yield f"frame {key} is in the set {place}, its head says {heads[key].place}"
        for key, head in heads.items():
            if head.place in self.run.sets and key not in self.run.sets[head.place]:
                yield f"frame {key} says it is {head.place} and is not in that set"
            if head.place not in (*PLACES, "open", "blocked"):
                yield f"frame {key} is at the unknown place {head.place!r}"

    def _deadlines(self) -> Iterator[str]:
        heads = self.run.heads
        for key in self.run.due - {"run"}:
            if key.startswith("i"):
                opened = self.run.open.get(int(key[1:]))
                if opened is None or not opened.expiry:
                    yield f"interrupt {key[1:]} has a deadline and does not know of one"
            elif key not in heads or not heads[key].until:
                yield f"frame {key} has a deadline that its head does not know"
        for number, opened in self.run.open.items():
            if opened.expiry and f"i{number}" not in self.run.due:
                yield f"interrupt {number} expires and nobody is told"
        for key, head in heads.items():
            if head.until and key not in self.run.due:
                yield f"frame {key} says it has a deadline ({head.until}) and has none"
            if head.until and (head.until == "queue") != (head.place == "ready"):
                yield f"frame {key} is {head.place} under the deadline {head.until}"

    def _frame(self, key: str, head: Head) -> Iterator[str]:
        run = self.run
        if (head.place == "leased") != (head.token != ""):
            yield f"frame {key} is {head.place} with the token {head.token!r}"
        if head.place in (*DUE, "leased", "waits") and not head.purpose:
            yield f"frame {key} is {head.place} without a purpose"
        if head.place in (*DUE, "waits") and self.children[key] and head.purpose != "admit":
            yield f"frame {key} is due for {head.purpose} while {self.children[key]} of its children live"
        if head.place == "held" and not (run.releasing or run.paused or self._under_hold(head)):
            yield f"frame {key} is held and nothing holds it"
        if head.place == "paused" and not (run.releasing or run.paused):
            yield f"frame {key} is paused and the run is not"
        if head.place == "blocked" and not self.children[key]:
            yield f"frame {key} is blocked on nothing"
        if head.parent and head.parent not in run.heads:
            yield f"frame {key} has no parent"
        if head.kind == "c" and key.rpartition(":")[0] not in run.activations:
            yield f"item frame {key} belongs to no open activation"
        if head.activation and head.activation not in run.activations:
            yield f"frame {key} controls the activation {head.activation}, which is not open"
        expected = self._chain(key, head)
        if expected is not None and head.chain != expected:
            yield f"frame {key} has the chain {head.chain!r} where {expected!r} is around it"

    def _chain(self, key: str, head: Head) -> str | None:
        if head.kind == "c":
            act = self.run.activations.get(key.rpartition(":")[0])
            return None if act is None else act.chain
        parent = self.run.heads.get(head.parent)
        return "" if parent is None else parent.chain

    def _under_hold(self, head: Head) -> bool:
        links = [link.rpartition(".")[0] for link in head.chain.split(",") if link]
        if head.purpose == "admit":
            links.append(head.activation)
        return "run" in self.run.holds or any(link in self.run.holds for link in links)

    # ---- windows

    def _activation(self, key: str, act: _Activation) -> Iterator[str]:
        run = self.run
        controller = run.heads.get(act.controller)
        if key not in run.templates:
            yield f"activation {key} has no template"
        if controller is None:
            yield f"activation {key} has no controller"
            return
        own = f"{key}.{act.policy}"
        if act.chain != (f"{controller.chain},{own}" if controller.chain else own):
            yield f"the items of {key} have the chain {act.chain!r}, its controller has {controller.chain!r}"
        if controller.activation != key:
            yield f"activation {key} is not the one its controller {act.controller} is at"
        if not 0 <= act.results <= act.next_index <= act.items:
            yield f"activation {key} has {act.results} results, {act.next_index} admitted of {act.items} items"
        live = act.next_index - act.results
        if self.items[key] != live:
            yield f"activation {key} should have {live} live items and has {self.items[key]}"
        if live > act.max_outstanding:
            yield f"activation {key} has {live} items outstanding of at most {act.max_outstanding}"
        if act.policy == "q" and live > act.max_active:
            yield f"activation {key} has {live} active items of at most {act.max_active}"
        due = controller.place in DUE
        if not run.failing and act.next_index < act.last and not (due and controller.purpose == "admit"):
            yield f"activation {key} has room for items {act.next_index} to {act.last} and nobody is due to admit them"
        if act.results == act.items and controller.place not in (*DUE, "leased", "failed"):
            yield f"activation {key} is complete and its controller is not due to finish it"
        near = sum(1 for opened in run.open.values() if opened.near_activation == key)
        if act.waiting != (near if act.policy == "c" else 0):
            yield f"activation {key} counts {act.waiting} waiting items where {near} wait"

    # ---- interrupts and holds

    def _interrupts(self) -> Iterator[str]:
        run = self.run
        waiting = Counter(opened.frame for opened in run.open.values())
        for number, opened in run.open.items():
            head = run.heads.get(opened.frame)
            if head is None or head.place != "open":
                yield f"interrupt {number} is open and its frame {opened.frame} does not wait"
            elif head.revision != opened.revision:
                yield f"interrupt {number} has the revision {opened.revision}, its frame {head.revision}"
        for key, head in run.heads.items():
            if head.place == "open" and waiting[key] != 1:
                yield f"frame {key} waits at {waiting[key]} open interrupts"

    def _holds(self) -> Iterator[str]:
        for hold, number in self.run.holds.items():
            opened = self.run.open.get(number)
            if opened is None:
                yield f"{hold} is held by interrupt {number}, which is not open"
            elif opened.hold != hold:
                yield f"{hold} is held by interrupt {number}, which holds {opened.hold or 'nothing'}"
            if hold != "run" and hold not in self.run.activations:
                yield f"the hold on {hold} is on no open activation"

    # ---- counters and status

    def _counters(self) -> Iterator[str]:
        run = self.run
        sequence, steps = int(run.header["seq"]), int(run.header["steps"])
        revisions = Counter(head.revision for head in run.heads.values())
        for revision, times in revisions.items():
            if times > 1:
                yield f"the revision {revision} was given out {times} times"
        for revision in (*revisions, run.header["rev"]):
            if int(revision.partition(".")[0]) > sequence:
                yield f"the revision {revision} is ahead of the run's sequence {sequence}"
        if steps > int(run.header["max_steps"]):
            yield f"the run took {steps} of at most {run.header['max_steps']} steps"
        numbers = [head.step for head in run.heads.values() if head.step is not None]
        if max([*numbers, *run.open], default=0) > steps:
            yield f"a step has a number above the run's count {steps}"
        if len(set(numbers)) != len(numbers):
            yield "two frames have the same step number"

    def _journal(self) -> Iterator[str]:
        """Every mark is one first visit of a root step, and nothing is kept for a mark that is still to come.

        A large run's journal is not read: its values may be large as well.
        """
        if not self.run.journal:
            return
        marks = int(self.run.header.get("marks", "0"))
        reached = sorted(int(value.partition("|")[0]) for slot, value, _ in self.run.journal if slot.startswith("@"))
        if reached != list(range(marks + 1)):
            yield f"the run has set {marks} marks and its journal knows {reached}"
        for slot, value, length in self.run.journal:
            if not slot.startswith("@") and not 0 <= int(slot.partition("|")[0]) <= marks:
                yield f"the journal keeps {slot} for a mark above {marks}"
            if length and value.rpartition(" ")[2] != length:
                yield f"the journal keeps {slot} as {value}, of which {length} bytes are there"

    def _events(self) -> Iterator[str]:
        events, header = self.run.events, self.run.header
        if events.kept != events.last - events.first + (events.last > 0):
            yield f"{events.kept} events are kept from {events.first} to {events.last}"
        mark, *_ = events.text.split("|")
        if header.get("events", "0.0") != (f"{events.last}.{mark}" if events.last else "0.0"):
            yield f"the last event is {events.last}.{mark}, the header says {header.get('events')}"
        if self.run.ended and events.last and not events.text.endswith(f"|status|{header['status']}"):
            yield f"the run is {header['status']} and its last event says otherwise: {events.text}"

    def _status(self) -> Iterator[str]:
        run, status = self.run, self.run.header["status"]
        leased = bool(run.sets["leased"])
        if run.failing:
            if not leased:
                yield "the run is failing, has no claim left and has not failed"
            return
        can = any(run.sets[place] for place in ("ready", "waits", "paused")) or (
            run.releasing and bool(run.sets["held"])
        )
        if run.open:
            expected = "running" if leased or (can and "run" not in run.holds) else "interrupted"
        else:
            expected = "running"
            if not leased and not can and not run.sets["held"]:
                yield "nothing can happen to the run any more and it has not ended"
        if status not in (expected, "pending"):
            yield f"the run is {status} and should be {expected}"

    def _nothing_left(self) -> Iterator[str]:
        for place, members in self.run.sets.items():
            if members:
                yield f"the run is completed and frames are {place}: {', '.join(members)}"
        if self.run.open:
            yield f"the run is completed and interrupts are open: {', '.join(map(str, self.run.open))}"


def _read(reply: Sequence[Any]) -> _Run:
    _, header, heads, *rest = reply
    opened, holds, activations, counts, due, events, journal = rest[len(PLACES) : len(PLACES) + 7]
    sizes = {
        _text(key): (int(results), int(waiting)) for key, results, waiting in zip(*[iter(counts)] * 3, strict=True)
    }
    acts = {_text(key): value for key, value in _pairs(activations)}
    return _Run(
        header={_text(name): value.decode(errors="replace") for name, value in _pairs(header)},
        heads={_text(key): Head.parse(text, _text(key)) for key, text in _pairs(heads)},
        sets={place: [_text(key) for key in members] for place, members in zip(PLACES, rest, strict=False)},
        open={int(key): _open(value) for key, value in _pairs(opened) if not key.startswith(b"b")},
        holds={_text(key): int(number) for key, number in _pairs(holds)},
        activations={key: _activation(value, *sizes[key]) for key, value in acts.items() if not key.endswith(":t")},
        due={_text(key) for key in due},
        events=_event_stream(*events),
        journal=[
            (_text(slot), value.decode(errors="replace"), _text(length))
            for slot, value, length in zip(*[iter(journal)] * 3, strict=True)
        ],
        templates={key.removesuffix(":t") for key in acts if key.endswith(":t")},
    )


def _activation(text: bytes, results: int, waiting: int) -> _Activation:
    words = text.decode().split("|")
    if len(words) != ACTIVATION_WORDS:
        raise ValueError(f"malformed activation head {text!r}")
    n, following, active, outstanding = map(int, words[:4])
    return _Activation(n, following, active, outstanding, words[4], words[5], words[6], results, waiting)


def _event_stream(kept: bytes, first: Sequence[Any], last: Sequence[Any]) -> _EventStream:
    text = last[0][1][1].decode() if last else ""
    return _EventStream(int(kept), _first_ordinal(first), _first_ordinal(last), text)


def _first_ordinal(entries: Sequence[Any]) -> int:
    return int(entries[0][0].partition(b"-")[0]) if entries else 0


def _open(text: bytes) -> _OpenInterrupt:
    frame, revision, hold, near, _, _, expiry = text.decode().split("|")
    return _OpenInterrupt(frame, revision, hold, near, expiry)


def _pairs(flat: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
    return zip(flat[::2], flat[1::2], strict=True)


def _text(value: bytes) -> str:
    return value.decode()
