"""Answering interrupts: the order of the checks, one winner, nothing consumed by an answer that is refused."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.api.conftest import Api
from tests.api.workflows import APPROVAL, DOUBLE, SIGNATURES, TWO_QUESTIONS

GOOD: dict[str, Any] = {"payload": {"note": "fine"}, "outcome": "approved"}


@pytest.fixture
def waiting(api: Api) -> dict[str, Any]:
    """A run that waits for an approval."""
    api.publish(APPROVAL)
    run = api.start("approval", input={"title": "Q3"})
    assert run["status"] == "interrupted"
    return run


def answer(api: Api, run: dict[str, Any], body: dict[str, Any], key: str | None = None) -> httpx.Response:
    below = "resume" if key is None else f"interrupts/{quote(key, safe='')}/resume"
    return api.post(f"/v1/runs/{run['run_id']}/{below}", body)


def error_of(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["code"]


def test_an_open_interrupt_shows_what_it_asks(api: Api, waiting: dict[str, Any]) -> None:
    [interrupt] = api.get(f"/v1/runs/{waiting['run_id']}/interrupts").json()["interrupts"]

    assert interrupt == waiting["interrupt"] == waiting["interrupts"][0]
    assert interrupt["interrupt_key"] == "interrupt:ask#1"
    assert (interrupt["kind"], interrupt["payload"]) == ("approval", {"title": "Q3"})
    assert interrupt["outcomes"] == ["approved", "rejected"]
    assert interrupt["typed"] and interrupt["resumable"]
    assert waiting["resume_readiness"] == "ready"


@pytest.mark.parametrize("by_key", [True, False])
def test_a_good_answer_lets_the_run_go_on(api: Api, waiting: dict[str, Any], by_key: bool) -> None:
    response = answer(api, waiting, GOOD, waiting["interrupt"]["interrupt_key"] if by_key else None)

    assert response.status_code == 200
    api.worker.drain()
    run = api.run(waiting["run_id"])
    assert (run["status"], run["outcome"], run["output"]) == ("completed", "ok", {"note": "fine"})
    assert run["interrupts"] == []


@pytest.mark.parametrize(
    ("body", "code", "path"),
    [
        ({"payload": {"note": "x"}, "outcome": "maybe"}, "resume_outcome_undeclared", "outcome"),
        ({"payload": {"note": "x"}}, "resume_outcome_undeclared", "outcome"),
        ({"payload": {"note": 1}, "outcome": "maybe"}, "resume_outcome_undeclared", "outcome"),
        ({"payload": {"note": 1}, "outcome": "approved"}, "resume_payload_invalid", "payload.note"),
        ({"payload": {}, "outcome": "approved"}, "resume_payload_invalid", "payload"),
        ({"payload": {"note": "x", "more": 1}, "outcome": "approved"}, "resume_payload_invalid", "payload"),
        ({"payload": [], "outcome": "approved"}, "request_invalid", "payload"),
    ],
)
def test_a_wrong_answer_names_its_fault_and_consumes_nothing(
    api: Api, waiting: dict[str, Any], body: dict[str, Any], code: str, path: str
) -> None:
    before = api.contents()

    response = answer(api, waiting, body)

    assert error_of(response) == (422, code)
    assert response.json()["error"]["path"] == path
    assert api.contents() == before
    assert answer(api, waiting, GOOD).status_code == 200


def test_an_answer_above_the_payload_limit_consumes_nothing(api: Api, waiting: dict[str, Any]) -> None:
    before = api.contents()

    response = answer(api, waiting, {"payload": {"note": "x" * 60_000}, "outcome": "approved"})

    assert error_of(response) == (413, "payload_too_large")
    assert api.contents() == before


@pytest.mark.parametrize(
    "text", ['{"payload": {"note": NaN}}', '{"payload": {"note": "\\ud800"}}', '{"outcome": "a", "outcome": "b"}']
)
def test_an_answer_that_is_not_strict_json_consumes_nothing(api: Api, waiting: dict[str, Any], text: str) -> None:
    before = api.contents()

    response = api.post_raw(f"/v1/runs/{waiting['run_id']}/resume", text)

    assert response.status_code == 400
    assert api.contents() == before


def test_a_second_answer_is_a_conflict(api: Api, waiting: dict[str, Any]) -> None:
    key = waiting["interrupt"]["interrupt_key"]
    answer(api, waiting, GOOD)
    before = api.contents()

    unnamed, named = answer(api, waiting, GOOD), answer(api, waiting, GOOD, key)

    assert error_of(unnamed) == (409, "run_not_interrupted")
    assert error_of(named) == (409, "interrupt_answered")
    assert named.json()["error"]["details"]["answered_at_ms"] > 0
    assert api.contents() == before


def test_of_twenty_simultaneous_answers_exactly_one_is_taken(api: Api, waiting: dict[str, Any]) -> None:
    path = f"{api.url}/v1/runs/{waiting['run_id']}/interrupts/{quote('interrupt:ask#1', safe='')}/resume"
    bodies = [{"payload": {"note": f"from {i}"}, "outcome": "approved"} for i in range(20)]

    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda body: httpx.post(path, json=body, timeout=30), bodies))

    winners = [i for i, response in enumerate(answers) if response.status_code == 200]
    assert len(winners) == 1
    losers = [response for response in answers if response.status_code != 200]
    assert {error_of(response) for response in losers} == {(409, "interrupt_answered")}
    assert api.run(waiting["run_id"])["output"] == {"note": f"from {winners[0]}"}
    answered = [
        step for step in api.get(f"/v1/runs/{waiting['run_id']}/trace").json()["trace"] if step["outcome"] == "approved"
    ]
    assert len(answered) == 1


def test_an_answer_sent_again_under_its_key_succeeds_again(api: Api, waiting: dict[str, Any]) -> None:
    body = {**GOOD, "idempotency_key": "mail|17"}
    key = waiting["interrupt"]["interrupt_key"]
    first = answer(api, waiting, body, key)
    before = api.contents()

    again = answer(api, waiting, body, key)
    other = answer(api, waiting, {**body, "outcome": "rejected"}, key)
    stranger = answer(api, waiting, {**body, "idempotency_key": "another"}, key)

    assert (first.status_code, again.status_code) == (200, 200)
    assert again.json()["status"] == "completed"
    assert error_of(other) == (409, "idempotency_key_reused")
    assert error_of(stranger) == (409, "interrupt_answered")
    assert api.contents() == before


def test_an_answer_under_a_key_must_name_its_interrupt_since_the_next_question_could_be_meant(api: Api) -> None:
    api.publish(TWO_QUESTIONS)
    run = api.start("two_questions", input={})

    response = answer(api, run, {"idempotency_key": "k"})

    assert error_of(response) == (422, "interrupt_key_required")
    assert answer(api, run, {"idempotency_key": "k", "interrupt_key": "interrupt:first#1"}).status_code == 200
    assert answer(api, run, {"idempotency_key": "k", "interrupt_key": "interrupt:first#1"}).status_code == 200
    assert [i["node_id"] for i in api.run(run["run_id"])["interrupts"]] == ["second"]


def test_an_answer_without_a_name_is_ambiguous_where_several_are_asked(api: Api) -> None:
    api.publish(SIGNATURES)
    run = api.start("signatures", input={"people": ["ann", "bob", "cid"]})
    keys = [interrupt["interrupt_key"] for interrupt in run["interrupts"]]
    assert len(keys) == 3
    before = api.contents()

    response = answer(api, run, {"payload": {"name": "ann"}})

    assert error_of(response) == (409, "interrupt_ambiguous")
    assert response.json()["error"]["details"] == {"interrupt_keys": keys}
    assert api.contents() == before
    for key, name in zip(keys, ["ann", "bob", "cid"], strict=True):
        assert answer(api, run, {"payload": {"name": name}}, key).status_code == 200
        api.worker.drain()
    assert api.run(run["run_id"])["output"] == {"signed": ["ann", "bob", "cid"]}


@pytest.mark.parametrize(
    "key", ["interrupt:ask#2", "interrupt:other#1", "interrupt:ask", "x", "interrupt:ask#-1", "#", "a/b#1"]
)
def test_a_key_that_names_no_open_interrupt_is_a_conflict(api: Api, waiting: dict[str, Any], key: str) -> None:
    before = api.contents()

    assert error_of(answer(api, waiting, GOOD, key)) == (409, "interrupt_not_open")
    assert error_of(answer(api, waiting, {**GOOD, "interrupt_key": key, "idempotency_key": "k"})) == (
        409,
        "interrupt_not_open",
    )
    assert api.contents() == before


def test_an_answer_to_another_revision_of_the_interrupt_is_refused(api: Api, waiting: dict[str, Any]) -> None:
    before = api.contents()

    response = answer(api, waiting, {**GOOD, "revision": "1.other"})

    assert error_of(response) == (409, "interrupt_revision_stale")
    assert response.json()["error"]["details"] == {"revision": waiting["interrupt"]["revision"]}
    assert api.contents() == before
    assert answer(api, waiting, {**GOOD, "revision": waiting["interrupt"]["revision"]}).status_code == 200


@pytest.mark.parametrize("key", [None, "interrupt:ask#1"])
def test_a_run_that_asks_nothing_takes_no_answer(api: Api, key: str | None) -> None:
    api.publish(DOUBLE)
    run = api.post("/v1/runs", {"workflow": "double", "input": {"n": 1}}).json()

    assert error_of(answer(api, run, {}, key)) == (409, "run_not_interrupted")

    api.worker.drain()
    assert error_of(answer(api, run, {}, key)) == (409, "run_not_interrupted")


def test_a_cancelled_run_asks_nothing_and_takes_no_answer(api: Api, waiting: dict[str, Any]) -> None:
    cancelled = api.post(f"/v1/runs/{waiting['run_id']}/cancel", {"reason": "not needed"})

    assert cancelled.json() == {"run_id": waiting["run_id"], "status": "cancelled", "changed": True}
    assert error_of(answer(api, waiting, GOOD)) == (409, "run_not_interrupted")
    assert error_of(answer(api, waiting, GOOD, "interrupt:ask#1")) == (409, "run_not_interrupted")
    assert api.get(f"/v1/runs/{waiting['run_id']}/interrupts").json()["interrupts"] == []
    run = api.run(waiting["run_id"])
    assert (run["resume_readiness"], run["error"]["message"]) == ("not_applicable", "not needed")


def test_an_answer_that_waits_shows_what_came_of_it(api: Api) -> None:
    api.publish(TWO_QUESTIONS)
    run = api.start("two_questions", input={})

    response = answer(api, run, {"wait_seconds": 30})

    assert (response.json()["status"], response.json()["interrupt"]["node_id"]) == ("interrupted", "second")


def test_an_empty_body_is_an_empty_answer(api: Api) -> None:
    api.publish(TWO_QUESTIONS)
    run = api.start("two_questions", input={})

    assert api.http.post(f"/v1/runs/{run['run_id']}/resume").status_code == 200
