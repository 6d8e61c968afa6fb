"""``wf run events``: what happens to a run, a line for each event."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Annotated

import typer
from rich.text import Text

from wf_api.cli import output
from wf_api.cli.options import TIMEOUT_DEFAULT, URL_DEFAULT, AsJson, RunId, Timeout, Url
from wf_api.client import WorkflowClient
from wf_api.wire import RunEventView

_ANSWERED = {"answered": "was answered", "expired": "has expired"}


def events(
    run_id: RunId,
    after: Annotated[str | None, typer.Option("--after", metavar="ID", help="Go on behind this event.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Stay until the run has ended.")] = False,
    url: Url = URL_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Show what happened to a run, in order: its status, finished steps, interrupts, failed attempts.

    With --json each event is one line of JSON. With --follow the exit code says how the run ended.

    Example: wf run events 5c1f --follow
    """
    with output.calling(url, timeout, as_json=as_json) as client:
        last: RunEventView | None = None
        for last in client.events(run_id, after=after) if follow else _so_far(client, run_id, after):
            if as_json:
                typer.echo(json.dumps(last, ensure_ascii=False, sort_keys=True))
            else:
                output.console().print(event_line(last))
        if follow and last is not None and last.get("status") in ("failed", "cancelled"):
            raise typer.Exit(output.RUN_FAILED)


def _so_far(client: WorkflowClient, run_id: str, after: str | None) -> Iterator[RunEventView]:
    """Every event that there is now."""
    while True:
        page = client.event_page(run_id, after=after, limit=100)
        yield from page["events"]
        if len(page["events"]) < page["limit"]:
            return
        after = page["last_id"]


def event_line(event: RunEventView) -> Text:
    """One event in a line: id, time, what happened."""
    head = Text(f"{event['id'] or '':>16}  {event['at'] or '':<24}  ", "dim")
    return head + Text(" ").join(_said(event))


def _said(event: RunEventView) -> Iterable[Text]:
    if event["kind"] == "gap":
        yield Text(f"{event.get('skipped')} earlier events are no longer kept", "yellow")
        return
    if "node_id" not in event:
        yield output.status_text(event["status"]) if "status" in event else Text(event["kind"], "cyan")
        return
    node = event["node_id"] or "?"
    where = f"{node}[{event['index']}]" if "index" in event else node
    yield Text(f"{event.get('step_number') or '':>5}", "dim")
    yield Text(where, "bold")
    yield from _at_step(event)


def _at_step(event: RunEventView) -> Iterable[Text]:
    match event["kind"]:
        case "step":
            yield Text(f"{event.get('outcome')} -> {event.get('next_node_id') or 'end'}")
        case "foreach_opened":
            yield Text(f"opens {event.get('items')} items")
        case "interrupt_opened":
            yield Text("asks", "yellow")
            yield Text(str(event.get("interrupt_key")), "dim")
        case "interrupt_closed":
            yield Text(_ANSWERED[event.get("answer", "answered")])
            yield Text(str(event.get("interrupt_key")), "dim")
        case "attempt_failed":
            yield Text(f"attempt {event.get('attempt')} failed: {event.get('cause')}", "magenta")
        case "item_failed":
            yield Text("failed, its loop goes on", "magenta")
        case _:
            yield Text("failed", "red")
