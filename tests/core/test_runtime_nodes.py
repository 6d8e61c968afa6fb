"""Node steps: what a handler is given, what its answer may be, and what it cannot touch."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.engines import echo, fresh_run, trace_of
from tests.support.workflow_documents import foreach, node, reads, workflow
from wf_core.errors import WorkflowExecutionError
from wf_core.models import NodeResult, Workflow
from wf_core.run_state import RunStatus, RuntimeContext
from wf_core.runtime import coerce_node_result, execute_workflow, execute_workflow_async, resume_workflow

INPUT = {"type": "object", "properties": {"value": {}, "other": {}, "items": {"type": "array"}}}
STATE: dict[str, Any] = {"type": "object", "properties": {"value": {}, "box": {"type": "object"}}}
STRICT = {
    "name": "work",
    "input_schema": {"type": "object", "properties": {"value": {"type": "integer"}, "other": {}}},
    "output_schema": {"type": "object", "properties": {"value": {"type": "integer"}, "other": {}}},
    "outcomes": ["ok", "late"],
}


def one(work: dict[str, Any] | None = None, definition: dict[str, Any] | None = None, **changes: Any) -> Workflow:
    routes = ["work.ok -> END"] + (["work.late -> END"] if definition is STRICT else [])
    return workflow(
        routes,
        [node("work", **(work or {}))],
        **{
            "input_schema": INPUT,
            "state_schema": STATE,
            **({"node_defs": [definition]} if definition else {}),
            **changes,
        },
    )


def given_to(made: Workflow, given: dict[str, Any]) -> list[dict[str, Any]]:
    """The payloads that the handler got."""
    payloads: list[dict[str, Any]] = []

    def work(payload: dict[str, Any], context: RuntimeContext) -> dict[str, Any]:
        payloads.append(payload)
        return {}

    execute_workflow(made, given, {"work": work})
    return payloads


# ---- input


def test_bindings_fill_a_fresh_payload_in_list_order() -> None:
    made = one(
        {
            "input": [
                {"target": "value.z", "value": [1]},
                {"target": "value.a", "path": "input.value"},
                {"target": "other", "expression": {"kind": "object", "fields": {"x": {"kind": "literal", "value": 1}}}},
            ]
        }
    )

    [payload] = given_to(made, {"value": 2})

    assert payload == {"value": {"z": [1], "a": 2}, "other": {"x": 1}}
    assert list(payload["value"]) == ["z", "a"]


@pytest.mark.parametrize(
    "binding",
    [
        reads("input.value"),
        {"target": "value", "expression": {"kind": "path", "path": "input.value"}},
        {"target": "value", "expression": {"kind": "array", "items": [{"kind": "path", "path": "input.value"}]}},
    ],
)
def test_a_missing_source_fails_before_the_handler_and_null_is_passed_on(binding: dict[str, Any]) -> None:
    made = one({"input": [binding]})

    with pytest.raises(WorkflowExecutionError, match=r"node 'work' input value.*input\.value is missing") as caught:
        given_to(made, {})
    [payload] = given_to(made, {"value": None})

    assert caught.value.code == "source_path_missing"
    assert payload in ({"value": None}, {"value": [None]})


def test_an_error_inside_an_expression_names_the_place() -> None:
    items = [{"kind": "literal", "value": 1}, {"kind": "path", "path": "input.value"}]
    made = one({"input": [{"target": "value", "expression": {"kind": "array", "items": items}}]})

    with pytest.raises(WorkflowExecutionError, match=r"node 'work' input value\.items\[1\]"):
        given_to(made, {})


def test_path_bindings_need_no_json_and_path_expressions_do() -> None:
    thing = object()
    made = one({"input": [reads("input.value")]})
    strict = one({"input": [{"target": "value", "expression": {"kind": "path", "path": "input.value"}}]})

    assert given_to(made, {"value": thing}) == [{"value": thing}]
    with pytest.raises(WorkflowExecutionError, match="not a JSON value") as caught:
        given_to(strict, {"value": thing})
    assert caught.value.code == "not_json"


def test_an_input_that_does_not_fit_its_schema_fails_before_the_handler() -> None:
    made = one({"input": [reads("input.value")]}, STRICT)

    with pytest.raises(WorkflowExecutionError, match=r"^node input for work\.value: 'text' is not of type 'integer'$"):
        given_to(made, {"value": "text"})


# ---- answers


@pytest.mark.parametrize(
    ("raw", "outcome", "output"),
    [
        (NodeResult(outcome="late", output={"value": 1}), "late", {"value": 1}),
        ({"outcome": "late", "output": {"value": 1}}, "late", {"value": 1}),
        ({"value": 1}, "ok", {"value": 1}),
        ({"outcome": "x"}, "ok", {"outcome": "x"}),
        ({"output": {}}, "ok", {"output": {}}),
        ({}, "ok", {}),
    ],
)
def test_the_forms_of_an_answer(raw: Any, outcome: str, output: dict[str, Any]) -> None:
    result = coerce_node_result(raw)

    assert (result.outcome, result.output) == (outcome, output)


@pytest.mark.parametrize(
    "raw", [None, 1, "text", ["list"], (1, 2), {"outcome": 5, "output": {}}, {"outcome": "ok", "output": 1}]
)
def test_every_other_answer_is_refused(raw: Any) -> None:
    with pytest.raises(WorkflowExecutionError, match="a handler returned") as caught:
        coerce_node_result(raw)
    assert caught.value.code == "result_not_supported"

    with pytest.raises(WorkflowExecutionError, match="a handler returned"):
        execute_workflow(one(), {}, {"work": lambda payload, context: raw})


def test_an_undeclared_outcome_is_refused_and_writes_nothing() -> None:
    made = one({"output": [{"source": "value", "target": "state.value"}]})
    run = fresh_run(made)

    with pytest.raises(WorkflowExecutionError, match="returned the undeclared outcome 'odd'") as caught:
        resume_workflow(made, run, {"work": lambda p, c: {"outcome": "odd", "output": {"value": 1}}})

    assert caught.value.hint is not None and "ok" in caught.value.hint
    assert (run.state, run.trace) == ({}, [])


def test_a_declared_outcome_without_an_edge_is_refused_at_run_time_and_writes_nothing() -> None:
    made = workflow(
        ["work.ok -> END"],
        [node("work", output=[{"source": "value", "target": "state.value"}])],
        node_defs=[STRICT],
        state_schema=STATE,
    )
    run = fresh_run(made)

    with pytest.raises(WorkflowExecutionError, match="step 'work' has no edge for outcome 'late'"):
        resume_workflow(made, run, {"work": lambda p, c: {"outcome": "late", "output": {"value": 1}}})

    assert run.state == {}


def test_an_output_that_does_not_fit_its_schema_is_refused() -> None:
    with pytest.raises(WorkflowExecutionError, match=r"^node output for work\.value: 'text' is not of type 'integer'$"):
        execute_workflow(one(definition=STRICT), {}, {"work": lambda p, c: {"value": "text"}})


def test_a_handlers_exception_reaches_the_caller_unchanged() -> None:
    failure = KeyError("mine")

    def work(payload: dict[str, Any], context: RuntimeContext) -> dict[str, Any]:
        raise failure

    with pytest.raises(KeyError) as caught:
        execute_workflow(one(), {}, {"work": work})

    assert caught.value is failure


def test_a_missing_handler_is_named_before_anything_else_is_looked_at() -> None:
    made = one({"input": [reads("input.value")]})

    with pytest.raises(WorkflowExecutionError, match="no handler is registered for 'work'") as caught:
        execute_workflow(made, {}, {})

    assert caught.value.code == "handler_missing"


async def test_async_handlers_may_be_plain_functions_or_coroutines() -> None:
    async def work(payload: dict[str, Any], context: RuntimeContext) -> dict[str, Any]:
        return {"value": context.platform}

    made = one({"output": [{"source": "value", "target": "state.value"}]})

    assert (await execute_workflow_async(made, {}, {"work": work}, platform="host")).state == {"value": "host"}
    plain = await execute_workflow_async(made, {}, {"work": lambda p, c: {"value": c.platform}}, platform="host")
    assert plain.state == {"value": "host"}
    assert "host" not in str(plain.to_dict()["frames"])


# ---- what a handler cannot touch


def test_a_handler_that_changes_its_payload_changes_nothing_of_the_run() -> None:
    def work(payload: dict[str, Any], context: RuntimeContext) -> dict[str, Any]:
        payload["value"]["list"].append("mine")
        payload["other"] = "mine"
        return {}

    made = one({"input": [reads("input.value"), reads("state.box", "other")]})
    given = {"value": {"list": [1]}, "box": {"a": 1}}
    run = execute_workflow(made, given, {"work": work})

    assert given == {"value": {"list": [1]}, "box": {"a": 1}}
    assert run.trace[0].resolved_input == {"value": {"list": [1]}, "other": {"a": 1}}
    assert run.state == given


@pytest.mark.parametrize("mode", [{}, {"mode": "concurrent", "concurrent": {}}], ids=["serial", "concurrent"])
def test_a_handler_that_changes_its_context_changes_nothing_of_the_run(mode: dict[str, Any]) -> None:
    def work(payload: dict[str, Any], context: RuntimeContext) -> dict[str, Any]:
        item: Any = context.foreach["each"].item
        item["name"] = "mine"
        context.metadata["loop_index"] = 99
        context.metadata["loop_item"]["name"] = "mine too"
        with pytest.raises(TypeError):
            context.foreach["other"] = context.foreach["each"]  # type: ignore[index]
        return {}

    made = workflow(
        ["each.loop -> work", "work.ok -> look", "look.ok -> each", "each.done -> END"],
        [foreach("each", **mode), node("work"), node("look", node="look", input=[reads("context.each_item")])],
        node_defs=[
            {**STRICT, "outcomes": ["ok"]},
            {
                **STRICT,
                "name": "look",
                "outcomes": ["ok"],
                "input_schema": {"type": "object", "properties": {"value": {}}},
                "output_schema": {"type": "object", "properties": {"value": {}}},
            },
        ],
    )
    given = {"items": [{"name": "a"}, {"name": "b"}]}

    run = execute_workflow(made, given, {"work": work, "look": echo})

    assert given == {"items": [{"name": "a"}, {"name": "b"}]}
    assert [e.output["value"] for e in run.trace if e.node_id == "look"] == [{"name": "a"}, {"name": "b"}]


def test_what_a_handler_keeps_of_its_answer_stays_its_own_affair() -> None:
    kept: dict[str, Any] = {"value": []}

    def work(payload: dict[str, Any], context: RuntimeContext) -> Any:
        kept["value"].append(context.current_node_id)
        return kept if context.current_node_id == "a" else NodeResult(outcome="ok", output=kept)

    made = workflow(
        ["a.ok -> b", "b.ok -> END"],
        [node("a", output=[{"source": "value", "target": "state.value"}]), node("b")],
        state_schema=STATE,
    )
    run = execute_workflow(made, {}, {"work": work})

    assert run.state == {"value": ["a"]}
    assert [entry.output for entry in run.trace] == [{"value": ["a"]}, {"value": ["a", "b"]}]


def test_a_context_tells_where_the_step_stands_and_where_it_came_from() -> None:
    seen: list[RuntimeContext] = []

    def work(payload: dict[str, Any], context: RuntimeContext) -> dict[str, Any]:
        seen.append(context)
        return {}

    execute_workflow(workflow(["a.ok -> b", "b.ok -> END"]), {}, {"work": work})

    assert [(c.current_node_id, c.prior_outcome, c.activated_incoming_edge) for c in seen] == [
        ("a", None, None),
        ("b", "ok", "a"),
    ]
    assert {(c.frame_id, c.scope_id, c.lineage_id, c.retry_count) for c in seen} == {("root", "root", "root", 0)}


# ---- the end


def test_an_end_step_names_the_outcome() -> None:
    made = workflow(
        ["work.ok -> stop"], [node("work"), {"id": "stop", "type": "end", "outcome": "rejected"}], outcomes=["rejected"]
    )
    run = fresh_run(made)
    resume_workflow(made, run, {"work": echo})

    assert (run.status, run.outcome, run.current_node_id) == (RunStatus.COMPLETED, "rejected", "__end__")
    assert run.frames["root"].metadata["workflow_outcome"] == "rejected"
    assert trace_of(run)[-1] == "stop.rejected -> __end__"


def test_without_an_end_step_the_outcome_is_ok() -> None:
    run = execute_workflow(one(), {}, {"work": echo})

    assert (run.outcome, run.frames["root"].metadata["workflow_outcome"]) == ("ok", "ok")


def test_output_bindings_read_every_root_and_miss_nothing() -> None:
    made = one(
        output=[
            {"target": "value", "path": "input.value"},
            {"target": "other", "path": "state.value"},
            {"target": "where", "path": "context.scope_id"},
        ],
        output_schema={"type": "object", "properties": {"value": {}, "other": {}, "where": {}}},
    )

    assert execute_workflow(made, {"value": 1}, {"work": echo}).output == {"value": 1, "other": 1, "where": "root"}
    with pytest.raises(WorkflowExecutionError, match="workflow output input value"):
        execute_workflow(made, {}, {"work": echo})


def test_the_projection_without_bindings_leaves_missing_keys_out_and_keeps_nulls() -> None:
    made = one(output_schema={"type": "object", "properties": {"value": {}, "other": {}, "gone": {}}})

    assert execute_workflow(made, {"value": 1, "other": None}, {"work": echo}).output == {"value": 1, "other": None}


def test_an_output_that_does_not_fit_fails_the_run() -> None:
    made = one(output_schema={"type": "object", "properties": {"value": {"type": "string"}}})

    with pytest.raises(WorkflowExecutionError, match=r"^workflow output\.value: 1 is not of type 'string'$"):
        execute_workflow(made, {"value": 1}, {"work": echo})
