from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field, ValidationError

from wf_core.authoring import (
    END,
    NodeReturn,
    NodeSpec,
    WorkflowBuilder,
    context_path,
    input_expression,
    input_from,
    input_path,
    input_value,
    node,
    outcome,
    output_to,
    reducer,
    state,
    state_field,
    state_path,
)
from wf_core.errors import WorkflowExecutionError
from wf_core.models import CapabilityRef, InterruptNode, NodeUse, OutputBinding, RetryPolicy, Workflow
from wf_core.paths import GraphSourcePath, StatePath
from wf_core.run_limits import RunLimits
from wf_core.run_state import RunStatus, RuntimeContext
from wf_core.runtime import next_due

# --- The billing workflow ---


class Order(BaseModel):
    number: int
    total: int


class BillingIn(BaseModel):
    orders: list[Order]


class BillingState(BaseModel):
    receipts: Annotated[list[str], state_field(reducer="wf.std.append")] = Field(default_factory=list)
    failures: list[dict[str, Any]] = Field(default_factory=list)


class BillingOut(BaseModel):
    receipts: list[str]


class ChargeIn(BaseModel):
    order: Order
    currency: str


class Receipt(BaseModel):
    receipt: str


@node
def charge_order(payload: ChargeIn) -> Receipt:
    """Charges one order."""
    if payload.order.total < 0:
        raise ValueError("a total is not negative")
    return Receipt(receipt=f"{payload.order.number}: {payload.order.total} {payload.currency}")


def billing() -> WorkflowBuilder:
    g = WorkflowBuilder("billing", input_schema=BillingIn, state_schema=BillingState, output_schema=BillingOut)
    orders = g.foreach(
        id="orders",
        over=input_path("orders"),
        as_="order",
        mode="concurrent",
        concurrent={"max_active": 8},
        item_error={"action": "collect", "collect_to": state_path("failures")},
    )
    charge = g.use(
        charge_order,
        input=[input_from(orders.item, "order"), input_value("currency", "EUR")],
        output=[output_to("receipt", state_path("receipts"))],
    )
    ask = g.interrupt(
        kind="review", request=[input_from(state_path("receipts"), "receipts")], outcomes=["approved", "rejected"]
    )
    g.set_entry_point(orders)
    g.set_route(orders, "loop", charge)
    g.set_route(charge, "ok", orders)
    g.handle((orders, "done"), (orders, "completed_with_errors"), to=ask)
    g.branch(ask, {"approved": END, "rejected": g.end("rejected")})
    g.set_contract(outcomes=("ok", "rejected"))
    g.set_output([input_from(state_path("receipts"), "receipts")])
    return g


BILLED = {"orders": [{"number": 1, "total": 10}, {"number": 2, "total": -1}, {"number": 3, "total": 30}]}


def test_the_billing_workflow_is_valid() -> None:
    billing().validate_local().raise_for_errors()


def test_the_billing_workflow_pauses_and_ends_as_it_is_answered() -> None:
    g = billing()

    run = g.execute(BILLED)

    assert run.status is RunStatus.INTERRUPTED and run.interrupt is not None
    assert run.interrupt.payload == {"receipts": ["1: 10 EUR", "3: 30 EUR"]}
    assert [failure["index"] for failure in run.state["failures"]] == [1]

    run = g.resume(run, payload={}, outcome="rejected")

    assert (run.status, run.outcome) == (RunStatus.COMPLETED, "rejected")
    assert run.output == {"receipts": ["1: 10 EUR", "3: 30 EUR"]}


async def test_the_billing_workflow_runs_on_an_event_loop() -> None:
    g = billing()

    run = await g.execute_async(BILLED)
    run = await g.resume_async(run, payload={}, outcome="approved")

    assert (run.outcome, run.output) == ("ok", {"receipts": ["1: 10 EUR", "3: 30 EUR"]})


def test_a_compiled_workflow_survives_json() -> None:
    compiled = billing().compile()

    assert Workflow.model_validate_json(compiled.model_dump_json(by_alias=True)) == compiled


# --- A small workflow for the rest ---

TEXT = {"type": "string"}
INPUT = {"type": "object", "properties": {"a": TEXT, "b": TEXT, "items": {"type": "array"}}}
STATE = {
    "type": "object",
    "properties": {
        "a": TEXT,
        "answer": TEXT,
        "seen": {"type": "array", "reducer": "wf.std.append"},
        "errors": {"type": "array"},
    },
}
OUTPUT = {"type": "object", "properties": {"answer": {}, "seen": {}}}


class Letters(BaseModel):
    a: str
    b: str
    c: str = "c"


class Answer(BaseModel):
    answer: str
    unused: str = ""


@node
def join_letters(payload: Letters) -> Answer:
    """Joins three letters."""
    return Answer(answer=payload.a + payload.b + payload.c)


class Seen(BaseModel):
    value: Any = None


class SeenOut(BaseModel):
    seen: Any


@node
def see(payload: Seen) -> SeenOut:
    return SeenOut(seen=[payload.value])


def small(**changes: Any) -> WorkflowBuilder:
    return WorkflowBuilder("small", INPUT, STATE, OUTPUT, **changes)


def ending(g: WorkflowBuilder, step: NodeUse) -> WorkflowBuilder:
    g.set_entry_point(step)
    g.set_route(step, "ok", END)
    return g


def bindings(step: NodeUse) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    dumped = step.model_dump(mode="json")
    return dumped["input"], dumped["output"]


# --- Using capabilities ---


def test_omitted_bindings_are_found_by_name_in_the_state_then_in_the_input() -> None:
    g = small()
    step = g.use(join_letters)

    assert bindings(step) == (
        [{"target": "a", "path": "state.a"}, {"target": "b", "path": "input.b"}],
        [{"source": "answer", "target": "state.answer"}],
    )
    assert (step.id, step.node, step.desc) == ("join_letters", "join_letters", "Joins three letters.")
    run = ending(g, step).execute({"a": "x", "b": "y"})
    assert run.output == {"answer": "xyc"}


def test_an_empty_list_means_no_bindings() -> None:
    assert bindings(small().use(join_letters, input=[], output=[])) == ([], [])


def test_bindings_may_be_mappings_with_path_objects_inside() -> None:
    g = small()
    loop = g.foreach(id="each.v2", over="input.items", as_="item")

    step = g.use(
        see,
        input=[{"target": "value", "path": loop.item}],
        output=[{"source": ".", "target": state("seen")}],
    )

    assert bindings(step) == (
        [{"target": "value", "path": 'context.foreach."each.v2".item'}],
        [{"source": ".", "target": "state.seen"}],
    )


@pytest.mark.parametrize("binding", ["state.a", 7, None, OutputBinding(source=".", target="state.a")])  # type: ignore[arg-type]
def test_what_is_no_input_binding_is_refused_with_its_value(binding: Any) -> None:
    with pytest.raises(TypeError, match="unsupported binding"):
        small().use(see, input=[binding])


@pytest.mark.parametrize("given", [{"value": "state.a"}, "state.a", input_value("value", 1)])
def test_bindings_are_a_list(given: Any) -> None:
    with pytest.raises(TypeError, match="list of bindings"):
        small().use(see, input=given)


def test_a_mapping_that_is_both_path_and_value_is_refused() -> None:
    with pytest.raises(ValidationError):
        small().use(see, input=[{"target": "value", "path": "state.a", "value": 1}])


def test_a_capability_used_twice_is_defined_once_and_gets_numbered_steps() -> None:
    g = small(start="see")

    assert [g.use(see).id, g.use(see).id, g.use(see).id] == ["see", "see_2", "see_3"]
    assert [definition.name for definition in g.compile().node_defs] == ["see"]


def test_another_capability_of_a_used_name_is_refused() -> None:
    g = small()
    g.use(see)

    with pytest.raises(ValueError, match="see"):
        g.use(node(join_letters, name="see"))


def test_a_refused_step_leaves_nothing_behind() -> None:
    g = small()
    g.end(id="x")

    with pytest.raises(ValueError, match="'x'"):
        g.use(see, id="x")

    g.set_entry_point("x")
    assert g.compile().node_defs == [] and g.registry() == {}


def test_a_use_may_set_its_own_policies_and_description() -> None:
    g = small(start="see")
    step = g.use(node(see, retry=5, timeout_seconds=9), desc="Looks.", retry=1)

    assert (step.desc, step.retry, step.timeout_seconds) == ("Looks.", 1, None)
    [definition] = g.compile().node_defs
    assert (definition.retry, definition.timeout_seconds) == (5, 9)


@pytest.mark.parametrize("ref", ["shop.Charge-Order", CapabilityRef.parse("shop.Charge-Order")])
def test_a_reference_defines_and_binds_nothing(ref: str | CapabilityRef) -> None:
    g = small(start="shop_charge_order")
    step = g.use_ref(ref)

    assert (step.id, step.node, bindings(step)) == ("shop_charge_order", "shop.Charge-Order", ([], []))
    assert g.compile().node_defs == [] and g.registry() == {}


def test_a_function_that_is_no_capability_is_refused() -> None:
    with pytest.raises(TypeError, match=r"node\(\)"):
        small().use(see.fn)  # type: ignore[arg-type]


# --- Ids ---


def test_ids_are_made_from_what_a_step_is_about() -> None:
    g = small()
    ids = [
        g.foreach(over="input.items", as_="Item").id,
        g.interrupt(kind="Ask Again!").id,
        g.end("not ok").id,
        g.end("???").id,
        g.join().id,
        g.condition(check=state("a") == "x").id,
        g.use(node(see, name="__")).id,
    ]

    assert ids == ["foreach_item", "interrupt_ask_again", "end_not_ok", "end", "join", "state_a", "step"]


def test_a_taken_explicit_id_is_refused_at_once() -> None:
    g = small()
    g.use(see, id="x")

    with pytest.raises(ValueError, match="'x'"):
        g.end(id="x")


# --- Routes ---


def routes(g: WorkflowBuilder) -> list[str]:
    return [f"{edge.from_}.{edge.outcome} -> {edge.to}" for edge in g.compile().edges]


def test_set_route_replaces_in_place_and_removes_what_was_doubled() -> None:
    g = small(start="a")
    g.connect("a", "ok", "b")
    g.connect("b", "ok", "c")
    g.connect("a", "ok", "c")

    assert g.set_route("a", "ok", END) == ("a", END)
    assert routes(g) == ["a.ok -> __end__", "b.ok -> c"]

    g.set_route("c", "ok", "a")
    g.remove_route("b", "ok")
    assert routes(g) == ["a.ok -> __end__", "c.ok -> a"]


def test_connect_appends_a_second_route_that_validation_reports() -> None:
    g = small()
    step = g.use(see)
    ending(g, step).connect(step, "ok", END)

    assert [issue.code.value for issue in g.validate_local().errors] == ["duplicate_edge"]


def test_a_route_that_is_not_there_cannot_be_removed() -> None:
    with pytest.raises(KeyError, match="nowhere"):
        small().remove_route("nowhere", "ok")


def test_a_step_that_routes_mention_cannot_be_removed() -> None:
    g = small()
    first, second = g.use(see), g.use(join_letters)
    g.set_entry_point(first)
    g.set_route(first, "ok", second)

    with pytest.raises(ValueError, match=r"see\.ok -> join_letters"):
        g.remove_step(second)

    g.set_route(first, "ok", END)
    g.remove_step(second)
    assert [step.id for step in g.compile().nodes] == ["see"]
    assert [definition.name for definition in g.compile().node_defs] == ["see"] == list(g.registry())
    assert g.use(join_letters).id == "join_letters"


def test_without_its_first_step_a_workflow_has_no_entry_point() -> None:
    g = small()
    g.set_entry_point(g.use(see))
    g.remove_step("see")

    with pytest.raises(WorkflowExecutionError, match="entry point"):
        g.compile()
    with pytest.raises(KeyError, match="see"):
        g.remove_step("see")


@pytest.mark.parametrize("ref", [None, 3, see])
def test_what_refers_to_no_step_is_refused(ref: Any) -> None:
    with pytest.raises(TypeError, match="unsupported step reference"):
        small().set_entry_point(ref)


def test_mistakes_in_the_graph_are_reported_and_not_raised() -> None:
    g = small()
    g.set_entry_point("nowhere")
    g.set_route("nobody", "ok", "nothing")

    codes = {issue.code.value for issue in g.validate_local().errors}
    assert {"unknown_start", "unknown_edge_source", "unknown_edge_destination"} <= codes


def test_compile_without_an_entry_point_says_what_to_call() -> None:
    with pytest.raises(WorkflowExecutionError) as failure:
        small().compile()
    assert "set_entry_point" in (failure.value.hint or "")


# --- Loops ---


def test_a_loop_takes_its_policies_as_plain_values() -> None:
    g = small()
    loop = g.foreach(over=state_path("seen"), as_="x", item_error={"action": "collect", "collect_to": "errors"})

    assert loop.item_error.collect_to == StatePath(("errors",))
    assert loop.item == GraphSourcePath("context", ("foreach", "foreach_x", "item"))
    assert g.foreach(over="input.items", as_="y", item_error="skip").item_error.action == "skip"


def test_a_loop_with_a_policy_that_does_not_fit_is_refused() -> None:
    g = small()
    with pytest.raises(ValueError, match="collect_to"):
        g.foreach(over="input.items", as_="x", item_error="collect")
    with pytest.raises(ValueError, match=r"input\.items"):
        g.foreach(over="input.items", as_="x", item_error={"action": "collect", "collect_to": input_path("items")})
    with pytest.raises(ValueError, match="concurrent"):
        g.foreach(over="input.items", as_="x", mode="concurrent")
    with pytest.raises(ValueError, match="concurrent"):
        g.foreach(over="input.items", as_="x", concurrent={"max_active": 2})
    assert g.foreach(over="input.items", as_="x").id == "foreach_x"


class Cell(BaseModel):
    row: dict[str, Any]
    value: int
    place: list[int]


@node
def record(payload: Cell) -> SeenOut:
    return SeenOut(seen=[f"{payload.row['name']}{payload.place}={payload.value}"])


@pytest.mark.parametrize("mode", ["serial", "concurrent"])
def test_nested_loops_read_the_items_of_both(mode: Any) -> None:
    row_schema = {
        "type": "object",
        "properties": {"name": TEXT, "cells": {"type": "array", "items": {"type": "integer"}}},
    }
    g = WorkflowBuilder(
        "grid", {"type": "object", "properties": {"rows": {"type": "array", "items": row_schema}}}, STATE, OUTPUT
    )
    window = {"max_active": 2} if mode == "concurrent" else None
    rows = g.foreach(id="rows.v2", over=input_path("rows"), as_="row", mode=mode, concurrent=window)
    cells = g.foreach(id="cells", over=GraphSourcePath("context", (*rows.item.parts, "cells")), as_="cell")
    step = g.use(
        record,
        input=[
            input_from(rows.item, "row"),
            {"target": "value", "path": cells.item},
            input_expression(
                "place", {"kind": "array", "items": [{"kind": "path", "path": loop.index} for loop in (rows, cells)]}
            ),
        ],
    )
    g.set_entry_point(rows)
    g.branch(rows, {"loop": cells, "done": END})
    g.branch(cells, {"loop": step, "done": rows})
    g.set_route(step, "ok", cells)

    g.validate_local().raise_for_errors()
    run = g.execute({"rows": [{"name": "a", "cells": [1, 2]}, {"name": "b", "cells": []}, {"name": "c", "cells": [3]}]})

    assert run.output["seen"] == ["a[0, 0]=1", "a[0, 1]=2", "c[2, 0]=3"]


def test_an_item_of_a_loop_that_is_over_is_reported() -> None:
    g = small()
    loop = g.foreach(id="each", over="input.items", as_="item")
    inside, after = (
        g.use(see, input=[input_from(loop.item, "value")]),
        g.use(see, input=[input_from(loop.item, "value")]),
    )
    g.set_entry_point(loop)
    g.branch(loop, {"loop": inside, "done": after})
    g.set_route(inside, "ok", loop)
    g.set_route(after, "ok", END)

    [issue] = g.validate_local().errors
    assert (issue.code.value, issue.path) == ("invalid_context_path", "nodes[2].input[0].path")


def test_a_handler_may_read_the_active_loops_from_its_context() -> None:
    @node(input_model=Seen, output_model=SeenOut)
    def where(payload: Seen, ctx: RuntimeContext) -> SeenOut:
        return SeenOut(seen=[[entry.index, entry.item] for entry in ctx.foreach.values()])

    g = small()
    loop = g.foreach(id="each", over="input.items", as_="item")
    step = g.use(where, input=[input_from(context_path("item"), "value")])
    g.set_entry_point(loop)
    g.branch(loop, {"loop": step, "done": END})
    g.set_route(step, "ok", loop)

    assert g.execute({"items": ["x", "y"]}).state["seen"] == [[0, "x"], [1, "y"]]


# --- Interrupts ---


class Question(BaseModel):
    text: str


class Decision(BaseModel):
    answer: str


def asking(**changes: Any) -> tuple[WorkflowBuilder, InterruptNode]:
    g = small()
    step = g.interrupt(
        kind="ask", request=[input_from("input.a", "text")], resume=[output_to("answer", "answer")], **changes
    )
    g.set_entry_point(step)
    g.set_route(step, "submitted", END)
    return g, step


def test_an_interrupt_asks_and_its_answer_reaches_the_output() -> None:
    g, _ = asking()

    run = g.execute({"a": "why?"})
    assert run.interrupt is not None
    assert (run.status, run.interrupt.payload, run.interrupt.typed) == (RunStatus.INTERRUPTED, {"text": "why?"}, False)

    run = g.resume(run, payload={"answer": "because"})
    assert (run.status, run.output) == (RunStatus.COMPLETED, {"answer": "because"})


def test_an_interrupt_with_models_refuses_an_answer_of_another_shape() -> None:
    g, step = asking(request_schema=Question, resume_schema=Decision)
    assert step.has_explicit_contract

    run = g.execute({"a": "why?"})
    with pytest.raises(WorkflowExecutionError) as failure:
        g.resume(run, payload={"answer": 1})

    assert failure.value.code == "resume_payload_invalid"
    assert g.resume(run, payload={"answer": "because"}).output == {"answer": "because"}


def test_one_given_schema_makes_the_contract_explicit() -> None:
    _, step = asking(resume_schema={"type": "object", "required": ["answer"]})

    assert step.has_explicit_contract and step.resume_schema["required"] == ["answer"]


@pytest.mark.parametrize("schema", [list[int], {"type": "array"}, {}])
def test_an_interrupt_schema_must_describe_an_object(schema: Any) -> None:
    with pytest.raises(ValueError, match="object"):
        asking(request_schema=schema)


def test_an_interrupt_without_outcomes_is_refused() -> None:
    with pytest.raises(ValueError, match="outcome"):
        small().interrupt(kind="ask", outcomes=[])


# --- The workflow as a whole ---


def test_a_contract_is_replaced_in_part_and_bindings_are_kept() -> None:
    g = small()
    ending(g, g.use(see)).set_output([input_value("answer", "x")])

    g.set_contract(output_schema={"type": "object", "properties": {"answer": {}}}, outcomes=["ok", "late"])

    compiled = g.compile()
    assert (set(compiled.output_schema.properties), compiled.outcomes) == ({"answer"}, ["ok", "late"])
    assert set(compiled.input_schema.properties) == set(INPUT["properties"])
    assert len(compiled.output) == 1


def test_a_contract_that_is_refused_in_part_replaces_nothing() -> None:
    g = ending(small(), NodeUse(id="see", node="see"))
    before = g.compile()

    with pytest.raises(ValueError, match="invalid JSON Schema"):
        g.set_contract(outcomes=["late"], input_schema=BillingIn, output_schema={"type": "nonsense"})

    assert g.compile() == before


def test_the_output_takes_paths_and_values_but_no_expressions() -> None:
    g = small()
    g.set_output([{"target": "seen", "path": state("seen")}, input_value("answer", None)])

    with pytest.raises(ValidationError):
        g.set_output([input_expression("answer", {"kind": "literal", "value": 1})])  # type: ignore[list-item]


def test_a_compiled_workflow_is_detached_from_its_builder() -> None:
    g = small()
    step = g.use(see)
    first = ending(g, step).compile()

    step.desc = "changed"
    g.use(see)
    first.nodes[0].id = "renamed"
    first.state_schema.properties.clear()

    second = g.compile()
    assert [node.id for node in second.nodes] == ["see", "see_2"]
    assert second.state_schema.properties == STATE["properties"]
    assert len(first.nodes) == 1 and first.nodes[0].desc is None  # type: ignore[union-attr]


def test_schemas_are_copied_from_the_author() -> None:
    document = {"type": "object", "properties": {"a": {"type": "string"}}}
    g = WorkflowBuilder("small", document, STATE, OUTPUT, start="see")
    document["properties"]["a"]["type"] = "integer"  # type: ignore[index]

    assert g.compile().input_schema.properties == {"a": {"type": "string"}}


def test_a_workflow_goes_through_a_builder_unchanged() -> None:
    compiled = billing().compile()
    document = compiled.model_dump(mode="json", by_alias=True)
    document["node_defs"].append({**document["node_defs"][0], "name": "unused"})
    document["edges"].append(document["edges"][0])
    original = Workflow.model_validate(document)

    assert WorkflowBuilder.from_workflow(original).compile() == original
    assert WorkflowBuilder.from_workflow(original).compile().model_dump_json() == original.model_dump_json()


def test_a_builder_made_from_a_workflow_goes_on_and_runs() -> None:
    g = WorkflowBuilder.from_workflow(billing().compile(), node_specs=[charge_order])
    again = g.use(charge_order, input=[], output=[])

    assert again.id == "charge_order_2"
    with pytest.raises(ValueError, match="'orders'"):
        g.end(id="orders")
    g.remove_step(again)
    run = g.execute(BILLED)
    assert run.status is RunStatus.INTERRUPTED


def test_a_capability_with_another_contract_than_the_workflow_defines_is_refused() -> None:
    g = WorkflowBuilder.from_workflow(billing().compile())

    with pytest.raises(ValueError, match="charge_order"):
        g.use(node(charge_order, outcomes=["ok", "late"]))


def test_a_decision_without_a_default_still_runs_after_a_round_trip() -> None:
    g = small()
    decision = g.when(state("a") == "x", then=END)
    g.set_entry_point(decision.entry)

    again = WorkflowBuilder.from_workflow(g.compile())

    with pytest.raises(WorkflowExecutionError, match="no default"):
        again.execute({"a": "y"})


# --- Local runs ---


def test_attached_reducers_are_used_in_local_runs() -> None:
    longest = reducer(lambda current, incoming: max(current or "", incoming, key=len), name="small.longest")
    states = {"type": "object", "properties": {"answer": {"type": "string", "reducer": "small.longest"}}}
    g = WorkflowBuilder("small", INPUT, states, OUTPUT, reducers=[longest])
    loop = g.foreach(over="input.items", as_="x")

    @node(input_model=Seen, output_model=Answer)
    def say(payload: Seen) -> Answer:
        return Answer(answer=payload.value)

    step = g.use(say, input=[input_from(loop.item, "value")])
    g.set_entry_point(loop)
    g.branch(loop, {"loop": step, "done": END})
    g.set_route(step, "ok", loop)

    assert list(g.reducer_registry()) == ["small.longest"]
    assert g.execute({"items": ["a", "ccc", "bb"]}).output == {"answer": "ccc"}


@node
async def fetch(payload: Letters) -> NodeReturn[Answer]:
    return outcome("ok", Answer(answer=payload.a))


async def test_asynchronous_capabilities_run_on_an_event_loop_only() -> None:
    g = small()
    ending(g, g.use(fetch))

    assert (await g.execute_async({"a": "x", "b": "y"})).output == {"answer": "x"}
    with pytest.raises(TypeError, match="asynchronous"):
        g.execute({"a": "x", "b": "y"})


def test_limits_are_handed_to_the_run() -> None:
    g = small()
    loop = g.foreach(over="input.items", as_="x")
    step = g.use(see, input=[input_from(loop.item, "value")])
    g.set_entry_point(loop)
    g.branch(loop, {"loop": step, "done": END})
    g.set_route(step, "ok", loop)

    with pytest.raises(WorkflowExecutionError, match="max_steps"):
        g.execute({"items": list(range(10))}, limits=RunLimits(max_steps=3))


def test_the_builder_keeps_the_capabilities_in_use() -> None:
    g = small()
    g.use(see)
    g.use(join_letters)

    assert list(g.registry()) == list(g.async_registry()) == ["see", "join_letters"]
    assert isinstance(see, NodeSpec)


# --- Waits and policies ---


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"for_seconds": 90}, {"for_seconds": 90}),
        ({"until": datetime(2030, 1, 31, 9, tzinfo=UTC)}, {"until": "2030-01-31T09:00:00+00:00"}),
        ({"until": "2030-01-31T09:00:00Z"}, {"until": "2030-01-31T09:00:00Z"}),
        ({"until": input_path("due")}, {"until": "input.due"}),
        ({"until": state_path("due")}, {"until": "state.due"}),
    ],
)
def test_a_wait_takes_seconds_a_time_or_the_path_of_one(given: dict[str, Any], kept: dict[str, Any]) -> None:
    step = WorkflowBuilder("w", BillingIn, BillingState, BillingOut).wait(**given)

    assert step.model_dump(mode="json") == {"id": "wait", "type": "wait", **kept}


@pytest.mark.parametrize(
    "given",
    [{}, {"for_seconds": 1, "until": input_path("due")}, {"until": datetime(2030, 1, 31)}, {"for_seconds": -1}],  # noqa: DTZ001
)
def test_a_wait_that_says_nothing_usable_is_refused_and_adds_no_step(given: dict[str, Any]) -> None:
    flow = WorkflowBuilder("w", BillingIn, BillingState, BillingOut)

    with pytest.raises(ValueError):
        flow.wait(**given)

    assert flow.wait(for_seconds=1).id == "wait"


def test_a_workflow_with_waits_runs_in_memory_by_the_clock_it_is_given() -> None:
    flow = WorkflowBuilder("w", BillingIn, BillingState, BillingOut)
    rest = flow.wait(for_seconds=90)
    flow.set_entry_point(rest)
    flow.set_route(rest, "elapsed", END)
    noon = datetime(2030, 1, 31, 12, tzinfo=UTC)

    run = flow.execute({"orders": []}, clock=lambda: noon)
    assert next_due(run) == noon + timedelta(seconds=90)
    assert flow.resume(run, clock=lambda: noon + timedelta(seconds=90)).status is RunStatus.COMPLETED


def test_a_capability_and_its_use_may_have_retry_policies() -> None:
    policy = RetryPolicy(max_attempts=5, non_retryable=["CardRefused"])

    @node(retry=policy)
    def pay(payload: ChargeIn) -> Receipt:
        return Receipt(receipt="")

    flow = WorkflowBuilder("w", BillingIn, BillingState, BillingOut)
    step = flow.use(pay, retry=RetryPolicy(max_attempts=1), input=[], output=[])

    assert pay.to_node_def().retry == policy
    assert step.retry == RetryPolicy(max_attempts=1)
