"""Activities that may stop between any two of their calls, and go on later or never, all in one thread.

What is simulated is straight code: a worker with a message, a sweeper's pass, a request to the API. Each is an
:class:`Activity`. Whatever reaches it from outside (an answer of the store, an id, the time, what a handler gave
back) comes through the :class:`Gate` and is written on the activity's tape. To stop, the gate unwinds the activity's
stack. To go on, its body is called anew and is told what stands on its tape, so it comes to the place where it had
stopped and does from there on what it would have done. So any number of activities can stand between any two of their
calls, a dead one is one that is never called again, and one whose answer got lost sends the very same call again.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from wf_worker.errors import StoreUnavailable

T = TypeVar("T")

TENDER: Final = frozenset({"commit", "resume", "lost", "cancel", "pause", "retry_failed", "looks at the page"})
"""Calls that act on what was read before: much may happen meanwhile."""


Told = tuple[tuple[str, tuple[Any, ...]], Any, Exception | None]
"""What was asked for, by name and arguments, and what it gave or raised."""


class NotReplayed(BaseException):
    """An activity that was called anew does something else than before: the simulation itself must be mended."""


class Stopped(BaseException):
    """Unwinds an activity that is to go on later. No ``except Exception`` of the code under test takes it in."""


@dataclass(eq=False)
class Activity:
    """One thing that somebody does: ``kind`` says what, ``body`` does it."""

    kind: str
    body: Callable[[], None]
    node: Any = None
    frozen: bool = False
    """Whether it stands still, as a process does that its system has suspended: nobody renews what it holds."""
    held: Any = None
    """The claim that it works under."""
    reserved: bytes = b""
    """What the idempotency key of its request leads to."""
    begun: int = 0
    """How often the store had lost its tail when it began."""
    tape: list[Told] = field(default_factory=list["Told"])
    at: int = 0

    def told(self, label: str, named: tuple[Any, ...] = ()) -> Any:
        """What stands next on the tape."""
        known, answer, error = self.tape[self.at]
        if known != (label, named):
            raise NotReplayed(f"{self.kind} asked for {known} and now asks for {(label, named)}")
        self.at += 1
        if error is not None:
            raise error
        return answer

    def tell(self, label: str, make: Callable[[], T], named: tuple[Any, ...] = ()) -> T:
        """Something new, which is written on the tape."""
        try:
            answer = make()
        except Exception as error:
            self.tape.append(((label, named), None, error))
            self.at += 1
            raise
        self.tape.append(((label, named), answer, None))
        self.at += 1
        return answer


class Gate:
    """The only way from an activity to what is outside of it.

    ``lost_reply`` is how likely a call of the store is carried out and its answer lost, so that the client sends it
    again; ``silent`` how likely the store is unreachable for longer than the client tries; ``tender`` how likely an
    activity stops ahead of one of the :data:`TENDER` calls, whatever else it was to make.
    """

    def __init__(self, rng: random.Random, seen: Counter[str]) -> None:
        self.rng = rng
        self.seen = seen
        self.current: Activity | None = None
        self.lost_reply = 0.0
        self.silent = 0.0
        self.tender = 0.0
        self._inside = False
        self._calls_left = 0

    def go_on(self, activity: Activity, calls: int) -> bool:
        """Lets an activity make so many calls more; whether it has come to its end."""
        self.current, self._calls_left = activity, calls
        activity.at = 0
        try:
            activity.body()
        except Stopped:
            return False
        finally:
            self.current = None
        return True

    def value(self, label: str, make: Callable[[], T]) -> T:
        """Chance, ids, time: the same each time the activity is called anew. Not a place to stop at."""
        activity = self.current
        if activity is None or self._inside:
            return make()
        return activity.told(label) if activity.at < len(activity.tape) else activity.tell(label, make)

    def call(self, label: str, act: Callable[[], T], *, network: bool = False, named: tuple[Any, ...] = ()) -> T:
        """A call, ahead of which the activity may stop. One over a ``network`` may lose its answer. What is ``named``
        must be the same when the activity is called anew: a token that is not on the tape shows there."""
        activity = self.current
        if activity is None or self._inside:
            return act()
        if activity.at < len(activity.tape):
            return activity.told(label, named)
        if self._calls_left == 0 or (label in TENDER and self.rng.random() < self.tender):
            raise Stopped
        self._calls_left -= 1
        if network and self.rng.random() < self.lost_reply:
            self.seen["replies lost"] += 1
            self._within(act)
            raise Stopped  # nothing is on the tape: when it goes on, the same call is sent again
        if network and self.rng.random() < self.silent:
            return activity.tell(label, lambda: self._unreachable(act), named)
        return activity.tell(label, lambda: self._within(act), named)

    def _within(self, act: Callable[[], T]) -> T:
        self._inside = True
        try:
            return act()
        finally:
            self._inside = False

    def _unreachable(self, act: Callable[[], T]) -> T:
        self.seen["store silent"] += 1
        if self.rng.random() < 0.5:
            self._within(act)
        raise StoreUnavailable("the simulated store does not answer")
