"""Every call as data: what to send, and what the answer means. The clients only send."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, cast
from urllib.parse import quote

import httpx

from wf_api.client.errors import WorkflowApiError
from wf_api.wire import ENDED, MAX_WAIT_SECONDS, SETTLED, Priority, RunView
from wf_core.authoring import WorkflowBuilder
from wf_core.models.json_values import validate_strict_json_value
from wf_core.models.workflow import Workflow
from wf_core.run_state import TraceLevel

DEFAULT_URL: Final = "http://127.0.0.1:8000"
DEFAULT_TIMEOUT_SECONDS: Final = 30.0

WorkflowLike = Workflow | WorkflowBuilder | Mapping[str, Any]
Until = str | Collection[str] | Callable[[RunView], bool]
"""``"settled"`` (ended, or waiting for an answer), ``"ended"``, statuses, or a question about the run."""


Params = dict[str, "str | list[str]"]


@dataclass(frozen=True, slots=True)
class Call:
    """One request. ``extra_seconds`` is the time that the server was asked to wait before it answers."""

    method: str
    path: str
    params: Params = field(default_factory=dict[str, "str | list[str]"])
    body: dict[str, Any] | None = None
    extra_seconds: float = 0.0
    accept: str | None = None

    def content(self) -> bytes | None:
        """The body as JSON; ``ValueError`` for what is not JSON. Nothing is converted silently."""
        if self.body is None:
            return None
        return json.dumps(validate_strict_json_value(self.body), ensure_ascii=False, allow_nan=False).encode()

    def request(
        self, client: httpx.Client | httpx.AsyncClient, url: str, timeout: float | httpx.Timeout
    ) -> httpx.Request:
        """The request for a client."""
        content = self.content()
        headers = {} if content is None else {"Content-Type": "application/json"}
        if self.accept is not None:
            headers["Accept"] = self.accept
        return client.build_request(
            self.method,
            url + self.path,
            params=self.params or None,
            content=content,
            headers=headers,
            timeout=timeout if isinstance(timeout, httpx.Timeout) else timeout + self.extra_seconds,
        )


def publish(workflow: WorkflowLike, version: str | None) -> Call:
    """Publishes a workflow."""
    return Call("POST", "/v1/workflows", body=_present(workflow=document_of(workflow), version=version))


def document_of(workflow: WorkflowLike) -> dict[str, Any]:
    """The document of a workflow in any of its forms."""
    if isinstance(workflow, WorkflowBuilder):
        workflow = workflow.compile()
    if isinstance(workflow, Workflow):
        return workflow.model_dump(mode="json", by_alias=True)
    return _mapping("workflow", workflow)


def list_workflows(cursor: str | None, limit: int | None) -> Call:
    """A page of workflows."""
    return Call("GET", "/v1/workflows", params=_texts(cursor=cursor, limit=limit))


def workflow_versions(name: str) -> Call:
    """The versions of a workflow."""
    return Call("GET", f"/v1/workflows/{_segment(name)}")


def workflow(name: str, version: str) -> Call:
    """One version of a workflow."""
    return Call("GET", f"/v1/workflows/{_segment(name)}/{_segment(version)}")


def start(
    workflow: str | None,
    workflow_input: Mapping[str, Any] | None,
    *,
    version: str | None,
    digest: str | None,
    run_id: str | None,
    idempotency_key: str | None,
    open_policy: str | None,
    closed_policy: str | None,
    max_steps: int | None,
    trace: TraceLevel,
    deadline_seconds: int | None,
    durability: str | None,
    priority: Priority,
    tags: Mapping[str, str] | None,
    wait_seconds: float,
) -> Call:
    """Starts a run."""
    body = _present(
        workflow=workflow,
        version=version,
        digest=digest,
        input=_mapping("input", workflow_input),
        run_id=run_id,
        idempotency_key=idempotency_key,
        open_policy=open_policy,
        closed_policy=closed_policy,
        limits=None if max_steps is None else {"max_steps": max_steps},
        trace=None if trace == "full" else trace,
        deadline_seconds=deadline_seconds,
        durability=durability,
        priority=None if priority == "normal" else priority,
        tags=_mapping("tags", tags) or None,
        wait_seconds=wait_seconds or None,
    )
    return Call("POST", "/v1/runs", body=body, extra_seconds=min(wait_seconds, MAX_WAIT_SECONDS))


def inspect(run_id: str, with_input: bool) -> Call:
    """A run."""
    return Call("GET", _run(run_id), params={"include": "input"} if with_input else {})


def list_runs(
    *,
    status: str | None,
    workflow: str | None,
    tags: Mapping[str, str] | None,
    created_from: datetime | str | None,
    created_to: datetime | str | None,
    cursor: str | None,
    limit: int | None,
) -> Call:
    """A page of runs."""
    times = {"created_from": _time("created_from", created_from), "created_to": _time("created_to", created_to)}
    params = _texts(status=status, workflow=workflow, cursor=cursor, limit=limit, **times)
    return Call("GET", "/v1/runs", params={**params, **_tags(tags)})


def inbox(
    *,
    kind: str | None,
    workflow: str | None,
    tags: Mapping[str, str] | None,
    cursor: str | None,
    limit: int | None,
) -> Call:
    """A page of what all runs ask for."""
    params = _texts(kind=kind, workflow=workflow, cursor=cursor, limit=limit)
    return Call("GET", "/v1/interrupts", params={**params, **_tags(tags)})


def trace(run_id: str, start: int, limit: int) -> Call:
    """A range of a trace."""
    return Call("GET", _run(run_id, "trace"), params=_texts(start=start, limit=limit))


def events(run_id: str, after: str | None) -> Call:
    """A stream of events."""
    return Call("GET", _run(run_id, "events"), params=_texts(after=after), accept="text/event-stream")


def event_page(run_id: str, after: str | None, limit: int | None) -> Call:
    """A page of events."""
    return Call("GET", _run(run_id, "events"), params=_texts(after=after, limit=limit), accept="application/json")


def interrupts(run_id: str) -> Call:
    """The open interrupts of a run."""
    return Call("GET", _run(run_id, "interrupts"))


def audit(run_id: str) -> Call:
    """Whether a run's records agree."""
    return Call("GET", _run(run_id, "audit"))


def progress(run_id: str) -> Call:
    """How far a run is."""
    return Call("GET", _run(run_id, "progress"))


def resume(
    run_id: str,
    payload: Mapping[str, Any] | None,
    *,
    outcome: str,
    interrupt_key: str | None,
    revision: str | None,
    idempotency_key: str | None,
    wait_seconds: float,
) -> Call:
    """Answers an interrupt."""
    body = _present(
        payload=_mapping("payload", payload),
        outcome=outcome,
        interrupt_key=interrupt_key,
        revision=revision,
        idempotency_key=idempotency_key,
        wait_seconds=wait_seconds or None,
    )
    return Call("POST", _run(run_id, "resume"), body=body, extra_seconds=min(wait_seconds, MAX_WAIT_SECONDS))


def cancel(run_id: str, reason: str | None) -> Call:
    """Cancels a run."""
    return Call("POST", _run(run_id, "cancel"), body=_present(reason=reason))


def pause(run_id: str, on: bool) -> Call:
    """Pauses a run, or lets it go on."""
    return Call("POST", _run(run_id, "pause" if on else "unpause"))


def retry(run_id: str, max_steps: int | None) -> Call:
    """Lets a failed run go on."""
    return Call(
        "POST", _run(run_id, "retry"), body=_present(limits=None if max_steps is None else {"max_steps": max_steps})
    )


def fork(
    run_id: str,
    step: str | None,
    *,
    new_run_id: str | None,
    patch: Mapping[str, Any] | None,
    max_steps: int | None,
    idempotency_key: str | None,
    wait_seconds: float,
) -> Call:
    """Makes a run from another one: from its present state, or from a step of it."""
    body = _present(
        run_id=new_run_id,
        patch=_mapping("patch", patch) or None,
        limits=None if max_steps is None else {"max_steps": max_steps},
        idempotency_key=idempotency_key,
        wait_seconds=wait_seconds or None,
    )
    if step is not None:
        body["from"] = step
    path = _run(run_id, "fork" if step is None else "rerun")
    return Call("POST", path, body=body, extra_seconds=min(wait_seconds, MAX_WAIT_SECONDS))


def export(run_id: str) -> Call:
    """A whole run."""
    return Call("GET", _run(run_id, "export"))


class ExportedLines:
    """Cuts an export into its lines as it comes, and says at its end whether it is whole."""

    def __init__(self) -> None:
        self._rest = b""
        self._whole = False

    def lines(self, piece: bytes) -> list[str]:
        """The lines that are complete with this piece. An error that the server sent in place of more is raised."""
        # Not by the text methods, which take other characters for the ends of lines too.
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            if line.startswith(b'{"kind":"error"'):
                told = json.loads(line)["error"]
                raise WorkflowApiError(told["message"], code=told["code"], path=told["path"], hint=told["hint"])
            self._whole = line.startswith(b'{"kind":"end"')
        return [line.decode() for line in lines]

    def ended(self) -> None:
        """Nothing more comes: ``export_incomplete`` where something is missing."""
        if self._rest or not self._whole:
            raise WorkflowApiError("the export broke off", code="export_incomplete", hint="export the run again")


def result_of(response: httpx.Response) -> Any:
    """The answer; the error that the server sent is raised."""
    try:
        value: Any = json.loads(response.content)
    except ValueError:
        value = None
    if response.is_success and isinstance(value, dict):
        return value
    if isinstance(value, dict) and isinstance(value.get("error"), dict) and isinstance(value["error"].get("code"), str):
        raise error_of(cast("dict[str, Any]", value), response.status_code)
    raise WorkflowApiError(
        f"{response.request.method} {response.request.url} answered {response.status_code} and no JSON of this API",
        code="response_invalid",
        hint="check the URL: something else may answer there",
        http_status=response.status_code,
    )


def error_of(envelope: dict[str, Any], http_status: int | None) -> WorkflowApiError:
    """The error in an envelope of the API."""
    error = envelope["error"]
    return WorkflowApiError(
        str(error.get("message", "")),
        code=error["code"],
        path=error.get("path"),
        hint=error.get("hint"),
        details=error.get("details"),
        http_status=http_status,
    )


def unreachable(url: str, error: Exception) -> WorkflowApiError:
    """There was no answer."""
    reason = str(error) or type(error).__name__
    return WorkflowApiError(
        f"no answer from {url}: {reason}",
        code="server_unreachable",
        hint="is the server running? start one with: wf server",
    )


def passing(error: WorkflowApiError) -> bool:
    """Whether whoever waits may ask again: nobody answered, or somebody said that it is so for now only."""
    return error.code == "server_unreachable" or error.http_status in (502, 503, 504)


def reached(run: RunView, until: Until) -> bool:
    """Whether a run is as far as a wait wants it."""
    if callable(until):
        return until(run)
    if until == "settled":
        return run["status"] in SETTLED
    if until == "ended":
        return run["status"] in ENDED
    return run["status"] in ({until} if isinstance(until, str) else until)


def _run(run_id: str, below: str | None = None) -> str:
    return f"/v1/runs/{_segment(run_id)}" + (f"/{below}" if below else "")


def _segment(text: str) -> str:
    if text in ("", ".", ".."):
        raise ValueError(f"{text!r} is no name")
    return quote(text, safe="")


def _mapping(name: str, value: object) -> dict[str, Any]:
    """A mapping as a dict of its own; only None stands for none. ``TypeError`` for anything else."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} must be a mapping, not {type(value).__name__}")
    return dict(cast("Mapping[str, Any]", value))


def _present(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _tags(tags: Mapping[str, str] | None) -> Params:
    pairs = [f"{name}={value}" for name, value in _mapping("tags", tags).items()]
    return {"tag": pairs} if pairs else {}


def _time(name: str, moment: datetime | str | None) -> str | None:
    """RFC 3339; ``ValueError`` for a time that names no point in time."""
    if not isinstance(moment, datetime):
        return moment
    if moment.utcoffset() is None:
        raise ValueError(f"{name} has no time zone, so it names no point in time")
    return moment.isoformat()


def _texts(**fields: Any) -> Params:
    return {name: str(value) for name, value in fields.items() if value is not None}
