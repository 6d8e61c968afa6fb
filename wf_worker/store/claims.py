"""A worker's claim on a frame: taking it, reading under it, committing under it, losing it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Final, TypeVar

from wf_core.errors import WorkflowExecutionError
from wf_core.plan import Needs, Program
from wf_core.run_state import Json, TraceEntry
from wf_core.runtime.slice import MISSING, Missing, Need, SliceMiss
from wf_core.runtime.transition import ItemResult, Purpose, RunError, Transition
from wf_worker.errors import RunDamaged
from wf_worker.store import encoding
from wf_worker.store.calls import Arg, Reply, StoreCalls, refusal_of, text_of
from wf_worker.store.encoding import from_bytes
from wf_worker.store.keys import short
from wf_worker.store.protocol import (
    Claim,
    CommitStatus,
    Committed,
    Ready,
    Refusal,
    Refused,
)
from wf_worker.store.slices import StoredSlice
from wf_worker.store.transitions import Encoded, TransitionEncoder

RESULT_PAGE: Final = 200
MAX_LOADS: Final = 100_000
STAGE_TRIES: Final = 5
CHUNK_ITEMS: Final = 400
CHUNK_BYTES: Final = 256 * 1024
MAX_CACHED_ITEMS: Final = 256

T = TypeVar("T")


class ItemCache:
    """Items of enclosing loops, by the name they have for ever. Safe for threads."""

    def __init__(self, most: int = MAX_CACHED_ITEMS) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._items: OrderedDict[tuple[str, str, str], Json] = OrderedDict()

    def get(self, name: tuple[str, str, str]) -> Json:
        """The item, or MISSING."""
        with self._lock:
            return self._items.get(name, MISSING)

    def put(self, name: tuple[str, str, str], item: Json) -> None:
        """Keeps an item; the oldest one goes when there are too many."""
        with self._lock:
            self._items[name] = item
            while len(self._items) > self._most:
                self._items.popitem(last=False)


class Claims(StoreCalls):
    """What a worker does with frames."""

    @cached_property
    def _items(self) -> ItemCache:
        return ItemCache()

    def claim(self, ready: Ready, *, owner: str, token: str | None = None) -> Claim | Refusal:
        """Claims a ready frame: one call. The slice it brings holds what its step is known to read."""
        if "|" in owner:
            raise ValueError(f"the owner {owner!r} may not hold a bar: it is a word of the frame's head")
        token = token or self._new_id()
        program = self.program(ready.digest)
        wants_input, names = _wants(_needs_of(program, ready))
        reply = self._call(
            "claim",
            ready.incarnation,
            self._new_id(),
            ready.frame,
            ready.revision,
            token,
            owner,
            self.lease_ms,
            wants_input,
            *_count(names),
        )
        if reply.word == "damaged":
            raise RunDamaged(f"record {reply.text(1)} is missing or wrong", path=reply.text(1))
        if reply.word != "granted":
            return Refusal(refusal_of(reply.word), reply.ready)
        try:
            return self._granted(reply, 1, ready.incarnation, ready.frame, token, owner, program, names)
        except RunDamaged as damage:
            # Without its records the kernel cannot be asked: the run ends here, and says which record it was.
            self.fail_damaged(ready.incarnation, damage, frame=ready.frame)
            return Refusal(Refused.OVER)

    def _granted(
        self,
        reply: Reply,
        at: int,
        incarnation: str,
        frame: str,
        token: str,
        owner: str,
        program: Program,
        names: Sequence[str] | None,
    ) -> Claim:
        purpose, step, attempt, losses, failures, denied, revision, deadline, said, view = reply.values[at : at + 10]
        return Claim(
            incarnation=incarnation,
            frame=frame,
            token=token,
            owner=owner,
            purpose=Purpose(text_of(purpose)),
            step=int(step) if step else None,
            attempt=int(attempt),
            losses=int(losses),
            failures=int(failures),
            denied=text_of(denied) == "1",
            revision=text_of(revision),
            deadline_ms=int(deadline) if deadline else None,
            last_heartbeat=from_bytes(said, "heartbeat") if said else None,
            view=StoredSlice.from_reply(view, incarnation, program.root, names),
        )

    def fail_damaged(self, incarnation: str, damage: RunDamaged, *, frame: str = "") -> str:
        """Ends a run whose records cannot be what the engine wrote: ``failed``, or ``over`` when it had ended."""
        error = RunError("damaged", damage.message, frame_id=frame or None)
        return self._call("fail_run", incarnation, self._new_id(), encoding.encode_error(error)).word

    def decide(self, claim: Claim, rule: Callable[[StoredSlice], T]) -> T | Refused:
        """Calls a pure kernel function on the claim's slice, loading what it turns out to need."""
        return self._decide(claim.incarnation, claim.frame, claim.token, claim.view, rule)

    def _decide(
        self, incarnation: str, frame: str, token: str, view: StoredSlice, rule: Callable[[StoredSlice], T]
    ) -> T | Refused:
        asked: set[Need] = set()
        for _ in range(MAX_LOADS):
            try:
                return rule(view)
            except SliceMiss as miss:
                repeated = asked.intersection(miss.needs)
                if repeated:
                    raise RunDamaged(f"{next(iter(repeated))} was loaded and is still missing") from miss
                asked.update(miss.needs)
                for need in miss.needs:
                    refusal = self._load(incarnation, frame, token, view, need)
                    if refusal is not None:
                        return refusal
        raise RunDamaged("the kernel asks for more and more of the run")

    def _load(self, incarnation: str, frame: str, token: str, view: StoredSlice, need: Need) -> Refused | None:
        if need.kind == "item":
            cached = (incarnation, view.activation_revision(need.key), view.key(need.key))
            item = self._items.get(cached)
            if not isinstance(item, Missing):
                view.give_item(need.key, item)
                return None
        if need.kind == "results":
            return self._load_results(incarnation, frame, token, view, need)
        wants: dict[str, list[Arg]] = {
            "input": ["input", short(need.key)],
            "state": ["state", short(need.key), *_count(need.names or None)],
            "item": ["item", view.key(need.key) if need.kind == "item" else ""],
            "large": ["large", need.names[-1] if need.names else ""],
        }
        reply = self._call("load", incarnation, self._new_id(), frame, token, 1, *wants[need.kind])
        if reply.word != "loaded":
            return refusal_of(reply.word)
        value: Any = reply.values[1][0]
        match need.kind:
            case "input":
                view.give_input(need.key, value)
            case "state":
                view.give_state(need.key, need.names or None, value)
            case "large":
                view.give_large(need.key, need.names[0], value)
            case _:
                self._give_item(incarnation, view, need.key, value)
        return None

    def _give_item(self, incarnation: str, view: StoredSlice, frame_id: str, value: bytes | None) -> None:
        if value is None:
            raise RunDamaged(f"the item of frame {frame_id!r} is gone", path=f"frames[{frame_id}]")
        item = from_bytes(value[1:], f"item of {frame_id}")
        view.give_item(frame_id, item)
        # An item never changes under its activation's revision, so every claim below it may use the same copy.
        self._items.put((incarnation, view.activation_revision(frame_id), view.key(frame_id)), item)

    def _load_results(self, incarnation: str, frame: str, token: str, view: StoredSlice, need: Need) -> Refused | None:
        results: list[ItemResult] = []
        total = RESULT_PAGE
        while len(results) < total:
            start, stop = len(results), min(total, len(results) + RESULT_PAGE)
            reply = self._call(
                "load", incarnation, self._new_id(), frame, token, 1, "results", short(need.key), start, stop
            )
            if reply.word != "loaded":
                return refusal_of(reply.word)
            count, page = reply.values[1][0]
            if count is None:
                raise RunDamaged(f"activation {need.key!r} is gone", path=f"a[{need.key}]")
            total = int(count)
            for i, data in enumerate(page[: total - start]):
                if data is None:
                    raise RunDamaged(
                        f"activation {need.key!r} has no result for item {start + i}", path=f"r[{need.key}]"
                    )
                results.append(encoding.decode_result(data, start + i))
        view.give_results(need.key, results)
        return None

    def commit(
        self,
        claim: Claim,
        transition: Transition,
        *,
        call_id: str | None = None,
        next_token: str | None = None,
        ready_node: str | None = None,
    ) -> Committed:
        """Applies a transition under a claim: one call, preceded by staging where values are large."""
        call_id = call_id or self._new_id()
        program = self.program(claim.view.digest)
        encoded = TransitionEncoder(claim.view, program, call_id, field_bytes=self.field_bytes).encode(transition)
        wants_input, names = (
            _wants(program.for_scope(claim.view.scope(claim.view.own.scope_id)).needs.get(ready_node, Needs()))
            if next_token and ready_node
            else ("0", list[str]())
        )
        # A store that lost its tail keeps the claim and loses chunks that were staged after it. They are staged again;
        # only what stays incomplete then is damage.
        for _ in range(STAGE_TRIES):
            staged = self._stage(claim, encoded)
            if staged == "gap":
                continue
            if staged != "staged":
                return Committed(CommitStatus.REFUSED, reason=staged)
            reply = self._call(
                "commit",
                claim.incarnation,
                call_id,
                claim.frame,
                claim.token,
                transition.steps,
                next_token or "",
                claim.owner,
                self.lease_ms,
                wants_input,
                *_count(names),
                *encoded.arguments(),
            )
            if reply.word != "unstaged":
                return self._committed(claim, reply, next_token or "", program, names)
        raise RunDamaged("staged values stay incomplete", path="x")

    def _committed(
        self, claim: Claim, reply: Reply, next_token: str, program: Program, names: Sequence[str] | None
    ) -> Committed:
        match reply.word:
            case "done":
                return Committed(CommitStatus.DONE, reply.ready)
            case "claimed":
                following = self._granted(
                    reply, 1, claim.incarnation, claim.frame, next_token, claim.owner, program, names
                )
                return Committed(CommitStatus.DONE, reply.ready, claim=following)
            case "again":
                return Committed(CommitStatus.AGAIN, reply.ready)
            case "budget":
                return Committed(CommitStatus.BUDGET, left=int(reply.text(1)), max_steps=int(reply.text(2)))
            case "damaged":
                raise RunDamaged(f"record {reply.text(1)} is missing or wrong", path=reply.text(1))
            case word:
                return Committed(CommitStatus.REFUSED, reply.ready, reason=word)

    def _stage(self, claim: Claim, encoded: Encoded) -> str:
        """Stages what a transition needs: ``staged``, ``gap`` when an earlier chunk is gone, else a refusal."""
        pieces: list[tuple[str, str, int, list[bytes]]] = []
        for name, items in encoded.staged_items.items():
            chunks = encoding.chunks(items, most=CHUNK_ITEMS, most_bytes=CHUNK_BYTES)
            pieces += [("items", name, offset, chunk) for offset, chunk in chunks]
        for name, value in encoded.staged_values.items():
            pieces += [("value", name, offset, [piece]) for offset, piece in encoding.slices(value, CHUNK_BYTES)]
        for kind, name, offset, chunk in pieces:
            reply = self._call(
                *("stage", claim.incarnation, self._new_id(), claim.frame, claim.token),
                *(kind, name, offset, len(chunk), *chunk),
            )
            if reply.word != "staged":
                return reply.word
        return "staged"

    def discard(self, claim: Claim, output: Json) -> str:
        """A handler's result was refused: the trace says so, once for each claim that was really taken away.

        ``traced``, or ``refused`` where the claim is good still, was never given, or is told of already; ``gone``.
        """
        if claim.view.trace == "off":
            return "refused"
        entry = TraceEntry(
            frame_id=claim.frame_id,
            node_id=claim.view.own.node_id,
            step_type="node",
            resolved_input={},
            outcome="discarded",
            next_node_id="",
            output=output,
        )
        told = encoding.encode_trace(entry, claim.view.own, claim.view.trace)
        return self._call(
            *("discard", claim.incarnation, self._new_id(), claim.frame, claim.token, claim.owner, told)
        ).word

    def renew(self, claim: Claim, *, heartbeat: bool = False, details: bytes = b"") -> str:
        """Extends the claim's lease: ``renewed``, ``cancelled`` when the run was, else ``stale``.

        A ``heartbeat`` is a sign of life of the handler itself; its ``details``, JSON, are kept for the next attempt.
        """
        beat = "1" if heartbeat else "0"
        return self._call(
            *("renew", claim.incarnation, self._new_id(), claim.frame, claim.token, self.lease_ms, beat, details)
        ).word

    def give_back(self, claim: Claim, *, look_ms: int = 0, unserved: str = "") -> tuple[Ready, ...]:
        """Puts a claimed frame back without an attempt. ``look_ms`` delays its next message.

        With the capability that is ``unserved`` here the frame is parked: shown as such, and woken by :meth:`unpark`.
        """
        return self._call(
            *("give_back", claim.incarnation, self._new_id(), claim.frame, claim.token, look_ms, unserved)
        ).ready

    def unpark(self, incarnation: str, capabilities: Sequence[str]) -> tuple[int, tuple[Ready, ...]]:
        """Parked frames of these capabilities are sent for again: how many of a page of 64, and the messages."""
        reply = self._call("unpark", incarnation, self._new_id(), len(capabilities), *capabilities)
        return int(reply.text(1)) if reply.word == "unparked" else 0, reply.ready

    def lost(
        self, incarnation: str, frame: str, token: str, *, known_dead: bool = False
    ) -> tuple[str, tuple[Ready, ...]]:
        """The worker that held a frame is gone: its word (``lost``, ``alive``, ``stale``) and the messages to send."""
        killer = RunError("worker_lost", f"workers die again and again at frame {frame}")
        reply = self._call(
            "lost",
            incarnation,
            self._new_id(),
            frame,
            token,
            self.max_losses,
            "1" if known_dead else "0",
            encoding.encode_error(killer),
        )
        return reply.word, reply.ready


def _needs_of(program: Program, ready: Ready) -> Needs:
    """What the step that a message names is known to read; a hint, so an unknown position reads nothing beforehand."""
    try:
        plan, step = program.step_at(ready.position)
    except WorkflowExecutionError:
        return Needs()
    return plan.needs.get(step.id, Needs())


def _count(names: Sequence[str] | None) -> list[Arg]:
    """How many names, then the names; -1 stands for all, since a name may be any text."""
    return [-1] if names is None else [len(names), *names]


def _wants(needs: Needs) -> tuple[str, list[str] | None]:
    """Whether the input is wanted, and which state fields; None is all."""
    return ("1" if needs.input else "0"), (None if needs.whole_state else sorted(needs.state))
