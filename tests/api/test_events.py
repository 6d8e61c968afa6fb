"""Events of a run over real HTTP: as a stream that can be cut and gone on with, and as pages."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.api.conftest import Api, served
from tests.api.workflows import APPROVAL, DOUBLE, SIGNATURES
from tests.support.waiting import eventually
from wf_api.client import AsyncWorkflowClient, WorkflowApiError, WorkflowClient
from wf_api.client.following import StreamParser
from wf_api.http import create_app
from wf_worker.settings import Settings
from wf_worker.store.keys import RUN_KEYS

STREAM = {"Accept": "text/event-stream"}
PAGE = {"Accept": "application/json"}


@contextmanager
def serving(api: Api, settings: Settings, **more: Any) -> Iterator[str]:
    """Another server process's worth of API on the same store."""
    app = create_app(api.store, api.worker.publish, settings.model_copy(update=more))
    with served(app) as url:
        try:
            yield url
        finally:
            app.state.end_streams()


def page(api: Api, run_id: str, **params: Any) -> dict[str, Any]:
    response = api.http.get(f"/v1/runs/{run_id}/events", params=params, headers=PAGE)
    assert response.status_code == 200, response.text
    return response.json()


def messages(text: str) -> list[tuple[str | None, str, Any]]:
    """Id, name and data of every message of a stream, comments left out."""
    found: list[tuple[str | None, str, Any]] = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if "event" in fields:
            found.append((fields.get("id"), fields["event"], json.loads(fields["data"])))
    return found


def stream(api: Api, run_id: str, **headers: str) -> list[tuple[str | None, str, Any]]:
    """A whole stream, to its end."""
    response = api.http.get(f"/v1/runs/{run_id}/events", headers={**STREAM, **headers})
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.headers["cache-control"] == "no-store"
    return messages(response.text)


def refusal(api: Api, run_id: str, after: str, accept: dict[str, str] = STREAM) -> tuple[int, dict[str, Any]]:
    response = api.http.get(f"/v1/runs/{run_id}/events", headers={**accept, "Last-Event-ID": after})
    return response.status_code, response.json()["error"]


# ---- what is shown


def test_the_events_of_an_ended_run_come_in_order_and_then_the_end(api: Api) -> None:
    api.publish(DOUBLE)
    api.start("double", input={"n": 1}, run_id="r1")

    found = stream(api, "r1")

    assert [(name, data.get("status"), data.get("node_id")) for _, name, data in found] == [
        ("status", "pending", None),
        ("status", "running", None),
        ("step", None, "twice"),
        ("status", "completed", None),
        ("end", None, None),
    ]
    step = found[2][2]
    assert step.pop("at") >= api.run("r1")["created_at"]
    assert step == {
        "id": found[2][0],
        "kind": "step",
        "step_number": 1,
        "node_id": "twice",
        "step_type": "node",
        "frame": step["frame"],
        "outcome": "ok",
        "next_node_id": None,
    }
    assert [event_id for event_id, *_ in found[:-1]] == [data["id"] for *_, data in found[:-1]]


def test_no_event_holds_what_users_gave(api: Api) -> None:
    api.publish(APPROVAL)
    waiting = api.start("approval", input={"title": "secret-title"}, run_id="r1")
    key = waiting["interrupt"]["interrupt_key"]
    api.post("/v1/runs/r1/resume", {"payload": {"note": "secret-note"}, "outcome": "approved", "interrupt_key": key})

    text = json.dumps(page(api, "r1"))

    assert "secret" not in text
    opened, closed = (event for event in page(api, "r1")["events"] if event["kind"].startswith("interrupt"))
    assert (opened["interrupt_key"], closed["interrupt_key"], closed["answer"]) == (key, key, "answered")


def test_items_of_a_loop_are_told_apart_by_their_index(api: Api) -> None:
    api.publish(SIGNATURES)
    api.start("signatures", input={"people": ["ann", "bob"]}, run_id="r1")

    events = page(api, "r1")["events"]

    assert [event["items"] for event in events if event["kind"] == "foreach_opened"] == [2]
    assert sorted(event["index"] for event in events if event["kind"] == "interrupt_opened") == [0, 1]


# ---- pages


def test_pages_lead_on_until_nothing_follows(api: Api) -> None:
    api.publish(DOUBLE)
    api.start("double", input={"n": 1}, run_id="r1")

    first = page(api, "r1", limit=3)
    second = page(api, "r1", limit=3, after=first["last_id"])
    third = page(api, "r1", limit=3, after=second["last_id"])

    assert [len(each["events"]) for each in (first, second, third)] == [3, 1, 0]
    assert [each["ended"] for each in (first, second, third)] == [False, True, True]
    assert third["last_id"] == second["last_id"] == second["events"][-1]["id"]
    assert (first["run_id"], first["limit"]) == ("r1", 3)


def test_a_page_of_a_run_that_goes_on_says_so(api: Api) -> None:
    api.publish(APPROVAL)
    api.start("approval", input={"title": "t"}, run_id="r1")

    found = page(api, "r1")

    assert (found["ended"], found["events"][-1]["status"]) == (False, "interrupted")


@pytest.mark.parametrize("accept", [STREAM, PAGE])
@pytest.mark.parametrize("after", ["1.00000000", "7.0badcafe", "nonsense"])
def test_an_id_that_the_run_does_not_have_is_refused(api: Api, accept: dict[str, str], after: str) -> None:
    api.publish(DOUBLE)
    api.start("double", input={"n": 1}, run_id="r1")

    status, error = refusal(api, "r1", after, accept)

    assert (status, error["code"], error["path"]) == (409, "event_id_unknown", "after")


def test_events_that_are_no_longer_kept_are_missed_openly(api: Api, client: WorkflowClient) -> None:
    api.publish(DOUBLE)
    api.start("double", input={"n": 1}, run_id="r1")
    whole = page(api, "r1")["events"]
    incarnation = api.store.newest("r1")
    assert incarnation is not None
    with api.valkey.client() as store:
        store.xtrim(api.store.keys.base(incarnation) + RUN_KEYS["EVENTS"], maxlen=2, approximate=False)

    status, error = refusal(api, "r1", whole[0]["id"])
    anew = list(client.events("r1"))

    assert (status, error["code"], error["details"]) == (410, "events_trimmed", {"oldest": whole[2]["id"]})
    assert anew == [{"id": None, "kind": "gap", "at": None, "skipped": 2}, *whole[2:]]


def test_a_run_without_any_event_has_an_end_all_the_same(api: Api) -> None:
    api.publish(DOUBLE)
    api.start("double", input={"n": 1}, run_id="r1")
    base = api.store.keys.base(api.store.newest("r1") or "")
    with api.valkey.client() as store:
        store.delete(base + RUN_KEYS["EVENTS"])
        store.hdel(base + RUN_KEYS["HEADER"], "events")

    assert (page(api, "r1")["ended"], page(api, "r1")["last_id"]) == (True, None)
    assert [name for _, name, _ in stream(api, "r1")] == ["end"]


def test_there_are_no_events_of_a_run_that_is_not_there(api: Api, client: WorkflowClient) -> None:
    assert api.http.get("/v1/runs/nobody/events", headers=STREAM).status_code == 404
    assert api.http.get("/v1/runs/nobody/events", headers=PAGE).json()["error"]["code"] == "run_not_found"
    with pytest.raises(WorkflowApiError, match="run_not_found"):
        next(iter(client.events("nobody")))


def test_a_parameter_that_is_not_there_is_refused(api: Api) -> None:
    assert api.http.get("/v1/runs/r1/events", params={"since": "1"}).status_code == 422
    assert api.http.get("/v1/runs/r1/events", params={"limit": "0"}).status_code == 422


# ---- going on


def test_last_event_id_goes_on_behind_an_event_and_after_goes_before_it(api: Api) -> None:
    api.publish(DOUBLE)
    api.start("double", input={"n": 1}, run_id="r1")
    ids = [event["id"] for event in page(api, "r1")["events"]]

    behind = stream(api, "r1", **{"Last-Event-ID": ids[1]})
    both = api.http.get("/v1/runs/r1/events", params={"after": ids[2]}, headers={**STREAM, "Last-Event-ID": ids[0]})

    assert [event_id for event_id, *_ in behind] == [*ids[2:], None]
    assert [event_id for event_id, *_ in messages(both.text)] == [ids[3], None]


def test_whoever_connects_again_after_the_end_is_told_to_stay_away(api: Api) -> None:
    api.publish(DOUBLE)
    api.start("double", input={"n": 1}, run_id="r1")
    last = page(api, "r1")["last_id"]

    response = api.http.get("/v1/runs/r1/events", headers={**STREAM, "Last-Event-ID": last})

    assert (response.status_code, response.content) == (204, b"")


def test_a_reader_sees_what_happens_while_it_reads(api: Api, client: WorkflowClient) -> None:
    api.publish(APPROVAL)
    waiting = api.start("approval", input={"title": "t"}, run_id="r1")
    reader = client.events("r1")
    seen = [next(reader)["kind"] for _ in range(4)]

    with WorkflowClient(api.url) as other:
        other.resume("r1", {"note": "n"}, "approved", interrupt_key=waiting["interrupt"]["interrupt_key"])
    rest = list(reader)

    assert seen == ["status", "status", "interrupt_opened", "status"]
    assert [event["kind"] for event in rest] == ["interrupt_closed", "step", "status"]
    assert rest[-1].get("status") == "completed"


def test_a_run_whose_id_is_used_anew_ends_its_readers_and_knows_none_of_their_ids(api: Api) -> None:
    api.publish(DOUBLE)
    api.start("double", input={"n": 1}, run_id="r1")
    last = page(api, "r1")["last_id"]
    api.start("double", input={"n": 2}, run_id="r1", closed_policy="allow")

    assert refusal(api, "r1", last)[1]["code"] == "event_id_unknown"


class Cutting(httpx.BaseTransport):
    """Breaks every connection after so many bytes, as a network does; notes what was asked for."""

    def __init__(self, most_bytes: int) -> None:
        self.asked: list[httpx.Request] = []
        self._real = httpx.HTTPTransport()
        self._most = most_bytes

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        response = self._real.handle_request(request)
        return httpx.Response(response.status_code, headers=response.headers, stream=_Cut(response, self._most))


class _Cut(httpx.SyncByteStream):
    def __init__(self, response: httpx.Response, most_bytes: int) -> None:
        self._response = response
        self._left = most_bytes

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._response.iter_raw():
            yield chunk[: self._left]
            self._left -= len(chunk)
            if self._left <= 0:
                raise httpx.ReadError("cut")

    def close(self) -> None:
        self._response.close()


def test_a_client_whose_connections_are_cut_gets_every_event_once(api: Api) -> None:
    api.publish(DOUBLE)
    api.start("double", input={"n": 1}, run_id="r1")
    whole = page(api, "r1")["events"]
    # Enough for one event and part of the next, wherever that is cut.
    cutting = Cutting(most_bytes=310)

    with WorkflowClient(api.url, http_client=httpx.Client(transport=cutting)) as client:
        found = list(client.events("r1"))

    assert found == whole
    assert len(cutting.asked) > 2
    assert [request.url.params.get("after") for request in cutting.asked][:1] == [None]
    assert cutting.asked[-1].url.params["after"] in [event["id"] for event in whole]


def test_a_client_that_cannot_get_through_gives_up_when_it_was_told_to(api: Api) -> None:
    api.publish(APPROVAL)
    api.start("approval", input={"title": "t"}, run_id="r1")

    with WorkflowClient(api.url, http_client=httpx.Client(transport=Cutting(400))) as client:
        reader = client.events("r1", patience_seconds=0)
        with pytest.raises(WorkflowApiError, match="server_unreachable"):
            list(reader)


async def test_the_asynchronous_client_reads_the_same(api: Api) -> None:
    await asyncio.to_thread(api.publish, DOUBLE)
    await asyncio.to_thread(lambda: api.start("double", input={"n": 1}, run_id="r1"))

    async with AsyncWorkflowClient(api.url) as client:
        found = [event async for event in client.events("r1")]
        behind = [event async for event in client.events("r1", after=found[1]["id"])]
        pages = await client.event_page("r1", limit=2)

    assert [event["kind"] for event in found] == ["status", "status", "step", "status"]
    assert behind == found[2:]
    assert pages["events"] == found[:2]


# ---- many readers, slow ones, those that leave


def raw_reader(url: str, run_id: str) -> socket.socket:
    """A connection that has asked for the events and has read nothing."""
    place = urlsplit(url)
    connection = socket.create_connection((place.hostname, place.port), timeout=20)
    request = f"GET /v1/runs/{run_id}/events HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n\r\n"
    connection.sendall(request.encode())
    return connection


def until_seen(connection: socket.socket, what: bytes) -> bytes:
    seen = b""
    while what not in seen:
        part = connection.recv(4096)
        assert part, f"the connection was closed before {what!r}: {seen!r}"
        seen += part
    return seen


def test_a_stream_in_which_nothing_happens_gives_signs_of_life(api: Api, settings: Settings) -> None:
    api.publish(APPROVAL)
    api.start("approval", input={"title": "t"}, run_id="r1")

    with serving(api, settings, api_heartbeat_seconds=0.05) as url, raw_reader(url, "r1") as reader:
        until_seen(reader, b": still here\n\n")
        until_seen(reader, b": still here\n\n")


def test_hundreds_of_readers_hold_no_thread_and_all_hear_of_the_end(api: Api, settings: Settings) -> None:
    api.publish(APPROVAL)
    waiting = api.start("approval", input={"title": "t"}, run_id="r1")
    with serving(api, settings) as url:
        before = threading.active_count()  # other servers of this process may have left some that rest
        readers = [raw_reader(url, "r1") for _ in range(300)]
        try:
            for reader in readers:
                until_seen(reader, b'"status":"interrupted"')
            threads = threading.active_count()
            # While they are all open the server answers whoever else asks.
            assert httpx.get(f"{url}/healthz", timeout=60).status_code == 200
            assert httpx.get(f"{url}/v1/runs/r1", timeout=60).json()["status"] == "interrupted"
            answer = {"payload": {"note": "n"}, "outcome": "approved"}
            key = waiting["interrupt"]["interrupt_key"]
            answered = httpx.post(f"{url}/v1/runs/r1/resume", json={**answer, "interrupt_key": key}, timeout=60)
            answered.raise_for_status()
            for reader in readers:
                until_seen(reader, b"event: end\n")
        finally:
            for reader in readers:
                reader.close()
    assert threads - before < 100


def test_a_reader_too_many_is_told_to_come_later_and_one_that_leaves_makes_room_at_once(
    api: Api, settings: Settings
) -> None:
    api.publish(APPROVAL)
    api.start("approval", input={"title": "t"}, run_id="r1")
    with serving(api, settings, api_event_readers=1) as url:
        first = raw_reader(url, "r1")
        until_seen(first, b"interrupted")

        refused = httpx.get(f"{url}/v1/runs/r1/events", headers=STREAM)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "too_many_readers")
        assert "retry-after" in refused.headers
        assert httpx.get(f"{url}/v1/runs/r1/events", headers=PAGE).status_code == 200

        first.close()  # the next sign of life would be due much later

        def has_room() -> bool:
            with raw_reader(url, "r1") as other:
                return b"200 OK" in until_seen(other, b"\r\n")

        eventually(has_room, "there is room again", seconds=5)


def test_a_slow_reader_keeps_nobody_waiting_and_misses_nothing(api: Api, settings: Settings) -> None:
    api.publish(APPROVAL)
    run = api.start("approval", input={"title": "t"}, run_id="r1")
    incarnation = api.store.newest("r1") or ""
    for _ in range(1500):
        api.store.pause(incarnation, on=True)
        api.store.pause(incarnation, on=False)
    with serving(api, settings) as url, WorkflowClient(url) as client, WorkflowClient(url) as other:
        slow = client.events("r1")
        first = next(slow)  # and takes nothing more for now
        other.resume("r1", {"note": "n"}, "approved", interrupt_key=run["interrupt"]["interrupt_key"])
        quick = list(other.events("r1"))

        assert [first, *slow] == quick

    assert sum(1 for event in quick if event["kind"] == "paused") == 1500
    assert quick[-1].get("status") == "completed"


def test_a_server_that_stops_lets_its_readers_go(api: Api, settings: Settings) -> None:
    api.publish(APPROVAL)
    api.start("approval", input={"title": "t"}, run_id="r1")
    app = create_app(api.store, api.worker.publish, settings)
    with served(app) as url, raw_reader(url, "r1") as reader:
        until_seen(reader, b"interrupted")
        app.state.end_streams()

        rest = until_seen(reader, b"0\r\n\r\n")

    assert b"event: end" not in rest


# ---- a store that has lost its last writes


def test_a_reader_from_a_lost_future_is_told_and_does_not_hang(api: Api, client: WorkflowClient) -> None:
    api.publish(APPROVAL)
    api.start("approval", input={"title": "t"}, run_id="r1")
    kept = api.contents()
    run = api.run("r1")
    client.resume("r1", {"note": "n"}, "rejected", interrupt_key=run["interrupt"]["interrupt_key"])
    lost_id = page(api, "r1")["last_id"]
    reader = client.events("r1", after=page(api, "r1")["events"][2]["id"])
    next(reader)

    restore(api, kept)

    assert refusal(api, "r1", lost_id)[1]["code"] == "event_id_unknown"


def test_an_open_reader_is_told_that_its_store_has_lost_what_it_read(api: Api, client: WorkflowClient) -> None:
    api.publish(APPROVAL)
    api.start("approval", input={"title": "t"}, run_id="r1")
    kept = api.contents()
    api.store.pause(api.store.newest("r1") or "", on=True)
    reader = client.events("r1")
    while next(reader)["kind"] != "paused":
        pass

    restore(api, kept)

    with pytest.raises(WorkflowApiError) as told:
        next(reader)
    assert (told.value.code, told.value.http_status) == ("event_id_unknown", 409)


def restore(api: Api, kept: dict[Any, bytes]) -> None:
    with api.valkey.client() as store, store.pipeline() as all_at_once:
        all_at_once.flushdb()
        for key, data in kept.items():
            all_at_once.restore(key, 0, data)
        all_at_once.execute()


# ---- the parser


@pytest.mark.parametrize("cut", [1, 2, 3, 7, 1000])
def test_a_stream_is_read_alike_however_it_is_cut(cut: int) -> None:
    text = b': hi\n\nretry: 5\n\nid: 1\nevent: step\ndata: {"a":\ndata: 1}\n\nevent: end\r\ndata:{}\r\n\r\ndata: half'
    parser = StreamParser()

    found = [message for at in range(0, len(text), cut) for message in parser.feed(text[at : at + cut])]

    assert [(message.name, json.loads(message.data)) for message in found] == [("step", {"a": 1}), ("end", {})]


def test_the_document_of_the_api_tells_of_both_forms(api: Api) -> None:
    described: Callable[[str], Any] = api.get("/openapi.json").json()["paths"].__getitem__
    answers = described("/v1/runs/{run_id}/events")["get"]["responses"]

    assert set(answers["200"]["content"]) == {"application/json", "text/event-stream"}
    assert answers["200"]["content"]["application/json"]["schema"]["$ref"].endswith("/EventPage")
    assert "204" in answers
