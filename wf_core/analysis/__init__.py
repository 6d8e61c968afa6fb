"""Facts about a workflow that need no run: its control regions, and the context that each step sees."""

from wf_core.analysis.context_scopes import (
    ContextAvailability,
    ContextFieldAvailability,
    context_analysis_warnings,
    context_fields_by_node,
    context_schema_for_node,
    context_schemas_by_node,
    root_context_schema,
)
from wf_core.analysis.control_regions import (
    ControlRegionAnalysis,
    ControlRegionIssue,
    ControlRegionIssueKind,
    ForeachOwnerStack,
    analyze_control_regions,
)

__all__ = [
    "ContextAvailability",
    "ContextFieldAvailability",
    "ControlRegionAnalysis",
    "ControlRegionIssue",
    "ControlRegionIssueKind",
    "ForeachOwnerStack",
    "analyze_control_regions",
    "context_analysis_warnings",
    "context_fields_by_node",
    "context_schema_for_node",
    "context_schemas_by_node",
    "root_context_schema",
]
