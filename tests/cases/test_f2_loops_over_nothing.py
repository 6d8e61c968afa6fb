"""Two loops one after the other over an empty list made a run fail or hang, though nothing in it had gone wrong.

A parent without children has no child that wakes it (apache/airflow#25200, apache/airflow#28535). Here a loop over an
empty list is done at once, wherever it stands; a list that is not there is an error, not an empty one.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.cases.flows import END, each, flow, found, inline, item, step
from tests.support.stores import StoreCase
from wf_api.client import WorkflowClient
from wf_core.models import Workflow

CHAIN_EDGES = [
    ("a", "ok", "one"),
    ("one", "loop", "in_one"),
    ("in_one", "ok", "one"),
    ("one", "done", "two"),
    ("two", "loop", "in_two"),
    ("in_two", "ok", "two"),
    ("two", "done", "b"),
    ("b", "ok", END),
]


def chain(mode: str, name: str = "chain") -> dict[str, Any]:
    """A step, two loops over the same list, a step."""
    steps = [
        step("a", "echo", "input.word", "state.first"),
        each("one", "state.items"),
        step("in_one", "echo", item("one"), "state.seen"),
        each("two", "state.items"),
        step("in_two", "echo", item("two"), "state.seen"),
        step("b", "echo", "input.word", "state.last"),
    ]
    for loop in (steps[1], steps[3]):
        if mode == "serial":
            del loop["concurrent"]
            loop["mode"] = "serial"
    # What `a` is given becomes the list, so that it can be anything.
    steps[0]["output"] = [{"source": "value", "target": "state.first"}]
    steps[0]["input"] = [{"target": "value", "path": "input.word"}, {"target": "items", "path": "input.box"}]
    steps[0]["output"].append({"source": "items.items", "target": "state.items"})
    return flow(
        name,
        steps,
        CHAIN_EDGES,
        takes={"word": {}, "box": {"type": "object", "properties": {"items": {}}}},
        state={"first": {}, "items": {}, "seen": {"type": "array", "reducer": "wf.std.append"}, "last": {}},
        gives={"seen": {}, "last": {}},
        defs=[
            {
                "name": "echo",
                "input_schema": {"type": "object", "properties": {"value": {}, "items": {}}},
                "output_schema": {"type": "object", "properties": {"value": {}, "items": {}}},
                "outcomes": ["ok"],
            }
        ],
        output=[{"target": "last", "path": "state.last"}],
    )


def around(child: dict[str, Any]) -> dict[str, Any]:
    """The same as a child workflow."""
    call = {
        "id": "call",
        "type": "subgraph",
        "workflow": {"name": child["name"]},
        "input_schema": child["input_schema"],
        "output_schema": child["output_schema"],
        "outcomes": ["ok"],
        "input": [{"target": "word", "path": "input.word"}, {"target": "box", "path": "input.box"}],
        "output": [{"source": "last", "target": "state.last"}],
    }
    return flow(
        "around",
        [call],
        [("call", "ok", END)],
        takes={"word": {}, "box": {"type": "object", "properties": {"items": {}}}},
        state={"last": {}},
        gives={"last": {}},
    )


@pytest.mark.parametrize("nested", [False, True], ids=["alone", "in a child"])
@pytest.mark.parametrize("mode", ["serial", "concurrent"])
def test_two_loops_over_an_empty_list_are_done_at_once(case: StoreCase, mode: str, nested: bool) -> None:
    document = chain(mode)
    if nested:
        case.store.publish(Workflow.model_validate(document))
        document = around(document)
    with inline(case.store, document, {"word": "x", "box": {"items": []}}) as (_, run):
        record = found(case.store, run)

    assert (record.status, record.error, record.output) == ("completed", None, {"last": "x"})
    outcomes = {
        step.entry["node_id"]: step.entry["outcome"]
        for step in case.store.trace(run, 0, 100)
        if step.entry["node_id"] in ("one", "two")
    }
    assert outcomes == {"one": "done", "two": "done"}
    # The steps before and behind, and one for each loop; entering a child and leaving it cost one each.
    assert record.steps_executed == 4 + 2 * nested


@pytest.mark.parametrize("mode", ["serial", "concurrent"])
def test_a_loop_over_nothing_inside_each_item_of_a_loop_is_done_at_once(case: StoreCase, mode: str) -> None:
    inner = each("inner", item("outer"))
    if mode == "serial":
        del inner["concurrent"]
        inner["mode"] = "serial"
    document = flow(
        "nested",
        [
            each("outer", "input.lists"),
            inner,
            step("work", "echo", item("inner"), "state.seen"),
        ],
        [
            ("outer", "loop", "inner"),
            ("inner", "loop", "work"),
            ("work", "ok", "inner"),
            ("inner", "done", "outer"),
            ("outer", "done", END),
        ],
        takes={"lists": {"type": "array", "items": {"type": "array", "items": {}}}},
        state={"seen": {"type": "array", "reducer": "wf.std.append"}},
        gives={"seen": {}},
    )
    for lists, seen in (([[], [], []], None), ([[], ["x"], []], ["x"])):
        with inline(case.store, document, {"lists": lists}, run_id=f"run {seen}") as (_, run):
            record = found(case.store, run)
        assert (record.status, record.error) == ("completed", None)
        assert (record.output or {}) == ({} if seen is None else {"seen": seen})


@pytest.mark.parametrize("mode", ["serial", "concurrent"])
@pytest.mark.parametrize(
    ("box", "code"),
    [
        ({}, "output_field_missing"),
        ({"items": None}, "foreach_source_not_a_list"),
        ({"items": "abc"}, "foreach_source_not_a_list"),
        ({"items": {"0": "a"}}, "foreach_source_not_a_list"),
        ({"items": 0}, "foreach_source_not_a_list"),
    ],
)
def test_what_is_no_list_is_an_error_that_says_so(case: StoreCase, mode: str, box: dict[str, Any], code: str) -> None:
    with inline(case.store, chain(mode), {"word": "x", "box": box}) as (_, run):
        record = found(case.store, run)

    assert record.error is not None
    assert (record.status, record.error["type"]) == ("failed", code)
    assert record.error["node_id"] == ("a" if code == "output_field_missing" else "one")


@pytest.mark.parametrize("mode", ["serial", "concurrent"])
def test_a_list_that_was_never_written_is_missing_and_not_empty(case: StoreCase, mode: str) -> None:
    document = chain(mode)
    document["nodes"][0]["output"] = document["nodes"][0]["output"][:1]
    with inline(case.store, document, {"word": "x", "box": {}}) as (_, run):
        record = found(case.store, run)

    assert record.error is not None
    assert (record.status, record.error["type"], record.error["node_id"]) == ("failed", "source_path_missing", "one")
    assert "state.items" in str(record.error["message"])


def test_the_same_on_worker_processes(remote: WorkflowClient) -> None:
    remote.publish(chain("concurrent"))
    remote.publish(around(chain("concurrent")))

    empty = [remote.start(name, {"word": "x", "box": {"items": []}}, wait_seconds=30) for name in ("chain", "around")]
    wrong = [remote.start("chain", {"word": "x", "box": {"items": bad}}, wait_seconds=30) for bad in (None, "abc")]

    assert [(run["status"], run["output"]) for run in empty] == [("completed", {"last": "x"})] * 2
    assert [(run["status"], (run["error"] or {}).get("type")) for run in wrong] == [
        ("failed", "foreach_source_not_a_list")
    ] * 2
