"""A result with NaN was stored, and from then on nobody could read the page that showed it.

Python's JSON writer emits NaN and Infinity, which no other reader takes (PrefectHQ/prefect#6439,
modelcontextprotocol/python-sdk#3385). Here every way in refuses them and names the place: a request, an answer, a
handler's result, what it says in a heartbeat, what a reducer makes. Nothing unreadable reaches the store.
"""

from __future__ import annotations

import json
import math
from typing import Any

import httpx
import pytest

from tests.api.conftest import Api
from tests.api.workflows import APPROVAL
from tests.cases.flows import END, contract, flow, found, inline, step
from tests.support.stores import StoreCase
from wf_api.cli.stack import Stack
from wf_api.client import WorkflowClient

SCORES = flow(
    "scores",
    [{"id": "score", "type": "node", "node": "not_finite", "retry": 3}],
    [("score", "ok", END)],
    defs=[contract("not_finite", "scores", "max")],
    takes={"value": {}},
)


def test_a_result_with_nan_fails_its_step_at_once_and_names_the_place(processes: Stack, remote: WorkflowClient) -> None:
    remote.publish(SCORES)

    run = remote.start("scores", {}, wait_seconds=30)

    error = run["error"]
    assert error is not None
    assert (run["status"], error["type"], error["node_id"]) == ("failed", "result_not_json", "score")
    assert "scores[1]: nan is not a JSON number" in error["message"]
    text = httpx.get(f"{processes.url}/v1/runs/{run['run_id']}/trace", timeout=30).text
    assert json.loads(text, parse_constant=pytest.fail)["total"] == run["trace_count"]


@pytest.mark.parametrize("result", [math.nan, math.inf, -math.inf, [[{"a.b": math.nan}]], 1e308 * 10])
def test_a_number_that_is_not_finite_never_reaches_a_store_and_is_tried_once(case: StoreCase, result: Any) -> None:
    calls: list[int] = []

    def handler(_payload: dict[str, Any], _context: object) -> dict[str, Any]:
        calls.append(1)
        return {"value": result}

    document = flow("bad", [step("bad", "bad", None, "state.v", retry=5)], [("bad", "ok", END)], state={"v": {}})
    with inline(case.store, document, {}, {"bad": handler}) as (_, run):
        record = found(case.store, run)

    assert record.error is not None
    assert (record.status, record.error["type"], len(calls)) == ("failed", "result_not_json", 1)
    assert "value" in str(record.error["message"])


def test_a_sum_that_grows_beyond_every_number_fails_instead_of_becoming_null(case: StoreCase) -> None:
    document = flow(
        "sum",
        [step("one", "echo", "input.value", "state.v"), step("two", "echo", "input.value", "state.v")],
        [("one", "ok", "two"), ("two", "ok", END)],
        state={"v": {"type": "number", "reducer": "wf.std.add"}},
        takes={"value": {}},
    )
    with inline(case.store, document, {"value": 1.7e308}) as (_, run):
        record = found(case.store, run)

    assert record.error is not None
    assert (record.status, record.error["type"], record.error["node_id"]) == ("failed", "reducer_failed", "two")
    assert "state.v" in str(record.error["message"])


@pytest.mark.parametrize(
    ("number", "code"), [("NaN", "json_not_finite"), ("-Infinity", "json_not_finite"), ("1e999", "json_not_finite")]
)
def test_a_request_with_such_a_number_is_refused_and_nothing_is_stored(api: Api, number: str, code: str) -> None:
    api.publish(SCORES)
    api.publish(APPROVAL)
    waiting = api.start("approval", input={"title": "x"})
    before = api.contents()

    started = api.post_raw("/v1/runs", f'{{"workflow": "scores", "input": {{"value": [0.5, {number}]}}}}')
    answered = api.post_raw(f"/v1/runs/{waiting['run_id']}/resume", f'{{"payload": {{"note": {number}}}}}')
    published = api.post_raw("/v1/workflows", f'{{"workflow": {{"name": {number}}}}}')

    for response in (started, answered, published):
        assert (response.status_code, response.json()["error"]["code"]) == (400, code)
    assert api.contents() == before
