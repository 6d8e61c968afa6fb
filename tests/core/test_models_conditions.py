from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from wf_core.models import (
    BinaryCondition,
    Condition,
    ExistsCondition,
    LiteralOperand,
    NotCondition,
    PathOperand,
    VariadicCondition,
)
from wf_core.paths import GraphSourcePath

conditions = TypeAdapter(Condition)


def test_conditions_nest_and_round_trip() -> None:
    raw = {
        "op": "and",
        "args": [
            {"op": "exists", "path": "state.person"},
            {"op": "not", "arg": {"op": "eq", "left": {"path": "input.mode"}, "right": {"value": None}}},
            {"op": "or", "args": [{"op": "ge", "left": {"value": 1}, "right": {"path": "context.loop_index"}}]},
        ],
    }

    condition = conditions.validate_python(raw)

    assert condition == VariadicCondition(
        op="and",
        args=[
            ExistsCondition(path=GraphSourcePath.state("person")),
            NotCondition(
                arg=BinaryCondition(
                    op="eq",
                    left=PathOperand(path=GraphSourcePath.input("mode")),
                    right=LiteralOperand(value=None),
                )
            ),
            VariadicCondition(
                op="or",
                args=[
                    BinaryCondition(
                        op="ge",
                        left=LiteralOperand(value=1),
                        right=PathOperand(path=GraphSourcePath.context("loop_index")),
                    )
                ],
            ),
        ],
    )
    assert conditions.dump_python(condition, mode="json") == raw


@pytest.mark.parametrize("op", ["eq", "ne", "gt", "ge", "lt", "le"])
def test_every_comparison_parses(op: str) -> None:
    assert conditions.validate_python({"op": op, "left": {"value": 1}, "right": {"value": 2}}).op == op


@pytest.mark.parametrize(
    "condition",
    [
        {"op": "and", "args": []},
        {"op": "or", "args": []},
        {"op": "xor", "args": [{"op": "exists", "path": "input"}]},
        {"op": "exists", "path": "output.x"},
        {"op": "exists"},
        {"op": "not"},
        {"path": "input.x"},
        {"op": "eq", "left": {"path": "input.x", "value": 1}, "right": {"value": 1}},
        {"op": "eq", "left": {"value": 1, "note": 2}, "right": {"value": 1}},
        {"op": "eq", "left": {}, "right": {"value": 1}},
        {"op": "eq", "left": 1, "right": {"value": 1}},
    ],
)
def test_malformed_conditions_are_refused(condition: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        conditions.validate_python(condition)
