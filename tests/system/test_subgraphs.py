"""Child workflows on real worker processes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support import jobs
from wf_api.cli.stack import Stack
from wf_api.client import WorkflowApiError, WorkflowClient
from wf_core.authoring import WorkflowBuilder


def publish(client: WorkflowClient, flow: WorkflowBuilder) -> None:
    """A workflow behind the children that it enters."""
    for child in flow.prepared_subgraphs():
        client.publish(child)
    client.publish(flow)


def trace_of(client: WorkflowClient, run_id: str) -> list[Any]:
    count = client.inspect(run_id)["trace_count"]
    pages = [client.trace(run_id, start=start, limit=100)["trace"] for start in range(0, count, 100)]
    return [entry for page in pages for entry in page]


def replace_the_workers(stack: Stack) -> None:
    for part in list(stack.parts):
        if part.name.startswith("worker-"):
            stack.kill(part)
            stack.parts.remove(part)
    for _ in range(2):
        stack.start_worker()


def answer_everything(client: WorkflowClient, run_id: str) -> list[str]:
    """Answers every open interrupt until the run has ended; what was asked, in order."""
    asked: list[str] = []
    while (view := client.wait(run_id, timeout=60))["status"] == "interrupted":
        for interrupt in view["interrupts"]:
            line = interrupt["payload"]["line"]
            client.resume(run_id, {"note": f" and yes to {line}"}, interrupt_key=interrupt["interrupt_key"])
            asked.append(line)
    assert view["status"] == "completed", view["error"]
    return asked


def test_the_child_of_an_item_runs_on_whichever_worker_is_free(stack: Stack, client: WorkflowClient) -> None:
    flow = jobs.child_per_number(jobs.one_number())
    publish(client, flow)
    numbers = list(range(200))

    run_id = client.start("child_per_number", {"numbers": numbers})["run_id"]
    view = client.wait(run_id, timeout=100)

    assert view["status"] == "completed"
    assert view["output"] == flow.execute({"numbers": numbers}).output
    assert view["steps_executed"] == 200 * 5 + 2  # square, enter, tag, sign, leave; the loop at its start and its end
    worker_of = {
        (entry["frame_id"], entry["node_id"]): entry["worker"]
        for entry in trace_of(client, run_id)
        if entry["step_type"] == "node"
    }
    assert len(worker_of) == 3 * 200
    elsewhere = [
        item
        for item in (f"root:each#0:{i}" for i in numbers)
        if worker_of[item, "square"] != worker_of[f"{item}:subgraph:call:frame", "tag_number"]
    ]
    assert len(set(worker_of.values())) == 2
    assert elsewhere


def test_an_interrupt_in_a_child_is_answered_after_the_workers_were_replaced(
    stack: Stack, client: WorkflowClient
) -> None:
    flow = jobs.child_per_number(jobs.one_number(ask=True), max_active=2)
    publish(client, flow)
    run_id = client.start("child_per_number", {"numbers": [1, 2, 3]})["run_id"]
    before = client.wait(run_id, timeout=60)
    assert before["status"] == "interrupted"
    assert before["interrupts"][0]["node_id"] == "call"

    replace_the_workers(stack)

    assert client.interrupts(run_id)["interrupts"] == before["interrupts"]
    assert sorted(answer_everything(client, run_id)) == ["first 1", "first 2", "first 3"]
    output = client.inspect(run_id)["output"]
    assert output == {"lines": [f"first {n}, first and yes to first {n}" for n in (1, 2, 3)], "total": 14}


def test_a_run_whose_child_is_not_published_is_refused_and_nothing_is_stored(
    stack: Stack, client: WorkflowClient
) -> None:
    flow = jobs.child_per_number(jobs.one_number())
    client.publish(flow)
    start: Any = {"workflow": "child_per_number", "input": {"numbers": [1]}, "run_id": "mine", "idempotency_key": "k"}

    with pytest.raises(WorkflowApiError) as refused:
        client.start(**start)

    error = refused.value
    assert (error.http_status, error.code, error.path) == (422, "child_workflow_missing", "nodes[2].workflow")
    assert "'one_number'" in error.message
    assert client.list()["runs"] == []
    with pytest.raises(WorkflowApiError) as unknown:
        client.inspect("mine")
    assert unknown.value.code == "run_not_found"

    client.publish(flow.prepared_subgraphs()[0])
    assert client.start(**start, wait_seconds=30)["output"] == {"lines": ["first 1, first"], "total": 1}


def test_a_run_keeps_the_version_of_its_child_that_was_the_newest_at_its_start(
    stack: Stack, client: WorkflowClient
) -> None:
    publish(client, jobs.child_per_number(jobs.one_number("first", ask=True), max_active=1))
    run_id = client.start("child_per_number", {"numbers": [1, 2]})["run_id"]
    assert client.wait(run_id, timeout=60)["interrupts"][0]["payload"] == {"line": "first 1"}

    assert client.publish(jobs.one_number("second"))["version"] == "2"
    asked = answer_everything(client, run_id)

    assert asked == ["first 1", "first 2"]  # the child of the second item began after the publication
    assert client.inspect(run_id)["output"]["lines"] == [f"first {n}, first and yes to first {n}" for n in (1, 2)]
    again = client.start("child_per_number", {"numbers": [1, 2]}, wait_seconds=30)
    assert again["output"]["lines"] == ["second 1, second", "second 2, second"]
