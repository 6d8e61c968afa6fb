"""What the context holds at each step, as schemas."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.workflow_documents import ITEM_SCHEMA, condition, foreach, node, workflow
from wf_core.analysis import (
    ContextFieldAvailability,
    analyze_control_regions,
    context_analysis_warnings,
    context_fields_by_node,
    context_schema_for_node,
    context_schemas_by_node,
    root_context_schema,
)
from wf_core.context_contracts import (
    RESERVED_CONTEXT_KEYS,
    STANDARD_CONTEXT_FIELD_NAMES,
    STANDARD_CONTEXT_FIELDS,
    foreach_context_fields,
)
from wf_core.models import Workflow

STANDARD = ["prior_outcome", "activated_incoming_edge", "scope_id", "lineage_id", "parent_lineage_id"]

CUSTOMER: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "orders": {"type": "array", "items": {"type": "object"}}},
}
ORDER: dict[str, Any] = {"type": "object"}


def nested(over_inner: str = "context.foreach.outer.item.orders", **changes: Any) -> Workflow:
    return workflow(
        [
            "outer.loop -> inner",
            "inner.loop -> inner_body",
            "inner_body.ok -> inner",
            "inner.done -> after_inner",
            "after_inner.ok -> outer",
            "outer.done -> after",
            "after.ok -> END",
        ],
        [foreach("outer", "input.customers"), foreach("inner", over_inner)],
        input_schema={"type": "object", "properties": {"customers": {"type": "array", "items": CUSTOMER}}},
        **changes,
    )


def fields(checked: Workflow, step_id: str) -> dict[str, ContextFieldAvailability]:
    return {field.name: field for field in context_fields_by_node(checked)[step_id]}


def test_the_root_schema_is_closed_and_requires_every_standard_field() -> None:
    schema = root_context_schema()

    assert schema["required"] == sorted([*STANDARD, "foreach"])
    assert schema["additionalProperties"] is False
    assert schema["properties"]["foreach"] == {
        "type": "object",
        "properties": {},
        "required": [],
        "additionalProperties": False,
    }
    assert schema["properties"]["scope_id"] == {"type": "string"}
    assert schema["properties"]["parent_lineage_id"] == {"type": ["string", "null"]}


def test_changing_a_root_schema_changes_no_other() -> None:
    root_context_schema()["properties"]["scope_id"]["type"] = "integer"

    assert root_context_schema()["properties"]["scope_id"] == {"type": "string"}


def test_the_names_that_no_alias_may_take() -> None:
    assert [field.name for field in STANDARD_CONTEXT_FIELDS] == STANDARD
    assert set(STANDARD) == STANDARD_CONTEXT_FIELD_NAMES
    assert {*STANDARD, "foreach", "loop_item", "loop_index"} == RESERVED_CONTEXT_KEYS
    assert [field.name for field in foreach_context_fields("order", ORDER)] == ["loop_item", "loop_index", "order"]


def test_an_entry_describes_identity_index_and_item() -> None:
    checked = workflow(["each.loop -> work", "work.ok -> each", "each.done -> END"], [foreach("each")])

    entry = context_schema_for_node(checked, "work")["properties"]["foreach"]["properties"]["each"]

    text = {"type": "string"}
    assert entry["properties"] == {
        "node_id": {"const": "each"},
        "activation_id": text,
        "frame_id": text,
        "scope_id": text,
        "lineage_id": text,
        "index": {"type": "integer"},
        "item": ITEM_SCHEMA,
    }
    assert entry["required"] == sorted(entry["properties"])
    assert entry["additionalProperties"] is False


def test_a_nested_body_sees_both_loops_outermost_first() -> None:
    found = fields(nested(), "inner_body")

    assert list(found) == [*STANDARD, "foreach", "outer_item", "loop_item", "loop_index", "inner_item"]
    assert found["outer_item"].schema == CUSTOMER
    assert found["inner_item"].schema == ORDER
    assert found["loop_item"].schema == ORDER
    entries = found["foreach"].schema["properties"]
    assert list(entries) == ["outer", "inner"]
    assert entries["outer"]["properties"]["item"] == CUSTOMER
    assert entries["inner"]["properties"]["index"] == {"type": "integer"}
    assert found["foreach"].availability == "available" and found["foreach"].description


def test_every_field_of_a_nested_context_is_required() -> None:
    schema = context_schema_for_node(nested(), "inner_body")

    assert schema["required"] == sorted(schema["properties"])
    assert schema["properties"]["foreach"]["required"] == ["inner", "outer"]


def test_inner_completion_schema_restores_outer_structured_entry() -> None:
    schema = context_schema_for_node(nested(), "after_inner")

    assert list(schema["properties"]["foreach"]["properties"]) == ["outer"]
    assert schema["properties"]["loop_item"] == CUSTOMER
    assert "inner_item" not in schema["properties"]
    assert context_schema_for_node(nested(), "after") == root_context_schema()


def test_a_loop_step_stands_in_its_outer_region() -> None:
    schemas = context_schemas_by_node(nested())

    assert schemas["outer"] == root_context_schema()
    assert list(schemas["inner"]["properties"]["foreach"]["properties"]) == ["outer"]


@pytest.mark.parametrize(
    ("over", "item"),
    [
        ("context.outer_item.orders", ORDER),
        ("context.loop_item.orders", ORDER),
        ("context.foreach.outer.item.gone", {}),
        ("context.foreach.inner.item.orders", {}),
        ("input.customers", CUSTOMER),
        ("input", {}),
        ("state.values", {}),
    ],
)
def test_the_list_of_an_inner_loop_is_found_in_the_outer_context(over: str, item: dict[str, Any]) -> None:
    assert fields(nested(over), "inner_body")["loop_item"].schema == item


def test_recursive_items_can_be_looped_over_again() -> None:
    definitions = {
        "Tree": {"type": "object", "properties": {"below": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}}}
    }
    checked = workflow(
        ["outer.loop -> inner", "inner.loop -> work", "work.ok -> inner", "inner.done -> outer", "outer.done -> END"],
        [foreach("outer", "state.trees"), foreach("inner", "context.foreach.outer.item.below")],
        state_schema={
            "properties": {"trees": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}},
            "$defs": definitions,
        },
    )

    entries = context_schema_for_node(checked, "work")["properties"]["foreach"]["properties"]

    assert entries["inner"]["properties"]["item"] == {**definitions["Tree"], "$defs": definitions}


def test_a_legal_cycle_keeps_its_stack() -> None:
    checked = workflow(
        ["f.loop -> a", "a.ok -> c", "c.true -> a", "c.false -> f", "f.done -> END"], [foreach("f"), condition("c")]
    )

    for step_id in ("a", "c"):
        assert list(fields(checked, step_id)["foreach"].schema["properties"]) == ["f"]


def test_unreachable_and_ambiguous_steps_have_no_schema() -> None:
    checked = workflow(
        ["c.true -> f", "c.false -> a", "f.loop -> a", "a.ok -> f", "f.done -> END"],
        [condition("c"), foreach("f"), node("detached")],
    )

    assert set(context_schemas_by_node(checked)) == {"c", "f"}
    assert set(context_fields_by_node(checked)) == {"c", "f"}
    with pytest.raises(KeyError):
        context_schema_for_node(checked, "detached")


def test_a_given_analysis_is_used_as_it_is() -> None:
    checked = nested()
    regions = analyze_control_regions(checked)
    del regions.owner_stack_by_node["after"]

    assert "after" not in context_schemas_by_node(checked, control_regions=regions)
    assert "after" not in context_fields_by_node(checked, control_regions=regions)


def test_an_owner_in_a_given_analysis_that_is_no_loop_has_any_item() -> None:
    checked = nested()
    regions = analyze_control_regions(checked)
    regions.owner_stack_by_node["after"] = ("after_inner",)

    found = context_schemas_by_node(checked, control_regions=regions)["after"]["properties"]

    assert (found["loop_item"], list(found["foreach"]["properties"])) == ({}, ["after_inner"])


def test_a_colliding_alias_hides_no_other_field() -> None:
    checked = nested()
    checked.nodes[1].as_ = "outer_item"  # pyright: ignore[reportAttributeAccessIssue]

    found = context_fields_by_node(checked)["inner_body"]

    assert [field.name for field in found].count("outer_item") == 1
    assert fields(checked, "inner_body")["outer_item"].schema == CUSTOMER
    assert {"loop_item", "loop_index"} <= {field.name for field in found}


@pytest.mark.parametrize("alias", ["scope_id", "foreach", "_scoped"])
def test_an_outer_alias_that_collides_hides_no_field_either(alias: str) -> None:
    checked = nested()
    checked.nodes[0].as_ = alias  # pyright: ignore[reportAttributeAccessIssue]

    names = [field.name for field in context_fields_by_node(checked)["inner_body"]]

    assert names == [*STANDARD, "foreach", "loop_item", "loop_index", "inner_item"]


@pytest.mark.parametrize("alias", ["", None, 7])
def test_a_loop_without_a_usable_alias_has_its_item_and_index_all_the_same(alias: object) -> None:
    checked = nested()
    for loop in checked.nodes[:2]:
        loop.as_ = alias  # pyright: ignore[reportAttributeAccessIssue]

    assert list(fields(checked, "inner_body")) == [*STANDARD, "foreach", "loop_item", "loop_index"]


def test_warnings_say_what_keeps_the_analysis_incomplete() -> None:
    checked = workflow(
        ["f.done -> END", "f.other -> gone", "lost.ok -> END"], [foreach("f"), node("detached")], start="f"
    )
    checked.nodes = [step for step in checked.nodes if step.id in ("f", "detached")]

    warnings = "\n".join(context_analysis_warnings(checked))

    assert "unknown step 'gone'" in warnings
    assert "unknown step 'lost'" in warnings
    assert "foreach 'f' has no edge for outcome 'loop'" in warnings
    assert "nodes[detached]" in warnings
    assert context_analysis_warnings(nested()) == []
    assert "start 'nowhere'" in context_analysis_warnings(workflow(["a.ok -> END"], start="nowhere"))[0]
