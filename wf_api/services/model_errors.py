"""What pydantic says about data, as issues of our own shape. Values of the caller are never repeated."""

from __future__ import annotations

from typing import Any, Final

from pydantic import ValidationError
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
