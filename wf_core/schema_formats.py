"""Formats of JSON Schema: which are checked, which only say what a value is meant for, and which nobody knows.

The library checks a format it knows and takes any other one silently, so that a misspelt name would admit everything.
Here a name that is unknown is a mistake of the schema.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias, cast

from jsonschema import FormatChecker
from jsonschema.validators import Draft202012Validator, validator_for
from rfc3986_validator import validate_rfc3986  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]

Place: TypeAlias = tuple[str | int, ...]

MEANT_ONLY: Final = frozenset(
    {
        *("binary", "byte", "double", "float", "password"),
        *(
            "base64url",
            "color",
            "directory-path",
            "file-path",
            "fraction",
            "json-string",
            "multi-host-uri",
            "name-email",
        ),
        *("path", "zoneinfo"),
        *("ipv4interface", "ipv4network", "ipv6interface", "ipv6network"),
        *("ipvanyaddress", "ipvanyinterface", "ipvanynetwork"),
        *(f"uuid{version}" for version in range(1, 9)),
    }
)
"""What OpenAPI and Pydantic write beside a type that says all there is to check, or that Pydantic checks itself."""

_MANY_LINES: Final = frozenset({"regex", "json-pointer", "relative-json-pointer"})
_ONE_SCHEMA: Final = frozenset(
    {
        *("additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not"),
        *("propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"),
    }
)
_SCHEMA_LISTS: Final = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})
_SCHEMA_MAPS: Final = frozenset(
    {"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"}
)


@functools.cache
def format_checker(dialect: Any) -> FormatChecker:
    """The checks of a validator class: its own, what Draft 2020-12 has beyond them, and a few that no dialect has."""
    known: dict[str, Any] = {**Draft202012Validator.FORMAT_CHECKER.checkers, **dialect.FORMAT_CHECKER.checkers}
    ours: dict[str, Any] = {
        "iri": (functools.partial(_is_iri, "URI"), ()),
        "iri-reference": (functools.partial(_is_iri, "URI_reference"), ()),
        "int32": (functools.partial(_has_bits, 32), ()),
        "int64": (functools.partial(_has_bits, 64), ()),
    }
    checker: Any = FormatChecker(formats=())
    checker.checkers = {
        name: (check if name in _MANY_LINES else _one_line(check), raised)
        for name, (check, raised) in {**known, **ours}.items()
    }
    return checker


def unknown_formats(schema: Mapping[str, Any]) -> Iterator[tuple[Place, str]]:
    """Every format that nobody knows, with the place of its keyword in the schema."""
    checked = format_checker(validator_for(schema, default=Draft202012Validator)).checkers
    waiting: list[tuple[Place, object]] = [((), schema)]
    while waiting:
        place, found = waiting.pop()
        if not isinstance(found, dict):
            continue
        keywords = cast("dict[str, object]", found)
        name = keywords.get("format")
        if isinstance(name, str) and name not in checked and name not in MEANT_ONLY:
            yield (*place, "format"), name
        waiting += reversed(list(_below(place, keywords)))


def known_formats() -> list[str]:
    """The formats that are checked without a ``$schema``."""
    return sorted(format_checker(Draft202012Validator).checkers)


def _below(place: Place, keywords: Mapping[str, object]) -> Iterator[tuple[Place, object]]:
    """The subschemas right below one. What stands in ``const``, ``enum``, ``default`` and the like is data."""
    for keyword, value in keywords.items():
        if keyword in _SCHEMA_MAPS and isinstance(value, dict):
            for name, schema in cast("dict[str, object]", value).items():
                yield (*place, keyword, name), schema
        elif keyword in _SCHEMA_LISTS and isinstance(value, list):
            for index, schema in enumerate(cast("list[object]", value)):
                yield (*place, keyword, index), schema
        elif keyword in _ONE_SCHEMA:
            yield (*place, keyword), value


def _one_line(check: Callable[[object], bool]) -> Callable[[object], bool]:
    """Some checks of the library let a newline at the end pass, as ``$`` does in a pattern."""
    return lambda value: not (isinstance(value, str) and value.endswith("\n")) and check(value)


def _is_iri(rule: str, value: object) -> bool:
    """Whether the URI that an IRI stands for (RFC 3987, 3.1: every further character as its UTF-8) is one."""
    if not isinstance(value, str):
        return True
    if any("\x7f" <= c < "\xa0" or (c > "\x7f" and not c.isprintable()) for c in value):
        return False
    as_uri = "".join(c if c < "\x80" else "".join(f"%{byte:02X}" for byte in c.encode()) for c in value)
    return validate_rfc3986(as_uri, rule=rule) is not None


def _has_bits(bits: int, value: object) -> bool:
    return type(value) is not int or -(2 ** (bits - 1)) <= value < 2 ** (bits - 1)
