"""The command ``wf`` as a process: what it prints and how it ends."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.api.conftest import Api
from tests.api.workflows import APPROVAL, DOUBLE, SIGNATURES, TWO_QUESTIONS
from wf_api.cli.main import build_app
from wf_api.cli.stack import free_port

FLOWS = """
from wf_core.authoring import NodeReturn, Nothing, WorkflowBuilder, node, outcome
from wf_core.models.workflow import Workflow

document = {document!r}
model = Workflow.model_validate(document)

def build():
    return WorkflowBuilder.from_workflow(model)

number = 7
"""


def wf(
    *args: str, url: str | None = None, cwd: Path | None = None, stdin: str | None = None
) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("WF_")}
    if url is not None:
        env["WF_API_URL"] = url
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "wf_api.cli.main", *args],
        capture_output=True,
        text=True,
        env=env,
        cwd=cwd,
        input=stdin,
        timeout=60,
    )


def here(*args: str, url: str) -> Result:
    """The same command without a process of its own."""
    return CliRunner().invoke(build_app(), args, env={"WF_API_URL": url})


def test_a_run_is_published_started_watched_and_answered(api: Api, tmp_path: Path) -> None:
    file = tmp_path / "approval.json"
    file.write_text(json.dumps(APPROVAL))

    published = wf("workflow", "publish", str(file), url=api.url)
    with api.worker.serving():
        started = wf(
            "run", "start", "approval", "--input", '{"title": "Q3"}', "--run-id", "r1", "--wait", "30", url=api.url
        )
        answered = wf(
            "run",
            "resume",
            "r1",
            "--outcome",
            "approved",
            "--payload",
            '{"note": "ok"}',
            "--wait",
            "30",
            "--json",
            url=api.url,
        )
        watched = wf("run", "watch", "r1", "--for", "30", url=api.url)

    assert (published.returncode, started.returncode, answered.returncode, watched.returncode) == (0, 0, 0, 0)
    assert "published approval 1" in published.stdout
    assert "interrupt:ask#1" in started.stdout and "wf run resume r1" in started.stdout
    run = json.loads(answered.stdout)
    assert (run["status"], run["output"]) == ("completed", {"note": "ok"})
    assert answered.stdout == json.dumps(run, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    assert "approved -> __end__" in watched.stdout and "completed" in watched.stdout


def test_every_looking_command_speaks_to_people_and_to_programs(api: Api) -> None:
    api.publish(DOUBLE)
    api.start("double", input={"n": 21}, run_id="r1")
    commands = {
        ("run", "list"): "r1",
        ("run", "list", "--status", "completed", "--limit", "1"): "completed",
        ("run", "inspect", "r1", "--input"): '{"result": 42}',
        ("run", "trace", "r1"): "twice",
        ("workflow", "list"): "double",
        ("workflow", "inspect", "double"): "ok -> __end__",
    }
    for command, expected in commands.items():
        people, program = here(*command, url=api.url), here(*command, "--json", url=api.url)
        assert (people.exit_code, program.exit_code) == (0, 0), people.output + program.output
        assert expected in people.stdout
        assert isinstance(json.loads(program.stdout), dict)


def test_the_input_may_come_from_a_file_or_a_pipe(api: Api, tmp_path: Path) -> None:
    api.publish(DOUBLE)
    (tmp_path / "in.json").write_text('{"n": 1}')

    file = wf("run", "start", "double", "--input-file", "in.json", url=api.url, cwd=tmp_path)
    pipe = wf("run", "start", "double", "--input-file", "-", url=api.url, stdin='{"n": 2}')

    assert (file.returncode, pipe.returncode) == (0, 0), file.stderr + pipe.stderr
    assert api.get("/v1/runs").json()["total"] == 2


@pytest.mark.parametrize("name", ["flows:document", "flows:model", "flows:build", "flows.py:model"])
def test_a_workflow_is_published_from_python(api: Api, tmp_path: Path, name: str) -> None:
    (tmp_path / "flows.py").write_text(FLOWS.format(document=DOUBLE))

    done = wf("workflow", "publish", name, "--json", url=api.url, cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["name"] == "double"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["run", "start"], "Missing argument"),
        (["run", "start", "double", "--nonsense"], "No such option"),
        (["run", "start", "double", "--input", "{"], "--input: the text is not JSON"),
        (["run", "start", "double", "--input", '{"a": NaN}'], "not a finite number"),
        (["run", "start", "double", "--input", '{"a": 1, "a": 2}'], "given twice"),
        (["run", "start", "double", "--input", "[]"], "must be a JSON object"),
        (["run", "start", "double", "--input", "{}", "--input-file", "x"], "exclude each other"),
        (["run", "start", "double", "--input-file", "nowhere.json"], "cannot be read"),
        (["run", "watch", "r1", "--until", "later"], "--until"),
        (["run", "list", "--limit", "0"], "--limit"),
        (["workflow", "publish", "nowhere.json"], "cannot be read"),
        (["workflow", "publish", "nowhere"], "no file nowhere"),
        (["workflow", "publish", "no_such_module:x"], "no module"),
        (["workflow", "publish", "flows.py:absent"], "has no 'absent'"),
        (["workflow", "publish", "flows.py:number"], "is a int"),
        (["workflow", "publish", "flows.py:needy"], "it needs a, b hint: name a workflow"),
        (["workflow", "publish", "flows.py:faulty"], "ZeroDivisionError: division by zero"),
        (["workflow", "publish", "broken.py:x"], "No module named 'no_such_thing'"),
        (["worker"], "what it serves"),
        (["worker", "no_such_module"], "no module"),
        (["worker", "empty.py"], "no capabilities"),
        (["worker", "broken.py"], "ModuleNotFoundError: No module named 'no_such_thing'"),
        (["dev", "nofile.py"], "error: nofile.py is no Python file hint: "),
        (["dev", "no_such_module"], "no module"),
        (["dev", "empty.py"], "error: no capabilities in empty.py hint: "),
        (["dev", "broken.py"], "broken.py:2) hint: "),
        (["dev", "crooked.py"], "crooked.py cannot be imported: SyntaxError: "),
        (["dev", "leaving.py"], "leaving.py cannot be imported: SystemExit: 0"),
        (["dev", "--port", "99999"], "error: --port 99999 is not possible hint: "),
        (["server", "--log-level", "LOUD"], "--log-level"),
        (["nonsense"], "No such command"),
    ],
)
def test_wrong_usage_ends_with_2_before_anything_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flows.py").write_text("number = 7\ndef needy(a, b, c=1, *more): ...\ndef faulty(): return 1 / 0\n")
    (tmp_path / "broken.py").write_text("import json\nimport no_such_thing\n")
    (tmp_path / "crooked.py").write_text("x = = 1\n")
    (tmp_path / "leaving.py").write_text("raise SystemExit(0)\n")
    (tmp_path / "empty.py").write_text("")

    done = here(*args, url="http://127.0.0.1:9")

    assert done.exit_code == 2, done.output
    assert said in " ".join(done.stderr.replace("\u2502", " ").split())
    assert "Traceback" not in done.stderr


def test_failures_end_with_1(api: Api) -> None:
    api.publish(DOUBLE)

    unknown = wf("run", "inspect", "nobody", url=api.url)
    wrong = here("run", "start", "double", "--input", '{"n": "x"}', "--json", url=api.url)
    unreachable = here("run", "list", url=f"http://127.0.0.1:{free_port()}")

    assert (unknown.returncode, wrong.exit_code, unreachable.exit_code) == (1, 1, 1)
    assert "run_not_found" in unknown.stderr and "hint:" in unknown.stderr
    assert json.loads(wrong.stdout)["error"]["code"] == "workflow_input_invalid"
    assert "wf server" in unreachable.stderr


def test_answers_that_are_no_success_end_with_3_and_are_printed(api: Api, tmp_path: Path) -> None:
    api.publish(SIGNATURES)
    run = api.start("signatures", input={"people": ["ann", "bob"]})
    file = tmp_path / "broken.json"
    file.write_text(json.dumps({**DOUBLE, "start": "nowhere"}))

    invalid = wf("workflow", "publish", str(file), url=api.url)
    invalid_json = here("workflow", "publish", str(file), "--json", url=api.url)
    ambiguous = here("run", "resume", run["run_id"], url=api.url)

    assert (invalid.returncode, invalid_json.exit_code, ambiguous.exit_code) == (3, 3, 3)
    assert "start:" in invalid.stderr
    assert json.loads(invalid_json.stdout)["error"]["details"]["issues"][0]["code"] == "unknown_start"
    assert all(interrupt["interrupt_key"] in ambiguous.stderr for interrupt in run["interrupts"])


def test_a_run_that_was_waited_for_and_did_not_complete_ends_with_4(api: Api) -> None:
    api.publish(DOUBLE)
    api.start("double", input={"n": 1})
    api.post("/v1/runs", {"workflow": "double", "input": {"n": 1}, "run_id": "stopped"})

    cancelled = here("run", "cancel", "stopped", "--reason", "test", url=api.url)
    watched = wf("run", "watch", "stopped", "--json", url=api.url)

    assert (cancelled.exit_code, watched.returncode) == (0, 4)
    assert json.loads(watched.stdout)["error"]["message"] == "test"


def test_a_wait_that_runs_out_ends_with_5_and_shows_the_run(api: Api) -> None:
    api.publish(DOUBLE)

    started = wf("run", "start", "double", "--input", '{"n": 1}', "--run-id", "r1", "--wait", "0.2", url=api.url)
    watched = here("run", "watch", "r1", "--for", "0.2", url=api.url)

    assert (started.returncode, watched.exit_code) == (5, 5)
    assert "pending" in started.stdout
    assert "r1" in watched.stderr


def test_a_wrong_setting_is_said_in_a_line(tmp_path: Path) -> None:
    env = {**os.environ, "WF_STORE_URL": "http://nowhere"}

    done = subprocess.run(
        [sys.executable, "-m", "wf_api.cli.main", "server"], capture_output=True, text=True, env=env, timeout=60
    )

    assert done.returncode == 2
    assert "WF_STORE_URL" in done.stderr and "Traceback" not in done.stderr


def test_the_suggested_answer_has_what_the_resume_schema_requires(api: Api) -> None:
    schema = {
        "type": "object",
        "$defs": {"person": {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}},
        "properties": {
            "note": {"type": "string"},
            "size": {"enum": ["small", "it's large"]},
            "who": {"$ref": "#/$defs/person"},
            "count": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "tags": {"type": ["array", "null"]},
            "extra": {"type": "string"},
        },
        "required": ["note", "size", "who", "count", "tags", "free"],
    }
    document = {**APPROVAL, "nodes": [{**APPROVAL["nodes"][0], "resume_schema": schema}, APPROVAL["nodes"][1]]}
    api.publish(document)
    api.start("approval", input={"title": "t"}, run_id="r1")

    shown = here("run", "inspect", "r1", url=api.url).stdout

    command = shlex.split(next(line for line in shown.splitlines() if "wf run resume" in line).partition("answer:")[2])
    suggested = json.loads(command[-1])
    assert suggested == {"note": "...", "size": "small", "who": {"age": 0}, "count": 0, "tags": [], "free": "..."}
    assert here(*command[1:], url=api.url).exit_code == 0


def test_an_answer_that_needs_nothing_is_suggested_empty(api: Api) -> None:
    api.publish(TWO_QUESTIONS)
    api.start("two_questions", run_id="r1", input={})

    assert "--payload '{}'" in here("run", "inspect", "r1", url=api.url).stdout


FAMILY = """
from pydantic import BaseModel
from wf_core.authoring import END, WorkflowBuilder


class Nothing(BaseModel):
    pass


def one_step(name):
    flow = WorkflowBuilder(name, Nothing, Nothing, Nothing)
    step = flow.join()
    flow.set_entry_point(step)
    flow.set_route(step, "done", END)
    return flow


parent = WorkflowBuilder("parent", Nothing, Nothing, Nothing)
call = parent.subgraph(parent.prepare_subgraph(one_step("child")))
parent.set_entry_point(call)
parent.set_route(call, "ok", END)
"""


def test_publishing_a_builder_publishes_its_prepared_children_first(api: Api, tmp_path: Path) -> None:
    module = tmp_path / "family.py"
    module.write_text(FAMILY)

    first = here("workflow", "publish", f"{module}:parent", url=api.url)
    again = here("workflow", "publish", f"{module}:parent", "--json", url=api.url)
    started = here("run", "start", "parent", url=api.url)

    assert first.exit_code == 0, first.output
    assert [line.split()[:2] for line in first.stdout.splitlines()] == [["published", "child"], ["published", "parent"]]
    assert (json.loads(again.stdout)["name"], json.loads(again.stdout)["created"]) == ("parent", False)
    assert started.exit_code == 0
