"""Runs made from the records of another run: a fork goes on from where it stands, a rerun from an earlier step.

The records are copied page by page into a run that nobody sees yet, since its header says ``creating``; the last call
opens it. What is not opened within ten minutes is removed by a sweeper.

====================================  ======================================  =====================================
record                                fork                                    rerun
====================================  ======================================  =====================================
``h`` header                          all but what belongs to one life        likewise, without progress
``f`` ``b`` ``hb`` heads, bodies      all; heads keep their revisions         the root frame, at the step
``ready held paused waits failed``    all; failed frames are placed anew      none
``leases``                            placed anew (only of a run that was     none
                                      ended from outside there are any)
``due`` deadlines                     all but the run's own, which begins     the run's own, which begins anew
                                      anew
``open closed holds``                 all; open ones enter the inbox          none
``a`` ``i:`` ``r:`` ``w:`` ``parked``  all                                    none
``s:`` ``sc`` scopes                  all, the patch over the root's          the root's as they were, then the patch
``l:`` ``o:`` lineages                all                                     none
``x:`` large values                   all                                     those that the state names
``j`` journal                         all                                     its own begins at the step
``t`` trace                           all                                     its own
``e`` events, ``taken`` tokens        its own                                 its own
``k`` names                           all                                     its own
====================================  ======================================  =====================================

What can go wrong in between:

* The source moves while it is copied: its sequence is another one at the end, the copy is not opened,
  ``run_not_at_rest``. For a rerun it may move: what is read changes no more.
* The source is removed meanwhile: ``run_not_found``.
* The caller dies: the copy is removed. The same request under the same idempotency key goes on with it before that.
* A page comes late or twice: it writes the same to the same places, or is refused since the run is open or gone.
* The run id is taken meanwhile: opening is refused, as a submit would be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from wf_core.analysis.control_regions import analyze_control_regions
from wf_core.plan import Plan
from wf_core.run_state import ROOT_FRAME_ID, ROOT_SCOPE_ID, WORKFLOW_FRAME, ExecutionFrame
from wf_core.runtime.kernel import purpose_at
from wf_core.runtime.patches import check_state_patch
from wf_worker.errors import RequestRefused, RunDamaged, StoreUnavailable
from wf_worker.store import encoding
from wf_worker.store.answers import Answers
from wf_worker.store.calls import Arg, Reply, text_of
from wf_worker.store.encoding import to_bytes
from wf_worker.store.keys import LAYOUT, ROOT_SCOPE, RUN_KEYS, frame_key, short
from wf_worker.store.layout import check_layout
from wf_worker.store.looking import Looking
from wf_worker.store.memory_state import FINAL
from wf_worker.store.protocol import Created, NewCopy, RecordKind
from wf_worker.store.slices import Head

PAGE: Final = 200
PAGE_BYTES: Final = 256 * 1024
TEXT_KIB: Final = 256

OF_ONE_LIFE: Final = frozenset(
    {
        *(
            "run_id",
            "status",
            "rev",
            "created",
            "updated",
            "ended",
            "outcome",
            "output",
            "error",
            "keep",
            "forked_from",
        ),
        *(
            "failing",
            "fail_error",
            "damaged",
            "deadlocked",
            "retry",
            "deadline",
            "recovered",
            "open_by",
            "from_seq",
            "events",
        ),
    }
)
"""Header fields that no run has from another one."""

PROGRESS: Final = frozenset({"seq", "steps", "traced", "marks", "kept", "paused", "paused_at", "release"})
"""Header fields that say how far a run is: a rerun begins anew."""

COPIED_HASHES: Final = ("BODIES", "BEATS", "PARKED", "OPEN", "CLOSED", "HOLDS", "ACTIVATIONS", "SCOPES", "JOURNAL")
COPIED_SCORES: Final = ("READY", "HELD", "PAUSED", "LEASES", "WAITS", "FAILED", "DUE")
_OPENED: Final = "opened"


class Forks(Answers, Looking):
    """Making runs from other runs."""

    def fork(self, source: str, new: NewCopy) -> Created:
        """A new run from the current state of one at rest: ended, interrupted, or paused with nothing running.

        Raises :class:`RequestRefused` with ``run_not_found``, ``run_not_at_rest``, ``run_completed``, ``run_damaged``,
        ``step_budget_used``, and the codes of :func:`check_state_patch`. Sent again with the same incarnation it gives
        the same answer.
        """
        header = self._source(source)
        check_at_rest(header, self._any(source, "LEASES"))
        _check_can_go_on(header)
        steps, budget = int(header["steps"]), new.max_steps
        if budget is not None and budget <= steps:
            raise RequestRefused(
                f"the run has taken {steps} steps, a budget of {budget} admits no more",
                code="step_budget_used",
                path="limits.max_steps",
                hint=f"pass more than {steps}, or leave it out to keep the run's own",
                details={"steps_executed": steps},
            )
        program = self.program(text_of(header["digest"]))
        self._check_patch(program.root, new)
        kept = {name: value for name, value in header.items() if name not in OF_ONE_LIFE}
        begun = self._begin(new, kept, source, header, None)
        if begun is not None:
            return begun
        self._copy_all(source, new)
        now = self._source(source)
        if any(now.get(name) != header.get(name) for name in ("status", "seq", "paused")):
            raise not_at_rest("the run has moved while it was copied")
        return self._open(new, "fork")

    def rerun(self, source: str, step: str, new: NewCopy) -> Created:
        """A new run from the state as it was when the root frame first came to a step. The source may be moving.

        Raises as :meth:`fork`, and ``unknown_step``, ``step_not_rerunnable`` for a step inside a loop, and
        ``step_not_reached``.
        """
        header = self._source(source)
        program = self.program(text_of(header["digest"]))
        plan = program.root
        at = plan.step(step)
        _check_outside_loops(plan, step)
        self._check_patch(plan, new)
        position = plan.positions[step]
        _, _, origin, outcome, names = self._past(source, step, position, ())
        kept = {name: value for name, value in header.items() if name not in OF_ONE_LIFE | PROGRESS}
        kept |= {"seq": b"1", "steps": b"0", "traced": b"0"}
        begun = self._begin(new, kept, source, header, step)
        if begun is not None:
            return begun
        self._copy_past(source, step, position, [text_of(name) for name in names], new)
        frame = ExecutionFrame(ROOT_FRAME_ID, WORKFLOW_FRAME, step)
        if origin:
            frame.prior_outcome = text_of(outcome)
            frame.activated_incoming_edge = program.step_at(int(origin))[1].id
        limits = encoding.encode_limits(plan.time_limits.get(step))
        return self._open(
            new,
            *("rerun", frame_key(frame), position, short(ROOT_SCOPE_ID), purpose_at(at).value, limits),
            *(encoding.encode_frame(frame, item_elsewhere=False), origin, outcome),
        )

    # ---- the source

    def _source(self, source: str) -> dict[str, bytes]:
        header = self.records.whole_header(source)
        if header.get("status") in (None, b"deleting", b"creating"):
            raise _not_found()
        check_layout(source, header.get("layout"))
        return header

    def _check_patch(self, plan: Plan, new: NewCopy) -> None:
        check_state_patch(plan, new.patch)
        for name, value in new.patch.items():
            size = len(to_bytes(value))
            if size > self.field_bytes:
                raise RequestRefused(
                    f"state field {name!r} would have {size} bytes, the limit is {self.field_bytes}",
                    code="payload_too_large",
                    path=f"patch.{name}",
                    hint="keep large data elsewhere and a reference to it in the state, or raise WF_FIELD_BYTES",
                    details={"bytes": size, "limit": self.field_bytes},
                )

    def _any(self, source: str, record: str) -> bool:
        return bool(self.records.scan(source, "scores", RUN_KEYS[record], 0, 1)[0])

    def _past(self, source: str, step: str, position: int, names: Sequence[str]) -> Sequence[Any]:
        reply = self._call("past", source, self._new_id(), position, len(names), *names)
        if reply.word == "unreached":
            raise RequestRefused(
                f"the run has not come to step {step!r}",
                code="step_not_reached",
                path="from",
                hint="name a step that its trace shows; a rerun knows the steps that it has come to itself",
            )
        if reply.word == "lost":
            raise RequestRefused(
                f"field {reply.text(1)!r} of the state of then was not kept",
                code="step_state_not_kept",
                path="from",
                hint="name an earlier step; a run keeps 32 MiB of its past, so collect large values in fewer steps",
            )
        if reply.word != "past":
            raise _not_found()
        return reply.values

    # ---- copying

    def _begin(
        self, new: NewCopy, kept: Mapping[str, bytes], source: str, header: Mapping[str, bytes], step: str | None
    ) -> Created | None:
        """Lays the header; what the caller is told where there is nothing left to do."""
        link = {"run_id": text_of(header["run_id"]), "incarnation": source, "step": step}
        fields: dict[str, Arg] = {**kept, "layout": LAYOUT, **new.extras, "forked_from": to_bytes(link)}
        fields = {name: value for name, value in fields.items() if name not in ("run_id", "status")}
        flat = [part for pair in fields.items() for part in pair]
        sequence = text_of(header["seq"]) if step is None else f"past {step}"
        reply = self._try_begin(new, sequence, flat)
        if reply.word == "late":
            self._learn_clock(int(reply.text(1)))
            reply = self._try_begin(new, sequence, flat)
        match reply.word:
            case "begun":
                return None
            case word if word == _OPENED:
                return Created(True, new.run_id, new.incarnation, "pending")
            case "exists":
                return Created(False, new.run_id, reply.text(1), reply.text(2))
            case "moved":
                raise not_at_rest("the run has moved since this request was sent first")
            case _:
                raise _too_late()

    def _try_begin(self, new: NewCopy, sequence: str, flat: Sequence[Arg]) -> Reply:
        return self._call(
            "copy_begin",
            new.incarnation,
            new.call_id,
            self._latest(),
            new.run_id,
            sequence,
            len(flat) // 2,
            *flat,
        )

    def _open(self, new: NewCopy, *how: Arg) -> Created:
        patch: list[Arg] = [part for name, value in new.patch.items() for part in (name, b"=" + to_bytes(value))]
        budget = "" if new.max_steps is None else new.max_steps
        reply = self._call("copy_open", new.incarnation, new.call_id, new.run_id, budget, len(new.patch), *patch, *how)
        match reply.word:
            case word if word == _OPENED:
                return Created(True, new.run_id, new.incarnation, "pending", reply.ready)
            case "exists":
                return Created(False, new.run_id, reply.text(1), reply.text(2))
            case _:
                raise _too_late()

    def _copy_all(self, source: str, new: NewCopy) -> None:
        # Heads first, and names with every page: so whoever removes a half-made copy finds all of it.
        for heads in self._copy(source, new, "hash", RUN_KEYS["FRAMES"]):
            for key, head in zip(heads[::2], heads[1::2], strict=True):
                if Head.parse(head, text_of(key)).kind == "c":
                    self._copied(source, new, "text", RUN_KEYS["LINEAGE"] + text_of(key))
                    self._copied(source, new, "hash", RUN_KEYS["OVERLAY"] + text_of(key))
        for record in COPIED_HASHES:
            self._copied(source, new, "hash", RUN_KEYS[record])
        for record in COPIED_SCORES:
            self._copied(source, new, "scores", RUN_KEYS[record])
        for names in self._copy(source, new, "set", RUN_KEYS["NAMES"]):
            for name in map(text_of, names):
                self._copy_named(source, new, name)
        self._copied(source, new, "trace", RUN_KEYS["TRACE"])

    def _copy_named(self, source: str, new: NewCopy, name: str) -> None:
        if name.startswith(RUN_KEYS["STAGED"]):
            self._copied(source, new, "text", name, name)
        elif ":" in name:
            self._copied(source, new, "hash", name, name)
        else:
            self._copied(source, new, "hash", RUN_KEYS["ITEMS"] + name, name)
            self._copied(source, new, "hash", RUN_KEYS["RESULTS"] + name, name)
            self._copied(source, new, "set", RUN_KEYS["WAITING"] + name, name)

    def _copied(self, source: str, new: NewCopy, kind: RecordKind, key: str, name: str = "") -> None:
        for _ in self._copy(source, new, kind, key, name):
            pass

    def _copy(self, source: str, new: NewCopy, kind: RecordKind, key: str, name: str = "") -> Iterator[Sequence[bytes]]:
        """Copies one record; every page once it is there."""
        for offset, page in self.pages(source, kind, key):
            values = _without_run(page) if key == RUN_KEYS["DUE"] else page
            if any(values):
                self._fill(new, kind, key, name, offset, values)
                yield values

    def pages(self, source: str, kind: RecordKind, key: str) -> Iterator[tuple[int, list[bytes]]]:
        """One record page by page, each with the cursor that it was read at; heavy ones in smaller pages."""
        cursor, most = 0, TEXT_KIB if kind == "text" else PAGE
        while True:
            page, following = self.records.scan(source, kind, key, cursor, most)
            yield cursor, page
            if not following:
                return
            if kind != "text":
                most = max(1, most // 2) if sum(map(len, page)) > PAGE_BYTES else min(PAGE, 2 * most)
            cursor = following

    def _fill(self, new: NewCopy, kind: str, key: str, name: str, offset: int, values: Sequence[bytes]) -> None:
        at = offset if kind == "text" else 0
        reply = self._call("copy_fill", new.incarnation, self._new_id(), kind, key, name, at, len(values), *values)
        if reply.word != "filled":
            raise _too_late()

    def _copy_past(self, source: str, step: str, position: int, names: list[str], new: NewCopy) -> None:
        state = RUN_KEYS["STATE"] + ROOT_SCOPE
        while names:
            *_, values = self._past(source, step, position, names[:PAGE])
            found = [(name, value) for name, value in zip(names, values, strict=False) if value is not None]
            for _, value in found:
                if value.startswith(b"@"):
                    self._copy_large(source, new, value)
            if found:
                flat = [part for name, value in found for part in (name.encode(), value)]
                self._fill(new, "hash", state, state, 0, flat)
            names = names[len(values) :]

    def _copy_large(self, source: str, new: NewCopy, value: bytes) -> None:
        name, _, length = text_of(value[1:]).partition(" ")
        key = RUN_KEYS["STAGED"] + name
        copied = sum(len(piece) for [piece] in self._copy(source, new, "text", key, key))
        if copied != int(length):
            self._source(source)  # where the run is gone altogether, that is what is said
            raise RunDamaged(f"the large value {name} is not whole", path=key)


def _without_run(scores: Sequence[bytes]) -> list[bytes]:
    """Deadlines without the one of the run as a whole."""
    pairs = zip(scores[::2], scores[1::2], strict=True)
    return [part for pair in pairs if pair[0] != b"run" for part in pair]


def check_at_rest(header: Mapping[str, bytes], claimed: bool) -> None:
    """Raises ``run_not_at_rest`` where a run may move by itself."""
    status = text_of(header["status"])
    resting = status == "interrupted" or (header.get("paused") == b"1" and not claimed)
    if status not in FINAL and not resting:
        raise not_at_rest(f"the run is {status}" + (", and steps of it are running" if claimed else ""))


def _check_can_go_on(header: Mapping[str, bytes]) -> None:
    if header["status"] == b"completed":
        raise RequestRefused(
            "the run is completed: nothing of it could go on",
            code="run_completed",
            hint="make a new run from one of its steps: wf run rerun RUN --from STEP",
        )
    if header.get("damaged") == b"1" or header.get("deadlocked") == b"1":
        raise RequestRefused(
            "the run is damaged and cannot go on",
            code="run_damaged",
            hint="its error names the record; make a new run from one of its steps, or start one",
        )


def _check_outside_loops(plan: Plan, step: str) -> None:
    owners = analyze_control_regions(plan.workflow).owner_stack_by_node.get(step, ())
    if owners:
        raise RequestRefused(
            f"step {step!r} is inside the loop {owners[0]!r}",
            code="step_not_rerunnable",
            path="from",
            hint=f"begin at the loop itself: {owners[0]}",
        )


def _not_found() -> RequestRefused:
    return RequestRefused("there is no such run", code="run_not_found", path="run_id", hint="list the runs")


def not_at_rest(message: str) -> RequestRefused:
    """The refusal of what is done to runs at rest only."""
    return RequestRefused(
        message, code="run_not_at_rest", hint="pause it and wait until its running steps have ended, then try again"
    )


def _too_late() -> StoreUnavailable:
    return StoreUnavailable(
        "the run was not made in time and is removed", code="submit_too_late", hint="send the request again"
    )
