"""Costs of the in-memory engine that must grow with the work and not with its square: ``python -m bench.core``.

Each line measures one thing at two sizes, interleaved, three rounds. What counts is the ratio: a cost that grows with
the work gives about as much as the sizes differ, one that grows with its square far more. Nothing is compared with the
clock of another machine.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from wf_core.models import Workflow
from wf_core.run_limits import MAX_NESTING, RunLimits
from wf_core.runtime import execute_workflow

ROUNDS = 3
LIMITS = RunLimits(max_steps=10_000_000)
ANY = {"type": "object"}
CONCURRENT: dict[str, Any] = {"mode": "concurrent", "concurrent": {"max_active": 16, "max_outstanding": 32}}


def document(
    nodes: list[dict[str, Any]], edges: list[tuple[str, str, str]], fields: dict[str, Any] | None = None
) -> Workflow:
    """A workflow of these steps, beginning with the first; ``count`` adds one to a number."""
    number = {"properties": {"n": {}}}
    return Workflow.model_validate(
        {
            "name": "bench",
            "input_schema": {**ANY, "properties": {"items": {}, "one": {}}},
            "state_schema": {**ANY, "properties": {"n": {"type": "integer", "default": 0}, **(fields or {})}},
            "output_schema": ANY,
            "node_defs": [{"name": "count", "input_schema": number, "output_schema": number, "outcomes": ["ok"]}],
            "start": nodes[0]["id"],
            "nodes": nodes,
            "edges": [{"from": source, "outcome": outcome, "to": target} for source, outcome, target in edges],
        }
    )


def loop(step_id: str, over: str = "input.items", **more: Any) -> dict[str, Any]:
    return {"id": step_id, "type": "foreach", "over": over, "as": f"as_{step_id}", **more}


def items(mode: dict[str, Any]) -> Workflow:
    """A loop around a step that does nothing."""
    edges = [("each", "loop", "count"), ("count", "ok", "each"), ("each", "done", "__end__")]
    return document([loop("each", **mode), {"id": "count", "type": "node", "node": "count"}], edges)


def writes(count: int) -> Workflow:
    """One concurrent item that writes so many times into its lineage, and reads what it wrote each time."""
    step = {
        "id": "count",
        "type": "node",
        "node": "count",
        "input": [{"target": "n", "path": "state.n"}],
        "output": [{"source": "n", "target": "state.n"}],
    }
    more = {"op": "lt", "left": {"path": "state.n"}, "right": {"value": count}}
    edges = [
        ("each", "loop", "count"),
        ("count", "ok", "more"),
        ("more", "true", "count"),
        ("more", "false", "each"),
        ("each", "done", "__end__"),
    ]
    return document([loop("each", **CONCURRENT), step, {"id": "more", "type": "condition", "check": more}], edges)


def nested(depth: int) -> Workflow:
    """So many loops inside one another; the innermost over all items, the others over one."""
    names = [f"f{level}" for level in range(depth)]
    nodes = [loop(name, "input.one", **CONCURRENT) for name in names[:-1]] + [loop(names[-1], **CONCURRENT)]
    edges = [(outer, "loop", inner) for outer, inner in zip(names, [*names[1:], "count"], strict=True)]
    edges += [(inner, "done", outer) for outer, inner in pairwise(names)]
    edges += [("count", "ok", names[-1]), ("f0", "done", "__end__")]
    return document([*nodes, {"id": "count", "type": "node", "node": "count"}], edges)


def keys(count: int) -> Workflow:
    """As :func:`writes` for 2,000 times, with so many other fields in the state."""
    made = writes(2_000)
    fields = {f"field_{i}": {"default": i} for i in range(count)}
    nodes = [node.model_dump(mode="json", by_alias=True) for node in made.nodes]
    return document(nodes, [(edge.from_, edge.outcome, edge.to) for edge in made.edges], fields)


@dataclass(frozen=True)
class Case:
    """What is measured at a small and at a large size."""

    name: str
    unit: str
    small: int
    large: int
    run: Callable[[int], Callable[[], None]]


def running(workflow: Workflow, count: int) -> Callable[[], None]:
    workflow_input = {"items": list(range(count)), "one": [1]}

    def count_on(payload: dict[str, Any], _context: object) -> dict[str, Any]:
        return {"n": payload.get("n", 0) + 1}

    def go() -> None:
        assert execute_workflow(workflow, workflow_input, {"count": count_on}, limits=LIMITS).outcome == "ok"

    return go


CASES = (
    Case("serial foreach", "items", 10_000, 100_000, lambda n: running(items({}), n)),
    Case("concurrent foreach", "items", 10_000, 100_000, lambda n: running(items(CONCURRENT), n)),
    Case("writes of one lineage", "writes", 2_000, 20_000, lambda n: running(writes(n), 1)),
    Case("1,000 items nested", "loops", MAX_NESTING // 4, MAX_NESTING, lambda n: running(nested(n), 1_000)),
    Case("2,000 steps beside", "fields", 999, 9_990, lambda n: running(keys(n), 1)),
)


def seconds(go: Callable[[], None]) -> float:
    gc.collect()
    started = time.perf_counter()
    go()
    return time.perf_counter() - started


def main() -> int:
    print(f"python {sys.version.split()[0]}, {ROUNDS} rounds, median [lowest-highest]")
    for case in CASES:
        small_run, large_run = case.run(case.small), case.run(case.large)
        small: list[float] = []
        large: list[float] = []
        for _ in range(ROUNDS):
            small.append(seconds(small_run))
            large.append(seconds(large_run))
        ratio = statistics.median(b / a for a, b in zip(small, large, strict=True))
        work = case.large / case.small
        print(
            f"{case.name:<22} {case.small:>7} {case.unit:<6} {shown(small)}"
            f"   {case.large:>7} {case.unit:<6} {shown(large)}   ratio {ratio:4.1f} for {work:.0f} times the size"
        )
    return 0


def shown(times: list[float]) -> str:
    return f"{statistics.median(times):6.2f} s [{min(times):.2f}-{max(times):.2f}]"


if __name__ == "__main__":
    sys.exit(main())
