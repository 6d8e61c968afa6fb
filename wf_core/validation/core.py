"""All checks of a workflow, in the order in which their issues are reported."""

from __future__ import annotations

from wf_core.analysis.context_scopes import context_schemas_by_node
from wf_core.analysis.control_regions import ControlRegionAnalysis, analyze_control_regions
from wf_core.analysis.graph import steps_of
from wf_core.models.schemas import NodeDef
from wf_core.models.steps import ForeachNode, SubgraphNode
from wf_core.models.workflow import Workflow
from wf_core.run_limits import MAX_NESTING
from wf_core.validation.bindings import Facts, check_inputs, checked_list, shown, workflow_output_rules
from wf_core.validation.context_paths import validate_context_paths
from wf_core.validation.edges import check_edges, check_missing_edges, check_start
from wf_core.validation.formats import check_formats
from wf_core.validation.issues import ValidationIssue, ValidationIssueCode, ValidationReport
from wf_core.validation.steps import check_aliases, check_steps

__all__ = ["ValidationIssue", "ValidationIssueCode", "ValidationReport", "validate_workflow"]


def validate_workflow(workflow: Workflow) -> ValidationReport:
    """Everything that is wrong with a workflow. Nothing is raised for an author's mistake."""
    report = ValidationReport()
    facts = Facts.of(workflow, report)
    regions = analyze_control_regions(workflow)
    schemas = context_schemas_by_node(workflow, control_regions=regions)

    _check_node_definitions(facts)
    check_inputs(workflow.output, "output", workflow_output_rules(facts.output_names), facts)
    check_steps(facts)
    check_start(facts)
    check_edges(facts)
    check_missing_edges(facts)
    _report_regions(regions, report)
    _check_nesting(workflow, regions, report)
    check_aliases(workflow, regions, report)
    validate_context_paths(workflow, context_schemas=schemas, report=report, control_regions=regions)
    check_formats(workflow, report)
    return report


def _check_node_definitions(facts: Facts) -> None:
    seen: set[str] = set()
    for index, definition in enumerate(checked_list(facts.workflow.node_defs, "node_defs", facts.report)):
        location = f"node_defs[{index}]"
        name: object = definition.name if isinstance(definition, NodeDef) else None
        if not isinstance(name, str):
            message = f"expected a node definition with a name, found {shown(definition)}"
            facts.report.add(ValidationIssueCode.MALFORMED_MODEL, location, message)
            continue
        if name in seen:
            message = f"node definition {name!r} is given more than once"
            facts.report.add(ValidationIssueCode.DUPLICATE_NODE_DEF, f"{location}.name", message)
        seen.add(name)


def _report_regions(regions: ControlRegionAnalysis, report: ValidationReport) -> None:
    for issue in regions.issues:
        report.add(ValidationIssueCode(issue.kind.value), issue.path, issue.message)


def _check_nesting(workflow: Workflow, regions: ControlRegionAnalysis, report: ValidationReport) -> None:
    for index, step in steps_of(workflow):
        around = regions.owner_stack_by_node.get(step.id, ())
        if isinstance(step, ForeachNode | SubgraphNode) and len(around) >= MAX_NESTING:
            message = f"step {step.id!r} is inside {len(around)} loops; {MAX_NESTING} may be inside one another"
            report.add(ValidationIssueCode.NESTING_TOO_DEEP, f"nodes[{index}]", message)
