"""How far a run is by numbers alone, and whether its records agree."""

from __future__ import annotations

import json

import pytest

from tests.api.conftest import Api
from tests.api.test_cli import here
from tests.api.workflows import APPROVAL, DOUBLE, SIGNATURES
from wf_api.client import AsyncWorkflowClient, WorkflowApiError, WorkflowClient
from wf_worker.store.keys import RUN_KEYS


def spoil(api: Api, run_id: str) -> None:
    """Puts a frame into a second place."""
    base = api.store.keys.base(api.store.newest(run_id) or "")
    with api.valkey.client() as store:
        frame = next(iter(store.hkeys(base + RUN_KEYS["FRAMES"])))
        store.zadd(base + RUN_KEYS["HELD"], {frame: 1})


def test_progress_counts_frames_by_place_and_items_by_what_they_do(api: Api, client: WorkflowClient) -> None:
    api.publish(SIGNATURES)
    api.start("signatures", input={"people": ["ann", "bob", "cid", "dan", "eve", "fay"]}, run_id="r1")

    found = client.progress("r1")

    assert found["frames"] == {
        **dict.fromkeys(("ready", "held", "paused", "running", "waiting", "failed", "parked"), 0),
        "asking": 6,
    }
    [loop] = found["foreach"]
    assert (loop["node_id"], loop["total"], loop["admitted"]) == ("each", 6, 6)
    assert (loop["active"], loop["asking"], loop["done"]) == (0, 6, 0)
    frames = [event["frame"] for event in client.event_page("r1")["events"] if "index" in event]
    assert {frame.partition(":")[0] for frame in frames} == {loop["activation"]}


def test_of_an_ended_run_only_what_can_be_retried_is_counted(api: Api, client: WorkflowClient) -> None:
    api.publish(SIGNATURES)
    api.start("signatures", input={"people": ["ann"]}, run_id="r1")
    client.cancel("r1")

    assert set(client.progress("r1")["frames"].values()) == {0}


async def test_a_run_whose_records_agree_is_whole(api: Api, client: WorkflowClient) -> None:
    api.publish(APPROVAL)
    api.start("approval", input={"title": "t"}, run_id="r1")

    assert client.audit("r1") == {"run_id": "r1", "whole": True, "findings": []}
    async with AsyncWorkflowClient(api.url) as also:
        assert (await also.audit("r1"))["whole"]
    with pytest.raises(WorkflowApiError, match="run_not_found"):
        client.audit("nobody")


def test_every_contradiction_is_listed(api: Api, client: WorkflowClient) -> None:
    api.publish(APPROVAL)
    api.start("approval", input={"title": "t"}, run_id="r1")
    spoil(api, "r1")

    found = client.audit("r1")

    assert not found["whole"]
    assert any("is in the set held, its head says open" in finding for finding in found["findings"])


def test_a_record_of_the_wrong_type_is_a_finding(api: Api, client: WorkflowClient) -> None:
    api.publish(APPROVAL)
    api.start("approval", input={"title": "t"}, run_id="r1")
    key = api.store.keys.base(api.store.newest("r1") or "") + RUN_KEYS["HOLDS"]
    with api.valkey.client() as store:
        store.delete(key)
        store.set(key, "no hash")

    [finding] = client.audit("r1")["findings"]

    assert "wrong type" in finding


def test_the_exit_code_of_an_audit_says_whether_the_run_is_whole(api: Api) -> None:
    api.publish(APPROVAL)
    api.start("approval", input={"title": "t"}, run_id="r1")

    whole = here("run", "audit", "r1", url=api.url)
    spoil(api, "r1")
    people, program = here("run", "audit", "r1", url=api.url), here("run", "audit", "r1", "--json", url=api.url)

    assert (whole.exit_code, whole.stdout) == (0, "run r1 is whole\n")
    assert (people.exit_code, program.exit_code) == (1, 1)
    assert people.stdout.splitlines() == json.loads(program.stdout)["findings"]


def test_progress_is_shown_to_people_and_to_programs(api: Api) -> None:
    api.publish(SIGNATURES)
    api.publish(DOUBLE)
    api.start("signatures", input={"people": ["ann", "bob"]}, run_id="r1")
    api.start("double", input={"n": 1}, run_id="r2")

    people, program = here("run", "progress", "r1", url=api.url), here("run", "progress", "r1", "--json", url=api.url)

    assert (people.exit_code, program.exit_code) == (0, 0)
    assert "2 asking" in people.stdout and people.stdout.splitlines()[-1].split() == ["each", "2", "0", "0", "2"]
    assert json.loads(program.stdout)["frames"]["asking"] == 2
    assert "completed" in here("run", "progress", "r2", url=api.url).stdout
