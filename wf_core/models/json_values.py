"""JSON values: the type, and the check for data that must stay exactly what it is when it is stored and read again."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias, cast

from pydantic import Field, PlainValidator
from typing_extensions import TypeAliasType

from wf_core.toml_keys import shown_place

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


MAX_JSON_DEPTH: Final = 256
"""Lists and objects inside one another."""

MAX_INTEGER_CHARS: Final = 4300
"""Digits of an integer, and its sign: what Python and our JSON library read again from text."""

_LARGEST: Final = 10**MAX_INTEGER_CHARS
_SMALLEST: Final = -(10 ** (MAX_INTEGER_CHARS - 1))


def validate_strict_json_value(value: object) -> JsonValue:
    """The value, rebuilt from plain lists and dicts; nothing is converted and what is not JSON raises ``ValueError``.

    NaN, infinities, tuples, sets, decimals, other mappings and sequences, keys that are not strings, lone surrogates,
    nesting deeper than :data:`MAX_JSON_DEPTH`: all refused, with the place in the value (``scores[1]``).
    """
    try:
        return _rebuilt(value, MAX_JSON_DEPTH)
    except _NotJson as error:
        place = shown_place(reversed(error.place))
        raise ValueError(f"{place}: {error.reason}" if place else error.reason) from None


class _NotJson(Exception):
    """``place`` grows while the error leaves the value: innermost step first."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.place: list[str | int] = []


def _rebuilt(value: object, depth: int) -> JsonValue:
    kind = type(value)
    if value is None or kind is bool:
        return cast("JsonValue", value)
    if kind is int:
        if not _SMALLEST < cast(int, value) < _LARGEST:
            raise _NotJson(f"an integer of more than {MAX_INTEGER_CHARS} characters cannot be stored")
        return cast(int, value)
    if kind is str:
        return _text(cast(str, value))
    if kind is float:
        if not isfinite(cast(float, value)):
            raise _NotJson(f"{value} is not a JSON number: it must be finite")
        return cast(float, value)
    if depth == 0:
        raise _NotJson(f"nested too deeply: more than {MAX_JSON_DEPTH} levels, or the value contains itself")
    if isinstance(value, list):
        items: list[JsonValue] = []
        for index, item in enumerate(cast("list[object]", value)):
            try:
                items.append(_rebuilt(item, depth - 1))
            except _NotJson as error:
                error.place.append(index)
                raise
        return items
    if isinstance(value, dict):
        fields: dict[str, JsonValue] = {}
        for key, item in cast("dict[object, object]", value).items():
            if not isinstance(key, str):
                raise _NotJson(f"object key {key!r} is not a string")
            try:
                fields[_text(key)] = _rebuilt(item, depth - 1)
            except _NotJson as error:
                error.place.append(key)
                raise
        return fields
    raise _NotJson(f"{kind.__name__} is not a JSON value")


def _text(text: str) -> str:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise _NotJson("text holds a lone surrogate, which is not Unicode") from None
    return text


StrictJsonValue: TypeAlias = Annotated[
    JsonValue, PlainValidator(validate_strict_json_value, json_schema_input_type=JsonValue)
]
"""A model field that takes JSON and nothing that merely resembles it."""
