"""The clients: one surface, synchronous and asynchronous, and errors as the server sent them."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
from typing import Any

import httpx
import pytest

from tests.api.conftest import Api
from tests.api.workflows import APPROVAL, DOUBLE, SIGNATURES, TWO_QUESTIONS
from tests.support.valkey import EmbeddedValkey
from wf_api.cli.stack import free_port
from wf_api.client import AsyncWorkflowClient, WaitTimeout, WorkflowApiError, WorkflowClient
from wf_core.authoring import WorkflowBuilder
from wf_core.models.workflow import Workflow


def test_a_run_is_published_started_answered_and_read(api: Api, client: WorkflowClient) -> None:
    published = client.publish(APPROVAL)
    with api.worker.serving():
        run = client.start("approval", {"title": "Q3"}, run_id="r1", max_steps=50, wait_seconds=30)
        assert run["interrupt"] is not None
        done = client.resume(
            "r1",
            {"note": "ok"},
            "approved",
            interrupt_key=run["interrupt"]["interrupt_key"],
            revision=run["interrupt"]["revision"],
            idempotency_key="a1",
            wait_seconds=30,
        )

    assert (done["status"], done["output"], done["limits"]) == ("completed", {"note": "ok"}, {"max_steps": 50})
    assert client.inspect("r1", with_input=True).get("input") == {"title": "Q3"}
    assert [entry["run_id"] for entry in client.list(status="completed", limit=5)["runs"]] == ["r1"]
    assert client.trace("r1", start=1, limit=1)["trace"][0]["outcome"] == "approved"
    assert client.interrupts("r1")["interrupts"] == []
    assert client.progress("r1")["foreach"] == []
    assert client.cancel("r1")["changed"] is False
    assert client.workflow_versions("approval")["latest"] == published["version"]
    assert client.workflow("approval")["digest"] == published["digest"]
    assert client.workflow("approval", published["digest"])["version"] == published["version"]
    assert client.list_workflows()["workflows"] == [{"name": "approval", "latest": "1", "versions": 1}]


async def test_the_asynchronous_client_does_the_same(api: Api) -> None:
    async with AsyncWorkflowClient(api.url) as client:
        published = await client.publish(SIGNATURES)
        run = await client.start("signatures", {"people": ["ann", "bob"]}, version=published["version"])
        await asyncio.to_thread(api.worker.drain)
        run = await client.wait(run["run_id"], timeout=10)
        for interrupt in run["interrupts"]:
            await client.resume(run["run_id"], {"name": "x"}, interrupt_key=interrupt["interrupt_key"])
        await asyncio.to_thread(api.worker.drain)
        done = await client.wait(run["run_id"], "ended", timeout=10)
        with pytest.raises(WorkflowApiError) as unknown:
            await client.inspect("nobody")

    assert (done["status"], done["output"]) == ("completed", {"signed": ["x", "x"]})
    assert unknown.value.code == "run_not_found"


def test_both_clients_offer_the_same_calls() -> None:
    def surface(client: type) -> dict[str, str]:
        return {
            name: str(inspect.signature(member)).replace("AsyncIterator", "Iterator")
            for name, member in vars(client).items()
            if not name.startswith("_") and callable(member)
        }

    assert surface(WorkflowClient) == surface(AsyncWorkflowClient)


def test_a_workflow_is_taken_as_a_builder_a_model_or_a_document(client: WorkflowClient) -> None:
    model = Workflow.model_validate(DOUBLE)

    digests = {client.publish(form)["digest"] for form in (DOUBLE, model, WorkflowBuilder.from_workflow(model))}

    assert len(digests) == 1


def test_an_error_carries_what_the_server_said(client: WorkflowClient) -> None:
    client.publish(DOUBLE)

    with pytest.raises(WorkflowApiError) as refused:
        client.start("double", {"n": "one"})

    error = refused.value
    assert (error.code, error.path, error.http_status) == ("workflow_input_invalid", "input.n", 422)
    assert error.hint and error.message in str(error)


def test_an_invalid_workflow_lists_its_issues(client: WorkflowClient) -> None:
    with pytest.raises(WorkflowApiError) as refused:
        client.publish({**DOUBLE, "start": "nowhere"})

    assert [issue["code"] for issue in refused.value.details["issues"]] == ["unknown_start"]


@pytest.mark.parametrize("value", [float("nan"), {1: 2}, (1, 2), b"x", {"a": {3}}])
def test_what_is_not_json_never_leaves_the_client(api: Api, client: WorkflowClient, value: object) -> None:
    client.publish(APPROVAL)
    before = api.contents()

    with pytest.raises(ValueError):
        client.start("approval", {"title": "t", "x": value})

    assert api.contents() == before


@pytest.mark.parametrize("value", [[], 0, "", False, "text", [1]])
def test_only_none_stands_for_no_input_and_no_payload(api: Api, client: WorkflowClient, value: Any) -> None:
    client.publish(TWO_QUESTIONS)
    before = api.contents()

    with pytest.raises(TypeError, match=f"input must be a mapping, not {type(value).__name__}"):
        client.start("two_questions", value)
    with pytest.raises(TypeError, match=f"payload must be a mapping, not {type(value).__name__}"):
        client.resume("r1", value)

    assert api.contents() == before
    assert client.start("two_questions", None)["status"] == "pending"


def test_a_wait_that_runs_out_tells_how_the_run_is(client: WorkflowClient) -> None:
    client.publish(DOUBLE)
    run = client.start("double", {"n": 1})

    with pytest.raises(WaitTimeout) as late:
        client.wait(run["run_id"], timeout=0.1)

    assert late.value.run["status"] == "pending"
    assert client.wait(run["run_id"], until="pending")["status"] == "pending"
    assert client.wait(run["run_id"], until=lambda seen: seen["steps_executed"] == 0)["status"] == "pending"


class Shaky(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Refuses, then is busy, then passes on; ``worse`` refuses for ever."""

    def __init__(self, worse: bool = False) -> None:
        self.answers = [httpx.ConnectError("refused"), httpx.Response(503), httpx.Response(502)]
        self.worse = worse
        self.asked = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.asked += 1
        if self.worse or self.answers:
            answer = self.answers[0] if self.worse else self.answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            answer.request = request
            return answer
        answer = httpx.request(request.method, request.url)
        return httpx.Response(answer.status_code, content=answer.content)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return self.handle_request(request)


async def test_a_wait_goes_on_while_the_server_is_away(api: Api, client: WorkflowClient) -> None:
    client.publish(DOUBLE)
    run_id = client.start("double", {"n": 1})["run_id"]
    api.worker.drain()

    shaky = Shaky()
    with WorkflowClient(api.url, http_client=httpx.Client(transport=shaky)) as waiting:
        assert waiting.wait(run_id, timeout=10)["status"] == "completed"
        with pytest.raises(WorkflowApiError, match="run_not_found"):
            waiting.wait("nobody", timeout=10)
    async with AsyncWorkflowClient(api.url, http_client=httpx.AsyncClient(transport=Shaky())) as also:
        assert (await also.wait(run_id, timeout=10))["status"] == "completed"
    assert shaky.asked == 5

    gone = Shaky(worse=True)
    with (
        WorkflowClient(api.url, http_client=httpx.Client(transport=gone)) as hopeless,
        pytest.raises(WorkflowApiError, match="server_unreachable"),
    ):
        hopeless.wait(run_id, timeout=0.1)
    assert gone.asked > 1


def test_a_server_that_is_not_there_is_an_error_of_its_own() -> None:
    with WorkflowClient(f"http://127.0.0.1:{free_port()}") as client, pytest.raises(WorkflowApiError) as unreachable:
        client.list()

    assert (unreachable.value.code, unreachable.value.http_status) == ("server_unreachable", None)


def test_another_server_is_not_taken_for_this_one(valkey: EmbeddedValkey) -> None:
    with (
        WorkflowClient(f"http://127.0.0.1:{valkey.port}", timeout_seconds=5) as client,
        pytest.raises(WorkflowApiError),
    ):
        client.list()


def test_names_with_odd_characters_find_their_way(api: Api, client: WorkflowClient) -> None:
    name = "r\u00e9port #1 50%? &c"
    client.publish({**APPROVAL, "name": name})

    run = client.start(name, {"title": "t"}, run_id="a:b@c.d_e-f")
    api.worker.drain()

    assert client.workflow(name, "1")["name"] == name
    assert client.interrupts("a:b@c.d_e-f")["run_id"] == run["run_id"]


def test_the_client_needs_neither_the_worker_nor_a_store_nor_a_broker() -> None:
    code = (
        "import sys, wf_api.client; print([m for m in ('wf_worker', 'redis', 'celery', 'fastapi') if m in sys.modules])"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
