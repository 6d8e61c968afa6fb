"""The command ``wf``. Every sub-command is registered here."""

from __future__ import annotations

import typer

from wf_api.cli import demo, dev, runs, server, workflows


def build_app() -> typer.Typer:
    """The command with all its sub-commands."""
    app = typer.Typer(
        name="wf",
        help="Durable workflows: publish them, run them, answer what they ask.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_show_locals=False,
    )
    # Groups: commands that talk to a server.
    app.add_typer(workflows.app, name="workflow")
    app.add_typer(runs.app, name="run")
    # Processes.
    app.command("server")(server.server)
    app.command("worker")(server.worker)
    # Everything on one machine.
    app.command("dev")(dev.dev)
    app.command("demo")(demo.demo)
    return app


def main() -> None:
    """The console script."""
    build_app()()


if __name__ == "__main__":
    main()
