"""A child workflow runs in a scope of its own and hands back one output."""

from __future__ import annotations

from typing import Any

import pytest

from wf_core.errors import WorkflowExecutionError
from wf_core.models import Workflow
from wf_core.run_limits import RunLimits
from wf_core.run_state import RunState, RunStatus, RuntimeContext
from wf_core.runtime import PreparedSubgraph, execute_workflow, resume_workflow

TAKES = {"type": "object", "properties": {"order": {}}}
GIVES = {"type": "object", "properties": {"line": {}, "scope": {}}}


def work_def(name: str = "work") -> dict[str, Any]:
    return {"name": name, "input_schema": TAKES, "output_schema": GIVES, "outcomes": ["ok", "bad"]}


def child(**changes: Any) -> Workflow:
    """take(input.order) -> state.line -> end, or `rejected` when the handler says bad."""
    document: dict[str, Any] = {
        "name": "child",
        "input_schema": {"type": "object", "properties": {"order": {}}, "required": ["order"]},
        "state_schema": {"type": "object", "properties": {"line": {"type": "string"}}},
        "output_schema": {"type": "object", "properties": {"line": {"type": "string"}, "scope": {}}},
        "output": [{"target": "line", "path": "state.line"}, {"target": "scope", "path": "context.scope_id"}],
        "outcomes": ["ok", "rejected"],
        "node_defs": [work_def()],
        "start": "take",
        "nodes": [
            {
                "id": "take",
                "type": "node",
                "node": "work",
                "input": [{"target": "order", "path": "input.order"}],
                "output": [{"source": "line", "target": "state.line"}],
            },
            {"id": "no", "type": "end", "outcome": "rejected"},
        ],
        "edges": [
            {"from": "take", "outcome": "ok", "to": "__end__"},
            {"from": "take", "outcome": "bad", "to": "no"},
        ],
    }
    return Workflow.model_validate(document | changes)


def caller(mode: str | None = None, **step: Any) -> Workflow:
    """A subgraph step, alone or in a loop over input.orders."""
    in_loop = mode is not None
    node: dict[str, Any] = {
        "id": "call",
        "type": "subgraph",
        "workflow": {"name": "child"},
        "input_schema": TAKES,
        "output_schema": GIVES,
        "outcomes": ["ok", "rejected"],
        "input": [{"target": "order", "path": "context.foreach.each.item" if in_loop else "input.order"}],
        "output": [{"source": "line", "target": "state.lines"}, {"source": "scope", "target": "state.scopes"}],
    } | step
    nodes: list[dict[str, Any]] = [node]
    target = "each" if in_loop else "__end__"
    edges = [{"from": "call", "outcome": outcome, "to": target} for outcome in ("ok", "rejected")]
    if mode is not None:
        each: dict[str, Any] = {"id": "each", "type": "foreach", "over": "input.orders", "as": "order", "mode": mode}
        if mode == "concurrent":
            each["concurrent"] = {"max_active": 3}
        nodes.append(each)
        edges += [
            {"from": "each", "outcome": "loop", "to": "call"},
            {"from": "each", "outcome": "done", "to": "__end__"},
        ]
    return Workflow.model_validate(
        {
            "name": "caller",
            "input_schema": {"type": "object", "properties": {"order": {}, "orders": {"type": "array"}}},
            "state_schema": {
                "type": "object",
                "properties": {name: {"type": "array", "reducer": "wf.std.append"} for name in ("lines", "scopes")},
            },
            "output_schema": {"type": "object", "properties": {"lines": {}, "scopes": {}}},
            "node_defs": [],
            "start": "each" if in_loop else "call",
            "nodes": nodes,
            "edges": edges,
        }
    )


def take(payload: dict[str, Any], ctx: RuntimeContext) -> dict[str, Any]:
    order = payload["order"]
    return {"outcome": "bad" if order == "bad" else "ok", "output": {"line": f"took {order}"}}


def run(workflow: Workflow, workflow_input: dict[str, Any], prepared: Workflow | None = None, **more: Any) -> RunState:
    handlers = {"work": more.pop("handler", take)}
    subgraphs = {"child": PreparedSubgraph(prepared or child(), handlers)}
    return execute_workflow(workflow, workflow_input, {}, subgraphs=subgraphs, **more)


def test_a_child_takes_its_input_and_its_output_is_bound_in_the_caller() -> None:
    ended = run(caller(), {"order": "a1"})

    assert ended.status is RunStatus.COMPLETED
    assert ended.output == {"lines": ["took a1"], "scopes": ["root:subgraph:call"]}
    assert ended.scopes["root:subgraph:call"].committed_state == {"order": "a1", "line": "took a1"}
    assert ended.frames["root:subgraph:call:frame"].metadata["workflow_outcome"] == "ok"


def test_a_childs_end_step_decides_the_outcome_of_the_subgraph_step() -> None:
    ended = run(caller(), {"order": "bad"})

    entry = ended.trace[-1]
    assert (entry.step_type, entry.outcome, entry.resolved_input) == ("subgraph", "rejected", {"order": "bad"})
    assert entry.output == {"line": "took bad", "scope": "root:subgraph:call"}


@pytest.mark.parametrize("mode", ["serial", "concurrent"])
def test_every_item_of_a_loop_gets_a_child_of_its_own(mode: str) -> None:
    ended = run(caller(mode), {"orders": ["a", "b", "c"]})

    assert ended.output["lines"] == ["took a", "took b", "took c"]
    assert ended.output["scopes"] == [f"root:each#0:{i}:subgraph:call" for i in range(3)]


def test_a_child_sees_nothing_of_its_callers_loops() -> None:
    seen: list[list[str]] = []

    def look(payload: dict[str, Any], ctx: RuntimeContext) -> dict[str, Any]:
        seen.append(list(ctx.foreach))
        return {"line": "x"}

    run(caller("concurrent"), {"orders": [1, 2]}, handler=look)

    assert seen == [[], []]


def test_a_one_step_child_takes_three_steps_and_its_start_leaves_no_trace() -> None:
    ended = run(caller(), {"order": 1}, limits=RunLimits(3))

    assert ended.steps_executed == 3
    assert [(entry.frame_id, entry.node_id, entry.step_number) for entry in ended.trace] == [
        ("root:subgraph:call:frame", "take", 2),
        ("root", "call", 3),
    ]


def test_a_later_visit_of_the_same_step_gets_ids_of_its_own() -> None:
    document = caller().model_dump(mode="json", by_alias=True)
    document["nodes"] += [
        {"id": "more", "type": "condition", "check": {"op": "not", "arg": {"op": "exists", "path": "state.lines"}}},
        {
            "id": "again",
            "type": "subgraph",
            "workflow": {"name": "child"},
            "input_schema": TAKES,
            "output_schema": GIVES,
            "outcomes": ["ok"],
            "input": [{"target": "order", "value": 9}],
            "output": [{"source": "scope", "target": "state.scopes"}],
        },
    ]
    document["edges"] = [
        {"from": "call", "outcome": "ok", "to": "again"},
        {"from": "call", "outcome": "rejected", "to": "__end__"},
        {"from": "again", "outcome": "ok", "to": "more"},
        {"from": "more", "outcome": "true", "to": "__end__"},
        {"from": "more", "outcome": "false", "to": "call"},
    ]
    counted: list[int] = []

    def twice(payload: dict[str, Any], ctx: RuntimeContext) -> dict[str, Any]:
        counted.append(1)
        return {"outcome": "bad" if len(counted) > 4 else "ok", "output": {"line": "x"}}

    ended = run(Workflow.model_validate(document), {"order": 1}, handler=twice)

    assert ended.output["scopes"] == [
        "root:subgraph:call",
        "root:subgraph:again",
        "root:subgraph:call#1",
        "root:subgraph:again#1",
        "root:subgraph:call#2",
    ]


@pytest.mark.parametrize(
    ("step", "prepared", "message"),
    [
        ({"input_schema": {**TAKES, "required": ["other"]}}, {}, "subgraph input for call"),
        ({"input": []}, {}, "child workflow input for call"),
        ({"output_schema": {**GIVES, "required": ["other"]}}, {}, "subgraph output for call"),
        (
            {},
            {"output_schema": {"type": "object", "properties": {"line": {"type": "integer"}, "scope": {}}}},
            "child workflow output for call",
        ),
        ({"outcomes": ["rejected"]}, {}, "undeclared outcome 'ok'"),
        ({"workflow": {"name": "other"}}, {}, "prepared child workflow"),
        ({}, {"start": "nowhere"}, "prepared child workflow 'child' is not valid"),
    ],
)
def test_a_wrong_boundary_fails_the_run_and_says_which(
    step: dict[str, Any], prepared: dict[str, Any], message: str
) -> None:
    workflow = caller(**step)
    if step.get("outcomes"):
        workflow.edges = [edge for edge in workflow.edges if edge.outcome != "ok"]

    with pytest.raises(WorkflowExecutionError, match=message):
        run(workflow, {"order": 1}, child(**prepared))


def test_an_interrupt_in_a_child_shows_itself_at_the_boundary_and_is_resumed_inside() -> None:
    asking = child().model_dump(mode="json", by_alias=True)
    asking["nodes"].append(
        {
            "id": "ask",
            "type": "interrupt",
            "kind": "review",
            "request": [{"target": "line", "path": "state.line"}],
            "resume": [{"source": "line", "target": "state.line"}],
        }
    )
    asking["edges"][0]["to"] = "ask"
    asking["edges"].append({"from": "ask", "outcome": "submitted", "to": "__end__"})
    prepared = Workflow.model_validate(asking)

    paused = run(caller("concurrent"), {"orders": ["a"]}, prepared)

    assert paused.status is RunStatus.INTERRUPTED
    request = paused.interrupt
    assert request is not None
    assert (request.id, request.node_id, request.frame_id) == ("interrupt:call", "call", "root:each#0:0")
    assert request.route is not None
    assert (request.route.node_id, request.route.scope_id) == ("ask", "root:each#0:0:subgraph:call")
    assert request.payload == {"line": "took a"}
    ended = resume_workflow(
        caller("concurrent"),
        paused,
        {},
        resume_payload={"line": "answered"},
        subgraphs={"child": PreparedSubgraph(prepared, {"work": take})},
    )
    assert ended.output["lines"] == ["answered"]


def test_a_failure_in_a_child_fails_the_run_whatever_the_callers_loop_says() -> None:
    def fail(payload: dict[str, Any], ctx: RuntimeContext) -> dict[str, Any]:
        raise ValueError("no")

    document = caller("concurrent").model_dump(mode="json", by_alias=True)
    document["nodes"][1]["item_error"] = {"action": "skip"}
    document["edges"].append({"from": "each", "outcome": "completed_with_errors", "to": "__end__"})

    with pytest.raises(ValueError, match="no"):
        run(Workflow.model_validate(document), {"orders": [1]}, handler=fail)


def test_parent_and_child_loops_may_share_an_id() -> None:
    looping = Workflow.model_validate(
        {
            "name": "child",
            "input_schema": {"type": "object", "properties": {"order": {"type": "array"}}},
            "state_schema": {"type": "object", "properties": {"line": {"type": "array", "reducer": "wf.std.append"}}},
            "output_schema": {"type": "object", "properties": {"line": {}, "scope": {}}},
            "output": [{"target": "line", "path": "state.line"}, {"target": "scope", "value": 1}],
            "node_defs": [work_def()],
            "start": "each",
            "nodes": [
                {
                    "id": "each",
                    "type": "foreach",
                    "over": "input.order",
                    "as": "order",
                    "mode": "concurrent",
                    "concurrent": {},
                },
                {
                    "id": "take",
                    "type": "node",
                    "node": "work",
                    "input": [{"target": "order", "path": "context.foreach.each.item"}],
                    "output": [{"source": "line", "target": "state.line"}],
                },
            ],
            "edges": [
                {"from": "each", "outcome": "loop", "to": "take"},
                {"from": "take", "outcome": "ok", "to": "each"},
                {"from": "take", "outcome": "bad", "to": "each"},
                {"from": "each", "outcome": "done", "to": "__end__"},
            ],
        }
    )
    scopes: list[str] = []

    def note(payload: dict[str, Any], ctx: RuntimeContext) -> dict[str, Any]:
        scopes.append(ctx.foreach["each"].scope_id)
        return take(payload, ctx)

    ended = run(caller("serial"), {"orders": [["a", "b"], ["c"]]}, looping, handler=note)

    assert ended.output["lines"] == ["took a", "took b", "took c"]
    assert set(scopes) == {f"root:each#0:{i}:subgraph:call" for i in range(2)}
