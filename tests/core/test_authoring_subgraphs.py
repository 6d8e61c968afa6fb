"""Subgraph steps in the DSL, and builders with prepared children in memory."""

from __future__ import annotations

from types import ModuleType
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from wf_api.cli.modules import workflows_of
from wf_core.authoring import (
    END,
    NodeReturn,
    NodeSpec,
    WorkflowBuilder,
    input_from,
    input_path,
    input_value,
    node,
    outcome,
    output_to,
    reducer,
    state_field,
    state_path,
)
from wf_core.errors import WorkflowExecutionError
from wf_core.models import Workflow
from wf_core.run_state import RunStatus, RuntimeContext


class OrderIn(BaseModel):
    order: str
    customer: str


class Line(BaseModel):
    line: str


class Lines(BaseModel):
    lines: Annotated[list[str], state_field(reducer="wf.std.append")] = []


class LinesOut(BaseModel):
    lines: list[str]


class Orders(BaseModel):
    orders: list[str]


@node(outcomes=["ok", "bad"])
def take(payload: OrderIn) -> NodeReturn[Line]:
    return outcome("bad" if payload.order == "bad" else "ok", Line(line=f"{payload.order} of {payload.customer}"))


@node
async def take_later(payload: OrderIn) -> Line:
    return Line(line=f"{payload.order} later")


def child(name: str = "child", spec: NodeSpec[Any, Any] = take, **changes: Any) -> WorkflowBuilder:
    """One step; `rejected` when it says bad."""
    flow = WorkflowBuilder(name, OrderIn, Line, Line, outcomes=["ok", "rejected"], **changes)
    step = flow.use(spec, id="take")
    flow.set_entry_point(step)
    flow.set_route(step, "ok", END)
    if "bad" in spec.outcomes:
        flow.set_route(step, "bad", flow.end("rejected"))
    return flow


def caller(workflow: Workflow, name: str = "caller", **step: Any) -> WorkflowBuilder:
    """The child for every order, concurrently."""
    flow = WorkflowBuilder(name, Orders, Lines, LinesOut)
    each = flow.foreach(
        id="each", over=input_path("orders"), as_="order", mode="concurrent", concurrent={"max_active": 2}
    )
    call = flow.subgraph(
        workflow,
        **{
            "id": "call",
            "input": [{"target": "order", "path": each.item}, {"target": "customer", "value": "Ada"}],
            "output": [output_to("line", state_path("lines"))],
            **step,
        },
    )
    flow.set_entry_point(each)
    flow.branch(each, {"loop": call, "done": END})
    flow.branch(call, dict.fromkeys(call.outcomes, each))
    return flow


def prepared(child_flow: WorkflowBuilder, **step: Any) -> WorkflowBuilder:
    flow = caller(child_flow.compile(), **step)
    flow.prepare_subgraph(child_flow)
    return flow


# --- The step ---


def test_a_subgraph_step_copies_the_contract_of_its_child() -> None:
    workflow = child().compile()

    step = caller(workflow).compile().nodes[1].model_dump(mode="json")

    assert step == {
        "id": "call",
        "type": "subgraph",
        "workflow": {"name": "child"},
        "desc": None,
        "input_schema": workflow.input_schema.as_json_schema(),
        "output_schema": workflow.output_schema.as_json_schema(),
        "input": [
            {"target": "order", "path": "context.foreach.each.item"},
            {"target": "customer", "value": "Ada"},
        ],
        "output": [{"source": "line", "target": "state.lines"}],
        "outcomes": ["ok", "rejected"],
    }


def test_the_step_is_detached_from_the_workflow_it_was_made_from() -> None:
    workflow = child().compile()
    flow = WorkflowBuilder("caller", OrderIn, Lines, LinesOut)
    step = flow.subgraph(workflow=workflow)

    workflow.outcomes.append("later")
    workflow.input_schema.properties.clear()

    assert step.outcomes == ["ok", "rejected"]
    assert list(step.input_schema.properties) == ["order", "customer"]


def test_nothing_is_bound_by_name() -> None:
    flow = WorkflowBuilder("caller", OrderIn, Line, Line)

    step = flow.subgraph(child().compile())

    assert (step.input, step.output) == ([], [])


@pytest.mark.parametrize(
    ("ref", "dumped", "step_id"),
    [
        (None, {"name": "Billing child"}, "billing_child"),
        ("other", {"name": "other"}, "other"),
        ({"name": "other"}, {"name": "other"}, "other"),
        ({"artifact_id": "orders", "version": 3}, {"artifact_id": "orders", "version": 3}, "orders"),
        ("workflow.orders.v3", {"artifact_id": "orders", "version": 3}, "orders"),
    ],
)
def test_a_step_refers_to_its_child_by_name_or_by_version(ref: Any, dumped: dict[str, Any], step_id: str) -> None:
    flow = WorkflowBuilder("caller", OrderIn, Line, Line)
    workflow = child("Billing child").compile()

    first, second = (flow.subgraph(workflow, workflow_ref=ref, desc="The child.") for _ in range(2))

    assert (first.workflow.model_dump(), first.desc) == (dumped, "The child.")
    assert (first.id, second.id) == (step_id, f"{step_id}_2")


@pytest.mark.parametrize("given", ["child", None, take])
def test_only_a_workflow_can_be_a_child(given: Any) -> None:
    flow = WorkflowBuilder("caller", OrderIn, Line, Line, start="child")

    with pytest.raises(TypeError, match="prepare_subgraph"):
        flow.subgraph(given)
    with pytest.raises(ValueError, match="mutually exclusive"):
        flow.subgraph(child().compile(), workflow_ref={"name": "child", "artifact_id": "child", "version": 1})
    assert flow.compile().nodes == []


def test_a_subgraph_step_is_removed_like_any_other_and_its_child_stays_prepared() -> None:
    flow = prepared(child())
    extra = flow.subgraph(child().compile(), id="extra")
    flow.set_route("call", "rejected", extra)

    with pytest.raises(ValueError, match=r"call\.rejected -> extra"):
        flow.remove_step(extra)
    flow.set_route("call", "rejected", "each")
    flow.remove_step("extra")

    assert [step.id for step in flow.compile().nodes] == ["each", "call"]
    assert flow.execute({"orders": ["a"]}).status is RunStatus.COMPLETED


def test_a_missing_route_for_an_outcome_of_the_child_is_reported() -> None:
    flow = caller(child().compile())
    flow.remove_route("call", "rejected")

    report = flow.validate_local()

    assert [(issue.code.value, "rejected" in issue.message) for issue in report.errors] == [
        ("missing_outcome_edge", True)
    ]


def test_a_workflow_with_subgraphs_goes_through_a_builder_unchanged_and_goes_on() -> None:
    document = caller(child().compile(), workflow_ref="workflow.child.v2", desc="One order.").compile()

    again = WorkflowBuilder.from_workflow(document)

    assert again.compile() == document
    assert again.compile().model_dump_json() == document.model_dump_json()
    again.prepare_subgraph(child())
    assert again.execute({"orders": ["a"]}).output == {"lines": ["a of Ada"]}


# --- Prepared children ---


def test_an_item_reaches_the_child_by_its_input_and_its_outcome_decides_the_way() -> None:
    flow = prepared(child())
    flow.set_contract(state_schema=Both)
    refuse = flow.use(refused, output=[output_to("line", state_path("refusals"))], input=[])
    flow.set_route("call", "rejected", refuse)
    flow.set_route(refuse, "ok", "each")
    flow.set_contract(output_schema=Both)

    run = flow.execute({"orders": ["a", "bad", "c"]})

    assert run.output == {"lines": ["a of Ada", "bad of Ada", "c of Ada"], "refusals": ["each 1"]}
    assert [entry.outcome for entry in run.trace if entry.step_type == "subgraph"] == ["ok", "rejected", "ok"]


class Both(BaseModel):
    lines: Annotated[list[str], state_field(reducer="wf.std.append")] = []
    refusals: Annotated[list[str], state_field(reducer="wf.std.append")] = []


class Empty(BaseModel):
    pass


@node
def refused(payload: Empty, ctx: RuntimeContext) -> Line:
    [(loop, entry)] = ctx.foreach.items()
    return Line(line=f"{loop} {entry.index}")


def test_a_child_reads_nothing_of_its_callers_loops() -> None:
    reading = WorkflowBuilder("child", OrderIn, Line, Line)
    step = reading.use(take, input=[input_from("context.foreach.each.item", "order"), input_value("customer", "")])
    reading.set_entry_point(step)
    reading.branch(step, {"ok": END, "bad": END})

    assert [issue.code.value for issue in reading.validate_local().errors] == ["invalid_context_path"]


async def test_children_with_asynchronous_capabilities_run_on_an_event_loop_only() -> None:
    flow = prepared(child(spec=take_later))

    assert (await flow.execute_async({"orders": ["a", "b"]})).output == {"lines": ["a later", "b later"]}
    with pytest.raises(TypeError, match="'take_later' is asynchronous"):
        flow.execute({"orders": ["a"]})


def asking() -> WorkflowBuilder:
    flow = WorkflowBuilder("child", OrderIn, Line, Line)
    step = flow.use(take, id="take")
    ask = flow.interrupt(
        id="ask",
        kind="review",
        request=[input_from(state_path("line"), "line")],
        resume=[output_to("line", state_path("line"))],
    )
    flow.set_entry_point(step)
    flow.branch(step, {"ok": ask, "bad": END})
    flow.set_route(ask, "submitted", END)
    return flow


def test_an_interrupt_in_a_child_is_answered_through_the_callers_builder() -> None:
    flow = prepared(asking())

    run = flow.execute({"orders": ["a", "b"]})
    while run.interrupt is not None:
        run = flow.resume(run, payload={"line": f"{run.interrupt.payload['line']}, yes"})

    assert run.output == {"lines": ["a of Ada, yes", "b of Ada, yes"]}


async def test_an_interrupt_in_a_child_is_answered_on_an_event_loop() -> None:
    flow = prepared(asking())

    run = await flow.execute_async({"orders": ["a"]})
    run = await flow.resume_async(run, payload={"line": "yes"})

    assert run.output == {"lines": ["yes"]}


def test_a_child_brings_its_own_reducers() -> None:
    longest = reducer(lambda current, incoming: max(current or "", incoming, key=len), name="child.longest")
    states = {"type": "object", "properties": {"line": {"type": "string", "reducer": "child.longest"}}}
    inner = child(reducers=[longest])
    inner.set_contract(state_schema=states)
    flow = prepared(inner)

    assert flow.reducer_registry() == {}
    assert flow.execute({"orders": ["a"]}).output == {"lines": ["a of Ada"]}


def nested() -> WorkflowBuilder:
    """middle calls child for its one order."""
    middle = WorkflowBuilder("middle", OrderIn, Line, Line)
    call = middle.subgraph(
        middle.prepare_subgraph(child()),
        id="call",
        input=[input_from(input_path("order"), "order"), input_value("customer", "middle")],
        output=[output_to("line", state_path("line"))],
    )
    middle.set_entry_point(call)
    middle.branch(call, {"ok": END, "rejected": END})
    return middle


def test_the_children_of_a_child_are_prepared_with_it() -> None:
    flow = prepared(nested())

    run = flow.execute({"orders": ["a", "b"]})

    assert run.output == {"lines": ["a of middle", "b of middle"]}
    assert "root:each#0:1:subgraph:call:frame:subgraph:call" in run.scopes
    assert [workflow.name for workflow in flow.prepared_subgraphs()] == ["child", "middle"]


def test_a_child_may_be_prepared_again_and_below_another_one() -> None:
    flow = caller(child().compile())

    flow.prepare_subgraph(child())
    flow.prepare_subgraph(nested())
    flow.prepare_subgraph(child())

    assert [workflow.name for workflow in flow.prepared_subgraphs()] == ["child", "middle"]


def other_contract() -> WorkflowBuilder:
    flow = child()
    flow.set_contract(outcomes=["ok", "rejected", "late"])
    return flow


def other_code() -> WorkflowBuilder:
    return child(spec=node(take.fn, name="take", outcomes=["ok", "bad"], description="Another one."))


@pytest.mark.parametrize("other", [other_contract, other_code])
def test_two_children_of_one_name_are_refused_and_nothing_is_kept(other: Any) -> None:
    flow = caller(child().compile())
    flow.prepare_subgraph(other())

    with pytest.raises(ValueError, match="another child workflow named 'child'"):
        flow.prepare_subgraph(child())
    with pytest.raises(ValueError, match="another child workflow named 'child'"):
        flow.prepare_subgraph(nested())
    assert [workflow.name for workflow in flow.prepared_subgraphs()] == ["child"]


def test_a_child_of_the_callers_name_is_refused_at_any_depth() -> None:
    flow = WorkflowBuilder("child", OrderIn, Line, Line)

    with pytest.raises(ValueError, match="of its own name"):
        flow.prepare_subgraph(child())
    with pytest.raises(ValueError, match="of its own name"):
        flow.prepare_subgraph(nested())
    assert flow.prepared_subgraphs() == ()


def test_a_child_is_kept_as_it_stood_when_it_was_prepared() -> None:
    inner = child()
    flow = caller(inner.compile())
    given = flow.prepare_subgraph(inner)

    inner.set_route("take", "ok", inner.end("rejected", id="changed"))
    given.outcomes.clear()
    flow.prepared_subgraphs()[0].nodes.clear()

    assert flow.execute({"orders": ["a"]}).output == {"lines": ["a of Ada"]}
    assert flow.prepared_subgraphs() == (child().compile(),)


def test_a_child_that_is_not_finished_cannot_be_prepared() -> None:
    flow = caller(child().compile())

    with pytest.raises(WorkflowExecutionError, match="no entry point"):
        flow.prepare_subgraph(WorkflowBuilder("empty", OrderIn, Line, Line))


def test_a_child_that_was_not_prepared_is_missed_when_it_is_entered() -> None:
    with pytest.raises(WorkflowExecutionError, match="no prepared child workflow 'child'"):
        caller(child().compile()).execute({"orders": ["a"]})


@pytest.mark.parametrize(
    ("ref", "found"), [({"artifact_id": "child", "version": 7}, True), ("workflow.other.v1", False), ("other", False)]
)
def test_a_step_for_one_version_runs_the_prepared_child_of_that_name(ref: Any, found: bool) -> None:
    flow = prepared(child(), workflow_ref=ref)

    if found:
        assert flow.execute({"orders": ["a"]}).output == {"lines": ["a of Ada"]}
    else:
        with pytest.raises(WorkflowExecutionError, match="no prepared child workflow"):
            flow.execute({"orders": ["a"]})


# --- What a module serves ---


def module(**names: object) -> ModuleType:
    made = ModuleType("served")
    vars(made).update(names)
    return made


def test_a_modules_workflows_come_behind_the_children_they_enter_and_once() -> None:
    assert [w.name for w in workflows_of(module(build=lambda: prepared(nested())))] == ["child", "middle", "caller"]
    listed = module(flow=prepared(nested()), one=child(), document=child("lone").compile())
    assert [w.name for w in workflows_of(listed)] == ["child", "middle", "caller", "lone"]
