"""Which loop bodies each step runs in.

A region is the stack of owners around a step, outermost first. The edge that enters a body pushes its owner, the edge
back to the innermost owner pops it; no other edge may cross the border. So one static step has one region, and many
dynamic executions in it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum, auto
from typing import TypeAlias

from wf_core.analysis.graph import LOOP_OUTCOME, Route, WorkflowGraph, workflow_graph
from wf_core.models.steps import EndNode, ForeachNode
from wf_core.models.workflow import Workflow
from wf_core.tokens import END


@dataclass(frozen=True, slots=True)
class Foreach:
    """A region entry: the body of the foreach step ``id``."""

    id: str


RegionEntry: TypeAlias = Foreach
"""What can own a region: each kind of body is one frozen value with the ``id`` of the step that it returns to."""

Region: TypeAlias = tuple[RegionEntry, ...]

ForeachOwnerStack: TypeAlias = tuple[str, ...]
"""The ids of the foreach steps around a step, outermost first."""


class ControlRegionIssueKind(StrEnum):
    """What is wrong with a region; the values are validation codes."""

    EMPTY_FOREACH_BODY = "empty_foreach_body"
    INVALID_FOREACH_TERMINAL = "invalid_foreach_terminal"
    INVALID_FOREACH_RETURN = "invalid_foreach_return"
    FOREACH_REGION_CONFLICT = "foreach_region_conflict"
    UNREACHABLE_NODE = "unreachable_node"
    FOREACH_BODY_NO_RETURN = "foreach_body_no_return"


@dataclass(frozen=True, slots=True)
class ControlRegionIssue:
    """One mistake, at an edge by position or at a step by id."""

    kind: ControlRegionIssueKind
    path: str
    message: str


def _no_regions() -> dict[str, Region]:
    return {}


@dataclass(frozen=True, slots=True)
class ControlRegionAnalysis:
    """The region of every step that is reached under exactly one, and what is wrong with the others.

    ``owner_stack_by_node`` holds the foreach ids of ``region_by_node``.
    """

    owner_stack_by_node: dict[str, ForeachOwnerStack]
    issues: tuple[ControlRegionIssue, ...]
    region_by_node: dict[str, Region] = field(default_factory=_no_regions)


class _Verdict(Enum):
    """What one edge means for the region that it leaves."""

    FOLLOW = auto()
    RETURN = auto()
    LEAVE = auto()
    """To the end, or to a step that is not there."""
    EMPTY_BODY = auto()
    TERMINAL_IN_BODY = auto()
    RETURN_TO_OLDER_OWNER = auto()


_EDGE_ISSUES: dict[_Verdict, ControlRegionIssueKind] = {
    _Verdict.EMPTY_BODY: ControlRegionIssueKind.EMPTY_FOREACH_BODY,
    _Verdict.TERMINAL_IN_BODY: ControlRegionIssueKind.INVALID_FOREACH_TERMINAL,
    _Verdict.RETURN_TO_OLDER_OWNER: ControlRegionIssueKind.INVALID_FOREACH_RETURN,
}


@dataclass(frozen=True, slots=True)
class _Move:
    """One edge taken: the region it runs in, and the region at its target where it is followed."""

    route: Route
    region: Region
    verdict: _Verdict
    arrives_in: Region | None = None


@dataclass(slots=True)
class _Traversal:
    """Every reached step with the first region it was reached under, further ones, and all edges taken."""

    regions: dict[str, Region]
    conflicts: dict[str, list[Region]]
    moves: list[_Move]

    def settled_moves(self) -> list[_Move]:
        """The edges of steps whose region is known: those of the others were judged by a guess."""
        return [move for move in self.moves if move.route.source not in self.conflicts]


def analyze_control_regions(workflow: Workflow) -> ControlRegionAnalysis:
    """Find the region of every step. Without a known start there is nothing to find and nothing to complain about."""
    graph = workflow_graph(workflow)
    if graph.start is None:
        return ControlRegionAnalysis({}, ())

    traversal = _traverse(graph, graph.start)
    regions = {
        step_id: traversal.regions[step_id]
        for step_id in graph.steps
        if step_id in traversal.regions and step_id not in traversal.conflicts
    }
    return ControlRegionAnalysis(
        owner_stack_by_node={step_id: foreach_owners(region) for step_id, region in regions.items()},
        issues=(
            *_edge_issues(traversal),
            *_conflict_issues(graph, traversal),
            *_unreachable_issues(graph),
            *_no_return_issues(graph, traversal, regions),
        ),
        region_by_node=regions,
    )


def foreach_owners(region: Region) -> ForeachOwnerStack:
    """The foreach ids of a region, outermost first."""
    return tuple(entry.id for entry in region)


def _traverse(graph: WorkflowGraph, start: str) -> _Traversal:
    """Reach each step once. Under a second region it is in conflict, and not left any more if it was not yet."""
    found = _Traversal({start: ()}, {}, [])
    pending = deque([start])
    while pending:
        step_id = pending.popleft()
        if step_id in found.conflicts:
            continue
        for route in graph.routes_from(step_id):
            move = _judge(graph, route, found.regions[step_id])
            found.moves.append(move)
            if move.arrives_in is None:
                continue
            known = found.regions.get(route.target)
            if known is None:
                found.regions[route.target] = move.arrives_in
                pending.append(route.target)
            elif known != move.arrives_in:
                others = found.conflicts.setdefault(route.target, [])
                if move.arrives_in not in others:
                    others.append(move.arrives_in)
    return found


def _judge(graph: WorkflowGraph, route: Route, outside: Region) -> _Move:
    entered = _entered_body(graph, route)
    region = outside if entered is None else (*outside, entered)
    target = route.target

    if entered is not None and target == entered.id:
        return _Move(route, region, _Verdict.EMPTY_BODY)
    if region and (target == END or isinstance(graph.steps.get(target), EndNode)):
        return _Move(route, region, _Verdict.TERMINAL_IN_BODY)
    if target not in graph.steps:
        return _Move(route, region, _Verdict.LEAVE)
    if region and target == region[-1].id:
        return _Move(route, region, _Verdict.RETURN)
    if any(target == entry.id for entry in region):
        return _Move(route, region, _Verdict.RETURN_TO_OLDER_OWNER)
    return _Move(route, region, _Verdict.FOLLOW, region)


def _entered_body(graph: WorkflowGraph, route: Route) -> RegionEntry | None:
    """The body that an edge leads into: the one place that knows which outcomes of which steps open a region."""
    if isinstance(graph.steps.get(route.source), ForeachNode) and route.outcome == LOOP_OUTCOME:
        return Foreach(route.source)
    return None


def _edge_issues(traversal: _Traversal) -> Iterable[ControlRegionIssue]:
    for move in sorted(traversal.settled_moves(), key=lambda move: move.route.index):
        kind = _EDGE_ISSUES.get(move.verdict)
        if kind is not None:
            yield ControlRegionIssue(kind, f"edges[{move.route.index}]", _edge_message(move))


def _edge_message(move: _Move) -> str:
    route, owner = move.route, move.region[-1].id
    edge = f"edge {route.source!r} -> {route.target!r} ({route.outcome!r})"
    if move.verdict is _Verdict.EMPTY_BODY:
        return f"{edge} enters an empty body: loop leads straight back to foreach {owner!r}"
    if move.verdict is _Verdict.TERMINAL_IN_BODY:
        return f"{edge} ends the workflow from inside the body of foreach {owner!r}"
    return f"{edge} skips foreach {owner!r}: an item returns to its immediate owner only"


def _conflict_issues(graph: WorkflowGraph, traversal: _Traversal) -> Iterable[ControlRegionIssue]:
    for step_id in graph.steps:
        if step_id in traversal.conflicts:
            regions = [traversal.regions[step_id], *traversal.conflicts[step_id]]
            places = "; ".join(sorted(_describe(region) for region in regions))
            yield ControlRegionIssue(
                ControlRegionIssueKind.FOREACH_REGION_CONFLICT,
                f"nodes[{step_id}]",
                f"step {step_id!r} is reached in different places: {places}",
            )


def _describe(region: Region) -> str:
    if not region:
        return "outside every body"
    return "in the body of " + " > ".join(repr(entry.id) for entry in region)


def _unreachable_issues(graph: WorkflowGraph) -> Iterable[ControlRegionIssue]:
    reachable = graph.reachable()
    for step_id in graph.steps:
        if step_id not in reachable:
            yield ControlRegionIssue(
                ControlRegionIssueKind.UNREACHABLE_NODE,
                f"nodes[{step_id}]",
                f"no path leads from start {graph.start!r} to step {step_id!r}",
            )


def _no_return_issues(
    graph: WorkflowGraph, traversal: _Traversal, regions: Mapping[str, Region]
) -> Iterable[ControlRegionIssue]:
    damaged = _damaged_owners(traversal)
    returning = _returning_steps(traversal, regions)
    stuck: dict[str, list[str]] = {}
    for step_id, region in regions.items():
        if region and region[-1].id not in damaged and step_id not in returning.get(region, ()):
            stuck.setdefault(region[-1].id, []).append(step_id)

    for owner in graph.steps:
        if owner in stuck:
            names = ", ".join(repr(step_id) for step_id in stuck[owner])
            yield ControlRegionIssue(
                ControlRegionIssueKind.FOREACH_BODY_NO_RETURN,
                f"nodes[{owner}]",
                f"the body of foreach {owner!r} never returns to it from {names}",
            )


def _damaged_owners(traversal: _Traversal) -> set[str]:
    """Owners whose body has a mistake that was reported already, and that may be why nothing returns."""
    regions = [move.region for move in traversal.moves if move.verdict in _EDGE_ISSUES]
    for step_id, others in traversal.conflicts.items():
        regions += [traversal.regions[step_id], *others]
    return {entry.id for region in regions for entry in region}


def _returning_steps(traversal: _Traversal, regions: Mapping[str, Region]) -> dict[Region, set[str]]:
    """For each body, the steps in it, bodies within it left out, from which some path returns to its owner."""
    sources: dict[str, list[str]] = {}
    returning: dict[Region, set[str]] = {}
    for move in traversal.settled_moves():
        if move.arrives_in is not None:
            sources.setdefault(move.route.target, []).append(move.route.source)
        if move.verdict is _Verdict.RETURN:
            returning.setdefault(move.region, set()).add(move.route.source)

    for region, reached in returning.items():
        pending = deque(reached)
        while pending:
            for source in sources.get(pending.popleft(), ()):
                if source not in reached and regions.get(source) == region:
                    reached.add(source)
                    pending.append(source)
    return returning
