from __future__ import annotations

from collections import OrderedDict, UserDict, deque
from decimal import Decimal
from enum import IntEnum, StrEnum
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from wf_core.models import JsonValue, validate_strict_json_value

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


class Word(StrEnum):
    ONE = "one"


class Number(IntEnum):
    ONE = 1


@given(json_values)
def test_json_passes_unchanged(value: JsonValue) -> None:
    assert validate_strict_json_value(value) == value


def test_the_result_is_rebuilt_from_plain_lists_and_dicts() -> None:
    value = {"list": [1], "ordered": OrderedDict(a=1)}

    rebuilt = validate_strict_json_value(value)

    assert rebuilt == value
    assert rebuilt["list"] is not value["list"]
    assert type(rebuilt["ordered"]) is dict


def test_booleans_and_floats_keep_their_type() -> None:
    assert validate_strict_json_value(True) is True
    assert type(validate_strict_json_value(1.0)) is float


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        float("-inf"),
        (1, 2),
        {1, 2},
        frozenset(),
        Decimal("1"),
        b"bytes",
        deque([1]),
        UserDict(a=1),
        MappingProxyType({"a": 1}),
        {1: "a"},
        {None: "a"},
        object(),
        Word.ONE,
        Number.ONE,
    ],
)
def test_what_only_resembles_json_is_refused_at_any_depth(value: object) -> None:
    for nested in (value, [value], {"a": [value]}):
        with pytest.raises(ValueError):
            validate_strict_json_value(nested)


def test_a_value_that_contains_itself_is_refused() -> None:
    endless: list[object] = []
    endless.append(endless)

    with pytest.raises(ValueError, match="contains itself"):
        validate_strict_json_value(endless)


def test_the_published_definition_is_named_and_recursive() -> None:
    schema = TypeAdapter(JsonValue).json_schema()

    members = schema["$defs"]["JsonValue"]["anyOf"]
    assert [member["type"] for member in members] == [
        "boolean",
        "integer",
        "number",
        "string",
        "array",
        "object",
        "null",
    ]
    assert members[4]["items"] == members[5]["additionalProperties"] == {"$ref": "#/$defs/JsonValue"}


def test_numbers_must_be_finite_in_any_field_of_the_type() -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(JsonValue).validate_python({"a": float("nan")})
    assert TypeAdapter(JsonValue).validate_python([True, 1, 1.0]) == [True, 1, 1.0]
