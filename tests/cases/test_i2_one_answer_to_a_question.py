"""One question was answered twice with different values, and one answer was used again for a later question.

The answer lay beside the thread and was not consumed together with the question (langchain-ai/langgraph#6663,
langchain-ai/langgraph#2870). Here one script closes an interrupt and applies its answer: of any number of answers one
counts, the others are told when it came, and the winner's key gets the winner's response again.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.cases.flows import END, each, flow, found, inline, item
from tests.support.stores import StoreCase
from wf_api.cli.stack import Stack
from wf_api.client import WorkflowClient
from wf_worker.errors import RequestRefused

SAME_PLACE_TWICE = flow(
    "twice",
    [
        {
            "id": "ask",
            "type": "interrupt",
            "kind": "question",
            "outcomes": ["again", "enough"],
            "resume": [{"source": "said", "target": "state.said"}],
        }
    ],
    [("ask", "again", "ask"), ("ask", "enough", END)],
    state={"said": {"type": "array", "reducer": "wf.std.append"}},
    gives={"said": {}},
)
ANSWERS = 20


def test_of_twenty_simultaneous_answers_one_counts_and_the_others_are_told_when_it_came(
    processes: Stack, remote: WorkflowClient
) -> None:
    remote.publish(SAME_PLACE_TWICE)
    run_id = remote.start("twice", {}, wait_seconds=30)["run_id"]
    [first] = remote.inspect(run_id)["interrupts"]
    key = quote(first["interrupt_key"], safe="")
    url = f"{processes.url}/v1/runs/{run_id}/interrupts/{key}/resume"

    def answer(i: int) -> httpx.Response:
        # The same request each time that this number answers.
        body = {"payload": {"said": f"from {i}"}, "outcome": "again", "idempotency_key": f"key {i}"}
        return httpx.post(url, json=body, timeout=60)

    with ThreadPoolExecutor(ANSWERS) as pool:
        responses = list(pool.map(answer, range(ANSWERS)))

    winners = [i for i, response in enumerate(responses) if response.status_code == 200]
    losers = [response.json()["error"] for response in responses if response.status_code != 200]
    assert len(winners) == 1
    assert {response.status_code for response in responses} == {200, 409}
    assert {error["code"] for error in losers} == {"interrupt_answered"}
    assert len({error["details"]["answered_at_ms"] for error in losers}) == 1

    view = remote.wait(run_id, timeout=30)
    [second] = view["interrupts"]
    assert second["interrupt_key"] != first["interrupt_key"]
    again, late = answer(winners[0]), answer(ANSWERS)
    assert (again.status_code, late.status_code) == (200, 409)
    body, before = again.json(), responses[winners[0]].json()
    assert {name: body[name] for name in ("run_id", "interrupts", "steps_executed", "trace_count", "revision")} == {
        name: view[name] for name in ("run_id", "interrupts", "steps_executed", "trace_count", "revision")
    }
    assert body == before
    # No answer to the first question answers the second one.
    assert remote.inspect(run_id)["interrupts"] == [second]
    remote.resume(run_id, {"said": "last"}, "enough", interrupt_key=second["interrupt_key"])
    ended = remote.wait(run_id, until="ended", timeout=30)
    assert ended["output"] == {"said": [f"from {winners[0]}", "last"]}


def asks_each() -> dict[str, Any]:
    """Every item asks, and the items that have not asked yet go on."""
    return flow(
        "asks_each",
        [
            each("each", "input.names", interrupt="continue"),
            {
                "id": "ask",
                "type": "interrupt",
                "kind": "question",
                "request": [{"target": "name", "path": item("each")}],
                "resume": [{"source": "said", "target": "state.said"}],
            },
        ],
        [("each", "loop", "ask"), ("ask", "submitted", "each"), ("each", "done", END)],
        takes={"names": {"type": "array", "items": {"type": "string"}}},
        state={"said": {"type": "array", "reducer": "wf.std.append"}},
        gives={"said": {}},
    )


def test_an_answer_is_consumed_with_its_question_over_every_store(case: StoreCase) -> None:
    with inline(case.store, asks_each(), {"names": ["a", "b"]}) as (worker, run):
        first, second = [opened.number for opened in case.store.interrupts(run)]
        digest = found(case.store, run).digest

        def answer(number: int, said: str, key: str | None = None) -> None:
            given = {"said": said}
            worker.publish(case.store.resume(run, number, given, "submitted", digest=digest, idempotency_key=key))

        answer(first, "yes", "k")
        before = case.contents()
        answer(first, "yes", "k")
        assert case.records.again(case.records.last("resume"))[0] == b"again"
        for said, key, code in (
            ("no", None, "interrupt_answered"),
            ("no", "other", "interrupt_answered"),
            ("no", "k", "idempotency_key_reused"),
            ("yes", None, "interrupt_answered"),
        ):
            with pytest.raises(RequestRefused) as refused:
                answer(first, said, key)
            assert (refused.value.code, "answered_at_ms" in refused.value.details) == (code, True)
        assert case.contents() == before

        # A key belongs to a question: the same one answers another question too.
        answer(second, "no", "k")
        worker.drain()
    assert found(case.store, run).output == {"said": ["yes", "no"]}
