"""Opaque cursors: where the next page of a list begins."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from wf_worker.errors import RequestRefused


def cursor_for(*parts: str | int | None) -> str:
    """A cursor that holds the parts."""
    text = json.dumps(parts, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def cursor_parts(cursor: str, *kinds: type) -> list[Any]:
    """The parts of a cursor that must be of these types."""
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        parts: Any = json.loads(text)
    except (binascii.Error, ValueError, RecursionError):
        raise cursor_invalid() from None
    if not isinstance(parts, list) or len(parts) != len(kinds):
        raise cursor_invalid()
    if any(type(part) is not kind for part, kind in zip(parts, kinds, strict=True)):
        raise cursor_invalid()
    return parts


def cursor_invalid() -> RequestRefused:
    """The refusal of a cursor that no list has given."""
    return RequestRefused(
        "the cursor is not one of this list",
        code="cursor_invalid",
        path="cursor",
        hint="pass next_cursor of the last page unchanged, with the same filters, or leave it out to begin anew",
    )
