"""``wf server`` and ``wf worker``: the processes of an installation. What they need is imported when they start."""

from __future__ import annotations

import logging
import os
from ipaddress import ip_address
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Final

import typer

from wf_api.cli import output
from wf_api.cli.options import LogLevel, Modules
from wf_api.cli.served import load_all

if TYPE_CHECKING:
    from wf_worker.settings import Settings

log = logging.getLogger("wf")

_LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR")


def server(
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port to listen on.")] = 8000,
    module: Modules = None,
    log_level: LogLevel = "INFO",
) -> None:
    """Run the HTTP API.

    The store is named by WF_STORE_URL. Give modules with -m if workflows use reducers of your own.
    """
    level = _logging(log_level)
    _tied_to_parent()
    with output.expected_errors():
        import uvicorn

        from wf_api.cli.stack import PARENT_VARIABLE, PROCESS_HEADER
        from wf_api.http import create_app
        from wf_worker.app import celery_app, store_id
        from wf_worker.dispatch import Dispatcher
        from wf_worker.store.opening import open_store, verify_server

        settings = _settings()
        verify_server(settings)
        served = load_all(module or [])
        dispatcher = Dispatcher(celery_app(settings), settings, store_id(settings))
        store = open_store(settings, reducers=served.reducers or None)
    if not _is_loopback(host):
        log.warning("the API asks nobody who they are: let only trusted machines reach %s:%d", host, port)
    app = create_app(store, dispatcher.publish, settings)

    class Server(uvicorn.Server):
        """Readers of events are let go of when the server is told to stop: they would hold it for ever."""

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            app.state.end_streams()
            super().handle_exit(sig, frame)

    try:
        config = uvicorn.Config(
            app,
            host=host,
            port=port,
            log_level=level.lower(),
            lifespan="off",
            server_header=False,
            headers=[(PROCESS_HEADER, str(os.getpid()))] if PARENT_VARIABLE in os.environ else None,
            timeout_graceful_shutdown=10,  # requests that wait for a run would hold the process for a minute
        )
        Server(config).run()
    finally:
        dispatcher.close()
        store.records.close()


def worker(
    modules: Annotated[
        list[str] | None,
        typer.Argument(metavar="[MODULE]...", help="Modules or Python files, as with -m.", show_default=False),
    ] = None,
    module: Modules = None,
    queue: Annotated[
        list[str] | None,
        typer.Option(
            "--queue",
            "-Q",
            metavar="QUEUE",
            help="A queue to serve, for all priorities; repeat it for more. If none is given: the default queue and "
            "those of its capabilities.",
        ),
    ] = None,
    concurrency: Annotated[int, typer.Option("--concurrency", "-c", min=1, help="Steps at the same time.")] = 1,
    log_level: LogLevel = "INFO",
) -> None:
    """Run a worker that executes the steps of runs.

    It serves every capability (@node) that its modules hold, or what their `registry` lists.

    Example: wf worker my_flows.py
    """
    level = _logging(log_level)
    names = [*(modules or []), *(module or [])]
    if not names:
        output.usage(
            "a worker needs to know what it serves", "name a module or file with capabilities: wf worker my_flows.py"
        )
    _tied_to_parent()
    with output.expected_errors():
        from wf_worker.app import run_worker
        from wf_worker.handlers import build_handlers

        settings = _settings()
        served = load_all(names)
        served.require_capabilities()
        handlers = build_handlers(served.nodes, payload_bytes=settings.payload_bytes)
        handlers.update(served.handlers)
        run_worker(
            settings,
            handlers=handlers,
            reducers=served.reducers or None,
            queues=queue or (),
            concurrency=concurrency,
            log_level=level,
        )


def _settings() -> Settings:
    from pydantic import ValidationError

    from wf_worker.settings import Settings

    try:
        return Settings()
    except ValidationError as error:
        for item in error.errors(include_url=False, include_input=False):
            name = "WF_" + "_".join(str(part) for part in item["loc"]).upper()
            output.complain(f"{name}: {item['msg'].removeprefix('Value error, ')}")
        raise typer.Exit(output.USAGE) from None


def _logging(level: str) -> str:
    level = level.upper()
    if level not in _LEVELS:
        output.usage(f"--log-level {level} is not possible", f"use one of: {', '.join(_LEVELS)}")
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("httpx").setLevel("WARNING")
    return level


def _tied_to_parent() -> None:
    from wf_api.cli.stack import end_with_parent

    end_with_parent()


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
