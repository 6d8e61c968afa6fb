"""Workflows as documents, in few words, and the handlers that the cases run on worker processes."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.inline_worker import Handler, InlineWorker, QueueDispatcher
from wf_core.models import Workflow
from wf_core.run_state import RuntimeContext
from wf_worker.store.protocol import RunRecord
from wf_worker.store.runs import RunStore

HANDLERS_FILE = __file__
ANY: dict[str, Any] = {"type": "object"}
END = "__end__"

Step = dict[str, Any]


def flow(
    name: str,
    steps: Sequence[Step],
    edges: Sequence[tuple[str, str, str]],
    *,
    state: Mapping[str, Any] | None = None,
    takes: Mapping[str, Any] | None = None,
    gives: Mapping[str, Any] | None = None,
    defs: Sequence[dict[str, Any]] = (),
    **more: Any,
) -> dict[str, Any]:
    """A workflow that begins with its first step. ``state``, ``takes`` and ``gives`` are properties of its schemas."""
    return {
        "name": name,
        "input_schema": {**ANY, "properties": dict(takes or {})},
        "state_schema": {**ANY, "properties": dict(state or {})},
        "output_schema": {**ANY, "properties": dict(gives or {})},
        "node_defs": list(defs) or [contract(used) for used in dict.fromkeys(s["node"] for s in steps if "node" in s)],
        "start": steps[0]["id"],
        "nodes": list(steps),
        "edges": [{"from": source, "outcome": outcome, "to": target} for source, outcome, target in edges],
        **more,
    }


def contract(name: str, *fields: str, closed: bool = False, **more: Any) -> dict[str, Any]:
    """The contract of a handler with one field ``value``, or with these."""
    properties: dict[str, Any] = {field: {} for field in fields or ("value",)}
    schema: dict[str, Any] = {**ANY, "properties": properties}
    return {
        "name": name,
        "input_schema": schema,
        "output_schema": {**schema, "additionalProperties": False} if closed else schema,
        "outcomes": ["ok"],
        **more,
    }


def step(step_id: str, node: str, reads: str | None = None, writes: str | None = None, **more: Any) -> Step:
    """A handler step that binds ``value`` in and out."""
    return {
        "id": step_id,
        "type": "node",
        "node": node,
        "input": [{"target": "value", "path": reads}] if reads else [],
        "output": [{"source": "value", "target": writes}] if writes else [],
        **more,
    }


def each(step_id: str, over: str, *, active: int = 4, outstanding: int | None = None, **more: Any) -> Step:
    """A concurrent loop."""
    interrupt = more.pop("interrupt", "quiesce")
    return {
        "id": step_id,
        "type": "foreach",
        "over": over,
        "as": f"{step_id}_item",
        "mode": "concurrent",
        "concurrent": {
            "max_active": active,
            "max_outstanding": outstanding or max(20, 2 * active),
            "interrupt": interrupt,
        },
        **more,
    }


def item(step_id: str) -> str:
    """The path of a loop's item."""
    return f"context.foreach.{step_id}.item"


# ---- handlers


def echo(payload: dict[str, Any], _: RuntimeContext) -> Any:
    """Gives back what it was given."""
    return payload


def echo_and_one(payload: dict[str, Any], _: RuntimeContext) -> Any:
    """Its input, changed where it could hurt, and one result."""
    payload["results"].append("not mine to write")
    payload["other"] = "overwritten"
    return {**payload, "result": payload["n"]}


def as_text(payload: dict[str, Any], _: RuntimeContext) -> Any:
    """How the value looks to a handler that compares texts."""
    return {"value": json.dumps(payload["value"], separators=(",", ":"), ensure_ascii=False)}


def not_finite(payload: dict[str, Any], _: RuntimeContext) -> Any:
    """What is no JSON number, two levels down."""
    return {"scores": [0.5, math.nan], "max": math.inf}


def note(payload: dict[str, Any], context: RuntimeContext) -> Any:
    """Appends a line to a file for each attempt; ``holds`` until another file exists; ``fails`` in some attempts."""
    attempt = getattr(context, "attempt", 1)
    with Path(payload["file"]).open("a") as lines:
        lines.write(f"{payload['word']} {attempt} {os.getpid()}\n")
    until = time.monotonic() + 60
    while payload.get("holds") and time.monotonic() < until and not Path(f"{payload['file']}.release").exists():
        time.sleep(0.02)
        if getattr(context, "cancelled", False):
            Path(f"{payload['file']}.told").touch()
    if attempt in payload.get("fails", ()):
        raise ConnectionError("no answer")
    return {"value": payload["word"]}


def notes(file: Path) -> list[tuple[str, int, int]]:
    """The lines of such a file: word, attempt, process."""
    lines = file.read_text().splitlines() if file.exists() else []
    return [(word, int(attempt), int(pid)) for word, attempt, pid in (line.split(" ") for line in lines)]


def noting(step_id: str, word: str, holds: str | bool = False, **more: Any) -> Step:
    """A step that leaves a note; ``holds`` is a value or a path."""
    held = {"target": "holds", **({"path": holds} if isinstance(holds, str) else {"value": holds})}
    bindings = [{"target": "file", "path": "input.file"}, {"target": "word", "value": word}, held]
    return {"id": step_id, "type": "node", "node": "note", "input": [*bindings, *more.pop("also", ())], **more}


NOTE = {
    "name": "note",
    "input_schema": {**ANY, "properties": {"file": {}, "word": {}, "holds": {}, "fails": {}}},
    "output_schema": {**ANY, "properties": {"value": {}}},
    "outcomes": ["ok"],
}


def fails_once(payload: dict[str, Any], context: RuntimeContext) -> Any:
    """The first attempt finds nobody at home."""
    if getattr(context, "attempt", 1) == 1:
        raise ConnectionError("no answer")
    return payload


registry = {
    "echo": echo,
    "echo_and_one": echo_and_one,
    "as_text": as_text,
    "not_finite": not_finite,
    "note": note,
    "fails_once": fails_once,
}


# ---- running one over a store, with a worker in this process


@contextmanager
def inline(
    store: RunStore,
    document: dict[str, Any],
    given: dict[str, Any],
    handlers: Mapping[str, Handler] = registry,
    run_id: str = "run",
) -> Iterator[tuple[InlineWorker, str]]:
    """A started run that has come as far as it gets by itself; its worker, its incarnation."""
    worker = InlineWorker(store, handlers)
    digest = store.program_of(store.publish(Workflow.model_validate(document)).digest)
    created = store.create(store.new_run(run_id, digest, given, max_steps=10_000))
    assert created.created
    worker.publish(created.ready)
    worker.drain()
    yield worker, created.incarnation


class ToWorker(QueueDispatcher):
    """Gives a sweeper's messages to a worker in this process; its queue is empty whenever somebody asks."""

    def __init__(self, worker: InlineWorker) -> None:
        super().__init__()
        self.publish = worker.publish  # type: ignore[method-assign]

    def queue_of(self, queue: str, priority: str) -> str:
        return f"{queue}.{priority}"

    def queue_is_empty(self, name: str) -> bool:
        return True


def found(store: RunStore, incarnation: str) -> RunRecord:
    """The run as it stands."""
    record = store.inspect(incarnation)
    assert record is not None
    return record
