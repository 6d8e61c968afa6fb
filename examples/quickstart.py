"""The smallest useful workflow: one capability, run for every name of a list, on whatever workers there are.

Serve it with ``wf dev`` (or ``wf dev examples/quickstart.py``), then submit from any process; see the README.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel

from wf_core.authoring import END, WorkflowBuilder, input_from, input_path, node, output_to, state_field, state_path


class GreetIn(BaseModel):
    """Whom to greet."""

    name: str


class GreetOut(BaseModel):
    """The greeting."""

    greeting: str


class Names(BaseModel):
    """The run's input."""

    names: list[str]


class Greetings(BaseModel):
    """State and output: each item appends its greeting, in the order of the names."""

    greetings: Annotated[list[str], state_field(reducer="wf.std.append")] = []


@node
def greet(payload: GreetIn) -> GreetOut:
    """Greets one person."""
    return GreetOut(greeting=f"Hello, {payload.name}!")


NODES = (greet,)


def build() -> WorkflowBuilder:
    """The workflow ``greetings``."""
    flow = WorkflowBuilder("greetings", Names, Greetings, Greetings)
    people = flow.foreach(
        id="people", over=input_path("names"), as_="person", mode="concurrent", concurrent={"max_active": 8}
    )
    hello = flow.use(
        greet,
        input=[input_from(people.item, "name")],
        output=[output_to("greeting", state_path("greetings"))],
    )
    flow.set_entry_point(people)
    flow.set_route(people, "loop", hello)
    flow.set_route(hello, "ok", people)
    flow.set_route(people, "done", END)
    return flow
