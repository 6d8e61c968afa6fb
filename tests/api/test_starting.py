"""Starting runs: exactly the run that was asked for, once."""

from __future__ import annotations

import copy
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.api.conftest import Api, served
from tests.api.workflows import APPROVAL, DOUBLE
from wf_api.http import create_app
from wf_api.services import RunService, StartRequest
from wf_worker.errors import StoreUnavailable
from wf_worker.settings import Settings
from wf_worker.store.protocol import Created, NewRun
from wf_worker.store.runs import RunStore


def test_a_started_run_is_pending_until_a_worker_takes_it(api: Api) -> None:
    published = api.publish(DOUBLE)

    response = api.post("/v1/runs", {"workflow": "double", "input": {"n": 21}})

    assert response.status_code == 201
    run = response.json()
    assert response.headers["location"] == f"/v1/runs/{run['run_id']}"
    assert run["status"] == "pending"
    assert (run["workflow"], run["version"], run["digest"]) == ("double", "1", published["digest"])
    api.worker.drain()
    done = api.run(run["run_id"])
    assert (done["status"], done["outcome"], done["output"]) == ("completed", "ok", {"result": 42})
    assert done["ended_at"] is not None


def test_a_start_that_waits_answers_with_what_was_reached(api: Api) -> None:
    api.publish(DOUBLE)
    with api.worker.serving():
        response = api.post("/v1/runs", {"workflow": "double", "input": {"n": 1}, "wait_seconds": 30})

    assert response.json()["status"] == "completed"


def test_a_wait_that_runs_out_answers_with_the_run_as_it_is(api: Api) -> None:
    api.publish(DOUBLE)

    response = api.post("/v1/runs", {"workflow": "double", "input": {"n": 1}, "wait_seconds": 0.1})

    assert (response.status_code, response.json()["status"]) == (201, "pending")


def test_waiting_requests_do_not_delay_others(api: Api) -> None:
    api.publish(DOUBLE)
    body = {"workflow": "double", "input": {"n": 1}, "wait_seconds": 60}
    with ThreadPoolExecutor(60) as pool:
        waiting = [pool.submit(api.post, "/v1/runs", body) for _ in range(60)]
        deadline = time.monotonic() + 30
        while api.get("/v1/runs", limit=1).json()["total"] < 60:
            assert time.monotonic() < deadline
        assert api.get("/readyz").status_code == 200

        with api.worker.serving():
            assert {future.result().json()["status"] for future in waiting} == {"completed"}


def test_integers_of_any_size_and_the_order_of_keys_survive(api: Api) -> None:
    api.publish(APPROVAL)
    text = '{"workflow": "approval", "input": {"title": "t", "z": 123456789012345678901234567890, "a": [1.0, 1, 1e2]}}'

    run_id = api.post_raw("/v1/runs", text).json()["run_id"]

    shown = api.get(f"/v1/runs/{run_id}", include="input")
    assert '"input":{"title":"t","z":123456789012345678901234567890,"a":[1.0,1,100.0]}' in shown.text
    assert "input" not in api.run(run_id)


def test_a_run_belongs_to_the_version_it_was_started_with(api: Api) -> None:
    api.publish(DOUBLE)
    newer = copy.deepcopy(DOUBLE)
    newer["state_schema"]["title"] = "newer"
    api.publish(newer)

    versions = [
        api.post("/v1/runs", {"workflow": "double", "input": {"n": 1}, **which}).json()["version"]
        for which in ({}, {"version": "1"}, {"version": "latest"}, {"version": "2"})
    ]

    assert versions == ["2", "1", "2", "2"]


def test_a_run_can_be_started_by_the_digest_of_its_workflow(api: Api) -> None:
    digest = api.publish(DOUBLE)["digest"]

    run = api.post("/v1/runs", {"digest": digest, "input": {"n": 1}}).json()

    assert (run["workflow"], run["version"], run["digest"]) == ("double", "1", digest)


def test_the_step_budget_is_kept_with_the_run(api: Api) -> None:
    api.publish(DOUBLE)

    run = api.start("double", input={"n": 1}, limits={"max_steps": 7})

    assert run["limits"] == {"max_steps": 7}


@pytest.mark.parametrize(
    ("level", "entries"), [("full", [{"n": 2}]), ("summary", [{}]), ("off", []), (None, [{"n": 2}])]
)
def test_a_run_keeps_as_much_of_its_history_as_was_asked_for(api: Api, level: str | None, entries: list[Any]) -> None:
    api.publish(DOUBLE)

    run = api.start("double", input={"n": 1}, **({} if level is None else {"trace": level}))

    assert (run["status"], run["output"]) == ("completed", {"result": 2})
    trace = api.get(f"/v1/runs/{run['run_id']}/trace").json()["trace"]
    assert [entry["output"] for entry in trace] == entries
    assert run["trace_count"] == len(entries)


def test_a_run_with_an_idempotency_key_is_kept_for_as_long_as_the_key_leads_to_it(api: Api) -> None:
    api.publish(DOUBLE)
    keyed = api.start("double", input={"n": 1}, idempotency_key="k")["run_id"]
    plain = api.start("double", input={"n": 1})["run_id"]

    def kept_seconds(run_id: str) -> int:
        header = api.store.records.header(api.store.newest(run_id) or "", ("keep",))
        assert header is not None
        return int(header["keep"].split(b",")[0]) // 1000

    settings = Settings()
    assert kept_seconds(keyed) == max(settings.idempotency_seconds, settings.retention_seconds)
    assert kept_seconds(plain) == settings.retention_seconds
    assert Settings(retention_seconds=5).keep(at_least_seconds=86_400).split(",")[0] == "86400000"


def test_an_unknown_trace_level_starts_nothing(api: Api) -> None:
    api.publish(DOUBLE)

    refused = api.post("/v1/runs", {"workflow": "double", "input": {"n": 1}, "trace": "some"})

    assert refused.status_code == 422
    assert refused.json()["error"]["path"] == "trace"
    assert api.get("/v1/runs").json()["total"] == 0


def test_an_id_in_use_is_a_conflict_unless_the_policies_allow_it(api: Api) -> None:
    api.publish(APPROVAL)
    body: dict[str, Any] = {"workflow": "approval", "input": {"title": "t"}, "run_id": "mine"}
    first = api.post("/v1/runs", body).json()

    refused = api.post("/v1/runs", body)
    used = api.post("/v1/runs", {**body, "open_policy": "use_existing"})
    replaced = api.post("/v1/runs", {**body, "open_policy": "cancel_existing"})

    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "run_id_in_use")
    assert refused.json()["error"]["details"]["status"] == "pending"
    assert (used.status_code, used.json()["revision"]) == (200, first["revision"])
    assert replaced.status_code == 201
    assert replaced.json()["revision"] != first["revision"]
    assert api.get("/v1/runs", status="cancelled").json()["total"] == 1


def test_the_id_of_an_ended_run_is_used_again_only_where_the_policy_allows_it(api: Api) -> None:
    api.publish(DOUBLE)
    body: dict[str, Any] = {"workflow": "double", "input": {"n": 1}, "run_id": "mine"}
    api.start(**body)

    answers = {
        policy: api.post("/v1/runs", {**body, "closed_policy": policy, "open_policy": "cancel_existing"}).status_code
        for policy in ("reject", "allow_after_failure", "allow")
    }

    assert answers == {"reject": 409, "allow_after_failure": 409, "allow": 201}


def test_the_same_key_and_request_start_one_run(api: Api) -> None:
    api.publish(DOUBLE)
    body = {"workflow": "double", "input": {"n": 1}, "idempotency_key": "order 17"}

    first, second = api.post("/v1/runs", body), api.post("/v1/runs", body)

    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json()["run_id"] == second.json()["run_id"]
    assert api.get("/v1/runs").json()["total"] == 1


def test_simultaneous_starts_with_one_key_start_one_run(api: Api) -> None:
    api.publish(DOUBLE)
    body = {"workflow": "double", "input": {"n": 1}, "idempotency_key": "once"}

    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: httpx.post(api.url + "/v1/runs", json=body, timeout=30), range(20)))

    assert sorted(answer.status_code for answer in answers) == [200] * 19 + [201]
    assert len({answer.json()["run_id"] for answer in answers}) == 1
    assert api.get("/v1/runs").json()["total"] == 1


def test_another_request_under_the_same_key_is_a_conflict(api: Api) -> None:
    api.publish(DOUBLE)
    first = api.post("/v1/runs", {"workflow": "double", "input": {"n": 1}, "idempotency_key": "k"}).json()
    before = api.contents()

    response = api.post("/v1/runs", {"workflow": "double", "input": {"n": 2}, "idempotency_key": "k"})

    assert response.status_code == 409
    assert response.json()["error"]["code"] == "idempotency_key_reused"
    assert response.json()["error"]["details"] == {"run_id": first["run_id"]}
    assert api.contents() == before


def test_a_repeated_start_finds_its_run_though_a_newer_version_was_published(api: Api) -> None:
    api.publish(DOUBLE)
    body = {"workflow": "double", "input": {"n": 1}, "idempotency_key": "k"}
    first = api.post("/v1/runs", body).json()
    newer = copy.deepcopy(DOUBLE)
    newer["state_schema"]["title"] = "newer"
    api.publish(newer)

    second = api.post("/v1/runs", body).json()

    assert (second["run_id"], second["version"]) == (first["run_id"], "1")


class _DiesBeforeCreating(RunStore):
    """A store whose process dies between the reservation and the run."""

    def create(self, new: NewRun) -> Created:
        raise StoreUnavailable("gone")


def test_a_key_reserved_by_a_process_that_died_leads_to_the_run_it_was_reserved_for(
    store: RunStore, settings: Settings, api: Api
) -> None:
    api.publish(DOUBLE)
    request = StartRequest(workflow="double", workflow_input={"n": 1}, idempotency_key="k")
    dying = RunService(_DiesBeforeCreating(store.records, store.keys), api.worker.publish, settings)
    with pytest.raises(StoreUnavailable):
        dying.start_run(request)
    assert store.count_runs() == 0

    first = RunService(store, api.worker.publish, settings).start_run(request).run
    second = RunService(store, api.worker.publish, settings).start_run(request).run

    assert first["run_id"] == second["run_id"]
    assert store.count_runs() == 1
    api.worker.drain()
    assert api.run(first["run_id"])["status"] == "completed"


def test_a_run_is_accepted_though_its_messages_cannot_be_sent(api: Api, store: RunStore, settings: Settings) -> None:
    def broken(_: object) -> None:
        raise StoreUnavailable("no broker", code="broker_unavailable")

    with (
        served(create_app(store, broken, settings)) as url,
        httpx.Client(base_url=url) as http,
    ):
        http.post("/v1/workflows", json={"workflow": DOUBLE})
        response = http.post("/v1/runs", json={"workflow": "double", "input": {"n": 1}})

    assert (response.status_code, response.json()["status"]) == (201, "pending")


def test_a_workflow_that_needs_a_reducer_nobody_has_is_not_started(api: Api) -> None:
    document = copy.deepcopy(DOUBLE)
    document["state_schema"]["properties"]["result"]["reducer"] = "billing.latest"
    api.publish(document)
    before = api.contents()

    response = api.post("/v1/runs", {"workflow": "double", "input": {"n": 1}})

    assert (response.status_code, response.json()["error"]["code"]) == (422, "unknown_reducer")
    assert api.contents() == before
