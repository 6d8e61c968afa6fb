"""Lists, traces, progress, cancelling, health."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.api.conftest import Api, served
from tests.api.workflows import APPROVAL, DOUBLE, SIGNATURES
from wf_api.cli.stack import free_port
from wf_api.http import create_app
from wf_worker.settings import Settings
from wf_worker.store.opening import open_store


def pages(api: Api, path: str, what: str, **params: object) -> Iterator[list[dict[str, object]]]:
    """Every page of a list."""
    page = api.get(path, **params).json()
    while True:
        yield page[what]
        if page["next_cursor"] is None:
            return
        page = api.get(path, cursor=page["next_cursor"], **params).json()


def test_a_list_shows_every_run_once_while_runs_are_added(api: Api) -> None:
    api.publish(DOUBLE)
    there = [api.post("/v1/runs", {"workflow": "double", "input": {"n": i}}).json()["run_id"] for i in range(25)]

    seen: list[object] = []
    for page in pages(api, "/v1/runs", "runs", limit=4):
        seen += [run["run_id"] for run in page]
        for _ in range(3):
            api.post("/v1/runs", {"workflow": "double", "input": {"n": 0}})

    assert sorted(map(str, seen)) == sorted(there)


def test_a_list_is_newest_first_and_counts_all(api: Api) -> None:
    api.publish(DOUBLE)
    for i in range(5):
        api.post("/v1/runs", {"workflow": "double", "input": {"n": i}})

    page = api.get("/v1/runs", limit=3).json()

    times = [run["created_at"] for run in page["runs"]]
    assert times == sorted(times, reverse=True)
    assert (page["total"], page["limit"], len(page["runs"])) == (5, 3, 3)


def test_a_list_can_be_narrowed_to_a_status(api: Api) -> None:
    api.publish(DOUBLE)
    api.publish(APPROVAL)
    api.start("double", input={"n": 1})
    waiting = api.start("approval", input={"title": "t"})

    page = api.get("/v1/runs", status="interrupted").json()

    assert ([run["run_id"] for run in page["runs"]], page["total"]) == ([waiting["run_id"]], 1)
    assert api.get("/v1/runs", status="failed").json()["runs"] == []


def test_a_list_can_be_narrowed_to_a_workflow_tags_and_a_time(api: Api) -> None:
    api.publish(DOUBLE)
    api.publish(APPROVAL)
    tagged = api.start("double", input={"n": 1}, tags={"team": "blue", "env": "a=b"}, priority="high")
    api.start("double", input={"n": 1}, tags={"team": "blue"})
    other = api.start("approval", input={"title": "t"})

    def ids(**params: object) -> list[str]:
        return [run["run_id"] for run in api.get("/v1/runs", **params).json()["runs"]]

    assert ids(tag=["team=blue", "env=a=b"]) == [tagged["run_id"]]
    assert ids(workflow="approval") == [other["run_id"]]
    assert ids(created_from=other["created_at"], workflow="double") == []
    assert len(ids(created_to=other["created_at"])) == 3
    assert (tagged["tags"], tagged["priority"]) == ({"team": "blue", "env": "a=b"}, "high")
    entry = api.get("/v1/runs", tag="env=a=b").json()["runs"][0]
    assert (entry["tags"], entry["priority"]) == ({"team": "blue", "env": "a=b"}, "high")


@pytest.mark.parametrize(
    ("params", "path"),
    [
        ({"tag": "blue"}, "tag[0]"),
        ({"created_from": "2030-01-31"}, "created_from"),
        ({"created_to": "2030-01-31T09:00:00"}, "created_to"),
        ({"priority": "high"}, "priority"),
    ],
)
def test_a_filter_that_is_none_is_refused_and_named(api: Api, params: dict[str, object], path: str) -> None:
    answer = api.get("/v1/runs", **params)

    assert (answer.status_code, answer.json()["error"]["path"]) == (422, path)


def test_a_cursor_belongs_to_its_filter(api: Api) -> None:
    api.publish(DOUBLE)
    for _ in range(3):
        api.start("double", input={"n": 1}, tags={"team": "blue"})
    cursor = api.get("/v1/runs", limit=1, tag="team=blue").json()["next_cursor"]

    answer = api.get("/v1/runs", limit=1, tag="team=red", cursor=cursor)

    assert answer.json()["error"]["code"] == "cursor_invalid"
    assert len(api.get("/v1/runs", limit=5, tag="team=blue", cursor=cursor).json()["runs"]) == 2


def test_a_trace_is_read_in_ranges(api: Api) -> None:
    api.publish(APPROVAL)
    run = api.start("approval", input={"title": "t"})
    api.post(f"/v1/runs/{run['run_id']}/resume", {"payload": {"note": "n"}, "outcome": "rejected"})
    path = f"/v1/runs/{run['run_id']}/trace"

    first = api.get(path, start=0, limit=1).json()
    rest = api.get(path, start=first["next_start"], limit=100).json()
    beyond = api.get(path, start=99).json()

    assert [step["outcome"] for step in first["trace"] + rest["trace"]][:2] == ["interrupt", "rejected"]
    assert rest["trace"][0]["state_changes"] == [{"path": "state.note", "value": "n"}]
    assert first["total"] == 1 + len(rest["trace"])
    assert rest["next_start"] is None
    assert (beyond["trace"], beyond["next_start"]) == ([], None)


def test_progress_counts_the_items_of_open_loops(api: Api) -> None:
    api.publish(SIGNATURES)
    run = api.start("signatures", input={"people": ["ann", "bob", "cid"]})
    key = run["interrupts"][0]["interrupt_key"]
    api.post(f"/v1/runs/{run['run_id']}/resume", {"payload": {"name": "ann"}, "interrupt_key": key})
    api.worker.drain()

    progress = api.get(f"/v1/runs/{run['run_id']}/progress").json()

    [loop] = progress["foreach"]
    assert (loop["node_id"], loop["total"], loop["admitted"], loop["done"]) == ("each", 3, 3, 1)


def test_cancelling_twice_changes_nothing_the_second_time(api: Api) -> None:
    api.publish(DOUBLE)
    run_id = api.post("/v1/runs", {"workflow": "double", "input": {"n": 1}}).json()["run_id"]

    first, second = (api.http.post(f"/v1/runs/{run_id}/cancel").json() for _ in range(2))

    assert first == {"run_id": run_id, "status": "cancelled", "changed": True}
    assert second == {"run_id": run_id, "status": "cancelled", "changed": False}
    api.worker.drain()
    assert api.run(run_id)["status"] == "cancelled"


def test_the_same_workflow_published_again_is_the_same_version(api: Api) -> None:
    first = api.post("/v1/workflows", {"workflow": DOUBLE})
    again = api.post("/v1/workflows", {"workflow": DOUBLE})

    assert (first.status_code, again.status_code) == (201, 200)
    assert {**again.json(), "created": True} == first.json()


def test_a_version_is_bound_to_its_document(api: Api) -> None:
    api.post("/v1/workflows", {"workflow": DOUBLE, "version": "v1"})
    other = {**DOUBLE, "outcomes": ["ok", "other"]}
    before = api.get("/v1/workflows/double").json()

    response = api.post("/v1/workflows", {"workflow": other, "version": "v1"})

    assert (response.status_code, response.json()["error"]["code"]) == (409, "workflow_version_exists")
    assert api.get("/v1/workflows/double").json() == before


def test_simultaneous_publishers_get_a_version_each(api: Api) -> None:
    documents = [{**DOUBLE, "outcomes": ["ok", f"other{i}"]} for i in range(12)]

    with ThreadPoolExecutor(12) as pool:
        answers = list(
            pool.map(lambda d: httpx.post(api.url + "/v1/workflows", json={"workflow": d}, timeout=30), documents)
        )

    assert [answer.status_code for answer in answers] == [201] * 12
    assert sorted(int(answer.json()["version"]) for answer in answers) == list(range(1, 13))


def test_workflows_are_found_by_name_version_and_digest(api: Api) -> None:
    published = api.publish(DOUBLE)
    newer = api.publish({**DOUBLE, "outcomes": ["ok", "other"]})

    versions = api.get("/v1/workflows/double").json()

    assert [v["version"] for v in versions["versions"]] == ["1", "2"]
    assert versions["latest"] == "2"
    for which, expected in (("1", published), (published["digest"], published), ("latest", newer), ("2", newer)):
        shown = api.get(f"/v1/workflows/double/{which}").json()
        assert (shown["version"], shown["digest"]) == (expected["version"], expected["digest"])
        assert shown["workflow"]["name"] == "double"
    assert api.get("/v1/workflows/double/3").json()["error"]["code"] == "workflow_version_not_found"
    assert api.get("/v1/workflows/nobody").json()["error"]["code"] == "workflow_not_found"


def test_a_published_document_can_be_published_again_as_it_is_shown(api: Api) -> None:
    for document in (DOUBLE, APPROVAL, SIGNATURES):
        published = api.publish(document)
        shown = api.get(f"/v1/workflows/{document['name']}/latest").json()["workflow"]
        assert api.publish(shown)["digest"] == published["digest"]


def test_workflows_are_listed_by_name_page_by_page(api: Api) -> None:
    for i in range(7):
        api.publish({**DOUBLE, "name": f"flow {i} \u00e4"})

    names = [w["name"] for page in pages(api, "/v1/workflows", "workflows", limit=3) for w in page]

    assert names == [f"flow {i} \u00e4" for i in range(7)]
    assert api.get(f"/v1/workflows/{names[0]}").json()["name"] == names[0]


def test_the_description_of_the_api_names_every_body_and_answer(api: Api) -> None:
    document = api.get("/openapi.json").json()

    start = document["paths"]["/v1/runs"]["post"]
    assert start["requestBody"]["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/StartRun"}
    known = set(document["components"]["schemas"])
    assert {"StartRun", "ResumeRun", "RunView", "ErrorView", "InterruptView"} <= known
    assert set(_refs(document)) <= {f"#/components/schemas/{name}" for name in known}


def _refs(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for item in value.values():
            yield from _refs(item)
    elif isinstance(value, list):
        for item in value:
            yield from _refs(item)


def test_a_healthy_server_is_alive_and_ready(api: Api) -> None:
    assert api.get("/healthz").json() == {"status": "ok"}
    assert api.get("/readyz").json() == {"status": "ready"}


@pytest.fixture
def storeless() -> Iterator[str]:
    """The URL of an API whose store is not there."""
    settings = Settings(store_url=f"redis://127.0.0.1:{free_port()}/0")
    store = open_store(settings)
    with served(create_app(store, lambda _: None, settings)) as url:
        yield url
    store.records.close()


def test_a_server_without_its_store_is_alive_but_not_ready(storeless: str) -> None:
    ready = httpx.get(storeless + "/readyz", timeout=30)

    assert httpx.get(storeless + "/healthz").status_code == 200
    assert (ready.status_code, ready.json()["error"]["code"]) == (503, "store_unavailable")
    assert int(ready.headers["retry-after"]) > 0


def test_a_store_that_accepts_and_never_answers_makes_the_server_unready_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings = Settings(store_url=f"redis://127.0.0.1:{silent.getsockname()[1]}/0")
        store = open_store(settings)
        with served(create_app(store, lambda _: None, settings)) as url:
            response = httpx.get(url + "/readyz", timeout=8)
            assert httpx.get(url + "/healthz").status_code == 200
            silent.close()

    assert response.status_code == 503


@pytest.mark.parametrize("path", ["/v1/runs", "/v1/runs/r", "/v1/workflows"])
def test_a_request_without_a_store_is_refused_for_now_and_shows_no_address(storeless: str, path: str) -> None:
    response = httpx.get(storeless + path, timeout=30)

    assert (response.status_code, response.json()["error"]["code"]) == (503, "store_unavailable")
    assert "127.0.0.1" not in response.text
    assert int(response.headers["retry-after"]) > 0
