"""A worker sent back all that it was given plus one result, and parallel items overwrote each other's collection.

The completion of a task merged a whole map into an outer scope (camunda/camunda#4862). Here a step writes what its
bindings say; what a handler returns beside that goes nowhere, or is refused where the contract is closed.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.cases.flows import END, each, flow, found, inline, item
from tests.support.stores import StoreCase
from wf_api.client import WorkflowClient

ITEMS = 50


def collecting(*, closed: bool) -> dict[str, Any]:
    """Each item is given the collection of all, and its handler echoes it."""
    given = {"n": {}, "results": {}, "other": {}}
    schema: dict[str, Any] = {"type": "object", "properties": {"result": {}}}
    return flow(
        "collecting",
        [
            each("each", "input.numbers", active=10),
            {
                "id": "work",
                "type": "node",
                "node": "echo_and_one",
                "input": [
                    {"target": "n", "path": item("each")},
                    {"target": "results", "path": "state.results"},
                    {"target": "other", "path": "state.other"},
                ],
                "output": [{"source": "result", "target": "state.results"}],
            },
        ],
        [("each", "loop", "work"), ("work", "ok", "each"), ("each", "done", END)],
        takes={"numbers": {"type": "array", "items": {}}},
        state={
            "results": {"type": "array", "reducer": "wf.std.append", "default": []},
            "other": {"type": "array", "default": ["untouched"]},
            "n": {"default": "untouched"},
        },
        gives={"results": {}, "other": {}, "n": {}},
        defs=[
            {
                "name": "echo_and_one",
                "input_schema": {"type": "object", "properties": given},
                "output_schema": {**schema, "additionalProperties": False} if closed else schema,
                "outcomes": ["ok"],
            }
        ],
    )


def test_an_echo_overwrites_nothing_and_every_item_has_its_result(case: StoreCase) -> None:
    with case.unaudited(), inline(case.store, collecting(closed=False), {"numbers": list(range(ITEMS))}) as (_, run):
        record = found(case.store, run)

    assert record.error is None
    assert record.output == {"results": list(range(ITEMS)), "other": ["untouched"], "n": "untouched"}


def test_an_echo_is_refused_where_the_contract_is_closed(case: StoreCase) -> None:
    with case.unaudited(), inline(case.store, collecting(closed=True), {"numbers": [1, 2]}) as (_, run):
        record = found(case.store, run)

    assert record.error is not None
    assert (record.status, record.error["type"], record.error["node_id"]) == ("failed", "payload_invalid", "work")
    assert "Additional properties are not allowed" in str(record.error["message"])


@pytest.mark.parametrize("closed", [False, True])
def test_the_same_on_worker_processes(remote: WorkflowClient, closed: bool) -> None:
    remote.publish(collecting(closed=closed))

    run = remote.start("collecting", {"numbers": list(range(ITEMS))})
    ended = remote.wait(run["run_id"], until="ended", timeout=60)

    if closed:
        assert ended["error"] is not None
        assert (ended["status"], ended["error"]["type"]) == ("failed", "payload_invalid")
    else:
        assert ended["output"] == {"results": list(range(ITEMS)), "other": ["untouched"], "n": "untouched"}
