"""What every call of the in-memory store shares: the counterpart of lua/shared, function for function, in its order.

The scripts decide what a store does; here the same is said once more in Python, and the conformance suite holds the
two together. Read them for the reasons.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from wf_worker.store.keys import ROOT_SCOPE
from wf_worker.store.memory_state import (
    FINAL,
    ActivationHead,
    Contents,
    EventRecord,
    FrameHead,
    OpenRecord,
    RunRecords,
    Scores,
    TraceRecord,
    by_score,
)

LOOK_MS: Final = 5000
PAGE: Final = 64
SCAN: Final = 512
PAGE_BYTES: Final = 262_144
SMALL_ITEM: Final = 4096
JOURNAL_BYTES: Final = 33_554_432
MAX_ANCESTORS: Final = 200
KEPT_EVENTS: Final = 10_000
DEADLOCKED: Final = (
    '{"type":"deadlocked","message":"nothing can move and nobody is asked","node_id":null,"frame_id":null}'
)

PARKED: Final = "!parked"
"""The owner of a ready frame that a worker gave back unserved."""

Answer = list[Any]
Operation = tuple[str, list[bytes]]

_CHAIN_LINK: Final = re.compile(r"([^,.]+)\.([qc])")
LARGE_VALUE: Final = re.compile(rb"@(\S+) (\d+)")
SHORT: Final = 128
"""Bytes that the name of a large value may have."""


class Arguments:
    """A script's own arguments, read from left to right."""

    def __init__(self, values: Sequence[bytes]) -> None:
        self._values = values
        self._at = 0

    def data(self) -> bytes:
        """The next argument."""
        value = self._values[self._at]
        self._at += 1
        return value

    def text(self) -> str:
        """The next argument as text."""
        return self.data().decode()

    def number(self) -> int:
        """The next argument as a number."""
        return int(self.data())

    def take(self, count: int) -> list[bytes]:
        """The next ``count`` arguments."""
        return [self.data() for _ in range(count)]

    def texts(self, count: int) -> list[str]:
        """The next ``count`` arguments as text."""
        return [self.text() for _ in range(count)]

    def names(self) -> list[str] | None:
        """A count and so many names; None where -1 stands for all."""
        count = self.number()
        return None if count < 0 else self.texts(count)

    def operations(self) -> list[Operation]:
        """A count, then each operation as name, argument count, arguments."""
        return [(self.text(), self.take(self.number())) for _ in range(self.number())]

    def rest(self) -> list[bytes]:
        """Whatever is left."""
        return self.take(len(self._values) - self._at)


class Call:
    """One call on one run: its clock, the messages it brings forth, and what several scripts do alike."""

    def __init__(self, contents: Contents, shard: int, incarnation: str, call_id: str, now: int) -> None:
        self.contents = contents
        self.shard = contents.shard(shard)
        self.incarnation = incarnation
        self.call_id = call_id
        self.now = now
        # A run that is not there is looked at, never made: only `create` keeps these records.
        self.run = contents.runs.get(incarnation) or RunRecords()
        self.out: list[tuple[str, str, str]] = []
        self.new_sequence: int | None = None
        self.soonest: int | None = None
        self.committer = ""
        self.told: list[str] = []
        self.status_before: str | None = None

    # ---- the header

    def get(self, name: str) -> str | None:
        """A header field."""
        value = self.run.header.get(name)
        return None if value is None else value.decode()

    def flag(self, name: str) -> str:
        """A header field, empty when there is none."""
        return self.get(name) or ""

    def number(self, name: str) -> int:
        """A header field that counts."""
        return int(self.run.header[name])

    def set(self, name: str, value: str | bytes | int) -> None:
        """Writes a header field."""
        self.run.header[name] = value if isinstance(value, bytes) else str(value).encode()

    def gone(self) -> bool:
        """Whether there is no such run (any more)."""
        return self.get("status") in (None, "deleting", "creating")

    def ended(self) -> bool:
        """Whether the run has ended."""
        return self.get("status") in FINAL

    def failing(self) -> bool:
        """Whether the run only waits for its last claims before it fails."""
        return self.flag("failing") != ""

    def paused(self) -> bool:
        """Whether nothing may be claimed."""
        return self.get("paused") == "1"

    # ---- events

    def tell(self, kind: str, *words: str | int) -> None:
        """What happens to the run, for whoever watches it."""
        self.told.append("|".join((kind, *map(str, words))))

    def tell_of(self, kind: str, key: str, head: FrameHead, *words: str | int) -> None:
        """What happens at a frame's present visit."""
        self.tell(kind, head.step, head.node, key, *words)

    def _mark_after(self, mark: str) -> str:
        """Another one for every history."""
        rest = int(mark, 16)
        for byte in self.call_id.encode():
            rest = (rest * 131 + byte) % 4_294_967_291
        return f"{rest:08x}"

    def write_events(self) -> None:
        """Writes what this call tells, its new status last."""
        if self.status_before is not None and self.status_before != self.get("status"):
            self.tell("status", self.flag("status"))
        if not self.told:
            return
        events = self.run.events
        number, _, mark = (self.get("events") or "0.0").partition(".")
        ordinal = int(number)
        for text in self.told:
            ordinal += 1
            mark = self._mark_after(mark)
            events.append(EventRecord(ordinal, f"{mark}|{self.now - self.number('created')}|{text}".encode()))
            if ordinal % PAGE == 0:
                del events[:-KEPT_EVENTS]
        self.set("events", f"{ordinal}.{mark}")

    # ---- revisions, time, holds

    def revision(self) -> str:
        """A revision that was never given out before."""
        self.new_sequence = (self.number("seq") if self.new_sequence is None else self.new_sequence) + 1
        return f"{self.new_sequence}.{self.call_id}"

    def attend(self, at: int) -> None:
        """A sweeper should look at this run by then."""
        if self.soonest is None or at < self.soonest:
            self.soonest = at

    def under_hold(self, chain: str, act: str | None) -> bool:
        """Whether a frame with this chain may not be claimed."""
        holds = self.run.holds
        if not holds:
            return False
        if "run" in holds or (act is not None and act in holds):
            return True
        return any(link in holds for link, _ in _CHAIN_LINK.findall(chain))

    # ---- places

    def _set_of(self, place: str) -> Scores | None:
        run = self.run
        match place:
            case "ready":
                return run.ready
            case "held":
                return run.held
            case "paused":
                return run.paused
            case "leased":
                return run.leases
            case "waits":
                return run.waits
            case "failed":
                return run.failed
            case _:
                return None

    def leave(self, key: str, head: FrameHead) -> None:
        """Takes a frame out of the set of its place."""
        found = self._set_of(head.place)
        if found is not None:
            found.pop(key, None)
        if head.until:
            self.run.due.pop(key, None)
            head.until = ""
        if head.owner == PARKED:
            self.run.parked.pop(key, None)
            head.owner = ""

    def park(self, key: str, head: FrameHead, what: str) -> None:
        """A ready frame that nobody serves is shown as such; ``what`` is the capability, as people are told."""
        head.owner = PARKED
        self.run.parked[key] = what
        self.shard.parked.add(self.incarnation)

    def own_indexes(self) -> list[str]:
        """The indexes that the run is in for as long as it is there."""
        return [name for name in self.flag("indexes").split(",") if name]

    # ---- deadlines

    def watch(self, key: str, head: FrameHead, which: str, at: int) -> None:
        """The frame has a deadline."""
        head.until = which
        self.run.due[key] = at
        self.attend(at)

    @staticmethod
    def handler_deadline(head: FrameHead) -> tuple[int, str] | None:
        """When a running handler is out of time, and which limit says so."""
        attempt, total, _, _ = limits_of(head)
        found: list[tuple[int, str]] = []
        if attempt is not None:
            found.append((int(head.since) + attempt, "attempt"))
        if total is not None:
            found.append((int(head.began) + total, "total"))
        return min(found, key=lambda deadline: deadline[0], default=None)

    def watch_handler(self, key: str, head: FrameHead) -> None:
        """The deadline of a running handler that gave a sign of life just now."""
        deadline, beat = self.handler_deadline(head), limits_of(head)[3]
        if beat is not None and (deadline is None or self.now + beat < deadline[0]):
            deadline = (self.now + beat, "heartbeat")
        if deadline is not None:
            self.watch(key, head, deadline[1], deadline[0])

    def stopped_at(self, head: FrameHead) -> int:
        """Since when a ready frame cannot be claimed; now if it can."""
        run, times = self.run, [self.now]
        if self.paused():
            times.append(int(self.get("paused_at") or self.now))
        for held in ("run", *(link for link, _ in _CHAIN_LINK.findall(head.chain))):
            opened = run.open.get(run.holds.get(held, ""))
            if opened is not None:
                times.append(opened.opened)
        return min(times)

    def queue_time(self, head: FrameHead, purpose: str) -> str:
        """How long a frame that is placed may wait for a worker, in ms; empty for ever."""
        if purpose != "step" or not head.limits:
            return ""
        if head.place == "ready" and head.left:
            return str(max(0, int(head.left) - max(0, self.stopped_at(head) - int(head.since))))
        if head.place in ("held", "paused"):
            return head.left
        queue = limits_of(head)[2]
        return "" if queue is None else str(queue)

    @staticmethod
    def held_act(head: FrameHead) -> str | None:
        """The activation whose hold also stops this frame's purpose."""
        return head.act if head.purpose == "admit" else None

    def place(self, key: str, head: FrameHead, purpose: str, left: str | None = None) -> None:
        """Makes a frame due, under a new revision and without a token."""
        head.left = self.queue_time(head, purpose) if left is None else left
        self.leave(key, head)
        head.purpose, head.token, head.owner, head.rev = purpose, "", "", self.revision()
        head.since, head.looks = str(self.now), 0
        if self.paused():
            head.place = "paused"
            self.run.paused[key] = self.now
        elif self.under_hold(head.chain, self.held_act(head)):
            head.place = "held"
            self.run.held[key] = self.now
        else:
            head.place = "ready"
            self.run.ready[key] = self.now + LOOK_MS
            self.attend(self.now + LOOK_MS)
            if head.left:
                self.watch(key, head, "queue", self.now + int(head.left))
            if not self.failing():
                self.out.append((key, head.rev, head.node))
        self.run.frames[key] = head

    def wait_for(self, key: str, head: FrameHead, purpose: str, due: int) -> None:
        """Makes a frame due at a time, at once where that has passed."""
        if due <= self.now:
            self.place(key, head, purpose)
            return
        self.leave(key, head)
        head.place, head.purpose, head.token, head.owner, head.rev = "waits", purpose, "", "", self.revision()
        head.since, head.looks, head.left = str(self.now), 0, ""
        self.run.waits[key] = due
        self.attend(due)

    @staticmethod
    def fresh(head: FrameHead, limits: str) -> None:
        """A new visit of a step begins."""
        head.step, head.attempt, head.losses, head.failures = "", 0, 0, 0
        head.limits, head.began, head.left = limits, "", ""

    def new_head(self, node: str, parent: str, scope: str, chain: str, kind: str, limits: str) -> FrameHead:
        """A frame that is in no place yet."""
        return FrameHead(
            node=node, parent=parent, scope=scope, chain=chain, kind=kind, since=str(self.now), limits=limits
        )

    @staticmethod
    def due_for(head: FrameHead, purpose: str) -> bool:
        """Whether the frame is due for this purpose already."""
        return head.purpose == purpose and head.place in ("ready", "held", "paused")

    def signal(self, key: str, purpose: str) -> None:
        """Gives a blocked controller something to do; finishing replaces a pending admission."""
        head = self.run.frames[key]
        if self.due_for(head, "finish") or (purpose == "admit" and self.due_for(head, "admit")):
            return
        self.place(key, head, purpose)

    def admit(self, key: str) -> None:
        """Fills the window of an activation, or leaves a signal with its controller."""
        act = self.run.activations[key]
        if act.next_index >= act.items:
            return
        done = len(self.run.results.get(key, {}))
        waiting = len(self.run.waiting.get(key, ())) if act.policy == "c" else 0
        last = min(act.items, done + act.max_outstanding, done + waiting + act.max_active)
        if act.next_index >= last:
            return
        if self.failing() or self.paused() or self.under_hold(act.chain, None):
            self.signal(act.controller, "admit")
            return
        for index in range(act.next_index, min(last, act.next_index + PAGE)):
            item = self.new_head(act.node, act.controller, act.scope, act.chain, "c", act.limits)
            self.place(f"{key}:{index}", item, act.purpose)
            act.next_index = index + 1
        if act.next_index < last:
            self.signal(act.controller, "admit")

    def release(self) -> None:
        """Moves frames whose hold or pause is gone back to ready, a page a call."""
        if self.paused():
            self.set("release", "")
            return
        moved, seen, rank = 0, 0, max(0, int(self.get("release") or "1") - 1)
        for scores, from_paused in ((self.run.paused, True), (self.run.held, False)):
            offset = 0 if from_paused else rank
            while page := by_score(scores)[offset : offset + PAGE]:
                for key in page:
                    seen += 1
                    if moved == PAGE or seen > SCAN:
                        self.set("release", offset + 1)
                        self.attend(self.now)
                        return
                    head = self.run.frames[key]
                    if from_paused or not self.under_hold(head.chain, self.held_act(head)):
                        moved += 1
                        self.place(key, head, head.purpose)
                    else:
                        offset += 1
        if self.flag("release"):
            self.set("release", "")

    def lift(self, chain: str) -> None:
        """An answer lifts every hold over its frame."""
        self.run.holds.pop("run", None)
        for link, _ in _CHAIN_LINK.findall(chain):
            self.run.holds.pop(link, None)
        self.set("release", "1")
        self.release()

    # ---- the run's status

    def set_status(self, status: str) -> None:
        """Writes the status and its index."""
        old = self.get("status")
        if old == status:
            return
        self.status_before = self.status_before or old
        if old is not None:
            self.shard.runs_by.setdefault(old, {}).pop(self.incarnation, None)
        self.shard.runs_by.setdefault(status, {})[self.incarnation] = self.number("created")
        self.set("status", status)
        self.set("updated", self.now)
        self.set("rev", self.revision())

    def kept_until(self) -> int | None:
        """When nothing of an ended run is to be left; None is never."""
        found = re.fullmatch(r"(\d+),(\d+),(\d+)", self.flag("keep"))
        return None if found is None else self.number("ended") + int(found[1 + FINAL.index(self.flag("status"))])

    def attend_at_last(self) -> None:
        """An ended run wants attention once more, when nothing of it is to be left."""
        kept_until = self.kept_until()
        if kept_until is None:
            self.shard.attention.pop(self.incarnation, None)
        else:
            self.shard.attention[self.incarnation] = kept_until

    def finish(self, status: str) -> None:
        """Ends the run."""
        self.set_status(status)
        self.set("ended", self.now)
        self.attend_at_last()
        for number in self.run.open:
            self.shard.inbox.pop(f"{self.incarnation}#{number}", None)

    def settle(self) -> None:
        """Decides what several parties decide together: at rest, failed, deadlocked, running."""
        if self.ended():
            return
        run = self.run
        if self.failing():
            if not run.leases:
                self.set("error", run.header.get("fail_error", b""))
                self.finish("failed")
            return
        can = bool(run.ready or run.waits or run.paused) or (self.flag("release") != "" and bool(run.held))
        if run.open:
            movable = bool(run.leases) or (can and "run" not in run.holds)
            self.set_status("running" if movable else "interrupted")
        elif not run.leases and not can and not run.held:
            self.set("failing", "!")
            self.set("deadlocked", "1")
            self.set("error", DEADLOCKED)
            self.finish("failed")
        else:
            self.set_status("running")

    def answer(self, *reply: Any) -> Answer:
        """The answer: the reply, the messages to send, the digest and the priority they need."""
        self.write_events()
        if self.new_sequence is not None:
            self.set("seq", self.new_sequence)
        if self.soonest is not None and not self.ended():
            score = self.shard.attention.get(self.incarnation)
            if score is None or score > self.soonest:
                self.shard.attention[self.incarnation] = self.soonest
        messages = [word.encode() for message in self.out for word in message]
        digest = self.run.header["digest"] if messages else b""
        priority = self.run.header.get("priority", b"") if messages else b""
        return [*(_as_bytes(part) for part in reply), messages, digest, priority]

    # ---- reading

    def item_of(self, key: str, *, small_only: bool) -> bytes | None:
        """The item of an item frame, ``~`` when it is too large to come with a claim."""
        act, _, index = key.rpartition(":")
        value = self.run.items.get(act, {}).get(index)
        if value is None:
            return None
        return b"~" if small_only and len(value) > SMALL_ITEM else b"=" + value

    def ancestry(self, key: str) -> Answer:
        """The frame and its ancestors, innermost first."""
        frames: Answer = []
        at = key
        while at:
            head = self.run.frames.get(at)
            if head is None:
                break
            frame: Answer = [at.encode(), head.text(), self.run.bodies.get(at)]
            if head.kind == "c":
                act_key = at.rpartition(":")[0]
                act = self.run.activations.get(act_key)
                frame += [
                    None if act is None else act.rev.encode(),
                    None if act is None else act.step.encode(),
                    self.run.templates.get(act_key),
                    self.item_of(at, small_only=bool(frames)),
                    [part for pair in self.run.overlays.get(at, {}).items() for part in pair],
                ]
            frames.append(frame)
            if len(frames) > MAX_ANCESTORS:
                break
            at = head.parent
        return frames

    def fields_of(self, scope: str, names: Sequence[str] | None) -> Answer:
        """State fields by name; without names all, as field and value by turns."""
        state = self.run.state.get(scope, {})
        if names is None:
            return [part for name, value in state.items() for part in (name.encode(), value)]
        return [state.get(name) for name in names]

    def input_of(self, scope: str) -> bytes | None:
        """The input of a scope: a child's lies apart, the root's in the header."""
        child = self.run.scopes.get(scope)
        return self.run.header.get("input") if child is None else child

    def slice(self, key: str, *, wants_input: bool, names: Sequence[str] | None) -> Answer:
        """What a claim or an answer reads."""
        header = self.run.header
        return [
            self.ancestry(key),
            self.fields_of(self.run.frames[key].scope, names),
            self.input_of(self.run.frames[key].scope) if wants_input else None,
            header.get("run_id"),
            header.get("digest"),
            header.get("max_steps"),
            header.get("steps"),
            header.get("trace", b"full"),
        ]

    # ---- claims

    def grant(self, key: str, head: FrameHead, token: str, owner: str, lease_ms: int) -> bool:
        """Gives a ready frame to a token; whether the budget denies its step."""
        denied = False
        total = limits_of(head)[1]
        if head.purpose == "step" and head.began and total is not None and int(head.began) + total <= self.now:
            head.purpose = "total_timeout"
        if head.purpose == "step":
            if not head.step:
                steps = self.number("steps")
                denied = steps >= self.number("max_steps")
                if not denied:
                    self.set("steps", steps + 1)
                    head.step = str(steps + 1)
            if not denied:
                head.attempt += 1
            head.began = head.began or str(self.now)
            head.left = self.queue_time(head, "step")
        self.leave(key, head)
        head.place, head.token, head.owner, head.rev, head.since = (
            "leased",
            token,
            owner,
            self.revision(),
            str(self.now),
        )
        self.run.leases[key] = self.now + lease_ms
        self.attend(self.now + lease_ms)
        if head.purpose == "step" and not denied:
            self.watch_handler(key, head)
        return denied

    @staticmethod
    def holds_token(head: FrameHead | None, token: str) -> bool:
        """Whether the token is the frame's present claim."""
        return head is not None and head.place == "leased" and head.token != "" and head.token == token

    def take_claim(self, head: FrameHead, why: str) -> None:
        """A handler's claim is taken from its worker; should its result come late, the trace says so once."""
        if head.place == "leased" and head.purpose == "step" and head.step and self.get("trace") != "off":
            self.run.taken.setdefault(head.token, f"{head.step}|{why}")

    # ---- transitions

    def check_operations(self, operations: Sequence[Operation], steps: int) -> Answer | None:
        """The refusal of a transition that could not be applied whole, or None."""
        run, left = self.run, self.number("max_steps") - self.number("steps")
        if steps > 0 and left < steps:
            return ["budget", left, run.header["max_steps"]]
        made = {args[0] for name, args in operations if name == "frame"}
        for name, args in operations:
            key = args[0].decode() if args else ""
            if name == "open" and args[13] == b"1" and len(run.items.get(key, {})) != int(args[1]):
                return ["unstaged", key]
            if name == "staged" and len(run.staged.get(key, b"")) != int(args[1]):
                return ["unstaged", key]
            if name == "arrive":
                act = run.activations.get(key)
                if act is None:
                    return ["damaged", f"a {key}"]
                if act.controller not in run.frames:
                    return ["damaged", f"f {act.controller}"]
                if args[1].decode() in run.results.get(key, {}):
                    return ["damaged", f"r:{key} {args[1].decode()}"]
            if name in ("place", "block", "wait", "retry") and key not in run.frames and args[0] not in made:
                return ["damaged", f"f {key}"]
        return None

    def drop_frame(self, key: str) -> None:
        """The frame is gone."""
        head = self.run.frames.pop(key, None)
        if head is not None:
            if head.act:
                self.drop_activation(head.act)
            self.leave(key, head)
            self.run.bodies.pop(key, None)
            self.run.beats.pop(key, None)

    def drop_activation(self, key: str) -> None:
        """The activation is gone with all that lies under it."""
        run = self.run
        for records in (run.items, run.results, run.waiting, run.activations, run.templates):
            records.pop(key, None)
        run.names.discard(key)

    def drop_large(self, scope: str, name: str) -> None:
        """A field that named a large value lets go of it when it is written again."""
        value = self.run.state.get(scope, {}).get(name, b"")
        named = LARGE_VALUE.fullmatch(value) if 0 < len(value) <= SHORT else None
        if named is not None:
            large = named[1].decode()
            self.run.staged.pop(large, None)
            self.run.names.discard(f"x:{large}")

    def keep_before(self, name: str) -> bool:
        """Keeps what a field of the root scope held at the latest mark; whether it was kept just now."""
        slot = f"{self.get('marks') or '0'}|{name}"
        if slot in self.run.journal:
            return False
        value = self.run.state.get(ROOT_SCOPE, {}).get(name, b"-")
        large = LARGE_VALUE.fullmatch(value) if len(value) <= SHORT else None
        kept = int(self.get("kept") or "0") + (len(value) if large is None else int(large[2]))
        if kept > JOURNAL_BYTES:
            value = b"!"
        else:
            self.set("kept", kept)
        self.run.journal[slot] = value
        return value != b"!"

    def reach(self, position: bytes, origin: bytes, outcome: bytes) -> None:
        """The first time that the root frame comes to a step is a mark."""
        name = f"@{position.decode()}"
        if name not in self.run.journal:
            mark = int(self.get("marks") or "0") + 1
            self.set("marks", mark)
            self.run.journal[name] = b"|".join((str(mark).encode(), origin, outcome))

    # ---- beginnings

    def in_the_way(self, run_id: str, closed_policy: str) -> tuple[str, str] | None:
        """Incarnation and status of a run that has this id already, where another one may not have it."""
        other = self.shard.ids.get(run_id)
        if other is None or other == self.incarnation:
            return None
        status = (self.contents.runs.get(other) or RunRecords()).header.get("status", b"").decode()
        allowed = status in FINAL and (
            closed_policy == "allow" or (closed_policy == "allow_after_failure" and status != "completed")
        )
        return None if not status or allowed else (other, status)

    def enlist(self, run_id: str) -> None:
        """Enters a run that is pending into the shard's indexes."""
        created = self.number("created")
        self.shard.ids[run_id] = self.incarnation
        self.shard.runs[self.incarnation] = created
        for index in ("pending", *self.own_indexes()):
            self.shard.runs_by.setdefault(index, {})[self.incarnation] = created

    def start_clock(self) -> None:
        """The deadline of a run that has one, from now on."""
        if self.get("deadline_ms") is not None:
            at = self.now + self.number("deadline_ms")
            self.set("deadline", at)
            self.run.due["run"] = at
            self.attend(at)

    def asking_step(self, key: str) -> str:
        """The step that people see asking: where a child workflow asks, the one that entered it."""
        frames = self.run.frames
        head = at = frames.get(key)
        while at is not None and at.kind != "g":
            at = frames.get(at.parent)
        caller = None if at is None else frames.get(at.parent)
        shown = caller or head
        return "" if shown is None else shown.node

    def close_interrupt(self, number: str, opened: OpenRecord, how: str) -> None:
        """Takes an interrupt out of everything that knows it."""
        run = self.run
        self.tell("interrupt_closed", number, self.asking_step(opened.frame), opened.frame, how)
        del run.open[number]
        self.shard.inbox.pop(f"{self.incarnation}#{number}", None)
        run.waiting.get(opened.near_act, set()).discard(opened.near_index)
        run.due.pop(f"i{number}", None)

    def out_of_time(self, opened: OpenRecord) -> bool:
        """Whether an interrupt takes no answer any more."""
        return opened.expiry != "" and int(opened.expiry) <= self.now

    def open_interrupt(self, key: str, number: str, record: bytes, after: str) -> None:
        """The frame waits for an answer, and holds what its policies say."""
        run, head = self.run, self.run.frames[key]
        self.leave(key, head)
        head.place, head.purpose, head.token, head.owner, head.rev, head.since = (
            "open",
            "",
            "",
            "",
            self.revision(),
            str(self.now),
        )
        self.tell("interrupt_opened", number, self.asking_step(key), key, "")
        links = _CHAIN_LINK.findall(head.chain)
        hold = "run"
        for i in range(len(links) - 1, -1, -1):
            if links[i][1] == "c":
                hold = links[i + 1][0] if i + 1 < len(links) else ""
                break
        near_act, near_index, at = "", "", key
        while at and (ancestor := run.frames.get(at)) is not None:
            if ancestor.kind == "c":
                near_act, _, near_index = at.rpartition(":")
                break
            at = ancestor.parent
        expiry = ""
        if after:
            expiry = str(self.now + int(after))
            run.due[f"i{number}"] = int(expiry)
            self.attend(int(expiry))
        run.open[number] = OpenRecord(key, head.rev, hold, near_act, near_index, self.now, expiry, record)
        self.shard.inbox[f"{self.incarnation}#{number}"] = self.now
        if hold:
            run.holds[hold] = number
        act = run.activations.get(near_act)
        if act is not None and act.policy == "c":
            run.waiting.setdefault(near_act, set()).add(near_index)
            self.admit(near_act)

    def apply_operations(self, operations: Sequence[Operation], steps: int) -> None:
        """Applies a transition that was checked."""
        before = self.number("steps")
        if steps > 0:
            self.set("steps", before + steps)
        for name, args in operations:
            self._apply(name, args, before)

    def _apply(self, name: str, args: list[bytes], before: int) -> None:
        run, key = self.run, args[0].decode()
        match name:
            case "frame":
                self._put_frame(key, [arg.decode() for arg in args[1:6]], args[6])
            case "place":
                head = run.frames[key]
                self.fresh(head, args[2].decode())
                self.place(key, head, args[1].decode())
            case "block":
                head = run.frames[key]
                self.leave(key, head)
                head.place, head.purpose, head.token, head.owner, head.rev = "blocked", "", "", "", self.revision()
            case "remove":
                failed = run.frames.get(key)
                if failed is not None and args[1] == b"1":
                    self.tell_of("item_failed", key, failed)
                self.drop_frame(key)
            case "reach":
                self.reach(*args)
            case "writes":
                run.lineages[key] = run.lineages.get(key, b"") + args[1]
                if len(args) > 2:
                    order = self.revision().partition(".")[0]
                    seen = run.overlays.setdefault(key, {})
                    for i in range(2, len(args), 2):
                        seen[args[i]] = f"{order}.{i}|".encode() + args[i + 1]
            case "fields":
                for field, value in _pairs(args[1:]):
                    if key != ROOT_SCOPE or not self.keep_before(field):
                        self.drop_large(key, field)
                    run.state.setdefault(key, {})[field] = value
                run.names.add(f"s:{key}")
            case "scope":
                run.scopes[key] = args[1]
                run.state[key] = dict(_pairs(args[2:]))
                run.names.add(f"s:{key}")
            case "unscope":
                for field in run.state.get(key, {}):
                    self.drop_large(key, field)
                run.state.pop(key, None)
                run.scopes.pop(key, None)
                run.names.discard(f"s:{key}")
            case "staged":
                run.names.add(f"x:{key}")
            case "open":
                self._open_activation(key, args, before)
            case "arrive":
                self._arrive(key, args[1].decode(), args[2].decode(), args[3], args[4])
            case "close":
                self.drop_activation(key)
                controller = run.frames.get(args[1].decode())
                if controller is not None:
                    controller.act = ""
            case "interrupt":
                self.open_interrupt(key, _number_of(args[1], before), args[2], args[3].decode())
            case "wait":
                head = run.frames[key]
                self.fresh(head, "")
                head.step = _number_of(args[1], before)
                moment = int(args[2])
                self.wait_for(key, head, "elapsed", self.now + moment if args[2][:1] == b"+" else moment)
            case "retry":
                head = run.frames[key]
                self.tell_of("attempt_failed", key, head, head.attempt, head.purpose)
                head.failures += 1
                due, total = self.now + int(args[1]), limits_of(head)[1]
                if total is not None and int(head.began) + total <= due:
                    self.place(key, head, "total_timeout")
                else:
                    self.wait_for(key, head, "step", due)
            case "complete":
                if not self.failing():
                    self.set("outcome", args[0])
                    self.set("output", args[1])
                    self.finish("completed")
            case "fail":
                self._fail(key, "!" + args[1].decode(), args[2], args[3].decode(), args[4].decode())
            case "step":
                position, frame, following, outcome = (arg.decode() for arg in args[1:])
                self.tell("s", _number_of(args[0], before), position, frame, following, outcome)
            case "trace":
                self.set("traced", self.number("traced") + 1)
                run.trace.append(TraceRecord(_number_of(args[0], before), self.committer, args[1]))
            case _:
                pass

    def _put_frame(self, key: str, words: Sequence[str], body: bytes) -> None:
        node, parent, scope, chain, kind = words
        head = self.run.frames.get(key)
        if head is not None:
            head.node = node
        else:
            made = self.run.frames[key] = self.new_head(node, parent, scope, chain, kind, "")
            made.rev = self.revision()
        self.run.bodies[key] = body

    def _open_activation(self, key: str, args: Sequence[bytes], before: int) -> None:
        _, n, active, outstanding, policy, controller, chain, node, scope, purpose, limits = (
            arg.decode() for arg in args[:11]
        )
        run, rev = self.run, self.revision()
        run.frames[controller].act = key
        step = _number_of(args[11], before)
        run.activations[key] = ActivationHead(
            int(n), 0, int(active), int(outstanding), policy, controller, chain, node, scope, purpose, limits, step, rev
        )
        run.templates[key] = args[12]
        run.names.add(key)
        self.tell("foreach_opened", step, run.frames[controller].node, controller, n)
        if len(args) > 14:
            run.items.setdefault(key, {}).update({str(i): item for i, item in enumerate(args[14:])})
        self.admit(key)

    def _arrive(self, key: str, index: str, frame: str, status: bytes, error: bytes) -> None:
        run = self.run
        kept = run.lineages.get(frame, b"") if status == b"ok" else error
        run.results.setdefault(key, {})[index] = status + b"|" + self.revision().encode() + b"\n" + kept
        run.lineages.pop(frame, None)
        run.overlays.pop(frame, None)
        run.items.get(key, {}).pop(index, None)
        if status != b"ok":
            self.tell_of("item_failed", frame, run.frames[frame])
        run.waiting.get(key, set()).discard(index)
        self.drop_frame(frame)
        act = run.activations[key]
        if len(run.results[key]) >= act.items:
            self.signal(act.controller, "finish")
        else:
            self.admit(key)

    def _fail(self, key: str, order: str, error: bytes, again: str, limits: str) -> None:
        if not self.failing() or order < self.flag("failing"):
            self.set("failing", order)
            self.set("fail_error", error)
        if not again:
            self.set("damaged", "1")
        head = self.run.frames.get(key)
        if head is not None:
            self.leave(key, head)
            head.place, head.token, head.owner, head.rev = "failed", "", "", self.revision()
            head.purpose, head.limits = again, limits
            self.tell_of("step_failed", key, head)
            self.run.failed[key] = self.now


def limits_of(head: FrameHead) -> list[int | None]:
    """What the frame's step may take, in ms: an attempt, all attempts, in the queue, between heartbeats."""
    return [int(limit) if limit else None for limit in (head.limits or ",,,").split(",")]


def _number_of(text: bytes, steps_before: int) -> str:
    return str(steps_before + int(text[1:])) if text[:1] == b"+" else text.decode()


def _pairs(args: Sequence[bytes]) -> Iterator[tuple[str, bytes]]:
    return ((name.decode(), value) for name, value in zip(args[::2], args[1::2], strict=True))


def _as_bytes(part: Any) -> Any:
    if isinstance(part, str):
        return part.encode()
    if isinstance(part, int):
        return str(part).encode()
    return part
