"""The queue, runs at rest, and the ways into a run."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.support.engines import echo, fresh_run, trace_of
from tests.support.workflow_documents import foreach, node, reads, workflow
from wf_core.errors import WorkflowExecutionError
from wf_core.run_state import ITEM_FRAME, ExecutionFrame, FrameStatus, RunState, RunStatus, RuntimeContext
from wf_core.runtime import (
    execute_workflow,
    execute_workflow_async,
    execute_workflow_result_async,
    local,
    resume_workflow,
    resume_workflow_async,
    resume_workflow_result_async,
    step_workflow,
    step_workflow_async,
)

CHAIN = workflow(["a.ok -> b", "b.ok -> END"])
CONCURRENT: dict[str, Any] = {"mode": "concurrent", "concurrent": {"max_active": 3, "max_outstanding": 3}}


def bare(**frames: FrameStatus) -> RunState:
    """A run of nothing but frames, named by keyword; ``root`` has no parent, the others have it."""
    run = RunState("example", RunStatus.RUNNING, {}, {})
    for name, status in frames.items():
        parent = None if name == "root" else "root"
        run.frames[name] = ExecutionFrame(name, "workflow", f"at_{name}", status, parent_frame_id=parent)
    return run


# ---- the queue


def test_the_queue_is_first_in_first_out_and_moving_never_doubles() -> None:
    run = bare(a=FrameStatus.PENDING, b=FrameStatus.PENDING, c=FrameStatus.PENDING)
    for name in "abca":
        local.enqueue_frame(run, name)

    assert run.ready_frame_ids == ["b", "c", "a"]
    local.enqueue_frame(run, "c", front=True)
    assert run.ready_frame_ids == ["c", "b", "a"]
    frame = local.select_next_frame(run)
    assert frame is not None and (frame.id, frame.status) == ("c", FrameStatus.RUNNING)
    assert (run.current_frame_id, run.current_node_id) == ("c", "at_c")


def test_marking_a_queued_frame_pending_moves_it() -> None:
    run = bare(a=FrameStatus.PENDING, b=FrameStatus.PENDING)
    run.ready_frame_ids = ["a", "b"]

    local.mark_frame_pending(run, "a")

    assert run.ready_frame_ids == ["b", "a"]


@pytest.mark.parametrize("status", [s for s in FrameStatus if s is not FrameStatus.PENDING])
def test_only_a_pending_frame_is_queued_or_selected(status: FrameStatus) -> None:
    run = bare(a=status)

    with pytest.raises(WorkflowExecutionError, match=f"cannot enqueue frame 'a': it is {status.value}"):
        local.enqueue_frame(run, "a")
    run.ready_frame_ids = ["a"]
    with pytest.raises(WorkflowExecutionError, match=f"cannot select frame 'a': it is {status.value}"):
        local.select_next_frame(run)


def test_a_frame_is_not_blocked_on_nobody() -> None:
    with pytest.raises(WorkflowExecutionError, match="empty child set"):
        local.block_frame_on_children(bare(root=FrameStatus.RUNNING), "root", [])


def test_a_block_names_its_children_and_goes_when_the_frame_is_due() -> None:
    run = bare(root=FrameStatus.RUNNING, a=FrameStatus.PENDING)

    local.block_frame_on_children(run, "root", ["a"])
    assert run.frames["root"].metadata == {"blocked_on": {"type": "child_frames", "frame_ids": ["a"]}}
    local.mark_frame_pending(run, "root")
    assert run.frames["root"].metadata == {}


# ---- at rest


def test_a_run_whose_frames_wait_for_each_other_is_deadlocked_and_says_how() -> None:
    run = bare(root=FrameStatus.BLOCKED, a=FrameStatus.COMPLETED)
    run.current_frame_id = "a"

    with pytest.raises(WorkflowExecutionError, match="deadlocked") as caught:
        local.resolve_no_ready_frames(run)

    for fragment in ("ready_frame_ids=[]", "current_frame_id='a'", "root:blocked@at_root", "a:completed@at_a"):
        assert fragment in str(caught.value)


def test_a_run_with_nobody_to_run_says_so() -> None:
    with pytest.raises(WorkflowExecutionError, match=r"no ready frames: ready_frame_ids=\[\].*root:running@at_root"):
        local.resolve_no_ready_frames(bare(root=FrameStatus.RUNNING))
    with pytest.raises(WorkflowExecutionError, match="no ready frames"):
        local.resolve_no_ready_frames(bare())


@pytest.mark.parametrize(
    ("run", "verdict"),
    [
        (bare(root=FrameStatus.COMPLETED, a=FrameStatus.FAILED), RunStatus.COMPLETED),
        (bare(root=FrameStatus.BLOCKED, a=FrameStatus.FAILED), RunStatus.FAILED),
        (bare(a=FrameStatus.COMPLETED), RunStatus.COMPLETED),
    ],
)
def test_other_runs_at_rest_have_a_verdict(run: RunState, verdict: RunStatus) -> None:
    assert local.resolve_no_ready_frames(run) is verdict


def test_a_deadlock_fails_the_run() -> None:
    run = fresh_run(CHAIN)
    run.frames["root"].status, run.ready_frame_ids = FrameStatus.BLOCKED, []

    with pytest.raises(WorkflowExecutionError, match="deadlocked"):
        resume_workflow(CHAIN, run, {})

    assert run.status is RunStatus.FAILED and "deadlocked" in str(run.error)


def test_a_failed_frame_and_an_empty_queue_fail_the_run_without_an_exception() -> None:
    run = fresh_run(CHAIN)
    run.frames["root"].status, run.ready_frame_ids = FrameStatus.FAILED, []

    resume_workflow(CHAIN, run, {})

    assert run.status is RunStatus.FAILED and run.error


# ---- single steps


def test_stepping_does_one_step_at_a_time() -> None:
    run = fresh_run(CHAIN)

    assert (run.status, run.ready_frame_ids, run.current_node_id) == (RunStatus.PENDING, ["root"], "a")
    step_workflow(CHAIN, run, {"work": echo})
    assert (run.status, run.ready_frame_ids, trace_of(run)) == (RunStatus.RUNNING, ["root"], ["a.ok -> b"])
    step_workflow(CHAIN, run, {"work": echo})
    assert (run.status, run.ready_frame_ids) == (RunStatus.COMPLETED, [])
    step_workflow(CHAIN, run, {"work": echo})
    assert run.steps_executed == 2


async def test_an_async_step_is_one_batch() -> None:
    made = workflow(["each.loop -> work", "work.ok -> each", "each.done -> END"], [foreach("each", **CONCURRENT)])
    run = fresh_run(made, {"items": [{}, {}, {}]})

    await step_workflow_async(made, run, {"work": echo})
    await step_workflow_async(made, run, {"work": echo})

    assert [e.node_id for e in run.trace] == ["each"] * 3 + ["work"] * 3


def test_a_step_that_is_not_in_the_workflow_takes_no_budget() -> None:
    run = fresh_run(CHAIN)
    run.frames["root"].node_id = "gone"

    with pytest.raises(WorkflowExecutionError, match="has no step 'gone'"):
        step_workflow(CHAIN, run, {"work": echo})

    assert run.steps_executed == 0


def test_siblings_take_turns_one_step_at_a_time() -> None:
    order: list[str] = []

    def work(payload: dict[str, Any], context: RuntimeContext) -> dict[str, Any]:
        order.append(f"{context.current_node_id}{context.foreach['each'].index}")
        return {}

    made = workflow(
        ["each.loop -> a", "a.ok -> b", "b.ok -> each", "each.done -> END"], [foreach("each", **CONCURRENT)]
    )
    execute_workflow(made, {"items": [{}, {}]}, {"work": work})

    assert order == ["a0", "a1", "b0", "b1"]


# ---- ways in


def test_an_invalid_workflow_is_refused_with_all_its_issues() -> None:
    made = workflow(["a.ok -> gone", "a.odd -> END"], [node("a")])
    made.edges[0].to = "nowhere"

    with pytest.raises(ValueError) as caught:
        execute_workflow(made, {}, {"work": echo})

    assert "nowhere" in str(caught.value) and "odd" in str(caught.value)


async def failing(payload: dict[str, Any], context: RuntimeContext) -> dict[str, Any]:
    raise LookupError("not there")


async def test_the_strict_forms_raise_and_the_result_forms_return_the_failed_run() -> None:
    with pytest.raises(LookupError, match="not there"):
        await execute_workflow_async(CHAIN, {}, {"work": failing})
    done = await execute_workflow_result_async(CHAIN, {}, {"work": failing})
    resumed = await resume_workflow_result_async(CHAIN, fresh_run(CHAIN), {"work": failing})
    run = fresh_run(CHAIN)
    with pytest.raises(LookupError):
        await resume_workflow_async(CHAIN, run, {"work": failing})

    for failed in (done, resumed, run):
        assert (failed.status, failed.error) == (RunStatus.FAILED, "not there")
        assert failed.frames["root"].status is FrameStatus.FAILED


def test_a_fresh_snapshot_is_driven_by_resuming_it() -> None:
    assert resume_workflow(CHAIN, fresh_run(CHAIN), {"work": echo}).status is RunStatus.COMPLETED


def test_a_run_belongs_to_its_workflow() -> None:
    other = CHAIN.model_copy(update={"name": "other"})

    with pytest.raises(WorkflowExecutionError, match="belongs to workflow 'example', not to 'other'"):
        resume_workflow(other, fresh_run(CHAIN), {})


@pytest.mark.parametrize("frame_id", [None, "gone"])
def test_a_run_without_its_current_frame_is_refused(frame_id: str | None) -> None:
    run = fresh_run(CHAIN)
    run.current_frame_id = frame_id

    with pytest.raises(ValueError, match=str(frame_id)):
        resume_workflow(CHAIN, run, {"work": echo})


def test_a_completed_run_is_projected_again_and_nothing_executed() -> None:
    made = workflow(
        ["a.ok -> END"],
        [node("a", input=[reads("input.value")], output=[{"source": "value", "target": "state.value"}])],
    )
    run = execute_workflow(made, {"value": "v"}, {"work": echo})
    run.output = {}

    again = resume_workflow(made, run, {})

    assert again.output == {"value": "v"}
    assert again.steps_executed == 1


def test_a_failed_run_and_one_that_does_not_wait_take_no_answer() -> None:
    failed, fresh = fresh_run(CHAIN), fresh_run(CHAIN)
    failed.status, failed.error = RunStatus.FAILED, "why"
    for run, payload in ((failed, None), (failed, {}), (fresh, {}), (execute_workflow(CHAIN, {}, {"work": echo}), {})):
        before = copy.deepcopy(run.to_dict())
        with pytest.raises(WorkflowExecutionError) as caught:
            resume_workflow(CHAIN, run, {"work": echo}, resume_payload=payload)
        assert caught.value.code == "run_not_interrupted"
        assert run.to_dict() == before


def test_frames_are_kept_after_they_end() -> None:
    made = workflow(["each.loop -> work", "work.ok -> each", "each.done -> END"], [foreach("each")])

    run = execute_workflow(made, {"items": [{}, {}]}, {"work": echo})

    assert [frame.status for frame in run.frames.values() if frame.kind == ITEM_FRAME] == [FrameStatus.COMPLETED] * 2
    assert set(run.lineages) == {"root", "root:each#0[0]", "root:each#0[1]"}


def test_a_run_can_be_looked_at_as_plain_data() -> None:
    run = execute_workflow(CHAIN, {}, {"work": echo})
    plain = run.to_dict()

    assert (plain["status"], plain["steps_executed"], plain["limits"]) == ("completed", 2, {"max_steps": 10_000})
    assert run.steps_remaining == 9_998
