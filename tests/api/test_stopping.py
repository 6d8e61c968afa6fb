"""Pausing a run, and going on with one that failed."""

from __future__ import annotations

import json

import pytest

from tests.api.conftest import Api
from tests.api.test_cli import here
from tests.api.workflows import DOUBLE, TWO_QUESTIONS
from wf_api.client import WorkflowApiError, WorkflowClient


def failed(api: Api, client: WorkflowClient) -> str:
    """A run that met its budget at its second question."""
    api.publish(TWO_QUESTIONS)
    run_id = api.start("two_questions", limits={"max_steps": 1})["run_id"]
    assert client.resume(run_id, {})["status"] == "failed"
    return run_id


def test_a_paused_run_begins_nothing_until_it_is_let_go_on(api: Api, client: WorkflowClient) -> None:
    api.publish(DOUBLE)
    run_id = client.start("double", {"n": 1})["run_id"]

    assert client.pause(run_id)["paused"] is True
    assert client.pause(run_id)["paused"] is True
    api.worker.drain()
    assert client.inspect(run_id)["steps_executed"] == 0

    assert client.unpause(run_id)["paused"] is False
    api.worker.drain()
    assert client.inspect(run_id)["status"] == "completed"


def test_a_run_that_has_ended_cannot_be_paused(api: Api, client: WorkflowClient) -> None:
    api.publish(DOUBLE)
    run = api.start("double", input={"n": 1})

    with pytest.raises(WorkflowApiError) as refused:
        client.pause(run["run_id"])

    assert (refused.value.http_status, refused.value.code) == (409, "run_ended")
    assert refused.value.details == {"status": "completed"}


def test_a_failed_run_goes_on_with_what_it_was_short_of(api: Api, client: WorkflowClient) -> None:
    run_id = failed(api, client)
    error = client.inspect(run_id)["error"]
    assert error is not None and error["type"] == "step_limit_exceeded"

    again = client.retry(run_id, max_steps=5)
    assert (again["status"], again["error"], again["ended_at"]) == ("running", None, None)
    api.worker.drain()
    asked = client.inspect(run_id)
    assert (asked["status"], asked["limits"]) == ("interrupted", {"max_steps": 5})
    assert client.resume(run_id, {})["status"] == "completed"


def test_a_budget_that_is_used_up_changes_nothing(api: Api, client: WorkflowClient) -> None:
    run_id = failed(api, client)
    before = api.contents()

    with pytest.raises(WorkflowApiError) as refused:
        client.retry(run_id, max_steps=1)

    assert (refused.value.code, refused.value.path) == ("step_budget_used", "limits.max_steps")
    assert api.contents() == before


def test_a_body_with_more_than_there_is_to_say_is_refused(api: Api, client: WorkflowClient) -> None:
    api.publish(DOUBLE)
    run_id = client.start("double", {"n": 1})["run_id"]

    for path in ("pause", "unpause", "retry"):
        assert api.post(f"/v1/runs/{run_id}/{path}", {"x": 1}).status_code == 422
    assert client.inspect(run_id)["paused"] is False


def test_an_ended_run_is_not_shown_as_paused(api: Api, client: WorkflowClient) -> None:
    api.publish(DOUBLE)
    run_id = client.start("double", {"n": 1})["run_id"]
    client.pause(run_id)
    client.cancel(run_id)

    assert client.inspect(run_id)["paused"] is False


def test_only_a_failed_run_can_be_retried(api: Api, client: WorkflowClient) -> None:
    api.publish(DOUBLE)
    run = api.start("double", input={"n": 1})

    for run_id, code in ((run["run_id"], "run_not_failed"), ("nobody", "run_not_found")):
        with pytest.raises(WorkflowApiError) as refused:
            client.retry(run_id)
        assert refused.value.code == code


def test_the_command_line_does_the_same(api: Api, client: WorkflowClient) -> None:
    run_id = failed(api, client)

    retried = here("run", "retry", run_id, "--max-steps", "5", "--json", url=api.url)
    paused = here("run", "pause", run_id, "--json", url=api.url)
    unpaused = here("run", "unpause", run_id, url=api.url)
    again = here("run", "retry", run_id, url=api.url)

    assert (json.loads(retried.stdout)["status"], json.loads(paused.stdout)["paused"]) == ("running", True)
    assert unpaused.exit_code == 0 and "paused" not in unpaused.stdout
    assert again.exit_code == 3 and "run_not_failed" in again.stderr


def test_a_run_shows_its_deadline(api: Api, client: WorkflowClient) -> None:
    api.publish(TWO_QUESTIONS)
    run = client.start("two_questions", deadline_seconds=3_600)
    api.worker.drain()

    assert run["deadline_at"] is not None and run["deadline_at"] > run["created_at"]
    for refused in (0, -1, 1.5, "60", 10**12):
        assert api.post("/v1/runs", {"workflow": "two_questions", "deadline_seconds": refused}).status_code == 422
