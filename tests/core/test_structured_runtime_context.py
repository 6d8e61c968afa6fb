"""The context of active loops: derived from persisted frames, the same for bindings and handlers, closed on damage."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from tests.support.engines import echo, fresh_run
from tests.support.workflow_documents import condition, foreach, node, reads, workflow
from wf_core.errors import WorkflowExecutionError
from wf_core.models import Workflow
from wf_core.run_state import (
    ITEM_FRAME,
    SUBGRAPH_FRAME,
    WORKFLOW_FRAME,
    ExecutionFrame,
    ForeachContext,
    RunState,
    RunStatus,
    RuntimeContext,
    RuntimeScope,
)
from wf_core.runtime import execute_workflow, resume_workflow, step_workflow
from wf_core.runtime.ops.frames import FrameContextView, frame_context_view

ADA = {"name": "Ada", "orders": [{"sku": "A-17"}, {"sku": "A-18"}]}
BOB = {"name": "Bob", "orders": [{"sku": "B-1"}]}
CONCURRENT = {"mode": "concurrent", "concurrent": {"max_active": 4, "max_outstanding": 20}}
CUSTOMERS_INPUT = {
    "type": "object",
    "properties": {
        "customers": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"name": {}, "orders": {"type": "array", "items": {"type": "object"}}},
            },
        }
    },
}


# ---- frames by hand


def root_frame() -> ExecutionFrame:
    return ExecutionFrame("root", WORKFLOW_FRAME, "customers")


def item_frame(
    frame_id: str, parent: str, loop: str, index: int, item: Any, alias: str, **changes: Any
) -> ExecutionFrame:
    return ExecutionFrame(
        frame_id,
        ITEM_FRAME,
        "work",
        parent_frame_id=parent,
        lineage_id=f"lineage of {frame_id}",
        metadata={
            "foreach_node_id": loop,
            "activation_id": f"visit of {loop}",
            "loop_index": index,
            "loop_item": item,
            "loop_alias": alias,
        },
        **changes,
    )


def run_of(*frames: ExecutionFrame) -> RunState:
    run = RunState("example", RunStatus.RUNNING, {}, {})
    run.scopes["root"] = RuntimeScope("root", "example", {}, run.state)
    run.frames = {frame.id: frame for frame in frames}
    return run


def nested_run() -> RunState:
    return run_of(
        root_frame(),
        item_frame("outer", "root", "customers", 0, ADA, "customer"),
        item_frame("inner", "outer", "orders", 1, {"sku": "A-18"}, "order"),
    )


def derived(run: RunState, frame_id: str) -> FrameContextView:
    return frame_context_view(run, run.frames[frame_id])


def damage(run: RunState, *, at: str) -> str:
    """The message with which the context of the inner frame is refused, for damage at a frame."""
    with pytest.raises(WorkflowExecutionError) as caught:
        derived(run, "inner")
    assert (caught.value.code, caught.value.path) == ("damaged", f"frames[{at}]")
    return str(caught.value)


def test_root_frame_has_empty_structured_foreach_context() -> None:
    context = derived(nested_run(), "root")

    assert context.foreach == {}
    assert context.graph["foreach"] == {}
    assert "loop_item" not in context.graph and "loop_index" not in context.graph


def test_nested_same_scope_frames_expose_outermost_to_innermost_context() -> None:
    context = derived(nested_run(), "inner")

    assert list(context.foreach) == ["customers", "orders"]
    assert context.foreach["orders"] == ForeachContext(
        node_id="orders",
        activation_id="visit of orders",
        frame_id="inner",
        scope_id="root",
        lineage_id="lineage of inner",
        index=1,
        item={"sku": "A-18"},
    )
    assert context.foreach["customers"].item == ADA


def test_graph_context_values_keep_all_aliases_and_innermost_loop_keys() -> None:
    graph = derived(nested_run(), "inner").graph

    assert graph["customer"] == ADA
    assert graph["order"] == graph["loop_item"] == {"sku": "A-18"}
    assert graph["loop_index"] == 1
    assert list(graph["foreach"]) == ["customers", "orders"]
    assert graph["foreach"]["customers"] == {
        "node_id": "customers",
        "activation_id": "visit of customers",
        "frame_id": "outer",
        "scope_id": "root",
        "lineage_id": "lineage of outer",
        "index": 0,
        "item": ADA,
    }
    assert (graph["scope_id"], graph["lineage_id"]) == ("root", "lineage of inner")
    assert graph["parent_lineage_id"] is graph["prior_outcome"] is graph["activated_incoming_edge"] is None


def test_context_ancestry_stops_at_runtime_scope_boundary() -> None:
    run = nested_run()
    child = ExecutionFrame("child", SUBGRAPH_FRAME, "first", parent_frame_id="inner", scope_id="child scope")
    inside = item_frame("inside", "child", "orders", 0, "x", "order", scope_id="child scope")
    run.frames.update({"child": child, "inside": inside})

    assert derived(run, "child").foreach == {}
    assert derived(run, "child").graph["foreach"] == {}
    assert list(derived(run, "inside").foreach) == ["orders"]
    assert derived(run, "inside").foreach["orders"].scope_id == "child scope"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("foreach_node_id", ""),
        ("foreach_node_id", 7),
        ("activation_id", None),
        ("activation_id", ""),
        ("loop_alias", ""),
        ("loop_alias", None),
        ("loop_alias", "loop_item"),
        ("loop_alias", "scope_id"),
        ("loop_index", -1),
        ("loop_index", True),
        ("loop_index", "0"),
    ],
)
def test_structured_context_rejects_malformed_foreach_metadata(key: str, value: object) -> None:
    run = nested_run()
    run.frames["outer"].metadata[key] = value

    assert "malformed" in damage(run, at="inner" if key == "loop_alias" and isinstance(value, str) else "outer")


@pytest.mark.parametrize("key", ["foreach_node_id", "activation_id", "loop_alias", "loop_index", "loop_item"])
def test_structured_context_rejects_missing_foreach_metadata(key: str) -> None:
    run = nested_run()
    del run.frames["outer"].metadata[key]

    with pytest.raises(WorkflowExecutionError, match=r"'outer'.*(malformed|missing|None)|malformed.*'outer'"):
        derived(run, "inner")


def test_a_null_item_is_an_item() -> None:
    run = nested_run()
    run.frames["inner"].metadata["loop_item"] = None

    assert derived(run, "inner").graph["order"] is None


def test_structured_context_rejects_missing_parent_frame() -> None:
    run = nested_run()
    del run.frames["outer"]

    assert damage(run, at="inner") == "missing parent frame 'outer' of frame 'inner'"


def test_structured_context_rejects_parent_cycle() -> None:
    run = nested_run()
    run.frames["outer"].parent_frame_id = "inner"

    assert damage(run, at="inner") == "cyclic execution frame ancestry at frame 'inner'"


def test_structured_context_rejects_duplicate_active_foreach_id() -> None:
    run = nested_run()
    run.frames["inner"].metadata["foreach_node_id"] = "customers"

    assert "duplicate active foreach id 'customers'" in damage(run, at="inner")


def test_structured_context_rejects_duplicate_active_alias() -> None:
    run = nested_run()
    run.frames["inner"].metadata["loop_alias"] = "customer"

    assert "duplicate active foreach alias 'customer' of foreach 'orders'" in damage(run, at="inner")


def test_context_read_does_not_mutate_run_state() -> None:
    run = nested_run()
    before = run.to_dict()

    derived(run, "inner")

    assert run.to_dict() == before


# ---- running


def nested(outer: dict[str, Any], inner: dict[str, Any], **changes: Any) -> Workflow:
    return workflow(
        [
            "customers.loop -> orders",
            "orders.loop -> work",
            "work.ok -> orders",
            "orders.done -> after",
            "after.ok -> customers",
            "customers.done -> END",
        ],
        [
            {**foreach("customers", "input.customers"), "as": "customer", **outer},
            {**foreach("orders", "context.foreach.customers.item.orders"), "as": "order", **inner},
            node(
                "work",
                input=[
                    reads("context.foreach.customers.item.name"),
                    reads("context.foreach.orders.item", "other"),
                ],
                output=[{"source": ".", "target": "state.values"}],
            ),
            node("after", node="after"),
        ],
        input_schema=CUSTOMERS_INPUT,
        output_schema={"type": "object", "properties": {"values": {}}},
        node_defs=[
            {
                "name": name,
                "input_schema": {"type": "object", "properties": {"value": {}, "other": {}}},
                "output_schema": {"type": "object", "properties": {"value": {}, "other": {}}},
                "outcomes": ["ok"],
            }
            for name in ("work", "after")
        ],
        **changes,
    )


GIVEN = {"customers": [ADA, BOB]}


def test_nested_handler_receives_outer_and_inner_typed_entries() -> None:
    seen: list[tuple[Any, ...]] = []

    def record(payload: dict[str, Any], context: RuntimeContext) -> dict[str, Any]:
        entry = context.foreach["orders"]
        assert isinstance(entry, ForeachContext)
        assert (entry.frame_id, entry.lineage_id) == (context.frame_id, context.lineage_id)
        seen.append((tuple(context.foreach), context.foreach["customers"].item, entry.item, entry.index))
        return {}

    execute_workflow(nested({}, {}, output=[]), GIVEN, {"work": lambda p, c: {**p, **record(p, c)}, "after": echo})

    assert seen == [
        (("customers", "orders"), ADA, {"sku": "A-17"}, 0),
        (("customers", "orders"), ADA, {"sku": "A-18"}, 1),
        (("customers", "orders"), BOB, {"sku": "B-1"}, 0),
    ]


@pytest.mark.parametrize("outer", [{}, CONCURRENT])
@pytest.mark.parametrize("inner", [{}, CONCURRENT])
def test_nested_graph_bindings_resolve_outer_and_inner_items(outer: dict[str, Any], inner: dict[str, Any]) -> None:
    run = execute_workflow(nested(outer, inner), GIVEN, {"work": echo, "after": echo})

    assert run.output["values"] == [
        {"value": "Ada", "other": {"sku": "A-17"}},
        {"value": "Ada", "other": {"sku": "A-18"}},
        {"value": "Bob", "other": {"sku": "B-1"}},
    ]


def test_inner_completion_restores_outer_context() -> None:
    seen: list[tuple[tuple[str, ...], Any, bool]] = []

    def after(payload: dict[str, Any], context: RuntimeContext) -> dict[str, Any]:
        seen.append((tuple(context.foreach), context.foreach["customers"].item, "orders" in context.foreach))
        return {}

    execute_workflow(nested({}, {}), GIVEN, {"work": echo, "after": after})

    assert seen == [(("customers",), ADA, False), (("customers",), BOB, False)]


def test_concurrent_items_receive_distinct_frame_and_lineage_context() -> None:
    entries: list[ForeachContext] = []

    def record(payload: dict[str, Any], context: RuntimeContext) -> dict[str, Any]:
        entries.append(context.foreach["each"])
        return {}

    made = workflow(
        ["each.loop -> work", "work.ok -> each", "each.done -> END"], [foreach("each", "input.items", **CONCURRENT)]
    )
    execute_workflow(made, {"items": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}, {"work": record})

    assert len({entry.frame_id for entry in entries}) == len({entry.lineage_id for entry in entries}) == 3
    assert len({entry.activation_id for entry in entries}) == 1
    assert {entry.scope_id for entry in entries} == {"root"}


def test_nested_foreach_over_resolves_structured_outer_item_path() -> None:
    run = execute_workflow(nested({}, {}), GIVEN, {"work": echo, "after": echo})

    inner = [entry for entry in run.trace if entry.node_id == "orders" and entry.outcome == "done"]
    assert [entry.resolved_input["count"] for entry in inner] == [2, 1]


def test_every_consumer_reads_one_derived_context() -> None:
    """Node input, loop source, interrupt request, condition and workflow output see the same entries."""
    made = workflow(
        [
            "customers.loop -> known",
            "known.true -> ask",
            "known.false -> customers",
            "ask.submitted -> customers",
            "customers.done -> END",
        ],
        [
            {**foreach("customers", "input.customers"), "as": "customer"},
            condition(
                "known",
                {
                    "op": "eq",
                    "left": {"path": "context.foreach.customers.index"},
                    "right": {"path": "context.loop_index"},
                },
            ),
            {
                "id": "ask",
                "type": "interrupt",
                "kind": "approval",
                "request": [reads("context.customer.name"), reads("context.foreach.customers.item.name", "other")],
            },
        ],
        input_schema=CUSTOMERS_INPUT,
        output=[{"target": "value", "path": "context.scope_id"}],
    )

    run = execute_workflow(made, {"customers": [ADA]}, {})

    assert run.interrupt is not None
    assert run.interrupt.payload == {"value": "Ada", "other": "Ada"}
    done = resume_workflow(made, run, {}, resume_payload={})
    assert done.output == {"value": "root"}


def test_a_pause_changes_none_of_the_entries() -> None:
    seen: list[Any] = []

    def record(payload: dict[str, Any], context: RuntimeContext) -> dict[str, Any]:
        seen.append(copy.deepcopy(dict(context.foreach)))
        return {}

    made = workflow(
        ["each.loop -> work", "work.ok -> ask", "ask.submitted -> again", "again.ok -> each", "each.done -> END"],
        [foreach("each", "input.items", **CONCURRENT), {"id": "ask", "type": "interrupt", "kind": "approval"}],
    )
    run = execute_workflow(made, {"items": [{"name": "a"}]}, {"work": record})
    frames = json.loads(json.dumps({key: value["metadata"] for key, value in run.to_dict()["frames"].items()}))
    for frame_id, metadata in frames.items():
        run.frames[frame_id].metadata = metadata

    resume_workflow(made, run, {"work": record}, resume_payload={})

    assert seen[0] == seen[1]
    assert seen[0]["each"].item == {"name": "a"}


def test_a_damaged_ancestor_fails_the_run_and_no_policy_takes_it_in() -> None:
    made = workflow(
        ["each.loop -> work", "work.ok -> each", "each.done -> END", "each.completed_with_errors -> END"],
        [foreach("each", "input.items", item_error="skip")],
    )
    run = fresh_run(made, {"items": [{"name": "a"}]})
    resume_one = {"work": echo}
    step_workflow(made, run, resume_one)
    [item] = [frame for frame in run.frames.values() if frame.kind == ITEM_FRAME]
    item.metadata["loop_index"] = "zero"

    with pytest.raises(WorkflowExecutionError, match="malformed foreach metadata"):
        resume_workflow(made, run, resume_one)

    assert run.status is RunStatus.FAILED
