"""What the context holds at each step: one entry per loop around it, and the fields that every step has.

A foreach step belongs to the region around it, so the list it iterates over is looked up in that outer context: an
inner loop can iterate over a field of the outer item, and never sees its own entry before it is active.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Literal, TypeAlias

from wf_core.analysis.control_regions import ControlRegionAnalysis, ForeachOwnerStack, analyze_control_regions
from wf_core.analysis.graph import LOOP_OUTCOME, WorkflowGraph, raw, workflow_graph
from wf_core.context_contracts import (
    RESERVED_CONTEXT_KEYS,
    SCOPED_CONTEXT_KEY,
    STANDARD_CONTEXT_FIELD_NAMES,
    STANDARD_CONTEXT_FIELDS,
    ContextFieldContract,
    ContextSchema,
    closed_object,
    foreach_alias_field,
    foreach_context_fields,
    foreach_entry_schema,
    structured_foreach_contract,
)
from wf_core.models.steps import ForeachNode
from wf_core.models.workflow import Workflow
from wf_core.paths import GraphSourcePath, PathResolutionError
from wf_core.schema_navigation import SchemaDocument, item_schema, schema_document
from wf_core.tokens import END

ContextAvailability: TypeAlias = Literal["available", "conditional"]


@dataclass(frozen=True, slots=True)
class ContextFieldAvailability:
    """One context field at one step. ``availability`` is ``available`` for every field that exists today."""

    contract: ContextFieldContract
    availability: ContextAvailability
    reason: str | None = None

    @property
    def name(self) -> str:
        """The field's key in the context object."""
        return self.contract.name

    @property
    def schema(self) -> ContextSchema:
        """The field's schema."""
        return self.contract.schema

    @property
    def description(self) -> str:
        """The field in one sentence."""
        return self.contract.description


def context_fields_by_node(
    workflow: Workflow, *, control_regions: ControlRegionAnalysis | None = None
) -> dict[str, tuple[ContextFieldAvailability, ...]]:
    """The context fields of every reachable step whose region is unambiguous: standard ones, ``foreach``, aliases."""
    scopes = _ContextScopes(workflow)
    analysis = control_regions or analyze_control_regions(workflow)
    return {
        step_id: tuple(ContextFieldAvailability(field, "available") for field in scopes.fields(stack))
        for step_id, stack in analysis.owner_stack_by_node.items()
    }


def context_schemas_by_node(
    workflow: Workflow, *, control_regions: ControlRegionAnalysis | None = None
) -> dict[str, ContextSchema]:
    """The schema of the context object at every reachable step whose region is unambiguous.

    A step that is missing here has no valid context at all; it must not be treated as if it stood at the root.
    """
    scopes = _ContextScopes(workflow)
    analysis = control_regions or analyze_control_regions(workflow)
    return {step_id: scopes.schema(stack) for step_id, stack in analysis.owner_stack_by_node.items()}


def context_schema_for_node(workflow: Workflow, node_id: str) -> ContextSchema:
    """The schema of the context object at one step; ``KeyError`` when the step has none."""
    return context_schemas_by_node(workflow)[node_id]


def root_context_schema() -> ContextSchema:
    """The schema outside every loop: standard fields and an empty ``foreach``."""
    return _context_object((*STANDARD_CONTEXT_FIELDS, structured_foreach_contract({})))


def context_analysis_warnings(workflow: Workflow) -> list[str]:
    """What keeps the analysis from being complete, in sentences: for tools that show it beside its result."""
    graph = workflow_graph(workflow)
    warnings: list[str] = []
    if graph.start is None:
        warnings.append(f"start {workflow.start!r} is no step: no context can be derived")
    for route in graph.routes:
        if route.source not in graph.steps:
            warnings.append(f"edges[{route.index}] leaves unknown step {route.source!r}")
        if route.target != END and route.target not in graph.steps:
            warnings.append(f"edges[{route.index}] leads to unknown step {route.target!r}")
    for step_id, step in graph.steps.items():
        if isinstance(step, ForeachNode) and all(route.outcome != LOOP_OUTCOME for route in graph.routes_from(step_id)):
            warnings.append(f"foreach {step_id!r} has no edge for outcome {LOOP_OUTCOME!r}: its body is empty")
    warnings += [f"{issue.path}: {issue.message}" for issue in analyze_control_regions(workflow).issues]
    return warnings


class _ContextScopes:
    """The contexts of one workflow, each stack and each loop's item worked out once."""

    def __init__(self, workflow: Workflow) -> None:
        self._graph: WorkflowGraph = workflow_graph(workflow)
        self._input: SchemaDocument = schema_document(workflow.input_schema)
        self._state: SchemaDocument = schema_document(workflow.state_schema)
        self._fields: dict[ForeachOwnerStack, tuple[ContextFieldContract, ...]] = {}
        self._schemas: dict[ForeachOwnerStack, ContextSchema] = {}
        self._items: dict[ForeachOwnerStack, ContextSchema] = {}

    def schema(self, stack: ForeachOwnerStack) -> ContextSchema:
        """The context object inside the innermost loop of the stack."""
        if stack not in self._schemas:
            self._schemas[stack] = _context_object(self.fields(stack))
        return self._schemas[stack]

    def fields(self, stack: ForeachOwnerStack) -> tuple[ContextFieldContract, ...]:
        """The fields of that object, in their documented order."""
        if stack not in self._fields:
            self._fields[stack] = (
                *STANDARD_CONTEXT_FIELDS,
                structured_foreach_contract(
                    {
                        owner: foreach_entry_schema(owner, self._item(stack[: depth + 1]))
                        for depth, owner in enumerate(stack)
                    }
                ),
                *self._loop_fields(stack),
            )
        return self._fields[stack]

    def _loop_fields(self, stack: ForeachOwnerStack) -> list[ContextFieldContract]:
        fields: list[ContextFieldContract] = []
        taken = {*RESERVED_CONTEXT_KEYS, SCOPED_CONTEXT_KEY}
        for depth, owner in enumerate(stack):
            item, alias = self._item(stack[: depth + 1]), self._alias(owner)
            usable = alias is not None and alias not in taken
            if owner == stack[-1]:
                convenience = foreach_context_fields(alias or "", item)
                # A colliding alias is a validation error; here it must not replace the field it collides with.
                fields += convenience if usable else convenience[:-1]
            elif alias is not None and usable:
                fields.append(foreach_alias_field(alias, item))
            if alias is not None:
                taken.add(alias)
        return fields

    def _alias(self, owner: str) -> str | None:
        step = self._graph.steps.get(owner)
        alias = raw(step.as_) if isinstance(step, ForeachNode) else None
        return alias if isinstance(alias, str) and alias else None

    def _item(self, stack: ForeachOwnerStack) -> ContextSchema:
        """The item schema of the last loop of a stack, whose list is read in the context around that loop."""
        if stack not in self._items:
            step = self._graph.steps.get(stack[-1])
            over = source_path(step.over) if isinstance(step, ForeachNode) else None
            self._items[stack] = {} if over is None else item_schema(self._root(over.root, stack[:-1]), over.parts)
        return self._items[stack]

    def _root(self, root: str, around: ForeachOwnerStack) -> SchemaDocument:
        if root == "input":
            return self._input
        return self._state if root == "state" else self.schema(around)


def source_path(value: object) -> GraphSourcePath | None:
    """The value as a path, text parsed; None when it is no readable graph path."""
    if isinstance(value, str):
        try:
            return GraphSourcePath.parse(value)
        except PathResolutionError:
            return None
    return value if isinstance(value, GraphSourcePath) else None


def _context_object(fields: tuple[ContextFieldContract, ...]) -> ContextSchema:
    # The standard contracts are shared by every workflow of the process; what is handed out must not expose them.
    return closed_object(
        {
            field.name: deepcopy(field.schema) if field.name in STANDARD_CONTEXT_FIELD_NAMES else field.schema
            for field in fields
        }
    )
