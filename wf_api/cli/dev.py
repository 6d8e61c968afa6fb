"""``wf dev``: a whole installation on this machine, for trying things out."""

from __future__ import annotations

import signal
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from wf_api.cli import output
from wf_api.cli.modules import bundled_example
from wf_api.cli.served import Served, load_all
from wf_api.cli.stack import Stack
from wf_api.client import WorkflowClient
from wf_api.client.calls import DEFAULT_URL
from wf_core.models import Workflow

DATA = Path(".wf")


def dev(
    modules: Annotated[
        list[str] | None,
        typer.Argument(
            help="Python files or dotted modules with capabilities and workflows; none: the example 'greetings'."
        ),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Worker processes.")] = 2,
    host: Annotated[str, typer.Option(help="Address the API listens on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port the API listens on; 0 takes a free one.")] = 8000,
    data: Annotated[Path, typer.Option(help="Folder for the store's files and the logs.")] = DATA,
) -> None:
    """Run an embedded store, the API and worker processes until Ctrl-C.

    Runs survive a restart: they are kept below the data folder.
    """
    if not 0 <= port <= 65535:
        output.usage(f"--port {port} is not possible", "use 1 to 65535, or 0 for any that is free")
    with output.expected_errors():
        names: Sequence[str] = modules or [str(bundled_example("quickstart"))]
        served = load_all(names)
        served.require_capabilities()
        flows = served.workflows()
        ended = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: ended.set())
        typer.echo("starting the store, the API and the workers ...")
        # Errors are said at once, not after everything has ended.
        with (
            Stack(
                data,
                names,
                workers=workers,
                host=host,
                port=port,
                environment={"WF_LEASE_SECONDS": "10"},
                command="wf dev",
            ) as stack,
            output.expected_errors(),
        ):
            _publish(stack, served, flows)
            typer.echo(f"  API       {stack.url}")
            typer.echo(f"  workers   {workers}, serving {', '.join(names)}")
            typer.echo(f"  logs      {data / 'logs'}")
            typer.echo("ready; Ctrl-C ends all of it")
            while not ended.wait(0.2):
                for line in stack.tend():
                    typer.echo(line)
            typer.echo("\nending ...")


def _publish(stack: Stack, served: Served, flows: Sequence[Workflow]) -> None:
    with WorkflowClient(stack.url) as client:
        for flow in flows:
            published = client.publish(flow)
            typer.echo(f"  workflow  {published['name']} version {published['version']}")
    if not flows:
        where = "" if stack.url == DEFAULT_URL else f" --url {stack.url}"
        source = next(iter(served.modules))
        typer.echo(f"  found     {', '.join(served.capabilities)}")
        typer.echo(
            f"  no workflow found; name the function `build`, or publish with: wf workflow publish {source}:name{where}"
        )
