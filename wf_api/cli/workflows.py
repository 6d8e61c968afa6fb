"""``wf workflow``: publish workflows and look at them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wf_api import strict_json
from wf_api.cli import output
from wf_api.cli.modules import ModuleError
from wf_api.cli.options import TIMEOUT_DEFAULT, URL_DEFAULT, AsJson, Cursor, Limit, Timeout, Url
from wf_api.cli.served import load_attribute
from wf_api.client.calls import WorkflowLike
from wf_api.wire import PublishedView
from wf_core.authoring import WorkflowBuilder
from wf_core.models.workflow import Workflow

app = typer.Typer(no_args_is_help=True, help="Publish workflows and look at them.")


@app.command("publish")
def publish(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE|MODULE:NAME",
            help="A JSON file, or a workflow in a Python module or file.",
            show_default=False,
        ),
    ],
    version: Annotated[str | None, typer.Option("--version", help="Its version; the next number if not given.")] = None,
    url: Url = URL_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Publish a workflow, and before it the children that its builder has prepared.

    Examples: wf workflow publish report.json, wf workflow publish my_flows:report
    """
    workflow = _workflow_from(source)
    with output.calling(url, timeout, as_json=as_json) as client:
        # A run is refused while a workflow that it enters is not there.
        children = workflow.prepared_subgraphs() if isinstance(workflow, WorkflowBuilder) else ()
        for child in children:
            _say(client.publish(child), as_json=as_json)
        published = client.publish(workflow, version)
        if as_json:
            output.print_json(published)
        _say(published, as_json=as_json)


def _say(published: PublishedView, *, as_json: bool) -> None:
    if not as_json:
        word = "published" if published["created"] else "unchanged:"
        line = f"{word} {published['name']} {published['version']}  {published['digest']}"
        output.console().print(line, markup=False)


@app.command("list")
def list_workflows(
    limit: Limit = 50,
    cursor: Cursor = None,
    url: Url = URL_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """List published workflows."""
    with output.calling(url, timeout, as_json=as_json) as client:
        page = client.list_workflows(cursor=cursor, limit=limit)
        if as_json:
            output.print_json(page)
            return
        output.print_table(
            ["WORKFLOW", "LATEST", "VERSIONS"], [[w["name"], w["latest"], w["versions"]] for w in page["workflows"]]
        )
        if page["next_cursor"]:
            output.console().print(f"more: wf workflow list --cursor {page['next_cursor']}", style="dim")


@app.command("inspect")
def inspect(
    name: Annotated[str, typer.Argument(metavar="WORKFLOW", help="The workflow's name.", show_default=False)],
    version: Annotated[str | None, typer.Option("--version", help="Show this version's steps.")] = None,
    url: Url = URL_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Show a workflow: its latest version, or the one that is named."""
    with output.calling(url, timeout, as_json=as_json) as client:
        shown = client.workflow(name, version or "latest")
        if as_json:
            output.print_json(shown)
            return
        document = shown["workflow"]
        output.print_fields(
            {
                "workflow": name,
                "version": shown["version"],
                "digest": shown["digest"],
                "input": document["input_schema"],
                "output": document["output_schema"],
                "outcomes": ", ".join(document["outcomes"]),
                "start": document["start"],
            }
        )
        output.console().print()
        routes: dict[str, list[str]] = {}
        for edge in document["edges"]:
            routes.setdefault(edge["from"], []).append(f"{edge['outcome']} -> {edge['to']}")
        output.print_table(
            ["STEP", "TYPE", "ROUTES"],
            [[step["id"], step["type"], ", ".join(routes.get(step["id"], []))] for step in document["nodes"]],
        )


def _workflow_from(source: str) -> WorkflowLike:
    path = Path(source)
    if path.is_file() or path.suffix == ".json":
        return _from_file(path)
    if ":" not in source:
        output.usage(f"there is no file {source}", "name a JSON file, or a workflow as module:name or file.py:name")
    try:
        found = load_attribute(source)
    except ModuleError as error:
        output.usage(error.message, error.hint)
    workflow = found() if callable(found) and not isinstance(found, WorkflowBuilder) else found
    if not isinstance(workflow, WorkflowBuilder | Workflow | dict):
        output.usage(f"{source} is a {type(workflow).__name__}", "name a WorkflowBuilder, a Workflow or a dict")
    return workflow


def _from_file(path: Path) -> WorkflowLike:
    try:
        value = strict_json.decode(path.read_bytes())
    except OSError as error:
        output.usage(f"{path} cannot be read: {error.strerror or error}")
    except strict_json.JsonRefused as error:
        output.usage(f"{path}: {error.message}", error.hint)
    if not isinstance(value, dict):
        output.usage(f"{path} holds no JSON object", "a workflow is an object with name, nodes, edges and schemas")
    return value
