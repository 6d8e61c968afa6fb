"""Request bodies: bounded bytes, strict JSON, then a strict model."""

from __future__ import annotations

from typing import Any, Final, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError

from wf_api.http.errors import request_invalid
from wf_api.strict_json import decode, too_large
from wf_worker.errors import RequestRefused

ENVELOPE_BYTES: Final = 64 * 1024
"""What a request may be larger than the payload inside it."""

_DRAINED: Final = 8
"""A body that is too large is read on and thrown away up to this multiple of the limit, so that its sender, who reads
the answer only after sending, gets to see it."""

ModelT = TypeVar("ModelT", bound=BaseModel)


async def read_model(request: Request, model: type[ModelT], most_bytes: int, *, optional: bool = False) -> ModelT:
    """The body as a model. An empty body counts as an empty object where it is optional."""
    data = await _read(request, most_bytes)
    if data or not optional:
        _check_media_type(request)
    value: Any = decode(data) if data or not optional else {}
    if not isinstance(value, dict):
        raise RequestRefused("the body must be a JSON object", code="request_invalid", hint="send {...}")
    try:
        return model.model_validate(value, strict=True)
    except ValidationError as error:
        raise request_invalid(error, value) from None


async def _read(request: Request, most_bytes: int) -> bytes:
    declared = request.headers.get("content-length", "")
    size = 0
    parts: list[bytes] = []
    async for part in request.stream():
        size += len(part)
        if size <= most_bytes:
            parts.append(part)
        elif size > most_bytes * _DRAINED:
            break
    if size > most_bytes:
        raise too_large(max(size, int(declared) if declared.isdigit() else 0), most_bytes)
    return b"".join(parts)


def _check_media_type(request: Request) -> None:
    """Only JSON. A web page of another origin cannot send that without asking, so it cannot start runs by a form."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise RequestRefused(
            f"the body is {media_type or 'of no type'}, not application/json",
            code="media_type_unsupported",
            hint="send the header Content-Type: application/json",
        )
