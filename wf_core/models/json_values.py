"""JSON values: the type, and the check for data that must stay exactly what it is when it is stored and read again."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Annotated, TypeAlias, cast

from pydantic import Field, PlainValidator
from typing_extensions import TypeAliasType

FiniteFloat: TypeAlias = Annotated[float, Field(allow_inf_nan=False)]

# The order of the members is the order of the published schema. A named alias, so that it is published once.
if TYPE_CHECKING:  # basedpyright loses the recursion of the other form in the modules that import it
    JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
else:
    JsonValue = TypeAliasType(
        "JsonValue",
        "bool | int | FiniteFloat | str | list[JsonValue] | dict[str, JsonValue] | None",
    )
"""Any JSON value: null, bool, int, finite float, str, list, or dict with string keys."""


def validate_strict_json_value(value: object) -> JsonValue:
    """The value, rebuilt from plain lists and dicts; nothing is converted and what is not JSON raises ``ValueError``.

    NaN, infinities, tuples, sets, decimals, other mappings and sequences, keys that are not strings: all refused.
    """
    try:
        return _rebuilt(value)
    except RecursionError:
        raise ValueError("JSON value is nested too deeply or contains itself") from None


def _rebuilt(value: object) -> JsonValue:
    if value is None or type(value) in (bool, int, str):
        return cast("JsonValue", value)
    if type(value) is float:
        if not isfinite(value):
            raise ValueError(f"{value} is not a JSON number: it must be finite")
        return value
    if isinstance(value, list):
        return [_rebuilt(item) for item in cast("list[object]", value)]
    if isinstance(value, dict):
        fields: dict[str, JsonValue] = {}
        for key, item in cast("dict[object, object]", value).items():
            if not isinstance(key, str):
                raise ValueError(f"object key {key!r} is not a string")
            fields[key] = _rebuilt(item)
        return fields
    raise ValueError(f"{type(value).__name__} is not a JSON value")


StrictJsonValue: TypeAlias = Annotated[
    JsonValue, PlainValidator(validate_strict_json_value, json_schema_input_type=JsonValue)
]
"""A model field that takes JSON and nothing that merely resembles it."""
