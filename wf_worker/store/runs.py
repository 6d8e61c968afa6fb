"""The run store: what can be done to a run, in kernel terms, over any :class:`~wf_worker.store.protocol.Records`."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from wf_core.errors import WorkflowExecutionError
from wf_core.models.steps import SubgraphNode
from wf_core.models.workflow import Workflow
from wf_core.plan import Needs, Program, handler_name, workflow_digest
from wf_core.reducers import ReducerDefinition
from wf_core.run_state import InterruptRequest, Json
from wf_core.runtime import kernel
from wf_core.runtime.kernel import INLINE_ITEMS, Walk
from wf_core.runtime.slice import Need, SliceMiss
from wf_core.runtime.transition import ItemResult, Purpose, RunError, Transition
from wf_worker.errors import RequestRefused, RunDamaged, StoreUnavailable
from wf_worker.store import encoding
from wf_worker.store.encoding import from_bytes, to_bytes
from wf_worker.store.keys import Keys, short
from wf_worker.store.plans import Plans
from wf_worker.store.protocol import (
    ActivationProgress,
    Claim,
    CommitStatus,
    Committed,
    Created,
    DueRun,
    NewRun,
    OpenInterrupt,
    Published,
    Ready,
    Records,
    Refusal,
    Refused,
    RunRecord,
    TracedStep,
    UnclaimedFrame,
)
from wf_worker.store.slices import Head, StoredSlice
from wf_worker.store.transitions import Encoded, TransitionEncoder

DEFAULT_LEASE_MS: Final = 30_000
CREATE_WITHIN_MS: Final = 60_000
RESULT_PAGE: Final = 200
MAX_LOADS: Final = 100_000
CHUNK_ITEMS: Final = 400
CHUNK_BYTES: Final = 256 * 1024
MAX_CACHED_ITEMS: Final = 256

_HEADER_FIELDS: Final = (
    *("run_id", "workflow", "version", "digest", "status", "rev", "outcome", "output", "error", "max_steps", "steps"),
    *("flow_digest", "traced", "created", "updated", "ended", "paused", "recovered"),
)

T = TypeVar("T")
Arg = str | bytes | int


def new_call_id() -> str:
    """A fresh name for a call, a token or an incarnation: 16 hexadecimal characters."""
    return secrets.token_hex(8)


class RunStore:
    """Runs in a store. Safe for threads; one instance per process."""

    def __init__(
        self,
        records: Records,
        keys: Keys | None = None,
        *,
        reducers: Mapping[str, ReducerDefinition] | None = None,
        lease_ms: int = DEFAULT_LEASE_MS,
        max_losses: int = 3,
        new_id: Callable[[], str] = new_call_id,
    ) -> None:
        self.records = records
        self.keys = keys or Keys()
        self.lease_ms = lease_ms
        self.max_losses = max_losses
        self.plans = Plans(records.document, reducers)
        self._new_id = new_id
        self._clock_ahead_ms = 0
        self._items: OrderedDict[tuple[str, str, str], Json] = OrderedDict()

    # ---- workflows

    def publish(self, workflow: Workflow, version: str | None = None) -> Published:
        """Stores a valid workflow under its name and a version, for ever.

        Without a version the next number is taken, unless the newest version is this very document. Raises
        ``ValueError`` with every issue of an invalid workflow, and ``workflow_version_exists`` where the version is
        bound to another document.
        """
        workflow.validate_structure().raise_for_errors()
        document = workflow.model_dump(mode="json", by_alias=True)
        digest = workflow_digest(workflow)
        known = self.records.versions(workflow.name)
        if version is None:
            same = [v for v, d in known.items() if d == digest]
            if same:
                return Published(workflow.name, max(same, key=_version_order), digest, created=False)
            version = str(max((int(v) for v in known if v.isdigit()), default=0) + 1)
        self.records.put_document(digest, to_bytes(document))
        bound = self.records.add_version(workflow.name, version, digest)
        if bound != digest:
            raise RequestRefused(
                f"version {version!r} of workflow {workflow.name!r} is another document",
                code="workflow_version_exists",
                path="version",
                hint="a published version never changes: publish under a new version, or leave the version out",
                details={"digest": bound},
            )
        return Published(workflow.name, version, digest, created=version not in known)

    def program_of(self, digest: str) -> str:
        """The digest of the program that a run of this workflow executes.

        A workflow that enters no other is a program by itself. Else every workflow it can enter is looked up now, by
        name (the newest version) or by artifact and version, and pinned by digest in a document of its own. Raises
        ``child_workflow_missing`` where one is not published, and ``workflow_cycle`` where one would enter itself.
        """
        root = self._workflow(digest)
        pinned: dict[str, str] = {}
        self._pin(root, pinned, (root.name,))
        if not pinned:
            return digest
        record = to_bytes({"program": 1, "root": digest, "children": dict(sorted(pinned.items()))})
        program = "program:" + hashlib.sha256(record).hexdigest()
        self.records.put_document(program, record)
        return program

    def _pin(self, workflow: Workflow, pinned: dict[str, str], above: tuple[str, ...]) -> None:
        for i, step in enumerate(workflow.nodes):
            if not isinstance(step, SubgraphNode):
                continue
            ref, place = step.workflow, f"nodes[{i}].workflow"
            name = ref.name if ref.name is not None else str(ref.artifact_id)
            if name in above:
                raise RequestRefused(
                    f"workflow {name!r} would enter itself: {' -> '.join((*above, name))}",
                    code="workflow_cycle",
                    path=place,
                )
            versions = self.versions(name)
            version = str(ref.version) if ref.version is not None else next(reversed(versions), None)
            if version is None or version not in versions:
                raise RequestRefused(
                    f"step {step.id!r} enters workflow {ref.display!r}, which is not published",
                    code="child_workflow_missing",
                    path=place,
                    hint="publish it before a run is started",
                )
            pinned[ref.display] = versions[version]
            self._pin(self._workflow(versions[version]), pinned, (*above, name))

    def _workflow(self, digest: str) -> Workflow:
        return self.program(digest).root.workflow

    def workflow_names(self) -> list[str]:
        """The names of all published workflows, sorted."""
        return sorted(self.records.flow_names())

    def versions(self, name: str) -> dict[str, str]:
        """Version to digest, oldest first; empty when the name is unknown."""
        return dict(sorted(self.records.versions(name).items(), key=lambda pair: _version_order(pair[0])))

    def program(self, digest: str) -> Program:
        """The compiled workflow of a digest."""
        return self.plans.program(digest)

    def has_document(self, digest: str) -> bool:
        """Whether a workflow document of this digest is stored."""
        return self.records.document(digest) is not None

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
            self._clock_ahead_ms = int(reply.text(1)) - int(time.time() * 1000)
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

    def _create(self, new: NewRun) -> _Reply:
        program = self.program(new.digest)
        start = kernel.start(program, new.workflow_input)
        plan = program.root
        extras = {"workflow": plan.workflow.name, "flow_digest": plan.digest, **new.extras}
        state: list[Arg] = []
        for name, value in start.state.items():
            state += [name, b"=" + to_bytes(value)]
        # A submit that lies about in a socket may not create a run that was deleted meanwhile: it says until when it is
        # good, by the server's clock as far as we know it.
        latest = int(time.time() * 1000) + self._clock_ahead_ms + CREATE_WITHIN_MS
        return self._call(
            "create",
            new.incarnation,
            new.call_id,
            latest,
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
            encoding.encode_frame(start.frame, item_elsewhere=False),
            len(start.state),
            *state,
        )

    # ---- claims

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
            len(names),
            *names,
        )
        if reply.word == "damaged":
            raise RunDamaged(f"record {reply.text(1)} is missing or wrong", path=reply.text(1))
        if reply.word != "granted":
            return Refusal(_refused(reply.word), reply.ready)
        return self._granted(reply, 1, ready.incarnation, ready.frame, token, owner, program, names)

    def _granted(
        self,
        reply: _Reply,
        at: int,
        incarnation: str,
        frame: str,
        token: str,
        owner: str,
        program: Program,
        names: Sequence[str],
    ) -> Claim:
        purpose, step, attempt, losses, denied, revision, view = reply.values[at : at + 7]
        return Claim(
            incarnation=incarnation,
            frame=frame,
            token=token,
            owner=owner,
            purpose=Purpose(_text(purpose)),
            step=int(step) if step else None,
            attempt=int(attempt),
            losses=int(losses),
            denied=_text(denied) == "1",
            revision=_text(revision),
            view=StoredSlice.from_reply(view, incarnation, program.root, names),
        )

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
            if cached in self._items:
                view.give_item(need.key, self._items[cached])
                return None
        if need.kind == "results":
            return self._load_results(incarnation, frame, token, view, need)
        wants: dict[str, list[Arg]] = {
            "input": ["input", short(need.key)],
            "state": ["state", short(need.key), len(need.names), *need.names],
            "item": ["item", view.key(need.key) if need.kind == "item" else ""],
            "large": ["large", need.names[-1] if need.names else ""],
        }
        reply = self._call("load", incarnation, self._new_id(), frame, token, 1, *wants[need.kind])
        if reply.word != "loaded":
            return _refused(reply.word)
        value: Any = reply.values[1][0]
        match need.kind:
            case "input":
                view.give_input(need.key, value)
            case "state":
                view.give_state(need.key, need.names, value)
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
        self._items[incarnation, view.activation_revision(frame_id), view.key(frame_id)] = item
        while len(self._items) > MAX_CACHED_ITEMS:
            self._items.popitem(last=False)

    def _load_results(self, incarnation: str, frame: str, token: str, view: StoredSlice, need: Need) -> Refused | None:
        results: list[ItemResult] = []
        total = RESULT_PAGE
        while len(results) < total:
            start, stop = len(results), min(total, len(results) + RESULT_PAGE)
            reply = self._call(
                "load", incarnation, self._new_id(), frame, token, 1, "results", short(need.key), start, stop
            )
            if reply.word != "loaded":
                return _refused(reply.word)
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
        encoded = TransitionEncoder(claim.view, program, call_id).encode(transition)
        if not self._stage(claim, encoded, call_id):
            return Committed(CommitStatus.REFUSED, reason="stale")
        wants_input, names = (
            _wants(program.for_scope(claim.view.scope(claim.view.own.scope_id)).needs.get(ready_node, Needs()))
            if next_token and ready_node
            else ("0", [])
        )
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
            len(names),
            *names,
            *encoded.arguments(),
        )
        match reply.word:
            case "done":
                return Committed(CommitStatus.DONE, reply.ready)
            case "claimed":
                following = self._granted(
                    reply, 1, claim.incarnation, claim.frame, next_token or "", claim.owner, program, names
                )
                return Committed(CommitStatus.DONE, reply.ready, claim=following)
            case "again":
                return Committed(CommitStatus.AGAIN, reply.ready)
            case "budget":
                return Committed(CommitStatus.BUDGET, left=int(reply.text(1)), max_steps=int(reply.text(2)))
            case "damaged":
                raise RunDamaged(f"record {reply.text(1)} is missing or wrong", path=reply.text(1))
            case "unstaged":
                raise RunDamaged(f"the staged value {reply.text(1)} is incomplete", path=reply.text(1))
            case word:
                return Committed(CommitStatus.REFUSED, reply.ready, reason=word)

    def _stage(self, claim: Claim, encoded: Encoded, call_id: str) -> bool:
        for name, items in encoded.staged_items.items():
            for offset, chunk in encoding.chunks(items, most=CHUNK_ITEMS, most_bytes=CHUNK_BYTES):
                if not self._stage_chunk(claim, "items", name, offset, chunk):
                    return False
        for name, value in encoded.staged_values.items():
            for offset, piece in encoding.slices(value, CHUNK_BYTES):
                if not self._stage_chunk(claim, "value", name, offset, [piece]):
                    return False
        return True

    def _stage_chunk(self, claim: Claim, kind: str, name: str, offset: int, pieces: Sequence[bytes]) -> bool:
        reply = self._call(
            "stage",
            claim.incarnation,
            self._new_id(),
            claim.frame,
            claim.token,
            kind,
            name,
            offset,
            len(pieces),
            *pieces,
        )
        if reply.word == "gap":
            raise RunDamaged(f"staging {name} found {reply.text(1)} pieces at offset {offset}", path=name)
        return reply.word == "staged"

    def renew(self, claim: Claim) -> str:
        """Extends the claim's lease: ``renewed``, ``cancelled`` when the run was, else ``stale``."""
        return self._call("renew", claim.incarnation, self._new_id(), claim.frame, claim.token, self.lease_ms).word

    def give_back(self, claim: Claim, *, look_ms: int = 0) -> tuple[Ready, ...]:
        """Puts a claimed frame back without an attempt. ``look_ms`` delays its next message."""
        return self._call("give_back", claim.incarnation, self._new_id(), claim.frame, claim.token, look_ms).ready

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

    # ---- interrupts

    def interrupts(self, incarnation: str) -> list[OpenInterrupt]:
        """All open interrupts of a run, oldest first."""
        return [
            self._open_interrupt(number, head, record)
            for number, (head, record) in sorted(self.records.interrupts(incarnation).items())
        ]

    def _open_interrupt(self, number: int, head: bytes, record: bytes) -> OpenInterrupt:
        words = head.decode().split("|")
        if len(words) != 6:
            raise RunDamaged(f"interrupt {number} has a malformed head", path=f"open[{number}]")
        return OpenInterrupt(encoding.decode_interrupt(record, number), words[1], int(words[5]))

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
            return self._first_answer(reply.text(1), key, answer_digest)
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
                raise _not_open(transition.value, number)
            encoded = TransitionEncoder(view, program, call_id).encode(transition)
            if encoded.staged_items or encoded.staged_values:
                transition = self._unstaged(incarnation, frame_key, opened, view, program, payload, outcome, left)
                encoded = TransitionEncoder(view, program, call_id).encode(transition)
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
            return self._resumed(reply, number, key, answer_digest)

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

    def _resumed(self, reply: _Reply, number: int, key: str, digest: str) -> tuple[Ready, ...]:
        match reply.word:
            case "resumed" | "again":
                return reply.ready
            case "answered":
                return self._first_answer(reply.text(1), key, digest)
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

    def _first_answer(self, head: str, key: str, digest: str) -> tuple[Ready, ...]:
        _, first_key, first_digest, at = head.split("|")
        if key and first_key == key and first_digest == digest:
            return ()
        if key and first_key == key:
            raise RequestRefused(
                "this idempotency key was used for another answer",
                code="idempotency_key_reused",
                path="idempotency_key",
                hint="use a new key for a new answer",
                details={"answered_at_ms": int(at)},
            )
        raise RequestRefused(
            "the interrupt was answered already",
            code="interrupt_answered",
            hint="look at the run: the first answer counts",
            details={"answered_at_ms": int(at)},
        )

    # ---- stopping

    def cancel(self, incarnation: str, *, reason: str | None = None) -> str:
        """Ends a run at once: ``cancelled``, ``over`` when it had ended, ``gone``."""
        error = to_bytes({"type": "cancelled", "message": reason or "cancelled", "node_id": None, "frame_id": None})
        return self._call("cancel", incarnation, self._new_id(), "", error).word

    def pause(self, incarnation: str, *, on: bool) -> tuple[str, tuple[Ready, ...]]:
        """Stops new claims, or lets them go on: ``paused``, ``running``, ``over`` or ``gone``."""
        reply = self._call("pause", incarnation, self._new_id(), "1" if on else "0")
        return reply.word, reply.ready

    # ---- sweeping

    def sweep(self, shard: int, *, most: int = 50, hold_off_ms: int = 10_000) -> list[str]:
        """Takes runs of a shard that want attention."""
        return self.records.sweep(shard, most, hold_off_ms)

    def due(self, incarnation: str, *, most: int = 100) -> DueRun | None:
        """What of a run wants a sweeper now; None when the run is gone."""
        reply = self._call("due", incarnation, self._new_id(), most)
        if reply.word == "gone":
            return None
        _, status, release, expired, unclaimed, now = reply.values[:6]
        frames: list[UnclaimedFrame] = []
        for i in range(0, len(unclaimed), 3):
            head = Head.parse(unclaimed[i + 2], _text(unclaimed[i]))
            frames.append(
                UnclaimedFrame(_text(unclaimed[i]), _text(unclaimed[i + 1]), head.since_ms, head.looks, head.position)
            )
        pairs = tuple((_text(expired[i]), _text(expired[i + 1])) for i in range(0, len(expired), 2))
        return DueRun(incarnation, _text(status), bool(release), int(now), pairs, tuple(frames))

    def republish(
        self, incarnation: str, frame: str, score: str, *, look_ms: int, send: bool
    ) -> tuple[str, tuple[Ready, ...]]:
        """Sends the message of a ready frame again, or only looks for it later; ``refused`` when it has moved on."""
        reply = self._call("republish", incarnation, self._new_id(), frame, score, look_ms, "1" if send else "0")
        return reply.word, reply.ready

    def release(self, incarnation: str) -> tuple[Ready, ...]:
        """The next page of frames whose hold or pause is gone."""
        return self._call("release", incarnation, self._new_id()).ready

    # ---- looking

    def newest(self, run_id: str) -> str | None:
        """The newest incarnation of a run id, or None."""
        return self.records.newest(run_id)

    def inspect(self, incarnation: str, *, with_input: bool = False) -> RunRecord | None:
        """The run without its frames, or None when there is no such run."""
        fields = (*_HEADER_FIELDS, "input") if with_input else _HEADER_FIELDS
        header = self.records.header(incarnation, fields)
        return None if header is None else _record(incarnation, header)

    def list_runs(
        self, *, status: str | None = None, before: tuple[int, str] | None = None, limit: int = 50
    ) -> tuple[list[RunRecord], tuple[int, str] | None]:
        """Runs of all shards, newest first, and where the next page begins (creation time, incarnation), or None."""
        found: list[tuple[int, str]] = []
        for shard in range(self.keys.shards):
            bound = None if before is None else float(before[0])
            for incarnation, created in self.records.page(shard, status, bound, limit + 1 + (64 if before else 0)):
                if before is None or (created, incarnation) < before:
                    found.append((created, incarnation))
        found.sort(reverse=True)
        page = found[:limit]
        records = [
            record for created, incarnation in page if (record := self._listed(incarnation, created)) is not None
        ]
        return records, (page[-1] if len(found) > limit else None)

    def _listed(self, incarnation: str, created_ms: int) -> RunRecord | None:
        """One run of a list. A damaged one is listed as what it is: it may not hide the others."""
        try:
            return self.inspect(incarnation)
        except RunDamaged as damage:
            error: dict[str, Json] = {"type": "damaged", "message": damage.message, "node_id": None, "frame_id": None}
            return RunRecord(
                run_id=incarnation,
                incarnation=incarnation,
                workflow="",
                version="",
                digest="",
                workflow_digest="",
                status="failed",
                revision="",
                outcome=None,
                output=None,
                error=error,
                max_steps=0,
                steps_executed=0,
                trace_count=0,
                created_ms=created_ms,
                updated_ms=created_ms,
                ended_ms=None,
                paused=False,
            )

    def count_runs(self, *, status: str | None = None) -> int:
        """How many runs there are."""
        return sum(self.records.count(shard, status) for shard in range(self.keys.shards))

    def trace(self, incarnation: str, start: int, limit: int) -> list[TracedStep]:
        """Trace entries from a zero-based position, at most ``limit``."""
        return [
            TracedStep(number, worker, from_bytes(entry, "trace entry"))
            for number, worker, entry in self.records.trace(incarnation, start, limit)
        ]

    def progress(self, incarnation: str) -> list[ActivationProgress]:
        """How far every open concurrent foreach is, without reading frames."""
        progress: list[ActivationProgress] = []
        for head, template, done in self.records.progress(incarnation):
            words = head.decode().split("|")
            made = from_bytes(template, "activation template")
            progress.append(ActivationProgress(made[2], made[4], int(words[0]), int(words[1]), done))
        return progress

    def owners(self, incarnation: str) -> list[str]:
        """The workers that hold claims of a run now, one entry a claim. Reads every live frame: for small runs."""
        reply = self._call("audit", incarnation, self._new_id())
        if reply.word == "gone":
            return []
        heads = reply.values[2]
        parsed = (Head.parse(heads[i + 1], _text(heads[i])) for i in range(0, len(heads), 2))
        return [head.owner for head in parsed if head.place == "leased"]

    def reserve(self, key: str, value: dict[str, Json], seconds: int) -> dict[str, Json]:
        """Reserves an idempotency key; the value of whoever was first."""
        kept: dict[str, Json] = from_bytes(
            self.records.reserve(key, to_bytes(value), seconds), f"idempotency key {key}"
        )
        return kept

    # ---- calls

    def _call(self, script: str, incarnation: str, call_id: str, *args: Arg) -> _Reply:
        *values, out, digest = self.records.call(script, incarnation, call_id, *args)
        ready: tuple[Ready, ...] = ()
        if out:
            text = _text(digest)
            program = self.program(text)
            ready = tuple(
                _ready(incarnation, out[i], out[i + 1], text, program, int(out[i + 2])) for i in range(0, len(out), 3)
            )
        return _Reply(values, ready)


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


class _Reply:
    """A script's answer: a word, its values, and the messages it brought forth."""

    __slots__ = ("ready", "values", "word")

    def __init__(self, values: list[Any], ready: tuple[Ready, ...]) -> None:
        self.values = values
        self.word = _text(values[0])
        self.ready = ready

    def text(self, at: int) -> str:
        return _text(self.values[at])


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _ready(incarnation: str, frame: bytes, revision: bytes, digest: str, program: Program, position: int) -> Ready:
    _, step = program.step_at(position)
    label = handler_name(step) or step.type
    return Ready(incarnation, _text(frame), _text(revision), digest, step.id, position, label)


def _needs_of(program: Program, ready: Ready) -> Needs:
    """What the step that a message names is known to read; a hint, so an unknown position reads nothing beforehand."""
    try:
        plan, step = program.step_at(ready.position)
    except WorkflowExecutionError:
        return Needs()
    return plan.needs.get(step.id, Needs())


def _wants(needs: Needs) -> tuple[str, list[str]]:
    """Whether the input is wanted, and which state fields."""
    return ("1" if needs.input else "0"), (["*"] if needs.whole_state else sorted(needs.state))


def _refused(word: str) -> Refused:
    try:
        return Refused(word)
    except ValueError:
        return Refused.STALE


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


def _not_open(word: str, number: int) -> RequestRefused:
    if word == "gone":
        return RequestRefused("there is no such run", code="run_not_found")
    if word == "over":
        return RequestRefused(
            "the run has ended or is failing", code="run_not_interrupted", hint="look at the run's status"
        )
    return RequestRefused(
        f"interrupt {number} is not open", code="interrupt_not_open", hint="list the open interrupts of the run"
    )


def _version_order(version: str) -> tuple[int, int, str]:
    return (1, int(version), "") if version.isdigit() else (0, 0, version)


def _record(incarnation: str, header: Mapping[str, bytes]) -> RunRecord:
    def text(name: str) -> str:
        value = header.get(name)
        if value is None:
            raise RunDamaged(f"the run has no {name} in its header", path=f"h.{name}")
        return value.decode()

    def optional(name: str) -> str | None:
        value = header.get(name)
        return None if value is None else value.decode()

    def number(name: str) -> int:
        words = text(name)
        if not words.isdigit():
            raise RunDamaged(f"header field {name} is {words!r}, which is no number", path=f"h.{name}")
        return int(words)

    def value(name: str) -> Any:
        data = header.get(name)
        return None if not data else from_bytes(data, f"header field {name}")

    return RunRecord(
        run_id=text("run_id"),
        incarnation=incarnation,
        workflow=text("workflow"),
        version=optional("version") or "",
        digest=text("digest"),
        workflow_digest=text("flow_digest"),
        status=text("status"),
        revision=text("rev"),
        outcome=optional("outcome"),
        output=value("output"),
        error=value("error"),
        max_steps=number("max_steps"),
        steps_executed=number("steps"),
        trace_count=number("traced"),
        created_ms=number("created"),
        updated_ms=number("updated"),
        ended_ms=None if optional("ended") is None else number("ended"),
        paused=optional("paused") == "1",
        recovered_frames=0 if optional("recovered") is None else number("recovered"),
        workflow_input=value("input"),
    )
