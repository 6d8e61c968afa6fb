"""A child workflow and its caller: what they share, how the child is found, and how a pause inside it is answered."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.support.engines import echo, fresh_run
from tests.support.workflow_documents import node, reads, workflow
from wf_core.errors import WorkflowExecutionError
from wf_core.models import ReducerSpec, Workflow
from wf_core.reducers import ReducerDefinition
from wf_core.run_limits import RunLimits
from wf_core.run_state import FrameStatus, RunStatus, RuntimeContext
from wf_core.runtime import PreparedSubgraph, execute_workflow, resume_workflow

PORTS = {
    "input_schema": {"type": "object", "properties": {"value": {}}},
    "output_schema": {"type": "object", "properties": {"value": {}, "total": {}}},
}
SUM: dict[str, Any] = {
    "type": "object",
    "properties": {"total": {"type": "integer", "reducer": "wf.std.add"}, "value": {}},
}


def caller(ref: Any = "child", **changes: Any) -> Workflow:
    """first -> call -> END; both write ``state.total``."""
    return workflow(
        ["first.ok -> call", "call.ok -> END"],
        [
            node(
                "first",
                input=[{"target": "value", "value": 100}],
                output=[{"source": "value", "target": "state.total"}],
            ),
            {
                "id": "call",
                "type": "subgraph",
                "workflow": ref,
                **PORTS,
                "input": [reads("input.value")],
                "output": [{"source": "total", "target": "state.total"}],
            },
        ],
        input_schema={"type": "object", "properties": {"value": {}, "secret": {}}},
        state_schema=SUM,
        output_schema={"type": "object", "properties": {"total": {}}},
        **changes,
    )


def child(**changes: Any) -> Workflow:
    """Adds its input to a total of its own and shows its whole state."""
    return workflow(
        ["add.ok -> END"],
        [
            node(
                "add",
                input=[reads("input.value"), reads("state", "other")],
                output=[{"source": "value", "target": "state.total"}],
            )
        ],
        name="child",
        output=[{"target": "total", "path": "state.total"}],
        **{**PORTS, "state_schema": SUM, **changes},
    )


def test_a_child_has_a_state_and_an_input_of_its_own() -> None:
    seen: list[Any] = []

    def add(payload: dict[str, Any], context: RuntimeContext) -> dict[str, Any]:
        seen.append(payload)
        return payload

    run = execute_workflow(
        caller(),
        {"value": 7, "secret": "s"},
        {"work": echo},
        subgraphs={"child": PreparedSubgraph(child(), {"work": add})},
    )

    assert seen == [{"value": 7, "other": {"value": 7}}]
    scope = run.scopes["root:subgraph:call"]
    assert (scope.workflow_name, scope.workflow_input) == ("child", {"value": 7})
    assert scope.committed_state == {"value": 7, "total": 7}
    assert run.output == {"total": 107}


def test_a_childs_failure_leaves_the_callers_state_alone() -> None:
    run = fresh_run(caller(), {"value": "text"})

    with pytest.raises(WorkflowExecutionError, match=r"state write state\.total"):
        resume_workflow(caller(), run, {"work": echo}, subgraphs={"child": PreparedSubgraph(child(), {"work": echo})})

    assert run.status is RunStatus.FAILED
    assert run.state == {"value": "text", "total": 100}


def test_a_child_brings_handlers_and_reducers_of_its_own() -> None:
    state = {"type": "object", "properties": {"total": {"reducer": "team.math.twice"}, "value": {}}}
    twice = ReducerDefinition(ReducerSpec(name="team.math.twice"), lambda current, incoming: 2 * incoming)
    prepared = PreparedSubgraph(
        child(state_schema=state), {"work": lambda p, c: {"value": 5}}, {"team.math.twice": twice}
    )

    run = execute_workflow(caller(), {"value": 7}, {"work": echo}, subgraphs={"child": prepared})

    assert run.output == {"total": 110}


@pytest.mark.parametrize(
    ("ref", "key"),
    [
        ("workflow.billing.v3", "workflow.billing.v3"),
        ({"artifact_id": "billing", "version": 3}, "workflow.billing.v3"),
        ({"name": "billing"}, "billing"),
    ],
)
def test_a_child_is_found_by_what_its_reference_shows(ref: Any, key: str) -> None:
    prepared = PreparedSubgraph(child(), {"work": echo})

    run = execute_workflow(caller(ref), {"value": 1}, {"work": echo}, subgraphs={key: prepared})

    assert run.output == {"total": 101}
    reference = run.scopes["root:subgraph:call"].workflow_ref
    assert reference is not None and reference.display == key
    for other in ("billing" if key != "billing" else "child", "workflow.billing.v4"):
        with pytest.raises(WorkflowExecutionError, match="prepared child workflow"):
            execute_workflow(caller(ref), {"value": 1}, {"work": echo}, subgraphs={other: prepared})


# ---- a pause inside


def asking() -> Workflow:
    return workflow(
        ["ask.submitted -> add", "add.ok -> END"],
        [
            {
                "id": "ask",
                "type": "interrupt",
                "kind": "review",
                "request": [reads("input.value")],
                "resume": [{"source": "answer", "target": "state.value"}],
                "resume_schema": {
                    "type": "object",
                    "properties": {"answer": {"type": "integer"}},
                    "required": ["answer"],
                },
            },
            node("add", input=[reads("state.value")], output=[{"source": "value", "target": "state.total"}]),
        ],
        name="child",
        state_schema=SUM,
        output=[{"target": "total", "path": "state.total"}],
        **PORTS,
    )


def test_a_pause_inside_a_child_is_answered_only_with_the_child_at_hand() -> None:
    subgraphs = {"child": PreparedSubgraph(asking(), {"work": echo})}
    run = execute_workflow(caller(), {"value": 1}, {"work": echo}, subgraphs=subgraphs, limits=RunLimits(5))
    assert run.status is RunStatus.INTERRUPTED
    before = copy.deepcopy(run.to_dict())

    assert resume_workflow(caller(), run, {"work": echo}) is run
    assert run.to_dict() == before
    with pytest.raises(WorkflowExecutionError, match="prepared child workflow"):
        resume_workflow(caller(), run, {"work": echo}, resume_payload={"answer": 2})
    assert run.to_dict() == before
    with pytest.raises(WorkflowExecutionError, match="interrupt resume for ask"):
        resume_workflow(caller(), run, {"work": echo}, resume_payload={"answer": "two"}, subgraphs=subgraphs)
    assert run.to_dict() == before

    done = resume_workflow(caller(), run, {"work": echo}, resume_payload={"answer": 2}, subgraphs=subgraphs)
    assert (done.status, done.output, done.steps_executed) == (RunStatus.COMPLETED, {"total": 102}, 5)


def test_a_pause_inside_a_child_shows_the_boundary_and_routes_to_the_step_that_waits() -> None:
    middle = workflow(
        ["call.ok -> END"],
        [
            {
                "id": "call",
                "type": "subgraph",
                "workflow": "child",
                **PORTS,
                "input": [reads("input.value")],
                "output": [{"source": "total", "target": "state.total"}],
            }
        ],
        name="middle",
        state_schema=SUM,
        output=[{"target": "total", "path": "state.total"}],
        **PORTS,
    )
    subgraphs = {
        "middle": PreparedSubgraph(middle, {}),
        "child": PreparedSubgraph(asking(), {"work": echo}),
    }
    run = execute_workflow(caller("middle"), {"value": 1}, {"work": echo}, subgraphs=subgraphs)

    request = run.interrupt
    assert request is not None and request.route is not None
    route = request.route
    inner = "root:subgraph:call:frame:subgraph:call"
    assert (request.id, request.node_id, request.frame_id) == ("interrupt:call", "call", "root:subgraph:call:frame")
    assert (route.node_id, route.frame_id, route.scope_id) == ("ask", f"{inner}:frame", inner)
    assert (route.lineage_id, route.parent_frame_id) == (f"{inner}:root", request.frame_id)
    assert route.workflow_ref is not None and route.workflow_ref.display == "child"
    assert run.frames[route.frame_id].status is FrameStatus.INTERRUPTED
    assert [run.frames[name].status for name in ("root", "root:subgraph:call:frame")] == [FrameStatus.BLOCKED] * 2

    done = resume_workflow(caller("middle"), run, {"work": echo}, resume_payload={"answer": 2}, subgraphs=subgraphs)
    assert done.scopes[inner].committed_state == {"value": 2, "total": 2}
    assert done.output == {"total": 102}
