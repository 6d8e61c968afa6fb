"""The children that a builder prepared: workflows for its subgraph steps, with what they need to run in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from wf_core.authoring.nodes import NodeSpec
from wf_core.models.steps import SubgraphNode
from wf_core.models.workflow import Workflow
from wf_core.reducers import ReducerDefinition
from wf_core.runtime import PreparedSubgraph

Handler = TypeVar("Handler")


@dataclass(frozen=True, slots=True)
class PreparedChild:
    """A child as it stood when it was prepared."""

    workflow: Workflow
    specs: Mapping[str, NodeSpec[Any, Any]]
    reducers: Mapping[str, ReducerDefinition]


class PreparedChildren:
    """Children by name, each behind those it was prepared with itself."""

    def __init__(self) -> None:
        self._children: dict[str, PreparedChild] = {}

    def add(self, child: PreparedChild, own: Self, *, caller: str) -> None:
        """Keep a child and its own children for the workflow ``caller``.

        ``ValueError`` when a name among them stands for something else; nothing is kept then.
        """
        added = {**own._children, child.workflow.name: child}
        for name, one in added.items():
            if name == caller:
                raise ValueError(f"workflow {name!r} cannot be prepared for a workflow of its own name")
            if self._children.get(name, one) != one:
                raise ValueError(f"another child workflow named {name!r} is prepared: give this one another name")
        self._children |= added

    @property
    def workflows(self) -> tuple[Workflow, ...]:
        """Copies of the children's workflows, in order."""
        return tuple(child.workflow.model_copy(deep=True) for child in self._children.values())

    def for_run(
        self, root: Workflow, registry: Callable[..., dict[str, Handler]]
    ) -> dict[str, PreparedSubgraph[Handler]]:
        """What the engine takes as ``subgraphs``: each child under its name and under the versions that steps name."""
        prepared = {
            name: PreparedSubgraph(child.workflow, registry(*child.specs.values()), child.reducers)
            for name, child in self._children.items()
        }
        versions = {
            step.workflow.display: prepared[step.workflow.artifact_id]
            for workflow in (root, *(child.workflow for child in self._children.values()))
            for step in _subgraph_steps(workflow)
            if step.workflow.artifact_id in prepared
        }
        return prepared | versions


def _subgraph_steps(workflow: Workflow) -> Iterator[SubgraphNode]:
    return (step for step in workflow.nodes if isinstance(step, SubgraphNode))
