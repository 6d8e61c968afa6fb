"""What every part of the store shares: how a script is called, and how its answer is read."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from wf_core.plan import Program, handler_name
from wf_core.reducers import ReducerDefinition
from wf_worker.queues import NORMAL
from wf_worker.store.keys import Keys
from wf_worker.store.plans import Plans
from wf_worker.store.protocol import (
    Ready,
    Records,
    Refused,
)

Arg = str | bytes | int
DEFAULT_LEASE_MS: Final = 30_000
CREATE_WITHIN_MS: Final = 60_000
DEFAULT_FIELD_BYTES: Final = 16 * 1024 * 1024


def new_call_id() -> str:
    """A fresh name for a call, a token or an incarnation: 16 hexadecimal characters."""
    return secrets.token_hex(8)


class StoreCalls:
    """Records, keys, compiled programs, and the one way to call a script. Safe for threads; one a process."""

    _clock_ahead_ms = 0

    def __init__(
        self,
        records: Records,
        keys: Keys | None = None,
        *,
        reducers: Mapping[str, ReducerDefinition] | None = None,
        lease_ms: int = DEFAULT_LEASE_MS,
        max_losses: int = 3,
        field_bytes: int = DEFAULT_FIELD_BYTES,
        new_id: Callable[[], str] = new_call_id,
    ) -> None:
        self.records = records
        self.keys = keys or Keys()
        self.lease_ms = lease_ms
        self.max_losses = max_losses
        self.field_bytes = field_bytes
        self.plans = Plans(records.document, reducers)
        self._new_id = new_id

    def _latest(self) -> int:
        """Until when a call that makes a run is good, by the server's clock as far as we know it.

        One that lies about in a socket may not make a run that was deleted meanwhile.
        """
        return int(time.time() * 1000) + self._clock_ahead_ms + CREATE_WITHIN_MS

    def _learn_clock(self, now_ms: int) -> None:
        """The server said what time it is there."""
        self._clock_ahead_ms = now_ms - int(time.time() * 1000)

    def program(self, digest: str) -> Program:
        """The compiled workflow of a digest, with every workflow that it can enter."""
        return self.plans.program(digest)

    def _call(self, script: str, incarnation: str, call_id: str, *args: Arg) -> Reply:
        *values, out, digest, priority = self.records.call(script, incarnation, call_id, *args)
        ready: tuple[Ready, ...] = ()
        if out:
            run = _RunOfMessages(incarnation, text_of(digest), self.program(text_of(digest)), text_of(priority))
            ready = tuple(run.ready(out[i], out[i + 1], int(out[i + 2])) for i in range(0, len(out), 3))
        return Reply(values, ready)


class Reply:
    """A script's answer: a word, its values, and the messages it brought forth."""

    __slots__ = ("ready", "values", "word")

    def __init__(self, values: list[Any], ready: tuple[Ready, ...]) -> None:
        self.values = values
        self.word = text_of(values[0])
        self.ready = ready

    def text(self, at: int) -> str:
        return text_of(self.values[at])


def text_of(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


@dataclass(frozen=True, slots=True)
class _RunOfMessages:
    """What the messages of one call have in common."""

    incarnation: str
    digest: str
    program: Program
    priority: str

    def ready(self, frame: bytes, revision: bytes, position: int) -> Ready:
        plan, step = self.program.step_at(position)
        return Ready(
            self.incarnation,
            text_of(frame),
            text_of(revision),
            self.digest,
            step.id,
            position,
            handler_name(step) or step.type,
            plan.queues.get(step.id),
            self.priority or NORMAL,
        )


def refusal_of(word: str) -> Refused:
    try:
        return Refused(word)
    except ValueError:
        return Refused.STALE
