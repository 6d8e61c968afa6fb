"""What runs on the hosts: each number is squared, by a handler that says where it is."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel

from wf_core.authoring import END, WorkflowBuilder, input_from, input_path, node, output_to, state_field, state_path
from wf_core.run_state import RuntimeContext

WAIT_SECONDS = 120.0


class Given(BaseModel):
    folder: str
    numbers: list[int]


class One(BaseModel):
    folder: str
    n: int


class Squared(BaseModel):
    line: str
    total: int
    host: str


class Results(BaseModel):
    lines: Annotated[list[str], state_field(reducer="wf.std.append")] = []
    total: Annotated[int, state_field(reducer="wf.std.add")] = 0
    hosts: Annotated[list[str], state_field(reducer="wf.std.append")] = []


def where() -> str:
    """This host: its name and its address."""
    return f"{socket.gethostname()} {os.environ.get('WF_TEST_ADDRESS', 'local')}"


def gate(folder: Path, n: int, attempt: int) -> Path:
    """A handler waits at its gate, where there is one, until the file is removed."""
    return folder / f"gate-{n}-{attempt}"


def note(folder: Path, n: int, attempt: int) -> Path:
    """Where an attempt says that it has begun, and where it runs."""
    return folder / f"began-{n}-{attempt}"


@node
def square(payload: One, ctx: RuntimeContext) -> Squared:
    folder, attempt = Path(payload.folder), getattr(ctx, "attempt", 1)
    being_written = folder / f"writing-{payload.n}-{attempt}"
    being_written.write_text(where())
    being_written.rename(note(folder, payload.n, attempt))
    deadline = time.monotonic() + WAIT_SECONDS
    while gate(folder, payload.n, attempt).exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"nobody opened the gate of {payload.n}")
        time.sleep(0.02)
    return Squared(line=f"{payload.n}", total=payload.n * payload.n, host=where())


def squares() -> WorkflowBuilder:
    flow = WorkflowBuilder("squares_on_hosts", Given, Results, Results)
    each = flow.foreach(
        id="each",
        over=input_path("numbers"),
        as_="number",
        mode="concurrent",
        concurrent={"max_active": 6, "max_outstanding": 12},
    )
    outputs: list[Any] = [("line", "lines"), ("total", "total"), ("host", "hosts")]
    step = flow.use(
        square,
        input=[input_from(input_path("folder"), "folder"), input_from(each.item, "n")],
        output=[output_to(source, state_path(target)) for source, target in outputs],
    )
    flow.set_entry_point(each)
    flow.set_route(each, "loop", step)
    flow.set_route(step, "ok", each)
    flow.set_route(each, "done", END)
    return flow


NODES = (square,)
