"""Models can be changed after parsing; whatever they hold then, validation answers with a report."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from tests.support.workflow_documents import STATE_SCHEMA, condition, end, foreach, node, reads, workflow
from wf_core.analysis import analyze_control_regions, context_analysis_warnings, context_schemas_by_node
from wf_core.models import ConditionNode, NotCondition, Workflow
from wf_core.paths import GraphSourcePath, LocalPath, StatePath
from wf_core.validation import validate_workflow


def every_kind_of_step() -> Workflow:
    """A sound workflow with each kind of step, binding, expression and condition."""
    tests: list[dict[str, Any]] = [
        {"op": "exists", "path": "state.value"},
        {"op": "not", "arg": {"op": "eq", "left": {"path": "context.loop_index"}, "right": {"value": 1}}},
    ]
    expression = {
        "kind": "object",
        "fields": {"all": {"kind": "array", "items": [{"kind": "path", "path": "context.loop_item"}]}},
    }
    return workflow(
        [
            "outer.loop -> choose",
            "choose.true -> inner",
            "choose.false -> join",
            "inner.loop -> work",
            "work.ok -> inner",
            "inner.done -> join",
            "inner.completed_with_errors -> join",
            "join.done -> outer",
            "outer.done -> ask",
            "ask.submitted -> rest",
            "rest.elapsed -> child",
            "child.ok -> stop",
        ],
        [
            foreach("outer", mode="concurrent", concurrent={}),
            condition("choose", {"op": "and", "args": tests}),
            foreach("inner", item_error={"action": "collect", "collect_to": "state.errors"}),
            node(
                "work",
                input=[{"target": "value", "expression": expression}, {"target": "other", "value": 1}],
                output=[{"source": "value", "target": "state.value"}],
            ),
            {"id": "join", "type": "join"},
            {
                "id": "ask",
                "type": "interrupt",
                "kind": "approval",
                "request": [reads("input.value")],
                "resume": [{"source": "answer", "target": "state.value"}],
            },
            {"id": "rest", "type": "wait", "until": "state.value"},
            {"id": "child", "type": "subgraph", "workflow": "child", "input": [reads("state", ".")]},
            end("stop"),
        ],
        state_schema={**STATE_SCHEMA, "$defs": {"T": {"$ref": "#/$defs/T"}}},
        output=[reads("state.value")],
    )


def attributes(root: object) -> list[tuple[BaseModel, str]]:
    """Every attribute of every model below a model."""
    found: list[tuple[BaseModel, str]] = []
    pending = [root]
    seen: set[int] = set()
    while pending:
        current = pending.pop()
        if isinstance(current, BaseModel) and id(current) not in seen:
            seen.add(id(current))
            for name in type(current).model_fields:
                found.append((current, name))
                pending.append(getattr(current, name))
        elif isinstance(current, list):
            pending.extend(cast("list[object]", current))
        elif isinstance(current, dict):
            pending.extend(cast("dict[object, object]", current).values())
    return found


def lists(root: BaseModel) -> Iterator[list[Any]]:
    for model, name in attributes(root):
        value = getattr(model, name)
        if isinstance(value, list):
            yield cast("list[Any]", value)


NAMES = ["outer", "inner", "work", "join", "stop", "__end__", "__start__", "loop", "done", "ok", "context", "loop_item"]
TEXTS = st.one_of(
    st.sampled_from(NAMES),
    st.sampled_from(["", ".", "state", "state.value", "context.foreach.outer.item", "input..x", "#/$defs/T", "\ud800"]),
    st.text(max_size=6),
)
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    TEXTS,
    st.lists(TEXTS, max_size=3),
    st.dictionaries(TEXTS, st.one_of(st.none(), TEXTS), max_size=2),
    st.builds(object),
    st.sampled_from([GraphSourcePath("context", ("foreach", "inner", "item")), StatePath(("value",)), LocalPath(())]),
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_validation_reports_whatever_the_attributes_hold(data: st.DataObject) -> None:
    checked = every_kind_of_step()
    for _ in range(data.draw(st.integers(1, 6), label="changes")):
        places = attributes(checked)
        model, name = data.draw(st.sampled_from(places), label="place")
        kind = data.draw(st.sampled_from(["overwrite", "transplant", "shorten", "repeat"]), label="kind")
        if kind == "overwrite":
            setattr(model, name, data.draw(VALUES, label="value"))
        elif kind == "transplant":
            source, source_name = data.draw(st.sampled_from(places), label="source")
            setattr(model, name, getattr(source, source_name))
        else:
            victims = [found for found in lists(checked) if found]
            if victims:
                victim = data.draw(st.sampled_from(victims), label="list")
                position = data.draw(st.integers(0, len(victim) - 1), label="position")
                if kind == "shorten":
                    del victim[position]
                else:
                    victim.append(victim[position])

    report = validate_workflow(checked)

    assert all(issue.path and issue.message and issue.hint for issue in report.errors)
    assert set(context_schemas_by_node(checked)) == set(analyze_control_regions(checked).owner_stack_by_node)
    context_analysis_warnings(checked)


def _random_edges() -> st.SearchStrategy[list[tuple[str, str, str]]]:
    outcomes = {
        "f": ["loop", "done"],
        "g": ["loop", "done"],
        "h": ["loop", "done"],
        "c": ["true", "false"],
        "d": ["true", "false"],
        "a": ["ok"],
        "b": ["ok"],
    }
    targets = st.sampled_from([*outcomes, "stop", "__end__"])
    wired = [st.tuples(st.just(s), st.just(o), targets) for s, named in outcomes.items() for o in named]
    return st.tuples(*wired).map(list)


@settings(max_examples=300, deadline=None)
@given(_random_edges(), st.randoms(use_true_random=False))
def test_regions_do_not_depend_on_the_order_of_edges_in_sound_graphs(
    edges: list[tuple[str, str, str]], shuffler: Any
) -> None:
    steps = [
        foreach("f"),
        foreach("g"),
        foreach("h"),
        condition("c"),
        condition("d"),
        node("a"),
        node("b"),
        end("stop"),
    ]

    def analysed(order: list[tuple[str, str, str]]) -> Any:
        routes = [f"{source}.{outcome} -> {target.replace('__end__', 'END')}" for source, outcome, target in order]
        return analyze_control_regions(workflow(routes, steps))

    shuffled = list(edges)
    shuffler.shuffle(shuffled)
    first, second = analysed(edges), analysed(shuffled)

    kinds = {issue.kind.value for issue in first.issues}
    if "foreach_region_conflict" not in kinds:
        assert first.owner_stack_by_node == second.owner_stack_by_node
        assert kinds == {issue.kind.value for issue in second.issues}
    else:
        assert "foreach_region_conflict" in {issue.kind.value for issue in second.issues}


@pytest.mark.parametrize("attribute", ["nodes", "edges", "node_defs", "output"])
@pytest.mark.parametrize("value", [None, "text", {"a": 1}, [None], ["text"], [["x"]]])
def test_a_top_level_list_of_something_else_is_malformed(attribute: str, value: object) -> None:
    checked = every_kind_of_step()

    setattr(checked, attribute, value)

    report = validate_workflow(checked)
    code = "invalid_workflow_output_field" if attribute == "output" and isinstance(value, list) else "malformed_model"
    place = f"{attribute}[0]" if isinstance(value, list) else attribute
    assert (code, place) in [(issue.code.value, issue.path) for issue in report.errors]


@pytest.mark.parametrize("attribute", ["input_schema", "state_schema", "output_schema"])
@pytest.mark.parametrize("value", [None, "text", [], {"properties": "text"}, {"$ref": "#/$defs/x", "$defs": []}])
def test_a_schema_of_something_else_declares_nothing(attribute: str, value: object) -> None:
    checked = every_kind_of_step()

    setattr(checked, attribute, value)

    assert not validate_workflow(checked).ok


def test_a_condition_that_contains_itself_is_reported() -> None:
    checked = every_kind_of_step()
    step = checked.nodes[1]
    assert isinstance(step, ConditionNode)
    knot = NotCondition.model_validate({"op": "not", "arg": {"op": "exists", "path": "input.value"}})

    knot.arg = knot
    step.check = knot

    assert [(issue.code.value, issue.path) for issue in validate_workflow(checked).errors] == [
        ("malformed_model", "nodes[1].check")
    ]
