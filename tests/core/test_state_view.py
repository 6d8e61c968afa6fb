"""What a frame reads as its state: committed fields under the writes of its lineages, and where that is damage."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from wf_core.errors import WorkflowExecutionError
from wf_core.models import ReducerRef
from wf_core.paths import StatePath
from wf_core.run_state import (
    ITEM_FRAME,
    ExecutionFrame,
    LineageState,
    RunState,
    RunStatus,
    RuntimeScope,
    StateWrite,
)
from wf_core.runtime.scheduler import new_barrier
from wf_core.runtime.slice import MISSING, Need, RunStateSlice, SliceMiss, Unloaded, loaded, stored_results
from wf_core.runtime.state_view import StateView, lineage_chain, value_at, with_value
from wf_core.runtime.transition import ItemError, ItemResult

PATH = StatePath.of("box.inner")


def written(path: str, visible: Any) -> StateWrite:
    return StateWrite(StatePath.parse(path), "unused", visible, ReducerRef.replace())


def run_with(committed: dict[str, Any], **lineages: list[StateWrite]) -> RunState:
    """A run whose lineages are named by keyword, each one inside the one before it."""
    run = RunState("example", RunStatus.RUNNING, {"order": 1}, committed)
    run.scopes["root"] = RuntimeScope("root", "example", run.workflow_input, run.state)
    parent = None
    for name, writes in lineages.items():
        run.lineages[name] = LineageState(name, "root", parent, writes)
        parent = name
    return run


def view_of(run: RunState, lineage_id: str = "root") -> StateView:
    frame = ExecutionFrame("here", ITEM_FRAME, "work", lineage_id=lineage_id)
    return StateView(RunStateSlice(run), frame)


# ---- the chain of lineages


def test_a_reader_sees_through_its_lineages_outermost_first() -> None:
    run = run_with({}, root=[], outer=[], inner=[])

    assert lineage_chain(RunStateSlice(run), "root", "inner") == ["root", "outer", "inner"]
    assert lineage_chain(RunStateSlice(run), "root", "root") == ["root"]


@pytest.mark.parametrize(
    ("lineages", "message", "place"),
    [
        ({"inner": ("root", "gone")}, "unknown lineage 'gone' in scope 'root'", "gone"),
        ({"inner": ("root", "outer"), "outer": ("root", "inner")}, "cycle in the lineage chain at 'inner'", "inner"),
        ({"inner": ("root", "outer"), "outer": ("far", None)}, "belongs to scope 'far', not to 'root'", "outer"),
    ],
)
def test_a_chain_that_cannot_be_right_is_damage(
    lineages: dict[str, tuple[str, str | None]], message: str, place: str
) -> None:
    run = run_with({})
    run.lineages = {name: LineageState(name, scope, parent) for name, (scope, parent) in lineages.items()}

    with pytest.raises(WorkflowExecutionError, match=message) as caught:
        lineage_chain(RunStateSlice(run), "root", "inner")

    assert (caught.value.code, caught.value.path) == ("damaged", f"lineages[{place}]")


def test_a_frame_of_an_unknown_scope_has_no_state() -> None:
    frame = ExecutionFrame("here", ITEM_FRAME, "work", scope_id="gone")

    with pytest.raises(WorkflowExecutionError, match="unknown scope 'gone' of frame 'here'") as caught:
        StateView(RunStateSlice(run_with({}, root=[])), frame)

    assert (caught.value.code, caught.value.path) == ("damaged", "scopes[gone]")


# ---- reading


def test_writes_lie_over_committed_fields_and_inner_ones_over_outer_ones() -> None:
    run = run_with(
        {"kept": 1, "box": {"a": 1, "b": 1, "c": 1}},
        root=[],
        outer=[written("state.box.b", 2), written("state.box.c", 2)],
        inner=[written("state.box.c", 3), written("state.new", "n")],
    )

    assert dict(view_of(run, "inner")) == {"kept": 1, "box": {"a": 1, "b": 2, "c": 3}, "new": "n"}
    assert dict(view_of(run, "outer")) == {"kept": 1, "box": {"a": 1, "b": 2, "c": 2}}
    assert run.state == {"kept": 1, "box": {"a": 1, "b": 1, "c": 1}}


def test_the_last_write_of_a_path_counts_and_takes_the_last_place() -> None:
    run = run_with({}, root=[written("state.box.a", 1), written("state.box", {"b": 2}), written("state.box.a", 3)])

    assert view_of(run)["box"] == {"b": 2, "a": 3}


def test_a_state_is_a_mapping_of_the_fields_that_are_there() -> None:
    view = view_of(run_with({"null": None, "both": 1}, root=[written("state.both.x", 2), written("state.new", 3)][1:]))

    assert list(view) == ["null", "both", "new"]
    assert len(view) == 3
    assert "null" in view and view["null"] is None
    assert "other" not in view
    assert 1 not in view and ["null"] not in view
    assert view.field("other") is MISSING
    with pytest.raises(KeyError, match="other"):
        view["other"]


def test_fields_are_listed_once_also_when_written_over() -> None:
    view = view_of(run_with({"a": 1}, root=[written("state.a", 2)], inner=[written("state.b.c", 1)]), "inner")

    assert list(view) == ["a", "b"]
    assert len(view) == 2


def test_a_write_that_waits_below_no_object_is_refused_at_its_path() -> None:
    view = view_of(run_with({"a": 1}, root=[written("state.a.b", 2)]))

    with pytest.raises(WorkflowExecutionError) as caught:
        view["a"]

    assert (caught.value.code, caught.value.path) == ("state_write_refused", "state.a.b")


# ---- parts of values


def test_a_value_is_written_into_a_copy_and_the_rest_is_shared() -> None:
    before: dict[str, Any] = {"inner": {"x": 1}, "beside": {"y": 1}}

    after = with_value(before, ("inner", "z"), 2, PATH)

    assert after == {"inner": {"x": 1, "z": 2}, "beside": {"y": 1}}
    assert after["beside"] is before["beside"]
    assert before == {"inner": {"x": 1}, "beside": {"y": 1}}


@pytest.mark.parametrize("nothing", [MISSING, None, {}])
def test_objects_on_the_way_are_created_where_there_is_nothing(nothing: Any) -> None:
    assert with_value(nothing, ("a", "b"), 1, PATH) == {"a": {"b": 1}}
    assert with_value({"a": nothing} if nothing is not MISSING else {}, ("a", "b"), 1, PATH) == {"a": {"b": 1}}


@pytest.mark.parametrize("parts", [("a",), ("a", "b")])
def test_a_write_below_no_object_is_refused_at_its_path(parts: tuple[str, ...]) -> None:
    obstacle: Any = [1] if len(parts) == 1 else {"a": [1]}

    with pytest.raises(WorkflowExecutionError, match=r"cannot descend into list at state\.box\.inner") as caught:
        with_value(obstacle, parts, 1, PATH)

    assert (caught.value.code, caught.value.path) == ("state_write_refused", "state.box.inner")


def test_a_part_is_missing_where_an_object_or_a_key_is_absent() -> None:
    value: Any = {"a": {"b": None}, "list": [1]}

    assert value_at(value, ()) is value
    assert value_at(value, ("a", "b")) is None
    for parts in (("x",), ("a", "x"), ("a", "b", "c"), ("list", "0")):
        assert value_at(value, parts) is MISSING
    assert value_at(MISSING, ("a",)) is MISSING


# ---- the run behind it


def test_a_whole_run_is_read_where_it_lies() -> None:
    run = run_with({"a": 1}, root=[])
    view = RunStateSlice(run)

    assert view.scope("root") is run.scopes["root"]
    assert view.lineage("root") is run.lineages["root"]
    assert (view.state_field("root", "a"), view.state_field("root", "b")) == (1, MISSING)
    assert (tuple(view.state_names("root")), view.workflow_input("root")) == (("a",), {"order": 1})


def test_what_an_unknown_scope_or_lineage_holds_is_nothing() -> None:
    view = RunStateSlice(run_with({"a": 1}, root=[]))

    assert view.scope("gone") is view.frame("gone") is view.lineage("gone") is None
    assert view.state_field("gone", "a") is MISSING
    assert (tuple(view.state_names("gone")), view.workflow_input("gone"), view.overlay("gone")) == ((), {}, {})


def overlay(view: RunStateSlice) -> list[tuple[str, Any]]:
    return [(str(path), visible) for path, visible in view.overlay("root").items()]


def test_an_overlay_follows_the_writes_of_its_lineage() -> None:
    run = run_with({}, root=[written("state.a", 1)])
    view = RunStateSlice(run)
    writes = run.lineages["root"].writes

    assert overlay(view) == [("state.a", 1)]
    writes += [written("state.b", 2), written("state.a", 3)]
    assert overlay(view) == [("state.b", 2), ("state.a", 3)]
    assert overlay(view) == [("state.b", 2), ("state.a", 3)]
    writes[:] = [written("state.c", 4)]
    assert overlay(view) == [("state.c", 4)]
    writes.clear()
    assert overlay(view) == []


def test_a_part_that_was_not_given_is_asked_for() -> None:
    with pytest.raises(SliceMiss) as caught:
        loaded(Unloaded("here"))

    assert caught.value.needs == (Need("item", "here"),)
    assert loaded(None) is None
    assert repr(MISSING) == "MISSING"
    assert str(SliceMiss(Need("state", "root", ("a", "b")), Need("input", "root"))) == "state:root:a,b, input:root:"


# ---- the results of a loop


def results_of(run: RunState, results: Mapping[str, Any]) -> list[ItemResult]:
    barrier = {**new_barrier("concurrent"), "pending_results": results}
    return stored_results(run, controller({"id": "visit", "barrier": barrier}), "each")


def controller(active: dict[str, Any] | None) -> ExecutionFrame:
    table = {"each": {"next_sequence": 1, "active": active}}
    return ExecutionFrame("here", ITEM_FRAME, "each", metadata={"foreach_activations": table})


def succeeded(index: int, lineage_id: str = "root") -> dict[str, Any]:
    return {"index": index, "frame_id": f"item {index}", "status": "succeeded", "lineage_id": lineage_id}


def error_of(index: int) -> ItemError:
    return ItemError(index, f"item {index}", "work", "LookupError", "lost", {"x": 1})


def failed(number: int, **changes: Any) -> dict[str, Any]:
    error = {**error_of(number).as_record(), **changes}
    return {"index": number, "frame_id": f"item {number}", "status": "failed", "error": error}


def test_results_are_given_in_item_order_whatever_order_they_came_in() -> None:
    writes = [written("state.a", 1)]
    run = run_with({}, root=writes)

    found = results_of(run, {"10": succeeded(10), "9": failed(9), "0": succeeded(0)})

    assert found == [ItemResult(0, tuple(writes)), ItemResult(9, error=error_of(9)), ItemResult(10, tuple(writes))]


def damage_of(read: Any) -> str:
    with pytest.raises(WorkflowExecutionError) as caught:
        read()
    assert (caught.value.code, caught.value.path) == ("damaged", "frames[here]")
    return str(caught.value)


@pytest.mark.parametrize("active", [None, {"id": "visit"}])
def test_a_loop_without_a_barrier_has_no_results(active: dict[str, Any] | None) -> None:
    message = damage_of(lambda: stored_results(run_with({}), controller(active), "each"))

    assert message == "foreach 'each' of frame 'here' has no barrier"


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (failed(0, index=1), "error of item 0 belongs to frame 'item 0', index 1"),
        (failed(0, frame_id="other"), "error of item 0 belongs to frame 'other', index 0"),
        (failed(0, more=1), "malformed item result in frame 'here'.*more"),
        (succeeded(0, "gone"), "malformed item result in frame 'here'.*gone"),
        ({"index": 0, "frame_id": "f", "status": "failed"}, "malformed item result in frame 'here'.*error"),
        ({"index": 0, "frame_id": "f"}, "malformed item result in frame 'here'.*status"),
        ({"index": 0, "status": "succeeded"}, "malformed item result in frame 'here'.*frame_id"),
        (7, "malformed item result in frame 'here'"),
    ],
)
def test_a_result_that_cannot_be_right_is_damage(record: Any, message: str) -> None:
    assert re.search(message, damage_of(lambda: results_of(run_with({}, root=[]), {"0": record})))
