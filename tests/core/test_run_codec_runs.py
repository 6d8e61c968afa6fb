"""A run that is stored and loaded between its steps goes on as if nothing had happened."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.support.engines import echo
from tests.support.random_flows import FlowMaker, answer, note
from tests.support.workflow_documents import foreach, node, reads, workflow
from wf_core.errors import WorkflowExecutionError, WorkflowStepLimitExceeded
from wf_core.models import Workflow
from wf_core.run_codec import dump_run_state, load_run_state, load_run_state_with_upgrade
from wf_core.run_limits import DEFAULT_MAX_STEPS, RunLimits
from wf_core.run_state import ITEM_FRAME, ForeachContext, RunState, RunStatus, RuntimeContext
from wf_core.runtime import PreparedSubgraph, execute_workflow, kernel, local, resume_workflow, step_workflow
from wf_core.runtime.engine import build_program, create_run_state
from wf_core.runtime.kernel import Walk
from wf_core.runtime.ops.interrupts import waiting_place
from wf_core.runtime.slice import RunStateSlice

Subgraphs = Mapping[str, PreparedSubgraph[Any]]
Reload = Callable[[int], bool]

CONCURRENT: dict[str, Any] = {"mode": "concurrent", "concurrent": {"max_active": 2, "max_outstanding": 3}}
MODES = pytest.mark.parametrize("mode", [{}, CONCURRENT], ids=["serial", "concurrent"])
INNER = pytest.mark.parametrize("inner", [{}, CONCURRENT], ids=["serial", "concurrent"])
STATE: dict[str, Any] = {
    "type": "object",
    "properties": {"values": {"type": "array", "reducer": "wf.std.append"}, "note": {}},
}
ITEMS: dict[str, Any] = {"items": [[1, 2, 3], [], [4, 5]]}


def through_text(document: Any) -> Any:
    return json.loads(json.dumps(document, allow_nan=False))


def reloaded(run: RunState) -> RunState:
    return load_run_state(through_text(dump_run_state(run)))


def nested(mode: dict[str, Any], inner: dict[str, Any]) -> Workflow:
    """outer -> inner -> before -> ask -> after, back to inner and outer."""
    routes = ["o.loop -> i", "i.loop -> before", "before.ok -> ask", "ask.submitted -> after", "after.ok -> i"]
    return workflow(
        [*routes, "i.done -> o", "o.done -> END"],
        [
            foreach("o", "input.items", **mode),
            foreach("i", "context.o_item", **inner),
            node("before", input=[reads("context.i_item")], output=[{"source": "value", "target": "state.values"}]),
            {
                "id": "ask",
                "type": "interrupt",
                "kind": "approval",
                "request": [reads("context.i_item")],
                "resume": [{"source": "value", "target": "state.values"}],
            },
            node("after", input=[reads("context.i_item")], output=[{"source": "value", "target": "state.values"}]),
        ],
        input_schema={"type": "object", "properties": {"items": {"type": "array", "items": {"type": "array"}}}},
        state_schema=STATE,
        output_schema={"type": "object", "properties": {"values": {}}},
    )


def reply(payload: dict[str, Any]) -> dict[str, Any]:
    return {"value": -payload["value"]}


def take_answer(run: RunState, made: Workflow, payload: dict[str, Any], subgraphs: Subgraphs) -> None:
    """Gives the answer and takes no step after it, which is what ``resume_workflow`` does first."""
    request = run.interrupt
    assert request is not None and request.step_number is not None
    program = build_program(made, subgraphs=subgraphs)
    walk = Walk(hops=0, inline_items=None)
    transition = kernel.resume(
        program, RunStateSlice(run), request, payload, "submitted", number=request.step_number, walk=walk
    )
    run.interrupt, run.status = None, RunStatus.RUNNING
    local.apply(run, transition)
    frame_id = waiting_place(request)[0]
    if frame_id in run.ready_frame_ids:
        local.enqueue_frame(run, frame_id, front=True)
    if transition.error is not None:
        raise transition.error


def drive(
    made: Workflow,
    workflow_input: dict[str, Any],
    handlers: Mapping[str, Any],
    reply: Callable[[dict[str, Any]], dict[str, Any]],
    *,
    reload: Reload,
    subgraphs: Subgraphs | None = None,
) -> tuple[dict[str, Any], str | None, int]:
    """Takes a run step by step to its end; before step n it is stored and loaded where ``reload(n)`` says so.

    Gives the stored form of its end, the error it ended with, and the number of steps.
    """
    subgraphs = subgraphs or {}
    run = create_run_state(build_program(made, subgraphs=subgraphs), workflow_input)
    steps, error = 0, None
    try:
        while run.status is not RunStatus.COMPLETED:
            if reload(steps):
                run = reloaded(run)
            steps += 1
            if run.status is RunStatus.INTERRUPTED:
                assert run.interrupt is not None
                take_answer(run, made, reply(run.interrupt.payload), subgraphs)
            else:
                step_workflow(made, run, handlers, subgraphs=subgraphs)
    except (ValueError, WorkflowExecutionError) as raised:
        error = f"{type(raised).__name__}: {raised}"
    return dump_run_state(run), error, steps


# ---- at any step


@MODES
@INNER
def test_a_run_may_be_stored_and_loaded_between_any_two_steps(mode: dict[str, Any], inner: dict[str, Any]) -> None:
    made = nested(mode, inner)

    expected = drive(made, ITEMS, {"work": echo}, reply, reload=lambda _: False)
    always = drive(made, ITEMS, {"work": echo}, reply, reload=lambda _: True)

    assert expected[0]["state"]["status"] == "completed"
    assert sorted(expected[0]["state"]["output"]["values"]) == sorted([1, 2, 3, 4, 5] * 2 + [-1, -2, -3, -4, -5])
    assert always == expected
    for step in range(expected[2]):
        assert drive(made, ITEMS, {"work": echo}, reply, reload=lambda n, step=step: n == step) == expected


@MODES
@INNER
def test_a_loaded_run_equals_the_one_that_was_stored_at_every_step(mode: dict[str, Any], inner: dict[str, Any]) -> None:
    made = nested(mode, inner)
    run = create_run_state(build_program(made), ITEMS)
    stops = 0

    while run.status is not RunStatus.COMPLETED:
        loaded = reloaded(run)
        assert loaded == run
        assert loaded.state is loaded.scopes["root"].committed_state
        stops += 1
        if run.status is RunStatus.INTERRUPTED:
            assert run.interrupt is not None
            take_answer(run, made, reply(run.interrupt.payload), {})
        else:
            step_workflow(made, run, {"work": echo})

    assert stops > 20


@pytest.mark.parametrize("seed", range(150))
def test_a_random_run_that_is_stored_anywhere_ends_like_one_that_is_not(seed: int) -> None:
    """Ends alike in every field of every record, or fails alike."""
    rng = random.Random(f"codec {seed}")
    maker = FlowMaker(random.Random(seed))
    made, given = maker.make()
    handlers = {"note": note}
    subgraphs = {name: PreparedSubgraph(child, handlers) for name, child in maker.children.items()}

    expected = drive(made, given, handlers, answer, reload=lambda _: False, subgraphs=subgraphs)
    chosen = rng.randrange(expected[2])

    once = drive(made, given, handlers, answer, reload=lambda n: n == chosen, subgraphs=subgraphs)
    often = drive(made, given, handlers, answer, reload=lambda _: rng.random() < 0.3, subgraphs=subgraphs)
    assert once == expected
    assert often == expected


# ---- at an interrupt


@MODES
@INNER
def test_an_answered_item_finds_the_same_loops_around_it_after_loading(
    mode: dict[str, Any], inner: dict[str, Any]
) -> None:
    seen: dict[str, list[dict[str, ForeachContext]]] = {"before": [], "after": []}

    def work(payload: dict[str, Any], context: RuntimeContext) -> dict[str, Any]:
        seen[context.current_node_id].append(dict(context.foreach))
        return payload

    made = nested(mode, inner)
    run = execute_workflow(made, {"items": [[{"sku": "A"}]]}, {"work": work})
    assert run.status is RunStatus.INTERRUPTED
    [before] = seen["before"]

    run = resume_workflow(made, reloaded(run), {"work": work}, resume_payload={"value": 1})

    assert run.status is RunStatus.COMPLETED
    assert seen["after"] == [before]
    assert list(before) == ["o", "i"]
    assert (before["o"].item, before["i"].item) == ([{"sku": "A"}], {"sku": "A"})
    assert len({before["o"].lineage_id, before["i"].lineage_id, before["o"].frame_id, before["i"].frame_id}) == 4


@MODES
@INNER
def test_visits_keep_their_identity_over_many_pauses(mode: dict[str, Any], inner: dict[str, Any]) -> None:
    made = nested(mode, inner)

    def visits(stored: bool) -> list[Any]:
        run, found = execute_workflow(made, ITEMS, {"work": echo}), []
        while run.status is RunStatus.INTERRUPTED:
            assert run.interrupt is not None
            place = run.frames[run.interrupt.frame_id]
            found.append((place.id, place.lineage_id, place.metadata["activation_id"]))
            run = resume_workflow(
                made,
                reloaded(run) if stored else run,
                {"work": echo},
                resume_payload=reply(run.interrupt.payload),
            )
        found.append(sorted(frame.id for frame in run.frames.values() if frame.kind == ITEM_FRAME))
        return found

    assert len(visits(stored=False)) == 6
    assert visits(stored=True) == visits(stored=False)


def test_the_schema_of_an_open_interrupt_still_governs_its_answer_after_loading() -> None:
    made = nested({}, {})
    made.nodes[3] = made.nodes[3].model_copy(  # type: ignore[call-overload]
        update={"resume_schema": {"type": "object", "properties": {"value": {"type": "integer"}}}}
    )
    run = reloaded(execute_workflow(made, ITEMS, {"work": echo}))

    with pytest.raises(WorkflowExecutionError, match="interrupt resume for ask"):
        resume_workflow(made, run, {"work": echo}, resume_payload={"value": "text"})

    assert resume_workflow(made, run, {"work": echo}, resume_payload={"value": 1}).status is RunStatus.INTERRUPTED


# ---- the budget


def approval() -> Workflow:
    ask = {"id": "ask", "type": "interrupt", "kind": "approval", "resume": [{"source": "v", "target": "state.note"}]}
    return workflow(
        ["first.ok -> ask", "ask.submitted -> second", "second.ok -> third", "third.ok -> END"],
        [node("first"), {**ask, "resume_schema": {"type": "object"}}],
        state_schema=STATE,
        output_schema={"type": "object", "properties": {"note": {}}},
    )


def test_limits_and_counts_come_back() -> None:
    run = reloaded(execute_workflow(approval(), {}, {"work": echo}, limits=RunLimits(max_steps=4)))

    assert (run.limits, run.steps_executed, run.steps_remaining) == (RunLimits(max_steps=4), 2, 2)
    assert [entry.step_number for entry in run.trace] == [1, 2]
    assert run.interrupt is not None and run.interrupt.key == "interrupt:ask#2"
    assert run.frames["root"].step_number == 2


def test_a_loaded_run_goes_on_with_what_is_left_of_its_budget() -> None:
    run = reloaded(execute_workflow(approval(), {}, {"work": echo}, limits=RunLimits(max_steps=3)))

    with pytest.raises(WorkflowStepLimitExceeded) as caught:
        resume_workflow(approval(), run, {"work": echo}, resume_payload={"v": 1})

    assert (caught.value.max_steps, caught.value.steps_executed, caught.value.node_id) == (3, 3, "third")
    failed = reloaded(run)
    assert (failed.status, failed.steps_remaining, failed.error) == (RunStatus.FAILED, 0, str(caught.value))


def as_version_1(run: RunState) -> dict[str, Any]:
    """The document that was written for the run before there were budgets."""
    state = through_text(dump_run_state(run))["state"]
    del state["limits"], state["steps_executed"]
    for record in (*state["trace"], *state["frames"].values(), state["interrupt"]):
        del record["step_number"]
    return {"version": 1, "state": state}


def test_a_run_without_budget_goes_on_with_a_whole_default_one() -> None:
    paused = execute_workflow(approval(), {}, {"work": echo}, limits=RunLimits(max_steps=2))
    run, upgraded = load_run_state_with_upgrade(as_version_1(paused))

    done = resume_workflow(approval(), run, {"work": echo}, resume_payload={"v": 1})

    assert upgraded
    assert (done.status, done.output) == (RunStatus.COMPLETED, {"note": 1})
    assert (done.limits.max_steps, done.steps_executed) == (DEFAULT_MAX_STEPS, 2)


def test_an_upgraded_run_can_be_stored_again_after_its_answer() -> None:
    """The pause has no number, so neither has the answer to it."""
    run = load_run_state(as_version_1(execute_workflow(approval(), {}, {"work": echo})))

    done = resume_workflow(approval(), run, {"work": echo}, resume_payload={"v": 1})

    assert [entry.step_number for entry in done.trace] == [None, None, None, 1, 2]
    assert reloaded(done) == done
