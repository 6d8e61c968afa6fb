"""The kernel's working copy: it reads its own changes before the run, and routes each write to where it belongs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.support.engines import PartialSlice
from tests.support.workflow_documents import workflow
from wf_core.errors import WorkflowExecutionError
from wf_core.models import ReducerRef
from wf_core.paths import GraphSourcePath, StatePath
from wf_core.plan import Program, compile_plan
from wf_core.run_state import (
    ITEM_FRAME,
    SUBGRAPH_FRAME,
    WORKFLOW_FRAME,
    ExecutionFrame,
    FrameStatus,
    LineageState,
    RunState,
    RuntimeScope,
    StateWrite,
)
from wf_core.runtime.draft import BudgetMet, Draft, open_visit_mode, trace_entry, write_target
from wf_core.runtime.engine import create_run_state
from wf_core.runtime.patches import Patch
from wf_core.runtime.scheduler import ForeachIterationMetadata, new_barrier
from wf_core.runtime.slice import MISSING, Need, RunStateSlice, SliceMiss
from wf_core.runtime.transition import AppendWrites, CommitFields, Offset, OpenScope, PutFrame, RemoveFrame, Traced

PROGRAM = Program(compile_plan(workflow(["work.ok -> END"], input_schema={"type": "object"})), {})


def drafted(run: RunState | None = None, **budget: Any) -> Draft:
    return Draft(PROGRAM, RunStateSlice(run or create_run_state(PROGRAM, {"value": "v"})), "root", **budget)


def item(frame_id: str, parent: str | None, loop: str = "each", **changes: Any) -> ExecutionFrame:
    """An item of the visit ``visit of LOOP``, in a lineage of its own."""
    metadata = ForeachIterationMetadata(loop, f"visit of {loop}", 0, "x", f"{loop}_item").to_metadata()
    made = ExecutionFrame(
        frame_id, ITEM_FRAME, "work", parent_frame_id=parent, lineage_id=f"lineage of {frame_id}", metadata=metadata
    )
    return replace(made, **changes)


def visiting(frame: ExecutionFrame, mode: str | None, loop: str = "each", active: str | None = None) -> ExecutionFrame:
    """The frame with an open visit of a loop; without a mode the barrier is kept elsewhere."""
    barrier = None if mode is None else new_barrier(mode)
    table = {loop: {"next_sequence": 1, "active": {"id": active or f"visit of {loop}", "barrier": barrier}}}
    return replace(frame, metadata={**frame.metadata, "foreach_activations": table})


def root(mode: str | None = "concurrent") -> ExecutionFrame:
    return visiting(ExecutionFrame("root", WORKFLOW_FRAME, "each"), mode)


def run_of(*frames: ExecutionFrame) -> RunState:
    run = create_run_state(PROGRAM, {})
    run.frames.update({frame.id: frame for frame in frames})
    run.lineages.update({f.lineage_id: LineageState(f.lineage_id, f.scope_id, f.parent_lineage_id) for f in frames})
    return run


def patch_of(*writes: tuple[str, Any]) -> Patch:
    records = tuple(StateWrite(StatePath.parse(p), v, v, ReducerRef.replace()) for p, v in writes)
    fields = {write.path.parts[0]: write.visible_value for write in records}
    return Patch(records, fields, {str(write.path): write.incoming_value for write in records})


def damage(read: Callable[[], object], at: str) -> str:
    with pytest.raises(WorkflowExecutionError) as caught:
        read()
    assert (caught.value.code, caught.value.path) == ("damaged", f"frames[{at}]")
    return str(caught.value)


# ---- reading through the changes


def test_a_changed_frame_hides_the_one_in_the_run() -> None:
    draft = drafted()
    changed = replace(draft.frame("root") or root(), node_id="elsewhere")

    draft.put(changed)

    assert draft.frame("root") is changed
    assert draft.frame("other") is None


def test_a_frame_that_has_to_be_there_is_given_or_its_absence_is_damage() -> None:
    draft = drafted()

    assert draft.require_frame("root", "asker") is draft.frame("root")
    for gone in ("gone", None):
        message = damage(lambda gone=gone: draft.require_frame(gone, "asker"), "asker")
        assert message == f"missing parent frame {gone!r} of frame 'asker'"


def test_a_begun_scope_has_its_own_input_and_state_and_nothing_of_the_run() -> None:
    run = create_run_state(PROGRAM, {"value": "v"})
    run.scopes["child"] = RuntimeScope("child", "old", {"old": 1}, {"old": 1})
    draft = drafted(run)
    scope = RuntimeScope("child", "example", {"order": 1})

    draft.open_scope(scope, {"begun": 1})

    assert draft.scope("child") is scope
    assert draft.workflow_input("child") == {"order": 1}
    assert draft.state_names("child") == ("begun",)
    assert (draft.state_field("child", "begun"), draft.state_field("child", "old")) == (1, MISSING)
    assert draft.transition().operations == (OpenScope(scope, {"begun": 1}),)


def test_writing_into_a_begun_scope_leaves_what_it_began_with() -> None:
    draft = drafted()
    begun: dict[str, Any] = {"value": "before"}
    draft.open_scope(RuntimeScope("child", "example"), begun)
    frame = ExecutionFrame("child", SUBGRAPH_FRAME, "work", scope_id="child", lineage_id="child:root")

    draft.write(frame, patch_of(("state.value", "after")))

    assert draft.state_field("child", "value") == "after"
    assert begun == {"value": "before"}


def test_scopes_that_were_not_changed_are_read_from_the_run() -> None:
    run = create_run_state(PROGRAM, {"value": "v"})
    run.state["kept"] = 1
    draft = drafted(run)

    assert draft.scope("root") is run.scopes["root"]
    assert draft.workflow_input("root") == {"value": "v"}
    assert (draft.state_names("root"), draft.state_field("root", "kept")) == (tuple(run.state), 1)
    assert draft.lineage("root") is run.lineages["root"]


def test_committed_fields_are_read_over_those_of_the_run() -> None:
    run = create_run_state(PROGRAM, {})
    run.state.update({"kept": 1, "value": "before"})
    draft = drafted(run)

    committed = draft.write(run.frames["root"], patch_of(("state.value", "after"), ("state.new", 2)))

    assert committed == {"state.value": "after", "state.new": 2}
    assert draft.state_names("root") == ("kept", "value", "new")
    assert [draft.state_field("root", name) for name in ("kept", "value", "new")] == [1, "after", 2]
    assert draft.state_field("root", "other") is MISSING
    assert run.state == {"kept": 1, "value": "before"}


def test_a_patch_without_writes_changes_nothing() -> None:
    draft = drafted()

    assert draft.write(root(), patch_of()) == {}
    assert draft.transition().operations == ()


def test_writes_that_wait_are_read_in_their_lineage_and_committed_nowhere() -> None:
    frame = item("one", "root")
    run = run_of(root(), frame)
    kept = StateWrite(StatePath.of("kept"), 1, 1, ReducerRef.replace())
    run.lineages[frame.lineage_id].writes.append(kept)
    draft = drafted(run)
    first, second = patch_of(("state.a", 1), ("state.b", 1)), patch_of(("state.a", 2))

    assert draft.write(frame, first) == {}
    assert draft.write(frame, second) == {}

    assert {str(p): v for p, v in draft.overlay(frame.lineage_id).items()} == {
        "state.kept": 1,
        "state.b": 1,
        "state.a": 2,
    }
    assert [str(path) for path in draft.overlay(frame.lineage_id)] == ["state.kept", "state.b", "state.a"]
    assert draft.overlay("root") == {}
    assert draft.state_field("root", "a") is MISSING
    assert draft.transition().operations == (
        AppendWrites(frame.lineage_id, first.writes),
        AppendWrites(frame.lineage_id, second.writes),
    )
    assert run.lineages[frame.lineage_id].writes == [kept]


def test_a_new_frame_begins_an_empty_lineage_and_a_known_one_keeps_its_own() -> None:
    known = item("known", "root")
    run = run_of(root(), known)
    run.lineages[known.lineage_id].writes.append(StateWrite(StatePath.of("a"), 1, 1, ReducerRef.replace()))
    draft = drafted(run)
    new = item("new", "root", scope_id="child", parent_lineage_id="outer")

    draft.put(replace(known, node_id="next"))
    draft.put(new)
    begun = draft.lineage(new.lineage_id)
    draft.put(replace(new, node_id="next", parent_lineage_id="changed"))

    assert draft.lineage(known.lineage_id) is run.lineages[known.lineage_id]
    assert dict(draft.overlay(known.lineage_id)) == {StatePath.of("a"): 1}
    assert begun == LineageState("lineage of new", "child", "outer")
    assert draft.lineage(new.lineage_id) is begun
    assert draft.overlay(new.lineage_id) == {}


def test_a_begun_lineage_hides_one_that_an_earlier_run_of_its_frame_left() -> None:
    frame = item("new", "root")
    run = run_of(root(), frame)
    del run.frames["new"]
    run.lineages[frame.lineage_id].writes.append(StateWrite(StatePath.of("a"), 1, 1, ReducerRef.replace()))
    draft = drafted(run)

    draft.put(frame)

    assert draft.overlay(frame.lineage_id) == {}


def test_the_context_of_a_frame_is_derived_again_when_the_frame_changes() -> None:
    frame = item("one", "root")
    draft = drafted(run_of(root(), frame))

    before = draft.context(frame)
    other = replace(frame, metadata={**frame.metadata, "loop_item": "y"})

    assert draft.context(frame) is before
    assert (before.graph["each_item"], draft.context(other).graph["each_item"]) == ("x", "y")


def test_the_bindings_of_a_frame_read_input_state_and_context() -> None:
    run = run_of(root(), item("one", "root"))
    run.scopes["root"].workflow_input["given"] = 1
    run.state["value"] = "v"
    draft = drafted(run)

    sources = draft.sources(run.frames["one"])

    read = [sources.read(GraphSourcePath.parse(path)) for path in ("input.given", "state.value", "context.loop_item")]
    assert read == [1, "v", "x"]


def test_what_a_draft_never_changes_is_asked_of_the_run() -> None:
    class Announcing(PartialSlice):
        def unannounced_item(self, frame_id: str) -> int | None:
            return {"one": 7}.get(frame_id)

    draft = Draft(PROGRAM, Announcing(run_of(root())), "root")

    assert (draft.unannounced_item("one"), draft.unannounced_item("two")) == (7, None)
    with pytest.raises(SliceMiss) as caught:
        draft.results(root(), "each", "visit of each")
    assert caught.value.needs == (Need("results", "visit of each"),)


# ---- the budget


def test_every_step_counts_one_and_an_admitted_one_nothing() -> None:
    assert [drafted().count() for _ in range(2)] == [Offset(1), Offset(1)]
    draft = drafted(admitted=7)
    assert [draft.count() for _ in range(3)] == [7, Offset(1), Offset(2)]
    assert draft.transition().steps == 2


def test_the_budget_admits_as_many_steps_as_are_left_beside_an_admitted_one() -> None:
    draft = drafted(admitted=7, steps_left=1)

    assert [draft.count(), draft.count()] == [7, Offset(1)]
    with pytest.raises(BudgetMet):
        draft.count()
    assert draft.transition().steps == 1
    with pytest.raises(BudgetMet):
        drafted(steps_left=0).count()


# ---- the transition


def test_a_transition_hands_out_frames_first_and_everything_else_in_order() -> None:
    draft = drafted()
    entry = trace_entry(root(), "foreach", resolved_input=None, outcome="ok", next_node_id="work")

    draft.trace(3, entry)
    draft.remove(RemoveFrame("old", FrameStatus.COMPLETED))
    draft.put(root())

    transition = draft.transition()
    assert transition.operations == (PutFrame(root()), Traced(entry, 3), RemoveFrame("old", FrameStatus.COMPLETED))
    assert (transition.frame_id, transition.steps, transition.error) == ("root", 0, None)


def test_a_trace_entry_tells_of_the_step_where_the_frame_stands() -> None:
    entry = trace_entry(
        root(),
        "foreach",
        resolved_input={"a": 1},
        outcome="ok",
        next_node_id="next",
        output=[1],
        changes={"state.a": 1},
    )

    assert (entry.frame_id, entry.node_id, entry.step_type) == ("root", "each", "foreach")
    assert (entry.resolved_input, entry.outcome, entry.next_node_id) == ({"a": 1}, "ok", "next")
    assert (entry.output, entry.state_changes) == ([1], {"state.a": 1})


@pytest.mark.parametrize("output", [0, [], "", False])
def test_an_empty_output_is_traced_as_it_is_and_none_as_an_empty_object(output: Any) -> None:
    plain = trace_entry(root(), "node", resolved_input=None, outcome="ok", next_node_id="next")

    assert (plain.output, plain.state_changes) == ({}, {})
    assert (
        trace_entry(root(), "node", resolved_input=None, outcome="ok", next_node_id="n", output=output).output == output
    )


# ---- where writes go


def target(run: RunState, frame_id: str) -> tuple[str, str]:
    return write_target(RunStateSlice(run), run.frames[frame_id])


@pytest.mark.parametrize(
    ("outer", "inner", "expected"),
    [
        ("serial", "serial", ("scope", "root")),
        ("serial", "concurrent", ("lineage", "lineage of inner")),
        ("concurrent", "serial", ("lineage", "lineage of outer")),
        ("concurrent", "concurrent", ("lineage", "lineage of inner")),
        (None, "serial", ("lineage", "lineage of outer")),
        ("serial", None, ("lineage", "lineage of inner")),
    ],
)
def test_the_innermost_concurrent_item_takes_the_write(outer: Any, inner: Any, expected: tuple[str, str]) -> None:
    run = run_of(root(outer), visiting(item("outer", "root"), inner, "deep"), item("inner", "outer", "deep"))

    assert target(run, "inner") == expected
    assert target(run, "root") == ("scope", "root")


def test_a_frame_outside_every_item_commits_only_from_the_lineage_of_its_scope() -> None:
    child = ExecutionFrame("child", SUBGRAPH_FRAME, "work", scope_id="child", lineage_id="child:root")
    aside = replace(child, id="aside", lineage_id="root")
    away = ExecutionFrame("away", WORKFLOW_FRAME, "work", lineage_id="root:root")
    run = run_of(root(), child, aside, away)

    assert target(run, "child") == ("scope", "child")
    assert target(run, "aside") == ("lineage", "root")
    assert target(run, "away") == ("lineage", "root:root")


def test_a_chain_of_frames_that_cannot_be_right_is_damage_wherever_it_is() -> None:
    circle = run_of(
        visiting(item("a", "b", "one"), "concurrent", "two"), visiting(item("b", "a", "two"), "concurrent", "one")
    )
    assert "cycle in the frame ancestry at 'a'" in damage(lambda: target(circle, "a"), "a")

    orphan = run_of(item("inner", None))
    assert "item frame 'inner' has no parent" in damage(lambda: target(orphan, "inner"), "inner")

    lost = run_of(visiting(item("outer", "gone"), "concurrent", "deep"), item("inner", "outer", "deep"))
    message = damage(lambda: target(lost, "inner"), "outer")
    assert message == "missing parent frame 'gone' of frame 'outer'"


@pytest.mark.parametrize("active", [None, "later visit"])
def test_an_item_of_a_visit_that_is_not_open_any_more_writes_nothing(active: str | None) -> None:
    table = {"each": {"next_sequence": 1, "active": None if active is None else {"id": active}}}
    outer = replace(root(), metadata={"foreach_activations": table})
    run = run_of(outer, item("one", "root"))

    with pytest.raises(WorkflowExecutionError, match=f"'visit of each' is closed, active is {active!r}") as caught:
        target(run, "one")

    assert (caught.value.code, caught.value.path) == ("stale_activation", "frames[root]")


@pytest.mark.parametrize(
    ("mode", "expected"), [("serial", "serial"), ("concurrent", "concurrent"), (None, "concurrent")]
)
def test_an_open_visit_whose_barrier_is_kept_elsewhere_is_concurrent(mode: str | None, expected: str) -> None:
    frame = item("one", "root")
    iteration = ForeachIterationMetadata.from_frame(frame)
    assert iteration is not None

    assert open_visit_mode(root(mode), iteration) == expected


def test_a_committed_patch_is_one_operation_on_its_scope() -> None:
    draft = drafted()
    patch = patch_of(("state.value", 1))

    draft.write(ExecutionFrame("root", WORKFLOW_FRAME, "work"), patch)

    assert draft.transition().operations == (CommitFields("root", patch.fields, patch.writes),)
