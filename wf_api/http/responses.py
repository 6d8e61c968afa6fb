"""Responses as compact JSON. Integers keep all digits, and what is not JSON is an error, not a guess."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from wf_api.strict_json import encode


class JsonResponse(Response):
    """A JSON response."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """The body."""
        return encode(content)
