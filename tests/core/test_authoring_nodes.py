from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field, ValidationError

from wf_core.authoring import (
    NodeReturn,
    NodeSpec,
    NoOutput,
    Nothing,
    ReducerCatalog,
    build_async_registry,
    build_registry,
    node,
    outcome,
    reducer,
    schema_ref_from,
    state_field,
    state_schema_from,
)
from wf_core.errors import WorkflowExecutionError
from wf_core.models import SchemaRef, SiblingWritePolicy
from wf_core.paths import StatePath
from wf_core.reducers import apply_reducer
from wf_core.run_state import RuntimeContext


class Order(BaseModel):
    number: int
    total: int = Field(default=0, alias="orderTotal")


class Receipt(BaseModel):
    text: str
    paid_at: datetime | None = Field(default=None, alias="paidAt")


CONTEXT = RuntimeContext(current_node_id="charge")


@node
def charge(payload: Order) -> Receipt:
    """Charge an order.

    Once.
    """
    return Receipt(text=f"{payload.number}: {payload.total}", paidAt=datetime(2026, 1, 2, tzinfo=UTC))


# --- What is read off a function ---


def test_a_bare_capability_takes_everything_from_its_function() -> None:
    assert (charge.name, charge.outcomes, charge.input_model, charge.output_model) == (
        "charge",
        ("ok",),
        Order,
        Receipt,
    )
    assert charge.description == "Charge an order.\n\nOnce."
    assert not charge.is_async and not charge.accepts_context


def test_options_win_over_what_the_function_says() -> None:
    @node(name="shop.pay", outcomes=["paid", "declined"], description="Pays.", retry=2, timeout_seconds=30)
    def pay(payload: Order) -> Receipt: ...

    assert (pay.name, pay.outcomes, pay.description) == ("shop.pay", ("paid", "declined"), "Pays.")
    assert (pay.retry, pay.timeout_seconds) == (2, 30)


def test_a_capability_given_to_node_is_copied_with_the_overrides() -> None:
    copy = node(charge, name="charge_twice", outcomes=("ok", "late"))

    assert (copy.name, copy.outcomes, copy.fn) == ("charge_twice", ("ok", "late"), charge.fn)
    assert copy.description == charge.description
    assert (charge.name, charge.outcomes) == ("charge", ("ok",))


def test_a_coroutine_function_is_asynchronous_and_may_take_a_context() -> None:
    @node
    async def look_up(payload: Order, ctx: RuntimeContext) -> Receipt: ...

    assert look_up.is_async and look_up.accepts_context


def returns_nothing(payload: Order) -> None: ...
def returns_a_bare_outcome(payload: Order) -> NodeReturn: ...
def returns_no_output(payload: Order) -> NoOutput: ...


@pytest.mark.parametrize("fn", [returns_nothing, returns_a_bare_outcome, returns_no_output])
def test_a_function_without_an_output_gives_nothing(fn: Callable[..., Any]) -> None:
    assert node(fn).output_model is Nothing


def test_the_model_inside_a_node_return_is_the_output() -> None:
    @node
    def pay(payload: Order) -> NodeReturn[Receipt]: ...

    assert pay.output_model is Receipt


def test_with_both_models_given_annotations_are_not_looked_at() -> None:
    @node(input_model=Order, output_model=Receipt)
    def untyped(payload, ctx):  # type: ignore[no-untyped-def]
        return Receipt(text="x")

    assert (untyped.input_model, untyped.output_model, untyped.accepts_context) == (Order, Receipt, True)


def no_parameters() -> None: ...
def three_parameters(payload: Order, ctx: RuntimeContext, more: int) -> None: ...
def keyword_only(payload: Order, *, ctx: RuntimeContext) -> None: ...
def variadic(*payload: Order) -> None: ...
def no_payload_annotation(payload) -> None: ...  # type: ignore[no-untyped-def]
def dict_payload(payload: dict[str, Any]) -> None: ...
def base_model_payload(payload: BaseModel) -> None: ...
def no_context_annotation(payload: Order, ctx) -> None: ...  # type: ignore[no-untyped-def]
def other_context(payload: Order, ctx: dict[str, Any]) -> None: ...
def no_return_annotation(payload: Order): ...  # type: ignore[no-untyped-def]
def dict_return(payload: Order) -> dict[str, Any]: ...
def unresolved(payload: Missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    "fn",
    [
        no_parameters,
        three_parameters,
        keyword_only,
        variadic,
        no_payload_annotation,
        dict_payload,
        base_model_payload,
        no_context_annotation,
        other_context,
        no_return_annotation,
        dict_return,
        unresolved,
    ],
)
def test_a_signature_that_says_too_little_is_refused_by_the_name_of_its_function(fn: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match=fn.__name__):
        node(fn)


@pytest.mark.parametrize("outcomes", [[], ["ok", "ok"], ["ok", " "], "ok"])
def test_empty_repeated_and_blank_outcomes_are_refused(outcomes: Any) -> None:
    with pytest.raises(ValueError, match="outcome"):
        node(returns_nothing, outcomes=outcomes)


def test_a_coroutine_function_cannot_be_declared_synchronous() -> None:
    async def fetch(payload: Order) -> None: ...

    with pytest.raises(TypeError, match="fetch"):
        node(fetch, is_async=False)


# --- Contracts ---


def test_the_node_definition_carries_schemas_outcomes_and_policies() -> None:
    definition = node(charge, outcomes=["ok", "late"], retry=3, timeout_seconds=5).to_node_def()

    assert (definition.name, definition.outcomes, definition.retry, definition.timeout_seconds) == (
        "charge",
        ["ok", "late"],
        3,
        5,
    )
    assert set(definition.input_schema.properties) == {"number", "orderTotal"}
    assert definition.output_schema.required == ["text"]


def test_a_published_contract_stands_in_for_the_schema_of_the_model() -> None:
    published = {"type": "object", "properties": {"number": {"type": "integer", "minimum": 1}}}

    spec = NodeSpec("charge", Order, Receipt, ("ok",), charge.fn, input_schema_contract=published)

    assert spec.input_schema == published and spec.output_schema == Receipt.model_json_schema()
    assert spec.to_node_def().input_schema.properties == published["properties"]


def test_the_inventory_describes_a_capability_without_its_code() -> None:
    entry = charge.to_inventory()

    assert (entry.name, entry.outcomes, entry.is_async, entry.accepts_context) == ("charge", ("ok",), False, False)
    assert entry.input_schema == Order.model_json_schema()


# --- Calls ---


def test_a_capability_can_be_called_like_its_function() -> None:
    assert charge(Order(number=1)).text == "1: 0"


def test_a_call_without_the_context_that_is_wanted_is_refused() -> None:
    @node
    def where(payload: Order, ctx: RuntimeContext) -> Receipt:
        return Receipt(text=ctx.current_node_id)

    assert where(Order(number=1), CONTEXT).text == "charge"
    with pytest.raises(TypeError, match="context"):
        where(Order(number=1))


def test_a_handler_takes_and_gives_json_by_the_names_in_the_schemas() -> None:
    answer = charge.to_registry_handler()({"number": 7, "orderTotal": 3}, CONTEXT)

    assert answer == {"outcome": "ok", "output": {"text": "7: 3", "paidAt": "2026-01-02T00:00:00Z"}}
    json.dumps(answer)


def test_a_payload_that_the_model_refuses_does_not_reach_the_function() -> None:
    with pytest.raises(ValidationError):
        charge.to_registry_handler()({"number": "many"}, CONTEXT)


def test_a_node_return_chooses_its_own_outcome() -> None:
    @node(outcomes=["paid", "declined"])
    def pay(payload: Order) -> NodeReturn[Receipt]:
        return outcome("declined", Receipt(text="no"))

    assert pay.to_registry_handler()({"number": 1}, CONTEXT)["outcome"] == "declined"


def test_a_bare_output_means_the_first_outcome() -> None:
    @node(outcomes=["paid", "declined"])
    def pay(payload: Order) -> Receipt:
        return Receipt(text="yes")

    assert pay.to_registry_handler()({"number": 1}, CONTEXT)["outcome"] == "paid"


def test_no_output_is_an_empty_object() -> None:
    @node(outcomes=["yes", "no"])
    def ask(payload: Order) -> NoOutput:
        return outcome("no")

    assert ask.to_registry_handler()({"number": 1}, CONTEXT) == {"outcome": "no", "output": {}}
    assert node(returns_nothing).to_registry_handler()({"number": 1}, CONTEXT) == {"outcome": "ok", "output": {}}


def test_an_undeclared_outcome_fails_the_call() -> None:
    @node
    def pay(payload: Order) -> NoOutput:
        return outcome("elsewhere")

    with pytest.raises(WorkflowExecutionError, match="elsewhere") as failure:
        pay.to_registry_handler()({"number": 1}, CONTEXT)
    assert failure.value.code == "outcome_undeclared"


@pytest.mark.parametrize("returned", [None, {"text": "x"}, Order(number=1), "x", outcome("ok")])
def test_a_return_value_of_another_kind_fails_the_call(returned: object) -> None:
    spec = node(lambda payload: returned, name="pay", input_model=Order, output_model=Receipt)

    with pytest.raises(TypeError, match="Receipt"):
        spec.to_registry_handler()({"number": 1}, CONTEXT)


async def test_the_async_handler_serves_both_kinds() -> None:
    @node
    async def fetch(payload: Order, ctx: RuntimeContext) -> Receipt:
        return Receipt(text=ctx.current_node_id)

    registry = build_async_registry(fetch, charge)

    assert (await registry["fetch"]({"number": 1}, CONTEXT))["output"]["text"] == "charge"
    assert (await registry["charge"]({"number": 1}, CONTEXT))["output"]["text"] == "1: 0"


def test_an_asynchronous_capability_has_no_synchronous_handler() -> None:
    @node
    async def fetch(payload: Order) -> None: ...

    with pytest.raises(TypeError, match="asynchronous"):
        build_registry(fetch)


@pytest.mark.parametrize("build", [build_registry, build_async_registry])
def test_a_registry_refuses_two_capabilities_of_one_name(build: Callable[..., object]) -> None:
    with pytest.raises(ValueError, match="charge"):
        build(charge, node(returns_nothing, name="charge"))


# --- Schemas and state fields ---


class Person(BaseModel):
    tags: Annotated[list[str], state_field(reducer="wf.std.append")] = ["new"]
    secret: Annotated[str, state_field(trace=False)] = ""


class Node(BaseModel):
    below: list[Node] = []


class State(BaseModel):
    person: Annotated[Person, state_field(reducer="wf.std.merge_object")]
    count: Annotated[int, state_field(reducer="wf.std.add")] = 3
    note: str | None = None
    log: list[str] = Field(default_factory=list)
    stamp: datetime = Field(default_factory=lambda: datetime(2026, 1, 1, tzinfo=UTC))
    renamed: dict[str, int] = Field(default_factory=dict, alias="byName")


def test_state_field_metadata_reaches_the_declared_fields_at_any_depth() -> None:
    fields = state_schema_from(State).field_map()

    assert {name: fields[name].reducer.name for name in ("person", "person.tags", "count", "note")} == {
        "person": "wf.std.merge_object",
        "person.tags": "wf.std.append",
        "count": "wf.std.add",
        "note": "wf.std.replace",
    }
    assert [name for name, field in fields.items() if not field.trace] == ["person.secret"]


def test_only_defaults_of_top_level_fields_become_initial_values() -> None:
    fields = state_schema_from(State).field_map()

    assert {name: field.default for name, field in fields.items() if field.default is not None} == {
        "count": 3,
        "log": [],
        "byName": {},
    }


def test_a_document_is_taken_as_it_stands() -> None:
    document = {"type": "object", "properties": {"a": {"properties": {"b": {"default": 1}}, "default": {}}}}

    assert state_schema_from(document).properties == document["properties"]


def test_a_schema_comes_from_a_model_a_type_a_document_or_a_schema() -> None:
    assert schema_ref_from(Receipt).required == ["text"]
    assert schema_ref_from(dict[str, Decimal]).type == "object"
    assert schema_ref_from({"type": "object", "x-note": 1}).as_json_schema() == {"type": "object", "x-note": 1}
    given = SchemaRef(type="object")
    assert schema_ref_from(given) == given and schema_ref_from(given) is not given


def test_a_model_that_contains_itself_shows_its_fields_at_the_top() -> None:
    assert set(state_schema_from(Node).root_fields()) == {"below"}


@pytest.mark.parametrize("schema", [None, "Order", 42, Order(number=1)])
def test_what_is_no_schema_is_refused_with_its_value(schema: object) -> None:
    with pytest.raises(TypeError, match="unsupported schema"):
        schema_ref_from(schema)


@pytest.mark.parametrize(
    "document", [{"type": "nonsense"}, {"$schema": "http://json-schema.org/draft-04/schema#", "required": "a"}]
)
def test_an_invalid_document_is_refused_in_its_dialect(document: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="invalid JSON Schema"):
        schema_ref_from(document)


# --- Reducers ---


class KeepConfig(BaseModel):
    at_most: int


@reducer(name="shop.keep_last", config_model=KeepConfig, sibling_write_policy=SiblingWritePolicy.EXCLUSIVE)
def keep_last(current: list[int] | None, incoming: int, config: KeepConfig) -> list[int]:
    """The last few."""
    return [*(current or []), incoming][-config.at_most :]


def test_a_reducer_with_a_config_is_called_with_its_model() -> None:
    catalog = ReducerCatalog.from_reducers(keep_last)
    declared = state_schema_from(
        {
            "type": "object",
            "properties": {"recent": {"reducer": {"name": "shop.keep_last", "config": {"at_most": 2}}}},
        }
    ).fields[0]

    merged = apply_reducer(
        reducer=declared.reducer,
        current_value=[1, 2],
        incoming_value=3,
        destination_path=StatePath(("recent",)),
        reducers=catalog.definitions,
    )

    assert merged == [2, 3]
    spec = catalog.specs["shop.keep_last"]
    assert (spec.description, spec.sibling_write_policy) == ("The last few.", SiblingWritePolicy.EXCLUSIVE)
    assert spec.config_schema["required"] == ["at_most"]


def test_a_state_field_may_name_the_reducer_itself_or_give_a_config() -> None:
    class Recent(BaseModel):
        plain: Annotated[list[int], state_field(reducer=smaller)]
        configured: Annotated[
            list[int],
            state_field(reducer={"ref": {"source": "shop", "capability_key": "keep_last"}, "config": {"at_most": 2}}),
        ]

    fields = state_schema_from(Recent).field_map()

    assert fields["plain"].reducer.name == "shop.smaller"
    assert (fields["configured"].reducer.name, fields["configured"].reducer.config) == (
        "shop.keep_last",
        {"at_most": 2},
    )


smaller = reducer(lambda current, incoming: min(current, incoming), name="shop.smaller")


def test_a_reducer_of_another_shape_is_refused() -> None:
    with pytest.raises(TypeError, match=r"shop\.odd"):
        reducer(lambda incoming: incoming, name="shop.odd")
    with pytest.raises(TypeError, match="config"):
        reducer(lambda current, incoming: incoming, name="shop.odd", config_model=KeepConfig)


def test_two_reducers_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match=r"shop\.smaller"):
        ReducerCatalog.from_reducers(smaller, smaller)
