"""Loops: items, visits, returns, and what a loop does with a source that is no list."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.engines import echo, fresh_run, trace_of
from tests.support.workflow_documents import condition, foreach, node, reads, workflow
from wf_core.errors import WorkflowExecutionError
from wf_core.models import Workflow
from wf_core.plan import Program, compile_plan
from wf_core.run_state import ITEM_FRAME, FrameStatus, RunState, RunStatus, RuntimeContext
from wf_core.runtime import execute_workflow, kernel, resume_workflow, step_workflow
from wf_core.runtime.kernel import Walk
from wf_core.runtime.slice import RunStateSlice
from wf_core.runtime.transition import Arrive, CloseActivation, OpenActivation, Place, Purpose

CONCURRENT: dict[str, Any] = {"mode": "concurrent", "concurrent": {"max_active": 2, "max_outstanding": 3}}
MODES = pytest.mark.parametrize("mode", [{}, CONCURRENT], ids=["serial", "concurrent"])
STATE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "values": {"type": "array", "reducer": "wf.std.append"},
        "queue": {"type": "array"},
        "left": {"type": "integer", "default": 2},
    },
}
ANY_INPUT = {"type": "object", "properties": {"items": {"type": "array"}, "other": {"type": "array"}}}
RECORD = [{"source": "value", "target": "state.values"}]


def loop(mode: dict[str, Any], over: str = "input.items", **changes: Any) -> Workflow:
    return workflow(
        ["each.loop -> work", "work.ok -> each", "each.done -> END"],
        [foreach("each", over, **mode), node("work", input=[reads("context.each_item")], output=RECORD)],
        **{
            "input_schema": ANY_INPUT,
            "state_schema": STATE,
            "output_schema": {"type": "object", "properties": {"values": {}}},
            **changes,
        },
    )


def items_of(run: RunState) -> list[Any]:
    return [frame for frame in run.frames.values() if frame.kind == ITEM_FRAME]


def test_a_serial_loop_shows_each_admission_and_its_end_in_the_trace() -> None:
    run = execute_workflow(loop({}), {"items": ["a", "b"]}, {"work": echo})

    assert trace_of(run) == [
        "each.loop -> work",
        "work.ok -> each",
        "each.loop -> work",
        "work.ok -> each",
        "each.done -> __end__",
    ]
    shown = [entry.resolved_input for entry in run.trace if entry.node_id == "each"]
    assert shown == [{"item": "a", "index": 0}, {"item": "b", "index": 1}, {"count": 2, "index": 2}]
    assert [entry.state_changes for entry in run.trace if entry.node_id == "work"] == [
        {"state.values": "a"},
        {"state.values": "b"},
    ]


def test_a_concurrent_loop_shows_its_window_and_its_commit_in_the_trace() -> None:
    run = execute_workflow(loop(CONCURRENT), {"items": ["a", "b", "c"]}, {"work": echo})

    entries = [entry for entry in run.trace if entry.node_id == "each"]
    assert [entry.resolved_input for entry in entries] == [
        {"item": "a", "index": 0, "active_count": 0},
        {"item": "b", "index": 1, "active_count": 1},
        {"item": "c", "index": 2, "active_count": 0},
        {"count": 3, "index": 3, "committed_items": 3, "failed_items": 0},
    ]
    assert entries[0].step_number == entries[1].step_number
    assert entries[-1].state_changes == {"state.values": ["a", "b", "c"]}
    assert all(entry.state_changes == {} for entry in run.trace if entry.node_id == "work")


@MODES
def test_a_finished_item_stands_at_its_owner(mode: dict[str, Any]) -> None:
    run = execute_workflow(loop(mode), {"items": ["a", "b"]}, {"work": echo})

    assert [(f.status, f.node_id, f.finished_at_node_id) for f in items_of(run)] == [
        (FrameStatus.COMPLETED, "each", "each")
    ] * 2
    assert [f.parent_frame_id for f in items_of(run)] == ["root", "root"]
    assert {f.parent_lineage_id for f in items_of(run)} == {"root"}
    assert [f.id for f in items_of(run)] == ["root:each#0:0", "root:each#0:1"]
    assert [f.lineage_id for f in items_of(run)] == ["root:each#0[0]", "root:each#0[1]"]


def test_no_more_items_live_than_the_window_admits() -> None:
    run = fresh_run(
        loop({"mode": "concurrent", "concurrent": {"max_active": 2, "max_outstanding": 2}}), {"items": [*"abcdef"]}
    )
    most = 0

    while run.status in (RunStatus.PENDING, RunStatus.RUNNING):
        step_workflow(
            loop({"mode": "concurrent", "concurrent": {"max_active": 2, "max_outstanding": 2}}), run, {"work": echo}
        )
        most = max(most, sum(f.status in (FrameStatus.PENDING, FrameStatus.RUNNING) for f in items_of(run)))

    assert most == 2
    assert run.output["values"] == [*"abcdef"]


# ---- lists without items, and no lists


@MODES
def test_an_empty_list_is_done_at_once(mode: dict[str, Any]) -> None:
    run = execute_workflow(loop(mode, output_schema={"type": "object"}), {"items": []}, {"work": echo})

    assert trace_of(run) == ["each.done -> __end__"]
    assert run.steps_executed == 1
    assert items_of(run) == []
    assert run.trace[0].resolved_input["count"] == 0


@MODES
def test_chained_and_nested_empty_lists_are_done_at_once(mode: dict[str, Any]) -> None:
    made = workflow(
        [
            "one.loop -> two",
            "two.loop -> work",
            "work.ok -> two",
            "two.done -> one",
            "one.done -> three",
            "three.loop -> last",
            "last.ok -> three",
            "three.done -> END",
        ],
        [
            foreach("one", "input.items", **mode),
            foreach("two", "input.other", **mode),
            foreach("three", "input.other", **mode),
        ],
        input_schema=ANY_INPUT,
    )

    run = execute_workflow(made, {"items": [1, 2], "other": []}, {"work": echo})

    assert trace_of(run)[-1] == "three.done -> __end__"
    assert [line for line in trace_of(run) if line.startswith("two")] == ["two.done -> one"] * 2


@MODES
@pytest.mark.parametrize(("value", "found"), [(None, "null"), ("text", "str"), ({"a": 1}, "dict"), (3, "int")])
def test_anything_but_a_list_is_an_error_and_never_empty(mode: dict[str, Any], value: Any, found: str) -> None:
    made = loop(mode, input_schema={"type": "object", "properties": {"items": {}}})

    with pytest.raises(
        WorkflowExecutionError, match=f"foreach 'each' needs a list at input.items, found {found}"
    ) as caught:
        execute_workflow(made, {"items": value}, {"work": echo})

    assert caught.value.code == "foreach_source_not_a_list"


@MODES
def test_a_missing_list_is_an_error(mode: dict[str, Any]) -> None:
    with pytest.raises(WorkflowExecutionError, match=r"input.items is missing") as caught:
        execute_workflow(loop(mode), {}, {"work": echo})

    assert (caught.value.code, caught.value.path) == ("source_path_missing", "nodes[each].over")


def test_a_body_that_changes_the_list_changes_what_remains() -> None:
    made = loop({}, "state.queue")
    made.nodes[1].output.append(  # type: ignore[union-attr]
        made.nodes[1].output[0].model_validate({"source": "other", "target": "state.queue"})  # type: ignore[union-attr]
    )

    def work(payload: dict[str, Any], context: RuntimeContext) -> dict[str, Any]:
        more = {0: ["a", "b", "c"], 1: ["a", "b", "c"], 2: ["a"]}[context.foreach["each"].index]
        return {"value": payload["value"], "other": more}

    made.input_schema = made.input_schema.model_validate({"type": "object", "properties": {"queue": {}}})
    run = execute_workflow(made, {"queue": ["a"]}, {"work": work})

    assert run.output["values"] == ["a", "b", "c"]


# ---- visits


def reentered(mode: dict[str, Any]) -> Workflow:
    """Goes through the loop again while ``state.left`` says so."""
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
            foreach("each", "input.items", **mode),
            node("work", input=[reads("context.each_item")], output=RECORD),
            node(
                "down", node="down", input=[reads("state.left")], output=[{"source": "value", "target": "state.left"}]
            ),
            condition("more", {"op": "gt", "left": {"path": "state.left"}, "right": {"value": 0}}),
        ],
        input_schema=ANY_INPUT,
        state_schema=STATE,
        node_defs=[
            {
                "name": name,
                "input_schema": {"type": "object", "properties": {"value": {}}},
                "output_schema": {"type": "object", "properties": {"value": {}}},
                "outcomes": ["ok"],
            }
            for name in ("work", "down")
        ],
        output_schema={"type": "object", "properties": {"values": {}}},
    )


def down(payload: dict[str, Any], context: RuntimeContext) -> dict[str, Any]:
    return {"value": payload["value"] - 1}


@MODES
def test_a_visit_after_done_begins_anew_with_new_identities(mode: dict[str, Any]) -> None:
    run = execute_workflow(reentered(mode), {"items": ["a", "b"]}, {"work": echo, "down": down})

    assert run.output["values"] == ["a", "b", "a", "b"]
    assert [f.id for f in items_of(run)] == [f"root:each#{visit}:{index}" for visit in (0, 1) for index in (0, 1)]
    assert len({f.lineage_id for f in items_of(run)}) == 4
    assert run.frames["root"].metadata["foreach_activations"] == {"each": {"next_sequence": 2, "active": None}}


@MODES
def test_an_empty_visit_takes_an_identity_like_any_other(mode: dict[str, Any]) -> None:
    run = execute_workflow(reentered(mode), {"items": []}, {"work": echo, "down": down})

    assert run.frames["root"].metadata["foreach_activations"] == {"each": {"next_sequence": 2, "active": None}}


@MODES
def test_the_identity_stays_while_the_visit_is_open(mode: dict[str, Any]) -> None:
    made, run, seen = loop(mode), fresh_run(loop(mode), {"items": [*"abc"]}), set[str]()

    while run.status in (RunStatus.PENDING, RunStatus.RUNNING):
        active = run.frames["root"].metadata.get("foreach_activations", {}).get("each", {}).get("active")
        if active:
            seen.add(active["id"])
        step_workflow(made, run, {"work": echo})

    assert seen == {"root:each#0"}


@MODES
def test_a_visit_does_not_go_on_in_another_mode(mode: dict[str, Any]) -> None:
    run = fresh_run(loop(mode), {"items": [*"abc"]})
    step_workflow(loop(mode), run, {"work": echo})

    with pytest.raises(WorkflowExecutionError, match="began in mode") as caught:
        resume_workflow(loop({} if mode else CONCURRENT), run, {"work": echo})

    assert caught.value.code == "damaged"


@MODES
@pytest.mark.parametrize(
    ("table", "fragment"),
    [
        ("text", "malformed foreach_activations"),
        ({"each": None}, "malformed activation entry"),
        ({"each": {"next_sequence": -1, "active": None}}, "malformed activation entry"),
        ({"each": {"next_sequence": True, "active": None}}, "malformed activation entry"),
        ({"each": {"next_sequence": 1}}, "malformed activation entry"),
        ({"each": {"next_sequence": 1, "active": {"id": ""}}}, "malformed active activation"),
        ({"each": {"next_sequence": 1, "active": {"id": "v", "barrier": []}}}, "malformed barrier"),
        ({"each": {"next_sequence": 1, "active": {"id": "v", "barrier": {"next_index": 0}}}}, "missing 'mode'"),
    ],
)
def test_a_corrupt_table_of_visits_fails_the_run(mode: dict[str, Any], table: Any, fragment: str) -> None:
    run = fresh_run(loop(mode), {"items": ["a"]})
    run.frames["root"].metadata["foreach_activations"] = table

    with pytest.raises(WorkflowExecutionError, match=fragment):
        resume_workflow(loop(mode), run, {"work": echo})

    assert run.status is RunStatus.FAILED


@MODES
def test_an_item_whose_frame_exists_already_is_refused(mode: dict[str, Any]) -> None:
    run = execute_workflow(reentered(mode), {"items": ["a"]}, {"work": echo, "down": down})
    run.frames["root"].metadata["foreach_activations"]["each"]["next_sequence"] = 0
    run.frames["root"].node_id, run.frames["root"].status = "each", FrameStatus.PENDING
    run.status, run.ready_frame_ids = RunStatus.RUNNING, ["root"]

    with pytest.raises(WorkflowExecutionError, match="duplicate frame id 'root:each#0:0'"):
        resume_workflow(reentered(mode), run, {"work": echo, "down": down})


def test_a_closed_visit_accepts_no_later_result_and_wakes_nobody() -> None:
    """Not even a failure that the loop would skip: the late item is nobody's."""
    made = loop({**CONCURRENT, "item_error": "skip"})
    made.edges.append(made.edges[-1].model_copy(update={"outcome": "completed_with_errors"}))
    run = fresh_run(made, {"items": ["a"]})
    step_workflow(made, run, {"work": echo})
    program, view = Program(compile_plan(made), {}), RunStateSlice(run)
    [item] = items_of(run)
    call = kernel.prepare(program, view, item.id)
    run.frames["root"].metadata["foreach_activations"]["each"] = {
        "next_sequence": 2,
        "active": {"id": "root:each#1", "barrier": None},
    }

    for late in (
        kernel.complete(program, view, call, {"value": 1}, number=2, walk=Walk()),
        kernel.fail(program, view, item.id, ValueError("late"), walk=Walk()),
    ):
        assert "is closed" in str(late.error)
        assert not [o for o in late.operations if isinstance(o, Arrive | Place | CloseActivation)]


# ---- where an item may go


def unchecked(routes: list[str], *steps: dict[str, Any]) -> RunState:
    made = workflow(routes, steps, input_schema=ANY_INPUT)
    run = fresh_run(made, {"items": [1], "other": [1]})
    try:
        resume_workflow(made, run, {"work": echo})
    except WorkflowExecutionError as error:
        run.error = f"{error.code}: {error.message}"
    return run


@MODES
def test_an_item_that_reaches_the_end_fails_the_run(mode: dict[str, Any]) -> None:
    run = unchecked(["each.loop -> work", "work.ok -> END", "each.done -> END"], foreach("each", **mode))

    assert run.status is RunStatus.FAILED
    assert "invalid_foreach_terminal: an item of foreach 'each' reached the end" in str(run.error)


def test_an_item_that_reaches_an_end_step_fails_the_run() -> None:
    run = unchecked(
        ["each.loop -> work", "work.ok -> stop", "each.done -> END"],
        foreach("each"),
        {"id": "stop", "type": "end"},
    )

    assert "invalid_foreach_terminal" in str(run.error)


@MODES
def test_an_item_that_returns_to_an_older_owner_fails_the_run(mode: dict[str, Any]) -> None:
    run = unchecked(
        ["outer.loop -> inner", "inner.loop -> work", "work.ok -> outer", "inner.done -> outer", "outer.done -> END"],
        foreach("outer", **mode),
        foreach("inner", "input.other", **mode),
    )

    assert run.status is RunStatus.FAILED
    assert "invalid_foreach_return: an item of foreach 'inner' targets the older owner 'outer'" in str(run.error)


def test_an_item_may_enter_another_loop_that_is_not_active() -> None:
    made = workflow(
        [
            "a.loop -> b",
            "b.loop -> work",
            "work.ok -> b",
            "b.done -> c",
            "c.loop -> last",
            "last.ok -> c",
            "c.done -> a",
            "a.done -> END",
        ],
        [foreach("a"), foreach("b", "input.other"), foreach("c", "input.other")],
        input_schema=ANY_INPUT,
    )

    run = execute_workflow(made, {"items": [1, 2], "other": [1]}, {"work": echo})

    assert [e.frame_id for e in run.trace if e.node_id == "last"] == [
        "root:a#0:0:c#0:0",
        "root:a#0:1:c#0:0",
    ]


def test_a_cycle_inside_a_body_ends_when_the_item_returns() -> None:
    made = workflow(
        ["each.loop -> work", "work.ok -> again", "again.true -> work", "again.false -> each", "each.done -> END"],
        [
            foreach("each"),
            node("work", output=[{"source": "value", "target": "state.left"}], input=[reads("state.left")]),
            condition("again", {"op": "gt", "left": {"path": "state.left"}, "right": {"value": 0}}),
        ],
        state_schema=STATE,
        input_schema=ANY_INPUT,
    )

    run = execute_workflow(made, {"items": [1]}, {"work": down})

    assert [line for line in trace_of(run) if line.startswith("work")] == ["work.ok -> again"] * 2


# ---- as the kernel tells it


def test_a_long_list_is_opened_by_a_call_of_its_own() -> None:
    made = loop(CONCURRENT)
    run = fresh_run(made, {"items": list(range(65))})
    program, view = Program(compile_plan(made), {}), RunStateSlice(run)

    reached = kernel.walk_on(program, view, "root", walk=Walk())
    opened = kernel.open_foreach(program, view, "root", walk=Walk())

    assert [o.purpose for o in reached.operations if isinstance(o, Place)] == [Purpose.OPEN]
    assert reached.steps == 0
    [opening] = [o.activation for o in opened.operations if isinstance(o, OpenActivation)]
    assert (opening.id, len(opening.items), opening.body_purpose) == ("root:each#0", 65, Purpose.STEP)
    assert opened.steps == 1


def test_a_list_beyond_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wf_core.runtime.ops.foreach.MAX_ITEMS", 2)

    with pytest.raises(WorkflowExecutionError, match="has 3 items, the limit is 2"):
        execute_workflow(loop({}), {"items": [1, 2, 3]}, {"work": echo})
