"""Values that a script took apart came back as others: an empty list as an empty object, a large id in exponent form.

Lua has one kind of table and one kind of number, and the server's JSON library prints fourteen digits
(redis/redis#856, redis/redis#7520, sidekiq/sidekiq#2478). Here scripts never look into a value: what was sent comes
back with every digit and in the same order, through every station of a run and over every store.
"""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.cases.flows import END, each, flow, found, inline, item, step
from tests.support.stores import StoreCase
from wf_api.cli.stack import Stack
from wf_api.client import WorkflowClient
from wf_api.strict_json import encode

SENT = '{"tags":[],"id":15947634569000323,"ratio":0.12345678901234568,"one":3.0,"m":{}}'
OTHERS = [
    '{"z":1,"a":2,"m":[[],{},[{}],{"x":[]}]}',
    "[9007199254740993,-9223372036854775809,18446744073709551616," + "7" * 400 + "]",
    "[1e22,1e-7,5e-324,1.7976931348623157e308,-0.0,100000000000000.0,0.1,2.0]",
    '["","\\u0000","\\u2028","é","é","日本","😀","\\"\\\\/"]',
    '{"":{"a.b":{" ":null}},"cjson.null":null,"t":true,"f":false,"__index":[]}',
    "[[[[[[[[[[]]]]]]]]]]",
    "null",
]
WORDS = [SENT, *(f'{{"value":{text}}}' for text in OTHERS)]
"""Objects all: of a list, an append takes each element."""
VALUES: list[Any] = [json.loads(text) for text in WORDS]
TEXTS = [encode(value).decode() for value in VALUES]
"""As the API writes them: compact, with the characters themselves."""
AS_PYTHON = [json.dumps(value, separators=(",", ":"), ensure_ascii=False) for value in VALUES]

STATIONS = flow(
    "stations",
    [
        step("first", "echo", "input.value", "state.first"),
        each("each", "state.first"),
        step("work", "echo", item("each"), "state.listed"),
        step("seen", "as_text", item("each"), "state.seen"),
        {
            "id": "ask",
            "type": "interrupt",
            "kind": "question",
            "request": [{"target": "value", "path": "state.listed"}],
            "resume": [{"source": "value", "target": "state.answer"}],
        },
        step("last", "echo", "state.answer", "state.last"),
    ],
    [
        ("first", "ok", "each"),
        ("each", "loop", "work"),
        ("work", "ok", "seen"),
        ("seen", "ok", "each"),
        ("each", "done", "ask"),
        ("ask", "submitted", "last"),
        ("last", "ok", END),
    ],
    state={
        "first": {},
        "listed": {"type": "array", "reducer": "wf.std.append"},
        "seen": {"type": "array", "reducer": "wf.std.append"},
        "answer": {},
        "last": {},
    },
    takes={"value": {}},
    gives={"first": {}, "listed": {}, "seen": {}, "answer": {}, "last": {}},
)


def test_the_texts_are_what_python_writes_too() -> None:
    assert TEXTS[0] == SENT
    assert [repr(json.loads(text)) for text in TEXTS] == [repr(value) for value in VALUES]


def test_every_station_of_a_run_on_worker_processes_keeps_every_byte(processes: Stack, remote: WorkflowClient) -> None:
    remote.publish(STATIONS)
    # As somebody wrote it, with more digits than a double has.
    body = '{"workflow":"stations","input":{"value":[' + ",".join(WORDS) + "]}}"
    body = body.replace("0.12345678901234568", "0.1234567890123456789")
    headers = {"Content-Type": "application/json"}
    run_id = httpx.post(f"{processes.url}/v1/runs", content=body, headers=headers, timeout=30).json()["run_id"]
    asked = remote.wait(run_id, timeout=60)
    assert asked["status"] == "interrupted", asked["error"]
    whole = "[" + ",".join(TEXTS) + "]"
    shown = httpx.get(f"{processes.url}/v1/runs/{run_id}/interrupts", timeout=30).text
    assert f'"payload":{{"value":{whole}}}' in shown

    answer = '{"payload":{"value":[' + ",".join(WORDS) + "]}}"
    response = httpx.post(f"{processes.url}/v1/runs/{run_id}/resume", content=answer, headers=headers, timeout=30)
    assert response.status_code == 200
    assert remote.wait(run_id, timeout=60)["status"] == "completed"

    ended = httpx.get(f"{processes.url}/v1/runs/{run_id}", params={"include": "input"}, timeout=30).text
    for station in ("first", "listed", "answer", "last"):
        assert f'"{station}":{whole}' in ended, station
    seen = json.loads(ended)["output"]["seen"]
    assert seen == AS_PYTHON


@pytest.mark.parametrize("at_a_time", [1, 4])
def test_every_store_keeps_every_byte(case: StoreCase, at_a_time: int) -> None:
    document = {**STATIONS, "nodes": [dict(node) for node in STATIONS["nodes"]]}
    document["nodes"][1] = each("each", "state.first", active=at_a_time)
    with case.unaudited(), inline(case.store, document, {"value": VALUES}) as (worker, run):
        [opened] = case.store.interrupts(run)
        digest = found(case.store, run).digest
        worker.publish(case.store.resume(run, opened.number, {"value": VALUES}, "submitted", digest=digest))
        worker.drain()

    record = found(case.store, run)
    assert record.status == "completed", record.error
    whole = encode(VALUES)
    assert encode(opened.request.payload["value"]) == whole
    assert isinstance(record.output, dict)
    assert {
        name: encode(record.output[name]) == whole for name in ("first", "listed", "answer", "last")
    } == dict.fromkeys(("first", "listed", "answer", "last"), True)
    assert record.output["seen"] == AS_PYTHON


@pytest.mark.parametrize(("sign", "exponent"), [(1, 4300), (-1, 4299)])
def test_an_integer_that_could_not_be_read_again_fails_its_step_and_damages_nothing(
    case: StoreCase, sign: int, exponent: int
) -> None:
    given = sign * 10**exponent
    document = flow("large", [step("make", "make", None, "state.value")], [("make", "ok", END)], state={"value": {}})
    with inline(case.store, document, {}, {"make": lambda _payload, _context: {"value": given}}) as (_, run):
        record = found(case.store, run)

    assert record.error is not None
    assert (record.status, record.error["type"]) == ("failed", "result_not_json")
    assert "value: an integer of more than 4300 characters" in str(record.error["message"])


def test_an_integer_is_let_in_only_where_it_can_be_read_again(processes: Stack, remote: WorkflowClient) -> None:
    remote.publish(STATIONS)

    def started(digits: str) -> httpx.Response:
        content = '{"workflow":"stations","input":{"value":[' + digits + "]}}"
        return httpx.post(
            f"{processes.url}/v1/runs", content=content, headers={"Content-Type": "application/json"}, timeout=30
        )

    for digits in ("9" * 4301, "-" + "9" * 4300):
        refused = started(digits)
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "json_number_too_long")
    for digits in ("9" * 4300, "-" + "9" * 4299):
        run = started(digits).json()
        asked = remote.wait(run["run_id"], timeout=30)
        assert f"[{digits}]" in httpx.get(f"{processes.url}/v1/runs/{run['run_id']}", timeout=30).text
        assert asked["status"] == "interrupted"
