from __future__ import annotations

import json
from copy import deepcopy

import pytest
from pydantic import ValidationError

import wf_core.models
from wf_core.models import Edge, NodeResult, Workflow
from wf_core.validation import validate_workflow

CHARGE_ALL: dict[str, object] = {
    "name": "charge_all",
    "input_schema": {"type": "object", "properties": {"orders": {"type": "array", "items": {"type": "object"}}}},
    "state_schema": {
        "type": "object",
        "properties": {
            "orders": {"type": "array", "items": {"type": "object"}},
            "receipts": {"type": "array", "reducer": "wf.std.append"},
        },
    },
    "output_schema": {"type": "object", "properties": {"receipts": {"type": "array"}}},
    "output": [{"target": "receipts", "path": "state.receipts"}],
    "outcomes": ["ok"],
    "node_defs": [
        {
            "name": "charge",
            "outcomes": ["ok"],
            "input_schema": {"type": "object", "properties": {"order": {}, "mode": {}, "tags": {}}},
            "output_schema": {"type": "object", "properties": {"receipt": {}}, "required": ["receipt"]},
        }
    ],
    "start": "each",
    "nodes": [
        {
            "id": "each",
            "type": "foreach",
            "over": "state.orders",
            "as": "order",
            "mode": "serial",
            "item_error": {"action": "fail", "collect_to": None},
            "concurrent": None,
        },
        {
            "id": "pay",
            "type": "node",
            "node": "charge",
            "input": [
                {"target": "order", "path": "context.foreach.each.item"},
                {"target": "mode", "value": "fast"},
                {
                    "target": "tags",
                    "expression": {
                        "kind": "array",
                        "items": [{"kind": "literal", "value": "auto"}, {"kind": "path", "path": "context.loop_index"}],
                    },
                },
            ],
            "output": [{"source": "receipt", "target": "state.receipts"}],
        },
    ],
    "edges": [
        {"from": "each", "outcome": "loop", "to": "pay"},
        {"from": "pay", "outcome": "ok", "to": "each"},
        {"from": "each", "outcome": "done", "to": "__end__"},
    ],
}


def contains(whole: object, part: object) -> bool:
    """Whether every key and item of the part stands in the whole with the same value."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(key in whole and contains(whole[key], part[key]) for key in part)
    if isinstance(part, list):
        return (
            isinstance(whole, list)
            and len(whole) == len(part)
            and all(contains(a, b) for a, b in zip(whole, part, strict=True))
        )
    return whole == part


def test_the_dump_of_a_canonical_workflow_is_canonical_and_parses_again() -> None:
    workflow = Workflow.model_validate(CHARGE_ALL)

    for dump in (workflow.model_dump(mode="json"), workflow.model_dump(), json.loads(workflow.model_dump_json())):
        assert contains(dump, CHARGE_ALL)
        assert Workflow.model_validate(dump) == workflow
        assert Workflow.model_validate(dump).model_dump() == dump


def test_a_dump_by_python_names_parses_too() -> None:
    workflow = Workflow.model_validate(CHARGE_ALL)

    assert Workflow.model_validate(workflow.model_dump(by_alias=False)) == workflow


def test_parsing_leaves_its_argument_unchanged() -> None:
    before = deepcopy(CHARGE_ALL)

    Workflow.model_validate(CHARGE_ALL)

    assert before == CHARGE_ALL


def test_defaults_are_no_output_bindings_no_definitions_and_the_outcome_ok() -> None:
    workflow = Workflow.model_validate(
        {
            "name": "w",
            "input_schema": {},
            "state_schema": {},
            "output_schema": {},
            "start": "e",
            "nodes": [{"type": "end", "id": "e"}],
            "edges": [],
            "layout": "ignored",
        }
    )

    assert (workflow.output, workflow.node_defs, workflow.outcomes) == ([], [], ["ok"])
    assert "layout" not in workflow.model_dump()


@pytest.mark.parametrize(
    "change",
    [
        {"outcomes": []},
        {"nodes": [{"id": "x", "type": "unknown"}]},
        {"edges": [{"from": "a", "outcome": "ok"}]},
        {"input_schema": {"type": "nothing"}},
        {"output": [{"target": "a", "expression": {"kind": "literal", "value": 1}}]},
    ],
)
def test_a_malformed_workflow_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Workflow.model_validate({**CHARGE_ALL, **change})


@pytest.mark.parametrize(
    "missing", ["name", "input_schema", "state_schema", "output_schema", "start", "nodes", "edges"]
)
def test_a_workflow_needs_its_parts(missing: str) -> None:
    with pytest.raises(ValidationError, match=missing):
        Workflow.model_validate({key: value for key, value in CHARGE_ALL.items() if key != missing})


def test_every_compatibility_shape_parses_to_canonical_form() -> None:
    old = deepcopy(CHARGE_ALL)
    old["state_schema"] = {
        "fields": {"orders": {"type": "array"}, "receipts": {"type": "array", "reducer": "wf.std.append"}}
    }
    old["nodes"] = [
        {
            "id": "each",
            "type": "foreach",
            "over": "state.orders",
            "as": "order",
            "mode": "parallel",
            "parallel": {},
            "on_item_error": "skip",
        },
        {
            "id": "pay",
            "type": "node",
            "node": "charge",
            "in_map": {"context.foreach.each.item": "order"},
            "input_values": {"mode": "fast"},
            "out_map": {"receipt": "state.receipts"},
        },
        {
            "id": "ask",
            "type": "interrupt",
            "kind": "k",
            "request_map": {"state.orders": "o"},
            "out_map": {"a": "state.a"},
        },
        {"id": "meet", "type": "join"},
    ]

    text = Workflow.model_validate(old).model_dump_json()

    for key in ("in_map", "input_values", "out_map", "request_map", "fields", "parallel", "on_item_error"):
        assert f'"{key}"' not in text
    assert Workflow.model_validate_json(text).model_dump_json() == text


def test_an_edge_reads_both_names_and_dumps_the_key_from() -> None:
    edge = Edge(from_="a", outcome="ok", to="b")

    assert edge == Edge.model_validate({"from": "a", "outcome": "ok", "to": "b", "note": "ignored"})
    assert edge.model_dump() == {"from": "a", "outcome": "ok", "to": "b"}
    assert "from" in Edge.model_json_schema()["required"]


def test_models_may_be_overwritten_without_a_check() -> None:
    edge = Edge(from_="a", outcome="ok", to="b")

    edge.to = 1  # type: ignore[assignment]

    assert edge.to == 1


def test_a_workflow_reports_its_own_structure() -> None:
    workflow = Workflow.model_validate(CHARGE_ALL)

    assert workflow.validate_structure() == validate_workflow(workflow)


def test_a_node_result_keeps_what_a_handler_adds() -> None:
    result = NodeResult.model_validate({"outcome": "ok", "cost": 3})

    assert (result.output, result.meta) == ({}, {})
    assert result.model_dump()["cost"] == 3


def test_the_package_offers_exactly_what_it_lists() -> None:
    listed = wf_core.models.__all__

    assert len(set(listed)) == len(listed)
    assert all(hasattr(wf_core.models, name) for name in listed)
