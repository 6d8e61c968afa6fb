"""The in-memory engine on long lists: ``python -m bench.core``.

A foreach of a no-op node over 10,000 and 100,000 items, serial and concurrent, interleaved, three rounds. What counts
is the ratio: a cost that grows with the work gives 10, one that grows with its square 100.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from typing import Any

from wf_core.models import Workflow
from wf_core.run_limits import RunLimits
from wf_core.runtime import execute_workflow

SMALL, LARGE, ROUNDS = 10_000, 100_000, 3


def loop(mode: str) -> Workflow:
    each: dict[str, Any] = {"id": "each", "type": "foreach", "over": "input.items", "as": "item", "mode": mode}
    if mode == "concurrent":
        each["concurrent"] = {"max_active": 16, "max_outstanding": 32}
    return Workflow.model_validate(
        {
            "name": f"bench_{mode}",
            "input_schema": {"type": "object", "properties": {"items": {"type": "array"}}},
            "state_schema": {"type": "object"},
            "output_schema": {"type": "object"},
            "node_defs": [{"name": "noop", "input_schema": {}, "output_schema": {}, "outcomes": ["ok"]}],
            "start": "each",
            "nodes": [each, {"id": "noop", "type": "node", "node": "noop"}],
            "edges": [
                {"from": "each", "outcome": "loop", "to": "noop"},
                {"from": "noop", "outcome": "ok", "to": "each"},
                {"from": "each", "outcome": "done", "to": "__end__"},
            ],
        }
    )


def seconds(workflow: Workflow, items: int) -> float:
    workflow_input = {"items": list(range(items))}
    limits = RunLimits(max_steps=10 * items)
    gc.collect()
    started = time.perf_counter()
    run = execute_workflow(workflow, workflow_input, {"noop": lambda payload, ctx: {}}, limits=limits)
    elapsed = time.perf_counter() - started
    assert run.outcome == "ok"
    return elapsed


def main() -> int:
    print(f"python {sys.version.split()[0]}, {ROUNDS} rounds, median [lowest-highest]")
    for mode in ("serial", "concurrent"):
        workflow = loop(mode)
        small: list[float] = []
        large: list[float] = []
        for _ in range(ROUNDS):
            small.append(seconds(workflow, SMALL))
            large.append(seconds(workflow, LARGE))
        ratio = statistics.median(b / a for a, b in zip(small, large, strict=True))
        print(f"{mode:<10} {SMALL:>7} items {shown(small)}   {LARGE:>7} items {shown(large)}   ratio {ratio:.1f}")
    return 0


def shown(times: list[float]) -> str:
    return f"{statistics.median(times):6.2f} s [{min(times):.2f}-{max(times):.2f}]"


if __name__ == "__main__":
    sys.exit(main())
