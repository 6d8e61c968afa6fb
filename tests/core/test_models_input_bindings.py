from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from wf_core.models import (
    MAX_INPUT_EXPRESSION_DEPTH,
    MAX_INPUT_EXPRESSION_NODES,
    ArrayExpression,
    InputBinding,
    InputExpression,
    InputExpressionBinding,
    InputPathBinding,
    InputValueBinding,
    LiteralExpression,
    ObjectExpression,
    OutputBinding,
    PathExpression,
    StepInputBinding,
    validate_input_expression_limits,
)
from wf_core.paths import GraphSourcePath, LocalPath, StatePath

step_input = TypeAdapter(StepInputBinding)
workflow_output = TypeAdapter(InputBinding)
expressions = TypeAdapter(InputExpression)


def literal(value: object = 1) -> dict[str, object]:
    return {"kind": "literal", "value": value}


def nested_arrays(levels: int) -> dict[str, object]:
    """An expression whose innermost literal lies at the given level."""
    expression = literal()
    for _ in range(levels - 1):
        expression = {"kind": "array", "items": [expression]}
    return expression


def test_bindings_are_told_apart_by_the_key_that_is_present() -> None:
    path = step_input.validate_python({"target": "user.email", "path": "state.person.email"})
    value = step_input.validate_python({"target": "mode", "value": None})
    expression = step_input.validate_python({"target": ".", "expression": literal()})

    assert path == InputPathBinding(target=LocalPath.of("user.email"), path=GraphSourcePath.state("person.email"))
    assert value == InputValueBinding(target=LocalPath.of("mode"), value=None)
    assert expression == InputExpressionBinding(target=LocalPath.root(), expression=LiteralExpression(value=1))


def test_ready_bindings_are_taken_as_they_are() -> None:
    for binding in (
        InputPathBinding(target=LocalPath.of("a"), path=GraphSourcePath.input()),
        InputValueBinding(target=LocalPath.of("a"), value=[1]),
        InputExpressionBinding(target=LocalPath.of("a"), expression=PathExpression(path=GraphSourcePath.input("x"))),
    ):
        assert step_input.validate_python(binding) == binding


@pytest.mark.parametrize(
    "binding",
    [
        {"target": "a"},
        {"target": "a", "path": "input.x", "value": 1},
        {"target": "a", "value": 1, "expression": literal()},
        {"target": "a", "path": "input.x", "expression": literal()},
    ],
)
def test_none_or_several_of_the_telling_keys_are_refused(binding: dict[str, object]) -> None:
    for adapter in (step_input, workflow_output):
        with pytest.raises(ValidationError, match="exactly one of these keys"):
            adapter.validate_python(binding)


@pytest.mark.parametrize(
    "binding",
    [
        {"target": "a", "path": "input.x", "note": 1},
        {"target": "a", "value": 1, "note": 1},
        {"target": "a", "expression": literal(), "note": 1},
        {"path": "input.x"},
        {"target": "", "value": 1},
        {"target": "a", "path": "output.x"},
        {"target": "a", "value": (1, 2)},
        {"target": "a", "value": float("nan")},
        {"target": "a", "expression": {"kind": "unknown"}},
        {"target": "a", "expression": {"value": 1}},
        {"target": "a", "expression": {"kind": "literal", "value": 1, "note": 1}},
        {"target": "a", "expression": {"kind": "literal", "value": {1, 2}}},
        {"target": "a", "expression": {"kind": "array", "items": ({"kind": "literal", "value": 1},)}},
        {"target": "a", "expression": {"kind": "array", "items": None}},
        {"target": "a", "expression": {"kind": "path", "path": "nowhere"}},
        "a = input.x",
        None,
    ],
)
def test_malformed_bindings_are_refused(binding: object) -> None:
    with pytest.raises(ValidationError):
        step_input.validate_python(binding)


def test_the_workflow_output_takes_no_expressions() -> None:
    with pytest.raises(ValidationError):
        workflow_output.validate_python({"target": "a", "expression": literal()})


def test_expressions_nest_and_round_trip() -> None:
    raw = {
        "target": "order",
        "expression": {
            "kind": "object",
            "fields": {
                "id": {"kind": "path", "path": 'context.foreach."orders.v2".item.id'},
                "tags": {"kind": "array", "items": [literal("auto"), literal(None), literal({"deep": [1.5, True]})]},
            },
        },
    }

    binding = step_input.validate_python(raw)

    assert isinstance(binding, InputExpressionBinding)
    assert isinstance(binding.expression, ObjectExpression)
    assert list(binding.expression.fields) == ["id", "tags"]
    assert binding.model_dump(mode="json") == raw
    assert step_input.validate_json(binding.model_dump_json()) == binding


def test_an_expression_may_reach_the_depth_limit_and_no_further() -> None:
    step_input.validate_python({"target": "a", "expression": nested_arrays(MAX_INPUT_EXPRESSION_DEPTH)})

    with pytest.raises(ValidationError, match="depth"):
        step_input.validate_python({"target": "a", "expression": nested_arrays(MAX_INPUT_EXPRESSION_DEPTH + 1)})


def test_containers_inside_a_literal_count_levels_and_nodes() -> None:
    validate_input_expression_limits(literal([[1]]), max_depth=3, max_nodes=3)

    with pytest.raises(ValueError, match="depth"):
        validate_input_expression_limits(literal([[1]]), max_depth=2)
    with pytest.raises(ValueError, match="node"):
        validate_input_expression_limits(literal([[1]]), max_nodes=2)


def test_scalars_inside_a_literal_count_nothing() -> None:
    validate_input_expression_limits(literal(list(range(5000))), max_depth=2, max_nodes=2)


def test_an_expression_may_reach_the_node_limit_and_no_further() -> None:
    items = [literal() for _ in range(MAX_INPUT_EXPRESSION_NODES - 1)]
    step_input.validate_python({"target": "a", "expression": {"kind": "array", "items": items}})

    with pytest.raises(ValidationError, match="node"):
        step_input.validate_python({"target": "a", "expression": {"kind": "array", "items": [*items, literal()]}})


def test_object_fields_count_like_array_items() -> None:
    tree = {"kind": "object", "fields": {"a": {"kind": "object", "fields": {"b": literal({})}}}}

    validate_input_expression_limits(tree, max_depth=4, max_nodes=4)
    with pytest.raises(ValueError, match="depth"):
        validate_input_expression_limits(tree, max_depth=3)
    with pytest.raises(ValueError, match="node"):
        validate_input_expression_limits(tree, max_nodes=3)


def test_ready_models_are_held_to_the_limits_too() -> None:
    many = ArrayExpression(items=[LiteralExpression(value=n) for n in range(MAX_INPUT_EXPRESSION_NODES)])
    mixed = {"kind": "array", "items": [expressions.validate_python(nested_arrays(MAX_INPUT_EXPRESSION_DEPTH))]}

    with pytest.raises(ValidationError, match="node"):
        InputExpressionBinding(target=LocalPath.of("a"), expression=many)
    with pytest.raises(ValidationError, match="depth"):
        step_input.validate_python({"target": "a", "expression": mixed})


def test_a_tree_that_contains_itself_is_refused() -> None:
    endless: dict[str, object] = {"kind": "array"}
    endless["items"] = [endless]

    with pytest.raises(ValueError, match=r"depth|node"):
        validate_input_expression_limits(endless)


def test_output_bindings_read_a_payload_and_write_the_state() -> None:
    binding = OutputBinding.model_validate({"source": ".", "target": "state.result"})

    assert (binding.source, binding.target) == (LocalPath.root(), StatePath.of("result"))
    assert binding.model_dump() == {"source": ".", "target": "state.result"}


@pytest.mark.parametrize(
    "binding",
    [
        {"source": ".", "target": "state"},
        {"source": ".", "target": "input.x"},
        {"source": "", "target": "state.x"},
        {"source": "a", "target": "state.x", "note": 1},
        {"source": "a"},
    ],
)
def test_malformed_output_bindings_are_refused(binding: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        OutputBinding.model_validate(binding)


@pytest.mark.parametrize(
    ("model", "field", "phrase"),
    [
        (InputPathBinding, "target", "whole node input payload"),
        (InputPathBinding, "path", "input, state, or context"),
        (InputValueBinding, "target", "whole node input payload"),
        (InputValueBinding, "value", "Literal JSON-compatible value"),
        (OutputBinding, "source", "whole node output payload"),
        (OutputBinding, "target", "Bare state is invalid"),
    ],
)
def test_field_descriptions_explain_the_path_kinds(model: type, field: str, phrase: str) -> None:
    assert phrase in model.model_json_schema()["properties"][field]["description"]


def test_the_published_schema_requires_the_kind_of_an_expression() -> None:
    schema = InputExpressionBinding.model_json_schema()

    for name in ("LiteralExpression", "PathExpression", "ArrayExpression", "ObjectExpression"):
        assert "kind" in schema["$defs"][name]["required"]
