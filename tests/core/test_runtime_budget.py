"""The step budget: exact, shared by every frame, and never a matter for a loop's error policy."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.engines import Stepper, echo, fresh_run
from tests.support.workflow_documents import condition, end, foreach, node, workflow
from wf_core.errors import WorkflowStepLimitExceeded
from wf_core.models import Workflow
from wf_core.plan import Program, compile_plan
from wf_core.run_limits import RunLimits
from wf_core.run_state import FrameStatus, RunState, RunStatus, RuntimeContext
from wf_core.runtime import execute_workflow, execute_workflow_async, kernel, resume_workflow, step_workflow
from wf_core.runtime.kernel import Walk
from wf_core.runtime.limits import admit_step_attempt, remaining_step_attempts
from wf_core.runtime.slice import RunStateSlice
from wf_core.runtime.transition import FailRun, Offset, Traced

CONCURRENT: dict[str, Any] = {"mode": "concurrent", "concurrent": {"max_active": 2, "max_outstanding": 3}}
INPUT = {"type": "object", "properties": {"items": {"type": "array"}, "value": {}}}

CHAIN = workflow(["a.ok -> b", "b.ok -> c", "c.ok -> END"])
CYCLE = workflow(["a.ok -> b", "b.ok -> a"])


def spent(made: Workflow, given: dict[str, Any], budget: int, handlers: Any = None) -> RunState:
    """The run after it met its limit."""
    run = fresh_run(made, given, max_steps=budget)
    with pytest.raises(WorkflowStepLimitExceeded):
        resume_workflow(made, run, handlers or {"work": echo})
    return run


def test_a_budget_of_one_admits_one_step_and_denies_the_second() -> None:
    run = spent(CHAIN, {}, 1)

    assert (run.status, run.steps_executed, run.steps_remaining) == (RunStatus.FAILED, 1, 0)
    assert [entry.node_id for entry in run.trace] == ["a"]


def test_the_end_takes_no_step() -> None:
    run = execute_workflow(CHAIN, {}, {"work": echo}, limits=RunLimits(max_steps=3))

    assert (run.status, run.steps_executed) == (RunStatus.COMPLETED, 3)


def test_the_error_says_which_limit_and_where() -> None:
    run = fresh_run(CHAIN, max_steps=2)

    with pytest.raises(WorkflowStepLimitExceeded) as caught:
        resume_workflow(CHAIN, run, {"work": echo})

    error = caught.value
    assert (error.max_steps, error.steps_executed) == (2, 2)
    assert (error.frame_id, error.scope_id, error.node_id) == ("root", "root", "c")
    for fragment in ("'example'", "max_steps=2", "'c'", "'root'"):
        assert fragment in str(error)
    assert run.error == str(error)


def test_the_denied_frame_keeps_its_number_and_leaves_the_queue() -> None:
    run = spent(CHAIN, {}, 2)

    root = run.frames["root"]
    assert (root.status, root.step_number, root.node_id) == (FrameStatus.RUNNING, 2, "c")
    assert run.ready_frame_ids == []


def test_the_denied_handler_is_never_called() -> None:
    calls: list[str] = []

    def work(payload: dict[str, Any], context: RuntimeContext) -> dict[str, Any]:
        calls.append(context.current_node_id)
        return {}

    spent(CYCLE, {}, 5, {"work": work})

    assert calls == [*"ababa"]


def test_every_kind_of_step_counts() -> None:
    made = workflow(
        [
            "work.ok -> check",
            "check.true -> each",
            "check.false -> each",
            "each.loop -> inner",
            "inner.ok -> each",
            "each.done -> meet",
            "meet.done -> ask",
            "ask.submitted -> stop",
        ],
        [
            node("work"),
            condition("check"),
            foreach("each"),
            node("inner"),
            {"id": "meet", "type": "join"},
            {"id": "ask", "type": "interrupt", "kind": "approval"},
            end("stop"),
        ],
        input_schema=INPUT,
    )

    run = execute_workflow(made, {"items": [1]}, {"work": echo})
    assert run.steps_executed == 7  # work, check, each, inner, each, meet, ask
    run = resume_workflow(made, run, {"work": echo}, resume_payload={})

    assert run.steps_executed == 8
    assert [e.step_number for e in run.trace if e.node_id == "ask"] == [7, 7]
    assert run.trace[-1].step_number == 8


def test_two_serial_items_of_one_step_cost_five() -> None:
    made = workflow(["each.loop -> work", "work.ok -> each", "each.done -> END"], [foreach("each")], input_schema=INPUT)

    assert execute_workflow(made, {"items": [1, 2]}, {"work": echo}).steps_executed == 5
    assert spent(made, {"items": [1, 2]}, 4).steps_executed == 4


async def test_sync_and_async_runs_count_the_same() -> None:
    made = workflow(["each.loop -> work", "work.ok -> each", "each.done -> END"], [foreach("each")], input_schema=INPUT)

    run = await execute_workflow_async(made, {"items": [1, 2]}, {"work": echo})

    assert run.steps_executed == execute_workflow(made, {"items": [1, 2]}, {"work": echo}).steps_executed


def test_a_failing_handler_keeps_the_attempt_it_used() -> None:
    run = fresh_run(CHAIN)

    def work(payload: dict[str, Any], context: RuntimeContext) -> dict[str, Any]:
        raise ValueError("no")

    with pytest.raises(ValueError):
        resume_workflow(CHAIN, run, {"work": work})

    assert (run.steps_executed, run.trace) == (1, [])


def test_an_error_outcome_is_routing_and_costs_one_step() -> None:
    definition = {
        "name": "work",
        "input_schema": {"type": "object"},
        "output_schema": {"type": "object"},
        "outcomes": ["ok", "error"],
    }
    made = workflow(["a.ok -> END", "a.error -> END"], node_defs=[definition])

    run = execute_workflow(made, {}, {"work": lambda p, c: {"outcome": "error", "output": {}}})

    assert run.steps_executed == 1


def test_a_loop_that_leaves_within_the_budget_completes() -> None:
    made = workflow(["each.loop -> work", "work.ok -> each", "each.done -> END"], [foreach("each")], input_schema=INPUT)

    assert execute_workflow(made, {"items": [1] * 4}, {"work": echo}, limits=RunLimits(9)).status is RunStatus.COMPLETED


@pytest.mark.parametrize("mode", [{}, CONCURRENT], ids=["serial", "concurrent"])
@pytest.mark.parametrize("action", ["skip", {"action": "collect", "collect_to": "state.errors"}])
def test_exhaustion_is_no_items_failure(mode: dict[str, Any], action: Any) -> None:
    made = workflow(
        ["each.loop -> work", "work.ok -> each", "each.done -> END", "each.completed_with_errors -> END"],
        [foreach("each", item_error=action, **mode)],
        input_schema=INPUT,
    )

    run = spent(made, {"items": [1, 2, 3]}, 3)

    assert not [frame for frame in run.frames.values() if frame.status is FrameStatus.FAILED]
    assert run.steps_executed == 3


def test_the_count_goes_on_after_a_pause_and_is_not_reset() -> None:
    made = workflow(
        ["a.ok -> ask", "ask.submitted -> b", "b.ok -> c", "c.ok -> END"],
        [node("a"), {"id": "ask", "type": "interrupt", "kind": "approval"}],
    )
    run = execute_workflow(made, {}, {"work": echo}, limits=RunLimits(max_steps=3))

    with pytest.raises(WorkflowStepLimitExceeded) as caught:
        resume_workflow(made, run, {"work": echo}, resume_payload={})

    assert (caught.value.node_id, run.steps_executed) == ("c", 3)
    assert run.limits == RunLimits(3)


def test_enforcement_reads_the_counter_and_not_the_trace() -> None:
    run = fresh_run(CHAIN, max_steps=3)
    step_workflow(CHAIN, run, {"work": echo})
    run.trace.clear()

    step_workflow(CHAIN, run, {"work": echo})

    assert (run.steps_executed, run.trace[0].step_number) == (2, 2)


def test_admission_counts_once_and_refuses_without_a_change() -> None:
    run = fresh_run(CHAIN, max_steps=1)
    frame = run.frames["root"]

    assert (admit_step_attempt(run, frame, "a"), frame.step_number, remaining_step_attempts(run)) == (1, 1, 0)
    with pytest.raises(WorkflowStepLimitExceeded):
        admit_step_attempt(run, frame, "b")
    assert (run.steps_executed, frame.step_number) == (1, 1)


@pytest.mark.parametrize("value", [True, 1.0, "1", None])
def test_a_budget_is_a_whole_number(value: Any) -> None:
    with pytest.raises(TypeError):
        RunLimits(value)


@pytest.mark.parametrize("value", [0, -1])
def test_a_budget_is_at_least_one(value: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        RunLimits(value)


# ---- walks of many steps


def ring(length: int) -> Workflow:
    names = [f"c{n}" for n in range(length)]
    routes = [
        f"{a}.{way} -> {b}" for a, b in zip(names, [*names[1:], names[0]], strict=True) for way in ("true", "false")
    ]
    return workflow(routes, [condition(name) for name in names])


def test_a_walk_numbers_its_steps_after_the_runs_count() -> None:
    made = ring(3)
    run = fresh_run(made)

    transition = kernel.walk_on(Program(compile_plan(made), {}), RunStateSlice(run), "root", walk=Walk(hops=4))

    assert transition.steps == 4
    assert [o.step for o in transition.operations if isinstance(o, Traced)] == [Offset(n) for n in (1, 2, 3, 4)]


def test_a_walk_stops_exactly_where_the_budget_ends_and_keeps_what_came_before() -> None:
    made = ring(3)
    run = fresh_run(made, max_steps=2)

    transition = kernel.walk_on(
        Program(compile_plan(made), {}), RunStateSlice(run), "root", walk=Walk(steps_left=2, max_steps=2)
    )

    assert transition.steps == 2
    [failed] = [o for o in transition.operations if isinstance(o, FailRun)]
    assert (failed.error.type, failed.error.node_id) == ("step_limit_exceeded", "c2")
    assert len([o for o in transition.operations if isinstance(o, Traced)]) == 2


def test_a_step_that_was_not_admitted_fails_the_run() -> None:
    run = fresh_run(CHAIN, max_steps=1)

    transition = kernel.deny(Program(compile_plan(CHAIN), {}), RunStateSlice(run), "root", walk=Walk(max_steps=1))

    assert isinstance(transition.error, WorkflowStepLimitExceeded)
    assert [type(o) for o in transition.operations] == [FailRun]


def test_strides_of_any_length_count_the_same() -> None:
    made = workflow(
        ["each.loop -> check", "check.true -> each", "check.false -> each", "each.done -> END"],
        [foreach("each", "input.items"), condition("check", {"op": "exists", "path": "context.each_item"})],
        input_schema=INPUT,
    )
    counts = {
        Stepper(made, {}, hops=hops).run(fresh_run(made, {"items": [1, 2, 3]})).steps_executed for hops in (1, 2, 5, 64)
    }

    assert counts == {execute_workflow(made, {"items": [1, 2, 3]}, {}).steps_executed}
