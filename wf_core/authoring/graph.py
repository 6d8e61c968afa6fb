"""Steps and edges while they are put together: ids, and one route for each outcome."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from wf_core.authoring.nodes import NodeSpec
from wf_core.models.steps import Step
from wf_core.models.workflow import Edge

StepRef: TypeAlias = Step | str
"""A step or its id; as a target also ``END``."""

BranchRef: TypeAlias = StepRef | NodeSpec[Any, Any]
"""A target; a capability becomes a new step where it is named."""

AnyStep = TypeVar("AnyStep", bound=Step)

_SEPARATORS: Final = re.compile(r"[^0-9A-Za-z_]+")


@dataclass(frozen=True, slots=True)
class BranchResult:
    """The routes that left one step, by outcome."""

    source: StepRef
    targets: Mapping[str, StepRef]

    def __getitem__(self, outcome: str) -> StepRef:
        return self.targets[outcome]


@dataclass(frozen=True, slots=True)
class HandleResult:
    """The routes that lead to one step."""

    target: StepRef
    branches: tuple[tuple[StepRef, str], ...]


class StepGraph:
    """Steps and edges in the order in which they were added."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.edges: list[Edge] = []
        self._ids: set[str] = set()
        self._routes: dict[tuple[str, str], list[Edge]] = {}

    def free_id(self, explicit: str | None, base: str) -> str:
        """The explicit id, ``ValueError`` when it is taken; else one made from the base."""
        if explicit is None:
            return next(name for name in _numbered(slug_of(base)) if name not in self._ids)
        if explicit in self._ids:
            raise ValueError(f"step id {explicit!r} is taken")
        return explicit

    def add(self, step: AnyStep) -> AnyStep:
        """Append a step."""
        self.steps.append(step)
        self._ids.add(step.id)
        return step

    def remove(self, step_id: str) -> Step:
        """Take a step out; ``KeyError`` without one, ``ValueError`` while routes mention it."""
        step = next((step for step in self.steps if step.id == step_id), None)
        if step is None:
            raise KeyError(f"no step {step_id!r}")
        if mentions := [edge for edge in self.edges if step_id in (edge.from_, edge.to)]:
            routes = ", ".join(f"{edge.from_}.{edge.outcome} -> {edge.to}" for edge in mentions)
            raise ValueError(f"step {step_id!r} is still mentioned by: {routes}")
        self.steps.remove(step)
        self._ids.discard(step_id)
        return step

    def connect(self, source: str, outcome: str, target: str) -> None:
        """Append an edge, whatever is there."""
        edge = Edge(from_=source, outcome=outcome, to=target)
        self.edges.append(edge)
        self._routes.setdefault((source, outcome), []).append(edge)

    def set_route(self, source: str, outcome: str, target: str) -> None:
        """Leave exactly one edge for the outcome, in the place of the first that was there."""
        present = self._routes.get((source, outcome))
        if present is None:
            self.connect(source, outcome, target)
            return
        first, *repeated = present
        first.to = target
        self._drop(repeated)
        self._routes[source, outcome] = [first]

    def remove_route(self, source: str, outcome: str) -> None:
        """Take the edges of an outcome out; ``KeyError`` without one."""
        present = self._routes.pop((source, outcome), None)
        if present is None:
            raise KeyError(f"step {source!r} has no route for outcome {outcome!r}")
        self._drop(present)

    def _drop(self, dropped: list[Edge]) -> None:
        # By identity: another edge may be equal and must keep its place.
        if dropped:
            self.edges = [edge for edge in self.edges if not any(edge is other for other in dropped)]


def step_id_of(ref: object) -> str:
    """The id behind a reference; ``TypeError`` for what refers to no step."""
    step_id = ref if isinstance(ref, str) else getattr(ref, "id", None)
    if not isinstance(step_id, str):
        raise TypeError(f"unsupported step reference {ref!r}: pass a step or its id")
    return step_id


def slug_of(text: str) -> str:
    """A text as a step id: lower case, letters, digits and underscores."""
    return _SEPARATORS.sub("_", text.lower()).strip("_") or "step"


def _numbered(base: str) -> Iterator[str]:
    yield base
    number = 2
    while True:
        yield f"{base}_{number}"
        number += 1
