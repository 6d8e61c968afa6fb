"""``wf run export``, and runs read from files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, cast

import typer

from wf_api.cli import output
from wf_api.cli.options import TIMEOUT_DEFAULT, URL_DEFAULT, RunId, Timeout, Url
from wf_api.wire import RunView
from wf_core.run_export import exported_view


def export(
    run_id: RunId,
    file: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where to; standard output if not given.")
    ] = None,
    url: Url = URL_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT,
) -> None:
    """Write a run at rest as JSON Lines that need no server: frames, scopes, results, trace.

    Example: wf run export 5c1f -o run.jsonl; wf run inspect --file run.jsonl
    """
    with output.calling(url, timeout, as_json=False) as client:
        lines = client.export(run_id)
        if file is None:
            for line in lines:
                sys.stdout.write(line + "\n")
            return
        # Beside it first: what stands under the name is whole.
        part = file.with_name(file.name + ".part")
        try:
            with part.open("w", encoding="utf-8", newline="\n") as written:
                for line in lines:
                    written.write(line + "\n")
            part.replace(file)
        except OSError as error:
            output.usage(f"{file} cannot be written: {error.strerror or error}")
        finally:
            part.unlink(missing_ok=True)
        output.console().print(f"run {run_id} is in {file}", markup=False)


def run_in_file(file: Path) -> RunView:
    """The run of an export as it was; :class:`~wf_core.run_export.ExportInvalid` for anything else."""
    try:
        with file.open("rb") as lines:
            return cast(RunView, exported_view(lines))
    except OSError as error:
        output.usage(f"{file} cannot be read: {error.strerror or error}")
