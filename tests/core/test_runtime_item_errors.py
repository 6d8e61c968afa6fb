"""Failed items: fail, skip and collect, in both modes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.engines import echo, fresh_run, trace_of
from tests.support.workflow_documents import condition, foreach, node, reads, workflow
from wf_core.errors import WorkflowExecutionError
from wf_core.models import Workflow
from wf_core.run_state import ITEM_FRAME, FrameStatus, RunState, RunStatus, RuntimeContext
from wf_core.runtime import execute_workflow, execute_workflow_async, resume_workflow

CONCURRENT: dict[str, Any] = {"mode": "concurrent", "concurrent": {"max_active": 2, "max_outstanding": 3}}
MODES = pytest.mark.parametrize("mode", [{}, CONCURRENT], ids=["serial", "concurrent"])
COLLECT = {"action": "collect", "collect_to": "state.errors"}
STATE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "values": {"type": "array", "reducer": "wf.std.append"},
        "errors": {"type": "array"},
        "before": {"type": "array", "reducer": "wf.std.append"},
    },
}
INPUT = {
    "type": "object",
    "properties": {"items": {"type": "array"}, "groups": {"type": "array", "items": {"type": "array"}}},
}
RECORD = [{"source": "value", "target": "state.values"}]


def loop(mode: dict[str, Any], policy: Any) -> Workflow:
    return workflow(
        ["each.loop -> mark", "mark.ok -> work", "work.ok -> each", "each.done -> END"]
        + ([] if policy == "fail" else ["each.completed_with_errors -> END"]),
        [
            foreach("each", "input.items", item_error=policy, **mode),
            node(
                "mark",
                node="mark",
                input=[reads("context.each_item")],
                output=[{"source": "value", "target": "state.before"}],
            ),
            node("work", input=[reads("context.each_item")], output=RECORD),
        ],
        input_schema=INPUT,
        state_schema=STATE,
        node_defs=[
            {
                "name": name,
                "input_schema": {"type": "object", "properties": {"value": {}}},
                "output_schema": {"type": "object", "properties": {"value": {}}},
                "outcomes": ["ok"],
            }
            for name in ("work", "mark")
        ],
        output_schema={"type": "object", "properties": {"values": {}, "errors": {}, "before": {}}},
    )


def picky(payload: dict[str, Any], context: RuntimeContext) -> dict[str, Any]:
    if str(payload["value"]).startswith("bad"):
        raise ValueError(f"{payload['value']} it is")
    return payload


HANDLERS = {"work": picky, "mark": echo}
GIVEN = {"items": ["a", "bad1", "b", "bad2"]}


def failed_items(run: RunState) -> list[Any]:
    return [f for f in run.frames.values() if f.kind == ITEM_FRAME and f.status is FrameStatus.FAILED]


@MODES
def test_fail_fails_the_run_with_the_handlers_own_exception(mode: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="bad1 it is"):
        execute_workflow(loop(mode, "fail"), GIVEN, HANDLERS)


def test_fail_discards_what_concurrent_items_buffered() -> None:
    made = loop(CONCURRENT, "fail")
    run = fresh_run(made, GIVEN)

    with pytest.raises(ValueError):
        resume_workflow(made, run, HANDLERS)

    assert (run.status, run.error) == (RunStatus.FAILED, "bad1 it is")
    assert "values" not in run.state
    assert "before" not in run.state


@MODES
def test_skip_goes_on_and_says_that_there_were_errors(mode: dict[str, Any]) -> None:
    run = execute_workflow(loop(mode, "skip"), GIVEN, HANDLERS)

    assert run.status is RunStatus.COMPLETED
    assert trace_of(run)[-1] == "each.completed_with_errors -> __end__"
    assert run.output["values"] == ["a", "b"]
    assert "errors" not in run.output


@MODES
def test_skip_without_failures_is_done(mode: dict[str, Any]) -> None:
    run = execute_workflow(loop(mode, "skip"), {"items": ["a"]}, HANDLERS)

    assert trace_of(run)[-1] == "each.done -> __end__"


@MODES
def test_collect_writes_the_ordered_error_list_once(mode: dict[str, Any]) -> None:
    run = execute_workflow(loop(mode, COLLECT), GIVEN, HANDLERS)

    assert run.output["values"] == ["a", "b"]
    assert run.output["errors"] == [
        {
            "index": index,
            "frame_id": f"root:each#0:{index}",
            "node_id": "work",
            "error_type": "ValueError",
            "message": f"{item} it is",
            "item": item,
        }
        for index, item in ((1, "bad1"), (3, "bad2"))
    ]
    assert "state.errors" in run.trace[-1].state_changes
    assert [entry for entry in run.trace[:-1] if "state.errors" in entry.state_changes] == []


@MODES
@pytest.mark.parametrize("items", [["a"], []])
def test_collect_writes_an_empty_list_on_success(mode: dict[str, Any], items: list[Any]) -> None:
    run = execute_workflow(loop(mode, COLLECT), {"items": items}, HANDLERS)

    assert run.output["errors"] == []
    assert trace_of(run)[-1] == "each.done -> __end__"


@MODES
def test_a_failed_item_keeps_the_reason_in_its_frame(mode: dict[str, Any]) -> None:
    run = execute_workflow(loop(mode, "skip"), GIVEN, HANDLERS)

    [first, _] = failed_items(run)
    assert {key: first.metadata[key] for key in ("error", "error_type", "failed_at_node_id")} == {
        "error": "bad1 it is",
        "error_type": "ValueError",
        "failed_at_node_id": "work",
    }


def test_what_a_failed_concurrent_item_buffered_is_dropped() -> None:
    assert execute_workflow(loop(CONCURRENT, "skip"), GIVEN, HANDLERS).output["before"] == ["a", "b"]


def test_what_a_failed_serial_item_wrote_before_stays() -> None:
    assert execute_workflow(loop({}, "skip"), GIVEN, HANDLERS).output["before"] == ["a", "bad1", "b", "bad2"]


@MODES
def test_a_failed_step_leaves_no_trace_entry(mode: dict[str, Any]) -> None:
    run = execute_workflow(loop(mode, "skip"), GIVEN, HANDLERS)

    assert [e.resolved_input["value"] for e in run.trace if e.node_id == "work"] == ["a", "b"]


@MODES
def test_all_items_may_fail(mode: dict[str, Any]) -> None:
    run = execute_workflow(loop(mode, COLLECT), {"items": ["bad1", "bad2"]}, HANDLERS)

    assert [record["index"] for record in run.output["errors"]] == [0, 1]
    assert "values" not in run.output


@pytest.mark.parametrize("mode", [{}, CONCURRENT], ids=["serial", "concurrent"])
async def test_async_handlers_fail_in_the_same_way(mode: dict[str, Any]) -> None:
    async def work(payload: dict[str, Any], context: RuntimeContext) -> dict[str, Any]:
        return picky(payload, context)

    run = await execute_workflow_async(loop(mode, COLLECT), GIVEN, {"work": work, "mark": echo})

    assert (run.output["values"], len(run.output["errors"])) == (["a", "b"], 2)


@MODES
def test_an_outcome_named_error_is_ordinary_routing(mode: dict[str, Any]) -> None:
    made = workflow(
        [
            "each.loop -> work",
            "work.ok -> each",
            "work.error -> each",
            "each.done -> END",
            "each.completed_with_errors -> END",
        ],
        [foreach("each", "input.items", item_error="skip", **mode), node("work")],
        input_schema=INPUT,
        node_defs=[
            {
                "name": "work",
                "input_schema": {"type": "object"},
                "output_schema": {"type": "object"},
                "outcomes": ["ok", "error"],
            }
        ],
    )

    run = execute_workflow(made, {"items": [1]}, {"work": lambda p, c: {"outcome": "error", "output": {}}})

    assert trace_of(run)[-1] == "each.done -> __end__"


@MODES
def test_a_condition_in_an_items_frame_is_an_item_failure_too(mode: dict[str, Any]) -> None:
    made = workflow(
        [
            "each.loop -> check",
            "check.true -> each",
            "check.false -> each",
            "each.done -> END",
            "each.completed_with_errors -> END",
        ],
        [
            foreach("each", "input.items", item_error="skip", **mode),
            condition("check", {"op": "gt", "left": {"path": "context.each_item"}, "right": {"value": 1}}),
        ],
        input_schema=INPUT,
    )

    run = execute_workflow(made, {"items": ["text", 2]}, {})

    assert trace_of(run)[-1] == "each.completed_with_errors -> __end__"


@MODES
def test_a_missing_source_and_a_missing_handler_are_item_failures(mode: dict[str, Any]) -> None:
    run = execute_workflow(loop(mode, COLLECT), {"items": ["a"]}, {"mark": echo})

    [record] = run.output["errors"]
    assert (record["error_type"], record["node_id"]) == ("WorkflowExecutionError", "work")
    assert "no handler is registered for 'work'" in record["message"]


def nested(outer: dict[str, Any], inner: dict[str, Any], inner_policy: str) -> Workflow:
    return workflow(
        ["o.loop -> i", "i.loop -> work", "work.ok -> i", "i.done -> o", "o.done -> END"]
        + ["o.completed_with_errors -> END"]
        + ([] if inner_policy == "fail" else ["i.completed_with_errors -> o"]),
        [
            foreach("o", "input.groups", item_error="skip", **outer),
            foreach("i", "context.o_item", item_error=inner_policy, **inner),
            node("work", input=[reads("context.i_item")], output=RECORD),
        ],
        input_schema=INPUT,
        state_schema=STATE,
        output_schema={"type": "object", "properties": {"values": {}}},
    )


@MODES
@pytest.mark.parametrize("inner", [{}, CONCURRENT], ids=["serial", "concurrent"])
def test_only_the_immediate_owner_decides(mode: dict[str, Any], inner: dict[str, Any]) -> None:
    groups = {"groups": [["a"], ["bad1"]]}

    with pytest.raises(ValueError, match="bad1 it is"):
        execute_workflow(nested(mode, inner, "fail"), groups, {"work": picky})

    run = execute_workflow(nested(mode, inner, "skip"), groups, {"work": picky})
    assert run.output["values"] == ["a"]
    assert trace_of(run)[-1] == "o.done -> __end__"


@MODES
def test_an_inner_loop_that_cannot_begin_is_the_outer_items_failure(mode: dict[str, Any]) -> None:
    made = nested(mode, CONCURRENT, "fail")
    made.input_schema = made.input_schema.model_validate({"type": "object", "properties": {"groups": {}}})

    run = fresh_run(made, {"groups": [None, ["a"]]})
    resume_workflow(made, run, {"work": picky})

    assert run.output["values"] == ["a"]
    assert trace_of(run)[-1] == "o.completed_with_errors -> __end__"


def test_an_inner_loop_whose_list_goes_away_is_the_outer_items_failure() -> None:
    """The list is read again at every turn of the controller; what is no list then fails the item it stands in."""
    made = workflow(
        [
            "o.loop -> i",
            "i.loop -> work",
            "work.ok -> i",
            "i.done -> o",
            "o.done -> END",
            "o.completed_with_errors -> END",
        ],
        [
            foreach("o", "input.groups", item_error="skip", **CONCURRENT),
            foreach("i", "state.errors", mode="concurrent", concurrent={"max_active": 1, "max_outstanding": 1}),
            node("work"),
        ],
        input_schema=INPUT,
        state_schema={"type": "object", "properties": {"errors": {}}},
    )
    run = fresh_run(made, {"groups": [["a"]]})
    run.state["errors"] = ["x", "y"]

    def work(payload: dict[str, Any], context: RuntimeContext) -> dict[str, Any]:
        run.state["errors"] = None
        return {}

    resume_workflow(made, run, {"work": work})

    assert run.status is RunStatus.COMPLETED
    assert trace_of(run)[-1] == "o.completed_with_errors -> __end__"


def test_damage_is_nobodys_item() -> None:
    made = loop(CONCURRENT, "skip")
    run = fresh_run(made, {"items": ["a"]})

    def mark(payload: dict[str, Any], context: RuntimeContext) -> dict[str, Any]:
        run.frames[context.frame_id].metadata["loop_index"] = None
        return payload

    with pytest.raises(WorkflowExecutionError, match="malformed foreach metadata"):
        resume_workflow(made, run, {"mark": mark, "work": picky})

    assert run.status is RunStatus.FAILED
