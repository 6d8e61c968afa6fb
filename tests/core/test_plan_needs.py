"""What a claim is given beforehand: enough that a step rarely asks again, and never a list it does not read."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from wf_core.models import Workflow
from wf_core.plan import Needs, compile_plan

STATE = {
    "type": "object",
    "properties": {name: {"type": "array", "reducer": "wf.std.append"} for name in ("a", "b", "c")},
}


def flow(mode: Literal["serial", "concurrent"]) -> Workflow:
    """each(input.numbers): work -> check -> back; then last -> end."""
    each: dict[str, Any] = {"id": "each", "type": "foreach", "over": "input.numbers", "as": "number", "mode": mode}
    if mode == "concurrent":
        each["concurrent"] = {"max_active": 2}
    return Workflow.model_validate(
        {
            "name": "needs",
            "input_schema": {"type": "object", "properties": {"numbers": {"type": "array"}}},
            "state_schema": STATE,
            "output_schema": {"type": "object", "properties": {"a": {}}},
            "node_defs": [
                {
                    "name": "work",
                    "outcomes": ["ok"],
                    "input_schema": {"type": "object"},
                    "output_schema": {"type": "object"},
                }
            ],
            "start": "each",
            "nodes": [
                each,
                {"id": "work", "type": "node", "node": "work", "output": [{"source": "x", "target": "state.a"}]},
                {"id": "check", "type": "condition", "check": {"op": "exists", "path": "state.b"}},
                {"id": "last", "type": "node", "node": "work", "input": [{"target": "x", "path": "state.c"}]},
            ],
            "edges": [
                {"from": "each", "outcome": "loop", "to": "work"},
                {"from": "work", "outcome": "ok", "to": "check"},
                {"from": "check", "outcome": "true", "to": "each"},
                {"from": "check", "outcome": "false", "to": "each"},
                {"from": "each", "outcome": "done", "to": "last"},
                {"from": "last", "outcome": "ok", "to": "__end__"},
            ],
        }
    )


def test_an_item_of_a_concurrent_loop_is_not_given_the_list_that_its_owner_walks() -> None:
    needs = compile_plan(flow("concurrent")).needs

    assert needs["work"] == Needs(state=frozenset({"a", "b"}))
    assert not needs["work"].input


def test_an_item_of_a_serial_loop_is_given_the_list_since_its_return_starts_the_next_one() -> None:
    assert compile_plan(flow("serial")).needs["work"] == Needs(state=frozenset({"a", "b"}), input=True)


@pytest.mark.parametrize("mode", ["serial", "concurrent"])
def test_a_step_is_given_what_the_control_steps_after_it_read(mode: Literal["serial", "concurrent"]) -> None:
    needs = compile_plan(flow(mode)).needs

    assert "b" in needs["work"].state
    assert needs["each"].input
    assert needs["last"] == Needs(state=frozenset({"c", "a"}))


def test_whoever_goes_on_after_a_wait_is_given_what_follows_and_whoever_begins_it_is_not() -> None:
    made = flow("concurrent")
    document = made.model_dump(mode="json", by_alias=True)
    document["nodes"].append({"id": "rest", "type": "wait", "until": "state.b"})
    document["edges"] = [
        {**edge, "to": "rest"} if edge["from"] == "each" and edge["outcome"] == "done" else edge
        for edge in document["edges"]
    ] + [{"from": "rest", "outcome": "elapsed", "to": "check_again"}]
    document["nodes"].append({"id": "check_again", "type": "condition", "check": {"op": "exists", "path": "state.c"}})
    document["edges"] += [{"from": "check_again", "outcome": word, "to": "last"} for word in ("true", "false")]
    needs = compile_plan(Workflow.model_validate(document)).needs

    assert needs["rest"].state == {"b", "c"}
    assert needs["each"] == Needs(state=frozenset({"b"}), input=True)
