"""The kernel over slices that hold little, and in strides of different length: always the same decisions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.engines import (
    PartialSlice,
    Stepper,
    decide_with_nothing,
    echo,
    fresh_run,
    trace_multiset,
    with_items,
)
from tests.support.workflow_documents import condition, end, foreach, node, reads, workflow
from wf_core.models import Workflow
from wf_core.paths import StatePath
from wf_core.plan import compile_plan
from wf_core.run_state import RunState, RunStatus, RuntimeContext
from wf_core.runtime import execute_workflow
from wf_core.runtime.patches import stage
from wf_core.runtime.slice import Need, RunStateSlice, SliceMiss
from wf_core.runtime.state_view import StateView

CONCURRENT = {"mode": "concurrent", "concurrent": {"max_active": 2, "max_outstanding": 3}}
STATE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "value": {},
        "values": {"type": "array", "reducer": "wf.std.append", "default": ["before"]},
        "total": {"type": "integer", "reducer": "wf.std.add", "default": 100},
        "box": {"type": "object", "properties": {"names": {"type": "array", "reducer": "wf.std.append"}}},
        "errors": {"type": "array"},
        "left": {"type": "integer", "default": 3},
    },
}
WRITES = [
    {"source": "value", "target": "state.values"},
    {"source": "number", "target": "state.total"},
    {"source": "value", "target": "state.box.names"},
]
LOOSE = {
    "name": "work",
    "input_schema": {"type": "object", "properties": {"value": {}, "number": {}}},
    "output_schema": {"type": "object", "properties": {"value": {}, "number": {}}},
    "outcomes": ["ok"],
}
GROUP = {"type": "object", "properties": {"items": {"type": "array"}}}
ANY_INPUT = {
    "type": "object",
    "properties": {"groups": {"type": "array", "items": GROUP}, "items": {"type": "array"}, "value": {}},
}


def flow(routes: list[str], steps: list[dict[str, Any]], **changes: Any) -> Workflow:
    return workflow(
        routes,
        steps,
        input_schema=ANY_INPUT,
        state_schema=STATE,
        node_defs=[LOOSE],
        output_schema={"type": "object", "properties": {"values": {}, "total": {}, "box": {}, "errors": {}}},
        **changes,
    )


def nested(outer: dict[str, Any], inner: dict[str, Any], **work: Any) -> Workflow:
    return flow(
        ["o.loop -> i", "i.loop -> work", "work.ok -> i", "i.done -> after", "after.ok -> o", "o.done -> END"],
        [
            foreach("o", "input.groups", **outer),
            foreach("i", "context.o_item.items", **inner),
            node("work", input=[reads("context.i_item"), reads("context.i_item", "number")], output=WRITES),
            node(
                "after",
                input=[reads("state.values"), {"target": "number", "value": 1000}],
                output=[{"source": "number", "target": "state.total"}],
            ),
        ],
    )


def collecting(mode: dict[str, Any]) -> Workflow:
    policy = {"action": "collect", "collect_to": "state.errors"}
    return flow(
        [
            "each.loop -> work",
            "work.ok -> check",
            "check.true -> each",
            "check.false -> each",
            "each.done -> last",
            "each.completed_with_errors -> last",
        ],
        [
            foreach("each", "input.items", item_error=policy, **mode),
            node(
                "work",
                node="picky",
                input=[reads("context.each_item"), reads("context.each.index", "number")][:1],
                output=WRITES[:1],
            ),
            condition("check", {"op": "exists", "path": "state.value"}),
            end("last"),
        ],
    )


def countdown() -> Workflow:
    return flow(
        ["check.true -> down", "down.ok -> check", "check.false -> END"],
        [
            condition("check", {"op": "gt", "left": {"path": "state.left"}, "right": {"value": 0}}),
            node(
                "down", node="minus", input=[reads("state.left")], output=[{"source": "value", "target": "state.left"}]
            ),
        ],
        start="check",
    )


def whole_roots() -> Workflow:
    return flow(
        ["look.ok -> END"],
        [node("look", input=[reads("state"), reads("input", "number")], output=WRITES[:1])],
        output=[{"target": "values", "path": "state.values"}, {"target": "box", "path": "input"}],
    )


def minus(payload: dict[str, Any], context: RuntimeContext) -> dict[str, Any]:
    return {"value": payload["value"] - 1}


def picky(payload: dict[str, Any], context: RuntimeContext) -> dict[str, Any]:
    if payload["value"] == "bad":
        raise ValueError("that one is bad")
    return payload


def with_handlers(made: Workflow, *names: str) -> Workflow:
    return made.model_copy(
        update={"node_defs": made.node_defs + [made.node_defs[0].model_copy(update={"name": name}) for name in names]}
    )


HANDLERS = {"work": echo, "minus": minus, "picky": picky}
GROUPS = {"groups": [{"items": [1, 2, 3]}, {"items": []}, {"items": [4, 5]}]}
SERIAL: dict[str, Any] = {}
CASES: dict[str, tuple[Workflow, dict[str, Any]]] = {
    **{
        f"{a}-{b}": (nested(SERIAL if a == "s" else CONCURRENT, SERIAL if b == "s" else CONCURRENT), GROUPS)
        for a in "sc"
        for b in "sc"
    },
    "collect-serial": (with_handlers(collecting(SERIAL), "picky"), {"items": ["a", "bad", "b", "bad"]}),
    "collect-concurrent": (with_handlers(collecting(CONCURRENT), "picky"), {"items": ["a", "bad", "b", "bad"]}),
    "countdown": (with_handlers(countdown(), "minus"), {}),
    "whole-roots": (whole_roots(), {"items": [1], "value": "v"}),
}

each_case = pytest.mark.parametrize(("made", "given"), CASES.values(), ids=CASES.keys())


def comparing(asked: list[int]) -> Callable[[RunState, Callable[[Any], Any]], Any]:
    def decide(run: RunState, rule: Callable[[Any], Any]) -> Any:
        whole = rule(RunStateSlice(run))
        part, times = decide_with_nothing(run, rule)
        asked.append(times)
        assert with_items(run, part) == whole
        return whole

    return decide


@each_case
def test_a_slice_that_gives_parts_only_when_asked_ends_with_the_same_transition(
    made: Workflow, given: dict[str, Any]
) -> None:
    asked: list[int] = []

    for hops in (1, 64):
        run = Stepper(made, HANDLERS, hops=hops, decide=comparing(asked)).run(fresh_run(made, given))
        assert run.status is RunStatus.COMPLETED

    assert sum(asked) > 0


@each_case
def test_long_walks_give_the_same_run_as_single_steps(made: Workflow, given: dict[str, Any]) -> None:
    stepped = execute_workflow(made, given, HANDLERS)

    walked = Stepper(made, HANDLERS, hops=64).run(fresh_run(made, given))

    assert (walked.status, walked.outcome, walked.output) == (stepped.status, stepped.outcome, stepped.output)
    assert walked.state == stepped.state
    assert trace_multiset(walked) == trace_multiset(stepped)


def test_a_write_that_replaces_a_whole_field_does_not_ask_for_it() -> None:
    made = flow(["work.ok -> END"], [node("work")])
    run = fresh_run(made, {})
    slice_of_nothing = PartialSlice(run)
    state = StateView(slice_of_nothing, run.frames["root"])
    plan = compile_plan(made)

    patch = stage(plan, [(StatePath.of("value"), 1)], state)

    assert (patch.fields, slice_of_nothing.given) == ({"value": 1}, set())
    for path in ("value.part", "total"):
        with pytest.raises(SliceMiss) as caught:
            stage(plan, [(StatePath.of(path), 1)], state)
        assert caught.value.needs == (Need("state", "root", (path.partition(".")[0],)),)


def test_a_nested_run_ends_with_every_value_once() -> None:
    made, given = CASES["c-c"]

    run = execute_workflow(made, given, HANDLERS)

    assert run.output["values"] == ["before", 1, 2, 3, 4, 5]
    assert run.output["total"] == 100 + 15 + 3000
    assert run.output["box"] == {"names": [1, 2, 3, 4, 5]}
