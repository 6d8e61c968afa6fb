"""What all runs ask for, in one list."""

from __future__ import annotations

import json

import pytest

from tests.api.conftest import Api
from tests.api.test_cli import here
from tests.api.workflows import APPROVAL, SIGNATURES
from wf_api.client import WorkflowApiError, WorkflowClient


def ask(api: Api, approvals: int, people: int) -> None:
    """So many runs that ask for an approval, then one that asks so many people to sign."""
    api.publish(APPROVAL)
    api.publish(SIGNATURES)
    for number in range(approvals):
        api.start("approval", input={"title": f"t{number}"}, run_id=f"a{number}")
    api.start("signatures", input={"people": [f"p{number}" for number in range(people)]}, run_id="s")


def test_the_inbox_lists_every_open_interrupt_once_oldest_first(api: Api, client: WorkflowClient) -> None:
    ask(api, 7, 4)

    seen: list[tuple[str, str]] = []
    page = client.inbox(limit=3)
    while True:
        assert len(page["interrupts"]) <= 3
        seen += [(entry["run_id"], entry["interrupt_key"]) for entry in page["interrupts"]]
        if page["next_cursor"] is None:
            break
        page = client.inbox(limit=3, cursor=page["next_cursor"])

    assert [run_id for run_id, _ in seen] == [f"a{number}" for number in range(7)] + ["s"] * 4
    assert len(set(seen)) == 11


def test_it_can_be_asked_for_one_kind_or_one_workflow(api: Api, client: WorkflowClient) -> None:
    ask(api, 3, 2)

    signatures, approvals = client.inbox(kind="signature"), client.inbox(workflow="approval", limit=2)

    assert [entry["payload"] for entry in signatures["interrupts"]] == [{"person": "p0"}, {"person": "p1"}]
    assert [entry["run_id"] for entry in approvals["interrupts"]] == ["a0", "a1"]
    rest = client.inbox(workflow="approval", limit=2, cursor=approvals["next_cursor"])
    assert ([entry["run_id"] for entry in rest["interrupts"]], rest["next_cursor"]) == (["a2"], None)
    assert client.inbox(kind="nothing")["interrupts"] == []


def test_what_was_answered_or_cancelled_is_gone_from_it(api: Api, client: WorkflowClient) -> None:
    ask(api, 2, 1)
    client.resume("a0", {"note": "yes"}, outcome="approved")
    client.cancel("s")

    assert [entry["run_id"] for entry in client.inbox()["interrupts"]] == ["a1"]


def test_an_entry_is_enough_to_answer(api: Api, client: WorkflowClient) -> None:
    ask(api, 1, 2)
    for entry in client.inbox(kind="signature")["interrupts"]:
        client.resume(entry["run_id"], {"name": entry["payload"]["person"]}, interrupt_key=entry["interrupt_key"])
        api.worker.drain()

    assert client.inspect("s")["output"] == {"signed": ["p0", "p1"]}


def test_a_cursor_belongs_to_its_filters(api: Api, client: WorkflowClient) -> None:
    ask(api, 3, 1)
    cursor = client.inbox(limit=1)["next_cursor"]

    with pytest.raises(WorkflowApiError) as refused:
        client.inbox(kind="signature", cursor=cursor)

    assert refused.value.code == "cursor_invalid"


def test_the_command_line_shows_it(api: Api) -> None:
    ask(api, 1, 1)

    table = here("run", "inbox", url=api.url)
    listed = here("run", "inbox", "--kind", "approval", "--json", url=api.url)

    assert table.exit_code == 0 and "interrupt:ask#1" in table.stdout
    assert [entry["run_id"] for entry in json.loads(listed.stdout)["interrupts"]] == ["a0"]
