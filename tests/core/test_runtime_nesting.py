"""Loops inside loops, in every mix of modes: nothing is lost, nothing is doubled, and no write goes astray."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest

from tests.support.engines import echo, fresh_run
from tests.support.workflow_documents import foreach, node, reads, workflow
from wf_core.errors import WorkflowExecutionError
from wf_core.models import Workflow
from wf_core.plan import Program, compile_plan
from wf_core.run_state import ITEM_FRAME, ExecutionFrame, LineageState, RunState, RunStatus, RuntimeContext
from wf_core.runtime import execute_workflow, execute_workflow_async
from wf_core.runtime.draft import Draft, write_target
from wf_core.runtime.scheduler import new_barrier
from wf_core.runtime.slice import RunStateSlice

CONCURRENT: dict[str, Any] = {"mode": "concurrent", "concurrent": {"max_active": 2, "max_outstanding": 3}}
MODES: dict[str, dict[str, Any]] = {"serial": {}, "concurrent": CONCURRENT}
STATE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "values": {"type": "array", "reducer": "wf.std.append", "default": ["prior"]},
        "total": {"type": "integer", "reducer": "wf.std.add", "default": 100},
    },
}
NODE = {
    "name": "work",
    "input_schema": {"type": "object", "properties": {"value": {}, "number": {}}},
    "output_schema": {"type": "object", "properties": {"value": {}, "number": {}}},
    "outcomes": ["ok"],
}
OUTPUTS = [{"source": "value", "target": "state.values"}, {"source": "number", "target": "state.total"}]


def nested(modes: Sequence[str]) -> Workflow:
    """Loops inside one another over nested lists; the innermost body records its item, every level its own end."""
    names = [f"loop{level}" for level in range(len(modes))]
    array: dict[str, Any] = {"type": "array"}
    for _ in modes[1:]:
        array = {"type": "array", "items": array}
    steps: list[dict[str, Any]] = []
    routes: list[str] = []
    for level, mode in enumerate(modes):
        over = "input.items" if level == 0 else f"context.foreach.loop{level - 1}.item"
        steps.append(foreach(names[level], over, **MODES[mode]))
        inner = names[level + 1] if level + 1 < len(names) else "work"
        routes.append(f"{names[level]}.loop -> {inner}")
        back = "END" if level == 0 else f"after{level}"
        routes.append(f"{names[level]}.done -> {back}")
        if level:
            routes.append(f"after{level}.ok -> {names[level - 1]}")
            steps.append(node(f"after{level}", input=[{"target": "value", "value": f"end{level}"}], output=OUTPUTS[:1]))
    steps.append(
        node(
            "work",
            input=[reads(f"context.{names[-1]}_item"), reads(f"context.{names[-1]}_item", "number")],
            output=OUTPUTS,
        )
    )
    routes.append(f"work.ok -> {names[-1]}")
    return workflow(
        routes,
        steps,
        input_schema={"type": "object", "properties": {"items": array}},
        state_schema=STATE,
        node_defs=[NODE],
        output_schema={"type": "object", "properties": {"values": {}, "total": {}}},
    )


def expected(items: Any, depth: int, level: int = 0) -> list[Any]:
    if level == depth:
        return [items]
    values: list[Any] = []
    for item in items:
        values += expected(item, depth, level + 1)
        if level + 1 < depth:
            values.append(f"end{level + 1}")
    return values


TWO = [[1, 2, 3], [], [4]]
THREE = [[[1, 2], [3]], [], [[4], [], [5, 6]]]


@pytest.mark.parametrize("modes", [*product(MODES, repeat=1)], ids=lambda m: "-".join(m))
def test_one_level_keeps_the_order_of_items(modes: tuple[str, ...]) -> None:
    run = execute_workflow(nested(modes), {"items": [1, 2, 3]}, {"work": echo})

    assert run.output == {"values": ["prior", 1, 2, 3], "total": 106}


@pytest.mark.parametrize("modes", [*product(MODES, repeat=2)], ids=lambda m: "-".join(m))
def test_two_levels_lose_and_double_nothing(modes: tuple[str, ...]) -> None:
    run = execute_workflow(nested(modes), {"items": TWO}, {"work": echo})

    assert run.output == {"values": ["prior", *expected(TWO, 2)], "total": 110}
    assert run.state is run.scopes["root"].committed_state


@pytest.mark.parametrize("modes", [*product(MODES, repeat=3)], ids=lambda m: "-".join(m))
def test_three_levels_lose_and_double_nothing(modes: tuple[str, ...]) -> None:
    run = execute_workflow(nested(modes), {"items": THREE}, {"work": echo})

    assert run.output == {"values": ["prior", *expected(THREE, 3)], "total": 121}


@pytest.mark.parametrize("modes", [*product(MODES, repeat=3)], ids=lambda m: "-".join(m))
async def test_three_levels_give_the_same_with_async_handlers(modes: tuple[str, ...]) -> None:
    async def work(payload: dict[str, Any], context: RuntimeContext) -> dict[str, Any]:
        return payload

    run = await execute_workflow_async(nested(modes), {"items": THREE}, {"work": work})

    assert run.output == {"values": ["prior", *expected(THREE, 3)], "total": 121}


def test_an_inner_item_reads_what_its_enclosing_concurrent_item_buffered() -> None:
    seen: list[Any] = []

    def work(payload: dict[str, Any], context: RuntimeContext) -> dict[str, Any]:
        seen.append(payload.get("value"))
        return payload

    made = workflow(
        [
            "outer.loop -> mark",
            "mark.ok -> inner",
            "inner.loop -> look",
            "look.ok -> inner",
            "inner.done -> outer",
            "outer.done -> END",
        ],
        [
            foreach("outer", "input.items", **CONCURRENT),
            node("mark", input=[reads("context.outer_item")], output=[{"source": "value", "target": "state.values"}]),
            foreach("inner", "input.items", **CONCURRENT),
            node("look", node="look", input=[reads("state.values")]),
        ],
        state_schema={"type": "object", "properties": {"values": {"type": "array", "reducer": "wf.std.append"}}},
        input_schema={"type": "object", "properties": {"items": {"type": "array"}}},
        node_defs=[NODE, {**NODE, "name": "look"}],
    )

    execute_workflow(made, {"items": ["a", "b"]}, {"work": echo, "look": work})

    assert sorted(map(str, seen)) == ["['a']", "['a']", "['b']", "['b']"]


def test_concurrent_siblings_never_see_each_other() -> None:
    seen: list[Any] = []

    def work(payload: dict[str, Any], context: RuntimeContext) -> dict[str, Any]:
        seen.append(payload["value"])
        return {"value": len(seen)}

    made = workflow(
        ["each.loop -> work", "work.ok -> again", "again.ok -> each", "each.done -> END"],
        [
            foreach("each", "input.items", **CONCURRENT),
            node("work", input=[reads("state.values")], output=OUTPUTS[:1]),
            node("again", input=[reads("state.values")]),
        ],
        state_schema=STATE,
        node_defs=[NODE],
    )

    run = execute_workflow(made, {"items": [{}, {}, {}]}, {"work": work})

    assert seen.count(["prior"]) == 3
    assert all(value == ["prior"] or len(value) == 2 for value in seen)
    assert len(run.state["values"]) == 4


# ---- where a write goes


def item(frame_id: str, parent: str | None, loop: str = "each") -> ExecutionFrame:
    return ExecutionFrame(
        frame_id,
        ITEM_FRAME,
        "work",
        parent_frame_id=parent,
        lineage_id=f"lineage of {frame_id}",
        parent_lineage_id="root",
        metadata={
            "foreach_node_id": loop,
            "activation_id": f"visit {frame_id}",
            "loop_index": 0,
            "loop_item": None,
            "loop_alias": "it",
        },
    )


def opened(frame: ExecutionFrame, child: str, mode: str, loop: str = "each") -> ExecutionFrame:
    frame.metadata["foreach_activations"] = {
        loop: {"next_sequence": 1, "active": {"id": f"visit {child}", "barrier": new_barrier(mode)}}
    }
    return frame


def target(*frames: ExecutionFrame) -> tuple[str, str]:
    run = RunState("example", RunStatus.RUNNING, {}, {})
    run.frames = {frame.id: frame for frame in frames}
    return write_target(RunStateSlice(run), frames[0])


def root(child: str, mode: str) -> ExecutionFrame:
    return opened(ExecutionFrame("root", "workflow", "each"), child, mode)


def test_a_write_outside_every_loop_is_committed() -> None:
    assert target(ExecutionFrame("root", "workflow", "work")) == ("scope", "root")


def test_a_serial_item_passes_its_write_on() -> None:
    assert target(item("a", "root"), root("a", "serial")) == ("scope", "root")


def test_a_concurrent_item_keeps_its_write() -> None:
    assert target(item("a", "root"), root("a", "concurrent")) == ("lineage", "lineage of a")


def test_a_serial_item_in_a_concurrent_one_writes_to_the_concurrent_one() -> None:
    frames = item("b", "a"), opened(item("a", "root"), "b", "serial"), root("a", "concurrent")

    assert target(*frames) == ("lineage", "lineage of a")


def test_a_concurrent_item_in_a_serial_one_keeps_its_write() -> None:
    frames = item("b", "a"), opened(item("a", "root"), "b", "concurrent"), root("a", "serial")

    assert target(*frames) == ("lineage", "lineage of b")


@pytest.mark.parametrize(
    ("inner", "outer"), [("serial", "serial"), ("concurrent", "serial"), ("serial", "concurrent"), ("concurrent",) * 2]
)
def test_a_cycle_of_parents_is_refused_before_anything_is_buffered(inner: str, outer: str) -> None:
    first, second = opened(item("a", "b"), "b", inner), opened(item("b", "a"), "a", outer)

    with pytest.raises(WorkflowExecutionError, match="cycle"):
        target(first, second)


@pytest.mark.parametrize("mode", MODES)
def test_a_frame_that_is_its_own_parent_is_refused(mode: str) -> None:
    with pytest.raises(WorkflowExecutionError, match="cycle"):
        target(opened(item("a", "a"), "a", mode))


@pytest.mark.parametrize("mode", MODES)
def test_a_missing_grandparent_is_refused(mode: str) -> None:
    with pytest.raises(WorkflowExecutionError, match="missing parent frame 'gone'"):
        target(item("b", "a"), opened(item("a", "gone"), "b", mode))


def test_an_item_without_parent_is_refused() -> None:
    with pytest.raises(WorkflowExecutionError, match="has no parent"):
        target(item("a", None))


def test_an_item_of_a_closed_visit_is_refused() -> None:
    controller = ExecutionFrame("root", "workflow", "each")
    controller.metadata["foreach_activations"] = {"each": {"next_sequence": 1, "active": None}}

    with pytest.raises(WorkflowExecutionError, match=r"stale item.*activation 'visit a' is closed"):
        target(item("a", "root"), controller)


# ---- lineages


def with_lineages(count: int) -> tuple[Draft, RunState]:
    made = nested(["serial"])
    run = fresh_run(made, {"items": []})
    for n in range(count):
        run.lineages[f"l{n}"] = LineageState(f"l{n}", "root", "root" if n == 0 else f"l{n - 1}")
    return Draft(Program(compile_plan(made), {}), RunStateSlice(run), "root"), run


def test_a_chain_of_two_thousand_lineages_can_be_read() -> None:
    draft, _ = with_lineages(2000)
    frame = ExecutionFrame("deep", "workflow", "work", lineage_id="l1999")

    assert draft.state(frame)["values"] == ["prior"]


def test_a_cycle_of_lineages_is_refused() -> None:
    draft, run = with_lineages(3)
    run.lineages["l0"].parent_id = "l2"

    with pytest.raises(WorkflowExecutionError, match="cycle in the lineage chain"):
        draft.state(ExecutionFrame("deep", "workflow", "work", lineage_id="l2"))


def test_an_unknown_lineage_or_scope_is_refused() -> None:
    draft, run = with_lineages(1)

    with pytest.raises(WorkflowExecutionError, match="unknown lineage 'gone'"):
        draft.state(ExecutionFrame("deep", "workflow", "work", lineage_id="gone"))
    with pytest.raises(WorkflowExecutionError, match="unknown scope 'gone'"):
        draft.state(ExecutionFrame("deep", "workflow", "work", scope_id="gone"))
    run.lineages["l0"].scope_id = "other"
    with pytest.raises(WorkflowExecutionError, match="belongs to scope 'other'"):
        draft.state(ExecutionFrame("deep", "workflow", "work", lineage_id="l0"))
