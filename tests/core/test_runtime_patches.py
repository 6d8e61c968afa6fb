"""Writes: one output is one patch, reduced, checked, and applied whole or not at all."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.support.engines import fresh_run
from tests.support.workflow_documents import node, workflow
from wf_core.errors import WorkflowExecutionError
from wf_core.models import ReducerRef, ReducerSpec, Workflow
from wf_core.paths import StatePath
from wf_core.plan import compile_plan
from wf_core.reducers import ReducerDefinition, apply_reducer
from wf_core.run_state import RunState, RunStatus
from wf_core.runtime import execute_workflow, resume_workflow

STATE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "total": {"type": "integer", "reducer": "wf.std.add"},
        "values": {"type": "array", "items": {"type": "integer"}, "reducer": "wf.std.append"},
        "names": {"type": "array", "reducer": "wf.std.set_union"},
        "best": {"reducer": "wf.std.max"},
        "box": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
        "merged": {"type": "object", "properties": {"a": {}, "b": {}}, "reducer": "wf.std.merge_object"},
        "plain": {},
    },
}


def writing(*bindings: str, state: dict[str, Any] = STATE) -> Workflow:
    """A step whose output fields go where ``source -> target`` lines say."""
    pairs = [binding.split(" -> ") for binding in bindings]
    return workflow(
        ["work.ok -> END"],
        [node("work", output=[{"source": source, "target": target} for source, target in pairs])],
        input_schema={"type": "object"},
        state_schema=state,
        node_defs=[
            {
                "name": "work",
                "input_schema": {"type": "object"},
                "output_schema": {"type": "object"},
                "outcomes": ["ok"],
            }
        ],
        output_schema={"type": "object"},
    )


def after(made: Workflow, output: dict[str, Any], prior: dict[str, Any] | None = None, **options: Any) -> RunState:
    run = fresh_run(made, copy.deepcopy(prior or {}))
    return resume_workflow(made, run, {"work": lambda payload, context: output}, **options)


def refused(made: Workflow, output: dict[str, Any], prior: dict[str, Any] | None = None, **options: Any) -> str:
    """The message of the failure, after which the state is as it was."""
    return str(refusal(made, output, prior, **options))


def refusal(
    made: Workflow, output: dict[str, Any], prior: dict[str, Any] | None = None, **options: Any
) -> WorkflowExecutionError:
    """The failure, after which the state is as it was."""
    run = fresh_run(made, copy.deepcopy(prior or {}))
    with pytest.raises(WorkflowExecutionError) as caught:
        resume_workflow(made, run, {"work": lambda payload, context: output}, **options)
    assert run.state == (prior or {})
    assert run.state is run.scopes["root"].committed_state
    assert run.lineages["root"].writes == []
    assert (run.status, run.trace) == (RunStatus.FAILED, [])
    return caught.value


@pytest.mark.parametrize(
    ("field", "prior", "incoming", "result"),
    [
        ("total", 2, 3, 5),
        ("total", None, 3, 3),
        ("values", [1], [2, 3], [1, 2, 3]),
        ("values", [1], 2, [1, 2]),
        ("names", ["a"], ["b", "a"], ["a", "b"]),
        ("best", 3, 2, 3),
        ("best", 3, 4, 4),
        ("merged", {"a": 1, "b": 1}, {"b": 2}, {"a": 1, "b": 2}),
        ("plain", {"a": 1}, {"b": 2}, {"b": 2}),
    ],
)
def test_each_built_in_reducer(field: str, prior: Any, incoming: Any, result: Any) -> None:
    made = writing(f"value -> state.{field}")

    assert after(made, {"value": incoming}, {field: prior}).state[field] == result
    fresh = after(made, {"value": incoming}).state[field]
    assert fresh == (incoming if field != "values" or isinstance(incoming, list) else [incoming])


def test_the_trace_shows_incoming_values() -> None:
    run = after(writing("value -> state.total"), {"value": 3}, {"total": 2})

    assert run.trace[0].state_changes == {"state.total": 3}


def test_one_source_may_feed_several_targets_and_dot_is_the_whole_output() -> None:
    run = after(writing("value -> state.plain", "value -> state.total", ". -> state.merged"), {"value": 1})

    assert run.state == {"plain": 1, "total": 1, "merged": {"value": 1}}


def test_every_write_of_an_output_reads_the_state_from_before_it() -> None:
    run = after(writing("value -> state.merged.a", "value -> state.merged.b"), {"value": 1}, {"merged": {"c": 0}})

    assert run.state["merged"] == {"c": 0, "a": 1, "b": 1}


def test_an_explicit_null_is_written_and_a_missing_source_writes_nothing() -> None:
    made = writing("value -> state.plain", "gone -> state.total")

    assert after(writing("value -> state.plain"), {"value": None}).state == {"plain": None}
    missing = refusal(made, {"value": 1})
    assert "node output for 'work' did not include required field 'gone'" in str(missing)
    assert (missing.code, missing.path) == ("output_field_missing", "gone")


def test_parents_of_a_target_are_created_also_in_place_of_a_null() -> None:
    made = writing("value -> state.plain.deep.er")

    assert after(made, {"value": 1}).state == {"plain": {"deep": {"er": 1}}}
    assert after(made, {"value": 1}, {"plain": None}).state == {"plain": {"deep": {"er": 1}}}
    assert after(made, {"value": 1}, {"plain": {"deep": None}}).state == {"plain": {"deep": {"er": 1}}}


def test_a_target_below_something_that_is_no_object_is_refused() -> None:
    failure = refusal(writing("value -> state.plain.deep"), {"value": 1}, {"plain": [1]})

    assert "cannot descend into list at state.plain.deep" in str(failure)
    assert (failure.code, failure.path) == ("state_write_refused", "state.plain.deep")


def test_overlapping_targets_are_refused_whoever_let_them_through() -> None:
    for second in ("state.plain", "state.plain.below"):
        made = writing("value -> state.plain", f"value -> {second}")
        failure = refusal(made, {"value": 1})
        assert f"overlapping state destination paths state.plain and {second}" in str(failure)
        assert (failure.code, failure.path) == ("overlapping_writes", second)


def test_a_late_failure_leaves_what_came_before_it_unwritten() -> None:
    prior = {"total": 1, "values": [1], "plain": {"kept": [1]}}
    made = writing("value -> state.plain", "value -> state.total", "bad -> state.values")

    assert "state write state.values" in refused(made, {"value": 1, "bad": "text"}, prior)


# ---- schemas


def test_a_write_is_checked_against_exactly_the_declared_field() -> None:
    made = writing("value -> state.total")

    assert "state write state.total: 'x' is not of type 'integer'" in refused(made, {"value": "x"})
    broken_elsewhere = {"box": {"wrong": True}}
    assert after(made, {"value": 1}, broken_elsewhere).state["total"] == 1


def test_a_replacing_write_must_satisfy_the_whole_field() -> None:
    assert "state write state.box: 'a' is a required property" in refused(writing("value -> state.box"), {"value": {}})


def test_a_write_below_a_declared_field_is_checked_against_the_nearest_one() -> None:
    assert "state write state.box: 'a' is a required property" in refused(
        writing("value -> state.box.free"), {"value": 1}
    )
    assert "state write state.box.a: 'x'" in refused(writing("value -> state.box.a"), {"value": "x"})


def test_a_write_is_checked_against_declared_fields_below_it_deepest_first() -> None:
    state = {
        "type": "object",
        "properties": {
            "top": {
                "properties": {
                    "mid": {"properties": {"low": {"type": "integer"}}, "required": ["other"]},
                }
            }
        },
    }
    plan = compile_plan(writing(state=state))

    order = [".".join(parts) for parts in plan.fields_to_check(StatePath.parse("state.top"))]
    assert order == ["top.mid.low", "top.mid", "top"]
    assert [*plan.fields_to_check(StatePath.parse("state.free"))] == []
    assert [*plan.fields_to_check(StatePath.parse("state.top.mid.free.er"))] == [("top", "mid")]
    message = refused(writing("value -> state.top", state=state), {"value": {"mid": {"low": "x"}}})
    assert "state write state.top.mid.low" in message


def test_the_schema_of_a_missing_field_is_not_checked_and_that_of_a_null_is() -> None:
    made = writing("value -> state.merged")

    assert after(made, {"value": {"free": 1}}).state == {"merged": {"free": 1}}
    assert "state write state.total: None" in refused(writing("value -> state.total"), {"value": None})


# ---- reducers of one's own


def custom(fn: Any, *, accepts_config: bool = False, **spec: Any) -> dict[str, ReducerDefinition]:
    name = "team.math.mix"
    return {name: ReducerDefinition(ReducerSpec(name=name, **spec), fn, accepts_config)}


MIXED: dict[str, Any] = {"type": "object", "properties": {"plain": {"reducer": "team.math.mix"}}}
CONFIGURED: dict[str, Any] = {
    "type": "object",
    "properties": {"plain": {"reducer": {"name": "team.math.mix", "config": {"by": 10}}}},
}
BY = {"type": "object", "properties": {"by": {"type": "integer", "maximum": 10}}, "required": ["by"]}


def test_a_reducer_of_two_arguments() -> None:
    run = after(
        writing("value -> state.plain", state=MIXED),
        {"value": 2},
        {"plain": 5},
        reducers=custom(lambda current, incoming: current * incoming),
    )

    assert run.state == {"plain": 10}


def test_a_reducer_of_three_arguments_gets_its_config() -> None:
    run = after(
        writing("value -> state.plain", state=CONFIGURED),
        {"value": 2},
        {"plain": 5},
        reducers=custom(lambda c, i, config: c + i * config["by"], accepts_config=True, config_schema=BY),
    )

    assert run.state == {"plain": 25}


def test_a_config_is_checked_before_the_function_runs() -> None:
    calls: list[Any] = []
    state = copy.deepcopy(CONFIGURED)
    state["properties"]["plain"]["reducer"]["config"]["by"] = 11

    message = refused(
        writing("value -> state.plain", state=state),
        {"value": 2},
        reducers=custom(lambda *given: calls.append(given), accepts_config=True, config_schema=BY),
    )

    assert message.startswith("reducer config for 'team.math.mix'.by: 11 is greater than")
    assert calls == []


def test_a_config_that_nobody_reads_is_checked_too() -> None:
    message = refused(writing("value -> state.plain", state=CONFIGURED), {"value": 2}, reducers=custom(lambda c, i: i))

    assert "reducer config for 'team.math.mix'" in message


def test_what_a_reducer_raises_names_reducer_and_path() -> None:
    def explode(current: Any, incoming: Any) -> Any:
        raise ZeroDivisionError("by nought")

    message = refused(writing("value -> state.plain", state=MIXED), {"value": 2}, reducers=custom(explode))

    assert message == "reducer 'team.math.mix' failed on state.plain: by nought"


@pytest.mark.parametrize(
    ("field", "prior", "incoming"),
    [
        ("total", 1, "text"),
        ("values", {"no": "list"}, 1),
        ("names", ["a"], "text"),
        ("merged", {"a": 1}, [1]),
        ("best", 1, "text"),
    ],
)
def test_a_built_in_reducer_refuses_what_it_cannot_merge(field: str, prior: Any, incoming: Any) -> None:
    message = refused(writing(f"value -> state.{field}"), {"value": incoming}, {field: prior})

    assert message.startswith("reducer 'wf.std.") and f"failed on state.{field}" in message


def test_an_unknown_reducer_is_named_with_those_that_exist() -> None:
    with pytest.raises(WorkflowExecutionError, match=r"unknown reducer 'team.math.mix'") as caught:
        after(writing("value -> state.plain", state=MIXED), {"value": 1})

    assert caught.value.hint is not None and "wf.std.append" in caught.value.hint


def test_a_parents_reducer_lends_nothing_to_what_lies_below() -> None:
    run = after(writing("value -> state.merged.a"), {"value": {"y": 1}}, {"merged": {"a": {"x": 1}}})

    assert run.state == {"merged": {"a": {"y": 1}}}


def test_a_null_and_an_absent_present_value_look_alike_to_a_reducer() -> None:
    seen: list[Any] = []
    reducers = custom(lambda current, incoming: seen.append(current) or incoming)
    made = writing("value -> state.plain", state=MIXED)

    after(made, {"value": 1}, {"plain": None}, reducers=reducers)
    after(made, {"value": 1}, reducers=reducers)

    assert seen == [None, None]


def test_a_reducer_can_be_applied_by_itself() -> None:
    merged = apply_reducer(
        reducer=ReducerRef(name="wf.std.append"),
        current_value=[1],
        incoming_value=2,
        destination_path=StatePath.of("values"),
    )

    assert merged == [1, 2]


# ---- the first state


def test_defaults_in_declaration_order_then_every_key_of_the_input() -> None:
    state = {
        "type": "object",
        "properties": {
            "box": {"type": "object", "default": {"a": 1}, "properties": {"b": {"default": 2}}},
            "plain": {"default": "text"},
            "null": {"default": None},
        },
    }
    made = workflow(["work.ok -> END"], state_schema=state, input_schema={"type": "object"})
    given = {"plain": [1], "undeclared": {"x": 1}}

    run = fresh_run(made, given)
    run.state["plain"].append(2)
    again = fresh_run(made, given)

    assert again.state == {"box": {"a": 1, "b": 2}, "plain": [1], "undeclared": {"x": 1}}
    assert again.state is again.scopes["root"].committed_state
    assert again.workflow_input == given


def test_an_input_that_does_not_fit_makes_no_run() -> None:
    made = workflow(["work.ok -> END"], input_schema={"type": "object", "required": ["value"]})

    with pytest.raises(WorkflowExecutionError, match="workflow input: 'value' is a required property") as caught:
        execute_workflow(made, {}, {})

    assert caught.value.code == "workflow_input_invalid"
