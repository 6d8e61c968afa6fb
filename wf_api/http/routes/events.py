"""The events of a run over HTTP: as they happen, or page by page."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response

from wf_api.http.event_stream import BATCH, EventHub, EventStream
from wf_api.http.openapi import answers
from wf_api.http.requests import ReadEvents
from wf_api.http.responses import JsonResponse
from wf_api.wire import EventPage

_STREAM: Final[dict[str, Any]] = {
    "text/event-stream": {
        "schema": {"type": "string"},
        "example": 'id: 3.9f02a1c4\nevent: step\ndata: {"id":"3.9f02a1c4","kind":"step", ...}\n\n',
    }
}


def event_routes(hub: EventHub) -> APIRouter:
    """The route /v1/runs/{run_id}/events."""
    router = APIRouter(prefix="/v1/runs", tags=["runs"])
    described: dict[int | str, dict[str, Any]] = answers(EventPage)
    described[200] = {**described[200], "content": _STREAM}
    described[204] = {"description": "The run has ended, and nothing follows the named event: do not connect again"}

    @router.get("/{run_id}/events", responses=described)
    async def run_events(
        request: Request,
        run_id: str,
        query: Annotated[ReadEvents, Query()],
        last_event_id: Annotated[str | None, Header(description="As `after`, which goes before it")] = None,
    ) -> Response:
        """What happens to a run, event by event: as server-sent events, or as a page for `Accept: application/json`.

        `after` goes on behind an event. A stream ends with a message `end`, or `problem` with an error; lines that
        begin with a colon are signs of life.
        """
        after = query.after if query.after is not None else last_event_id or None
        if _wants_page(request.headers.get("accept", "")):
            return JsonResponse(await hub.offload(hub.events.page, run_id, after=after, limit=query.limit))
        run = await hub.offload(hub.events.find, run_id)
        first = await hub.offload(hub.events.read, run, after, BATCH)
        if after is not None and first.ended and not first.events:
            return Response(status_code=204)
        return EventStream(hub, run, first)

    return router


def _wants_page(accept: str) -> bool:
    kinds = {part.partition(";")[0].strip().lower() for part in accept.split(",")}
    return "application/json" in kinds and "text/event-stream" not in kinds
