"""What all runs ask for."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from wf_api.http.offload import Offload
from wf_api.http.openapi import answers
from wf_api.http.requests import ListInbox
from wf_api.http.responses import JsonResponse
from wf_api.services.runs import RunService
from wf_api.wire import InboxPage


def interrupt_routes(runs: RunService, offload: Offload) -> APIRouter:
    """The routes under /v1/interrupts."""
    router = APIRouter(prefix="/v1/interrupts", tags=["interrupts"])

    @router.get("", responses=answers(InboxPage))
    async def list_inbox(query: Annotated[ListInbox, Query()]) -> Response:
        """Open interrupts of all runs, oldest first, of one kind or one workflow if asked so."""
        page = await offload(
            runs.list_inbox,
            kind=query.kind,
            workflow=query.workflow,
            tags=query.tags,
            cursor=query.cursor,
            limit=query.limit,
        )
        return JsonResponse(page)

    return router
