"""A capability's output model as plain JSON, with nothing turned into something else on the way."""

from __future__ import annotations

from math import isfinite
from typing import Any, cast

from pydantic import BaseModel

from wf_core.errors import WorkflowExecutionError


def plain_output(capability: str, output: BaseModel) -> dict[str, Any]:
    """The output as its schema describes it.

    Pydantic writes NaN and the infinities as null; a null that was none is refused here (``result_not_json``), naming
    the place. Only an output that holds a null is looked at twice.
    """
    plain = output.model_dump(mode="json", by_alias=True)
    if _holds_null(plain):
        place = _non_finite(output.model_dump(by_alias=True), "")
        if place is not None:
            raise WorkflowExecutionError(
                f"the output of {capability!r} is not JSON: {place} is not a finite number",
                code="result_not_json",
                path=place,
                hint="leave the number out, or make the field nullable and return None",
            )
    return plain


def _holds_null(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_holds_null, cast("dict[str, Any]", value).values()))
    if isinstance(value, list):
        return any(map(_holds_null, cast("list[Any]", value)))
    return value is None


def _non_finite(value: Any, place: str) -> str | None:
    if isinstance(value, float):
        return None if isfinite(value) else place
    if isinstance(value, dict):
        parts = ((f"{place}.{key}".removeprefix("."), item) for key, item in cast("dict[Any, Any]", value).items())
    elif isinstance(value, list | tuple):
        parts = ((f"{place}[{i}]", item) for i, item in enumerate(cast("list[Any]", value)))
    else:
        return None
    return next((found for name, item in parts if (found := _non_finite(item, name)) is not None), None)
