"""What must hold of a run whatever happens, and where in a simulation it is asked. See docs/simulation.md.

 I1  a transition is applied at most once, whole    Invariants.after: a call that had its effect changes nothing again
 I2  every run comes to an end or to rest           Simulation.run: it ends; Invariants.attended: a sweeper will come
 I3  equal to the sequential engine                 history.compare: with the same handler results, at the end
 I4  no sibling's uncommitted writes                history.Committed: each result was computed from what the sequential
 I5  a child sees nothing of its caller             engine gives to that very visit, payload and place alike
 I6  the context is that of the ancestry
 I7  a stale claim changes nothing                  Invariants._commit: only the present holder's commit is applied, and
                                                    Invariants._lost: only a lease that is over is taken away
 I8  damage is told, never read as absent           history.compare: nothing was damaged, so no run may fail as damaged
 I9  an interrupt is answered at most once          Invariants._answered; a refused answer leaves the header as it was
I10  what was acknowledged is there                 Invariants.acknowledged: from the answer on, in this history
I11  every frame in one place, no window leaks      wf_worker.store.audit, after every step that called something
I12  nothing is left after retention                Simulation.end: also after late calls have been made again

What this module remembers of a run is set back together with the store when that loses its last writes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.support.tapes import Activity
from wf_worker.store.memory_state import FINAL, Contents

Sent = tuple[str, str, str, tuple[Any, ...]]
"""A call as it is sent: script, incarnation, call id, arguments."""

EFFECTS: Final[Mapping[str, frozenset[bytes]]] = {
    "claim": frozenset({b"granted", b"admitted", b"held", b"paused"}),
    "commit": frozenset({b"done", b"claimed", b"late"}),
    "create": frozenset({b"created"}),
    "give_back": frozenset({b"given"}),
    "lost": frozenset({b"lost"}),
    "fence": frozenset({b"fenced", b"stopped"}),
    "resume": frozenset({b"resumed"}),
    "expire": frozenset({b"expired"}),
    "cancel": frozenset({b"cancelled"}),
    "discard": frozenset({b"traced"}),
    "deadline": frozenset({b"failed"}),
    "fail_run": frozenset({b"failed"}),
    "pause": frozenset({b"paused", b"running"}),
    "retry_failed": frozenset({b"retried"}),
}
"""Answers that say that the call had its effect. The others (fire, release, unpark, reap, sweep) name no one thing."""

HEADER: Final = ("seq", "rev", "status", "steps", "max_steps", "traced", "paused", "failing", "error", "ended")
LIFE: Final = ("retry", "paused_at")
"""What cannot stay the same when anything of a run was changed by a call of :data:`EFFECTS`."""


@dataclass
class Books:
    """What happened in the present history of the store."""

    effective: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """Script and id of every call that had its effect."""
    holders: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    """Who holds a frame (incarnation, key): the activity that claimed it last."""
    leases: dict[tuple[str, str, str], int] = field(default_factory=dict[tuple[str, str, str], int])
    """Until when a token was promised its frame."""
    answered: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """Interrupts that were closed: incarnation and number."""
    acknowledged: set[str] = field(default_factory=set[str])
    """Incarnations whose start was answered."""
    reaped: set[str] = field(default_factory=set[str])
    cancelled: dict[str, Any] = field(default_factory=dict[str, Any])
    """What a cancelled run held when it was cancelled."""


class Invariants:
    """Looks at every call. ``broken`` collects what must not be, as sentences."""

    def __init__(self, records: Any, copy_of: Callable[[str], Any]) -> None:
        self.records = records
        self._copy_of = copy_of
        self.books = Books()
        self.broken: list[str] = []
        self.lives: dict[str, tuple[str, ...]] = {}
        """In which life of a run each revision of its header was read."""

    def snapshot(self) -> Books:
        """What :meth:`restore` goes back to."""
        return copy.deepcopy(self.books)

    def restore(self, books: Books) -> None:
        """The store lost what came after."""
        self.books = copy.deepcopy(books)

    def blame(self, sentence: str) -> None:
        """Something is not as it must be."""
        self.broken.append(sentence)

    # ---- around one call

    def made(self, sent: Sent, by: Activity | None, now_ms: int) -> list[Any]:
        """Makes the call for ``by`` and judges it."""
        script, incarnation, call_id, _ = sent
        again = (script, call_id) in self.books.effective
        before = self._header(incarnation)
        reply = self.records.call(script, incarnation, call_id, *sent[3])
        word = reply[0]
        if again or (script == "resume" and word != b"resumed"):
            # I1, I9: also when it is executed again much later, and when it was refused.
            after = self._header(incarnation)
            if after != before:
                self.blame(f"I1: {script} was executed again, answered {word!r} and changed {_changes(before, after)}")
        elif word in EFFECTS.get(script, frozenset()):
            self.books.effective.add((script, call_id))
            judge = getattr(self, f"_{script}", None)
            if judge is not None:
                judge(sent, by, now_ms, before)
        if script == "renew" and word == b"renewed":
            frame, token, lease_ms = sent[3][:3]
            self.books.leases[incarnation, str(frame), str(token)] = now_ms + int(lease_ms)
        if script == "reap" and word == b"reaped":
            self.books.reaped.add(incarnation)
        return reply

    def _claim(self, sent: Sent, by: Activity | None, now_ms: int, _before: Any) -> None:
        _, incarnation, _, args = sent
        frame, token, lease_ms = str(args[0]), str(args[2]), int(args[4])
        self.books.holders[incarnation, frame] = id(by)
        # One that asks again, for it heard no answer, is told once more what it holds, and holds it no longer for that.
        self.books.leases.setdefault((incarnation, frame, token), now_ms + lease_ms)

    def _commit(self, sent: Sent, by: Activity | None, _now_ms: int, _before: Any) -> None:
        holder = self.books.holders.pop((sent[1], str(sent[3][0])), None)
        if holder != id(by):
            self.blame("I7: a commit was applied whose claim is not the frame's present one")

    def _lost(self, sent: Sent, _by: Activity | None, now_ms: int, _before: Any) -> None:
        frame, token = str(sent[3][0]), str(sent[3][1])
        self.books.holders.pop((sent[1], frame), None)
        until = self.books.leases.pop((sent[1], frame, token), 0)
        if until > now_ms:
            self.blame(f"I7: a claim was called lost {until - now_ms} ms before its lease was over")

    def _give_back(self, sent: Sent, _by: Activity | None, _now_ms: int, _before: Any) -> None:
        self.books.holders.pop((sent[1], str(sent[3][0])), None)

    _fence = _give_back

    def _resume(self, sent: Sent, _by: Activity | None, _now_ms: int, _before: Any) -> None:
        key = (sent[1], str(sent[3][0]))
        if key in self.books.answered:
            self.blame(f"I9: interrupt {key[1]} was closed twice")
        self.books.answered.add(key)

    _expire = _resume

    def decided(self, incarnation: str) -> None:
        """Somebody reads a header's revision, to decide on what it says."""
        header = self._header(incarnation)
        if header:
            self.lives[header["rev"].decode()] = _life(incarnation, header)

    def _of_this_life(self, sent: Sent, revision: str, before: Mapping[str, bytes]) -> None:
        # Where it changes nothing it may come from whatever life.
        if self._header(sent[1]).get("rev") == before.get("rev") or not revision:
            return
        if self.lives[revision] != _life(sent[1], before):
            self.blame(f"I1: {sent[0]} changed a run, which was decided on in an earlier life of it")

    def _pause(self, sent: Sent, _by: Activity | None, _now_ms: int, before: Mapping[str, bytes]) -> None:
        self._of_this_life(sent, str(sent[3][1]), before)

    def _retry_failed(self, sent: Sent, _by: Activity | None, _now_ms: int, before: Mapping[str, bytes]) -> None:
        self._of_this_life(sent, str(sent[3][0]), before)

    def _cancel(self, sent: Sent, _by: Activity | None, _now_ms: int, before: Mapping[str, bytes]) -> None:
        self._of_this_life(sent, str(sent[3][0]), before)
        self.books.cancelled[sent[1]] = self._copy_of(sent[1])

    def unchanged(self, incarnation: str) -> None:
        """A cancelled run is as it was when it was cancelled (I7), but for results shown as discarded."""
        if self._copy_of(incarnation) != self.books.cancelled[incarnation]:
            self.blame(f"I7: the run {incarnation} was changed after it was cancelled")

    def _header(self, incarnation: str) -> dict[str, bytes]:
        return self.records.header(incarnation, (*HEADER, *LIFE)) or {}

    # ---- after a step

    def acknowledge(self, incarnation: str) -> None:
        """A start was answered: what it speaks of is in the store (I10)."""
        self.books.acknowledged.add(incarnation)
        self.acknowledged()

    def acknowledged(self) -> None:
        """Nothing that was acknowledged in this history is gone before its retention is over (I10)."""
        for incarnation in self.books.acknowledged - self.books.reaped:
            if not self._header(incarnation):
                self.blame(f"I10: the run {incarnation} was acknowledged and is not there")

    def attended(self, contents: Contents, now_ms: int) -> None:
        """Whatever of a run is due, or will be, a sweeper comes for it within ten seconds (I2)."""
        for incarnation, run in contents.runs.items():
            if not run.header or run.header["status"].decode() in FINAL:
                continue
            times = [scores.values() for scores in (run.leases, run.ready, run.waits, run.due) if scores]
            if not times:
                continue
            due = max(now_ms, min(map(min, times)))
            score = next(
                (s.attention[incarnation] for s in contents.shards.values() if incarnation in s.attention), None
            )
            if score is None or score > due + 10_000:
                self.blame(f"I2: {incarnation} has something due at {due} and attention at {score}")


def _life(incarnation: str, header: Mapping[str, bytes]) -> tuple[str, ...]:
    """From one retry to the next, from one pause to its end."""
    return (incarnation, *(header.get(name, b"").decode() for name in LIFE))


def _changes(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> str:
    return ", ".join(
        f"{name} from {before.get(name)!r} to {after.get(name)!r}"
        for name in HEADER
        if before.get(name) != after.get(name)
    )
