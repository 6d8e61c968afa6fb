"""What a frame remembers: read through typed helpers, and refused as damage wherever it cannot be right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from wf_core.errors import WorkflowExecutionError
from wf_core.run_state import ITEM_FRAME, WORKFLOW_FRAME, ExecutionFrame, ForeachContext
from wf_core.runtime import scheduler
from wf_core.runtime.scheduler import ForeachIterationMetadata, ForeachVisits, foreach_visits, subgraph_activation

ITEM: dict[str, Any] = {
    "foreach_node_id": "each",
    "activation_id": "visit",
    "loop_index": 0,
    "loop_item": None,
    "loop_alias": "one",
}
BARRIER = scheduler.new_barrier("serial")
CHILD: dict[str, Any] = {"scope_id": "s", "lineage_id": "l", "child_frame_id": "f", "child_input": {}}


def frame(kind: str = WORKFLOW_FRAME, **metadata: Any) -> ExecutionFrame:
    return ExecutionFrame("here", kind, "each", metadata=metadata)


def damage(read: Callable[[], object]) -> str:
    """The message with which a reader refuses; code and place are always the same."""
    with pytest.raises(WorkflowExecutionError) as caught:
        read()
    assert (caught.value.code, caught.value.path) == ("damaged", "frames[here]")
    return str(caught.value)


# ---- items


def test_an_item_frame_holds_its_iteration_and_no_other_frame_does() -> None:
    iteration = ForeachIterationMetadata.from_frame(frame(ITEM_FRAME, **ITEM))

    assert iteration == ForeachIterationMetadata("each", "visit", 0, None, "one")
    assert iteration.to_metadata() == ITEM
    assert ForeachIterationMetadata.from_frame(frame(**ITEM)) is None


def test_an_iteration_and_its_frame_make_the_entry_that_handlers_see() -> None:
    at = ExecutionFrame("here", ITEM_FRAME, "work", scope_id="scope", lineage_id="lineage")

    entry = ForeachIterationMetadata("each", "visit", 3, {"x": 1}, "one").to_context(at)

    assert entry == ForeachContext("each", "visit", "here", "scope", "lineage", 3, {"x": 1})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("foreach_node_id", ""),
        ("foreach_node_id", 7),
        ("activation_id", None),
        ("activation_id", ""),
        ("loop_alias", None),
        ("loop_index", -1),
        ("loop_index", True),
        ("loop_index", "0"),
    ],
)
def test_a_wrong_value_of_an_item_is_named(key: str, value: object) -> None:
    wrong = frame(ITEM_FRAME, **{**ITEM, key: value})

    message = damage(lambda: ForeachIterationMetadata.from_frame(wrong))

    assert message == f"malformed foreach metadata of frame 'here': {key} is {value!r}"


@pytest.mark.parametrize("key", sorted(ITEM))
def test_a_missing_value_of_an_item_is_named(key: str) -> None:
    wrong = frame(ITEM_FRAME, **{name: value for name, value in ITEM.items() if name != key})

    assert damage(lambda: ForeachIterationMetadata.from_frame(wrong)).endswith(
        "missing loop_item" if key == "loop_item" else f"{key} is None"
    )


def test_the_first_of_several_wrong_values_is_named() -> None:
    wrong = frame(ITEM_FRAME, foreach_node_id="", activation_id="", loop_index=-1)

    assert "foreach_node_id is ''" in damage(lambda: ForeachIterationMetadata.from_frame(wrong))


def test_an_empty_alias_is_not_named_where_something_else_is_wrong() -> None:
    wrong = frame(ITEM_FRAME, **{**ITEM, "loop_alias": "", "loop_index": -1})

    assert "loop_index is -1" in damage(lambda: ForeachIterationMetadata.from_frame(wrong))


def test_an_item_begins_below_its_controller_with_a_lineage_of_its_own() -> None:
    made = scheduler.item_frame(
        activation="visit",
        index=2,
        item="x",
        foreach_id="each",
        alias="one",
        body="work",
        controller_id="controller",
        scope_id="scope",
        lineage_id="outer",
    )

    assert (made.kind, made.node_id, made.parent_frame_id) == (ITEM_FRAME, "work", "controller")
    assert (made.scope_id, made.parent_lineage_id) == ("scope", "outer")
    assert made.metadata == {**ITEM, "loop_index": 2, "loop_item": "x"}
    assert made.lineage_id not in ("outer", made.id)


# ---- visits


def visits_of(entry: object, node_id: str = "each") -> Callable[[], ForeachVisits]:
    return lambda: foreach_visits(frame(foreach_activations={"each": entry}), node_id)


def open_visit(barrier: object) -> dict[str, Any]:
    return {"next_sequence": 1, "active": {"id": "visit", "barrier": barrier}}


def test_a_loop_that_was_never_entered_has_no_visit() -> None:
    nothing = ForeachVisits(0, None, None)

    assert foreach_visits(frame(), "each") == nothing
    assert visits_of(open_visit(None), "other")() == nothing
    assert nothing.mode is None


def test_a_closed_and_an_open_visit_are_read() -> None:
    assert visits_of({"next_sequence": 0, "active": None})() == ForeachVisits(0, None, None)
    assert visits_of({"next_sequence": 2, "active": None})() == ForeachVisits(2, None, None)
    assert visits_of({"next_sequence": 1, "active": {"id": "visit"}})() == ForeachVisits(1, "visit", None)
    opened = visits_of(open_visit(BARRIER))()
    assert opened == ForeachVisits(1, "visit", BARRIER)
    assert opened.mode == "serial"


@pytest.mark.parametrize("table", [[], "each", None, 1])
def test_a_table_of_visits_that_is_no_object_is_damage(table: object) -> None:
    wrong = frame(foreach_activations=table)

    assert "malformed foreach_activations of frame 'here'" in damage(lambda: foreach_visits(wrong, "each"))


@pytest.mark.parametrize(
    "entry",
    [
        None,
        7,
        [],
        {},
        {"active": None},
        {"next_sequence": 0},
        {"next_sequence": -1, "active": None},
        {"next_sequence": True, "active": None},
        {"next_sequence": "0", "active": None},
    ],
)
def test_an_entry_that_cannot_be_right_is_damage(entry: object) -> None:
    assert "malformed activation entry for foreach 'each' of frame 'here'" in damage(visits_of(entry))


@pytest.mark.parametrize("active", [7, [], {}, {"id": ""}, {"id": 5}, {"barrier": BARRIER}])
def test_an_open_visit_without_an_identity_is_damage(active: object) -> None:
    message = damage(visits_of({"next_sequence": 0, "active": active}))

    assert "malformed active activation of foreach 'each' in frame 'here'" in message


@pytest.mark.parametrize("barrier", [7, [], "serial"])
def test_a_barrier_that_is_no_object_is_damage(barrier: object) -> None:
    assert damage(visits_of(open_visit(barrier))) == "malformed barrier of frame 'here'"


@pytest.mark.parametrize("key", sorted(BARRIER))
def test_a_barrier_that_misses_a_part_says_which(key: str) -> None:
    part = {name: value for name, value in BARRIER.items() if name != key}

    assert damage(visits_of(open_visit(part))) == f"malformed barrier of frame 'here': missing '{key}'"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("next_index", "0"),
        ("next_index", True),
        ("next_index", -1),
        ("mode", 1),
        ("mode", "parallel"),
        ("active_frame_ids", {}),
        ("outstanding_frame_ids", None),
        ("pending_results", []),
    ],
)
def test_a_part_of_a_barrier_that_cannot_be_right_is_named(key: str, value: object) -> None:
    message = damage(visits_of(open_visit({**BARRIER, key: value})))

    assert message == f"malformed barrier of frame 'here': {key} is {value!r}"


@pytest.mark.parametrize("mode", ["serial", "concurrent"])
def test_a_new_barrier_is_sound_and_stands_at_the_first_item(mode: str) -> None:
    barrier = scheduler.new_barrier(mode)

    scheduler.check_barrier(barrier, "here")
    assert barrier == {**BARRIER, "mode": mode}
    assert barrier["next_index"] == 0


def test_replacing_an_entry_keeps_everything_else_and_leaves_the_frame_alone() -> None:
    before = frame(other=1, foreach_activations={"far": {"next_sequence": 1, "active": None}})

    after = scheduler.with_visit(before, "each", next_sequence=2, active={"id": "visit"})

    assert after.metadata == {
        "other": 1,
        "foreach_activations": {
            "far": {"next_sequence": 1, "active": None},
            "each": {"next_sequence": 2, "active": {"id": "visit"}},
        },
    }
    assert before.metadata == {"other": 1, "foreach_activations": {"far": {"next_sequence": 1, "active": None}}}
    assert (after.id, after.kind, after.node_id) == (before.id, before.kind, before.node_id)


def test_the_first_entry_needs_no_table_before_it() -> None:
    after = scheduler.with_visit(frame(), "each", next_sequence=1, active=None)

    assert foreach_visits(after, "each") == ForeachVisits(1, None, None)


# ---- child workflows


def test_a_frame_that_waits_for_no_child_has_none() -> None:
    assert subgraph_activation(frame()) is None
    assert subgraph_activation(frame(subgraph_activation=None)) is None


def test_a_childs_record_is_given_as_it_is() -> None:
    assert subgraph_activation(frame(subgraph_activation=CHILD)) is CHILD


@pytest.mark.parametrize("key", ["scope_id", "lineage_id", "child_frame_id"])
@pytest.mark.parametrize("value", [None, 7])
def test_a_childs_record_without_its_identities_is_damage(key: str, value: object) -> None:
    wrong = frame(subgraph_activation={**CHILD, key: value})

    assert "malformed subgraph_activation of frame 'here'" in damage(lambda: subgraph_activation(wrong))


@pytest.mark.parametrize("record", [7, "child", [], {}])
def test_a_childs_record_that_is_none_is_damage(record: object) -> None:
    wrong = frame(subgraph_activation=record)

    assert "malformed subgraph_activation of frame 'here'" in damage(lambda: subgraph_activation(wrong))


@pytest.mark.parametrize("value", [None, [], "x"])
def test_a_childs_record_without_its_input_is_damage(value: object) -> None:
    wrong = frame(subgraph_activation={**CHILD, "child_input": value})

    assert "no child_input" in damage(lambda: subgraph_activation(wrong))
