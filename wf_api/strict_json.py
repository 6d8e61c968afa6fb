"""Strict JSON at the entrance: bytes in, a value out that can be stored and read again without any change.

Refused, each with a code of its own: what is not JSON, numbers that are not finite or too long to keep, repeated object
keys, lone surrogates, values nested too deeply, bodies that are too large.
"""

from __future__ import annotations

import json
import re
from math import isinf
from typing import Any, Final, NoReturn

import msgspec

from wf_core.errors import WfError
from wf_core.models.json_values import MAX_INTEGER_CHARS
from wf_core.paths import format_toml_path_segments

MAX_NESTING: Final = 256
"""Arrays and objects inside one another, the outermost counted."""

MAX_DIGITS: Final = MAX_INTEGER_CHARS
"""Digits of one integer, its sign counted: what is read again when it was stored."""

_SURROGATE_ESCAPE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_encode: Final = msgspec.json.Encoder().encode


class JsonRefused(WfError):
    """A text is not the strict JSON that this project stores."""

    default_code = "json_invalid"


def decode(data: bytes, *, most_bytes: int | None = None) -> Any:
    """The value of a JSON text. Integers keep all digits, objects the order of their keys."""
    if most_bytes is not None and len(data) > most_bytes:
        raise too_large(len(data), most_bytes)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise JsonRefused(f"the text is not UTF-8: byte {error.start} is wrong", hint="send JSON as UTF-8") from None
    try:
        value = json.loads(
            text, parse_int=_integer, parse_float=_float, parse_constant=_not_finite, object_pairs_hook=_object
        )
    except json.JSONDecodeError as error:
        raise JsonRefused(
            f"the text is not JSON: {error.msg} at line {error.lineno}, column {error.colno}",
            hint="JSON needs double quotes around keys and texts, and no comma after the last item",
        ) from None
    except RecursionError:
        raise _too_deep("") from None
    _check_tree(value, surrogates=_SURROGATE_ESCAPE.search(text) is not None)
    return value


def encode(value: Any) -> bytes:
    """A JSON value as compact bytes."""
    return _encode(value)


def too_large(size: int, most_bytes: int) -> JsonRefused:
    """The refusal of a text that is larger than the limit."""
    return JsonRefused(
        f"the body has {size} bytes, the limit is {most_bytes}",
        code="body_too_large",
        hint="keep large data elsewhere and send a reference to it",
    )


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise JsonRefused(
            f"an integer has more than {MAX_DIGITS} digits", code="json_number_too_long", hint="send it as a string"
        )
    return int(digits)


def _float(text: str) -> float:
    value = float(text)
    if isinf(value):
        _not_finite(text if len(text) <= 40 else text[:40] + "...")
    return value


def _not_finite(text: str) -> NoReturn:
    raise JsonRefused(
        f"{text} is not a finite number", code="json_not_finite", hint="send null, a string, or a number within range"
    )


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) == len(pairs):
        return fields
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            raise JsonRefused(
                f"the key {_shown(key)} is given twice in one object",
                code="json_duplicate_key",
                hint="keep one of them",
            )
        seen.add(key)
    raise AssertionError("unreachable: a shorter dict has a repeated key")


def _check_tree(value: Any, *, surrogates: bool) -> None:
    """Depth, and lone surrogates where the text holds an escape that may make one. Without recursion."""
    followed = (dict, list, str) if surrogates else (dict, list)
    waiting: list[tuple[Any, tuple[Any, ...]]] = [(value, ())]
    while waiting:
        item, where = waiting.pop()
        if isinstance(item, str):
            if surrogates and _SURROGATE.search(item):
                raise _lone_surrogate(where)
            continue
        # Only containers and texts come here, so the length of `where` is the number of containers around this one.
        if len(where) >= MAX_NESTING:
            raise _too_deep(shown_path(where[:3]) + "...")
        if isinstance(item, dict):
            if surrogates and any(_SURROGATE.search(key) for key in item):
                raise _lone_surrogate(where)
            waiting += [(child, (*where, key)) for key, child in item.items() if isinstance(child, followed)]
        elif isinstance(item, list):
            waiting += [(child, (*where, i)) for i, child in enumerate(item) if isinstance(child, followed)]


def shown_path(parts: tuple[Any, ...]) -> str:
    """A place in a JSON value as text: ``nodes[0].input``; empty for the whole."""
    text = ""
    for part in parts:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += ("." if text else "") + (_segment(part))
    return text


def _segment(part: str) -> str:
    if part.strip() and part.isprintable():
        return format_toml_path_segments((part,))
    return _shown(part)


def _shown(text: str) -> str:
    return json.dumps(text if len(text) <= 80 else text[:80] + "...")


def _lone_surrogate(where: tuple[Any, ...]) -> JsonRefused:
    return JsonRefused(
        "a text holds half of a surrogate pair, which is no character",
        code="json_lone_surrogate",
        path=shown_path(where) or None,
        hint="send both halves, or the character itself",
    )


def _too_deep(path: str) -> JsonRefused:
    return JsonRefused(
        f"the value is nested deeper than {MAX_NESTING} levels",
        code="json_too_deep",
        path=path or None,
        hint="flatten it",
    )
