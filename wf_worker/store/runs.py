"""The run store: what can be done to a run, in kernel terms, over any :class:`~wf_worker.store.protocol.Records`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wf_core.plan import handler_name
from wf_core.run_state import Json
from wf_core.runtime import kernel
from wf_core.runtime.transition import RunError
from wf_worker.errors import RunDamaged, StoreUnavailable
from wf_worker.queues import NORMAL
from wf_worker.store import encoding
from wf_worker.store.calls import DEFAULT_LEASE_MS, Arg, Reply, new_call_id, text_of
from wf_worker.store.encoding import from_bytes, to_bytes
from wf_worker.store.events import Events
from wf_worker.store.exports import Exports
from wf_worker.store.flows import Flows
from wf_worker.store.keys import short
from wf_worker.store.protocol import (
    Created,
    DueRun,
    NewRun,
    Ready,
    RunFilter,
    UnclaimedFrame,
)
from wf_worker.store.slices import Head

__all__ = ["DEFAULT_LEASE_MS", "RunStore", "new_call_id"]


class RunStore(Flows, Exports, Events):
    """Runs in a store. Safe for threads; one instance per process."""

    def identity(self) -> str:
        """What this store calls itself, whatever address it is reached by."""
        return self.records.identity(self._new_id())

    # ---- submitting

    def new_run(
        self, run_id: str, digest: str, workflow_input: dict[str, Json], *, max_steps: int, **more: Any
    ) -> NewRun:
        """A submit with a new incarnation and call id."""
        return NewRun(
            run_id,
            self.keys.incarnation(run_id, self._new_id()),
            self._new_id(),
            digest,
            workflow_input,
            max_steps,
            **more,
        )

    def create(self, new: NewRun) -> Created:
        """Checks the input and creates the run with its first state and its root frame, whole or not at all.

        Sent again with the same incarnation it gives the same answer.
        """
        reply = self._create(new)
        if reply.word == "late":
            self._learn_clock(int(reply.text(1)))
            reply = self._create(new)
        match reply.word:
            case "created":
                return Created(True, new.run_id, new.incarnation, "pending", reply.ready)
            case "exists":
                return Created(False, new.run_id, reply.text(1), reply.text(2))
            case _:
                raise StoreUnavailable(
                    "the submit reached the store too late and was refused",
                    code="submit_too_late",
                    hint="send it again",
                )

    def _create(self, new: NewRun) -> Reply:
        program = self.program(new.digest)
        start = kernel.start(program, new.workflow_input)
        plan = program.root
        indexes = RunFilter(workflow=plan.workflow.name, tags=new.tags).indexes()
        extras = {
            "workflow": plan.workflow.name,
            "flow_digest": plan.digest,
            "indexes": ",".join(indexes),
            **({"tags": to_bytes(dict(new.tags)).decode()} if new.tags else {}),
            **new.extras,
        }
        state: list[Arg] = []
        for name, value in start.state.items():
            state += [name, b"=" + to_bytes(value)]
        return self._call(
            "create",
            new.incarnation,
            new.call_id,
            self._latest(),
            new.run_id,
            new.open_policy,
            new.closed_policy,
            new.digest,
            new.max_steps,
            to_bytes(start.workflow_input),
            len(extras),
            *[part for pair in extras.items() for part in pair],
            short(start.frame.id),
            plan.positions[start.frame.node_id],
            short(start.frame.scope_id),
            start.purpose.value,
            encoding.encode_limits(plan.time_limits.get(start.frame.node_id)),
            encoding.encode_frame(start.frame, item_elsewhere=False),
            len(start.state),
            *state,
        )

    def reserve(self, key: str, value: dict[str, Json], seconds: int) -> dict[str, Json]:
        """Reserves an idempotency key; the value of whoever was first."""
        kept: dict[str, Json] = from_bytes(
            self.records.reserve(key, to_bytes(value), seconds), f"idempotency key {key}"
        )
        return kept

    # ---- stopping

    def cancel(self, incarnation: str, *, reason: str | None = None) -> str:
        """Ends a run at once: ``cancelled``, ``over`` when it had ended, ``gone``."""
        error = to_bytes({"type": "cancelled", "message": reason or "cancelled", "node_id": None, "frame_id": None})
        call_id = self._new_id()
        while True:
            # It names the header that it was decided on: executed again later, it does not reach a run that was
            # retried meanwhile.
            header = self.records.header(incarnation, ("rev",))
            revision = "" if header is None else text_of(header.get("rev", b""))
            reply = self._call("cancel", incarnation, call_id, revision, error)
            if reply.word != "changed":
                return reply.word

    def pause(self, incarnation: str, *, on: bool) -> tuple[str, tuple[Ready, ...]]:
        """Stops new claims, or lets them go on: ``paused``, ``running``, ``over`` or ``gone``."""
        while True:
            header = self.records.header(incarnation, ("rev",))
            revision = "" if header is None else text_of(header.get("rev", b""))
            reply = self._call("pause", incarnation, self._new_id(), "1" if on else "0", revision)
            if reply.word != "changed":
                return reply.word, reply.ready

    def retry_failed(self, incarnation: str, *, max_steps: int | None = None) -> tuple[str, tuple[Ready, ...]]:
        """Lets a failed run go on: ``retried``, ``budget``, ``not_failed``, ``damaged`` or ``gone``.

        ``max_steps`` is a new step budget, of more steps than were taken. What has finished stays, also what finished
        after the failure.
        """
        call_id = self._new_id()
        while True:
            header = self.records.header(incarnation, ("rev",))
            revision = "" if header is None else text_of(header.get("rev", b""))
            reply = self._call("retry_failed", incarnation, call_id, revision, "" if max_steps is None else max_steps)
            if reply.word != "changed":
                return reply.word, reply.ready

    # ---- sweeping

    def sweep(self, shard: int, *, most: int = 50, hold_off_ms: int = 10_000, ahead_ms: int = 0) -> list[str]:
        """Takes runs of a shard that want attention, or will within ``ahead_ms``."""
        return self.records.sweep(shard, most, hold_off_ms, ahead_ms)

    def due(self, incarnation: str, *, most: int = 100, ahead_ms: int = 0) -> DueRun | None:
        """What of a run wants a sweeper now; None when the run is gone. Unclaimed frames are shown as well that are to
        be looked for within ``ahead_ms`` only."""
        reply = self._call("due", incarnation, self._new_id(), most, ahead_ms)
        if reply.word == "gone":
            return None
        if reply.word == "reap":
            return DueRun(incarnation, "deleting", release=False, now_ms=0, expired=(), unclaimed=(), reap=True)
        _, status, release, expired, unclaimed, now, elapsed, overdue, digest, priority = reply.values[:10]
        frames: list[UnclaimedFrame] = []
        for i in range(0, len(unclaimed), 3):
            frame, score, head = unclaimed[i : i + 3]
            frames.append(self._unclaimed(frame, score, head, text_of(digest), text_of(priority)))
        return DueRun(
            incarnation,
            text_of(status),
            bool(release),
            int(now),
            _pairs(expired),
            tuple(frames),
            int(elapsed),
            _pairs(overdue),
        )

    def _unclaimed(self, frame: bytes, score: bytes, text: bytes, digest: str, priority: str) -> UnclaimedFrame:
        head = Head.parse(text, text_of(frame))
        plan, step = self.program(digest).step_at(head.position)
        capability = handler_name(step)
        queue = plan.queues.get(step.id)
        return UnclaimedFrame(
            text_of(frame), text_of(score), head.since_ms, head.looks, capability, queue, priority or NORMAL
        )

    def republish(
        self, incarnation: str, frame: str, score: str, *, look_ms: int, send: bool, unserved: str = ""
    ) -> tuple[str, tuple[Ready, ...]]:
        """Sends the message of a ready frame again, or only looks for it later; ``refused`` when it has moved on.

        With what is ``unserved`` the frame is parked: nobody who lives would take its message.
        """
        reply = self._call(
            *("republish", incarnation, self._new_id(), frame, score, look_ms, "1" if send else "0", unserved)
        )
        return reply.word, reply.ready

    def release(self, incarnation: str) -> tuple[Ready, ...]:
        """The next page of frames whose hold or pause is gone."""
        return self._call("release", incarnation, self._new_id()).ready

    def fire(self, incarnation: str) -> tuple[int, tuple[Ready, ...]]:
        """The next page of frames whose time has come: how many there were, and the messages to send."""
        reply = self._call("fire", incarnation, self._new_id())
        if reply.word == "damaged":
            raise RunDamaged(f"record {reply.text(1)} is missing or wrong", path=reply.text(1))
        return int(reply.text(1)) if reply.word == "fired" else 0, reply.ready

    def end_at_deadline(self, incarnation: str, score: str) -> str:
        """The time of the whole run is over: ``failed``, ``refused`` or ``gone``."""
        error = RunError("deadline_exceeded", "the run did not end within its deadline_seconds")
        return self._call("deadline", incarnation, self._new_id(), score, encoding.encode_error(error)).word

    def reap(self, incarnation: str, *, most: int = 500) -> str:
        """Removes the next page of an ended run whose time is over: ``more``, ``reaped``, ``refused`` or ``gone``."""
        return self._call("reap", incarnation, self._new_id(), most).word

    def fence(self, incarnation: str, frame: str, score: str) -> tuple[str, tuple[Ready, ...]]:
        """A frame's deadline has passed: ``fenced`` or ``refused``, and the messages to send."""
        reply = self._call("fence", incarnation, self._new_id(), frame, score)
        return reply.word, reply.ready


def _pairs(flat: Sequence[bytes]) -> tuple[tuple[str, str], ...]:
    return tuple((text_of(flat[i]), text_of(flat[i + 1])) for i in range(0, len(flat), 2))
