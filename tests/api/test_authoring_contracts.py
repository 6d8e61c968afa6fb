"""The options an author chooses paths from."""

from __future__ import annotations

from typing import Any

import pytest

from wf_api.authoring_contracts import context_path_options_for_node, schema_path_options
from wf_core.models import Workflow

ORDER = {
    "type": "object",
    "properties": {"sku": {"type": "string"}, "size": {"type": "object", "properties": {"cm": {}}}},
}
CUSTOMER = {"type": "object", "properties": {"name": {"type": "string"}, "orders": {"type": "array", "items": ORDER}}}


def nested() -> Workflow:
    return Workflow.model_validate(
        {
            "name": "nested",
            "input_schema": {"type": "object", "properties": {"customers": {"type": "array", "items": CUSTOMER}}},
            "state_schema": {"type": "object"},
            "output_schema": {"type": "object"},
            "node_defs": [{"name": "work", "input_schema": {}, "output_schema": {}, "outcomes": ["ok"]}],
            "start": "customers.v2",
            "nodes": [
                {"id": "customers.v2", "type": "foreach", "over": "input.customers", "as": "customer"},
                {
                    "id": "orders",
                    "type": "foreach",
                    "over": 'context.foreach."customers.v2".item.orders',
                    "as": "order",
                },
                {"id": "pay", "type": "node", "node": "work"},
                {"id": "lost", "type": "node", "node": "work"},
            ],
            "edges": [
                {"from": "customers.v2", "outcome": "loop", "to": "orders"},
                {"from": "orders", "outcome": "loop", "to": "pay"},
                {"from": "pay", "outcome": "ok", "to": "orders"},
                {"from": "orders", "outcome": "done", "to": "customers.v2"},
                {"from": "customers.v2", "outcome": "done", "to": "__end__"},
            ],
        }
    )


def paths(options: list[Any]) -> list[str]:
    return [option["path"] for option in options]


def test_a_step_is_offered_item_and_index_of_every_active_loop_quoted_as_needed() -> None:
    offered = paths(context_path_options_for_node(nested(), "pay"))

    for path in (
        'context.foreach."customers.v2".item',
        'context.foreach."customers.v2".index',
        'context.foreach."customers.v2".item.name',
        "context.foreach.orders.item",
        "context.foreach.orders.index",
        "context.foreach.orders.item.size.cm",
        "context.loop_item",
        "context.customer",
        "context.order",
        "context.scope_id",
    ):
        assert path in offered
    assert 'context.foreach."customers.v2".item.orders.sku' not in offered
    assert len(offered) == len(set(offered))


def test_what_is_offered_can_be_bound() -> None:
    document = nested().model_dump(mode="json", by_alias=True)
    offered = paths(context_path_options_for_node(nested(), "pay"))
    fields = {f"f{i}": {} for i in range(len(offered))}
    document["node_defs"][0]["input_schema"] = {"type": "object", "properties": fields}
    pay = next(node for node in document["nodes"] if node["id"] == "pay")
    pay["input"] = [{"target": f"f{i}", "path": path} for i, path in enumerate(offered)]
    document["nodes"] = [node for node in document["nodes"] if node["id"] != "lost"]

    assert Workflow.model_validate(document).validate_structure().errors == []


@pytest.mark.parametrize("node_id", ["lost", "nobody"])
def test_a_step_that_is_unreachable_or_unknown_is_offered_nothing(node_id: str) -> None:
    assert context_path_options_for_node(nested(), node_id) == []


def test_the_options_of_a_schema_come_in_declaration_order_and_a_recursive_definition_once() -> None:
    tree = {"type": "object", "properties": {"value": {}, "next": {"$ref": "#/$defs/tree"}}, "required": ["value"]}
    schema = {
        "$defs": {"tree": tree},
        "type": "object",
        "properties": {"the_root": {"$ref": "#/$defs/tree"}, "b": {"title": "Bee"}},
    }

    options = schema_path_options(schema, root="state", uses=["step_input"])

    assert paths(options) == ["state.the_root", "state.the_root.value", "state.the_root.next", "state.b"]
    assert [option["label"] for option in options] == ["The Root", "Value", "Next", "Bee"]
    assert [option["required"] for option in options] == [False, True, False, False]


def test_an_unknown_root_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown root 'secrets'"):
        schema_path_options({}, root="secrets", uses=[])
