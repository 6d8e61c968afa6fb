"""One table: error code to HTTP status. One envelope for every error."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import compile_path

from wf_api.http.responses import JsonResponse
from wf_api.services.model_errors import issues_of
from wf_api.strict_json import JsonRefused, shown_path
from wf_api.wire import ErrorBody
from wf_core.errors import WfError
from wf_core.models.json_values import JsonValue
from wf_worker.errors import RequestRefused, RunDamaged, StoreError, StoreUnavailable

log = logging.getLogger("wf.api")

STATUS: Final[Mapping[str, int]] = {
    # malformed
    "json_invalid": 400,
    "json_not_finite": 400,
    "json_duplicate_key": 400,
    "json_lone_surrogate": 400,
    "json_too_deep": 400,
    "json_number_too_long": 400,
    "cursor_invalid": 400,
    # unknown
    "route_not_found": 404,
    "run_not_found": 404,
    "workflow_not_found": 404,
    "workflow_version_not_found": 404,
    "method_not_allowed": 405,
    # in conflict with what is there
    "workflow_version_exists": 409,
    "run_id_in_use": 409,
    "idempotency_key_reused": 409,
    "run_not_interrupted": 409,
    "interrupt_ambiguous": 409,
    "interrupt_not_open": 409,
    "interrupt_answered": 409,
    "interrupt_expired": 409,
    "run_ended": 409,
    "run_not_failed": 409,
    "step_budget_used": 409,
    "run_damaged": 409,
    "run_layout_unknown": 409,
    "run_not_at_rest": 409,
    "run_completed": 409,
    "step_not_reached": 409,
    "step_state_not_kept": 409,
    "interrupt_revision_stale": 409,
    "interrupt_not_resumable": 409,
    "run_moving": 409,
    "event_id_unknown": 409,
    "events_trimmed": 410,
    # too much, or not what is spoken here
    "body_too_large": 413,
    "payload_too_large": 413,
    "media_type_unsupported": 415,
    # well formed, but wrong
    "request_invalid": 422,
    "interrupt_key_required": 422,
    "workflow_invalid": 422,
    "workflow_version_invalid": 422,
    "workflow_input_invalid": 422,
    "resume_outcome_undeclared": 422,
    "resume_payload_invalid": 422,
    "unknown_reducer": 422,
    "unknown_step": 422,
    "step_not_rerunnable": 422,
    "state_patch_invalid": 422,
    "child_workflow_missing": 422,
    "durability_unavailable": 422,
    "workflow_cycle": 422,
    # ours
    "damaged": 500,
    "store_failed": 500,
    "internal_error": 500,
    "store_unavailable": 503,
    "store_full": 503,
    "durability_unconfirmed": 503,
    "too_many_readers": 503,
    "broker_unavailable": 503,
}
RETRY_AFTER_SECONDS: Final = 2


def status_of(error: WfError) -> int:
    """The status of an error: by its code, else by what kind of error it is."""
    status = STATUS.get(error.code)
    if status is not None:
        return status
    if isinstance(error, StoreUnavailable):
        return 503
    if isinstance(error, StoreError):
        return 500
    if isinstance(error, RequestRefused):
        return 409
    return 422


def body_of(error: WfError) -> ErrorBody:
    """The envelope's content. What concerns only the operator of the server is left to its log."""
    if isinstance(error, StoreUnavailable):
        full = error.code == "store_full"
        return error_body(
            error.code,
            "the run store is full" if full else "the run store cannot be reached",
            hint="try again later; whoever runs the server finds the cause in its log",
        )
    if isinstance(error, RunDamaged):
        return error_body(
            error.code, "a stored record is damaged", hint="whoever runs the server finds the record's name in its log"
        )
    if isinstance(error, StoreError):
        return error_body(error.code, "the run store failed", hint="whoever runs the server finds the cause in its log")
    details = error.details if isinstance(error, RequestRefused) else None
    return error_body(error.code, error.message, path=error.path, hint=error.hint, details=details)


def error_body(
    code: str,
    message: str,
    *,
    path: str | None = None,
    hint: str | None = None,
    details: Mapping[str, JsonValue] | None = None,
) -> ErrorBody:
    """What stands in the envelope."""
    body: ErrorBody = {"code": code, "message": message, "path": path, "hint": hint}
    if details:
        body["details"] = dict(details)
    return body


def error_response(body: ErrorBody, status: int, headers: Mapping[str, str] | None = None) -> Response:
    """The envelope as a response."""
    return JsonResponse({"error": body}, status_code=status, headers=dict(headers or {}))


def response_of(error: WfError) -> Response:
    """The response to a deliberate error."""
    status = status_of(error)
    if status >= 500:
        log.error("%s: %s (%s)", error.code, error.message, error.path, exc_info=None if status == 503 else error)
    headers = {"Retry-After": str(RETRY_AFTER_SECONDS)} if status == 503 else None
    return error_response(body_of(error), status, headers)


def request_invalid(error: ValidationError | RequestValidationError, data: object) -> RequestRefused:
    """The refusal of a request whose fields are wrong, with all of them."""
    issues: list[Any]
    if isinstance(error, ValidationError):
        issues = list(issues_of(error, data, code="invalid_value"))
    else:
        issues = [_parameter_issue(item) for item in error.errors()]
    first = issues[0]
    where = f"{first['path']}: " if first["path"] else ""
    return RequestRefused(
        f"{where}{first['message']}" + (f" (and {len(issues) - 1} more)" if len(issues) > 1 else ""),
        code="request_invalid",
        path=first["path"] or None,
        hint=first["hint"],
        details={"issues": issues},
    )


def _parameter_issue(item: Mapping[str, Any]) -> dict[str, str]:
    path = shown_path(item["loc"][1:])
    if item["type"] == "extra_forbidden":
        return {"code": "unknown_field", "path": path, "message": "there is no such parameter", "hint": "remove it"}
    return {
        "code": "invalid_value",
        "path": path,
        "message": item["msg"].removeprefix("Value error, "),
        "hint": "set it to a value that is allowed",
    }


def install_error_handlers(app: FastAPI) -> None:
    """Makes every error of an application leave as the envelope."""

    async def deliberate(_: Request, error: Exception) -> Response:
        assert isinstance(error, WfError)
        response = response_of(error)
        if isinstance(error, JsonRefused) and error.code == "body_too_large":
            response.headers["Connection"] = "close"
        return response

    async def parameters(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return response_of(request_invalid(error, None))

    async def routing(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if error.status_code == 404:
            body = error_body(
                "route_not_found", f"there is no {request.url.path}", hint="GET /openapi.json lists what there is"
            )
        elif error.status_code == 405:
            allowed = ", ".join(sorted(_allowed_methods(app, request.url.path)))
            body = error_body("method_not_allowed", f"{request.method} is not possible here", hint=f"use {allowed}")
            return error_response(body, 405, {"Allow": allowed})
        else:
            body = error_body("request_invalid", str(error.detail))
        return error_response(body, error.status_code, error.headers)

    async def unexpected(_: Request, error: Exception) -> Response:
        # The server logs the exception itself; the caller learns nothing of it.
        return error_response(
            error_body(
                "internal_error", "the server failed", hint="whoever runs the server finds the cause in its log"
            ),
            500,
        )

    app.add_exception_handler(WfError, deliberate)
    app.add_exception_handler(RequestValidationError, parameters)
    app.add_exception_handler(HTTPException, routing)
    app.add_exception_handler(Exception, unexpected)


def _allowed_methods(app: FastAPI, path: str) -> set[str]:
    """Every method of a path: its routes are several, and each knows only its own."""
    return {
        method.upper()
        for template, methods in app.openapi()["paths"].items()
        if compile_path(template)[0].match(path)
        for method in methods
    }
