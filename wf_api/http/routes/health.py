"""Whether the process lives, and whether it can do its work."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from fastapi import APIRouter
from starlette.responses import Response

from wf_api.http.errors import RETRY_AFTER_SECONDS, error_body, error_response
from wf_api.http.offload import Offload
from wf_api.http.responses import JsonResponse

log = logging.getLogger("wf.api")

PROBE_SECONDS: Final = 2.0


def health_routes(check_store: Callable[[], None], offload: Offload) -> APIRouter:
    """The two probes. ``check_store`` raises when the store cannot be used."""
    router = APIRouter(tags=["health"])

    @router.get("/healthz")
    async def healthz() -> Response:
        """The process answers."""
        return JsonResponse({"status": "ok"})

    @router.get("/readyz")
    async def readyz() -> Response:
        """The store answers a real script call."""
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                await offload(check_store)
        except Exception as error:  # whatever it is, we are not ready
            log.warning("not ready: %s", error or type(error).__name__)
            body = error_body(
                "store_unavailable", "the run store cannot be used", hint="check WF_STORE_URL and the server behind it"
            )
            return error_response(body, 503, {"Retry-After": str(RETRY_AFTER_SECONDS)})
        return JsonResponse({"status": "ready"})

    return router
