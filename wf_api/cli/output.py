"""What commands print, and the exit codes they end with."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any, Final, NoReturn

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from wf_api.cli.modules import ModuleError
from wf_api.client import WaitTimeout, WorkflowApiError, WorkflowClient
from wf_api.wire import InterruptView, Origin, RunView, TraceEntryView
from wf_core.errors import WfError

FAILED: Final = 1
USAGE: Final = 2
NO_SUCCESS: Final = 3
"""The answer came and is printed, but it is not what was asked for: an invalid workflow, a conflict."""

RUN_FAILED: Final = 4
"""A run that was waited for ended failed or cancelled."""

TIMED_OUT: Final = 5
"""A wait ran out of time."""

_WIDE: Final = 10_000
"""Columns where nobody looks at a screen: nothing is cut off before a pipe."""

_PLACEHOLDERS: Final[Mapping[object, Any]] = {
    "string": "...",
    "integer": 0,
    "number": 0,
    "boolean": True,
    "array": [],
    "null": None,
}
_SKELETON_DEPTH: Final = 8

_COLOURS: Final = {
    "pending": "cyan",
    "running": "blue",
    "interrupted": "yellow",
    "completed": "green",
    "failed": "red",
    "cancelled": "magenta",
}


def console(*, stderr: bool = False) -> Console:
    """A console for the present streams."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, highlight=False, soft_wrap=True, width=None if stream.isatty() else _WIDE)


@contextmanager
def calling(url: str, timeout: float, *, as_json: bool) -> Iterator[WorkflowClient]:
    """A client; what it raises is printed and becomes the exit code."""
    try:
        with WorkflowClient(url, timeout) as client:
            yield client
    except WorkflowApiError as error:
        refused(error, as_json=as_json)
    except WaitTimeout as timeout_error:
        complain(timeout_error.message, timeout_error.hint)
        raise typer.Exit(TIMED_OUT) from None
    except (WfError, ValueError) as error:
        message, hint = (error.message, error.hint) if isinstance(error, WfError) else (str(error), None)
        complain(message, hint)
        raise typer.Exit(USAGE) from None


@contextmanager
def expected_errors() -> Iterator[None]:
    """What somebody did wrongly is said in two lines, not in a traceback."""
    try:
        yield
    except WorkflowApiError as error:
        refused(error, as_json=False)
    except ModuleError as error:
        usage(error.message, error.hint)
    except WfError as error:
        complain(error.message, error.hint)
        raise typer.Exit(FAILED) from None


def refused(error: WorkflowApiError, *, as_json: bool) -> NoReturn:
    """Prints an error of the API. Conflicts and invalid workflows are answers, everything else is a failure."""
    if as_json:
        envelope: dict[str, Any] = {**error.as_dict(), "http_status": error.http_status}
        if error.details:
            envelope["details"] = error.details
        print_json({"error": envelope})
    else:
        issues = error.details.get("issues")
        if isinstance(issues, list) and issues:
            complain("the workflow is invalid" if error.code == "workflow_invalid" else "the request is invalid")
            out = console(stderr=True)
            for issue in issues:
                out.print(
                    Text(f"  {issue['path'] or '.'}: {issue['message']}"), Text(f"    {issue['hint']}", "dim"), sep="\n"
                )
        else:
            complain(f"{error.message} [{error.code}]", error.hint)
            for key in error.details.get("interrupt_keys", []):
                console(stderr=True).print(Text(f"  {key}"))
    conflict = error.http_status == 409 or error.code == "workflow_invalid"
    raise typer.Exit(NO_SUCCESS if conflict else FAILED)


def complain(message: str, hint: str | None = None) -> None:
    """An error for people, on the error stream."""
    out = console(stderr=True)
    out.print(Text("error: ", "bold red") + Text(message))
    if hint:
        out.print(Text(f"hint: {hint}", "dim"))


def usage(message: str, hint: str | None = None) -> NoReturn:
    """Ends a command that was called wrongly."""
    complain(message, hint)
    raise typer.Exit(USAGE)


def print_json(value: Any) -> None:
    """Two blanks of indent, keys sorted."""
    typer.echo(json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """A table; cells are texts, never markup."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for i, column in enumerate(columns):
        # The first column is what other commands take: it is never cut off.
        longest = max([len(column), *(len(str(row[0])) for row in rows)]) if i == 0 else None
        table.add_column(column, min_width=longest, overflow="fold")
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(str(cell)) for cell in row))
    console().print(table)


def print_fields(fields: Mapping[str, Any]) -> None:
    """Names and values, one pair a line; None is left out."""
    shown = {name: value for name, value in fields.items() if value is not None}
    width = max(map(len, shown))
    out = console()
    for name, value in shown.items():
        text = (
            value
            if isinstance(value, Text)
            else Text(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        )
        out.print(Text(f"{name:<{width}}  ", "bold") + text)


def status_text(status: str) -> Text:
    """A status in its colour."""
    return Text(status, _COLOURS.get(status, ""))


def print_run(run: RunView, *, as_json: bool) -> None:
    """A run with what it waits for."""
    if as_json:
        print_json(run)
        return
    print_fields(
        {
            "run": run["run_id"],
            "workflow": f"{run['workflow']} {run['version']}".strip(),
            "status": status_text(run["status"] + (" (paused)" if run["paused"] else "")),
            "outcome": run["outcome"],
            "output": run["output"],
            "error": None if run["error"] is None else error_text(run),
            "input": run.get("input"),
            "steps": f"{run['steps_executed']} of {run['limits']['max_steps']}",
            "waits until": run["waits_until"],
            "no worker serves": ", ".join(f"{name} ({count})" for name, count in run["parked"].items()) or None,
            "deadline": run["deadline_at"],
            "made from": None if run["forked_from"] is None else origin_text(run["forked_from"]),
            "created": run["created_at"],
            "ended": run["ended_at"],
        }
    )
    for interrupt in run["interrupts"]:
        print_interrupt(run["run_id"], interrupt, alone=len(run["interrupts"]) == 1)


def origin_text(origin: Origin) -> str:
    """The run that another one was made from, in a line."""
    return origin["run_id"] + (f", step {origin['step']}" if origin["step"] else ", as it stood")


def error_text(run: RunView) -> str:
    """Why a run stopped, in a line."""
    error = run["error"]
    assert error is not None
    where = f" at {error['node_id']}" if error["node_id"] else ""
    return f"{error['type']}{where}: {error['message']}"


def print_interrupt(run_id: str, interrupt: InterruptView, *, alone: bool) -> None:
    """An open interrupt and the command that answers it."""
    out = console()
    out.print()
    out.print(Text("waits for ", "yellow") + Text(f"{interrupt['kind']}  {interrupt['interrupt_key']}", "bold"))
    out.print(Text("  asks     " + json.dumps(interrupt["payload"], ensure_ascii=False)))
    if interrupt["typed"]:
        out.print(Text("  expects  " + json.dumps(interrupt["resume_schema"], ensure_ascii=False)))
    out.print(Text("  outcomes " + ", ".join(interrupt["outcomes"])))
    which = "" if alone else f" --interrupt '{interrupt['interrupt_key']}'"
    outcome = interrupt["outcomes"][0] if interrupt["outcomes"] else "submitted"
    payload = shlex.quote(json.dumps(_skeleton(interrupt["resume_schema"]), ensure_ascii=False))
    out.print(Text(f"  answer:  wf run resume {run_id}{which} --outcome {outcome} --payload {payload}", "dim"))


def _skeleton(schema: Any) -> dict[str, Any]:
    """An object with the fields that a schema requires, to be filled in."""
    filled = _filled(schema, schema, 0)
    return filled if isinstance(filled, dict) else {}


def _filled(schema: Any, document: Any, depth: int) -> Any:
    """A value of about the kind that a schema asks for."""
    if not isinstance(schema, dict) or depth > _SKELETON_DEPTH:
        return "..."
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    if isinstance(schema.get("enum"), list) and schema["enum"]:
        return schema["enum"][0]
    if isinstance(schema.get("$ref"), str):
        return _filled(_referred(schema["$ref"], document), document, depth + 1)
    for key in ("allOf", "anyOf", "oneOf"):
        if isinstance(schema.get(key), list) and schema[key] and "properties" not in schema:
            return _filled(schema[key][0], document, depth + 1)
    kind = schema.get("type", "object" if "properties" in schema or "required" in schema else None)
    kind = next((each for each in kind if each != "null"), "null") if isinstance(kind, list) else kind
    if kind == "object":
        properties = schema.get("properties", {})
        return {name: _filled(properties.get(name), document, depth + 1) for name in schema.get("required", [])}
    return copy(_PLACEHOLDERS.get(kind, "..."))


def _referred(reference: str, document: Any) -> Any:
    """The part of a schema that a reference within it names; None for other references."""
    if not reference.startswith("#"):
        return None
    for part in reference.removeprefix("#").split("/")[1:]:
        document = document.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(document, dict) else None
    return document


def print_step(entry: TraceEntryView) -> None:
    """One finished step, or a result that came too late, in a line."""
    changes = ", ".join(change["path"] for change in entry["state_changes"])
    line = Text(f"{entry['step_number']:>5}  ", "dim") + Text(f"{entry['node_id']} ", "bold")
    if entry["discarded"] is None:
        line += Text(f"{entry['step_type']}  {entry['outcome']} -> {entry['next_node_id']}")
    else:
        line += Text(f"{entry['step_type']}  result discarded: {entry['discarded']}", "yellow")
    if changes:
        line += Text(f"  {changes}", "dim")
    console().print(line)
