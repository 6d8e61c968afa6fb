"""Random valid workflows with handlers whose results show everything they saw.

A handler appends a line that holds a digest of the log it could read. Whoever reads a sibling's uncommitted write, or
misses one of its own, or replays a barrier in another order, ends with another log. Some loops go over that very log,
so that their items, too, belong to one history only.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from dataclasses import dataclass, field
from typing import Any

from wf_core.models import Workflow
from wf_core.run_state import RuntimeContext

LINE = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "value": {"type": "integer"}, "children": {"type": "array"}},
}
"""What a handler appends to the log. It has what an item of a loop has, so that loops can go over the log."""
STATE = {
    "type": "object",
    "properties": {
        "log": {"type": "array", "reducer": "wf.std.append", "default": [], "items": LINE},
        "total": {"type": "integer", "reducer": "wf.std.add", "default": 0},
        "answers": {"type": "array", "reducer": "wf.std.append", "default": []},
        "errors": {"type": "array", "reducer": "wf.std.append", "default": []},
    },
}
NODE_DEF = {
    "name": "note",
    "input_schema": {"type": "object", "properties": {"step": {}, "value": {}, "log": {}, "flaky": {}}},
    "output_schema": {"type": "object", "properties": {"line": {}, "n": {}}, "required": ["line", "n"]},
    "outcomes": ["ok"],
}


def digest(value: Any) -> str:
    return hashlib.md5(json.dumps(value, sort_keys=True).encode()).hexdigest()[:6]


def note(payload: dict[str, Any], ctx: RuntimeContext, nonce: str = "-", *, mended: bool = False) -> dict[str, Any]:
    """The one handler. Items whose value is 13 fail, unless that was ``mended``; on workers a flaky step fails in its
    first attempts, too. A ``nonce`` tells what one call gave from what any other one did."""
    if getattr(ctx, "attempt", 100) <= payload.get("flaky", 0):
        raise ConnectionError("try again")
    if payload["value"] == 13 and not mended:
        raise ValueError(f"unlucky at {payload['step']}")
    place = "/".join(f"{entry.node_id}[{entry.index}]={entry.item['value']}" for entry in ctx.foreach.values())
    text = f"{payload['step']} {place} {nonce} {digest(payload['log'])}"
    return {"line": {"text": text, "value": payload["value"], "children": []}, "n": payload["value"]}


def out_of_order(log: list[dict[str, Any]]) -> str | None:
    """A line that stands before one of an earlier item, or None.

    An oracle that knows nothing of the engines: whatever runs together, and on whatever worker, the lines of one step
    stand in the order of its items. (A child's lines come with each of its calls, so only the root's steps are asked.)
    """
    last: dict[str, tuple[int, ...]] = {}
    for line in (entry["text"] for entry in log):
        step, place, *_ = line.split(" ")
        if step.startswith("child"):
            continue
        indexes = tuple(int(text) for text in re.findall(r"\[(\d+)\]", place))
        if step in last and indexes <= last[step]:
            return line
        last[step] = indexes
    return None


def answer(payload: dict[str, Any]) -> dict[str, Any]:
    """What a person answers: it depends on what was asked, and on nothing else."""
    return {"text": f"answer to {digest(payload)}"}


@dataclass
class FlowMaker:
    """Builds one random workflow. Loops nest up to ``depth``; an input tree gives their items."""

    rng: random.Random
    depth: int = 3
    interrupts: bool = True
    failures: bool = True
    subgraphs: bool = True
    taken_in: bool = True
    """Whether loops may take in the failures of their items; else each fails the run, which can be retried."""
    crowded: bool = False
    """Whether it is concurrent loops with many items within one another, and little else."""
    nodes: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    edges: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    children: dict[str, Workflow] = field(default_factory=dict[str, Workflow])
    prefix: str = ""

    def make(self) -> tuple[Workflow, dict[str, Any]]:
        """The workflow and an input for it; :attr:`children` are the workflows that it enters."""
        return self._workflow("random"), {"tree": self._tree(self.depth)}

    def _workflow(self, name: str) -> Workflow:
        exits = self._body([], self.depth, None)
        for source, outcome in exits:
            self._edge(source, outcome, "__end__")
        document = {
            "name": name,
            "input_schema": {
                "type": "object",
                "properties": {"tree": self._tree_schema(self.depth), "value": {"type": "integer"}},
            },
            "state_schema": STATE,
            "output_schema": {"type": "object", "properties": {"log": {}, "total": {}, "answers": {}, "errors": {}}},
            "output": [{"target": name, "path": f"state.{name}"} for name in ("log", "total", "answers", "errors")],
            "node_defs": [NODE_DEF],
            "start": self.nodes[0]["id"],
            "nodes": self.nodes,
            "edges": self.edges,
        }
        return Workflow.model_validate(document)

    def _id(self, kind: str) -> str:
        return f"{self.prefix}{kind}{len(self.nodes)}"

    def _edge(self, source: str, outcome: str, target: str) -> None:
        self.edges.append({"from": source, "outcome": outcome, "to": target})

    def _body(self, owners: list[str], depth: int, entered: tuple[str, str] | None) -> list[tuple[str, str]]:
        """A sequence of steps; gives the routes that leave it."""
        exits: list[tuple[str, str]] = [entered] if entered else []
        for _ in range(self.rng.randrange(1, 3 if self.crowded else 4)):
            # Nested loops are where people are asked in the most ways.
            asks = (3 if len(owners) > 1 else 1) if self.interrupts else 0
            weights = [5, 4 if depth else 0, 2, 1, asks, int(self.subgraphs and depth > 0)]
            if self.crowded:
                weights = [2, 4 if depth else 0, 0, 0, asks, 0]
            kind = self.rng.choices(["node", "foreach", "condition", "wait", "interrupt", "subgraph"], weights)[0]
            first, exits_after = getattr(self, f"_{kind}")(owners, depth)
            for source, outcome in exits:
                self._edge(source, outcome, first)
            exits = exits_after
        return exits

    def _value(self, owners: list[str]) -> str | None:
        return f"context.foreach.{owners[-1]}.item.value" if owners else None

    def _node(self, owners: list[str], depth: int) -> tuple[str, list[tuple[str, str]]]:
        step = self._id("n")
        value = self._value(owners)
        bindings: list[dict[str, Any]] = [{"target": "step", "value": step}, {"target": "log", "path": "state.log"}]
        bindings.append({"target": "value", "path": value} if value else {"target": "value", "value": 1})
        policy: dict[str, Any] = {}
        if self.rng.random() < 0.2:
            bindings.append({"target": "flaky", "value": self.rng.randrange(1, 3)})
            policy = {"retry": {"max_attempts": self.rng.choice([3, 4]), "initial_seconds": 0.01}}
        elif self.rng.random() < 0.2:
            # Whatever is out of time is tried again, and never so often that the run fails for it.
            again = {"max_attempts": 1_000, "initial_seconds": 0.01, "non_retryable": ["ValueError"]}
            policy = {"retry": again, self.rng.choice(["timeout_seconds", "heartbeat_seconds"]): 20}
        self.nodes.append(
            {
                "id": step,
                "type": "node",
                "node": "note",
                **policy,
                "input": bindings,
                "output": [{"source": "line", "target": "state.log"}, {"source": "n", "target": "state.total"}],
            }
        )
        return step, [(step, "ok")]

    def _condition(self, owners: list[str], depth: int) -> tuple[str, list[tuple[str, str]]]:
        step = self._id("c")
        self.nodes.append(
            {
                "id": step,
                "type": "condition",
                "check": {"op": "gt", "left": {"path": "state.total"}, "right": {"value": self.rng.randrange(40)}},
            }
        )
        inner, exits = self._node(owners, depth)
        self._edge(step, "true", inner)
        return step, [*exits, (step, "false")]

    def _wait(self, owners: list[str], depth: int) -> tuple[str, list[tuple[str, str]]]:
        step = self._id("w")
        moment = self.rng.choice([{"for_seconds": 0.01}, {"for_seconds": 0.05}, {"until": "2023-11-14T22:14:00Z"}])
        self.nodes.append({"id": step, "type": "wait", **moment})
        return step, [(step, "elapsed")]

    def _interrupt(self, owners: list[str], depth: int) -> tuple[str, list[tuple[str, str]]]:
        step = self._id("i")
        request: list[dict[str, Any]] = [{"target": "log", "path": "state.log"}]
        value = self._value(owners)
        if value:
            request.append({"target": "value", "path": value})
        self.nodes.append(
            {
                "id": step,
                "type": "interrupt",
                "kind": "ask",
                "request": request,
                "resume": [{"source": "text", "target": "state.answers"}],
            }
        )
        return step, [(step, "submitted")]

    def _subgraph(self, owners: list[str], depth: int) -> tuple[str, list[tuple[str, str]]]:
        step = self._id("s")
        name = f"child{self.rng.getrandbits(32):08x}"
        maker = FlowMaker(
            self.rng,
            depth - 1,
            self.interrupts,
            self.failures,
            taken_in=self.taken_in,
            children=self.children,
            prefix=f"{name}_",
        )
        child = maker._workflow(name)
        self.children[name] = child
        tree = f"context.foreach.{owners[-1]}.item.children" if owners else "input.tree"
        value = self._value(owners)
        names = ("log", "total", "answers", "errors")
        self.nodes.append(
            {
                "id": step,
                "type": "subgraph",
                "workflow": {"name": name},
                "input_schema": child.input_schema.as_json_schema(),
                "output_schema": child.output_schema.as_json_schema(),
                "input": [
                    {"target": "tree", "path": tree},
                    {"target": "value", "path": value} if value else {"target": "value", "value": 1},
                ],
                "output": [{"source": name, "target": f"state.{name}"} for name in names],
            }
        )
        return step, [(step, "ok")]

    def _foreach(self, owners: list[str], depth: int) -> tuple[str, list[tuple[str, str]]]:
        step = self._id("f")
        over = f"context.foreach.{owners[-1]}.item.children" if owners else "input.tree"
        if not owners and not self.prefix and self.rng.random() < 0.3:
            over, depth = "state.log", 1
        mode = "concurrent" if self.crowded else self.rng.choice(["serial", "concurrent"])
        action = self.rng.choice(["fail", "skip", "collect"]) if self.failures and self.taken_in else "fail"
        active = self.rng.randrange(1, 5 if self.crowded else 4)
        node: dict[str, Any] = {"id": step, "type": "foreach", "over": over, "as": f"as_{step}", "mode": mode}
        if mode == "concurrent":
            node["concurrent"] = {
                "max_active": active,
                "max_outstanding": active + self.rng.randrange(3),
                "interrupt": self.rng.choice(["quiesce", "continue"]),
            }
        node["item_error"] = {"action": action, **({"collect_to": "state.errors"} if action == "collect" else {})}
        self.nodes.append(node)
        for source, outcome in self._body([*owners, step], depth - 1, (step, "loop")):
            self._edge(source, outcome, step)
        return step, [(step, "done"), *([(step, "completed_with_errors")] if action != "fail" else [])]

    def _tree(self, depth: int) -> list[dict[str, Any]]:
        return [
            {
                "value": self.rng.choice([1, 2, 3, 5, 13 if self.failures and self.rng.random() < 0.3 else 7]),
                "children": self._tree(depth - 1) if depth else [],
            }
            for _ in range(self.rng.randrange(2, 5) if self.crowded else self.rng.randrange(4))
        ]

    def _tree_schema(self, depth: int) -> dict[str, Any]:
        children = self._tree_schema(depth - 1) if depth else {"type": "array"}
        return {
            "type": "array",
            "items": {"type": "object", "properties": {"value": {"type": "integer"}, "children": children}},
        }
