"""The API as an ASGI application over a run store."""

from __future__ import annotations

from typing import Final

from fastapi import FastAPI

from wf_api.http.errors import install_error_handlers
from wf_api.http.event_stream import EventHub, Readers
from wf_api.http.offload import Offload
from wf_api.http.openapi import install_openapi
from wf_api.http.routes.events import event_routes
from wf_api.http.routes.exports import export_routes
from wf_api.http.routes.forks import fork_routes
from wf_api.http.routes.health import health_routes
from wf_api.http.routes.interrupts import interrupt_routes
from wf_api.http.routes.runs import run_routes
from wf_api.http.routes.workflows import workflow_routes
from wf_api.services.events import EventService
from wf_api.services.exports import ExportService
from wf_api.services.forks import ForkService
from wf_api.services.runs import Publish, RunService
from wf_api.services.workflows import WorkflowService
from wf_worker.settings import Settings
from wf_worker.store.runs import RunStore

VERSION: Final = "1"


def create_app(store: RunStore, publish: Publish, settings: Settings) -> FastAPI:
    """The application. ``publish`` sends messages about ready frames; closing the store is left to the caller."""
    app = FastAPI(
        title="Workflow API",
        version=VERSION,
        description="Publish workflows, run them, answer what they ask.",
        # The interactive pages load scripts from other hosts.
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    offload = Offload()
    app.include_router(health_routes(store.records.ping, Offload(threads=4, abandon=True)))
    app.include_router(workflow_routes(WorkflowService(store), offload, settings.input_bytes))
    runs = RunService(store, publish, settings)
    app.include_router(run_routes(runs, offload, settings))
    app.include_router(interrupt_routes(runs, offload))
    app.include_router(export_routes(ExportService(store, publish, settings), offload))
    app.include_router(fork_routes(ForkService(store, publish, settings), offload, settings))
    # Threads of their own: however many read events, nobody else waits for them.
    hub = EventHub(
        EventService(store), Offload(threads=8), Readers(settings.api_event_readers), settings.api_heartbeat_seconds
    )
    app.include_router(event_routes(hub))
    app.state.end_streams = hub.watch.close
    install_error_handlers(app)
    install_openapi(app)
    return app
