"""What /openapi.json says of bodies and answers, which the routes read and write by hand."""

from __future__ import annotations

from typing import Any, Final

from fastapi import FastAPI
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from wf_api.http.requests import (
    CancelRun,
    ForkRun,
    PauseRun,
    PublishWorkflow,
    RerunRun,
    ResumeInterrupt,
    ResumeRun,
    RetryRun,
    StartRun,
)
from wf_api.wire import ErrorView

_BODIES: Final[tuple[type[BaseModel], ...]] = (
    PublishWorkflow,
    StartRun,
    ResumeInterrupt,
    ResumeRun,
    CancelRun,
    PauseRun,
    RetryRun,
    ForkRun,
    RerunRun,
)
_REF: Final = "#/components/schemas/{model}"


def takes(model: type[BaseModel]) -> dict[str, Any]:
    """The description of a JSON body."""
    return {
        "requestBody": {
            "content": {"application/json": {"schema": {"$ref": _REF.format(model=model.__name__)}}},
            "required": any(field.is_required() for field in model.model_fields.values()),
        }
    }


def answers(view: Any, *statuses: int) -> dict[int | str, dict[str, Any]]:
    """The descriptions of an answer and of the errors."""
    good: dict[int | str, dict[str, Any]] = {status: {"model": view} for status in statuses or (200,)}
    error = {"model": ErrorView}
    return {
        **good,
        "4XX": {**error, "description": "The request cannot be carried out"},
        "5XX": {**error, "description": "The server or its store failed"},
    }


def install_openapi(app: FastAPI) -> None:
    """Adds the request bodies to the generated document."""
    generate = app.openapi

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = generate()
            _, bodies = models_json_schema([(model, "validation") for model in _BODIES], ref_template=_REF)
            schema.setdefault("components", {}).setdefault("schemas", {}).update(bodies["$defs"])
        assert app.openapi_schema is not None
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]  # how FastAPI wants it replaced
