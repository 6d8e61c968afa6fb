"""Open interrupts: listing them, and taking exactly one answer to each."""

from __future__ import annotations

import hashlib
from functools import partial

from wf_core.plan import Program
from wf_core.run_state import InterruptRequest, Json
from wf_core.runtime import kernel
from wf_core.runtime.kernel import INLINE_ITEMS, Walk
from wf_core.runtime.transition import Transition
from wf_worker.errors import RequestRefused, RunDamaged
from wf_worker.store import encoding
from wf_worker.store.calls import Arg, Reply
from wf_worker.store.claims import Claims
from wf_worker.store.encoding import to_bytes
from wf_worker.store.keys import short
from wf_worker.store.protocol import (
    OpenInterrupt,
    Ready,
    Refused,
)
from wf_worker.store.slices import StoredSlice
from wf_worker.store.transitions import Encoded, TransitionEncoder


class Answers(Claims):
    """What a person or another system does with interrupts."""

    def interrupts(self, incarnation: str) -> list[OpenInterrupt]:
        """All open interrupts of a run, oldest first."""
        return [
            self._open_interrupt(number, head, record)
            for number, (head, record) in sorted(self.records.interrupts(incarnation).items())
        ]

    def inbox(
        self, *, after: tuple[int, str] | None = None, limit: int = 50
    ) -> tuple[list[tuple[str, OpenInterrupt]], tuple[int, str] | None]:
        """Open interrupts of all runs with their incarnations, oldest first, and where the next page begins, or None.

        One that is answered between two reads is left out.
        """
        places = sorted(
            place for shard in range(self.keys.shards) for place in self.records.inbox(shard, after, limit + 1)
        )
        found: list[tuple[str, OpenInterrupt]] = []
        for _, member in places[:limit]:
            incarnation, _, number = member.rpartition("#")
            opened = self.records.open_interrupt(incarnation, int(number))
            if opened is not None:
                found.append((incarnation, self._open_interrupt(int(number), *opened)))
        return found, (places[limit - 1] if len(places) > limit else None)

    def _open_interrupt(self, number: int, head: bytes, record: bytes) -> OpenInterrupt:
        words = head.decode().split("|")
        if len(words) != 7:
            raise RunDamaged(f"interrupt {number} has a malformed head", path=f"open[{number}]")
        return OpenInterrupt(
            encoding.decode_interrupt(record, number), words[1], int(words[5]), int(words[6]) if words[6] else None
        )

    def expire(self, incarnation: str, number: int, expiry: str) -> tuple[str, tuple[Ready, ...]]:
        """Nobody answered in time: ``expired`` or ``refused``, and the messages to send."""
        reply = self._call("expire", incarnation, self._new_id(), number, expiry)
        if reply.word == "damaged":
            raise RunDamaged(f"record {reply.text(1)} is missing or wrong", path=reply.text(1))
        return reply.word, reply.ready

    def resume(
        self,
        incarnation: str,
        number: int,
        payload: dict[str, Json],
        outcome: str,
        *,
        digest: str,
        revision: str | None = None,
        idempotency_key: str | None = None,
    ) -> tuple[Ready, ...]:
        """Answers an open interrupt; exactly one of any number of answers wins.

        Raises :class:`RequestRefused` with ``interrupt_not_open``, ``interrupt_answered`` (details: when), or
        ``interrupt_revision_stale``, and the kernel's ``resume_outcome_undeclared`` and ``resume_payload_invalid``.
        The same idempotency key with the same answer succeeds again, without effect.
        """
        program = self.program(digest)
        answer_digest = hashlib.sha256(to_bytes([outcome, payload])).hexdigest()[:32]
        if idempotency_key is not None:
            idempotency_key = short(idempotency_key)  # what people write stays out of the records' words
        # The record of an answer is words, and a user's key may hold anything.
        key = short(idempotency_key) if idempotency_key else ""
        call_id = self._new_id()
        reply = self._call("interrupt", incarnation, self._new_id(), number, "0", 0)
        if reply.word == "answered":
            return self._first_answer(incarnation, reply.text(1), key, answer_digest)
        if reply.word == "damaged":
            raise RunDamaged(f"record {reply.text(1)} is missing or wrong", path=reply.text(1))
        if reply.word != "open":
            raise _not_open(reply.word, number)
        opened = self._open_interrupt(number, reply.values[1], reply.values[2])
        if revision is not None and revision != opened.revision:
            raise RequestRefused(
                f"interrupt {number} was opened again since revision {revision}",
                code="interrupt_revision_stale",
                hint="read the interrupt again and answer what it asks now",
                details={"revision": opened.revision},
            )
        view = StoredSlice.from_reply(reply.values[3], incarnation, program.root, ())
        frame_key = view.key(view.frame_id)
        left: int | None = None
        while True:
            transition = self._decide(
                incarnation,
                frame_key,
                opened.revision,
                view,
                partial(_take_answer, program, opened.request, payload, outcome, left, INLINE_ITEMS),
            )
            if isinstance(transition, Refused):
                return self._overtaken(incarnation, number, idempotency_key or "", answer_digest)
            encoded = TransitionEncoder(view, program, call_id, field_bytes=self.field_bytes).encode(transition)
            if encoded.staged_items or encoded.staged_values:
                transition = self._unstaged(incarnation, frame_key, opened, view, program, payload, outcome, left)
                encoded = TransitionEncoder(view, program, call_id, field_bytes=self.field_bytes).encode(transition)
            reply = self._call(
                "resume",
                incarnation,
                call_id,
                number,
                opened.revision,
                key,
                answer_digest,
                transition.steps,
                *_inline(encoded).arguments(),
            )
            if reply.word == "budget":
                left = int(reply.text(1))
                continue
            return self._resumed(incarnation, reply, number, key, answer_digest)

    def _unstaged(
        self,
        incarnation: str,
        frame: str,
        opened: OpenInterrupt,
        view: StoredSlice,
        program: Program,
        payload: dict[str, Json],
        outcome: str,
        left: int | None,
    ) -> Transition:
        """An answer has no claim to stage under: a foreach that needs it is left for a worker to open."""
        transition = self._decide(
            incarnation,
            frame,
            opened.revision,
            view,
            partial(_take_answer, program, opened.request, payload, outcome, left, 0),
        )
        if isinstance(transition, Refused):
            raise _not_open(transition.value, opened.number)
        return transition

    def _overtaken(self, incarnation: str, number: int, key: str, digest: str) -> tuple[Ready, ...]:
        """Somebody else's answer came while ours was being worked out: say so, with the time of theirs."""
        reply = self._call("interrupt", incarnation, self._new_id(), number, "0", 0)
        if reply.word == "answered":
            return self._first_answer(incarnation, reply.text(1), key, digest)
        raise _not_open(reply.word, number)

    def _resumed(self, incarnation: str, reply: Reply, number: int, key: str, digest: str) -> tuple[Ready, ...]:
        match reply.word:
            case "resumed" | "again":
                return reply.ready
            case "answered":
                return self._first_answer(incarnation, reply.text(1), key, digest)
            case "stale":
                raise RequestRefused(
                    f"interrupt {number} was opened again meanwhile",
                    code="interrupt_revision_stale",
                    hint="read the interrupt again",
                )
            case "damaged":
                raise RunDamaged(f"record {reply.text(1)} is missing or wrong", path=reply.text(1))
            case word:
                raise _not_open(word, number)

    def _first_answer(self, incarnation: str, head: str, key: str, digest: str) -> tuple[Ready, ...]:
        _, first_key, first_digest, at = head.split("|")
        if key and first_key == key and first_digest == digest:
            self.records.confirm(incarnation, self._new_id())  # perhaps it is repeated because nobody had confirmed it
            return ()
        if key and first_key == key:
            raise RequestRefused(
                "this idempotency key was used for another answer",
                code="idempotency_key_reused",
                path="idempotency_key",
                hint="use a new key for a new answer",
                details={"answered_at_ms": int(at)},
            )
        if first_digest == "expired":
            raise _expired(details={"expired_at_ms": int(at)})
        raise RequestRefused(
            "the interrupt was answered already",
            code="interrupt_answered",
            hint="look at the run: the first answer counts",
            details={"answered_at_ms": int(at)},
        )


def _take_answer(
    program: Program,
    request: InterruptRequest,
    payload: dict[str, Json],
    outcome: str,
    left: int | None,
    inline_items: int,
    view: StoredSlice,
) -> Transition:
    walk = Walk(steps_left=left, max_steps=view.max_steps, inline_items=inline_items)
    return kernel.resume(program, view, request, payload, outcome, number=request.step_number or 0, walk=walk)


def _inline(encoded: Encoded) -> Encoded:
    """An answer's transition without staged values: what would be staged travels in the call itself."""
    if not encoded.staged_values:
        return encoded
    inline = Encoded()
    for name, args in encoded.operations:
        if name == "staged":
            continue
        if name in ("fields", "scope"):
            args = [_unstaged_value(encoded, arg) for arg in args]
        inline.operations.append((name, args))
    return inline


def _unstaged_value(encoded: Encoded, arg: Arg) -> Arg:
    if isinstance(arg, bytes) and arg[:1] == b"@":
        return b"=" + encoded.staged_values[arg[1:].split(b" ")[0].decode()]
    return arg


def _expired(details: dict[str, Json] | None = None) -> RequestRefused:
    return RequestRefused(
        "the interrupt has expired",
        code="interrupt_expired",
        hint="look at the run: it went on without an answer",
        details=details or {},
    )


def _not_open(word: str, number: int) -> RequestRefused:
    if word == "expired":
        return _expired()
    if word == "gone":
        return RequestRefused("there is no such run", code="run_not_found")
    if word == "over":
        return RequestRefused(
            "the run has ended or is failing", code="run_not_interrupted", hint="look at the run's status"
        )
    return RequestRefused(
        f"interrupt {number} is not open", code="interrupt_not_open", hint="list the open interrupts of the run"
    )
