"""A workflow in, a report out: every mistake with its code, its place and its repair."""

from wf_core.validation.core import validate_workflow
from wf_core.validation.issues import (
    ValidationIssue,
    ValidationIssueCode,
    ValidationReport,
    WorkflowValidationError,
)

__all__ = [
    "ValidationIssue",
    "ValidationIssueCode",
    "ValidationReport",
    "WorkflowValidationError",
    "validate_workflow",
]
