"""Making runs from runs, over HTTP, both clients and the command line."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.api.conftest import Api
from tests.api.test_cli import here
from tests.api.workflows import APPROVAL, DOUBLE, SIGNATURES, TWO_QUESTIONS
from wf_api.client import AsyncWorkflowClient, WorkflowApiError, WorkflowClient


def asking(api: Api) -> dict[str, Any]:
    """A run that waits for an approval."""
    api.publish(APPROVAL)
    return api.start("approval", input={"title": "Q3"}, run_id="first")


def code_of(act: Any) -> str:
    with pytest.raises(WorkflowApiError) as refused:
        act()
    return refused.value.code


def test_a_fork_waits_for_the_same_answer_and_takes_its_own(api: Api, client: WorkflowClient) -> None:
    run = asking(api)

    fork = client.fork("first", new_run_id="second", patch={"title": "Q4"})

    assert (fork["run_id"], fork["status"]) == ("second", "interrupted")
    origin = fork["forked_from"]
    assert origin is not None and (origin["run_id"], origin["step"]) == ("first", None)
    assert [i["interrupt_key"] for i in fork["interrupts"]] == [i["interrupt_key"] for i in run["interrupts"]]
    assert client.resume("second", {"note": "no"}, "rejected")["outcome"] == "rejected"
    assert client.resume("first", {"note": "yes"}, "approved")["output"] == {"note": "yes"}
    assert client.inspect("first")["forked_from"] is None


def test_a_rerun_begins_where_it_is_told(api: Api, client: WorkflowClient) -> None:
    api.publish(TWO_QUESTIONS)
    run_id = api.start("two_questions")["run_id"]
    assert code_of(lambda: client.rerun(run_id, "second")) == "step_not_reached"
    client.resume(run_id, {})

    again = client.rerun(run_id, "second")
    api.worker.drain()

    origin = again["forked_from"]
    assert origin is not None and (origin["run_id"], origin["step"]) == (run_id, "second")
    [asked] = client.interrupts(again["run_id"])["interrupts"]
    assert asked["node_id"] == "second"
    assert client.resume(again["run_id"], {})["status"] == "completed"
    assert client.inspect(run_id)["status"] == "interrupted"


def test_what_cannot_be_made_is_refused_with_a_code_and_nothing_is_stored(api: Api, client: WorkflowClient) -> None:
    api.publish(DOUBLE)
    api.publish(SIGNATURES)
    running = client.start("double", {"n": 1})["run_id"]
    done = api.start("double", input={"n": 1})["run_id"]
    signed = api.start("signatures", input={"people": ["Ann"]})["run_id"]
    before = api.contents()

    assert code_of(lambda: client.fork("nobody")) == "run_not_found"
    assert code_of(lambda: client.fork(done)) == "run_completed"
    assert code_of(lambda: client.fork(signed, patch={"signed": 3})) == "state_patch_invalid"
    assert code_of(lambda: client.fork(signed, new_run_id=done)) == "run_id_in_use"
    assert code_of(lambda: client.rerun(done, "nowhere")) == "unknown_step"
    assert code_of(lambda: client.rerun(signed, "sign")) == "step_not_rerunnable"
    assert code_of(lambda: client.fork(signed, max_steps=1)) == "step_budget_used"
    missing = api.post(f"/v1/runs/{done}/rerun", {})
    assert (missing.status_code, missing.json()["error"]["path"]) == (422, "from")

    assert api.contents() == before and running


def test_a_run_that_moves_is_not_forked(api: Api, client: WorkflowClient) -> None:
    api.publish(DOUBLE)
    run_id = client.start("double", {"n": 1})["run_id"]

    assert code_of(lambda: client.fork(run_id)) == "run_not_at_rest"
    client.pause(run_id)
    fork = client.fork(run_id)

    assert fork["paused"] is True
    client.unpause(fork["run_id"])
    api.worker.drain()
    assert client.inspect(fork["run_id"])["output"] == {"result": 2}


def test_the_same_key_makes_one_run_whatever_became_of_its_source(api: Api, client: WorkflowClient) -> None:
    asking(api)

    first = api.post("/v1/runs/first/fork", {"idempotency_key": "k"})
    client.resume("first", {"note": "yes"}, "approved")
    second = api.post("/v1/runs/first/fork", {"idempotency_key": "k"})

    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json()["run_id"] == second.json()["run_id"]
    assert code_of(lambda: client.fork("first", patch={"title": "x"}, idempotency_key="k")) == "idempotency_key_reused"


def test_the_asynchronous_client_makes_runs_from_runs(api: Api) -> None:
    asking(api)

    async def made() -> tuple[Any, Any]:
        async with AsyncWorkflowClient(api.url) as client:
            return await client.fork("first"), await client.rerun("first", "ask", max_steps=9)

    fork, again = asyncio.run(made())

    assert fork["status"] == "interrupted" and again["limits"] == {"max_steps": 9}


def test_the_command_line_makes_runs_from_runs(api: Api) -> None:
    asking(api)

    forked = here("run", "fork", "first", "--run-id", "second", "--patch", '{"title": "Q4"}', url=api.url)
    again = here("run", "rerun", "first", "--from", "ask", "--json", url=api.url)
    refused = here("run", "rerun", "first", "--from", "nowhere", url=api.url)

    assert forked.exit_code == 0 and "first, as it stood" in forked.stdout
    assert json.loads(again.stdout)["forked_from"]["step"] == "ask"
    assert refused.exit_code == 1 and "unknown_step" in refused.stderr
