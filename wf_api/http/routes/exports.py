"""Exports over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response, StreamingResponse

from wf_api.http.offload import Offload
from wf_api.http.openapi import answers
from wf_api.http.requests import NoQuery
from wf_api.services.exports import ExportService


def export_routes(exports: ExportService, offload: Offload) -> APIRouter:
    """The route that gives a whole run away."""
    router = APIRouter(prefix="/v1/runs", tags=["runs"])

    @router.get(
        "/{run_id}/export",
        responses=answers(None) | {200: {"description": "JSON Lines", "content": {"application/jsonl": {}}}},
    )
    async def export_run(run_id: str, _: Annotated[NoQuery, Query()]) -> Response:
        """A run at rest as JSON Lines. The last line is of the kind `end`, or tells the `error` it broke off with."""
        pieces = await offload(exports.export_run, run_id)

        async def sent() -> AsyncIterator[bytes]:
            while piece := await offload(next, pieces, b""):
                yield piece

        return StreamingResponse(sent(), media_type="application/jsonl")

    return router
