"""``wf run``: start runs, look at them, answer and cancel them."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from wf_api import strict_json
from wf_api.cli import checks, output
from wf_api.cli.events import events
from wf_api.cli.exports import export, run_in_file
from wf_api.cli.options import TIMEOUT_DEFAULT, URL_DEFAULT, AsJson, Cursor, Limit, RunId, Timeout, Url
from wf_api.client import WaitTimeout, WorkflowClient
from wf_api.client.calls import reached
from wf_api.wire import MAX_WAIT_SECONDS, Priority, RunView
from wf_core.run_state import TraceLevel

app = typer.Typer(no_args_is_help=True, help="Start runs, look at them, answer what they ask.")

app.command("export")(export)

_FIRST_INTERVAL: Final = 0.5

Tags = Annotated[
    list[str] | None, typer.Option("--tag", metavar="NAME=VALUE", help="Only runs with this tag; repeat it for more.")
]
Wait = Annotated[
    float, typer.Option("--wait", min=0, metavar="SECONDS", help="Wait until it has ended or asks for something.")
]


@app.command("start")
def start(
    workflow: Annotated[str, typer.Argument(help="The workflow's name.", show_default=False)],
    input: Annotated[str | None, typer.Option("--input", help="The input as JSON.", metavar="JSON")] = None,
    input_file: Annotated[
        Path | None, typer.Option("--input-file", help="A file with the input as JSON; - reads standard input.")
    ] = None,
    version: Annotated[str | None, typer.Option("--version", help="Its version; the latest if not given.")] = None,
    run_id: Annotated[str | None, typer.Option("--run-id", help="An id of your own for the run.")] = None,
    idempotency_key: Annotated[
        str | None, typer.Option("--idempotency-key", help="The same key starts the same run once.")
    ] = None,
    max_steps: Annotated[int | None, typer.Option("--max-steps", min=1, help="The run's step budget.")] = None,
    trace: Annotated[
        TraceLevel, typer.Option("--trace", help="How much of its history is kept: all, no payloads, or none.")
    ] = "full",
    deadline: Annotated[
        int | None, typer.Option("--deadline", min=1, metavar="SECONDS", help="It fails unless it has ended by then.")
    ] = None,
    durability: Annotated[
        str | None,
        typer.Option("--durability", help="Refuse it where less is promised: everysec, always, replicated(n)."),
    ] = None,
    priority: Annotated[
        Priority, typer.Option("--priority", help="Whose steps workers take up first: high, normal or low.")
    ] = "normal",
    tag: Annotated[
        list[str] | None, typer.Option("--tag", metavar="NAME=VALUE", help="A tag to find it by; repeat it for more.")
    ] = None,
    wait: Wait = 0,
    url: Url = URL_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Start a run.

    Example: wf run start report --input '{"title": "Q3"}' --wait 30
    """
    workflow_input = _json_object("--input", input, input_file)
    tags = tags_of(tag)
    with output.calling(url, timeout, as_json=as_json) as client:
        started = time.monotonic()
        run = client.start(
            workflow,
            workflow_input,
            version=version,
            run_id=run_id,
            idempotency_key=idempotency_key,
            max_steps=max_steps,
            trace=trace,
            deadline_seconds=deadline,
            durability=durability,
            priority=priority,
            tags=tags,
            wait_seconds=min(wait, MAX_WAIT_SECONDS),
        )
        _waited(client, run, wait, started, as_json=as_json)


@app.command("list")
def list_runs(
    status: Annotated[
        str | None,
        typer.Option(
            "--status", help="Only runs that are pending, running, interrupted, completed, failed or cancelled."
        ),
    ] = None,
    workflow: Annotated[str | None, typer.Option("--workflow", help="Only runs of this workflow.")] = None,
    tag: Tags = None,
    created_from: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Only runs started then or later, in RFC 3339.")
    ] = None,
    created_to: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="Only runs started then or earlier, in RFC 3339.")
    ] = None,
    limit: Limit = 20,
    cursor: Cursor = None,
    url: Url = URL_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """List runs, newest first.

    Example: wf run list --status failed --tag team=blue --from 2030-01-31T00:00:00Z
    """
    tags = tags_of(tag)
    with output.calling(url, timeout, as_json=as_json) as client:
        page = client.list(
            status=status,
            workflow=workflow,
            tags=tags,
            created_from=created_from,
            created_to=created_to,
            cursor=cursor,
            limit=limit,
        )
        if as_json:
            output.print_json(page)
            return
        output.print_table(
            ["RUN", "WORKFLOW", "STATUS", "STEPS", "CREATED"],
            [
                [
                    run["run_id"],
                    f"{run['workflow']} {run['version']}".strip(),
                    output.status_text(run["status"]),
                    run["steps_executed"],
                    run["created_at"],
                ]
                for run in page["runs"]
            ],
        )
        if page["next_cursor"]:
            total = "" if page["total"] is None else f"{page['total']} in all; "
            filters = " with the same filters" if status or workflow or tag or created_from or created_to else ""
            output.console().print(f"{total}more{filters}: wf run list --cursor {page['next_cursor']}", style="dim")


@app.command("inbox")
def inbox(
    kind: Annotated[str | None, typer.Option("--kind", help="Only what asks for this.")] = None,
    workflow: Annotated[str | None, typer.Option("--workflow", help="Only runs of this workflow.")] = None,
    tag: Tags = None,
    limit: Limit = 20,
    cursor: Cursor = None,
    url: Url = URL_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """List what all runs ask for, oldest first."""
    tags = tags_of(tag)
    with output.calling(url, timeout, as_json=as_json) as client:
        page = client.inbox(kind=kind, workflow=workflow, tags=tags, cursor=cursor, limit=limit)
        if as_json:
            output.print_json(page)
            return
        output.print_table(
            ["RUN", "WORKFLOW", "KIND", "INTERRUPT", "OPENED", "EXPIRES"],
            [
                [
                    entry["run_id"],
                    f"{entry['workflow']} {entry['version']}".strip(),
                    entry["kind"],
                    entry["interrupt_key"],
                    entry["opened_at"],
                    entry["expires_at"] or "",
                ]
                for entry in page["interrupts"]
            ],
        )
        if page["next_cursor"]:
            output.console().print(f"more: wf run inbox --cursor {page['next_cursor']}", style="dim")


@app.command("inspect")
def inspect(
    run_id: Annotated[str | None, typer.Argument(metavar="RUN", help="The run's id.", show_default=False)] = None,
    with_input: Annotated[bool, typer.Option("--input", help="Show its input as well.")] = False,
    file: Annotated[
        Path | None, typer.Option("--file", metavar="FILE", help="Show the run of an export, without a server.")
    ] = None,
    url: Url = URL_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Show a run: where it stands, what it gave, what it asks."""
    if (run_id is None) == (file is None):
        output.usage("name a run, or a file with --file", "for example: wf run inspect 5c1f")
    with output.calling(url, timeout, as_json=as_json) as client:
        if run_id is None:
            assert file is not None
            run = run_in_file(file)
            if not with_input:
                run.pop("input", None)
            output.print_run(run, as_json=as_json)
            return
        output.print_run(client.inspect(run_id, with_input=with_input), as_json=as_json)


@app.command("trace")
def trace(
    run_id: RunId,
    start: Annotated[int, typer.Option("--from", min=0, help="Leave out so many steps.")] = 0,
    limit: Limit = 20,
    url: Url = URL_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Show the steps that a run has finished."""
    with output.calling(url, timeout, as_json=as_json) as client:
        page = client.trace(run_id, start=start, limit=limit)
        if as_json:
            output.print_json(page)
            return
        for entry in page["trace"]:
            output.print_step(entry)
        if page["next_start"] is not None:
            output.console().print(
                f"{page['total']} in all; more: wf run trace {run_id} --from {page['next_start']}", style="dim"
            )


app.command("events")(events)
app.command("progress")(checks.progress)
app.command("audit")(checks.audit)


@app.command("resume")
def resume(
    run_id: RunId,
    payload: Annotated[str | None, typer.Option("--payload", help="The answer as JSON.", metavar="JSON")] = None,
    payload_file: Annotated[
        Path | None, typer.Option("--payload-file", help="A file with the answer as JSON; - reads standard input.")
    ] = None,
    outcome: Annotated[str, typer.Option("--outcome", help="Which of its outcomes.")] = "submitted",
    interrupt: Annotated[
        str | None, typer.Option("--interrupt", help="The key of the interrupt, where several are open.", metavar="KEY")
    ] = None,
    idempotency_key: Annotated[
        str | None, typer.Option("--idempotency-key", help="Makes it safe to send the answer again; needs --interrupt.")
    ] = None,
    wait: Wait = 0,
    url: Url = URL_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Answer an interrupt.

    Example: wf run resume 5c1f --outcome approved --payload '{"note": "fine"}'
    """
    answer = _json_object("--payload", payload, payload_file)
    with output.calling(url, timeout, as_json=as_json) as client:
        started = time.monotonic()
        run = client.resume(
            run_id,
            answer,
            outcome,
            interrupt_key=interrupt,
            idempotency_key=idempotency_key,
            wait_seconds=min(wait, MAX_WAIT_SECONDS),
        )
        _waited(client, run, wait, started, as_json=as_json)


@app.command("watch")
def watch(
    run_id: RunId,
    interval: Annotated[
        float, typer.Option("--interval", min=0.05, help="Seconds between two looks.")
    ] = _FIRST_INTERVAL,
    seconds: Annotated[
        float | None, typer.Option("--for", min=0, metavar="SECONDS", help="Give up after this time (exit code 5).")
    ] = None,
    until: Annotated[
        str, typer.Option("--until", help="'settled': it has ended or asks for something; 'ended': it has ended.")
    ] = "settled",
    url: Url = URL_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Follow a run: every step it finishes, until it has ended or asks for something."""
    if until not in ("settled", "ended"):
        output.usage(f"--until {until} is not possible", "use settled or ended")
    with output.calling(url, timeout, as_json=as_json) as client:
        started = time.monotonic()
        shown = 0
        while True:
            run = client.inspect(run_id)
            if not as_json:
                shown = _print_steps(client, run, shown)
            if reached(run, until):
                break
            left = None if seconds is None else started + seconds - time.monotonic()
            if left is not None and left <= 0:
                raise WaitTimeout(run, seconds or 0)
            time.sleep(interval if left is None else min(interval, left))
        output.print_run(run, as_json=as_json)
        _end_for(run)


@app.command("cancel")
def cancel(
    run_id: RunId,
    reason: Annotated[str | None, typer.Option("--reason", help="Why; it is kept with the run.")] = None,
    url: Url = URL_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """End a run at once."""
    with output.calling(url, timeout, as_json=as_json) as client:
        answer = client.cancel(run_id, reason=reason)
        if as_json:
            output.print_json(answer)
        elif answer["changed"]:
            output.console().print(f"run {run_id} is cancelled", markup=False)
        else:
            output.console().print(f"run {run_id} had ended before: {answer['status']}", markup=False)


@app.command("pause")
def pause(run_id: RunId, url: Url = URL_DEFAULT, timeout: Timeout = TIMEOUT_DEFAULT, as_json: AsJson = False) -> None:
    """Begin nothing new in a run; running handlers commit."""
    with output.calling(url, timeout, as_json=as_json) as client:
        output.print_run(client.pause(run_id), as_json=as_json)


@app.command("unpause")
def unpause(run_id: RunId, url: Url = URL_DEFAULT, timeout: Timeout = TIMEOUT_DEFAULT, as_json: AsJson = False) -> None:
    """Go on with a paused run."""
    with output.calling(url, timeout, as_json=as_json) as client:
        output.print_run(client.unpause(run_id), as_json=as_json)


@app.command("retry")
def retry(
    run_id: RunId,
    max_steps: Annotated[int | None, typer.Option("--max-steps", min=1, help="A new step budget.")] = None,
    wait: Wait = 0,
    url: Url = URL_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Go on with a failed run: its failed steps are tried anew, what has finished stays."""
    with output.calling(url, timeout, as_json=as_json) as client:
        started = time.monotonic()
        _waited(client, client.retry(run_id, max_steps=max_steps), wait, started, as_json=as_json)


NewRunId = Annotated[str | None, typer.Option("--run-id", help="An id of your own for the new run.")]
Patch = Annotated[
    str | None, typer.Option("--patch", metavar="JSON", help="New values of state fields, as a JSON object.")
]
MaxSteps = Annotated[int | None, typer.Option("--max-steps", min=1, help="A new step budget.")]
CopyKey = Annotated[str | None, typer.Option("--idempotency-key", help="The same key makes the same run once.")]


@app.command("fork")
def fork(
    run_id: RunId,
    new_run_id: NewRunId = None,
    patch: Patch = None,
    max_steps: MaxSteps = None,
    idempotency_key: CopyKey = None,
    wait: Wait = 0,
    url: Url = URL_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Make a new run that goes on from where one at rest stands.

    Example: wf run fork 5c1f --patch '{"total": 3}'
    """
    fields = _json_object("--patch", patch, None)
    with output.calling(url, timeout, as_json=as_json) as client:
        started = time.monotonic()
        run = client.fork(
            run_id,
            new_run_id=new_run_id,
            patch=fields,
            max_steps=max_steps,
            idempotency_key=idempotency_key,
            wait_seconds=min(wait, MAX_WAIT_SECONDS),
        )
        _waited(client, run, wait, started, as_json=as_json)


@app.command("rerun")
def rerun(
    run_id: RunId,
    step: Annotated[str, typer.Option("--from", metavar="STEP", help="Where it begins: a step outside every loop.")],
    new_run_id: NewRunId = None,
    patch: Patch = None,
    max_steps: MaxSteps = None,
    idempotency_key: CopyKey = None,
    wait: Wait = 0,
    url: Url = URL_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Make a new run that begins at a step of another one, with the state as it was when that first came there.

    Example: wf run rerun 5c1f --from charge
    """
    fields = _json_object("--patch", patch, None)
    with output.calling(url, timeout, as_json=as_json) as client:
        started = time.monotonic()
        run = client.rerun(
            run_id,
            step,
            new_run_id=new_run_id,
            patch=fields,
            max_steps=max_steps,
            idempotency_key=idempotency_key,
            wait_seconds=min(wait, MAX_WAIT_SECONDS),
        )
        _waited(client, run, wait, started, as_json=as_json)


def _waited(client: WorkflowClient, run: RunView, seconds: float, started: float, *, as_json: bool) -> None:
    """Prints the run. A wait goes on here after the server's part of it, and decides the exit code."""
    if seconds and not reached(run, "settled"):
        try:
            run = client.wait(run["run_id"], timeout=max(0.0, started + seconds - time.monotonic()))
        except WaitTimeout as late:
            output.print_run(late.run, as_json=as_json)
            raise WaitTimeout(late.run, seconds) from late
    output.print_run(run, as_json=as_json)
    if seconds:
        _end_for(run)


def _end_for(run: RunView) -> None:
    if run["status"] in ("failed", "cancelled"):
        raise typer.Exit(output.RUN_FAILED)


def _print_steps(client: WorkflowClient, run: RunView, shown: int) -> int:
    while shown < run["trace_count"]:
        page = client.trace(run["run_id"], start=shown, limit=100)
        for entry in page["trace"]:
            output.print_step(entry)
        shown += len(page["trace"])
        if page["next_start"] is None:
            break
    return shown


def tags_of(pairs: list[str] | None) -> dict[str, str]:
    """Tags as they are written on the command line."""
    tags: dict[str, str] = {}
    for pair in pairs or []:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            output.usage(f"--tag {pair!r} is no tag", "write --tag team=blue")
        tags[name] = value
    return tags


def _json_object(option: str, text: str | None, file: Path | None) -> dict[str, Any]:
    """The value of a JSON option or of its file twin; nothing is sent when it is wrong."""
    if text is not None and file is not None:
        output.usage(f"{option} and {option}-file exclude each other")
    if file is not None:
        data = _read(file)
    elif text is not None:
        data = text.encode("utf-8", "surrogatepass")
    else:
        return {}
    try:
        value = strict_json.decode(data)
    except strict_json.JsonRefused as error:
        output.usage(f"{option}: {error.message}", error.hint)
    if not isinstance(value, dict):
        output.usage(f"{option} must be a JSON object", """for example '{"title": "Q3"}'""")
    return value


def _read(file: Path) -> bytes:
    try:
        return sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        output.usage(f"{file} cannot be read: {error.strerror or error}")
