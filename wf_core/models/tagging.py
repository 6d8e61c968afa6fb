"""How the members of a union are told apart, for parsing and in the published schema."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from pydantic import Discriminator


def told_apart_by(*keys: str) -> Discriminator:
    """A discriminator whose tag is the one of the keys that is present; none of them, or two, is an error."""

    def tag(value: object) -> str | None:
        if isinstance(value, dict):
            fields = cast("dict[object, object]", value)
            present = [key for key in keys if key in fields]
        else:
            present = [key for key in keys if hasattr(value, key)]
        return present[0] if len(present) == 1 else None

    return Discriminator(
        tag,
        custom_error_type="one_key_required",
        custom_error_message=f"exactly one of these keys must be given: {', '.join(keys)}",
    )


def published_as_required(key: str) -> Callable[[dict[str, Any]], None]:
    """A schema hook for a constant tag: it has a default for Python callers, but a document must name it."""

    def amend(schema: dict[str, Any]) -> None:
        required: list[str] = schema.setdefault("required", [])
        if key not in required:
            required.insert(0, key)

    return amend
