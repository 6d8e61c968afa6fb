"""A visit is closed before its loop's frame goes on, also when that is where the frame ends."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.engines import echo, fresh_run
from tests.support.workflow_documents import foreach, node, reads, workflow
from wf_core.run_state import RunState
from wf_core.runtime import PreparedSubgraph, execute_workflow, resume_workflow

CONCURRENT: dict[str, Any] = {"mode": "concurrent", "concurrent": {"max_active": 2, "max_outstanding": 3}}
MODES = pytest.mark.parametrize("mode", [{}, CONCURRENT], ids=["serial", "concurrent"])


def open_visits(run: RunState) -> list[tuple[str, str]]:
    return [
        (frame.id, loop)
        for frame in run.frames.values()
        for loop, entry in frame.metadata.get("foreach_activations", {}).items()
        if entry["active"] is not None
    ]


@MODES
def test_a_visit_whose_loop_leads_to_the_end_is_closed(mode: dict[str, Any]) -> None:
    made = workflow(["each.loop -> work", "work.ok -> each", "each.done -> END"], [foreach("each", **mode)])

    assert open_visits(execute_workflow(made, {"items": [{}]}, {"work": echo})) == []


@MODES
def test_a_visit_whose_loop_leads_back_to_an_outer_loop_is_closed(mode: dict[str, Any]) -> None:
    made = workflow(
        ["o.loop -> i", "i.loop -> work", "work.ok -> i", "i.done -> o", "o.done -> last", "last.ok -> END"],
        [foreach("o", **mode), foreach("i", "state.values", **mode), node("work", input=[reads("context.i_item")])],
    )
    run = resume_workflow(made, fresh_run(made, {"items": [{}], "values": [1]}), {"work": echo})

    assert open_visits(run) == []


def test_a_child_workflow_whose_caller_ends_with_it_is_let_go_of() -> None:
    call = {"id": "call", "type": "subgraph", "workflow": "child", "input": [reads("input", ".")]}
    child = PreparedSubgraph(workflow(["work.ok -> END"]), {"work": echo})

    run = execute_workflow(workflow(["call.ok -> END"], [call]), {}, {}, subgraphs={"child": child})

    assert "subgraph_activation" not in run.frames["root"].metadata
