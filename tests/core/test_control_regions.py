"""Which body each step belongs to, and every way to get that wrong."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.support.workflow_documents import condition, end, foreach, node, workflow
from wf_core.analysis import analyze_control_regions
from wf_core.analysis.control_regions import Foreach
from wf_core.models import Workflow

NESTED = (
    "outer.loop -> inner",
    "inner.loop -> work",
    "work.ok -> inner",
    "inner.done -> outer",
    "outer.done -> END",
)


def issues(checked: Workflow) -> list[tuple[str, str]]:
    return [(issue.kind.value, issue.path) for issue in analyze_control_regions(checked).issues]


def stacks(checked: Workflow) -> dict[str, tuple[str, ...]]:
    return analyze_control_regions(checked).owner_stack_by_node


def test_a_body_step_is_owned_by_its_loops_outermost_first() -> None:
    checked = workflow(NESTED, [foreach("outer"), foreach("inner")])

    analysis = analyze_control_regions(checked)

    assert analysis.issues == ()
    assert analysis.owner_stack_by_node == {"outer": (), "inner": ("outer",), "work": ("outer", "inner")}
    assert analysis.region_by_node["work"] == (Foreach("outer"), Foreach("inner"))


def test_an_unknown_start_gives_an_empty_analysis_without_issues() -> None:
    analysis = analyze_control_regions(workflow(["a.ok -> END"], start="nowhere"))

    assert (analysis.owner_stack_by_node, analysis.issues) == ({}, ())


def test_after_done_the_outer_region_continues() -> None:
    checked = workflow(
        ["each.loop -> work", "work.ok -> each", "each.done -> after", "after.ok -> END"], [foreach("each")]
    )

    assert stacks(checked) == {"each": (), "work": ("each",), "after": ()}


@pytest.mark.parametrize(
    ("routes", "steps"),
    [
        pytest.param(["a.ok -> b", "b.ok -> a"], [], id="closed cycle outside every loop"),
        pytest.param(["a.ok -> c", "c.true -> a", "c.false -> END"], [node("a"), condition("c")], id="cycle with exit"),
        pytest.param(
            ["f.loop -> a", "a.ok -> c", "c.true -> a", "c.false -> f", "f.done -> END"],
            [foreach("f"), condition("c")],
            id="cycle in a body with return",
        ),
        pytest.param(NESTED, [foreach("outer"), foreach("inner")], id="nested return"),
        pytest.param(
            ["f.loop -> c", "c.true -> a", "c.false -> f", "a.ok -> f", "f.done -> END"],
            [foreach("f"), condition("c")],
            id="both branches return",
        ),
        pytest.param(
            ["again.true -> f", "again.false -> END", "f.loop -> a", "a.ok -> f", "f.done -> again"],
            [condition("again"), foreach("f")],
            id="entered again after done",
        ),
        pytest.param(
            ["f.loop -> child", "child.ok -> f", "f.done -> END"],
            [foreach("f"), {"id": "child", "type": "subgraph", "workflow": "other"}],
            id="subgraph in a body",
        ),
        pytest.param(
            ["f.loop -> ask", "ask.submitted -> f", "f.done -> END"],
            [foreach("f"), {"id": "ask", "type": "interrupt", "kind": "approval"}],
            id="interrupt in a body",
        ),
        pytest.param(
            ["f.loop -> a", "a.ok -> f", "f.done -> g", "g.loop -> b", "b.ok -> g", "g.done -> stop"],
            [foreach("f"), foreach("g"), end("stop")],
            id="one loop after another",
        ),
    ],
)
def test_legal_graphs_have_no_region_issues(routes: Sequence[str], steps: list[dict[str, object]]) -> None:
    checked = workflow(routes, steps)

    assert issues(checked) == []
    assert set(stacks(checked)) == {step.id for step in checked.nodes}


@pytest.mark.parametrize(
    ("routes", "steps", "expected"),
    [
        pytest.param(
            ["c.true -> f", "c.false -> a", "f.loop -> a", "a.ok -> f", "f.done -> END"],
            [condition("c"), foreach("f")],
            [("foreach_region_conflict", "nodes[a]")],
            id="edge from outside into a body",
        ),
        pytest.param(
            ["c.false -> a", "c.true -> f", "a.ok -> f", "f.done -> END", "f.loop -> a"],
            [condition("c"), foreach("f")],
            [("foreach_region_conflict", "nodes[a]")],
            id="the same from the other direction",
        ),
        pytest.param(
            ["f.loop -> a", "a.ok -> b", "f.done -> b", "b.ok -> END"],
            [foreach("f")],
            [("foreach_region_conflict", "nodes[b]")],
            id="edge from a body to what follows the loop",
        ),
        pytest.param(
            ["f.loop -> b", "f.done -> c", "c.ok -> d", "d.ok -> b", "b.ok -> END"],
            [foreach("f")],
            [("foreach_region_conflict", "nodes[b]")],
            id="the same, found late",
        ),
        pytest.param(
            ["f.loop -> a", "a.ok -> f", "f.done -> g", "g.loop -> a", "g.done -> END"],
            [foreach("f"), foreach("g")],
            [("foreach_region_conflict", "nodes[a]")],
            id="two loops share a body step",
        ),
        pytest.param(
            [
                "outer.loop -> inner",
                "inner.loop -> work",
                "work.ok -> outer",
                "inner.done -> outer",
                "outer.done -> END",
            ],
            [foreach("outer"), foreach("inner")],
            [("invalid_foreach_return", "edges[2]")],
            id="inner body returns to the outer loop",
        ),
        pytest.param(
            ["f.loop -> f", "f.done -> END"],
            [foreach("f")],
            [("empty_foreach_body", "edges[0]")],
            id="empty body",
        ),
        pytest.param(
            ["f.loop -> a", "a.ok -> b", "b.ok -> a", "f.done -> END"],
            [foreach("f")],
            [("foreach_body_no_return", "nodes[f]")],
            id="closed cycle in a body",
        ),
        pytest.param(
            ["f.loop -> a", "a.ok -> END", "f.done -> END"],
            [foreach("f")],
            [("invalid_foreach_terminal", "edges[1]")],
            id="body ends the workflow",
        ),
        pytest.param(
            ["f.loop -> a", "a.ok -> END", "f.done -> g", "g.loop -> b", "b.ok -> g", "g.done -> b"],
            [foreach("f"), foreach("g")],
            [("invalid_foreach_terminal", "edges[1]"), ("foreach_region_conflict", "nodes[b]")],
            id="two mistakes, and nothing that follows from them",
        ),
        pytest.param(
            ["f.loop -> a", "a.ok -> stop", "f.done -> END"],
            [foreach("f"), end("stop")],
            [("invalid_foreach_terminal", "edges[1]")],
            id="body leads to an end step",
        ),
        pytest.param(
            ["f.loop -> END", "f.done -> END"],
            [foreach("f")],
            [("invalid_foreach_terminal", "edges[0]")],
            id="loop leads to the end",
        ),
        pytest.param(
            ["a.ok -> END", "x.ok -> y", "y.ok -> f", "f.loop -> z", "z.ok -> f", "f.done -> END"],
            [node("a"), node("x"), node("y"), foreach("f"), node("z"), end("stop")],
            [("unreachable_node", f"nodes[{name}]") for name in ("x", "y", "f", "z", "stop")],
            id="detached steps",
        ),
        pytest.param(
            ["outer.loop -> inner", "inner.loop -> a", "a.ok -> a", "inner.done -> outer", "outer.done -> END"],
            [foreach("outer"), foreach("inner")],
            [("foreach_body_no_return", "nodes[inner]")],
            id="only the loop that is not returned to",
        ),
        pytest.param(
            [
                "outer.loop -> inner",
                "inner.loop -> a",
                "a.ok -> inner",
                "inner.done -> b",
                "b.ok -> b",
                "outer.done -> END",
            ],
            [foreach("outer"), foreach("inner")],
            [("foreach_body_no_return", "nodes[outer]")],
            id="the inner loop returns, the outer does not",
        ),
    ],
)
def test_broken_graphs_are_reported_at_their_place(
    routes: Sequence[str], steps: list[dict[str, object]], expected: list[tuple[str, str]]
) -> None:
    assert issues(workflow(routes, steps)) == expected


def test_a_step_in_two_places_loses_its_stack_and_names_both() -> None:
    checked = workflow(
        ["c.true -> f", "c.false -> a", "f.loop -> a", "a.ok -> f", "f.done -> END"], [condition("c"), foreach("f")]
    )

    analysis = analyze_control_regions(checked)

    assert "a" not in analysis.owner_stack_by_node
    assert "'f'" in analysis.issues[0].message and "outside" in analysis.issues[0].message


def test_a_conflict_keeps_nothing_else_from_being_analysed() -> None:
    checked = workflow(
        ["c.true -> f", "c.false -> a", "f.loop -> a", "a.ok -> f", "f.done -> z", "z.ok -> y", "y.ok -> END"],
        [condition("c"), foreach("f")],
    )

    assert stacks(checked) == {"c": (), "f": (), "z": (), "y": ()}


@pytest.mark.parametrize(
    ("routes", "loops", "said"),
    [
        (["f.loop -> f", "f.done -> END"], ["f"], "enters an empty body: loop leads straight back to foreach 'f'"),
        (
            ["f.loop -> a", "a.ok -> END", "f.done -> END"],
            ["f"],
            "edge 'a' -> '__end__' ('ok') ends the workflow from inside the body of foreach 'f'",
        ),
        (
            ["f.loop -> g", "g.loop -> a", "a.ok -> f", "g.done -> f", "f.done -> END"],
            ["f", "g"],
            "edge 'a' -> 'f' ('ok') skips foreach 'g'",
        ),
        (
            ["f.loop -> g", "g.loop -> a", "f.done -> a", "a.ok -> g", "g.done -> f"],
            ["f", "g"],
            "step 'a' is reached in different places: in the body of 'f' > 'g'; outside every body",
        ),
        (
            ["f.loop -> a", "a.ok -> b", "b.ok -> a", "f.done -> END"],
            ["f"],
            "foreach 'f' never returns to it from 'a', 'b'",
        ),
        (
            ["f.done -> END", "f.loop -> a", "a.ok -> f", "x.ok -> END"],
            ["f"],
            "no path leads from start 'f' to step 'x'",
        ),
    ],
)
def test_an_issue_says_which_steps_and_loops_it_is_about(routes: Sequence[str], loops: list[str], said: str) -> None:
    [issue] = analyze_control_regions(workflow(routes, [foreach(loop) for loop in loops])).issues

    assert said in issue.message


def test_dangling_edges_are_left_to_edge_validation() -> None:
    checked = workflow(["a.ok -> END"], [node("a")])
    checked.edges[0].to = "gone"

    assert issues(checked) == []


def test_a_same_region_cycle_between_loops_keeps_its_stack() -> None:
    checked = workflow(
        [
            "outer.loop -> c",
            "c.true -> inner",
            "c.false -> outer",
            "inner.loop -> work",
            "work.ok -> inner",
            "inner.done -> c",
            "outer.done -> END",
        ],
        [foreach("outer"), condition("c"), foreach("inner")],
    )

    assert issues(checked) == []
    assert stacks(checked)["inner"] == ("outer",)
    assert stacks(checked)["work"] == ("outer", "inner")


def test_a_very_deep_nest_of_loops_is_analysed() -> None:
    depth = 300
    routes = [f"f{n}.loop -> f{n + 1}" for n in range(depth - 1)]
    routes += [f"f{n}.done -> f{n - 1}" for n in range(1, depth)]
    routes += [f"f{depth - 1}.loop -> work", f"work.ok -> f{depth - 1}", "f0.done -> END"]

    checked = workflow(routes, [foreach(f"f{n}") for n in range(depth)])

    assert issues(checked) == []
    assert len(stacks(checked)["work"]) == depth
