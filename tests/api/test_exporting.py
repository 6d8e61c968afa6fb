"""A whole run as JSON Lines: over HTTP, both clients, the command line, and back into the engine in memory."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.api.conftest import Api
from tests.api.test_cli import here
from tests.api.workflows import APPROVAL, DOUBLE, SIGNATURES
from wf_api.client import AsyncWorkflowClient, WorkflowApiError, WorkflowClient
from wf_api.client.calls import ExportedLines
from wf_api.services.exports import ExportService
from wf_core.models import Workflow
from wf_core.run_export import ExportInvalid, load_exported_run, read_export
from wf_core.run_state import RunStatus
from wf_core.runtime import resume_workflow
from wf_worker.settings import Settings


def asking(api: Api, title: str = "Q3") -> dict[str, Any]:
    api.publish(APPROVAL)
    return api.start("approval", input={"title": title}, run_id="first")


def test_an_exported_run_is_answered_in_memory_with_the_same_output(api: Api, client: WorkflowClient) -> None:
    asking(api)
    lines = list(client.export("first"))

    run = load_exported_run(lines)
    ended = resume_workflow(
        Workflow.model_validate(APPROVAL), run, {}, resume_payload={"note": "fine"}, resume_outcome="approved"
    )

    served = client.resume("first", {"note": "fine"}, "approved")
    assert (ended.status, ended.outcome, ended.output) == (RunStatus.COMPLETED, served["outcome"], served["output"])


def test_an_export_holds_its_run_its_workflow_and_every_trace_entry(api: Api, client: WorkflowClient) -> None:
    api.publish(DOUBLE)
    run_id = api.start("double", input={"n": 2})["run_id"]

    response = api.get(f"/v1/runs/{run_id}/export")
    records = list(read_export(response.text.splitlines()))

    assert (response.status_code, response.headers["content-type"]) == (200, "application/jsonl")
    kinds = [record["kind"] for record in records]
    assert (kinds[0], kinds[-1], records[-1]["lines"]) == ("header", "end", len(records))
    assert records[0]["run"] == client.inspect(run_id, with_input=True)
    [workflow] = [record for record in records if record["kind"] == "workflow"]
    assert workflow["document"]["name"] == "double" and workflow["ref"] is None
    trace = [{k: v for k, v in record.items() if k != "kind"} for record in records if record["kind"] == "trace"]
    assert trace == client.trace(run_id)["trace"]
    run = load_exported_run(response.text.splitlines())
    assert (run.status, run.output, run.state["result"]) == (RunStatus.COMPLETED, {"result": 4}, 4)


def test_a_text_with_any_end_of_line_in_it_stays_one_line(api: Api, client: WorkflowClient) -> None:
    title = "a\u2028b\u0085c\r\nd\x0be"
    asking(api, title)

    assert load_exported_run(client.export("first")).workflow_input == {"title": title}


def test_a_run_that_moves_is_not_exported(api: Api, client: WorkflowClient) -> None:
    api.publish(DOUBLE)
    run_id = client.start("double", {"n": 1})["run_id"]

    with pytest.raises(WorkflowApiError) as refused:
        list(client.export(run_id))
    assert (refused.value.http_status, refused.value.code) == (409, "run_not_at_rest")
    with pytest.raises(WorkflowApiError) as missing:
        list(client.export("nobody"))
    assert (missing.value.http_status, missing.value.code) == (404, "run_not_found")

    client.pause(run_id)
    assert load_exported_run(client.export(run_id)).status is RunStatus.RUNNING


def test_a_run_that_moves_while_it_is_exported_is_said_to_have_moved(
    api: Api, client: WorkflowClient, settings: Settings
) -> None:
    api.publish(SIGNATURES)
    run_id = api.start("signatures", input={"people": [f"person {i} " + "x" * 3_000 for i in range(40)]})["run_id"]
    pieces = ExportService(api.store, api.worker.publish, settings).export_run(run_id)
    lines = ExportedLines()
    read = lines.lines(next(pieces))

    opened = client.interrupts(run_id)["interrupts"][0]
    client.resume(run_id, {"name": "Ann"}, interrupt_key=opened["interrupt_key"])

    with pytest.raises(WorkflowApiError) as refused:
        for piece in pieces:
            read += lines.lines(piece)
    assert refused.value.code == "run_not_at_rest"
    with pytest.raises(ExportInvalid) as broken:
        load_exported_run(read)
    assert broken.value.code == "export_incomplete"


def test_an_export_that_breaks_off_is_not_taken_for_a_whole_one() -> None:
    lines = ExportedLines()
    assert lines.lines(b'{"kind":"header"}\n{"kind":"fr') == ['{"kind":"header"}']

    with pytest.raises(WorkflowApiError) as refused:
        lines.ended()
    assert refused.value.code == "export_incomplete"


def test_the_asynchronous_client_exports_too(api: Api, client: WorkflowClient) -> None:
    asking(api)

    async def exported() -> list[str]:
        async with AsyncWorkflowClient(api.url) as asynchronous:
            return [line async for line in asynchronous.export("first")]

    assert asyncio.run(exported()) == list(client.export("first"))


def test_nobody_there_is_said_so() -> None:
    with WorkflowClient("http://127.0.0.1:9") as client, pytest.raises(WorkflowApiError) as refused:
        list(client.export("first"))
    assert refused.value.code == "server_unreachable"


def test_a_file_shows_the_run_as_the_server_would(api: Api, tmp_path: Path) -> None:
    asking(api)
    file = tmp_path / "run.jsonl"

    written = here("run", "export", "first", "-o", str(file), url=api.url)
    printed = here("run", "export", "first", url=api.url)
    shown = [here("run", "inspect", *which, url=api.url) for which in (["first"], ["--file", str(file)])]
    as_json = [here("run", "inspect", *which, "--json", url=api.url) for which in (["first"], ["--file", str(file)])]

    assert (written.exit_code, printed.exit_code) == (0, 0)
    assert file.read_text(encoding="utf-8") == printed.stdout
    assert shown[0].stdout == shown[1].stdout and "waits for" in shown[1].stdout
    assert json.loads(as_json[0].stdout) == json.loads(as_json[1].stdout)
    assert list(tmp_path.iterdir()) == [file]


def test_a_file_is_shown_without_a_server(api: Api, tmp_path: Path) -> None:
    asking(api)
    file = tmp_path / "run.jsonl"
    here("run", "export", "first", "-o", str(file), url=api.url)

    shown = here("run", "inspect", "--file", str(file), "--input", url="http://127.0.0.1:9")

    assert shown.exit_code == 0 and "Q3" in shown.stdout


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "no export"),
        ("{}\n", "no record"),
        ("nonsense\n", "no JSON"),
        ('{"kind":"header","format":9}\n', "format 1"),
    ],
)
def test_a_file_that_is_no_export_is_refused(tmp_path: Path, content: str, says: str) -> None:
    file = tmp_path / "run.jsonl"
    file.write_text(content)

    shown = here("run", "inspect", "--file", str(file), url="http://127.0.0.1:9")

    assert shown.exit_code == 2 and says in shown.stderr


def test_a_file_that_breaks_off_is_refused(api: Api, tmp_path: Path) -> None:
    asking(api)
    file = tmp_path / "run.jsonl"
    here("run", "export", "first", "-o", str(file), url=api.url)
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:-1]))

    shown = here("run", "inspect", "--file", str(file), url=api.url)

    assert shown.exit_code == 2 and "breaks off" in shown.stderr


def test_an_export_that_fails_leaves_no_file(api: Api, tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    file.write_text("what was there")

    refused = here("run", "export", "nobody", "-o", str(file), url=api.url)

    assert refused.exit_code == 1 and "run_not_found" in refused.stderr
    assert [path.read_text() for path in tmp_path.iterdir()] == ["what was there"]


def test_inspect_wants_a_run_or_a_file(tmp_path: Path) -> None:
    neither = here("run", "inspect", url="http://127.0.0.1:9")
    both = here("run", "inspect", "first", "--file", str(tmp_path / "x"), url="http://127.0.0.1:9")
    gone = here("run", "inspect", "--file", str(tmp_path / "x"), url="http://127.0.0.1:9")

    assert (neither.exit_code, both.exit_code, gone.exit_code) == (2, 2, 2)
