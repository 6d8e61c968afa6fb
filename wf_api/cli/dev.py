"""``wf dev``: a whole installation on this machine, for trying things out."""

from __future__ import annotations

import signal
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from wf_api.cli.modules import bundled_example, load_module, workflows_of
from wf_api.cli.stack import Stack
from wf_api.client import WorkflowClient

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
    port: Annotated[int, typer.Option(help="Port the API listens on.")] = 8000,
    data: Annotated[Path, typer.Option(help="Folder for the store's files and the logs.")] = DATA,
) -> None:
    """Run an embedded store, the API and worker processes until Ctrl-C.

    Runs survive a restart: they are kept below the data folder.
    """
    served: Sequence[str] = modules or [str(bundled_example("quickstart"))]
    flows = [flow for name in served for flow in workflows_of(load_module(name))]
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    typer.echo("starting the store, the API and the workers ...")
    with Stack(data, served, workers=workers, host=host, port=port, environment={"WF_LEASE_SECONDS": "10"}) as stack:
        with WorkflowClient(stack.url) as client:
            for flow in flows:
                published = client.publish(flow)
                typer.echo(f"  workflow  {published['name']} version {published['version']}")
        typer.echo(f"  API       {stack.url}")
        typer.echo(f"  workers   {workers}, serving {', '.join(served)}")
        typer.echo(f"  logs      {data / 'logs'}")
        typer.echo("ready; Ctrl-C ends all of it")
        while not ended.wait(0.5):
            dead = [part.name for part in stack.parts if not part.alive]
            if dead:
                typer.echo(f"{', '.join(dead)} ended; look at {data / 'logs'}", err=True)
                raise typer.Exit(1)
        typer.echo("\nending ...")
