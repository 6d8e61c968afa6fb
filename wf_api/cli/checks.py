"""``wf run progress`` and ``wf run audit``: how far a run is, and whether its records agree."""

from __future__ import annotations

import typer

from wf_api.cli import output
from wf_api.cli.options import TIMEOUT_DEFAULT, URL_DEFAULT, AsJson, RunId, Timeout, Url


def progress(
    run_id: RunId, url: Url = URL_DEFAULT, timeout: Timeout = TIMEOUT_DEFAULT, as_json: AsJson = False
) -> None:
    """Show how far a run and its open concurrent loops are."""
    with output.calling(url, timeout, as_json=as_json) as client:
        found = client.progress(run_id)
        if as_json:
            output.print_json(found)
            return
        frames = [f"{count} {place}" for place, count in found["frames"].items() if count]
        output.print_fields(
            {
                "run": found["run_id"],
                "status": output.status_text(found["status"]),
                "steps": f"{found['steps_executed']} of {found['limits']['max_steps']}",
                "frames": ", ".join(frames) or None,
            }
        )
        if found["foreach"]:
            output.print_table(
                ["LOOP", "ITEMS", "DONE", "ACTIVE", "ASKING"],
                [
                    [loop["node_id"], loop["total"], loop["done"], loop["active"], loop["asking"]]
                    for loop in found["foreach"]
                ],
            )


def audit(run_id: RunId, url: Url = URL_DEFAULT, timeout: Timeout = TIMEOUT_DEFAULT, as_json: AsJson = False) -> None:
    """Check whether a run's records agree with one another (exit code 1 when they do not). Changes nothing."""
    with output.calling(url, timeout, as_json=as_json) as client:
        found = client.audit(run_id)
        if as_json:
            output.print_json(found)
        elif found["whole"]:
            output.console().print(f"run {run_id} is whole", markup=False)
        for finding in [] if as_json else found["findings"]:
            output.console().print(finding, markup=False)
        if not found["whole"]:
            raise typer.Exit(output.FAILED)
