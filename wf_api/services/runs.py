"""Starting runs, looking at them, answering and cancelling them."""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast

from wf_api.services.cursors import cursor_for, cursor_invalid, cursor_parts
from wf_api.services.views import inbox_entry, interrupt_view, progress_view, run_entry, run_view, trace_view
from wf_api.services.workflows import WorkflowService
from wf_api.strict_json import encode
from wf_api.wire import (
    ENDED,
    MAX_PAGE,
    AuditView,
    CancelView,
    FrameCounts,
    InboxEntry,
    InboxPage,
    InterruptList,
    Priority,
    ProgressView,
    RunPage,
    RunStatus,
    RunView,
    TracePage,
)
from wf_core.errors import WfError, WorkflowExecutionError
from wf_core.plan import Plan, Program
from wf_core.reducers import reducer_definition
from wf_core.run_state import TraceLevel
from wf_core.runtime.kernel import check_input
from wf_worker.durability import Durability
from wf_worker.errors import RequestRefused, RunDamaged, StoreError
from wf_worker.settings import Settings
from wf_worker.store.protocol import Created, NewRun, OpenInterrupt, Ready, RunFilter, RunRecord
from wf_worker.store.runs import RunStore

log = logging.getLogger("wf.api")

Publish = Callable[[Sequence[Ready]], None]
OpenPolicy = Literal["fail", "use_existing", "cancel_existing"]
ClosedPolicy = Literal["reject", "allow", "allow_after_failure"]

_REPLACE_TRIES: Final = 10
_INBOX_PAGES: Final = 20


@dataclass(frozen=True, slots=True)
class StartRequest:
    """What a run is started with. Either ``workflow``, with or without a version, or ``digest``."""

    workflow: str | None = None
    version: str | None = None
    digest: str | None = None
    workflow_input: dict[str, Any] = field(default_factory=dict[str, Any])
    run_id: str | None = None
    idempotency_key: str | None = None
    open_policy: OpenPolicy = "fail"
    closed_policy: ClosedPolicy = "reject"
    max_steps: int | None = None
    trace: TraceLevel = "full"
    deadline_seconds: int | None = None
    durability: str | None = None
    priority: Priority = "normal"
    tags: Mapping[str, str] = field(default_factory=dict[str, str])

    def fingerprint(self) -> str:
        """Two requests under one idempotency key must have the same."""
        parts = [
            self.workflow,
            self.version,
            self.digest,
            self.workflow_input,
            self.run_id,
            self.open_policy,
            self.closed_policy,
            self.max_steps,
            self.trace,
            self.deadline_seconds,
            self.priority,
            dict(self.tags),
            self.durability,
        ]
        return hashlib.sha256(encode(parts)).hexdigest()


@dataclass(frozen=True, slots=True)
class Started:
    """A started run. ``created`` is false where it was there before: a repeated key, or an id that was in use."""

    run: RunView
    created: bool


class RunService:
    """Runs, over a store and a way to send messages about ready frames."""

    def __init__(self, store: RunStore, publish: Publish, settings: Settings) -> None:
        self._store = store
        self._publish = publish
        self._settings = settings
        self._workflows = WorkflowService(store)

    # ---- starting

    def start_run(self, request: StartRequest) -> Started:
        """Accepts a run: it is in the store when this returns, and a worker will take it up.

        Every workflow that it can enter is pinned now. Raises ``workflow_not_found``, ``workflow_version_not_found``,
        ``child_workflow_missing``, ``workflow_cycle``, ``workflow_input_invalid``, ``run_id_in_use``,
        ``idempotency_key_reused``; no run exists then.
        """
        if request.idempotency_key is not None and request.open_policy == "use_existing":
            raise RequestRefused(
                "use_existing and an idempotency key exclude each other",
                code="request_invalid",
                path="idempotency_key",
                hint="leave the key out: a start that uses the existing run may be repeated as it is",
            )
        self._check_promise(request.durability)
        version, digest = self._resolve(request)
        digest = self._store.program_of(digest)
        program = self._store.program(digest)
        check_resolved(program)
        self._check_size(request.workflow_input, self._settings.input_bytes, "input")
        check_input(program.root, request.workflow_input)

        run_id = request.run_id or new_run_id()
        incarnation = self._store.keys.incarnation(run_id, secrets.token_hex(8))
        repeated = False
        if request.idempotency_key is not None:
            own = {
                "incarnation": incarnation,
                "run_id": run_id,
                "request": request.fingerprint(),
                "digest": digest,
                "version": version,
            }
            kept = self._store.reserve(request.idempotency_key, own, self._settings.idempotency_seconds)
            if kept["request"] != own["request"]:
                raise RequestRefused(
                    "this idempotency key was used for another request",
                    code="idempotency_key_reused",
                    path="idempotency_key",
                    hint="use a new key for a new run",
                    details={"run_id": kept["run_id"]},
                )
            repeated = kept["incarnation"] != incarnation
            # Whoever reserved the key may have died before it created the run: then it is created here.
            run_id, incarnation, digest, version = kept["run_id"], kept["incarnation"], kept["digest"], kept["version"]

        keyed = request.idempotency_key is not None
        keep = self._settings.keep(at_least_seconds=self._settings.idempotency_seconds if keyed else 0)
        new = NewRun(
            run_id=run_id,
            incarnation=incarnation,
            call_id=_digest(f"create {incarnation}")[:16],
            digest=digest,
            workflow_input=request.workflow_input,
            max_steps=request.max_steps or self._settings.max_steps,
            open_policy=request.open_policy,
            closed_policy=request.closed_policy,
            extras={
                "trace": request.trace,
                "keep": keep,
                **({"version": version} if version else {}),
                **({} if request.deadline_seconds is None else {"deadline_ms": str(1000 * request.deadline_seconds)}),
                **({} if request.priority == "normal" else {"priority": request.priority}),
            },
            tags=request.tags,
        )
        created = self._create(new)
        self._send(created.ready)
        return Started(self._view(created.incarnation, run_id), created.created and not repeated)

    def _check_promise(self, wanted: str | None) -> None:
        if wanted is not None and not self._settings.promised.covers(Durability.parse(wanted)):
            raise RequestRefused(
                f"durability {wanted} is not promised here, but {self._settings.promised}",
                code="durability_unavailable",
                path="durability",
                hint="ask for less, or set WF_DURABILITY and the server so",
            )

    def _resolve(self, request: StartRequest) -> tuple[str, str]:
        if request.digest is not None:
            return self._workflows.resolve_digest(request.digest)[1], request.digest
        assert request.workflow is not None, "a request names a workflow or a digest"
        return self._workflows.resolve(request.workflow, request.version)

    def _create(self, new: NewRun) -> Created:
        """Creates the run, or finds what its id is in use for and does what the request wants then."""
        closed_policy = new.closed_policy
        tries = 0
        while True:
            created = self._store.create(
                NewRun(
                    new.run_id,
                    new.incarnation,
                    new.call_id,
                    new.digest,
                    new.workflow_input,
                    new.max_steps,
                    new.open_policy,
                    closed_policy,
                    new.extras,
                    new.tags,
                )
            )
            if created.created:
                return created
            tries += 1
            if created.status in ENDED or new.open_policy == "fail" or tries == _REPLACE_TRIES:
                raise _in_use(created)
            if new.open_policy == "use_existing":
                return created
            # What was cancelled for this may be replaced, whatever the policy says of runs that ended by themselves.
            cancelled = self._store.cancel(created.incarnation, reason=f"replaced by a new run {new.run_id!r}")
            closed_policy = "allow" if cancelled == "cancelled" else new.closed_policy

    # ---- looking

    def inspect_run(self, run_id: str, *, with_input: bool = False) -> RunView:
        """The run as it is now, without its trace."""
        return self._view(self._incarnation(run_id), run_id, with_input=with_input)

    def list_runs(self, wanted: RunFilter | None = None, *, cursor: str | None = None, limit: int = 50) -> RunPage:
        """Runs, newest first. A cursor keeps its place while runs are added; it belongs to its filter."""
        _check_limit(limit)
        wanted = wanted or RunFilter()
        mark = _mark(wanted.status, wanted.workflow, wanted.tags, wanted.created_from_ms, wanted.created_to_ms)
        before = None if cursor is None else _place(cursor, mark)
        records, following = self._store.list_runs(wanted, before=before, limit=limit)
        return {
            "runs": [run_entry(record) for record in records],
            "total": self._store.count_runs(wanted),
            "limit": limit,
            "next_cursor": None if following is None else cursor_for(mark, *following),
        }

    def list_inbox(
        self,
        *,
        kind: str | None = None,
        workflow: str | None = None,
        tags: Mapping[str, str] | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> InboxPage:
        """What all runs ask for, oldest first."""
        _check_limit(limit)
        wanted = RunFilter(workflow=workflow, tags=tags or {})
        mark = _mark(kind, workflow, wanted.tags)
        after = None if cursor is None else _place(cursor, mark)
        entries: list[InboxEntry] = []
        # Filters look at this many pages in one request; what follows is left to the next one.
        for _ in range(_INBOX_PAGES):
            found, after = self._store.inbox(after=after, limit=limit - len(entries))
            for incarnation, opened in found:
                record = self._store.inspect(incarnation)
                if record is None or record.ended or not wanted.shows(record):
                    continue
                if kind is None or opened.request.kind == kind:
                    entries.append(inbox_entry(opened, record))
            if after is None or len(entries) == limit:
                break
        following = None if after is None else cursor_for(mark, *after)
        return {"interrupts": entries, "limit": limit, "next_cursor": following}

    def run_trace(self, run_id: str, *, start: int = 0, limit: int = 20) -> TracePage:
        """A range of the run's trace."""
        _check_limit(limit)
        if start < 0:
            raise RequestRefused("start is negative", code="request_invalid", path="start", hint="the first entry is 0")
        record = self._record(self._incarnation(run_id), run_id)
        steps = self._store.trace(record.incarnation, start, limit)
        following = start + len(steps)
        total = max(record.trace_count, following if steps else 0)
        return {
            "run_id": record.run_id,
            "trace": [trace_view(step) for step in steps],
            "start": start,
            "limit": limit,
            "total": total,
            "next_start": following if steps and following < total else None,
        }

    def list_interrupts(self, run_id: str) -> InterruptList:
        """The open interrupts of a run."""
        incarnation = self._incarnation(run_id)
        record = self._record(incarnation, run_id)
        return {
            "run_id": record.run_id,
            "status": cast(RunStatus, record.status),
            "interrupts": [interrupt_view(opened) for opened in self._open(record)],
        }

    def run_progress(self, run_id: str) -> ProgressView:
        """How far the run and its open concurrent loops are."""
        record = self._record(self._incarnation(run_id), run_id)
        progress = [] if record.ended else self._store.progress(record.incarnation)
        return {
            "run_id": record.run_id,
            "status": cast(RunStatus, record.status),
            "steps_executed": record.steps_executed,
            "limits": {"max_steps": record.max_steps},
            "frames": self._counts(record),
            "foreach": [progress_view(activation) for activation in progress],
        }

    def _counts(self, record: RunRecord) -> FrameCounts:
        counts = self._store.counts(record.incarnation)
        if record.ended:  # what else is stored of it moves no more
            counts = {place: count if place == "failed" else 0 for place, count in counts.items()}
        return cast(FrameCounts, counts)

    def audit_run(self, run_id: str) -> AuditView:
        """Whether the run's records agree with one another. Never changes one.

        Raises ``run_moving`` for a large run that does not stand still for as long as it is read.
        """
        try:
            findings = self._store.audit(self._incarnation(run_id))
        except RunDamaged as damage:
            findings = [damage.message]
        if findings is None:
            raise run_not_found(run_id)
        return {"run_id": run_id, "whole": not findings, "findings": findings}

    # ---- answering

    def resume_run(
        self,
        run_id: str,
        *,
        payload: dict[str, Any],
        outcome: str = "submitted",
        interrupt_key: str | None = None,
        revision: str | None = None,
        idempotency_key: str | None = None,
    ) -> RunView:
        """Answers an open interrupt: the named one, or the only one. Of any number of answers exactly one is taken.

        Checked in this order, and nothing is consumed by an answer that is refused: ``run_not_found``,
        ``run_not_interrupted``, ``interrupt_ambiguous`` or ``interrupt_not_open`` or ``interrupt_answered``,
        ``resume_outcome_undeclared``, ``resume_payload_invalid``.
        """
        record = self._record(self._incarnation(run_id), run_id)
        opened = self._open(record)
        number = _which(record, opened, interrupt_key, repeatable=idempotency_key is not None)
        self._check_size(payload, self._settings.payload_bytes, "payload")
        try:
            ready = self._store.resume(
                record.incarnation,
                number,
                payload,
                outcome,
                digest=record.digest,
                revision=revision,
                # The store keeps keys among words of its own, so it gets a digest of what people write.
                idempotency_key=None if idempotency_key is None else _digest(idempotency_key)[:32],
            )
        except StoreError:
            raise
        except RequestRefused as refusal:
            if refusal.code == "interrupt_not_open" and not opened:
                raise _not_interrupted(record) from refusal
            raise
        except WorkflowExecutionError as error:
            raise _named_as_here(error) from error
        self._send(ready)
        return self._view(record.incarnation, run_id)

    # ---- stopping

    def cancel_run(self, run_id: str, *, reason: str | None = None) -> CancelView:
        """Ends a run at once. A run that has ended stays as it is."""
        incarnation = self._incarnation(run_id)
        word = self._store.cancel(incarnation, reason=reason)
        if word == "gone":
            raise run_not_found(run_id)
        record = self._record(incarnation, run_id)
        return {"run_id": record.run_id, "status": cast(RunStatus, record.status), "changed": word == "cancelled"}

    def pause_run(self, run_id: str, *, on: bool) -> RunView:
        """Stops new claims of a run, or lets them go on; running handlers commit. Twice is no error.

        Raises ``run_ended`` when the run has ended.
        """
        incarnation = self._incarnation(run_id)
        word, ready = self._store.pause(incarnation, on=on)
        if word == "gone":
            raise run_not_found(run_id)
        if word == "over":
            raise RequestRefused(
                f"run {run_id!r} has ended",
                code="run_ended",
                hint="a run that has ended is neither paused nor let go on; a failed one can be retried",
                details={"status": self._record(incarnation, run_id).status},
            )
        self._send(ready)
        return self._view(incarnation, run_id)

    def retry_run(self, run_id: str, *, max_steps: int | None = None) -> RunView:
        """Lets a failed run go on: its failed steps are tried anew, what has finished stays.

        Raises ``run_not_failed``, ``step_budget_used``, and ``run_damaged`` where nobody can go on.
        """
        incarnation = self._incarnation(run_id)
        word, ready = self._store.retry_failed(incarnation, max_steps=max_steps)
        match word:
            case "gone":
                raise run_not_found(run_id)
            case "not_failed":
                raise RequestRefused(
                    f"run {run_id!r} has not failed",
                    code="run_not_failed",
                    hint="look at the run's status; start a new run where this one has ended otherwise",
                    details={"status": self._record(incarnation, run_id).status},
                )
            case "budget":
                taken = self._record(incarnation, run_id).steps_executed
                raise RequestRefused(
                    f"run {run_id!r} has taken {taken} steps, a budget of {max_steps} admits no more",
                    code="step_budget_used",
                    path="limits.max_steps",
                    hint=f"pass more than {taken}, or leave it out to keep the run's own",
                    details={"steps_executed": taken},
                )
            case "damaged":
                raise RequestRefused(
                    f"run {run_id!r} is damaged and cannot go on",
                    code="run_damaged",
                    hint="its error names the record; start a new run",
                )
            case _:
                self._send(ready)
                return self._view(incarnation, run_id)

    # ---- what all share

    def _incarnation(self, run_id: str) -> str:
        incarnation = self._store.newest(run_id)
        if incarnation is None:
            raise run_not_found(run_id)
        return incarnation

    def _record(self, incarnation: str, run_id: str, *, with_input: bool = False) -> RunRecord:
        record = self._store.inspect(incarnation, with_input=with_input)
        if record is None:
            raise run_not_found(run_id)
        return record

    def _open(self, record: RunRecord) -> list[OpenInterrupt]:
        return [] if record.ended else self._store.interrupts(record.incarnation)

    def _view(self, incarnation: str, run_id: str, *, with_input: bool = False) -> RunView:
        record = self._record(incarnation, run_id, with_input=with_input)
        waits_until = None if record.ended else self._store.waits_until(record.incarnation)
        parked = {} if record.ended else self._store.parked(record.incarnation)
        if parked:
            served = self._store.announced().capabilities
            parked = {capability: count for capability, count in parked.items() if capability not in served}
        return run_view(record, self._open(record), waits_until, parked, with_input=with_input)

    def _send(self, ready: Sequence[Ready]) -> None:
        """Messages are hints: what the caller asked for is stored already, and a sweeper finds frames without one."""
        if not ready:
            return
        try:
            self._publish(ready)
        except Exception as error:  # whatever the broker does, the answer is success
            log.warning("%d messages were not sent, a sweeper will send them: %s", len(ready), error)

    def _check_size(self, value: dict[str, Any], most_bytes: int, path: str) -> None:
        size = len(encode(value))
        if size > most_bytes:
            raise RequestRefused(
                f"{path} has {size} bytes, the limit is {most_bytes}",
                code="payload_too_large",
                path=path,
                hint="keep large data elsewhere and send a reference to it",
                details={"bytes": size, "limit": most_bytes},
            )


def _mark(*filters: Any) -> str:
    """Tells the cursors of one filter from those of another."""
    parts = [dict(part) if isinstance(part, Mapping) else part for part in filters]
    return _digest(encode(parts).decode())[:16]


def _place(cursor: str, mark: str) -> tuple[int, str]:
    """The place that a cursor of this filter names."""
    of, at_ms, member = cursor_parts(cursor, str, int, str)
    if of != mark:
        raise cursor_invalid()
    return at_ms, member


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def new_run_id() -> str:
    """A run id for a caller that gives none."""
    return secrets.token_hex(12)


def check_resolved(program: Program) -> None:
    """Raises when the workflow, or one that it enters, names a reducer that is not there: its runs could only fail."""
    for plan in (program.root, *program.children.values()):
        if isinstance(plan, Plan):
            for rule in plan.fields.values():
                reducer_definition(plan.reducers, rule.reducer)


def _check_limit(limit: int) -> None:
    if not 1 <= limit <= MAX_PAGE:
        raise RequestRefused(
            f"limit must be between 1 and {MAX_PAGE}", code="request_invalid", path="limit", hint="read page by page"
        )


def _which(record: RunRecord, opened: Sequence[OpenInterrupt], key: str | None, *, repeatable: bool) -> int:
    """The step number of the interrupt that an answer is for."""
    if key is not None:
        number = _step_number(key)
        if number is None or any(o.number == number and o.request.key != key for o in opened):
            raise _not_open(key) if opened else _not_interrupted(record)
        # It may be closed already, and the run ended: the store knows when, and whether this is the same answer again.
        return number
    if repeatable:
        raise RequestRefused(
            "an answer with an idempotency key must say which interrupt it answers",
            code="interrupt_key_required",
            path="interrupt_key",
            hint="pass the interrupt_key that the run shows; without it a repeated answer could meet the next question",
        )
    if not opened:
        raise _not_interrupted(record)
    if len(opened) > 1:
        raise RequestRefused(
            f"the run waits for {len(opened)} answers",
            code="interrupt_ambiguous",
            path="interrupt_key",
            hint="say which one by its interrupt_key",
            details={"interrupt_keys": [o.request.key for o in opened[:MAX_PAGE]]},
        )
    return opened[0].number


def _step_number(key: str) -> int | None:
    _, mark, digits = key.rpartition("#")
    return int(digits) if mark and digits.isascii() and digits.isdigit() and len(digits) <= 15 else None


def _named_as_here(error: WorkflowExecutionError) -> WfError:
    """The kernel's error with the name that the field has in a request."""
    path = error.path
    for kernel, here in (("resume_payload", "payload"), ("resume_outcome", "outcome")):
        if path is not None and path.startswith(kernel):
            path = here + path.removeprefix(kernel)
    return WorkflowExecutionError(error.message, code=error.code, path=path, hint=error.hint)


def run_not_found(run_id: str) -> RequestRefused:
    """The refusal where there is no run of an id."""
    return RequestRefused(
        f"there is no run {run_id!r}",
        code="run_not_found",
        path="run_id",
        hint="list the runs: GET /v1/runs, or wf run list",
    )


def _not_interrupted(record: RunRecord) -> RequestRefused:
    return RequestRefused(
        f"the run waits for no answer: it is {record.status}",
        code="run_not_interrupted",
        hint="look at the run: an interrupt may have been answered already",
        details={"status": record.status},
    )


def _not_open(key: str) -> RequestRefused:
    return RequestRefused(
        f"interrupt {key!r} is not open",
        code="interrupt_not_open",
        path="interrupt_key",
        hint="list the open interrupts of the run",
    )


def _in_use(created: Created) -> RequestRefused:
    return RequestRefused(
        f"the run id {created.run_id!r} is in use by a run that is {created.status}",
        code="run_id_in_use",
        path="run_id",
        hint="use another id, or say with open_policy and closed_policy what shall happen",
        details={"run_id": created.run_id, "status": created.status},
    )
