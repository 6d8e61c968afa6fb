"""What steps are handed and hand back: whole payloads, composed values, and the older ways of writing bindings."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.workflow_documents import node, workflow
from wf_core.errors import WorkflowExecutionError
from wf_core.models import Workflow
from wf_core.run_state import RunState, RuntimeContext
from wf_core.runtime import execute_workflow

INPUT = {"type": "object", "properties": {"order": {}, "tag": {}}}
STATE: dict[str, Any] = {"type": "object", "properties": {"box": {"default": {"kept": 1}}, "log": {}}}
OPEN = {"type": "object", "properties": {"order": {}, "mode": {}, "made": {}}}
DEFINITION = {"name": "work", "input_schema": OPEN, "output_schema": OPEN, "outcomes": ["ok"]}


def one(**step: Any) -> Workflow:
    return workflow(
        ["work.ok -> END"],
        [node("work", **step)],
        input_schema=INPUT,
        state_schema=STATE,
        node_defs=[DEFINITION],
        output_schema={"type": "object", "properties": {"box": {}}},
    )


def called(made: Workflow, given: dict[str, Any], answer: Any = None) -> tuple[RunState, list[dict[str, Any]]]:
    """The run, and the payloads that its handler got."""
    payloads: list[dict[str, Any]] = []

    def work(payload: dict[str, Any], context: RuntimeContext) -> dict[str, Any]:
        payloads.append(payload)
        return {} if answer is None else answer

    return execute_workflow(made, given, {"work": work}), payloads


@pytest.mark.parametrize(
    ("root", "payload"),
    [("input", {"order": [1]}), ("state", {"box": {"kept": 1}, "order": [1]}), ("state.box", {"kept": 1})],
)
def test_a_whole_value_is_moved_into_the_whole_payload(root: str, payload: dict[str, Any]) -> None:
    run, payloads = called(one(input=[{"target": ".", "path": root}]), {"order": [1]})

    assert payloads == [payload]
    assert run.trace[0].resolved_input == payload


def test_a_whole_answer_is_moved_into_one_state_field_and_replaces_it() -> None:
    run, _ = called(one(output=[{"source": ".", "target": "state.box"}]), {}, {"made": [2]})

    assert run.output == {"box": {"made": [2]}}


@pytest.mark.parametrize("value", [[1], "text", None])
def test_what_is_no_object_cannot_be_the_whole_payload(value: Any) -> None:
    with pytest.raises(WorkflowExecutionError, match="must be an object"):
        called(one(input=[{"target": ".", "path": "input.order"}]), {"order": value})


@pytest.mark.parametrize(
    "binding",
    [
        {"target": "order", "path": "input.order"},
        {"target": "order", "path": "input.order.deep"},
        {"target": "order", "expression": {"kind": "object", "fields": {"x": {"kind": "path", "path": "input.order"}}}},
    ],
)
def test_no_handler_is_called_for_an_input_that_is_missing(binding: dict[str, Any]) -> None:
    calls: list[Any] = []

    with pytest.raises(WorkflowExecutionError, match="is missing"):
        execute_workflow(one(input=[binding]), {"tag": 1}, {"work": lambda p, c: calls.append(p) or {}})

    assert calls == []


def test_composed_values_nest_keep_their_order_and_carry_nulls() -> None:
    expression = {
        "kind": "object",
        "fields": {
            "z": {
                "kind": "array",
                "items": [
                    {"kind": "literal", "value": {"list": [None, 2.5, True]}},
                    {"kind": "path", "path": "input.order"},
                    {"kind": "array", "items": []},
                    {"kind": "object", "fields": {"null": {"kind": "path", "path": "input.tag"}}},
                ],
            },
            "a": {"kind": "path", "path": "state.box.kept"},
        },
    }

    _, [payload] = called(one(input=[{"target": "order", "expression": expression}]), {"order": "o", "tag": None})

    assert payload == {"order": {"z": [{"list": [None, 2.5, True]}, "o", [], {"null": None}], "a": 1}}
    assert list(payload["order"]) == ["z", "a"]


def test_a_composed_value_shares_nothing_with_what_it_was_made_from() -> None:
    expression = {"kind": "array", "items": [{"kind": "path", "path": "input.order"}, {"kind": "literal", "value": []}]}
    made = one(input=[{"target": "order", "expression": expression}])
    given: dict[str, Any] = {"order": {"lines": []}}
    run, _ = called(made, given)

    shown = run.trace[0].resolved_input["order"]
    shown[0]["lines"].append("mine")
    shown[1].append("mine")

    assert given == {"order": {"lines": []}}
    assert called(made, given)[1] == [{"order": [{"lines": []}, []]}]


@pytest.mark.parametrize("bad", [(1,), {1}, object(), float("nan"), {1: 2}])
def test_a_composed_value_takes_strict_json_only_and_a_plain_path_takes_anything(bad: Any) -> None:
    items = [{"kind": "literal", "value": 0}, {"kind": "path", "path": "input.order"}]

    with pytest.raises(WorkflowExecutionError, match=r"node 'work' input order\.items\[1\]"):
        called(one(input=[{"target": "order", "expression": {"kind": "array", "items": items}}]), {"order": bad})

    run, _ = called(one(input=[{"target": "order", "path": "input.order"}]), {"order": bad})
    assert run.trace[0].resolved_input["order"] is bad


def test_the_older_ways_of_writing_a_workflow_mean_the_same_run() -> None:
    present = one(
        input=[{"target": "mode", "value": "fast"}, {"target": "order", "path": "input.order"}],
        output=[{"source": "made", "target": "state.box"}],
    )
    older = present.model_dump(mode="json")
    older["nodes"][0] = {
        "id": "work",
        "type": "node",
        "node": "work",
        "in_map": {"input.order": "order"},
        "input_values": {"mode": "fast"},
        "out_map": {"made": "state.box"},
    }
    older["state_schema"] = {"fields": {"box": {"default": {"kept": 1}, "schema": {}}, "state.log": {"schema": {}}}}

    runs = [called(made, {"order": 7}, {"made": 8}) for made in (present, Workflow.model_validate(older))]

    assert runs[0][0] == runs[1][0]
    assert runs[0][1] == runs[1][1] == [{"mode": "fast", "order": 7}]
    assert runs[0][0].output == {"box": 8}
