"""The capabilities and workflows that the load proofs run on real worker processes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel

from wf_core.authoring import (
    END,
    RetryPolicy,
    WorkflowBuilder,
    input_from,
    input_path,
    node,
    output_to,
    state_field,
    state_path,
)
from wf_core.run_state import RuntimeContext


class Number(BaseModel):
    n: int


class Numbers(BaseModel):
    numbers: list[int]


class Sum(BaseModel):
    total: Annotated[int, state_field(reducer="wf.std.add")] = 0


class Total(BaseModel):
    total: int


class Held(BaseModel):
    n: int
    release: str
    seconds: float


@node
def fails_once(payload: Number, ctx: RuntimeContext) -> Total:
    """The first attempt finds nobody at home."""
    if getattr(ctx, "attempt", 1) == 1:
        raise ConnectionError("no answer")
    return Total(total=payload.n)


@node
def takes_long(payload: Held) -> Total:
    """Takes so many seconds, or less once the file ``release`` exists."""
    until = time.monotonic() + payload.seconds
    while time.monotonic() < until and not Path(payload.release).exists():
        time.sleep(0.05)
    return Total(total=payload.n)


@node
def first_step(payload: Number) -> Number:
    return payload


@node
def second_step(payload: Number) -> Number:
    return payload


@node
def third_step(payload: Number) -> Number:
    return payload


def three_steps() -> WorkflowBuilder:
    """Three steps for each number, and the sum of all."""
    flow = WorkflowBuilder("three_steps", Numbers, Sum, Sum)
    each = flow.foreach(
        id="each",
        over=input_path("numbers"),
        as_="number",
        mode="concurrent",
        concurrent={"max_active": 50, "max_outstanding": 100},
    )
    first = flow.use(first_step, input=[input_from(each.item, "n")])
    second = flow.use(second_step, input=[input_from(each.item, "n")])
    third = flow.use(third_step, input=[input_from(each.item, "n")], output=[output_to("n", state_path("total"))])
    flow.set_entry_point(each)
    flow.set_route(each, "loop", first)
    flow.set_route(first, "ok", second)
    flow.set_route(second, "ok", third)
    flow.set_route(third, "ok", each)
    flow.set_route(each, "done", END)
    return flow


def backing_off(items: int, seconds: float) -> WorkflowBuilder:
    """Every number fails once and is tried again after so long; all of them are under way at once."""
    flow = WorkflowBuilder("backing_off", Numbers, Sum, Sum)
    each = flow.foreach(
        id="each",
        over=input_path("numbers"),
        as_="number",
        mode="concurrent",
        concurrent={"max_active": items, "max_outstanding": items},
    )
    step = flow.use(
        fails_once,
        retry=RetryPolicy(max_attempts=2, initial_seconds=seconds, max_seconds=seconds, jitter="none"),
        input=[input_from(each.item, "n")],
        output=[output_to("total", state_path("total"))],
    )
    flow.set_entry_point(each)
    flow.set_route(each, "loop", step)
    flow.set_route(step, "ok", each)
    flow.set_route(each, "done", END)
    return flow


def one_slow_step() -> WorkflowBuilder:
    """One step that takes long."""
    flow = WorkflowBuilder("one_slow_step", Held, Total, Total)
    step = flow.use(
        takes_long,
        input=[input_from(input_path(name), name) for name in ("n", "release", "seconds")],
        output=[output_to("total", state_path("total"))],
    )
    flow.set_entry_point(step)
    flow.set_route(step, "ok", END)
    return flow


NODES = (fails_once, takes_long, first_step, second_step, third_step)
