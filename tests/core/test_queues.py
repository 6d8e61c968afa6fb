"""A capability may name the queue that its steps wait in."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, ValidationError

from wf_core.authoring import END, WorkflowBuilder, node
from wf_core.models.schemas import NodeDef
from wf_core.plan import compile_plan

CONTRACT = {
    "name": "work",
    "input_schema": {"type": "object"},
    "output_schema": {"type": "object"},
    "outcomes": ["ok"],
}


class Nothing(BaseModel):
    pass


@node(queue="gpu")
def render(payload: Nothing) -> Nothing:
    return payload


@node
def write(payload: Nothing) -> Nothing:
    return payload


def test_the_queue_of_a_capability_is_part_of_its_contract_and_of_the_plan() -> None:
    flow = WorkflowBuilder("flow", Nothing, Nothing, Nothing)
    first, second = flow.use(render, id="first"), flow.use(write, id="second")
    flow.set_entry_point(first)
    flow.set_route(first, "ok", second)
    flow.set_route(second, "ok", END)
    workflow = flow.compile()

    assert {d.name: d.queue for d in workflow.node_defs} == {"render": "gpu", "write": None}
    assert compile_plan(workflow).queues == {"first": "gpu"}


def test_a_contract_without_a_queue_is_written_without_one() -> None:
    assert "queue" not in NodeDef.model_validate(CONTRACT).model_dump(mode="json")
    assert NodeDef.model_validate({**CONTRACT, "queue": "gpu"}).model_dump(mode="json")["queue"] == "gpu"


@pytest.mark.parametrize("name", ["", " gpu", "g p u", "-gpu", "gpu|", "{gpu}", "g" * 101, "gpu.high", "gpu.low"])
def test_a_name_that_no_queue_can_have_is_refused(name: str) -> None:
    with pytest.raises(ValidationError, match="queue name"):
        NodeDef.model_validate({**CONTRACT, "queue": name})
    with pytest.raises(ValueError, match="queue name"):
        node(write, queue=name)
