from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from wf_core.authoring import END, NoOutput, WorkflowBuilder, exists, expr, input_path, node, outcome, state
from wf_core.errors import WorkflowExecutionError
from wf_core.models import ConditionNode, NodeUse

ANY_OBJECT = {"type": "object", "properties": {"kind": {}, "total": {}, "items": {"type": "array"}, "taken": {}}}


class Empty(BaseModel):
    pass


class Taken(BaseModel):
    taken: str


@node(name="a")
def take_a(payload: Empty) -> Taken:
    return Taken(taken="a")


@node(name="b")
def take_b(payload: Empty) -> Taken:
    return Taken(taken="b")


def builder() -> WorkflowBuilder:
    return WorkflowBuilder("decide", ANY_OBJECT, ANY_OBJECT, {"type": "object", "properties": {"taken": {}}})


def routes(g: WorkflowBuilder) -> list[str]:
    return [f"{edge.from_}.{edge.outcome} -> {edge.to}" for edge in g.compile().edges]


def taken(g: WorkflowBuilder, **values: Any) -> object:
    g.validate_local().raise_for_errors()
    return g.execute(values).output.get("taken")


def ended(g: WorkflowBuilder, *steps: NodeUse) -> None:
    for step in steps:
        g.set_route(step, "ok", END)


def test_when_leads_two_ways() -> None:
    g = builder()
    a, b = g.use(take_a), g.use(take_b)
    decision = g.when(state("total") > 5, then=a, otherwise=b)
    g.set_entry_point(decision.entry)
    ended(g, a, b)

    assert (decision[True], decision[False]) == (a, b)
    assert list(decision.targets) == [True, False]
    assert (taken(g, total=6), taken(g, total=5)) == ("a", "b")


def test_choose_takes_the_first_case_that_holds() -> None:
    g = builder()
    a, b = g.use(take_a), g.use(take_b)
    decision = g.choose(
        (state("total") > 10, a), (state("total") > 5, b), (exists("state.total"), a), default=END, id="size"
    )
    g.set_entry_point(decision.entry)
    ended(g, a, b)

    assert [condition.id for condition in decision.conditions] == ["size", "size_2", "size_3"]
    assert (decision[0], decision[1], decision["default"]) == (a, b, END)
    assert routes(g)[:6] == [
        "size.true -> a",
        "size.false -> size_2",
        "size_2.true -> b",
        "size_2.false -> size_3",
        "size_3.true -> a",
        "size_3.false -> __end__",
    ]
    assert [taken(g, total=total) for total in (11, 6, 1)] == ["a", "b", "a"]


def test_match_takes_the_first_value_that_is_equal() -> None:
    g = builder()
    a, b = g.use(take_a), g.use(take_b)
    decision = g.match(state("kind"), {"card": a, "cash": b}, default=a)
    g.set_entry_point(decision.entry)
    ended(g, a, b)

    assert [condition.id for condition in decision.conditions] == ["state_kind", "state_kind_2"]
    assert (decision["card"], decision["cash"], decision["default"]) == (a, b, a)
    assert [taken(g, kind=kind) for kind in ("card", "cash", "cheque")] == ["a", "b", "a"]


def test_match_takes_pairs_that_a_dict_would_merge_or_refuse() -> None:
    g = builder()
    a, b = g.use(take_a), g.use(take_b)
    decision = g.match("state.kind", [([1, 2], a), (1, b), (True, a), ({"x": None}, b)], default=END)
    g.set_entry_point(decision.entry)
    ended(g, a, b)

    assert (decision[[1, 2]], decision[1], decision[True], decision[{"x": None}]) == (a, b, a, b)
    assert len(decision.targets) == 5 and 1.0 not in decision.targets
    assert taken(g, kind=[1, 2]) == "a"
    assert taken(g, kind=True) == "b"


def test_a_case_with_the_value_default_does_not_hide_the_fallback() -> None:
    g = builder()
    a, b = g.use(take_a), g.use(take_b)

    decision = g.match(state("kind"), {"default": a}, default=b)

    assert (decision["default"], decision.fallback) == (a, b)


def test_a_capability_named_as_a_target_becomes_a_step() -> None:
    g = builder()
    decision = g.when(exists(input_path("kind")), then=take_a, otherwise=take_b)
    g.set_entry_point(decision.entry)
    for target in decision.targets.values():
        g.set_route(target, "ok", END)

    assert [step.id for step in g.compile().nodes] == ["input_kind", "a", "b"]
    assert (taken(g, kind=1), taken(g)) == ("a", "b")


@pytest.mark.parametrize("shape", ["when", "choose", "match"])
def test_a_decision_without_a_way_on_fails_instead_of_ending_well(shape: str) -> None:
    g = builder()
    a = g.use(take_a)
    decision = {
        "when": lambda: g.when(state("kind") == "card", then=a, id="pay"),
        "choose": lambda: g.choose((state("kind") == "card", a), id="pay"),
        "match": lambda: g.match(state("kind"), {"card": a}, id="pay"),
    }[shape]()
    g.set_entry_point(decision.entry)
    ended(g, a)

    assert taken(g, kind="card") == "a"
    with pytest.raises(WorkflowExecutionError, match="'pay'") as failure:
        g.execute({"kind": "cash"})
    assert failure.value.code == "runtime_error"
    assert isinstance(decision.fallback, NodeUse) and decision.fallback.node == "wf.std.runtime_error"


def test_two_decisions_without_a_way_on_share_one_definition() -> None:
    g = builder()
    a = g.use(take_a)
    second = g.when(exists("state.kind"), then=a)
    first = g.when(exists("state.total"), then=second.entry)
    g.set_entry_point(first.entry)
    ended(g, a)

    g.validate_local().raise_for_errors()
    assert [definition.name for definition in g.compile().node_defs].count("wf.std.runtime_error") == 1


def test_a_decision_in_a_loop_body_leads_back_to_the_loop() -> None:
    g = builder()
    loop = g.foreach(id="each", over="input.items", as_="item")
    a = g.use(take_a)
    decision = g.when(expr(loop.item) == "card", then=a, otherwise=loop)
    g.set_entry_point(loop)
    g.branch(loop, {"loop": decision.entry, "done": END})
    g.set_route(a, "ok", loop)

    assert taken(g, items=["cash", "card"]) == "a"
    assert decision.entry.id == "context_foreach_each_item"


def test_a_decision_without_cases_is_refused() -> None:
    with pytest.raises(ValueError, match="case"):
        builder().choose(default=END)
    with pytest.raises(ValueError, match="case"):
        builder().match(state("kind"), {}, default=END)


def test_a_plain_condition_takes_json_with_path_objects_inside() -> None:
    g = builder()

    step = g.condition(check={"op": "not", "arg": {"op": "eq", "left": {"path": state("kind")}, "right": {"value": 1}}})

    assert step == ConditionNode(id="state_kind", check=(~(state("kind") == 1)).condition)


def test_a_condition_without_paths_has_a_plain_id() -> None:
    g = builder()

    assert g.condition(check={"op": "eq", "left": {"value": 1}, "right": {"value": 1}}).id == "condition"


@pytest.mark.parametrize("check", [True, "state.kind", None, state("kind")])
def test_what_is_no_condition_is_refused(check: Any) -> None:
    with pytest.raises(TypeError, match="unsupported condition"):
        builder().condition(check=check)


@node(outcomes=["yes", "no"])
def ask(payload: Empty) -> NoOutput:
    return outcome("no")


def test_a_branch_routes_the_outcomes_of_one_step() -> None:
    g = builder()
    asked, b = g.use(ask), g.use(take_b)
    g.set_entry_point(asked)
    result = g.branch(asked, {"yes": END, "no": b})
    ended(g, b)

    assert (result.source, result["yes"], result["no"]) == (asked, END, b)
    assert taken(g) == "b"


def test_handle_routes_several_outcomes_to_one_step() -> None:
    g = builder()
    asked = g.use(ask)
    g.set_entry_point(asked)
    result = g.handle((asked, "yes"), (asked, "no"), to=take_b)
    g.set_route(result.target, "ok", END)

    assert isinstance(result.target, NodeUse) and result.branches == ((asked, "yes"), (asked, "no"))
    assert taken(g) == "b"
    assert len([step for step in g.compile().nodes if step.id.startswith("b")]) == 1


def test_an_empty_branch_and_an_empty_handle_are_refused() -> None:
    g = builder()
    with pytest.raises(ValueError, match="outcome"):
        g.branch("somewhere", {})
    with pytest.raises(ValueError, match="outcome"):
        g.handle(to=END)
