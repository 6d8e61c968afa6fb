"""The bare graph of a workflow: steps by id, edges by source, the outcomes that each step declares.

Models can be changed after they were parsed, so every attribute is read as something that may hold any value. What
does not have its declared type is left out here; validation is the place that reports it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias, cast

from wf_core.models.schemas import NodeDef
from wf_core.models.steps import (
    ConditionNode,
    EndNode,
    ForeachItemErrorPolicy,
    ForeachNode,
    InterruptNode,
    JoinNode,
    NodeUse,
    SubgraphNode,
    WaitNode,
)
from wf_core.models.workflow import Edge, Workflow
from wf_core.tokens import END

LOOP_OUTCOME: Final = "loop"
DONE_OUTCOME: Final = "done"
COMPLETED_WITH_ERRORS_OUTCOME: Final = "completed_with_errors"
ELAPSED_OUTCOME: Final = "elapsed"

AnyStep: TypeAlias = (
    NodeUse | SubgraphNode | ConditionNode | ForeachNode | InterruptNode | WaitNode | EndNode | JoinNode
)
_STEP_KINDS: Final = (NodeUse, SubgraphNode, ConditionNode, ForeachNode, InterruptNode, WaitNode, EndNode, JoinNode)


@dataclass(frozen=True, slots=True)
class Route:
    """One edge and its position in the workflow's list."""

    index: int
    source: str
    outcome: str
    target: str


@dataclass(frozen=True, slots=True)
class WorkflowGraph:
    """Steps and edges, indexed. A repeated step id stands for its first step."""

    start: str | None
    steps: Mapping[str, AnyStep]
    routes: tuple[Route, ...]
    routes_by_source: Mapping[str, tuple[Route, ...]]
    node_defs: Mapping[str, NodeDef]

    def routes_from(self, step_id: str) -> tuple[Route, ...]:
        """The edges that leave a step, in the order of the list. None leaves an end step."""
        if isinstance(self.steps.get(step_id), EndNode):
            return ()
        return self.routes_by_source.get(step_id, ())

    def reachable(self) -> frozenset[str]:
        """Every step that some chain of edges joins to the start, whether or not its edges are legal."""
        if self.start is None:
            return frozenset()
        reached = {self.start}
        pending = deque(reached)
        while pending:
            for route in self.routes_from(pending.popleft()):
                if route.target != END and route.target in self.steps and route.target not in reached:
                    reached.add(route.target)
                    pending.append(route.target)
        return frozenset(reached)

    def outcomes_of(self, step: AnyStep) -> tuple[str, ...] | None:
        """What a step may emit; None when its node definition is unknown."""
        if isinstance(step, NodeUse):
            definition = self.node_defs.get(step.node) if is_text(step.node) else None
            return None if definition is None else texts(definition.outcomes)
        if isinstance(step, ConditionNode):
            return ("true", "false")
        if isinstance(step, ForeachNode):
            return _foreach_outcomes(step)
        if isinstance(step, EndNode):
            return ()
        if isinstance(step, WaitNode):
            return (ELAPSED_OUTCOME,)
        if isinstance(step, JoinNode):
            return (DONE_OUTCOME,)
        return texts(step.outcomes)


def workflow_graph(workflow: Workflow) -> WorkflowGraph:
    """Index a workflow."""
    steps: dict[str, AnyStep] = {}
    for _, step in steps_of(workflow):
        steps.setdefault(step.id, step)

    routes = tuple(routes_of(workflow))
    by_source: dict[str, list[Route]] = {}
    for route in routes:
        by_source.setdefault(route.source, []).append(route)

    definitions: dict[str, NodeDef] = {}
    for value in as_list(workflow.node_defs):
        if isinstance(value, NodeDef) and is_text(value.name):
            definitions.setdefault(value.name, value)

    return WorkflowGraph(
        start=workflow.start if is_text(workflow.start) and workflow.start in steps else None,
        steps=steps,
        routes=routes,
        routes_by_source={source: tuple(leaving) for source, leaving in by_source.items()},
        node_defs=definitions,
    )


def steps_of(workflow: Workflow) -> Iterator[tuple[int, AnyStep]]:
    """Every step with its position, repeated ids included."""
    for index, value in enumerate(as_list(workflow.nodes)):
        step = as_step(value)
        if step is not None:
            yield index, step


def routes_of(workflow: Workflow) -> Iterator[Route]:
    """Every edge with its position."""
    for index, value in enumerate(as_list(workflow.edges)):
        if isinstance(value, Edge) and is_text(value.from_) and is_text(value.outcome) and is_text(value.to):
            yield Route(index, value.from_, value.outcome, value.to)


def as_step(value: object) -> AnyStep | None:
    """The value as a step with a usable id."""
    return value if isinstance(value, _STEP_KINDS) and is_text(value.id) else None


def raw(value: object) -> object:
    """An attribute as something that may hold any value, whatever its declaration says."""
    return value


def as_list(value: object) -> list[object]:
    """The value as a list; nothing for anything else."""
    return cast("list[object]", value) if isinstance(value, list) else []


def is_text(value: object) -> bool:
    """Whether an attribute that should hold text does."""
    return isinstance(value, str)


def texts(value: object) -> tuple[str, ...]:
    """The strings of a list, each once, in order."""
    return tuple(dict.fromkeys(entry for entry in as_list(value) if isinstance(entry, str)))


def _foreach_outcomes(step: ForeachNode) -> tuple[str, ...]:
    policy = raw(step.item_error)
    handles = isinstance(policy, ForeachItemErrorPolicy) and policy.action in ("skip", "collect")
    return (LOOP_OUTCOME, DONE_OUTCOME, *((COMPLETED_WITH_ERRORS_OUTCOME,) if handles else ()))
