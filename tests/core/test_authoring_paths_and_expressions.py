from __future__ import annotations

from typing import Any

import pytest

import wf_core.authoring as dsl
from wf_core.authoring import (
    context,
    context_path,
    eq,
    exists,
    expr,
    graph_path,
    input_expression,
    input_from,
    input_path,
    input_value,
    le,
    not_,
    output_to,
    state,
    state_path,
)
from wf_core.conditions import eval_condition
from wf_core.errors import WorkflowExecutionError
from wf_core.models import ForeachNode, InputPathBinding
from wf_core.paths import GraphSourcePath, LocalPath, StatePath


def orders(step_id: str = "orders") -> ForeachNode:
    return ForeachNode(id=step_id, over=input_path("orders"), as_="order")


def holds(condition: dsl.Expr, values: dict[str, Any]) -> bool:
    return eval_condition(condition.condition, values, {}, {})


# --- Path helpers ---


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (input_path(), "input"),
        (state_path("order.total"), "state.order.total"),
        (state_path('"orders.v2".total'), 'state."orders.v2".total'),
        (state_path("orders.v2", "total"), 'state."orders.v2".total'),
        (state_path(["orders.v2"]), 'state."orders.v2"'),
        (context_path("loop_index"), "context.loop_index"),
        (graph_path("input.a"), "input.a"),
        (state_path(StatePath(("total",))), "state.total"),
        (input_path(input_path("a")), "input.a"),
    ],
)
def test_one_string_is_a_key_expression_and_several_are_literal_segments(path: GraphSourcePath, text: str) -> None:
    assert str(path) == text


def test_segments_cannot_be_added_to_a_finished_path() -> None:
    with pytest.raises(TypeError, match=r"state\.order"):
        state_path(state_path("order"), "total")


def test_a_finished_path_of_another_root_is_refused() -> None:
    with pytest.raises(ValueError, match=r"input\.order"):
        state_path(input_path("order"))


@pytest.mark.parametrize("value", [42, None])
def test_a_value_that_is_no_path_is_refused_with_the_value(value: Any) -> None:
    with pytest.raises(TypeError, match=str(value)):
        state_path(value)
    with pytest.raises(TypeError, match=str(value)):
        exists(value)
    with pytest.raises(TypeError, match=str(value)):
        input_from(value, "x")
    with pytest.raises(TypeError, match=str(value)):
        output_to("x", value)


# --- Conditions ---


def test_a_comparison_compiles_to_a_core_condition() -> None:
    assert (state("total") > 5).condition.model_dump(mode="json") == {
        "op": "gt",
        "left": {"path": "state.total"},
        "right": {"value": 5},
    }


def test_methods_operators_and_functions_build_the_same_conditions() -> None:
    total = state("total")

    assert total.eq(1) == (total == 1) == eq(total, 1)
    assert total.ne(1) == (total != 1) == dsl.ne(total, 1)
    assert total.gt(1) == (total > 1) == dsl.gt(total, 1)
    assert total.ge(1) == (total >= 1) == dsl.ge(total, 1)
    assert total.lt(1) == (total < 1) == dsl.lt(total, 1)
    assert total.le(1) == (total <= 1) == le(total, 1)
    assert total.exists() == exists(total) == exists("state.total")


def test_path_objects_are_read_and_everything_else_is_a_literal() -> None:
    assert eq(orders().item, "state.total").condition.model_dump(mode="json") == {
        "op": "eq",
        "left": {"path": "context.foreach.orders.item"},
        "right": {"value": "state.total"},
    }
    right = (dsl.input("a") == state_path("b")).condition.model_dump(mode="json")["right"]
    assert right == {"path": "state.b"}


def test_a_literal_on_the_left_turns_the_comparison_around() -> None:
    assert (5 < state("total")) == (state("total") > 5)  # noqa: SIM300  # the order is what is tested


def test_expressions_combine_and_chains_stay_flat() -> None:
    condition = (exists("state.a") & exists("state.b") & exists("state.c")) | ~exists("state.d")

    assert condition.condition.model_dump(mode="json") == {
        "op": "or",
        "args": [
            {"op": "and", "args": [{"op": "exists", "path": f"state.{name}"} for name in "abc"]},
            {"op": "not", "arg": {"op": "exists", "path": "state.d"}},
        ],
    }
    assert not_(exists("state.d")) == ~exists("state.d")


def test_python_truth_is_refused_because_it_would_lose_a_part() -> None:
    with pytest.raises(TypeError, match="&"):
        state("a") == 1 and state("b") == 2
    with pytest.raises(TypeError, match="&"):
        bool(1 < state("a") < 5)


def test_a_present_null_exists_and_a_missing_path_cannot_be_compared() -> None:
    assert holds(state("a").exists(), {"a": None})
    assert not holds(state("a").exists(), {})
    assert holds(state("a") == None, {"a": None})  # noqa: E711  # the operator is what is tested
    with pytest.raises(WorkflowExecutionError, match=r"state\.a"):
        holds(state("a") == 1, {})


@pytest.mark.parametrize("value", [object(), (1, 2), float("nan")])
def test_a_literal_that_is_not_json_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match="unsupported literal"):
        state("a").eq(value)
    with pytest.raises(TypeError, match="unsupported literal"):
        input_value("a", value)


def test_expr_takes_any_form_of_a_path() -> None:
    forms = ["state.total", state_path("total"), StatePath(("total",)), {"root": "state", "parts": ["total"]}]

    assert {str(expr(form).path) for form in forms} == {"state.total"}
    assert context("loop_index").path == context_path("loop_index")


# --- Bindings ---


@pytest.mark.parametrize(
    "path",
    ["state.total", state_path("total"), state("total"), StatePath(("total",)), {"root": "state", "parts": ["total"]}],
)
def test_an_input_binding_takes_any_form_of_a_path(path: Any) -> None:
    assert input_from(path, "order.total") == InputPathBinding(
        target=LocalPath(("order", "total")), path=GraphSourcePath("state", ("total",))
    )


@pytest.mark.parametrize(
    "target", ["receipts", "state.receipts", state_path("receipts"), state("receipts"), StatePath(("receipts",))]
)
def test_an_output_binding_takes_any_form_of_a_state_field(target: Any) -> None:
    assert output_to(".", target).model_dump(mode="json") == {"source": ".", "target": "state.receipts"}


@pytest.mark.parametrize(
    "target", ["state", state_path(), input_path("a"), context_path("a"), "input.a", "context.a.b"]
)
def test_an_output_cannot_be_written_outside_the_state(target: Any) -> None:
    with pytest.raises(ValueError, match="state"):
        output_to("x", target)


def test_null_is_a_literal_value() -> None:
    assert input_value("x", None).model_dump(mode="json") == {"target": "x", "value": None}


def test_an_expression_may_hold_path_objects() -> None:
    binding = input_expression(
        "lines",
        {
            "kind": "array",
            "items": [
                {"kind": "path", "path": orders().item},
                {"kind": "object", "fields": {"total": {"kind": "path", "path": state("total")}}},
                {"kind": "literal", "value": {"kind": "path", "path": "untouched"}},
            ],
        },
    )

    assert binding.model_dump(mode="json")["expression"] == {
        "kind": "array",
        "items": [
            {"kind": "path", "path": "context.foreach.orders.item"},
            {"kind": "object", "fields": {"total": {"kind": "path", "path": "state.total"}}},
            {"kind": "literal", "value": {"kind": "path", "path": "untouched"}},
        ],
    }


def test_an_expression_without_end_is_refused_by_its_limit() -> None:
    endless: dict[str, Any] = {"kind": "array", "items": []}
    endless["items"].append(endless)

    with pytest.raises(ValueError, match="depth"):
        input_expression("x", endless)
