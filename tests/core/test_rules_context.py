"""What a step may read of the loops around it: one derived context for every kind of reader."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.engines import echo
from tests.support.workflow_documents import condition, foreach, found, node, reads, workflow
from wf_core.models import Workflow
from wf_core.run_state import RunStatus, RuntimeContext
from wf_core.runtime import PreparedSubgraph, execute_workflow, resume_workflow

CONCURRENT: dict[str, Any] = {"mode": "concurrent", "concurrent": {"max_active": 2, "max_outstanding": 3}}
MODES = pytest.mark.parametrize("mode", [{}, CONCURRENT], ids=["serial", "concurrent"])
ORDER = {"type": "object", "properties": {"sku": {}}}
INPUT = {
    "type": "object",
    "properties": {
        "customers": {
            "type": "array",
            "items": {"type": "object", "properties": {"name": {}, "orders": {"type": "array", "items": ORDER}}},
        }
    },
}
PORTS = {
    "input_schema": {"type": "object", "properties": {"value": {}, "other": {}}},
    "output_schema": {"type": "object", "properties": {"value": {}, "other": {}}},
}
GIVEN = {"customers": [{"name": "Ada", "orders": [{"sku": "A1"}, {"sku": "A2"}]}, {"name": "Bob", "orders": []}]}


@MODES
def test_a_single_loop_is_the_one_entry_inside_and_none_before_and_after(mode: dict[str, Any]) -> None:
    seen: list[tuple[str, list[str], list[str]]] = []

    def work(payload: dict[str, Any], context: RuntimeContext) -> dict[str, Any]:
        loop_keys = [key for key in payload["value"] if key in ("loop_item", "loop_index", "each_item")]
        assert list(payload["value"]["foreach"]) == list(context.foreach)
        seen.append((context.current_node_id, list(context.foreach), loop_keys))
        return {}

    made = workflow(
        ["before.ok -> each", "each.loop -> inside", "inside.ok -> each", "each.done -> after", "after.ok -> END"],
        [
            node("before", input=[reads("context")]),
            foreach("each", **mode),
            node("inside", input=[reads("context")]),
            node("after", input=[reads("context")]),
        ],
    )
    assert found(made) == []
    execute_workflow(made, {"items": [{"name": "a"}]}, {"work": work})

    assert [(name, entries, sorted(keys)) for name, entries, keys in seen] == [
        ("before", [], []),
        ("inside", ["each"], ["each_item", "loop_index", "loop_item"]),
        ("after", [], []),
    ]


def everywhere(outer: dict[str, Any], inner: dict[str, Any]) -> Workflow:
    """customers -> orders -> check -> work -> call -> ask, every one of which reads both loops."""
    both = [reads("context.foreach.customers.item.name"), reads("context.foreach.orders.item", "other")]
    return workflow(
        [
            "customers.loop -> orders",
            "orders.loop -> check",
            "check.true -> work",
            "check.false -> orders",
            "work.ok -> call",
            "call.ok -> ask",
            "ask.submitted -> orders",
            "orders.done -> customers",
            "customers.done -> END",
        ],
        [
            foreach("customers", "input.customers", **outer),
            foreach("orders", "context.foreach.customers.item.orders", **inner),
            condition(
                "check",
                {
                    "op": "and",
                    "args": [
                        {
                            "op": "eq",
                            "left": {"path": "context.foreach.customers.item.name"},
                            "right": {"path": "context.customers_item.name"},
                        },
                        {
                            "op": "eq",
                            "left": {"path": "context.foreach.orders.index"},
                            "right": {"path": "context.loop_index"},
                        },
                    ],
                },
            ),
            node("work", input=both),
            {
                "id": "call",
                "type": "subgraph",
                "workflow": "child",
                **PORTS,
                "input": both,
                "output": [{"source": ".", "target": "state.values"}],
            },
            {"id": "ask", "type": "interrupt", "kind": "approval", "request": both},
        ],
        input_schema=INPUT,
        output=[{"target": "values", "path": "state.values"}, {"target": "loops", "path": "context.foreach"}],
        output_schema={"type": "object", "properties": {"values": {}, "loops": {}}},
    )


@MODES
@pytest.mark.parametrize("inner", [{}, CONCURRENT], ids=["serial", "concurrent"])
def test_every_kind_of_reader_sees_the_same_loops(mode: dict[str, Any], inner: dict[str, Any]) -> None:
    made = everywhere(mode, inner)
    assert found(made) == []
    child = workflow(
        ["work.ok -> END"],
        [node("work", input=[reads("input.value"), reads("input.other", "other")])],
        name="child",
        **PORTS,
        output=[reads("input.value"), reads("context.foreach", "other")],
    )
    subgraphs = {"child": PreparedSubgraph(child, {"work": echo})}
    run = execute_workflow(made, GIVEN, {"work": echo}, subgraphs=subgraphs)
    asked: list[Any] = []
    while run.status is RunStatus.INTERRUPTED:
        assert run.interrupt is not None
        asked.append(run.interrupt.payload)
        run = resume_workflow(made, run, {"work": echo}, resume_payload={}, subgraphs=subgraphs)

    expected = [{"value": "Ada", "other": {"sku": sku}} for sku in ("A1", "A2")]
    inputs = [e.resolved_input for e in run.trace if e.node_id == "work" and "subgraph" not in e.frame_id]
    assert sorted(map(repr, inputs)) == sorted(map(repr, expected))
    assert sorted(map(repr, asked)) == sorted(map(repr, expected))
    calls = [e.resolved_input for e in run.trace if e.node_id == "call"]
    assert sorted(map(repr, calls)) == sorted(map(repr, expected))
    assert [e.resolved_input["count"] for e in run.trace if e.node_id == "orders" and e.outcome == "done"] == [
        2,
        0,
    ] or [e.resolved_input["count"] for e in run.trace if e.node_id == "orders" and e.outcome == "done"] == [0, 2]
    assert {e.outcome for e in run.trace if e.node_id == "check"} == {"true"}
    assert run.output == {"values": [{"value": "Ada", "other": {}}] * 2, "loops": {}}
