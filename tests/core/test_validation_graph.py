"""Ids, start, edges and outcomes: each mistake under its code, at its place."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.workflow_documents import WORK, condition, end, foreach, found, issue_of, node, workflow
from wf_core.models import Workflow
from wf_core.validation import ValidationIssue, ValidationIssueCode, ValidationReport, validate_workflow
from wf_core.validation.issues import WorkflowValidationError

LOOP = ["f.loop -> work", "work.ok -> f", "f.done -> END"]


def test_a_sound_workflow_has_an_empty_report() -> None:
    checked = workflow(
        ["c.true -> f", "c.false -> j", *LOOP, "j.done -> ask", "ask.submitted -> child", "child.ok -> stop"],
        [
            condition("c"),
            foreach("f"),
            {"id": "j", "type": "join"},
            {"id": "ask", "type": "interrupt", "kind": "approval"},
            {"id": "child", "type": "subgraph", "workflow": "other"},
            end("stop"),
        ],
    )

    report = checked.validate_structure()

    assert report.errors == [] and report.ok
    report.raise_for_errors()


@pytest.mark.parametrize(
    ("routes", "steps", "changes", "expected"),
    [
        pytest.param(
            ["a.ok -> END"],
            [],
            {"node_defs": [WORK, {**WORK, "name": "other"}, WORK]},
            [("duplicate_node_def", "node_defs[2].name")],
            id="node definition repeats",
        ),
        pytest.param(
            ["a.ok -> b", "b.ok -> END"],
            [node("a"), node("b"), node("a")],
            {},
            [("duplicate_node_id", "nodes[2].id")],
            id="step id repeats",
        ),
        pytest.param(
            ["a.ok -> END"],
            [node("a"), end("__end__")],
            {},
            [("duplicate_node_id", "nodes[1].id"), ("unreachable_node", "nodes[__end__]")],
            id="step id is the end token",
        ),
        pytest.param(
            ["__start__.ok -> END"], [], {}, [("duplicate_node_id", "nodes[0].id")], id="step id is the start token"
        ),
        pytest.param(
            ["a.ok -> b", "b.ok -> END"], [], {"start": "c"}, [("unknown_start", "start")], id="start is no step"
        ),
        pytest.param(
            ["a.ok -> b", "a.ok -> END", "b.ok -> END"],
            [],
            {},
            [("duplicate_edge", "edges[1]")],
            id="second edge for an outcome",
        ),
        pytest.param(
            ["a.ok -> END"],
            [],
            {"edges": [{"from": "a", "outcome": "ok", "to": "__end__"}, {"from": "x", "outcome": "ok", "to": "y"}]},
            [("unknown_edge_source", "edges[1].from"), ("unknown_edge_destination", "edges[1].to")],
            id="edge between unknown steps",
        ),
        pytest.param(
            ["a.ok -> END"],
            [],
            {
                "edges": [
                    {"from": "a", "outcome": "ok", "to": "__end__"},
                    {"from": "__start__", "outcome": "x", "to": "a"},
                ]
            },
            [("unknown_edge_source", "edges[1].from")],
            id="the start token is no edge source",
        ),
        pytest.param(
            ["a.ok -> END", "a.failed -> END"],
            [],
            {},
            [("undeclared_edge_outcome", "edges[1].outcome")],
            id="outcome that the step does not declare",
        ),
        pytest.param(
            ["a.ok -> stop", "stop.ok -> a"],
            [node("a"), end("stop")],
            {},
            [("undeclared_edge_outcome", "edges[1].outcome")],
            id="edge that leaves an end step",
        ),
        pytest.param(
            ["c.true -> END"],
            [condition("c")],
            {},
            [("missing_outcome_edge", "nodes[c]")],
            id="outcome without an edge",
        ),
        pytest.param(
            ["f.loop -> work", "work.ok -> f", "f.done -> END"],
            [foreach("f", item_error="skip")],
            {},
            [("missing_outcome_edge", "nodes[f]")],
            id="loop that may complete with errors",
        ),
        pytest.param(
            ["a.ok -> END"],
            [node("a"), condition("detached")],
            {},
            [("unreachable_node", "nodes[detached]")],
            id="unreachable step without edges",
        ),
        pytest.param(
            ["a.ok -> stop"],
            [node("a"), end("stop", "rejected")],
            {},
            [("undeclared_workflow_outcome", "nodes[1].outcome")],
            id="end step with an undeclared outcome",
        ),
        pytest.param(
            ["c.true -> END", "c.false -> stop"],
            [condition("c"), end("stop", "rejected")],
            {"outcomes": ["rejected"]},
            [("undeclared_workflow_outcome", "edges[0].to")],
            id="edge to END without outcome ok",
        ),
        pytest.param(
            ["a.ok -> END"],
            [node("a", node="wok", input=[{"target": "nowhere", "path": "input.nothing"}])],
            {},
            [("unknown_node_def", "nodes[0].node")],
            id="unknown node definition, bindings left unchecked",
        ),
        pytest.param(
            ["f.loop -> f", "f.done -> END"],
            [foreach("f")],
            {},
            [("empty_foreach_body", "edges[0]")],
            id="empty body",
        ),
        pytest.param(
            ["f.loop -> a", "a.ok -> a", "f.done -> END"],
            [foreach("f")],
            {},
            [("foreach_body_no_return", "nodes[f]")],
            id="body without return",
        ),
        pytest.param(
            ["f.loop -> a", "a.ok -> stop", "f.done -> END"],
            [foreach("f"), end("stop")],
            {},
            [("invalid_foreach_terminal", "edges[1]")],
            id="body leads to an end step",
        ),
        pytest.param(
            ["o.loop -> i", "i.loop -> a", "a.ok -> o", "i.done -> o", "o.done -> END"],
            [foreach("o"), foreach("i")],
            {},
            [("invalid_foreach_return", "edges[2]")],
            id="return to an older loop",
        ),
        pytest.param(
            ["c.true -> f", "c.false -> a", "f.loop -> a", "a.ok -> f", "f.done -> END"],
            [condition("c"), foreach("f")],
            {},
            [("foreach_region_conflict", "nodes[a]")],
            id="edge into a body",
        ),
    ],
)
def test_each_mistake_has_its_code_and_place(
    routes: list[str], steps: list[dict[str, Any]], changes: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    assert found(workflow(routes, steps, **changes)) == expected


@pytest.mark.parametrize(
    ("step", "outcomes"),
    [
        (node("s"), ["ok"]),
        ({"id": "s", "type": "subgraph", "workflow": "w", "outcomes": ["yes", "no"]}, ["yes", "no"]),
        (condition("s"), ["true", "false"]),
        ({"id": "s", "type": "interrupt", "kind": "k", "outcomes": ["approved", "expired"]}, ["approved", "expired"]),
        ({"id": "s", "type": "wait", "for_seconds": 1}, ["elapsed"]),
        ({"id": "s", "type": "join"}, ["done"]),
    ],
)
def test_the_outcomes_of_each_kind_of_step(step: dict[str, Any], outcomes: list[str]) -> None:
    unwired = workflow(["s.other -> END"], [step])
    wired = workflow([f"s.{outcome} -> END" for outcome in outcomes], [step])

    message = issue_of(unwired, ValidationIssueCode.MISSING_OUTCOME_EDGE).message
    assert all(repr(outcome) in message for outcome in outcomes)
    assert found(wired) == []


@pytest.mark.parametrize("item_error", ["fail", "skip", {"action": "collect", "collect_to": "state.errors"}])
def test_a_loop_declares_errors_only_when_it_handles_them(item_error: Any) -> None:
    checked = workflow([*LOOP, "f.completed_with_errors -> END"], [foreach("f", item_error=item_error)])

    expected = [("undeclared_edge_outcome", "edges[3].outcome")] if item_error == "fail" else []
    assert found(checked) == expected


def test_all_issues_come_in_the_order_of_the_checks() -> None:
    checked = workflow(
        ["c.true -> f", "f.loop -> work", "work.ok -> f", "f.done -> gone"],
        [
            condition("c", {"op": "exists", "path": "input.nothing"}),
            foreach("f", **{"as": "loop_item"}),
            node("work", input=[{"target": "value", "path": "context.nothing"}]),
            node("lost"),
        ],
        node_defs=[WORK, WORK],
        output=[{"target": "nothing", "value": 1}],
    )
    checked.edges[3].to = "gone"
    checked.nodes = checked.nodes[:4]

    assert found(checked) == [
        ("duplicate_node_def", "node_defs[1].name"),
        ("invalid_workflow_output_field", "output[0].target"),
        ("invalid_condition_path", "nodes[0].check"),
        ("unknown_edge_destination", "edges[3].to"),
        ("missing_outcome_edge", "nodes[c]"),
        ("unreachable_node", "nodes[lost]"),
        ("foreach_context_alias_conflict", "nodes[1].as"),
        ("invalid_context_path", "nodes[2].input[0].path"),
    ]


def test_every_issue_has_a_one_line_repair() -> None:
    for code in ValidationIssueCode:
        issue = ValidationIssue(code, "somewhere", "something is wrong")

        assert issue.hint and "\n" not in issue.hint


def test_a_near_miss_is_offered_as_the_repair() -> None:
    checked = workflow(["fetch.ok -> END"], [node("fetch", input=[{"target": "value", "path": "input.valeu"}])])

    assert issue_of(checked, ValidationIssueCode.INVALID_SOURCE_PATH).hint == "did you mean 'value'?"


def test_raising_lists_every_issue() -> None:
    checked = workflow(["c.true -> END"], [condition("c"), node("lost")])

    with pytest.raises(ValueError, match="workflow validation failed") as caught:
        validate_workflow(checked).raise_for_errors()

    assert isinstance(caught.value, WorkflowValidationError)
    assert "- [missing_outcome_edge] nodes[c]: " in str(caught.value)
    assert "- [unreachable_node] nodes[lost]: " in str(caught.value)
    assert [issue.code.value for issue in caught.value.issues] == ["missing_outcome_edge", "unreachable_node"]


def test_a_report_takes_issues_one_by_one() -> None:
    report = ValidationReport()
    assert report.ok

    report.add(ValidationIssueCode.UNKNOWN_START, "start", "start 'x' is no step")
    report.add(ValidationIssueCode.UNKNOWN_START, "start", "start 'y' is no step", "use 'z'")

    assert not report.ok
    assert [issue.hint for issue in report.errors] == ["set start to the id of a step", "use 'z'"]
    assert report.errors[1].as_dict() == {
        "code": "unknown_start",
        "path": "start",
        "message": "start 'y' is no step",
        "hint": "use 'z'",
    }


def test_a_large_workflow_is_checked_in_full() -> None:
    count = 1500
    routes = [f"s{n}.ok -> s{n + 1}" for n in range(count)] + [f"s{count}.ok -> END"]

    checked = workflow(routes)

    assert isinstance(checked, Workflow) and found(checked) == []
