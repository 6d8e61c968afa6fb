"""Capabilities and workflows that the system tests run on real worker processes."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel

from wf_core.authoring import END, WorkflowBuilder, input_from, input_path, node, output_to, state_field, state_path
from wf_core.run_state import RuntimeContext


class Number(BaseModel):
    n: int


class Numbers(BaseModel):
    numbers: list[int]


class Line(BaseModel):
    line: str


class Squared(BaseModel):
    line: str
    total: int


class Results(BaseModel):
    lines: Annotated[list[str], state_field(reducer="wf.std.append")] = []
    total: Annotated[int, state_field(reducer="wf.std.add")] = 0


@node
def square(payload: Number) -> Squared:
    return Squared(line=f"{payload.n}", total=payload.n * payload.n)


@node
async def square_slowly(payload: Number) -> Squared:
    """Async, on the worker's event loop."""
    import asyncio

    await asyncio.sleep(0)
    return Squared(line=f"{payload.n}", total=payload.n * payload.n)


def squares(name: str = "squares", spec: Any = square) -> WorkflowBuilder:
    flow = WorkflowBuilder(name, Numbers, Results, Results)
    each = flow.foreach(
        id="each",
        over=input_path("numbers"),
        as_="number",
        mode="concurrent",
        concurrent={"max_active": 20, "max_outstanding": 40},
    )
    step = flow.use(
        spec,
        input=[input_from(each.item, "n")],
        output=[output_to("line", state_path("lines")), output_to("total", state_path("total"))],
    )
    flow.set_entry_point(each)
    flow.set_route(each, "loop", step)
    flow.set_route(step, "ok", each)
    flow.set_route(each, "done", END)
    return flow


class Late(BaseModel):
    numbers: list[int]
    due: str


def resting(seconds: float) -> WorkflowBuilder:
    """Every number rests and is squared; then the run waits until the time that its input names."""
    flow = WorkflowBuilder("resting", Late, Results, Results)
    each = flow.foreach(
        id="each", over=input_path("numbers"), as_="number", mode="concurrent", concurrent={"max_active": 4}
    )
    rest = flow.wait(id="rest", for_seconds=seconds)
    step = flow.use(
        square,
        input=[input_from(each.item, "n")],
        output=[output_to("line", state_path("lines")), output_to("total", state_path("total"))],
    )
    late = flow.wait(id="late", until=input_path("due"))
    flow.set_entry_point(each)
    flow.set_route(each, "loop", rest)
    flow.set_route(rest, "elapsed", step)
    flow.set_route(step, "ok", each)
    flow.set_route(each, "done", late)
    flow.set_route(late, "elapsed", END)
    return flow


class Folder(BaseModel):
    folder: str
    numbers: list[int]


class HoldIn(BaseModel):
    folder: str
    n: int


@node
def hold(payload: HoldIn, ctx: RuntimeContext) -> Squared:
    """Leaves a note of every attempt; item 3 then waits until the file ``release`` exists."""
    folder = Path(payload.folder)
    with (folder / f"attempts-{payload.n}").open("a") as notes:
        notes.write(f"{os.getpid()} {getattr(ctx, 'attempt', 1)} {getattr(ctx, 'idempotency_key', '')}\n")
    deadline = time.monotonic() + 60
    while payload.n == 3 and not (folder / "release").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    return Squared(line=f"{payload.n}", total=1)


def holding() -> WorkflowBuilder:
    flow = WorkflowBuilder("holding", Folder, Results, Results)
    each = flow.foreach(
        id="each", over=input_path("numbers"), as_="number", mode="concurrent", concurrent={"max_active": 4}
    )
    step = flow.use(
        hold,
        input=[input_from(input_path("folder"), "folder"), input_from(each.item, "n")],
        output=[output_to("line", state_path("lines")), output_to("total", state_path("total"))],
    )
    flow.set_entry_point(each)
    flow.set_route(each, "loop", step)
    flow.set_route(step, "ok", each)
    flow.set_route(each, "done", END)
    return flow


class Customer(BaseModel):
    name: str
    orders: list[str]


class Customers(BaseModel):
    customers: list[Customer]


class IdentifyIn(BaseModel):
    when: str


class Answer(BaseModel):
    approved: bool


class Identities(BaseModel):
    lines: Annotated[list[str], state_field(reducer="wf.std.append")] = []
    answers: Annotated[list[str], state_field(reducer="wf.std.append")] = []


@node
def identify(payload: IdentifyIn, ctx: RuntimeContext) -> Line:
    """Where this handler believes to be: every active loop with its activation, frame, lineage, index and item."""
    entries = [
        f"{node_id}={entry.activation_id}/{entry.frame_id}/{entry.lineage_id}/{entry.index}"
        for node_id, entry in ctx.foreach.items()
    ]
    order: Any = ctx.foreach["orders"].item
    return Line(line=f"{payload.when} {order} {' '.join(entries)}")


def nested_interrupts() -> WorkflowBuilder:
    flow = WorkflowBuilder("nested_interrupts", Customers, Identities, Identities)
    customers = flow.foreach(
        id="customers", over=input_path("customers"), as_="customer", mode="concurrent", concurrent={"max_active": 2}
    )
    orders = flow.foreach(
        id="orders", over=f"{customers.item}.orders", as_="order", mode="concurrent", concurrent={"max_active": 2}
    )
    before = flow.use(
        identify,
        id="before",
        input=[{"target": "when", "value": "before"}],
        output=[output_to("line", state_path("lines"))],
    )
    ask = flow.interrupt(
        id="ask",
        kind="review",
        request=[input_from(orders.item, "order"), input_from(f"{customers.item}.name", "customer")],
        resume=[output_to("note", state_path("answers"))],
        request_schema={"type": "object", "properties": {"order": {"type": "string"}, "customer": {"type": "string"}}},
        resume_schema={"type": "object", "properties": {"note": {"type": "string"}}, "required": ["note"]},
    )
    after = flow.use(
        identify,
        id="after",
        input=[{"target": "when", "value": "after"}],
        output=[output_to("line", state_path("lines"))],
    )
    flow.set_entry_point(customers)
    flow.set_route(customers, "loop", orders)
    flow.set_route(orders, "loop", before)
    flow.set_route(before, "ok", ask)
    flow.set_route(ask, "submitted", after)
    flow.set_route(after, "ok", orders)
    flow.set_route(orders, "done", customers)
    flow.set_route(customers, "done", END)
    return flow


NODES = (square, square_slowly, hold, identify)


class Tagged(BaseModel):
    n: int
    tag: str


class Signed(BaseModel):
    line: str
    tag: str
    note: str = ""


class NumberState(BaseModel):
    line: str | None = None
    note: str = ""


@node
def tag_number(payload: Tagged) -> Line:
    return Line(line=f"{payload.tag} {payload.n}")


@node
def sign(payload: Signed) -> Line:
    return Line(line=f"{payload.line}, {payload.tag}{payload.note}")


def one_number(tag: str = "first", *, ask: bool = False) -> WorkflowBuilder:
    """A child for one number: its line is tagged, where it asks with a note from outside, and tagged once more."""
    flow = WorkflowBuilder("one_number", Number, NumberState, Line)
    begin = flow.use(tag_number, input=[input_from(input_path("n"), "n"), {"target": "tag", "value": tag}])
    end = flow.use(
        sign,
        input=[
            input_from(state_path("line"), "line"),
            input_from(state_path("note"), "note"),
            {"target": "tag", "value": tag},
        ],
    )
    flow.set_entry_point(begin)
    flow.set_route(begin, "ok", end)
    flow.set_route(end, "ok", END)
    if ask:
        question = flow.interrupt(
            id="question",
            kind="note",
            request=[input_from(state_path("line"), "line")],
            resume=[output_to("note", state_path("note"))],
            resume_schema={"type": "object", "properties": {"note": {"type": "string"}}, "required": ["note"]},
        )
        flow.set_route(begin, "ok", question)
        flow.set_route(question, "submitted", end)
    return flow


def child_per_number(child: WorkflowBuilder, max_active: int = 20) -> WorkflowBuilder:
    """Squares every number in the item itself, then hands the number to a child."""
    flow = WorkflowBuilder("child_per_number", Numbers, Results, Results)
    each = flow.foreach(
        id="each",
        over=input_path("numbers"),
        as_="number",
        mode="concurrent",
        concurrent={"max_active": max_active},
    )
    step = flow.use(square, input=[input_from(each.item, "n")], output=[output_to("total", state_path("total"))])
    call = flow.subgraph(
        flow.prepare_subgraph(child),
        id="call",
        input=[input_from(each.item, "n")],
        output=[output_to("line", state_path("lines"))],
    )
    flow.set_entry_point(each)
    flow.set_route(each, "loop", step)
    flow.set_route(step, "ok", call)
    flow.set_route(call, "ok", each)
    flow.set_route(each, "done", END)
    return flow


NODES = (*NODES, tag_number, sign)
