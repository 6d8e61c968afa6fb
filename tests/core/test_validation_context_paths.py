"""Context paths and aliases: what a step may read of the loops around it, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.workflow_documents import condition, end, foreach, found, issue_of, node, reads, workflow
from wf_core.analysis import context_schemas_by_node
from wf_core.models import InputPathBinding, NodeUse, Workflow
from wf_core.paths import GraphSourcePath
from wf_core.validation import ValidationIssueCode, ValidationReport, validate_workflow
from wf_core.validation.context_paths import validate_context_paths

INVALID = ValidationIssueCode.INVALID_CONTEXT_PATH
NESTED = [
    "outer.loop -> inner",
    "inner.loop -> work",
    "work.ok -> inner",
    "inner.done -> outer",
    "outer.done -> after",
    "after.ok -> END",
]


def nested(
    work_reads: str = "context.foreach.inner.item", after_reads: str = "input.value", **changes: Any
) -> Workflow:
    return workflow(
        NESTED,
        [
            foreach("outer"),
            foreach("inner", **changes),
            node("work", input=[reads(work_reads)]),
            node("after", input=[reads(after_reads)]),
        ],
    )


def refused(checked: Workflow) -> tuple[str, str]:
    issue = issue_of(checked, INVALID)
    return issue.path, issue.message


@pytest.mark.parametrize(
    "path",
    [
        "context.foreach.inner.item",
        "context.foreach.inner.item.name",
        "context.foreach.inner.index",
        "context.foreach.inner.lineage_id",
        "context.foreach.inner",
        "context.foreach",
        "context",
        "context.loop_item.name",
        "context.loop_index",
        "context.inner_item",
        "context.prior_outcome",
        "context.parent_lineage_id",
    ],
)
def test_active_structured_foreach_item_path_is_valid(path: str) -> None:
    assert found(nested(path)) == []


@pytest.mark.parametrize(
    "path", ["context.foreach.outer.item.name", "context.outer_item", "context.foreach.inner.item"]
)
def test_nested_body_can_read_outer_and_inner_entries(path: str) -> None:
    assert found(nested(path)) == []


@pytest.mark.parametrize(
    "path", ["context.foreach.inner.item", "context.foreach.outer.item", "context.loop_item", "context.inner_item"]
)
def test_inactive_foreach_entry_is_rejected(path: str) -> None:
    place, message = refused(nested(after_reads=path))

    assert place == "nodes[3].input[0].path"
    assert path in message and "after" in message


def test_missing_foreach_id_is_rejected() -> None:
    place, message = refused(nested("context.foreach.orders.item"))

    assert place == "nodes[2].input[0].path"
    assert "context.foreach.orders.item" in message and "work" in message
    assert "no foreach 'orders'" in message


def test_an_entry_of_the_calling_workflow_is_rejected() -> None:
    child = workflow(["work.ok -> END"], [node("work", input=[reads("context.foreach.callers_loop.item")])])

    assert refused(child)[0] == "nodes[0].input[0].path"
    assert "caller" in issue_of(child, INVALID).hint


@pytest.mark.parametrize("field", ["outcome", "activation", "items"])
def test_unknown_foreach_entry_field_is_rejected(field: str) -> None:
    place, message = refused(nested(f"context.foreach.inner.{field}"))

    assert place == "nodes[2].input[0].path"
    assert f"declares no field '{field}'" in message


@pytest.mark.parametrize(
    "path",
    [
        "context.foreach.inner.item.age",
        "context.foreach.inner.item.name.first",
        "context.foreach.inner.index.x",
        "context.unknown",
        "context.scope_id.x",
        "context.inner",
    ],
)
def test_only_declared_properties_can_be_read(path: str) -> None:
    assert refused(nested(path))[0] == "nodes[2].input[0].path"


@pytest.mark.parametrize("items", [{}, {"type": "object"}, {"type": "object", "additionalProperties": True}, True])
def test_below_an_open_item_nothing_can_be_read(items: Any) -> None:
    def over(path: str) -> Workflow:
        return workflow(
            ["f.loop -> work", "work.ok -> f", "f.done -> END"],
            [foreach("f"), node("work", input=[reads(path)])],
            input_schema={"properties": {"items": {"type": "array", "items": items}}},
        )

    assert found(over("context.foreach.f.item")) == []
    assert found(over("context.foreach.f.item.name")) == [("invalid_context_path", "nodes[1].input[0].path")]


def test_items_of_an_array_cannot_be_addressed() -> None:
    row = {"type": "object", "properties": {"cells": {"type": "array", "items": {"type": "string"}}}}
    checked = workflow(
        ["f.loop -> work", "work.ok -> f", "f.done -> END"],
        [foreach("f"), node("work", input=[reads("context.loop_item.cells.0")])],
        input_schema={"properties": {"items": {"type": "array", "items": row}}},
    )

    assert refused(checked)[0] == "nodes[1].input[0].path"


def test_unreachable_node_does_not_receive_root_context_fallback() -> None:
    checked = workflow(["work.ok -> END"], [node("work"), node("lost", input=[reads("context.scope_id")])])

    assert found(checked) == [
        ("unreachable_node", "nodes[lost]"),
        ("invalid_context_path", "nodes[1].input[0].path"),
    ]


def test_a_step_in_two_places_cannot_read_any_context() -> None:
    checked = workflow(
        ["c.true -> f", "c.false -> a", "f.loop -> a", "a.ok -> f", "f.done -> END"],
        [condition("c"), foreach("f"), node("a", input=[reads("context")])],
    )

    assert found(checked) == [
        ("foreach_region_conflict", "nodes[a]"),
        ("invalid_context_path", "nodes[2].input[0].path"),
    ]


def test_workflow_output_cannot_read_completed_foreach_entry() -> None:
    checked = nested()

    for path, sound in (
        ("context.scope_id", True),
        ("context.foreach", True),
        ("context.foreach.outer.item", False),
        ("context.loop_item", False),
    ):
        checked.output = [InputPathBinding.model_validate(reads(path))]
        assert found(checked) == ([] if sound else [("invalid_context_path", "output[0].path")])
    assert "workflow_output" in issue_of(checked, INVALID).message


MISSING = "context.foreach.missing.item"


@pytest.mark.parametrize(
    ("step", "place"),
    [
        pytest.param(node("s", input=[reads(MISSING)]), "nodes[0].input[0].path", id="node input"),
        pytest.param(
            node(
                "s",
                input=[
                    {"target": "other", "value": 1},
                    {
                        "target": "value",
                        "expression": {
                            "kind": "object",
                            "fields": {
                                "deep": {
                                    "kind": "array",
                                    "items": [{"kind": "literal", "value": 1}, {"kind": "path", "path": MISSING}],
                                }
                            },
                        },
                    },
                ],
            ),
            "nodes[0].input[1].expression.fields.deep.items[1].path",
            id="nested expression",
        ),
        pytest.param(
            node("s", input=[{"target": "value", "expression": {"kind": "path", "path": MISSING}}]),
            "nodes[0].input[0].expression.path",
            id="expression that is a path",
        ),
        pytest.param(
            {
                "id": "s",
                "type": "subgraph",
                "workflow": "child",
                "input_schema": {"properties": {"value": {}}},
                "input": [reads(MISSING)],
            },
            "nodes[0].input[0].path",
            id="subgraph input",
        ),
        pytest.param(condition("s", {"op": "exists", "path": MISSING}), "nodes[0].check.path", id="exists"),
        pytest.param(
            condition(
                "s",
                {
                    "op": "or",
                    "args": [
                        {"op": "exists", "path": "input.value"},
                        {"op": "not", "arg": {"op": "eq", "left": {"path": MISSING}, "right": {"value": 1}}},
                    ],
                },
            ),
            "nodes[0].check.args[1].arg.left.path",
            id="nested condition, left operand",
        ),
        pytest.param(
            condition("s", {"op": "ne", "left": {"value": 1}, "right": {"path": MISSING}}),
            "nodes[0].check.right.path",
            id="right operand",
        ),
        pytest.param(foreach("s", MISSING), "nodes[0].over", id="foreach source"),
        pytest.param({"id": "s", "type": "wait", "until": MISSING}, "nodes[0].until", id="time of a wait"),
        pytest.param(
            {"id": "s", "type": "interrupt", "kind": "approval", "request": [reads(MISSING)]},
            "nodes[0].request[0].path",
            id="interrupt request",
        ),
        pytest.param(
            {
                "id": "s",
                "type": "interrupt",
                "kind": "approval",
                "request": [
                    {"target": "x", "expression": {"kind": "array", "items": [{"kind": "path", "path": MISSING}]}}
                ],
            },
            "nodes[0].request[0].expression.items[0].path",
            id="interrupt request expression",
        ),
    ],
)
def test_every_place_that_reads_context_is_checked(step: dict[str, Any], place: str) -> None:
    outcomes = {"condition": ["true", "false"], "interrupt": ["submitted"], "wait": ["elapsed"]}.get(
        step["type"], ["ok"]
    )
    routes = [f"s.{outcome} -> END" for outcome in outcomes]
    if step["type"] == "foreach":
        routes = ["s.loop -> work", "work.ok -> s", "s.done -> END"]
    checked = workflow(routes, [step])

    assert found(checked) == [("invalid_context_path", place)]
    issue = issue_of(checked, INVALID)
    assert MISSING in issue.message and "'s'" in issue.message


def test_a_loop_cannot_read_its_own_entry() -> None:
    checked = nested(over="context.foreach.inner.item")

    assert found(checked) == [("invalid_context_path", "nodes[1].over")]


def test_a_quoted_loop_id_is_one_segment() -> None:
    checked = workflow(
        ["orders.v2.loop -> work", "work.ok -> orders.v2", "orders.v2.done -> END"],
        [foreach("orders.v2", **{"as": "order"}), node("work", input=[reads('context.foreach."orders.v2".item')])],
    )

    assert found(checked) == []
    use = checked.nodes[1]
    assert isinstance(use, NodeUse) and isinstance(use.input[0], InputPathBinding)
    use.input[0].path = GraphSourcePath.context("foreach.orders.v2.item")
    assert refused(checked)[0] == "nodes[1].input[0].path"


def test_a_loop_over_again_sees_its_entry_after_done_led_back() -> None:
    checked = workflow(
        ["again.true -> f", "again.false -> stop", "f.loop -> work", "work.ok -> f", "f.done -> again"],
        [condition("again"), foreach("f"), node("work", input=[reads("context.f_item")]), end("stop")],
    )

    assert found(checked) == []


def test_given_schemas_are_the_ones_that_count() -> None:
    checked = nested("context.custom.deep")
    schemas = context_schemas_by_node(checked)
    custom = {"properties": {"custom": {"$ref": "#/$defs/C"}}, "$defs": {"C": {"properties": {"deep": {}}}}}

    report = ValidationReport()
    validate_context_paths(checked, context_schemas={**schemas, "work": custom}, report=report)
    assert report.ok

    del custom["$defs"]
    validate_context_paths(checked, context_schemas={**schemas, "work": custom}, report=report)
    assert [issue.path for issue in report.errors] == ["nodes[2].input[0].path"]


@pytest.mark.parametrize(
    "alias",
    [
        "prior_outcome",
        "activated_incoming_edge",
        "scope_id",
        "lineage_id",
        "parent_lineage_id",
        "foreach",
        "loop_item",
        "loop_index",
        "_scoped",
        "",
        "  ",
    ],
)
def test_foreach_alias_cannot_use_reserved_context_name(alias: str) -> None:
    assert found(nested(**{"as": alias})) == [("foreach_context_alias_conflict", "nodes[1].as")]


def test_nested_active_foreach_aliases_must_be_unique() -> None:
    checked = nested(**{"as": "outer_item"})

    assert found(checked) == [("foreach_context_alias_conflict", "nodes[1].as")]
    message = validate_workflow(checked).errors[0].message
    assert "'outer_item'" in message and "'outer'" in message


def test_an_alias_collides_with_every_loop_around_and_is_reported_once() -> None:
    checked = workflow(
        [
            "a.loop -> b",
            "b.loop -> c",
            "c.loop -> work",
            "work.ok -> c",
            "c.done -> b",
            "b.done -> a",
            "a.done -> END",
        ],
        [foreach("a", **{"as": "x"}), foreach("b", **{"as": "y"}), foreach("c", **{"as": "x"})],
    )

    assert found(checked) == [("foreach_context_alias_conflict", "nodes[2].as")]


def test_sibling_foreach_aliases_may_match_when_never_active_together() -> None:
    checked = workflow(
        ["f.loop -> a", "a.ok -> f", "f.done -> g", "g.loop -> b", "b.ok -> g", "g.done -> END"],
        [
            foreach("f", **{"as": "item"}),
            foreach("g", **{"as": "item"}),
            node("a", input=[reads("context.item")]),
            node("b", input=[reads("context.item")]),
        ],
    )

    assert found(checked) == []
