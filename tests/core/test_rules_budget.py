"""The step budget across visits, batches and repeated runs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.engines import echo, fresh_run
from tests.support.workflow_documents import condition, foreach, node, reads, workflow
from wf_core.errors import WorkflowStepLimitExceeded
from wf_core.models import Workflow
from wf_core.run_limits import RunLimits
from wf_core.run_state import ITEM_FRAME, RunState, RunStatus, RuntimeContext
from wf_core.runtime import (
    execute_workflow,
    execute_workflow_async,
    resume_workflow,
    resume_workflow_async,
    step_workflow,
)

CONCURRENT: dict[str, Any] = {"mode": "concurrent", "concurrent": {"max_active": 4, "max_outstanding": 4}}
MODES = pytest.mark.parametrize("mode", [{}, CONCURRENT], ids=["serial", "concurrent"])
INPUT = {"type": "object", "properties": {"items": {"type": "array"}, "left": {}}}


def loop(mode: dict[str, Any]) -> Workflow:
    return workflow(
        ["each.loop -> work", "work.ok -> each", "each.done -> END"],
        [foreach("each", **mode), node("work", input=[reads("context.each_item")])],
        input_schema=INPUT,
    )


def again(mode: dict[str, Any]) -> Workflow:
    """Goes through the loop, counts down, and goes through it again until nothing is left."""
    return workflow(
        [
            "each.loop -> work",
            "work.ok -> each",
            "each.done -> down",
            "down.ok -> more",
            "more.true -> each",
            "more.false -> END",
        ],
        [
            foreach("each", **mode),
            node("work"),
            node("down", input=[reads("state.left")], output=[{"source": "value", "target": "state.left"}]),
            condition("more", {"op": "gt", "left": {"path": "state.left"}, "right": {"value": 0}}),
        ],
        input_schema=INPUT,
        state_schema={"type": "object", "properties": {"left": {"type": "integer"}}},
    )


def count_down(payload: dict[str, Any], context: RuntimeContext) -> dict[str, Any]:
    return {"value": payload["value"] - 1} if "value" in payload else {}


@MODES
def test_a_later_visit_of_a_loop_goes_on_with_the_same_budget(mode: dict[str, Any]) -> None:
    made = again(mode)
    once = execute_workflow(made, {"items": [1], "left": 1}, {"work": count_down}).steps_executed
    thrice = execute_workflow(made, {"items": [1], "left": 3}, {"work": count_down}, limits=RunLimits(3 * once))

    assert (thrice.steps_executed, thrice.steps_remaining) == (3 * once, 0)
    run = fresh_run(made, {"items": [1], "left": 3}, max_steps=3 * once - 1)
    with pytest.raises(WorkflowStepLimitExceeded):
        resume_workflow(made, run, {"work": count_down})
    assert run.steps_executed == 3 * once - 1


async def test_a_batch_is_numbered_in_queue_order_before_any_of_its_handlers_starts() -> None:
    made = loop(CONCURRENT)
    run = fresh_run(made, {"items": [*"abc"]})
    at_start: list[tuple[str, int, list[int | None]]] = []

    async def work(payload: dict[str, Any], context: RuntimeContext) -> dict[str, Any]:
        numbers = [frame.step_number for frame in run.frames.values() if frame.kind == ITEM_FRAME]
        at_start.append((payload["value"], run.steps_executed, numbers))
        return payload

    await resume_workflow_async(made, run, {"work": work})

    assert at_start == [(item, 4, [2, 3, 4]) for item in "abc"]


async def test_a_batch_reserves_one_step_for_each_item_and_none_for_those_it_leaves() -> None:
    made = loop(CONCURRENT)
    run = fresh_run(made, {"items": [*"abcd"]}, max_steps=4)
    reserved: list[int] = []

    async def work(payload: dict[str, Any], context: RuntimeContext) -> dict[str, Any]:
        reserved.append(run.steps_executed)
        return payload

    with pytest.raises(WorkflowStepLimitExceeded) as caught:
        await resume_workflow_async(made, run, {"work": work})

    assert reserved == [4, 4, 4]
    assert caught.value.frame_id == "root:each#0:3"
    assert run.steps_executed == 4


@MODES
def test_a_run_always_shows_its_maximum_what_it_used_and_what_is_left(mode: dict[str, Any]) -> None:
    made = loop(mode)
    run = fresh_run(made, {"items": [1, 2]}, max_steps=9)
    shown: list[tuple[int, int]] = []

    while run.status is not RunStatus.COMPLETED:
        plain: Any = run.to_dict()
        assert plain["limits"] == {"max_steps": 9}
        assert "steps_remaining" not in plain
        shown.append((plain["steps_executed"], run.steps_remaining))
        step_workflow(made, run, {"work": echo})

    assert shown[0] == (0, 9)
    assert all(used + left == 9 for used, left in shown)
    assert [used for used, _ in shown] == sorted(used for used, _ in shown)


def numbers(run: RunState) -> list[tuple[str, str, int | None]]:
    return [(entry.frame_id, entry.node_id, entry.step_number) for entry in run.trace]


@MODES
async def test_equal_runs_number_their_steps_alike(mode: dict[str, Any]) -> None:
    made = loop(mode)
    given = {"items": [*"abcde"]}

    runs = [execute_workflow(made, given, {"work": echo}) for _ in range(3)]
    awaited = [await execute_workflow_async(made, given, {"work": echo}) for _ in range(3)]

    assert numbers(runs[0]) == numbers(runs[1]) == numbers(runs[2])
    assert numbers(awaited[0]) == numbers(awaited[1]) == numbers(awaited[2])
    for run in (runs[0], awaited[0]):
        counted = [number for _, _, number in numbers(run)]
        assert None not in counted and max(counted) == run.steps_executed  # type: ignore[type-var]
    if not mode:
        assert numbers(runs[0]) == numbers(awaited[0])


def test_a_trace_that_was_changed_by_hand_admits_no_further_step_and_denies_none() -> None:
    made = workflow(["a.ok -> b", "b.ok -> c", "c.ok -> END"])
    for tamper in (list.clear, lambda trace: trace.extend(trace * 20)):
        run = fresh_run(made, max_steps=2)
        step_workflow(made, run, {"work": echo})
        tamper(run.trace)
        step_workflow(made, run, {"work": echo})
        with pytest.raises(WorkflowStepLimitExceeded):
            step_workflow(made, run, {"work": echo})
        assert run.steps_executed == 2
