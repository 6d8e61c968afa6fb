"""Context paths: each one names a field that the schema of its own program location declares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from wf_core.analysis.context_scopes import root_context_schema, source_path
from wf_core.analysis.control_regions import ControlRegionAnalysis, analyze_control_regions
from wf_core.analysis.graph import AnyStep, as_list, steps_of
from wf_core.context_contracts import FOREACH_CONTEXT_KEY, ContextSchema
from wf_core.models.steps import ConditionNode, ForeachNode, InterruptNode, NodeUse, SubgraphNode, WaitNode
from wf_core.models.workflow import Workflow
from wf_core.paths import GraphSourcePath
from wf_core.schema_navigation import declares_path, property_names
from wf_core.validation.bindings import Malformed, PathUse, binding_path_uses
from wf_core.validation.issues import ValidationIssueCode, ValidationReport
from wf_core.validation.steps import ConditionPath, condition_parts

WORKFLOW_OUTPUT_CONSUMER: Final = "workflow_output"


def validate_context_paths(
    workflow: Workflow,
    *,
    context_schemas: Mapping[str, ContextSchema],
    report: ValidationReport,
    control_regions: ControlRegionAnalysis | None = None,
) -> None:
    """Check every path under ``context`` that a step or the workflow's output reads.

    ``context_schemas`` holds a schema for each sound step. A step without one has no context that could be relied on,
    so all of its context paths are refused.
    """
    checker = _Checker(workflow, report, control_regions)
    for index, step in steps_of(workflow):
        schema = context_schemas.get(step.id)
        for use in _step_path_uses(step, f"nodes[{index}]"):
            checker.check(use, step.id, schema)
    root = root_context_schema()
    for index, binding in enumerate(as_list(workflow.output)):
        for use in binding_path_uses(binding, f"output[{index}]"):
            checker.check(use, WORKFLOW_OUTPUT_CONSUMER, root)


def _step_path_uses(step: AnyStep, location: str) -> Iterator[PathUse | Malformed]:
    """Every graph path that a step reads. A new field that can hold one belongs here too."""
    if isinstance(step, NodeUse | SubgraphNode):
        yield from _binding_list_uses(step.input, f"{location}.input")
    elif isinstance(step, InterruptNode):
        yield from _binding_list_uses(step.request, f"{location}.request")
    elif isinstance(step, ConditionNode):
        for part in condition_parts(step.check, f"{location}.check"):
            if isinstance(part, ConditionPath):
                yield PathUse(part.location, part.value)
    elif isinstance(step, ForeachNode):
        yield PathUse(f"{location}.over", step.over)
    elif isinstance(step, WaitNode):
        yield PathUse(f"{location}.until", step.until)


def _binding_list_uses(bindings: object, location: str) -> Iterator[PathUse | Malformed]:
    for index, binding in enumerate(as_list(bindings)):
        yield from binding_path_uses(binding, f"{location}[{index}]")


class _Checker:
    """Walks paths through schemas; works out the regions only to explain a refusal."""

    def __init__(self, workflow: Workflow, report: ValidationReport, regions: ControlRegionAnalysis | None) -> None:
        self._workflow = workflow
        self._report = report
        self._regions = regions

    def check(self, use: PathUse | Malformed, consumer: str, schema: ContextSchema | None) -> None:
        """Report the path unless every segment is a declared property. Other roots have checks of their own."""
        path = source_path(use.value) if isinstance(use, PathUse) else None
        if path is None or path.root != "context":
            return
        if schema is None or not declares_path(schema, path.parts):
            reason, hint = self._explain(path, consumer, schema)
            self._report.add(
                ValidationIssueCode.INVALID_CONTEXT_PATH,
                use.location,
                f"path {str(path)!r} cannot be read at {consumer!r}: {reason}",
                hint,
            )

    def _explain(self, path: GraphSourcePath, consumer: str, schema: ContextSchema | None) -> tuple[str, str | None]:
        if schema is None:
            return (
                "the step is not reached, or not in one place only, so its context is not known",
                "repair the routes to the step first",
            )
        name = next(iter(path.parts), "")
        if name == FOREACH_CONTEXT_KEY and len(path.parts) > 1:
            return self._explain_entry(path, consumer, schema)
        if not declares_path(schema, (name,)):
            fields = ", ".join(sorted(property_names(schema)))
            return f"there is no context field {name!r}", f"read one of: {fields}"
        return self._explain_depth(path, schema), "bind the whole declared value and let a handler take it apart"

    def _explain_entry(self, path: GraphSourcePath, consumer: str, schema: ContextSchema) -> tuple[str, str | None]:
        wanted = path.parts[1]
        if declares_path(schema, path.parts[:2]):
            return self._explain_depth(
                path, schema
            ), "read .item or .index of the entry, or a declared field of the item"
        if not any(step.id == wanted and isinstance(step, ForeachNode) for _, step in steps_of(self._workflow)):
            return (
                f"the workflow has no foreach {wanted!r}",
                "name a foreach of this workflow; a child workflow receives its caller's items as input",
            )
        active = self._active(consumer)
        shown = ", ".join(map(repr, active)) or "no foreach"
        return f"foreach {wanted!r} is not active there", f"read it inside its body; active there: {shown}"

    def _explain_depth(self, path: GraphSourcePath, schema: ContextSchema) -> str:
        known = len(path.parts)
        while not declares_path(schema, path.parts[:known]):
            known -= 1
        prefix = GraphSourcePath("context", path.parts[:known])
        return f"{str(prefix)!r} declares no field {path.parts[known]!r}"

    def _active(self, consumer: str) -> tuple[str, ...]:
        if self._regions is None:
            self._regions = analyze_control_regions(self._workflow)
        return self._regions.owner_stack_by_node.get(consumer, ())
