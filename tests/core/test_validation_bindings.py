"""What steps and outputs read and write: undeclared fields, unusable paths and overlaps, each at its place."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.workflow_documents import foreach, found, issue_of, node, reads, workflow
from wf_core.models import (
    ConditionNode,
    ForeachNode,
    InputPathBinding,
    InterruptNode,
    NodeUse,
    OutputBinding,
    VariadicCondition,
    Workflow,
)
from wf_core.models.input_bindings import ArrayExpression, InputExpressionBinding
from wf_core.validation import ValidationIssueCode

PORTS = {
    "input_schema": {"type": "object", "properties": {"value": {}, "other": {}}},
    "output_schema": {"type": "object", "properties": {"value": {}, "other": {}}},
}


def single(step: dict[str, Any], **changes: Any) -> Workflow:
    """A workflow of this step alone, its outcomes wired."""
    outcomes = {"condition": ["true", "false"], "interrupt": ["submitted"]}.get(step["type"], ["ok"])
    return workflow([f"s.{outcome} -> END" for outcome in outcomes], [step], **changes)


def takes(kind: str, bindings: list[dict[str, Any]]) -> dict[str, Any]:
    """A node or subgraph with these input bindings."""
    if kind == "node":
        return node("s", input=bindings)
    return {"id": "s", "type": "subgraph", "workflow": "child", "input": bindings, **PORTS}


def gives(kind: str, bindings: list[dict[str, Any]]) -> dict[str, Any]:
    """A node or subgraph with these output bindings."""
    if kind == "node":
        return node("s", output=bindings)
    return {"id": "s", "type": "subgraph", "workflow": "child", "output": bindings, **PORTS}


def ask(**changes: Any) -> dict[str, Any]:
    return {"id": "s", "type": "interrupt", "kind": "approval", **changes}


def loop(**changes: Any) -> Workflow:
    over = changes.pop("over", "input.items")
    routes = ["f.loop -> work", "work.ok -> f", "f.done -> END"]
    if changes.get("item_error"):
        routes.append("f.completed_with_errors -> END")
    return workflow(routes, [foreach("f", over, **changes)])


def array(*items: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "array", "items": list(items)}


def path(text: str) -> dict[str, Any]:
    return {"kind": "path", "path": text}


@pytest.mark.parametrize("kind", ["node", "subgraph"])
@pytest.mark.parametrize(
    ("bindings", "expected"),
    [
        ([reads("input.value"), reads("state.value", "other")], []),
        ([reads("input.value"), reads("input.value", "other")], []),
        ([reads("input")], []),
        ([reads("state")], []),
        ([reads("state", ".")], []),
        ([reads("input.value", "value.deep.er")], []),
        ([reads("input.value.deep")], []),
        ([reads("input.value", "nowhere")], [("invalid_node_input_field", "nodes[0].input[0].target")]),
        ([{"target": "nowhere.x", "value": 1}], [("invalid_node_input_field", "nodes[0].input[0].target")]),
        ([reads("input.nothing")], [("invalid_source_path", "nodes[0].input[0].path")]),
        ([reads("state.nothing.x")], [("invalid_source_path", "nodes[0].input[0].path")]),
        (
            [
                {
                    "target": "value",
                    "expression": array(
                        {"kind": "literal", "value": {"path": "input.nothing"}},
                        {"kind": "object", "fields": {"deep": array(path("input.value"), path("state.nothing"))}},
                    ),
                }
            ],
            [("invalid_source_path", "nodes[0].input[0].expression.items[1].fields.deep.items[1].path")],
        ),
        (
            [{"target": "value", "expression": path("input.nothing")}],
            [("invalid_source_path", "nodes[0].input[0].expression.path")],
        ),
        ([reads("input.value"), reads("state.value")], [("invalid_node_input_field", "nodes[0].input")]),
        ([reads("input.value"), reads("input.value", "value.x")], [("invalid_node_input_field", "nodes[0].input")]),
        ([reads("input.value"), reads("input.value", ".")], [("invalid_node_input_field", "nodes[0].input")]),
    ],
)
def test_step_inputs(kind: str, bindings: list[dict[str, Any]], expected: list[tuple[str, str]]) -> None:
    assert found(single(takes(kind, bindings))) == expected


@pytest.mark.parametrize("kind", ["node", "subgraph"])
@pytest.mark.parametrize(
    ("bindings", "expected"),
    [
        ([{"source": "value", "target": "state.value"}, {"source": "value", "target": "state.values"}], []),
        ([{"source": ".", "target": "state.value"}], []),
        ([{"source": "value.deep", "target": "state.value.deep"}], []),
        (
            [{"source": "nowhere", "target": "state.value"}],
            [("invalid_node_output_field", "nodes[0].output[0].source")],
        ),
        ([{"source": "value", "target": "state.nothing"}], [("invalid_destination_path", "nodes[0].output[0].target")]),
        (
            [{"source": "value", "target": "state.value"}, {"source": "other", "target": "state.value.x"}],
            [("invalid_destination_path", "nodes[0].output")],
        ),
        (
            [{"source": "value", "target": "state.value"}, {"source": "other", "target": "state.value"}],
            [("invalid_destination_path", "nodes[0].output")],
        ),
    ],
)
def test_step_outputs(kind: str, bindings: list[dict[str, Any]], expected: list[tuple[str, str]]) -> None:
    assert found(single(gives(kind, bindings))) == expected


def test_a_step_without_declared_properties_takes_the_whole_payload_only() -> None:
    step = {"id": "s", "type": "subgraph", "workflow": "child"}

    assert found(single({**step, "input": [reads("input", ".")]})) == []
    assert found(single({**step, "input": [reads("input.value")]})) == [
        ("invalid_node_input_field", "nodes[0].input[0].target")
    ]


def test_fields_behind_a_reference_at_the_top_of_a_schema_are_declared() -> None:
    definitions = {"Order": {"type": "object", "properties": {"id": {}}}}
    schema = {"$ref": "#/$defs/Order", "$defs": definitions}

    assert found(single(node("s", input=[reads("input.id")]), input_schema=schema)) == []


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ([reads("state.value")], []),
        ([{"target": ".", "value": {}}], []),
        ([reads("context.scope_id")], []),
        ([reads("state.value", "nowhere")], [("invalid_workflow_output_field", "output[0].target")]),
        ([reads("state.nothing")], [("invalid_source_path", "output[0].path")]),
        ([reads("state.value"), reads("input.value", "value.x")], [("invalid_workflow_output_field", "output")]),
    ],
)
def test_workflow_output(output: list[dict[str, Any]], expected: list[tuple[str, str]]) -> None:
    assert found(workflow(["s.ok -> END"], output=output)) == expected


def test_an_expression_in_the_workflow_output_is_unsupported() -> None:
    checked = workflow(["s.ok -> END"])
    binding = {"target": "value", "expression": path("state.value")}
    checked.output = [InputExpressionBinding.model_validate(binding)]  # pyright: ignore[reportAttributeAccessIssue]

    assert found(checked) == [("invalid_workflow_output_field", "output[0]")]


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        ({"op": "exists", "path": "input.nothing"}, "nodes[0].check"),
        ({"op": "not", "arg": {"op": "exists", "path": "state.nothing"}}, "nodes[0].check.arg"),
        (
            {"op": "and", "args": [{"op": "exists", "path": "input"}, {"op": "exists", "path": "input.nothing"}]},
            "nodes[0].check.args[1]",
        ),
        ({"op": "eq", "left": {"path": "input.nothing"}, "right": {"value": 1}}, "nodes[0].check.left"),
        ({"op": "lt", "left": {"value": 1}, "right": {"path": "state.nothing"}}, "nodes[0].check.right"),
    ],
)
def test_conditions_compare_declared_fields(check: dict[str, Any], expected: str) -> None:
    assert found(single({"id": "s", "type": "condition", "check": check})) == [("invalid_condition_path", expected)]


@pytest.mark.parametrize("op", ["and", "or"])
def test_a_condition_emptied_after_parsing_is_reported(op: str) -> None:
    test = {"op": "exists", "path": "input.value"}
    checked = single({"id": "s", "type": "condition", "check": {"op": op, "args": [test]}})
    step = checked.nodes[0]
    assert isinstance(step, ConditionNode) and isinstance(step.check, VariadicCondition)

    step.check.args.clear()

    assert found(checked) == [("empty_condition_args", "nodes[0].check.args")]


@pytest.mark.parametrize("over", ["input.nothing", "state.nothing.x"])
def test_loops_run_over_declared_fields(over: str) -> None:
    assert found(loop(over=over)) == [("invalid_foreach_source", "nodes[0].over")]


@pytest.mark.parametrize("over", ["input.items", "state.values", "input", "state"])
def test_declared_and_whole_sources_of_loops_pass(over: str) -> None:
    assert found(loop(over=over)) == []


@pytest.mark.parametrize(
    ("until", "expected"),
    [
        ("input.value", []),
        ("state.value", []),
        ("2030-01-31T09:00:00Z", []),
        ("input.nothing", [("invalid_source_path", "nodes[0].until")]),
        ("state.nothing", [("invalid_source_path", "nodes[0].until")]),
    ],
)
def test_waits_read_their_time_from_declared_fields(until: str, expected: list[tuple[str, str]]) -> None:
    checked = workflow(["s.elapsed -> END"], [{"id": "s", "type": "wait", "until": until}])

    assert found(checked) == expected


@pytest.mark.parametrize(
    "changes",
    [
        {"for_seconds": None},
        {"for_seconds": "90"},
        {"for_seconds": -1},
        {"until": "state.value"},
        {"for_seconds": None, "until": "soon"},
        {"for_seconds": None, "until": "2030-01-31"},
        {"for_seconds": None, "until": 5},
    ],
)
def test_a_wait_that_was_changed_into_none_is_reported(changes: dict[str, Any]) -> None:
    checked = workflow(["s.elapsed -> END"], [{"id": "s", "type": "wait", "for_seconds": 90}])
    for name, value in changes.items():
        setattr(checked.nodes[0], name, value)

    assert found(checked) == [("malformed_model", "nodes[0]")]


@pytest.mark.parametrize(
    ("target", "sound"),
    [("state.errors", True), ("state.value", False), ("state.nothing", False), ("state.errors.deep", False)],
)
def test_errors_are_collected_in_a_declared_array(target: str, sound: bool) -> None:
    checked = loop(item_error={"action": "collect", "collect_to": target})

    expected = [("invalid_foreach_collect_destination", "nodes[0].item_error.collect_to")]
    assert found(checked) == ([] if sound else expected)
    if not sound:
        issue = issue_of(checked, ValidationIssueCode.INVALID_FOREACH_COLLECT_DESTINATION)
        assert "array state field" in issue.message


def test_collecting_nowhere_is_reported() -> None:
    checked = loop(item_error={"action": "collect", "collect_to": "state.errors"})
    step = checked.nodes[0]
    assert isinstance(step, ForeachNode)

    step.item_error.collect_to = None

    assert found(checked) == [("invalid_foreach_collect_destination", "nodes[0].item_error.collect_to")]


@pytest.mark.parametrize(
    ("request_bindings", "expected"),
    [
        ([reads("input.value", "anything"), {"target": "more", "value": 1}], []),
        ([reads("state", ".")], []),
        ([reads("input.nothing")], [("invalid_interrupt_source", "nodes[0].request[0].path")]),
        (
            [{"target": "value", "expression": array(path("state.nothing"))}],
            [("invalid_interrupt_source", "nodes[0].request[0].expression.items[0].path")],
        ),
        ([reads("input.value"), reads("input.value", "value.x")], [("invalid_interrupt_source", "nodes[0].request")]),
    ],
)
def test_interrupt_requests(request_bindings: list[dict[str, Any]], expected: list[tuple[str, str]]) -> None:
    assert found(single(ask(request=request_bindings))) == expected


@pytest.mark.parametrize(
    ("resume", "expected"),
    [
        ([{"source": "anything", "target": "state.value"}, {"source": ".", "target": "state.values"}], []),
        (
            [{"source": "anything", "target": "state.nothing"}],
            [("invalid_interrupt_destination", "nodes[0].resume[0]")],
        ),
        (
            [{"source": "a", "target": "state.value"}, {"source": "b", "target": "state.value.x"}],
            [("invalid_interrupt_destination", "nodes[0].resume")],
        ),
    ],
)
def test_interrupt_answers(resume: list[dict[str, Any]], expected: list[tuple[str, str]]) -> None:
    assert found(single(ask(resume=resume))) == expected


def overwritten() -> tuple[Workflow, NodeUse, InterruptNode]:
    """A sound workflow, with the steps whose attributes a test overwrites."""
    checked = workflow(
        ["s.ok -> ask", "ask.submitted -> END"],
        [
            node("s", input=[reads("input.value")], output=[{"source": "value", "target": "state.value"}]),
            ask(id="ask", request=[reads("input.value")], resume=[{"source": "answer", "target": "state.value"}]),
        ],
    )
    use, interrupt = checked.nodes
    assert isinstance(use, NodeUse) and isinstance(interrupt, InterruptNode)
    return checked, use, interrupt


@pytest.mark.parametrize("text", ["", ".", "state..x", "output.value", "items[0]"])
def test_text_that_is_no_source_path_is_reported(text: str) -> None:
    checked, use, interrupt = overwritten()
    assert isinstance(use.input[0], InputPathBinding) and isinstance(interrupt.request[0], InputPathBinding)

    use.input[0].path = text  # pyright: ignore[reportAttributeAccessIssue]
    interrupt.request[0].path = text  # pyright: ignore[reportAttributeAccessIssue]

    assert found(checked) == [
        ("invalid_source_path", "nodes[0].input[0].path"),
        ("invalid_interrupt_source", "nodes[1].request[0].path"),
    ]


def test_text_that_is_no_payload_path_is_reported() -> None:
    checked, use, interrupt = overwritten()

    for binding in (use.input[0], interrupt.request[0]):
        binding.target = ""  # pyright: ignore[reportAttributeAccessIssue]
    for binding in (use.output[0], interrupt.resume[0]):
        binding.source = ""  # pyright: ignore[reportAttributeAccessIssue]

    assert found(checked) == [
        ("invalid_node_input_field", "nodes[0].input[0].target"),
        ("invalid_node_output_field", "nodes[0].output[0].source"),
        ("invalid_interrupt_source", "nodes[1].request[0]"),
        ("invalid_interrupt_destination", "nodes[1].resume[0]"),
    ]


@pytest.mark.parametrize("text", ["state", "input.value", "value", "state..x"])
def test_text_that_is_no_state_path_is_reported(text: str) -> None:
    checked, use, interrupt = overwritten()

    for binding in (use.output[0], interrupt.resume[0]):
        binding.target = text  # pyright: ignore[reportAttributeAccessIssue]

    assert found(checked) == [
        ("invalid_destination_path", "nodes[0].output[0].target"),
        ("invalid_interrupt_destination", "nodes[1].resume[0]"),
    ]


def test_text_that_is_a_path_counts_as_that_path() -> None:
    checked, use, _ = overwritten()
    assert isinstance(use.input[0], InputPathBinding)

    use.input[0].path = "state.value"  # pyright: ignore[reportAttributeAccessIssue]
    use.input[0].target = "other"  # pyright: ignore[reportAttributeAccessIssue]
    use.output[0].target = "state.values"  # pyright: ignore[reportAttributeAccessIssue]

    assert found(checked) == []


@pytest.mark.parametrize(
    ("attribute", "place"),
    [("input", "nodes[0].input"), ("output", "nodes[0].output")],
)
def test_a_list_overwritten_with_text_is_malformed(attribute: str, place: str) -> None:
    checked, use, _ = overwritten()

    setattr(use, attribute, "state.value")

    assert found(checked) == [("malformed_model", place)]


def test_overlaps_say_which_paths_overlap() -> None:
    inputs = single(node("s", input=[reads("input.value"), reads("input.value", "value.x")]))
    outputs = single(
        node("s", output=[{"source": "value", "target": "state.value.x"}, {"source": "other", "target": "state.value"}])
    )

    message = issue_of(inputs, ValidationIssueCode.INVALID_NODE_INPUT_FIELD).message
    assert message == "overlapping node-local input paths: 'value' and 'value.x'"
    message = issue_of(outputs, ValidationIssueCode.INVALID_DESTINATION_PATH).message
    assert message == "overlapping state destination paths: 'state.value' and 'state.value.x'"


def test_paths_that_only_begin_alike_do_not_overlap() -> None:
    outputs = [OutputBinding.model_validate({"source": "value", "target": f"state.value.{n}"}) for n in "abc"]
    outputs.append(OutputBinding.model_validate({"source": "value", "target": "state.values"}))
    checked = single(node("s"))
    use = checked.nodes[0]
    assert isinstance(use, NodeUse)

    use.output = outputs

    assert found(checked) == []


def test_an_expression_that_contains_itself_is_reported() -> None:
    expression = ArrayExpression.model_validate(array(path("input.value")))
    checked = single(node("s", input=[{"target": "value", "expression": array()}]))
    use = checked.nodes[0]
    assert isinstance(use, NodeUse) and isinstance(use.input[0], InputExpressionBinding)

    expression.items.append(expression)
    use.input[0].expression = expression

    assert found(checked) == [("malformed_model", "nodes[0].input[0].expression")]
