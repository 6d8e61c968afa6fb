"""A concurrent loop over more items than open in one call, each of some size: items are staged, admitted in pages, and
the barrier is large enough to be staged too."""

from __future__ import annotations

import random

from tests.chaos.shapes.job import Job
from tests.support.random_flows import NODE_DEF, STATE
from wf_core.models import Workflow

ITEM_BYTES = 1_000
ITEM = {"type": "object", "properties": {"value": {"type": "integer"}, "ballast": {"type": "string"}}}


def make(rng: random.Random) -> Job:
    """70 to 160 items, handled four to twelve at a time."""
    active = rng.randrange(4, 13)
    items = [{"value": n % 11, "ballast": f"{n:04d}" * (ITEM_BYTES // 4)} for n in range(rng.randrange(70, 161))]
    workflow = Workflow.model_validate(
        {
            "name": "wide",
            "input_schema": {"type": "object", "properties": {"items": {"type": "array", "items": ITEM}}},
            "state_schema": {
                **STATE,
                "properties": {
                    **STATE["properties"],
                    "ballast": {"type": "array", "reducer": "wf.std.append", "default": []},
                },
            },
            "output_schema": {"type": "object", "properties": {"log": {}, "total": {}, "ballast": {}}},
            "output": [{"target": name, "path": f"state.{name}"} for name in ("log", "total", "ballast")],
            "node_defs": [NODE_DEF],
            "start": "each",
            "nodes": [
                {
                    "id": "each",
                    "type": "foreach",
                    "over": "input.items",
                    "as": "item",
                    "mode": "concurrent",
                    "concurrent": {"max_active": active, "max_outstanding": 2 * active},
                },
                {
                    "id": "one",
                    "type": "node",
                    "node": "note",
                    "input": [
                        {"target": "step", "value": "one"},
                        {"target": "value", "path": "context.foreach.each.item.value"},
                        {"target": "log", "path": "context.foreach.each.item.ballast"},
                    ],
                    "output": [
                        {"source": "line", "target": "state.log"},
                        {"source": "line", "target": "state.ballast"},
                        {"source": "n", "target": "state.total"},
                    ],
                },
            ],
            "edges": [
                {"from": "each", "outcome": "loop", "to": "one"},
                {"from": "one", "outcome": "ok", "to": "each"},
                {"from": "each", "outcome": "done", "to": "__end__"},
            ],
        }
    )
    workflow.validate_structure().raise_for_errors()
    return Job(workflow, {"items": items})
