"""The barrier of a concurrent loop: incoming values replayed in item order, conflicts refused."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.support.engines import echo
from tests.support.workflow_documents import foreach, node, reads, workflow
from wf_core.errors import WorkflowExecutionError
from wf_core.models import ReducerRef, ReducerSpec, Workflow
from wf_core.models.reducers import SiblingWritePolicy
from wf_core.paths import StatePath
from wf_core.plan import Program, compile_plan
from wf_core.reducers import ReducerDefinition
from wf_core.run_state import ROOT_FRAME_ID, Json, RunStatus, StateWrite
from wf_core.runtime import execute_workflow, kernel, step_workflow
from wf_core.runtime.barriers import replay
from wf_core.runtime.draft import Draft
from wf_core.runtime.engine import create_run_state
from wf_core.runtime.patches import Patch
from wf_core.runtime.slice import RunStateSlice
from wf_core.runtime.transition import ItemResult

CONCURRENT: dict[str, Any] = {"mode": "concurrent", "concurrent": {"max_active": 4, "max_outstanding": 9}}
STATE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "total": {"type": "integer", "reducer": "wf.std.add"},
        "values": {"type": "array", "reducer": "wf.std.append"},
        "names": {"type": "array", "reducer": "wf.std.set_union"},
        "box": {"type": "object", "reducer": "wf.std.merge_object", "properties": {"inner": {}}},
        "open": {"type": "object", "properties": {"list": {"type": "array", "reducer": "wf.std.append"}}},
        "best": {"type": "integer", "reducer": "wf.std.max"},
        "plain": {},
    },
}


def made(state: dict[str, Any] = STATE) -> Workflow:
    return workflow(["work.ok -> END"], state_schema=state, input_schema={"type": "object"})


def replayed(
    prior: dict[str, Any],
    items: list[list[tuple[str, Json]]],
    *,
    state: dict[str, Any] = STATE,
    reducers: dict[str, ReducerDefinition] | None = None,
    collect: tuple[str, list[Json]] | None = None,
) -> Patch:
    """The barrier's patch over a prior state, for items given as lists of (path, incoming value)."""
    program = Program(compile_plan(made(state), reducers=reducers), {})
    run = create_run_state(program, prior)
    draft = Draft(program, RunStateSlice(run), ROOT_FRAME_ID)
    results = [
        ItemResult(index, tuple(StateWrite(StatePath.parse(p), v, "unused", ReducerRef.replace()) for p, v in writes))
        for index, writes in enumerate(items)
    ]
    view = draft.state(run.frames[ROOT_FRAME_ID])
    wanted = None if collect is None else (StatePath.parse(collect[0]), collect[1])
    return replay(program.root, results, view, collect=wanted)


def test_two_with_plus_three_and_plus_one_gives_six() -> None:
    patch = replayed({"total": 2}, [[("state.total", 3)], [("state.total", 1)]])

    assert patch.fields == {"total": 6}
    assert patch.changes == {"state.total": 6}


def test_records_stay_replayable_with_incoming_values_and_the_final_visible_one() -> None:
    patch = replayed({"total": 2}, [[("state.total", 3)], [("state.total", 1)]])

    assert [(write.incoming_value, write.visible_value) for write in patch.writes] == [(3, 6), (1, 6)]
    assert [write.reducer.name for write in patch.writes] == ["wf.std.add"] * 2


@pytest.mark.parametrize(
    ("path", "prior", "incoming", "result"),
    [
        ("state.values", {"values": [0]}, [[1, 2], 3, []], [0, 1, 2, 3]),
        ("state.values", {}, [[1], [2]], [1, 2]),
        (
            "state.names",
            {"names": ["a", {"x": 1}]},
            [["b", "a"], [{"x": 1}, {"x": 2}], ["b"]],
            ["a", {"x": 1}, "b", {"x": 2}],
        ),
        ("state.box", {"box": {"a": 0}}, [{"b": 1}, {"a": 2}, {"c": 3}], {"a": 2, "b": 1, "c": 3}),
        ("state.best", {"best": 4}, [3, 9, 5], 9),
        ("state.open.list", {"open": {"other": 1}}, [1, 2, 3], {"other": 1, "list": [1, 2, 3]}),
    ],
)
def test_each_reducer_sees_the_result_before_it(path: str, prior: Any, incoming: list[Any], result: Any) -> None:
    before = repr(prior)

    patch = replayed(prior, [[(path, value)] for value in incoming])

    assert list(patch.fields.values()) == [result]
    assert patch.changes == {path: result["list"] if path == "state.open.list" else result}
    assert repr(prior) == before
    assert [write.incoming_value for write in patch.writes] == incoming


def test_values_that_items_wrote_are_never_changed_by_a_later_item() -> None:
    first: list[Any] = [9]
    patch = replayed(
        {},
        [
            [
                ("state.open.list", [1]),
                ("state.open", {"list": first}),
                ("state.open.list", [2]),
                ("state.open.list", [3]),
            ]
        ],
    )

    assert patch.fields == {"open": {"list": [9, 2, 3]}}
    assert first == [9]
    assert patch.writes[1].incoming_value == {"list": [9]}


def test_writes_of_one_item_never_conflict_with_each_other() -> None:
    patch = replayed({}, [[("state.plain", 1), ("state.plain", 2), ("state.open", {}), ("state.open.list", 1)]])

    assert patch.fields == {"plain": 2, "open": {"list": [1]}}


def test_two_items_may_not_replace_one_path() -> None:
    with pytest.raises(
        WorkflowExecutionError, match=r"overlapping sibling writes to state.plain.*mergeable reducer"
    ) as caught:
        replayed({}, [[("state.plain", 1)], [("state.plain", 2)]])

    assert (caught.value.code, caught.value.path) == ("sibling_write_conflict", "state.plain")
    assert "mergeable reducer" in (caught.value.hint or "")


@pytest.mark.parametrize(("items", "named"), [(2, "0, 1:"), (5, "0, 1, 2, 3, 4:"), (6, "0, 1, 2, 3, 4, ...:")])
def test_a_conflict_names_its_items_and_at_most_five(items: int, named: str) -> None:
    with pytest.raises(WorkflowExecutionError, match=f"by items {re.escape(named)}"):
        replayed({}, [[("state.plain", n)] for n in range(items)])


def test_an_undeclared_path_below_a_mergeable_field_is_not_mergeable() -> None:
    with pytest.raises(WorkflowExecutionError, match="mergeable reducer"):
        replayed({}, [[("state.box.free", 1)], [("state.box.free", 2)]])


def test_a_path_and_one_below_it_conflict_even_when_both_merge() -> None:
    with pytest.raises(
        WorkflowExecutionError, match=r"overlapping sibling writes to state.box and state.box.inner by items 0, 1"
    ) as caught:
        replayed({}, [[("state.box", {"a": 1})], [("state.box.inner", 2)]])

    assert (caught.value.code, caught.value.path) == ("sibling_write_conflict", "state.box.inner")


def test_a_write_below_something_that_is_no_object_is_refused_at_its_path() -> None:
    with pytest.raises(WorkflowExecutionError, match=r"cannot descend into list at state\.open\.list") as caught:
        replayed({"open": [1]}, [[("state.open.list", 1)]])

    assert (caught.value.code, caught.value.path) == ("state_write_refused", "state.open.list")


def test_the_policy_decides_and_not_the_name() -> None:
    def exclusive(policy: SiblingWritePolicy) -> dict[str, ReducerDefinition]:
        return {
            "team.pick.last": ReducerDefinition(
                ReducerSpec(name="team.pick.last", sibling_write_policy=policy), lambda current, incoming: incoming
            )
        }

    state = {"type": "object", "properties": {"plain": {"reducer": "team.pick.last"}}}
    items: list[list[tuple[str, Json]]] = [[("state.plain", 1)], [("state.plain", 2)]]

    with pytest.raises(WorkflowExecutionError, match="mergeable reducer"):
        replayed({}, items, state=state, reducers=exclusive(SiblingWritePolicy.EXCLUSIVE))
    merged = replayed({}, items, state=state, reducers=exclusive(SiblingWritePolicy.MERGEABLE))
    assert merged.fields == {"plain": 2}


def test_the_combined_value_is_checked_against_the_declared_schema() -> None:
    state = {"type": "object", "properties": {"values": {"type": "array", "maxItems": 2, "reducer": "wf.std.append"}}}

    with pytest.raises(WorkflowExecutionError, match=r"state write state\.values"):
        replayed({}, [[("state.values", 1)], [("state.values", 2)], [("state.values", 3)]], state=state)


@pytest.mark.parametrize(
    ("path", "bad"), [("state.names", "text"), ("state.box", 1), ("state.total", "text"), ("state.best", "text")]
)
def test_a_value_that_a_reducer_refuses_names_reducer_and_path(path: str, bad: Any) -> None:
    good = {"state.names": ["a"], "state.box": {}, "state.total": 1, "state.best": 1}[path]

    for items in ([good, good, bad], [good, bad]):
        with pytest.raises(WorkflowExecutionError, match=f"reducer 'wf.std.* failed on {path}") as caught:
            replayed({}, [[(path, value)] for value in items])
        assert caught.value.code == "reducer_failed"


def test_a_collected_list_is_one_more_write() -> None:
    patch = replayed({}, [[("state.total", 1)]], collect=("state.plain", [{"index": 1}]))

    assert patch.fields == {"total": 1, "plain": [{"index": 1}]}
    assert patch.changes == {"state.total": 1, "state.plain": [{"index": 1}]}


# ---- through whole runs


def test_a_conflict_between_items_fails_the_run_and_commits_nothing() -> None:
    flow = workflow(
        ["each.loop -> work", "work.ok -> each", "each.done -> END"],
        [
            foreach("each", "input.items", **CONCURRENT),
            node("work", input=[reads("context.each_item")], output=[{"source": "value", "target": "state.plain"}]),
        ],
        state_schema=STATE,
    )
    seen: list[Any] = []

    def work(payload: dict[str, Any], context: Any) -> dict[str, Any]:
        seen.append(context)
        return payload

    with pytest.raises(WorkflowExecutionError, match="overlapping sibling writes"):
        execute_workflow(flow, {"items": [{"name": "a"}, {"name": "b"}]}, {"work": work})

    assert len(seen) == 2


def test_items_commit_in_index_order_whatever_order_they_finish_in() -> None:
    """The second item takes one step less than the first, so it arrives before it."""
    flow = workflow(
        [
            "each.loop -> choose",
            "choose.true -> long",
            "choose.false -> work",
            "long.ok -> work",
            "work.ok -> each",
            "each.done -> END",
        ],
        [
            foreach("each", "input.items", **CONCURRENT),
            {
                "id": "choose",
                "type": "condition",
                "check": {"op": "eq", "left": {"path": "context.loop_index"}, "right": {"value": 0}},
            },
            node("work", input=[reads("context.each_item")], output=[{"source": "value", "target": "state.values"}]),
        ],
        state_schema=STATE,
        output_schema={"type": "object", "properties": {"values": {}}},
    )

    run = execute_workflow(flow, {"items": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}, {"work": echo})

    returned = [e.resolved_input["value"]["name"] for e in run.trace if e.node_id == "work"]
    assert returned != ["a", "b", "c"]
    assert run.output["values"] == [{"name": "a"}, {"name": "b"}, {"name": "c"}]
    assert run.status is RunStatus.COMPLETED


def test_a_result_that_names_another_frame_is_damage() -> None:
    flow = workflow(
        ["each.loop -> work", "work.ok -> each", "each.done -> END"], [foreach("each", "input.items", **CONCURRENT)]
    )
    program = Program(compile_plan(flow), {})
    run = create_run_state(program, {"items": [{}]})
    for _ in range(2):
        step_workflow(flow, run, {"work": echo})
    barrier = run.frames["root"].metadata["foreach_activations"]["each"]["active"]["barrier"]
    record = barrier["pending_results"]["0"]

    def finished() -> Any:
        return kernel.finish_foreach(program, RunStateSlice(run), "root", walk=kernel.Walk()).error

    barrier["pending_results"]["0"] = {**record, "lineage_id": "gone"}
    assert "malformed item result" in str(finished())
    barrier["pending_results"]["0"] = {**record, "status": "failed", "error": {"index": 5, "frame_id": "other"}}
    assert "belongs to frame 'other', index 5" in str(finished())
    barrier["pending_results"]["0"] = {key: value for key, value in record.items() if key != "status"}
    assert "missing" in str(finished())
    barrier["pending_results"] = {"1": record | {"index": 1}}
    assert "no result for item 0" in str(finished())
    del barrier["next_index"]
    assert "missing 'next_index'" in str(finished())
