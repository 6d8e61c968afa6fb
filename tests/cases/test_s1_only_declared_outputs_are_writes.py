"""Two parallel children that were given the same field failed with a conflict, though neither had changed it.

A child gave back its whole state, so what it had only been given counted as written
(langchain-ai/langgraph#6446, langchain-ai/deepagents#923). Here a child's outputs are the bindings that are declared,
and nothing else is a write; two that do write one field are told apart by name.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.cases.flows import END, each, flow, found, inline, item, step
from tests.support.stores import StoreCase
from wf_api.client import WorkflowApiError, WorkflowClient
from wf_core.models import Workflow

USER = {"type": "object", "properties": {"name": {}, "mail": {}}}

CHILD = flow(
    "takes_a_user",
    [step("copy", "echo", "input.user", "state.user"), step("word", "echo", "input.word", "state.word")],
    [("copy", "ok", "word"), ("word", "ok", END)],
    takes={"user": USER, "word": {}},
    state={"user": USER, "word": {}},
    gives={"user": USER, "word": {}},
)


def parent(outputs: list[dict[str, str]]) -> dict[str, Any]:
    """Each item gives the user and a word of its own to a child, side by side."""
    call = {
        "id": "call",
        "type": "subgraph",
        "workflow": {"name": "takes_a_user"},
        "input_schema": CHILD["input_schema"],
        "output_schema": CHILD["output_schema"],
        "outcomes": ["ok"],
        "input": [{"target": "user", "path": "state.user"}, {"target": "word", "path": f"{item('each')}.word"}],
        "output": outputs,
    }
    left = {"id": "left", "type": "condition", "check": equals(f"{item('each')}.side", "left")}
    return flow(
        "parent",
        [
            step("begin", "echo", "input.user", "state.user"),
            each("each", "input.sides"),
            call,
            left,
            step("to_left", "echo", f"{item('each')}.word", "state.left"),
            step("to_right", "echo", f"{item('each')}.word", "state.right"),
        ],
        [
            ("begin", "ok", "each"),
            ("each", "loop", "call"),
            ("call", "ok", "left"),
            ("left", "true", "to_left"),
            ("left", "false", "to_right"),
            ("to_left", "ok", "each"),
            ("to_right", "ok", "each"),
            ("each", "done", END),
        ],
        takes={
            "user": USER,
            "sides": {"type": "array", "items": {"type": "object", "properties": {"side": {}, "word": {}}}},
        },
        state={
            "user": USER,
            "left": {},
            "right": {},
            "words": {"type": "array", "reducer": "wf.std.append"},
        },
        gives={"user": {}, "left": {}, "right": {}, "words": {}},
    )


def equals(path: str, value: str) -> dict[str, Any]:
    return {"op": "eq", "left": {"path": path}, "right": {"value": value}}


GIVEN = {
    "user": {"name": "Ada", "mail": "ada@a.example"},
    "sides": [{"side": "left", "word": "l"}, {"side": "right", "word": "r"}],
}


def test_children_that_share_a_field_and_do_not_write_it_do_not_conflict(case: StoreCase) -> None:
    case.store.publish(Workflow.model_validate(CHILD))
    document = parent([{"source": "word", "target": "state.words"}])
    with inline(case.store, document, GIVEN) as (_, run):
        record = found(case.store, run)

    assert record.error is None
    assert record.output == {"user": GIVEN["user"], "left": "l", "right": "r", "words": ["l", "r"]}


@pytest.mark.parametrize("target", ["state.user.name", "state.user"])
def test_two_children_that_write_one_field_conflict_and_both_are_named(case: StoreCase, target: str) -> None:
    case.store.publish(Workflow.model_validate(CHILD))
    document = parent([{"source": "word" if target.endswith("name") else "user", "target": target}])
    with inline(case.store, document, GIVEN) as (_, run):
        record = found(case.store, run)

    assert record.error is not None
    assert (record.status, record.error["type"]) == ("failed", "sibling_write_conflict")
    assert f"sibling writes to {target} by items 0, 1" in str(record.error["message"])
    assert record.error["node_id"] == "each"


def test_a_binding_that_reads_a_field_which_the_child_does_not_declare_is_refused(remote: WorkflowClient) -> None:
    remote.publish(CHILD)
    with pytest.raises(WorkflowApiError) as refused:
        remote.publish(parent([{"source": "secret", "target": "state.words"}]))

    assert refused.value.code == "workflow_invalid"


def test_the_same_on_worker_processes(remote: WorkflowClient) -> None:
    remote.publish(CHILD)
    remote.publish(parent([{"source": "word", "target": "state.words"}]))
    good = remote.start("parent", GIVEN, wait_seconds=30)
    remote.publish(parent([{"source": "word", "target": "state.user.name"}]))
    bad = remote.start("parent", GIVEN, wait_seconds=30)

    assert good["output"] == {"user": GIVEN["user"], "left": "l", "right": "r", "words": ["l", "r"]}
    assert bad["error"] is not None
    assert (bad["status"], bad["error"]["type"]) == ("failed", "sibling_write_conflict")
