"""Interrupts: the request, the answer, and everything that stays as it was in between."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.support.engines import echo, fresh_run, trace_of
from tests.support.workflow_documents import foreach, node, reads, workflow
from wf_core.errors import WorkflowExecutionError
from wf_core.models import Workflow
from wf_core.plan import Program, compile_plan
from wf_core.run_state import ITEM_FRAME, FrameStatus, RunState, RunStatus, RuntimeContext
from wf_core.runtime import (
    execute_workflow,
    execute_workflow_async,
    kernel,
    resume_workflow,
    resume_workflow_async,
    resume_workflow_result_async,
)
from wf_core.runtime.slice import RunStateSlice

CONCURRENT: dict[str, Any] = {"mode": "concurrent", "concurrent": {"max_active": 2, "max_outstanding": 2}}
MODES = pytest.mark.parametrize("mode", [{}, CONCURRENT], ids=["serial", "concurrent"])
INPUT = {"type": "object", "properties": {"items": {"type": "array"}, "value": {}}}
STATE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "values": {"type": "array", "reducer": "wf.std.append"},
        "note": {"type": "string"},
    },
}
ASK: dict[str, Any] = {
    "id": "ask",
    "type": "interrupt",
    "kind": "approval",
    "request": [{"target": "question", "path": "input.value"}],
    "resume": [{"source": "approved", "target": "state.approved"}],
    "outcomes": ["submitted", "rejected"],
    "request_schema": {"type": "object", "properties": {"question": {"type": "string"}}, "required": ["question"]},
    "resume_schema": {"type": "object", "properties": {"approved": {}}, "required": ["approved"]},
}
ANSWER = {"approved": True}


def approval(**changes: Any) -> Workflow:
    return workflow(
        ["ask.submitted -> after", "ask.rejected -> END", "after.ok -> END"],
        [{**ASK, **changes}, node("after", input=[reads("state.approved")])],
        input_schema=INPUT,
        state_schema=STATE,
        output_schema={"type": "object", "properties": {"approved": {}}},
    )


def paused(made: Workflow | None = None) -> RunState:
    return execute_workflow(made or approval(), {"value": "go on?"}, {"work": echo})


def test_the_request_is_resolved_checked_and_kept_with_its_contract() -> None:
    run = paused()

    assert run.status is RunStatus.INTERRUPTED
    assert run.interrupt is not None
    request = run.interrupt
    assert (request.id, request.frame_id, request.node_id, request.kind) == ("interrupt:ask", "root", "ask", "approval")
    assert request.payload == {"question": "go on?"}
    assert request.outcomes == ["submitted", "rejected"]
    assert request.resume_schema == ASK["resume_schema"] and request.request_schema == ASK["request_schema"]
    assert (request.typed, request.resumable, request.route, request.step_number) == (True, True, None, 1)
    assert request.key == "interrupt:ask#1"
    assert run.frames["root"].status is FrameStatus.INTERRUPTED
    [entry] = run.trace
    assert (entry.outcome, entry.next_node_id) == ("interrupt", "ask")
    assert entry.resolved_input == entry.output == {"question": "go on?"}


def test_an_interrupt_that_describes_nothing_is_untyped() -> None:
    plain = approval(request=[], resume=[], request_schema={"type": "object", "additionalProperties": True})
    plain.nodes[0] = plain.nodes[0].model_copy(  # type: ignore[call-overload]
        update={"resume_schema": {"type": "object", "additionalProperties": True}}
    )

    run = paused(plain)

    assert run.interrupt is not None and run.interrupt.typed is False


def test_a_request_that_does_not_fit_fails_the_run_and_does_not_pause_it() -> None:
    made = approval()
    run = fresh_run(made, {"value": 7})

    with pytest.raises(WorkflowExecutionError, match=r"interrupt request for ask\.question: 7 is not of type"):
        resume_workflow(made, run, {"work": echo})

    assert (run.status, run.interrupt) == (RunStatus.FAILED, None)


def test_an_answer_is_written_and_the_run_goes_on() -> None:
    run = resume_workflow(approval(), paused(), {"work": echo}, resume_payload=ANSWER)

    assert run.status is RunStatus.COMPLETED
    assert run.output == {"approved": True}
    assert run.interrupt is None
    assert trace_of(run) == ["ask.interrupt -> ask", "ask.submitted -> after", "after.ok -> __end__"]
    answered = run.trace[1]
    assert (answered.resolved_input, answered.output, answered.step_number) == (ANSWER, ANSWER, 1)
    assert answered.state_changes == {"state.approved": True}


def test_another_declared_outcome_takes_another_edge() -> None:
    run = resume_workflow(approval(), paused(), {}, resume_payload=ANSWER, resume_outcome="rejected")

    assert trace_of(run)[-1] == "ask.rejected -> __end__"


async def test_an_answer_works_the_same_in_async_form() -> None:
    run = await execute_workflow_async(approval(), {"value": "go on?"}, {"work": echo})
    run = await resume_workflow_async(approval(), run, {"work": echo}, resume_payload=ANSWER)

    assert run.output == {"approved": True}


REFUSED = [
    ({"approved": True}, "maybe", "resume_outcome_undeclared", "does not declare the outcome 'maybe'"),
    ({}, "submitted", "resume_payload_invalid", "interrupt resume for ask"),
    ([], "submitted", "resume_payload_invalid", "interrupt resume for ask"),
    ({"approved": "text"}, "submitted", "payload_invalid", r"state write state\.approved"),
]


@pytest.mark.parametrize(("payload", "outcome", "code", "text"), REFUSED)
def test_a_refused_answer_changes_nothing(payload: Any, outcome: str, code: str, text: str) -> None:
    run = paused()
    before = copy.deepcopy(run.to_dict())

    with pytest.raises(WorkflowExecutionError, match=text) as caught:
        resume_workflow(approval(), run, {"work": echo}, resume_payload=payload, resume_outcome=outcome)

    assert caught.value.code == code
    assert run.to_dict() == before
    assert resume_workflow(approval(), run, {"work": echo}, resume_payload=ANSWER).status is RunStatus.COMPLETED


@pytest.mark.parametrize(("payload", "outcome", "code", "text"), REFUSED)
async def test_the_result_form_reports_a_refusal_with_the_state_unchanged(
    payload: Any, outcome: str, code: str, text: str
) -> None:
    run = paused()
    state, frames = copy.deepcopy(run.state), copy.deepcopy(run.to_dict()["frames"])

    done = await resume_workflow_result_async(
        approval(), run, {"work": echo}, resume_payload=payload, resume_outcome=outcome
    )

    assert done.status is RunStatus.FAILED and done.error
    assert (done.state, done.to_dict()["frames"]) == (state, frames)


def test_an_answer_without_a_bound_field_changes_nothing() -> None:
    made = approval(resume_schema={"type": "object"})
    run = paused(made)

    with pytest.raises(WorkflowExecutionError, match="did not include required field 'approved'"):
        resume_workflow(made, run, {"work": echo}, resume_payload={})

    assert run.status is RunStatus.INTERRUPTED and run.interrupt is not None


def test_the_schema_stored_with_the_pause_governs_and_not_the_present_workflow() -> None:
    run = paused()
    changed = approval(resume_schema={"type": "object", "required": ["never"]})

    assert resume_workflow(changed, run, {"work": echo}, resume_payload=ANSWER).status is RunStatus.COMPLETED


def test_what_fails_after_the_answer_was_taken_fails_the_run() -> None:
    made = workflow(
        ["ask.submitted -> END"],
        [{**ASK, "outcomes": ["submitted"]}],
        input_schema=INPUT,
        state_schema=STATE,
        output=[{"target": "note", "path": "state.note"}],
        output_schema={"type": "object", "properties": {"note": {}}},
    )
    run = paused(made)

    with pytest.raises(WorkflowExecutionError, match=r"state.note is missing"):
        resume_workflow(made, run, {}, resume_payload=ANSWER)

    assert (run.status, run.interrupt) == (RunStatus.FAILED, None)
    assert run.state["approved"] is True


def test_the_callers_payload_does_not_become_part_of_the_run() -> None:
    made = approval(resume=[{"source": "approved", "target": "state.note"}], resume_schema={"type": "object"})
    made.state_schema = made.state_schema.model_validate({"type": "object", "properties": {"note": {}, "approved": {}}})
    run, given = paused(made), {"approved": {"by": ["me"]}}
    done = resume_workflow(made, run, {"work": echo}, resume_payload=given, resume_outcome="rejected")

    given["approved"]["by"].append("you")

    assert done.state["note"] == {"by": ["me"]}
    assert done.trace[-1].output == {"approved": {"by": ["me"]}}


def test_an_interrupted_run_without_an_answer_stays_as_it_is() -> None:
    run = paused()
    before = copy.deepcopy(run.to_dict())

    assert resume_workflow(approval(), run, {}) is run
    assert run.to_dict() == before


def test_a_frame_that_does_not_wait_takes_no_answer() -> None:
    run = paused()
    run.frames["root"].status = FrameStatus.PENDING

    with pytest.raises(WorkflowExecutionError, match="does not wait at 'ask'") as caught:
        resume_workflow(approval(), run, {}, resume_payload=ANSWER)
    assert caught.value.code == "interrupt_not_open"

    run.frames["root"].status, run.frames["root"].node_id = FrameStatus.INTERRUPTED, "after"
    with pytest.raises(WorkflowExecutionError, match="no longer waits at 'ask'"):
        resume_workflow(approval(), run, {}, resume_payload=ANSWER)


def test_an_interrupt_that_is_not_resumable_refuses() -> None:
    run = paused()
    assert run.interrupt is not None
    run.interrupt.resumable = False

    with pytest.raises(WorkflowExecutionError, match="cannot be resumed"):
        resume_workflow(approval(), run, {}, resume_payload=ANSWER)


def test_a_host_can_check_an_answer_without_giving_it() -> None:
    run, made = paused(), approval()
    program, before = Program(compile_plan(made), {}), copy.deepcopy(run.to_dict())
    assert run.interrupt is not None

    kernel.check_resume(program, RunStateSlice(run), run.interrupt, ANSWER, "submitted")
    with pytest.raises(WorkflowExecutionError):
        kernel.check_resume(program, RunStateSlice(run), run.interrupt, {}, "submitted")

    assert run.to_dict() == before


# ---- inside loops


def loop(mode: dict[str, Any]) -> Workflow:
    return workflow(
        ["each.loop -> work", "work.ok -> ask", "ask.submitted -> after", "after.ok -> each", "each.done -> END"],
        [
            foreach("each", "input.items", **mode),
            node("work", input=[reads("context.each_item")]),
            {
                "id": "ask",
                "type": "interrupt",
                "kind": "approval",
                "request": [reads("context.each_item")],
                "resume": [{"source": "value", "target": "state.values"}],
            },
            node("after", input=[reads("state.values")]),
        ],
        input_schema=INPUT,
        state_schema=STATE,
        output_schema={"type": "object", "properties": {"values": {}}},
    )


def items_of(run: RunState) -> list[Any]:
    return [frame for frame in run.frames.values() if frame.kind == ITEM_FRAME]


@MODES
def test_an_item_goes_on_in_the_same_frame_lineage_and_visit(mode: dict[str, Any]) -> None:
    seen: list[tuple[str, str, str]] = []

    def work(payload: dict[str, Any], context: RuntimeContext) -> dict[str, Any]:
        entry = context.foreach["each"]
        seen.append((entry.frame_id, entry.lineage_id, entry.activation_id))
        return payload

    run = execute_workflow(loop(mode), {"items": ["a"]}, {"work": work})
    resume_workflow(loop(mode), run, {"work": work}, resume_payload={"value": 1})

    assert len(seen) == 2 and seen[0] == seen[1]


def test_a_serial_items_answer_commits_to_the_outer_state() -> None:
    run = execute_workflow(loop({}), {"items": ["a", "b"]}, {"work": echo})
    assert run.interrupt is not None and run.interrupt.payload == {"value": "a"}

    run = resume_workflow(loop({}), run, {"work": echo}, resume_payload={"value": 1})

    assert run.state["values"] == [1]
    assert run.interrupt is not None and run.interrupt.payload == {"value": "b"}


def test_a_concurrent_items_answer_waits_for_the_barrier() -> None:
    run = execute_workflow(loop(CONCURRENT), {"items": ["a", "b", "c"]}, {"work": echo})
    answers = {"a": 1, "b": 2, "c": 3}
    order: list[str] = []

    while run.status is RunStatus.INTERRUPTED:
        assert "values" not in run.state
        assert run.interrupt is not None
        order.append(run.interrupt.payload["value"])
        run = resume_workflow(loop(CONCURRENT), run, {"work": echo}, resume_payload={"value": answers[order[-1]]})

    assert sorted(order) == ["a", "b", "c"]
    assert run.output["values"] == [1, 2, 3]


def test_nothing_is_admitted_and_no_sibling_runs_while_the_run_waits() -> None:
    calls: list[Any] = []

    def work(payload: dict[str, Any], context: RuntimeContext) -> dict[str, Any]:
        calls.append(payload["value"])
        return payload

    run = execute_workflow(loop(CONCURRENT), {"items": [*"abcd"]}, {"work": work})

    assert run.status is RunStatus.INTERRUPTED
    assert calls == ["a"]
    assert len(items_of(run)) == 2
    assert [f.status for f in items_of(run)] == [FrameStatus.INTERRUPTED, FrameStatus.PENDING]
    assert run.ready_frame_ids == [items_of(run)[1].id]
    assert run.frames["root"].status is FrameStatus.BLOCKED


def test_the_answered_frame_runs_before_its_waiting_siblings() -> None:
    calls: list[str] = []

    def work(payload: dict[str, Any], context: RuntimeContext) -> dict[str, Any]:
        calls.append(f"{context.current_node_id} {context.foreach['each'].index}")
        return payload

    run = execute_workflow(loop(CONCURRENT), {"items": [*"ab"]}, {"work": work})
    resume_workflow(loop(CONCURRENT), run, {"work": work}, resume_payload={"value": 1})

    assert calls[:2] == ["work 0", "after 0"]


@MODES
@pytest.mark.parametrize("inner", [{}, CONCURRENT], ids=["serial", "concurrent"])
def test_nested_loops_wait_and_go_on_without_losing_an_answer(mode: dict[str, Any], inner: dict[str, Any]) -> None:
    made = workflow(
        ["o.loop -> i", "i.loop -> ask", "ask.submitted -> i", "i.done -> o", "o.done -> END"],
        [
            foreach("o", "input.items", **mode),
            foreach("i", "context.o_item", **inner),
            {
                "id": "ask",
                "type": "interrupt",
                "kind": "approval",
                "request": [reads("context.i_item")],
                "resume": [{"source": "value", "target": "state.values"}],
            },
        ],
        input_schema={"type": "object", "properties": {"items": {"type": "array", "items": {"type": "array"}}}},
        state_schema=STATE,
        output_schema={"type": "object", "properties": {"values": {}}},
    )
    run = execute_workflow(made, {"items": [[1, 2, 3], [], [4, 5]]}, {})
    pauses = 0

    while run.status is RunStatus.INTERRUPTED:
        pauses += 1
        live = len(run.frames)
        assert run.interrupt is not None
        payload = {"value": run.interrupt.payload["value"]}
        assert len(run.frames) == live
        run = resume_workflow(made, run, {}, resume_payload=payload)

    assert pauses == 5
    assert run.output["values"] == [1, 2, 3, 4, 5]


async def test_a_batch_that_began_settles_before_the_run_waits() -> None:
    calls: list[Any] = []

    async def work(payload: dict[str, Any], context: RuntimeContext) -> dict[str, Any]:
        calls.append(payload["value"])
        return payload

    run = await execute_workflow_async(loop(CONCURRENT), {"items": [*"abcd"]}, {"work": work})

    assert run.status is RunStatus.INTERRUPTED
    assert calls == ["a", "b"]
    assert [e.node_id for e in run.trace if e.outcome == "ok"] == ["work", "work"]
    assert "values" not in run.state
    assert len(items_of(run)) == 2


def test_in_memory_an_interrupt_does_not_expire_and_nobody_answers_with_that_outcome() -> None:
    made = workflow(
        ["ask.submitted -> END", "ask.expired -> END"],
        [{"id": "ask", "type": "interrupt", "kind": "k", "outcomes": ["submitted", "expired"], "expires_seconds": 1}],
    )

    run = execute_workflow(made, {}, {})

    assert run.status is RunStatus.INTERRUPTED and run.interrupt is not None
    assert run.interrupt.outcomes == ["submitted"]
    with pytest.raises(WorkflowExecutionError) as refused:
        resume_workflow(made, run, {}, resume_payload={}, resume_outcome="expired")
    assert refused.value.code == "resume_outcome_undeclared"
    assert resume_workflow(made, run, {}, resume_payload={}).status is RunStatus.COMPLETED
