"""Runs made from other runs, over HTTP."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from wf_api.http.bodies import ENVELOPE_BYTES, read_model
from wf_api.http.offload import Offload
from wf_api.http.openapi import answers, takes
from wf_api.http.requests import ForkRun, NoQuery, RerunRun
from wf_api.http.responses import JsonResponse
from wf_api.services.forks import ForkService
from wf_api.services.runs import Started
from wf_api.wire import RunView
from wf_worker.settings import Settings


def fork_routes(runs: ForkService, offload: Offload, settings: Settings) -> APIRouter:
    """The routes that make a run from another one."""
    router = APIRouter(prefix="/v1/runs", tags=["runs"])

    async def answer(request: Request, started: Started, seconds: float) -> Response:
        run = await offload.settled(request, runs, started.run, seconds)
        location = f"/v1/runs/{quote(run['run_id'], safe='')}"
        return JsonResponse(run, 201 if started.created else 200, headers={"Location": location})

    @router.post("/{run_id}/fork", status_code=201, responses=answers(RunView, 201, 200), openapi_extra=takes(ForkRun))
    async def fork_run(request: Request, run_id: str, _: Annotated[NoQuery, Query()]) -> Response:
        """Make a new run from the present state of one at rest: ended, interrupted, or paused with nothing running."""
        body = await read_model(request, ForkRun, settings.input_bytes + ENVELOPE_BYTES, optional=True)
        return await answer(request, await offload(runs.fork_run, run_id, body.as_request()), body.wait_seconds)

    @router.post(
        "/{run_id}/rerun", status_code=201, responses=answers(RunView, 201, 200), openapi_extra=takes(RerunRun)
    )
    async def rerun_run(request: Request, run_id: str, _: Annotated[NoQuery, Query()]) -> Response:
        """Make a new run that begins at a step of another one, with the state as it was when that first came there."""
        body = await read_model(request, RerunRun, settings.input_bytes + ENVELOPE_BYTES)
        return await answer(request, await offload(runs.rerun_run, run_id, body.as_request()), body.wait_seconds)

    return router
