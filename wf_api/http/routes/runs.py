"""Runs over HTTP: parse, call one service, render."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from wf_api.http.bodies import ENVELOPE_BYTES, read_model
from wf_api.http.offload import Offload
from wf_api.http.openapi import answers, takes
from wf_api.http.requests import (
    CancelRun,
    InspectRun,
    ListRuns,
    NoQuery,
    PauseRun,
    ResumeInterrupt,
    ResumeRun,
    RetryRun,
    StartRun,
    TraceRange,
)
from wf_api.http.responses import JsonResponse
from wf_api.services.runs import RunService
from wf_api.wire import AuditView, CancelView, InterruptList, ProgressView, RunPage, RunView, TracePage
from wf_worker.settings import Settings


def run_routes(runs: RunService, offload: Offload, settings: Settings) -> APIRouter:
    """The routes under /v1/runs."""
    router = APIRouter(prefix="/v1/runs", tags=["runs"])

    @router.post("", status_code=201, responses=answers(RunView, 201, 200), openapi_extra=takes(StartRun))
    async def start_run(request: Request, _: Annotated[NoQuery, Query()]) -> Response:
        """Start a run. 201 for a new one, 200 when the idempotency key or the run id led to one that was there."""
        body = await read_model(request, StartRun, settings.input_bytes + ENVELOPE_BYTES)
        started = await offload(runs.start_run, body.as_request())
        run = await offload.settled(request, runs, started.run, body.wait_seconds)
        location = f"/v1/runs/{quote(run['run_id'], safe='')}"
        return JsonResponse(run, 201 if started.created else 200, headers={"Location": location})

    @router.get("", responses=answers(RunPage))
    async def list_runs(query: Annotated[ListRuns, Query()]) -> Response:
        """Runs, newest first. Follow `next_cursor` for the next page, with the same filters."""
        page = await offload(runs.list_runs, query.as_filter(), cursor=query.cursor, limit=query.limit)
        return JsonResponse(page)

    @router.get("/{run_id}", responses=answers(RunView))
    async def inspect_run(run_id: str, query: Annotated[InspectRun, Query()]) -> Response:
        """A run as it is now. `include=input` shows its input as well."""
        return JsonResponse(await offload(runs.inspect_run, run_id, with_input=query.include == "input"))

    @router.get("/{run_id}/trace", responses=answers(TracePage))
    async def run_trace(run_id: str, query: Annotated[TraceRange, Query()]) -> Response:
        """A range of the run's finished steps."""
        return JsonResponse(await offload(runs.run_trace, run_id, start=query.start, limit=query.limit))

    @router.get("/{run_id}/interrupts", responses=answers(InterruptList))
    async def list_interrupts(run_id: str, _: Annotated[NoQuery, Query()]) -> Response:
        """The open interrupts of a run, oldest first."""
        return JsonResponse(await offload(runs.list_interrupts, run_id))

    @router.get("/{run_id}/progress", responses=answers(ProgressView))
    async def run_progress(run_id: str, _: Annotated[NoQuery, Query()]) -> Response:
        """How far the run and its open concurrent loops are."""
        return JsonResponse(await offload(runs.run_progress, run_id))

    @router.get("/{run_id}/audit", responses=answers(AuditView))
    async def audit_run(run_id: str, _: Annotated[NoQuery, Query()]) -> Response:
        """Whether the run's records agree with one another. Reads all frames that live, and changes nothing."""
        return JsonResponse(await offload(runs.audit_run, run_id))

    async def answer(request: Request, run_id: str, key: str | None, body: ResumeInterrupt) -> Response:
        run = await offload(
            runs.resume_run,
            run_id,
            payload=body.payload,
            outcome=body.outcome,
            interrupt_key=key,
            revision=body.revision,
            idempotency_key=body.idempotency_key,
        )
        return JsonResponse(await offload.settled(request, runs, run, body.wait_seconds))

    # The key may hold any character, a slash included, hence a path and not a segment.
    @router.post(
        "/{run_id}/interrupts/{interrupt_key:path}/resume",
        responses=answers(RunView),
        openapi_extra=takes(ResumeInterrupt),
    )
    async def resume_interrupt(
        request: Request, run_id: str, interrupt_key: str, _: Annotated[NoQuery, Query()]
    ) -> Response:
        """Answer the interrupt of this key. Of any number of answers exactly one is taken."""
        body = await read_model(request, ResumeInterrupt, settings.payload_bytes + ENVELOPE_BYTES, optional=True)
        return await answer(request, run_id, interrupt_key, body)

    @router.post("/{run_id}/resume", responses=answers(RunView), openapi_extra=takes(ResumeRun))
    async def resume_run(request: Request, run_id: str, _: Annotated[NoQuery, Query()]) -> Response:
        """Answer the only open interrupt, or the one that `interrupt_key` names."""
        body = await read_model(request, ResumeRun, settings.payload_bytes + ENVELOPE_BYTES, optional=True)
        return await answer(request, run_id, body.interrupt_key, body)

    @router.post("/{run_id}/cancel", responses=answers(CancelView), openapi_extra=takes(CancelRun))
    async def cancel_run(request: Request, run_id: str, _: Annotated[NoQuery, Query()]) -> Response:
        """End a run at once. A run that has ended stays as it is."""
        body = await read_model(request, CancelRun, ENVELOPE_BYTES, optional=True)
        return JsonResponse(await offload(runs.cancel_run, run_id, reason=body.reason))

    @router.post("/{run_id}/pause", responses=answers(RunView), openapi_extra=takes(PauseRun))
    async def pause_run(request: Request, run_id: str, _: Annotated[NoQuery, Query()]) -> Response:
        """Begin nothing new in a run; running handlers commit. A run that is paused stays paused."""
        await read_model(request, PauseRun, ENVELOPE_BYTES, optional=True)
        return JsonResponse(await offload(runs.pause_run, run_id, on=True))

    @router.post("/{run_id}/unpause", responses=answers(RunView), openapi_extra=takes(PauseRun))
    async def unpause_run(request: Request, run_id: str, _: Annotated[NoQuery, Query()]) -> Response:
        """Go on with a run that was paused. One that is not stays as it is."""
        await read_model(request, PauseRun, ENVELOPE_BYTES, optional=True)
        return JsonResponse(await offload(runs.pause_run, run_id, on=False))

    @router.post("/{run_id}/retry", responses=answers(RunView), openapi_extra=takes(RetryRun))
    async def retry_run(request: Request, run_id: str, _: Annotated[NoQuery, Query()]) -> Response:
        """Go on with a failed run: its failed steps are tried anew, what has finished stays."""
        body = await read_model(request, RetryRun, ENVELOPE_BYTES, optional=True)
        max_steps = None if body.limits is None else body.limits.max_steps
        return JsonResponse(await offload(runs.retry_run, run_id, max_steps=max_steps))

    return router
