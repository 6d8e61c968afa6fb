"""What pydantic says about data, as issues of our own shape. Values of the caller are never repeated."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any, Final, cast

from pydantic import BaseModel, ValidationError
from typing_extensions import TypedDict

from wf_api.strict_json import shown_path
from wf_core.errors import WfError


class Issue(TypedDict):
    """One mistake: a code, the place, a sentence, the repair."""

    code: str
    path: str
    message: str
    hint: str


_CODES: Final = {"extra_forbidden": "unknown_field", "missing": "missing_field"}
_MESSAGES: Final = {"extra_forbidden": "there is no such field", "missing": "this field is required"}
_HINTS: Final = {
    "extra_forbidden": "remove it, or look for a typing mistake in its name",
    "missing": "add it",
}
_OTHERWISE: Final = "set it to a value of its declared type"


def issues_of(error: ValidationError, data: object, *, code: str = "malformed_model") -> list[Issue]:
    """Every mistake, each place once, in the order of the document."""
    issues: dict[tuple[str, str], Issue] = {}
    for item in error.errors(include_url=False, include_input=False):
        kind = item["type"]
        path = shown_path(real_place(item["loc"], data))
        cause = item.get("ctx", {}).get("error")
        known = cause if isinstance(cause, WfError) else None
        message = _MESSAGES.get(kind) or (known.message if known else item["msg"].removeprefix("Value error, "))
        hint = _HINTS.get(kind) or (known.hint if known and known.hint else _OTHERWISE)
        issue: Issue = {"code": _CODES.get(kind, code), "path": path, "message": message, "hint": hint}
        issues.setdefault((path, message), issue)
    return list(issues.values())


def real_place(loc: tuple[int | str, ...], data: object) -> tuple[int | str, ...]:
    """The location without the names of union members, which pydantic puts between keys of the data."""
    place: list[int | str] = []
    current: Any = data
    for i, part in enumerate(loc):
        if _leads_on(current, part, loc[i + 1 :]):
            current = current[part]
        elif not (i == len(loc) - 1 and isinstance(current, dict) and isinstance(part, str)):
            continue
        place.append(part)
    return tuple(place)


def _leads_on(current: Any, part: int | str, rest: tuple[int | str, ...]) -> bool:
    """Whether the part is a key on the way, and not the name of a union member that is spelled like a key."""
    if not _holds(current, part):
        return False
    if not rest:
        return True
    child = current[part]
    if not isinstance(child, dict | list):
        return False
    return _holds(child, rest[0]) or not _holds(current, rest[0])


def _holds(value: object, part: int | str) -> bool:
    if isinstance(value, dict):
        return part in value
    return isinstance(value, list) and isinstance(part, int) and 0 <= part < len(value)


def unknown_fields(model: type[BaseModel], data: object) -> list[Issue]:
    """Every key of the data that no model takes, also where the models ignore such keys silently.

    What counts is how pydantic reads the data: fields and aliases, validators that fold other shapes into them, unions
    by their tags. Models that keep further keys may have any. Parts that cannot be read are left to the validation.
    """
    issues: list[Issue] = []
    named = _named_schemas(model)
    # A stack of our own: a document may be nested more deeply than Python likes to call.
    pending: list[tuple[Any, Any, tuple[int | str, ...], str]] = [(model.__pydantic_core_schema__, data, (), "ignore")]
    while pending:
        schema, value, place, extra = pending.pop()
        kind = schema["type"]
        if kind == "model":
            extra = schema.get("config", {}).get("extra_fields_behavior", "ignore")
        if kind == "definition-ref":
            pending.append((named[schema["schema_ref"]], value, place, extra))
        elif kind == "function-before":
            folded = _folded(schema["function"], value)
            if folded is not None:
                pending.append((schema["schema"], folded, place, extra))
        elif kind == "model-fields":
            if isinstance(value, dict):
                children, unknown = _split(schema["fields"], cast("dict[str, Any]", value))
                pending += [(child, value[key], (*place, key), "ignore") for key, child in reversed(children.items())]
                if schema.get("extra_behavior", extra) != "allow":
                    issues += [_unknown(key, place, list(children) + _names(schema["fields"])) for key in unknown]
        elif kind == "tagged-union":
            member = _member(schema, value)
            if member is not None:
                pending.append((member, value, place, extra))
        elif kind == "list" and isinstance(value, list) and "items_schema" in schema:
            pending += [(schema["items_schema"], item, (*place, i), "ignore") for i, item in enumerate(value)][::-1]
        elif kind == "dict" and isinstance(value, dict) and "values_schema" in schema:
            pending += [(schema["values_schema"], item, (*place, key), "ignore") for key, item in value.items()][::-1]
        elif "schema" in schema:
            pending.append((schema["schema"], value, place, extra))
    return issues


@cache
def _named_schemas(model: type[BaseModel]) -> dict[str, Any]:
    """The parts of a model's schema that other parts refer to."""
    found: dict[str, Any] = {}
    pending: list[Any] = [model.__pydantic_core_schema__]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            if "ref" in part:
                found[part["ref"]] = part
            pending += [value for key, value in part.items() if key not in ("metadata", "serialization", "default")]
        elif isinstance(part, list):
            pending += part
    return found


def _folded(function: Mapping[str, Any], value: object) -> object | None:
    """What a validator makes of raw data; None where it cannot tell, or refuses the data, which is reported anyway."""
    if function["type"] != "no-info":
        return None
    try:
        return function["function"](value)
    except (ValueError, TypeError, AssertionError):
        return None


def _split(fields: Mapping[str, Any], value: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The schemas of the keys that are taken, and the keys that are not."""
    known = {key: field["schema"] for name, field in fields.items() for key in _keys(name, field)}
    return {key: known[key] for key in value if key in known}, [key for key in value if key not in known]


def _keys(name: str, field: Mapping[str, Any]) -> list[str]:
    alias = field.get("validation_alias", name)
    return [alias] if isinstance(alias, str) else [str(way[0] if isinstance(way, list) else way) for way in alias]


def _names(fields: Mapping[str, Any]) -> list[str]:
    return [_keys(name, field)[0] for name, field in fields.items()]


def _member(schema: Mapping[str, Any], value: object) -> Any:
    by = schema["discriminator"]
    tag = by(value) if callable(by) else value.get(by) if isinstance(value, dict) and isinstance(by, str) else None
    return schema["choices"].get(tag) if isinstance(tag, str) else None


def _unknown(key: str, place: tuple[int | str, ...], known: list[str]) -> Issue:
    names = list(dict.fromkeys(known))
    near = get_close_matches(key, names, n=1)
    return {
        "code": "unknown_field",
        "path": shown_path((*place, key)),
        "message": _MESSAGES["extra_forbidden"],
        "hint": f"did you mean {near[0]!r}?" if near else f"remove it; what can stand here: {', '.join(names)}",
    }
