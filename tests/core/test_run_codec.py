"""The stored form of a run: what it says, what it refuses to say, and what it refuses to read."""

from __future__ import annotations

import copy
import cProfile
import datetime
import decimal
import json
import math
from collections import OrderedDict, UserDict
from collections.abc import Callable, Iterator
from dataclasses import asdict, fields, is_dataclass
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from wf_core.models import ReducerRef, WorkflowRef
from wf_core.paths import StatePath
from wf_core.run_codec import (
    PersistedRunInvalid,
    PersistedRunState,
    dump_run_state,
    load_run_state,
    load_run_state_with_upgrade,
)
from wf_core.run_limits import DEFAULT_MAX_STEPS, RunLimits
from wf_core.run_state import (
    ITEM_FRAME,
    ExecutionFrame,
    FrameStatus,
    InterruptRequest,
    InterruptRoute,
    LineageState,
    RunState,
    RunStatus,
    RuntimeScope,
    StateWrite,
    TraceEntry,
)

Place = tuple[int | str, ...]

ITEM = "root:each#0:1"


def full_run() -> RunState:
    """A run in which every field of every record holds something else than its default."""
    state = {"total": 5, "text": "ä", "nested": {"list": [1, 2.5, None, True, {"deep": []}]}}
    child = WorkflowRef(artifact_id="billing", version=3)
    return RunState(
        workflow_name="orders",
        status=RunStatus.INTERRUPTED,
        workflow_input={"items": [1, 2]},
        state=state,
        outcome="rejected",
        output={"total": 5},
        trace=[
            TraceEntry("root", "each", "foreach", {"item": 1}, "loop", "ask", {"x": [1]}, {'state."a.b"': 1}, 1),
            TraceEntry(ITEM, "ask", "interrupt", {"q": "?"}, "interrupt", "ask", {"q": "?"}, {}, 2),
        ],
        frames={
            "root": ExecutionFrame(
                "root",
                "workflow",
                "each",
                FrameStatus.BLOCKED,
                metadata={"blocked_on": {"type": "child_frames", "frame_ids": [ITEM]}},
                step_number=1,
            ),
            ITEM: ExecutionFrame(
                ITEM,
                ITEM_FRAME,
                "ask",
                FrameStatus.INTERRUPTED,
                parent_frame_id="root",
                scope_id="child",
                lineage_id="root:each#0[1]",
                parent_lineage_id="root",
                prior_outcome="ok",
                activated_incoming_edge="ok",
                metadata={"loop_item": {"deep": [1.0, "x"]}, "loop_index": 1},
                finished_at_node_id="ask",
                step_number=2,
            ),
        },
        scopes={
            "root": RuntimeScope("root", "orders", {"items": [1, 2]}, state),
            "child": RuntimeScope("child", "billing", {"n": 1}, {"total": 1}, child),
            "named": RuntimeScope("named", "other", workflow_ref=WorkflowRef(name="other")),
        },
        lineages={
            "root": LineageState("root", "root"),
            "root:each#0[1]": LineageState(
                "root:each#0[1]",
                "child",
                "root",
                [
                    StateWrite(StatePath(("total",)), 2, 7, ReducerRef(name="wf.std.add")),
                    StateWrite(
                        StatePath(("a.b", "c d")), [1], {"n": None}, ReducerRef(name="my.own.merge", config={"k": [1]})
                    ),
                ],
            ),
        },
        ready_frame_ids=["other"],
        current_frame_id=ITEM,
        current_node_id="ask",
        prior_outcome="ok",
        activated_incoming_edge="ok",
        error="something",
        interrupt=InterruptRequest(
            "interrupt:ask",
            ITEM,
            "ask",
            "approval",
            payload={"q": "?"},
            resumable=False,
            route=InterruptRoute(ITEM, "ask", "child", "root", "root", child),
            outcomes=["submitted", "rejected"],
            request_schema={"type": "object"},
            resume_schema={"type": "object", "required": ["a"]},
            typed=True,
            step_number=2,
        ),
        limits=RunLimits(max_steps=7),
        steps_executed=2,
    )


def through_text(document: Any) -> Any:
    return json.loads(json.dumps(document, allow_nan=False))


def stored() -> dict[str, Any]:
    return through_text(dump_run_state(full_run()))


def stored_v1() -> dict[str, Any]:
    """A document as it was written before runs had a step budget."""
    document = stored()
    state = document["state"]
    del state["limits"], state["steps_executed"], state["interrupt"]["step_number"]
    for record in (*state["trace"], *state["frames"].values()):
        del record["step_number"]
    return {"version": 1, "state": state}


def put(document: Any, place: Place, value: Any) -> Any:
    """The document with the value at the place."""
    at = document
    for step in place[:-1]:
        at = at[step]
    at[place[-1]] = value
    return document


def without(document: Any, place: Place) -> Any:
    at = document
    for step in place[:-1]:
        at = at[step]
    del at[place[-1]]
    return document


# ---- there and back


def test_a_run_comes_back_equal_and_of_its_real_types() -> None:
    run = load_run_state(stored())

    assert run == full_run()
    assert type(run.status) is RunStatus and type(run.limits) is RunLimits
    assert [type(frame) for frame in run.frames.values()] == [ExecutionFrame, ExecutionFrame]
    assert type(run.frames[ITEM].status) is FrameStatus
    assert [type(entry) for entry in run.trace] == [TraceEntry, TraceEntry]
    assert {type(scope) for scope in run.scopes.values()} == {RuntimeScope}
    assert type(run.scopes["child"].workflow_ref) is WorkflowRef
    [added, merged] = run.lineages["root:each#0[1]"].writes
    assert type(added) is StateWrite and type(added.path) is StatePath and type(added.reducer) is ReducerRef
    assert merged.path == StatePath(("a.b", "c d")) and merged.reducer.config == {"k": [1]}
    assert run.interrupt is not None and type(run.interrupt) is InterruptRequest
    assert type(run.interrupt.route) is InterruptRoute and type(run.interrupt.route.workflow_ref) is WorkflowRef
    assert type(run.frames[ITEM].metadata["loop_item"]) is dict


def test_a_run_of_defaults_comes_back_equal() -> None:
    run = RunState("w", RunStatus.PENDING, {}, {})

    assert load_run_state(through_text(dump_run_state(run))) == run


def test_the_document_is_plain_json_with_the_version_and_every_field() -> None:
    document = dump_run_state(full_run())

    assert through_text(document) == document
    assert (document["version"], set(document)) == (2, {"version", "state"})
    assert set(document["state"]) == set(asdict(full_run()))
    assert document["state"]["limits"] == {"max_steps": 7}
    assert document["state"]["lineages"]["root:each#0[1]"]["writes"][1] == {
        "path": 'state."a.b"."c d"',
        "incoming_value": [1],
        "visible_value": {"n": None},
        "reducer": {"ref": {"source": "my.own", "capability_key": "merge"}, "config": {"k": [1]}},
    }
    assert {type(value) for _, value in leaves(document)} <= {str, int, float, bool, type(None), list, dict}
    assert PersistedRunState.model_validate(document).state == document["state"]


def test_the_state_is_the_root_scopes_state_again() -> None:
    run = load_run_state(stored())

    assert run.state is run.scopes["root"].committed_state


def test_a_run_without_a_root_scope_keeps_its_state() -> None:
    run = load_run_state(through_text(dump_run_state(RunState("w", RunStatus.RUNNING, {}, {"a": [1]}))))

    assert (run.state, run.scopes) == ({"a": [1]}, {})


@pytest.mark.parametrize("number", [0, -1, 2**53 + 1, 10**40, 1.0, -0.0, 1e-320, 0.1, True, False])
def test_numbers_keep_their_type_and_every_digit(number: Any) -> None:
    run = RunState("w", RunStatus.RUNNING, {"n": number}, {})

    found = load_run_state(through_text(dump_run_state(run))).workflow_input["n"]

    assert (type(found), found, math.copysign(1, found)) == (type(number), number, math.copysign(1, number))


def test_metadata_is_not_judged() -> None:
    """It is checked where it is read, so that one damaged frame does not hide the rest of a run."""
    document = put(stored(), ("state", "frames", ITEM, "metadata"), {"loop_index": "first", "blocked_on": 7})

    assert load_run_state(document).frames[ITEM].metadata == {"loop_index": "first", "blocked_on": 7}


# ---- independence


def scribble(value: Any) -> None:
    """Changes every list and dict in a value, and in the records of a run."""
    if is_dataclass(value):
        for field in fields(value):
            scribble(getattr(value, field.name))
    elif isinstance(value, BaseModel):
        scribble(value.__dict__.get("config", {}))
    elif isinstance(value, dict):
        for inner in value.values():
            scribble(inner)
        value["scribbled"] = "here"
    elif isinstance(value, list):
        for inner in value:
            scribble(inner)
        value.append("scribbled")


def test_a_document_does_not_change_with_the_run() -> None:
    run = full_run()
    document = dump_run_state(run)

    scribble(run)

    assert document == dump_run_state(full_run())


def test_writing_a_run_does_not_change_it_and_the_document_may_be_changed() -> None:
    run = full_run()

    scribble(dump_run_state(run))

    assert run == full_run()


@pytest.mark.parametrize("make", [stored, stored_v1])
def test_a_loaded_run_shares_nothing_with_its_document(make: Callable[[], dict[str, Any]]) -> None:
    document = make()
    run = load_run_state(document)

    assert document == make()
    scribble(document)
    assert run == load_run_state(make())

    document = make()
    scribble(load_run_state(document))
    assert document == make()


# ---- writing refuses


class Colour(BaseModel):
    name: str = "red"


NOT_JSON: list[Any] = [
    (1, 2),
    {1, 2},
    b"bytes",
    datetime.date(2030, 1, 2),
    decimal.Decimal("1.5"),
    math.nan,
    math.inf,
    {1: "a key that is no text"},
    UserDict({"a": 1}),
    RunStatus.RUNNING,
    StatePath(("a",)),
    Colour(),
    TraceEntry("f", "n", "node", {}, "ok", "end"),
    "\ud800",
    object(),
]
JSON_PLACES: list[tuple[Place, str]] = [
    (("workflow_input", "x"), "state.workflow_input.x"),
    (("output",), "state.output"),
    (("scopes", "child", "workflow_input", "x"), "state.scopes.child.workflow_input.x"),
    (("scopes", "child", "committed_state", "x"), "state.scopes.child.committed_state.x"),
    (("frames", ITEM, "metadata", "a: 'b'"), f'state.frames."{ITEM}".metadata."a: \'b\'"'),
    (("trace", 0, "resolved_input"), "state.trace[0].resolved_input"),
    (("trace", 1, "output", "x"), "state.trace[1].output.x"),
    (("trace", 1, "state_changes", "state.x"), 'state.trace[1].state_changes."state.x"'),
    (("lineages", "root:each#0[1]", "writes", 1, "incoming_value"), "writes[1].incoming_value"),
    (("lineages", "root:each#0[1]", "writes", 0, "visible_value"), "writes[0].visible_value"),
    (("interrupt", "payload", "x"), "state.interrupt.payload.x"),
    (("interrupt", "resume_schema", "x"), "state.interrupt.resume_schema.x"),
]


def put_in_run(run: RunState, place: Place, value: Any) -> RunState:
    at: Any = run
    for step in place[:-1]:
        at = getattr(at, str(step)) if is_dataclass(at) else at[step]
    if is_dataclass(at):
        setattr(at, str(place[-1]), value)
    else:
        at[place[-1]] = value
    return run


@pytest.mark.parametrize("value", NOT_JSON, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize(("place", "text"), JSON_PLACES, ids=lambda given: given if isinstance(given, str) else "")
def test_what_is_not_json_is_refused_with_its_place_and_not_converted(place: Place, text: str, value: Any) -> None:
    run = put_in_run(full_run(), place, value)

    with pytest.raises(PersistedRunInvalid) as caught:
        dump_run_state(run)

    assert isinstance(caught.value, ValueError)
    assert caught.value.code == "run_not_json"
    assert text in str(caught.value) and text in (caught.value.path or "")


def test_the_place_goes_down_to_the_value_itself() -> None:
    run = put_in_run(full_run(), ("trace", 1, "output"), {"rows": [{"day": datetime.date(2030, 1, 2)}]})

    with pytest.raises(
        PersistedRunInvalid, match=r"state\.trace\[1\]\.output\.rows\[0\]\.day: date is not a JSON value"
    ):
        dump_run_state(run)


def test_a_value_that_holds_itself_is_refused() -> None:
    run = full_run()
    run.state["self"] = run.state

    with pytest.raises(PersistedRunInvalid, match="nested too deeply"):
        dump_run_state(run)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("outcome",), FrameStatus.RUNNING),
        (("error",), ValueError("boom")),
        (("trace",), ()),
        (("ready_frame_ids",), ("root",)),
        (("interrupt", "outcomes"), {"submitted"}),
        (("frames", 7), ExecutionFrame("7", "workflow", "n")),
        (("frames", "root"), RuntimeScope("root", "orders")),
        (("lineages", "root:each#0[1]", "writes", 0, "path"), object()),
        (("lineages", "root:each#0[1]", "writes", 0, "reducer"), WorkflowRef(name="x")),
    ],
)
def test_a_field_of_a_wrong_type_is_refused_and_not_converted(place: Place, value: Any) -> None:
    with pytest.raises(PersistedRunInvalid, match=r"state\." + str(place[0])):
        dump_run_state(put_in_run(full_run(), place, value))


def test_a_run_whose_state_is_not_its_root_scopes_state_is_refused() -> None:
    run = full_run()
    run.state = {"another": "state"}

    with pytest.raises(PersistedRunInvalid, match="committed state of the scope 'root'"):
        dump_run_state(run)


def test_a_subclass_of_dict_or_list_is_written_as_what_it_is_in_json() -> None:
    run = full_run()
    run.workflow_input["ordered"] = OrderedDict(b=1, a=2)

    written = dump_run_state(run)["state"]["workflow_input"]["ordered"]

    assert (type(written), list(written)) == (dict, ["b", "a"])


# ---- reading: the envelope


@pytest.mark.parametrize(
    "payload",
    [
        None,
        [],
        "text",
        7,
        {},
        {"version": 2},
        {"version": 1},
        {"state": {}},
        {"version": 2, "state": None},
        {"version": 2, "state": []},
        {"version": 1, "state": "text"},
        *({"version": version, "state": {}} for version in (0, 3, -1, "1", "2", True, 1.0, 2.0, None, [2], {"a": 1})),
    ],
    ids=repr,
)
def test_what_is_no_envelope_of_a_known_version_is_refused(payload: Any) -> None:
    with pytest.raises(ValidationError) as caught:
        load_run_state_with_upgrade(payload)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("make", [stored, stored_v1])
@pytest.mark.parametrize("version", [True, 1.0, 2.0, "1", "2", 3, None])
def test_a_whole_document_of_an_unknown_version_is_refused(make: Callable[[], Any], version: Any) -> None:
    with pytest.raises(ValidationError):
        load_run_state({**make(), "version": version})


@pytest.mark.parametrize("make", [stored, stored_v1])
def test_a_further_key_of_the_envelope_is_refused(make: Callable[[], Any]) -> None:
    with pytest.raises(ValidationError, match="Extra inputs"):
        load_run_state({**make(), "comment": "mine"})


@pytest.mark.parametrize("make", [stored, stored_v1])
@pytest.mark.parametrize("value", NOT_JSON, ids=lambda value: type(value).__name__)
def test_what_is_not_json_is_not_read_either(make: Callable[[], Any], value: Any) -> None:
    with pytest.raises(ValidationError, match=r"trace\[1\]\.output\.x"):
        load_run_state(put(make(), ("state", "trace", 1, "output", "x"), value))


# ---- reading: the shape of a run


@pytest.mark.parametrize("make", [stored, stored_v1])
@pytest.mark.parametrize(
    ("place", "value", "text"),
    [
        (("status",), "paused", "state.status"),
        (("status",), None, "state.status"),
        (("workflow_name",), 7, "state.workflow_name"),
        (("state",), [], "state.state"),
        (("state",), {"total": 6}, "committed state of the scope 'root'"),
        (("trace",), {}, "state.trace"),
        (("trace", 1), [], r"state.trace\[1\]"),
        (("trace", 1, "node_id"), None, r"state.trace\[1\].node_id"),
        (("frames",), [], "state.frames"),
        (("frames", "root"), None, "state.frames.root"),
        (("frames", ITEM, "status"), "asleep", f'state.frames."{ITEM}".status'),
        (("frames", "root", "metadata"), [], "state.frames.root.metadata"),
        (("scopes", "child", "workflow_ref"), {"artifact_id": "a", "version": 0}, "state.scopes.child.workflow_ref"),
        (("scopes", "child", "workflow_ref"), {"artifact_id": "a", "version": "1"}, "state.scopes.child.workflow_ref"),
        (("lineages", "root:each#0[1]", "writes", 0, "path"), "input.total", r"writes\[0\].path"),
        (("lineages", "root:each#0[1]", "writes", 0, "path"), "state", r"writes\[0\].path"),
        (("lineages", "root:each#0[1]", "writes", 0, "reducer"), "noname", r"writes\[0\].reducer"),
        (("lineages", "root:each#0[1]", "writes", 0, "reducer", "extra"), 1, r"writes\[0\].reducer"),
        (("interrupt", "resumable"), 1, "state.interrupt.resumable"),
        (("interrupt", "typed"), "yes", "state.interrupt.typed"),
        (("interrupt", "outcomes"), "submitted", "state.interrupt.outcomes"),
        (("interrupt", "route", "unknown"), 1, "state.interrupt.route.unknown"),
        (("unknown",), 1, "state.unknown"),
        (("frames", "root", "unknown"), 1, "state.frames.root.unknown"),
        (("steps_remaining",), 5, "state.steps_remaining"),
    ],
)
def test_a_state_that_is_no_run_is_refused_with_its_place(
    make: Callable[[], Any], place: Place, value: Any, text: str
) -> None:
    with pytest.raises(PersistedRunInvalid, match=text) as caught:
        load_run_state(put(make(), ("state", *place), value))
    assert (caught.value.code, (caught.value.path or "").split(".")[0]) == ("persisted_run_invalid", "state")


@pytest.mark.parametrize("name", ["workflow_name", "status", "workflow_input", "state"])
def test_a_run_without_a_required_field_is_refused(name: str) -> None:
    with pytest.raises(PersistedRunInvalid, match=name):
        load_run_state(without(stored(), ("state", name)))


def leaves(value: Any, place: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Every value of a document with its place, containers included."""
    yield place, value
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, item in inner:
        yield from leaves(item, (*place, step))


def exactly(value: Any) -> str:
    """A text that tells 1, 1.0, true and "1" apart."""
    return json.dumps(value, sort_keys=True)


@pytest.mark.parametrize("other", [None, True, False, 0, 1, 2, 1.0, 2.0, "1", "true", "", [], {}], ids=repr)
def test_nothing_is_converted_on_the_way_in(other: Any) -> None:
    """Each single value is replaced in turn: the document is refused, or read as exactly what it says."""
    whole = stored()
    for place, _ in leaves(whole):
        if place in ((), ("version",)):
            continue
        if place[:2] == ("state", "state") or place[:4] == ("state", "scopes", "root", "committed_state"):
            continue  # kept twice, and must agree
        if place[-1] in ("reducer", "workflow_ref") and isinstance(other, str):
            continue  # a reference may be written as a text
        changed = put(copy.deepcopy(whole), place, other)
        try:
            run = load_run_state(changed)
        except ValueError:
            continue
        assert exactly(dump_run_state(run)) == exactly(changed), place


# ---- reading: the step budget


NUMBERED: list[Place] = [("frames", ITEM), ("frames", "root"), ("trace", 0), ("trace", 1), ("interrupt",)]


@pytest.mark.parametrize(
    ("place", "text"),
    [
        (("limits",), "state.limits"),
        (("limits", "max_steps"), "state.limits"),
        (("steps_executed",), "state.steps_executed"),
        (("frames",), "state.frames"),
        *((((*place, "step_number")), "step_number") for place in NUMBERED),
    ],
)
def test_a_document_that_misses_a_part_of_the_budget_is_refused(place: Place, text: str) -> None:
    with pytest.raises(PersistedRunInvalid, match=text):
        load_run_state(without(stored(), ("state", *place)))


@pytest.mark.parametrize("limits", [None, [], 7, {}, {"max_steps": 7, "max_time": 1}, {"steps": 7}], ids=repr)
def test_limits_hold_max_steps_and_nothing_else(limits: Any) -> None:
    with pytest.raises(PersistedRunInvalid, match=r"state\.limits"):
        load_run_state(put(stored(), ("state", "limits"), limits))


@pytest.mark.parametrize("maximum", [0, -1, True, "7", 7.0, 7.5, None, [7]], ids=repr)
def test_max_steps_is_exactly_a_positive_integer(maximum: Any) -> None:
    with pytest.raises(PersistedRunInvalid, match=r"state\.limits\.max_steps"):
        load_run_state(put(stored(), ("state", "limits", "max_steps"), maximum))


@pytest.mark.parametrize("executed", [-1, 8, True, "2", 2.0, None, [2]], ids=repr)
def test_the_steps_executed_are_exactly_an_integer_within_the_budget(executed: Any) -> None:
    with pytest.raises(PersistedRunInvalid, match=r"state\.steps_executed"):
        load_run_state(put(stored(), ("state", "steps_executed"), executed))


def test_a_budget_that_is_used_up_is_read() -> None:
    document = put(put(stored(), ("state", "steps_executed"), 7), ("state", "trace", 0, "step_number"), 7)

    assert load_run_state(document).steps_remaining == 0


@pytest.mark.parametrize("place", NUMBERED, ids=str)
@pytest.mark.parametrize("number", [0, -1, 3, True, "1", 1.0, [1]], ids=repr)
def test_a_step_number_is_null_or_exactly_an_integer_up_to_the_steps_executed(place: Place, number: Any) -> None:
    with pytest.raises(PersistedRunInvalid, match="step_number") as caught:
        load_run_state(put(stored(), ("state", *place, "step_number"), number))
    assert (caught.value.path or "").endswith("step_number")


@pytest.mark.parametrize("place", NUMBERED, ids=str)
@pytest.mark.parametrize("number", [None, 1, 2])
def test_a_step_number_may_be_null_or_any_admitted_step(place: Place, number: int | None) -> None:
    document = put(stored(), ("state", *place, "step_number"), number)

    assert dump_run_state(load_run_state(document)) == document


# ---- version 1


def test_a_document_without_budget_gets_the_default_one_and_says_so() -> None:
    run, upgraded = load_run_state_with_upgrade(stored_v1())

    assert upgraded
    assert (run.limits, run.steps_executed) == (RunLimits(DEFAULT_MAX_STEPS), 0)
    assert run.interrupt is not None
    assert [record.step_number for record in (*run.frames.values(), *run.trace, run.interrupt)] == [None] * 5


def test_the_upgrade_changes_nothing_but_the_budget() -> None:
    run = load_run_state(stored_v1())
    expected = full_run()
    expected.limits, expected.steps_executed = RunLimits(), 0
    assert expected.interrupt is not None
    for record in (*expected.frames.values(), *expected.trace, expected.interrupt):
        record.step_number = None

    assert run == expected
    assert run.state is run.scopes["root"].committed_state


def test_an_upgraded_run_is_stored_as_version_2_and_needs_no_further_upgrade() -> None:
    run = load_run_state(stored_v1())

    again, upgraded = load_run_state_with_upgrade(through_text(dump_run_state(run)))

    assert (again, upgraded) == (run, False)


@pytest.mark.parametrize("smuggled", [1, 10**9, "lots", None, True, 2.5, [], {"max_steps": 10**9}, {"a": {}}], ids=repr)
def test_budget_fields_in_a_document_of_version_1_are_never_read(smuggled: Any) -> None:
    document = stored_v1()
    for place in [("limits",), ("steps_executed",), *((*place, "step_number") for place in NUMBERED)]:
        put(document, ("state", *place), smuggled)
    before = copy.deepcopy(document)

    assert load_run_state_with_upgrade(document) == load_run_state_with_upgrade(stored_v1())
    assert document == before


def test_a_document_of_version_1_may_leave_out_what_has_a_default() -> None:
    state = {"workflow_name": "w", "status": "pending", "workflow_input": {}, "state": {}}

    assert load_run_state({"version": 1, "state": state}) == RunState("w", RunStatus.PENDING, {}, {})


# ---- cost


def test_the_cost_of_a_step_in_the_trace_does_not_grow_with_the_trace() -> None:
    """Counted in calls, since a clock would measure the machine."""

    def calls(entries: int) -> int:
        run = full_run()
        run.trace = [TraceEntry("root", "n", "node", {"a": [1]}, "ok", "n", {"b": {}}, {"state.x": 1})] * entries
        with cProfile.Profile() as profile:
            load_run_state(dump_run_state(run))
        return sum(entry.callcount for entry in profile.getstats())

    few, more, most = calls(100), calls(1100), calls(2100)

    assert abs((most - more) - (more - few)) <= 0.01 * (more - few)
