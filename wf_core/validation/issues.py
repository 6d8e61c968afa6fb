"""What is wrong with a workflow, as a list of issues: a stable code, the place, a message, and the repair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar

from wf_core.errors import WfError


class ValidationIssueCode(StrEnum):
    """What kind of mistake an issue is. The values are stable."""

    DUPLICATE_NODE_DEF = "duplicate_node_def"
    DUPLICATE_NODE_ID = "duplicate_node_id"
    UNKNOWN_START = "unknown_start"
    DUPLICATE_EDGE = "duplicate_edge"
    UNKNOWN_EDGE_SOURCE = "unknown_edge_source"
    UNKNOWN_EDGE_DESTINATION = "unknown_edge_destination"
    UNDECLARED_EDGE_OUTCOME = "undeclared_edge_outcome"
    MISSING_OUTCOME_EDGE = "missing_outcome_edge"
    UNDECLARED_WORKFLOW_OUTCOME = "undeclared_workflow_outcome"
    UNKNOWN_NODE_DEF = "unknown_node_def"
    INVALID_NODE_INPUT_FIELD = "invalid_node_input_field"
    INVALID_NODE_OUTPUT_FIELD = "invalid_node_output_field"
    INVALID_SOURCE_PATH = "invalid_source_path"
    INVALID_DESTINATION_PATH = "invalid_destination_path"
    INVALID_WORKFLOW_OUTPUT_FIELD = "invalid_workflow_output_field"
    EMPTY_CONDITION_ARGS = "empty_condition_args"
    INVALID_CONDITION_PATH = "invalid_condition_path"
    INVALID_FOREACH_SOURCE = "invalid_foreach_source"
    INVALID_FOREACH_COLLECT_DESTINATION = "invalid_foreach_collect_destination"
    INVALID_INTERRUPT_SOURCE = "invalid_interrupt_source"
    INVALID_INTERRUPT_DESTINATION = "invalid_interrupt_destination"
    UNREACHABLE_NODE = "unreachable_node"
    FOREACH_REGION_CONFLICT = "foreach_region_conflict"
    INVALID_FOREACH_RETURN = "invalid_foreach_return"
    INVALID_FOREACH_TERMINAL = "invalid_foreach_terminal"
    EMPTY_FOREACH_BODY = "empty_foreach_body"
    FOREACH_BODY_NO_RETURN = "foreach_body_no_return"
    NESTING_TOO_DEEP = "nesting_too_deep"
    INVALID_CONTEXT_PATH = "invalid_context_path"
    FOREACH_CONTEXT_ALIAS_CONFLICT = "foreach_context_alias_conflict"
    UNKNOWN_FORMAT = "unknown_format"
    MALFORMED_MODEL = "malformed_model"


_REPAIRS: dict[ValidationIssueCode, str] = {
    ValidationIssueCode.DUPLICATE_NODE_DEF: "rename one of the node definitions, or delete the copy",
    ValidationIssueCode.DUPLICATE_NODE_ID: "give the step an id that no other step has and that is no reserved token",
    ValidationIssueCode.UNKNOWN_START: "set start to the id of a step",
    ValidationIssueCode.DUPLICATE_EDGE: "keep one edge for this step and outcome",
    ValidationIssueCode.UNKNOWN_EDGE_SOURCE: "let the edge start at the id of a step, or delete it",
    ValidationIssueCode.UNKNOWN_EDGE_DESTINATION: "let the edge lead to the id of a step or to __end__",
    ValidationIssueCode.UNDECLARED_EDGE_OUTCOME: "use an outcome that the step declares, or delete the edge",
    ValidationIssueCode.MISSING_OUTCOME_EDGE: "add an edge for each of the missing outcomes",
    ValidationIssueCode.UNDECLARED_WORKFLOW_OUTCOME: "add the outcome to the workflow's outcomes, or end with another",
    ValidationIssueCode.UNKNOWN_NODE_DEF: "add a node definition of this name, or name an existing one",
    ValidationIssueCode.INVALID_NODE_INPUT_FIELD: "bind each declared input field once, or '.' alone",
    ValidationIssueCode.INVALID_NODE_OUTPUT_FIELD: "read a declared output field, or '.' for the whole output",
    ValidationIssueCode.INVALID_SOURCE_PATH: "read a field that the input or state schema declares",
    ValidationIssueCode.INVALID_DESTINATION_PATH: "write each declared state field once, as state.<field>",
    ValidationIssueCode.INVALID_WORKFLOW_OUTPUT_FIELD: "bind each declared output field once, by path or by value",
    ValidationIssueCode.EMPTY_CONDITION_ARGS: "give the operator at least one argument",
    ValidationIssueCode.INVALID_CONDITION_PATH: "compare a field that the input or state schema declares",
    ValidationIssueCode.INVALID_FOREACH_SOURCE: "iterate over a field that the input or state schema declares",
    ValidationIssueCode.INVALID_FOREACH_COLLECT_DESTINATION: "set collect_to to a declared state field of type array",
    ValidationIssueCode.INVALID_INTERRUPT_SOURCE: "bind each request field once, from a declared input or state field",
    ValidationIssueCode.INVALID_INTERRUPT_DESTINATION: "write each declared state field once, as state.<field>",
    ValidationIssueCode.UNREACHABLE_NODE: "route an outcome to the step, or delete it",
    ValidationIssueCode.FOREACH_REGION_CONFLICT: "use a step of its own in each place; a step belongs to one loop body",
    ValidationIssueCode.INVALID_FOREACH_RETURN: "return to the innermost foreach; its done edge leads further out",
    ValidationIssueCode.INVALID_FOREACH_TERMINAL: "end the item by an edge to its foreach; end after that one's done",
    ValidationIssueCode.EMPTY_FOREACH_BODY: "let loop lead to the first step of the body",
    ValidationIssueCode.FOREACH_BODY_NO_RETURN: "add an edge from the end of the body back to the foreach",
    ValidationIssueCode.NESTING_TOO_DEEP: "loop over one flat list instead of lists in lists",
    ValidationIssueCode.INVALID_CONTEXT_PATH: "read a context field that is declared at this step",
    ValidationIssueCode.FOREACH_CONTEXT_ALIAS_CONFLICT: "choose an alias that is free at this place",
    ValidationIssueCode.UNKNOWN_FORMAT: "use a format of JSON Schema Draft 2020-12, or a pattern",
    ValidationIssueCode.MALFORMED_MODEL: "set the attribute to a value of its declared type",
}
"""The repair that fits every issue of a code; a check that knows a better one says so."""


@dataclass(frozen=True, slots=True)
class ValidationIssue:
    """One mistake: ``path`` names the place, ``hint`` what to change in one line."""

    code: ValidationIssueCode
    path: str
    message: str
    hint: str = ""

    def __post_init__(self) -> None:
        if not self.hint:
            object.__setattr__(self, "hint", _REPAIRS[self.code])

    def as_dict(self) -> dict[str, str]:
        """The wire form: ``code``, ``path``, ``message``, ``hint``."""
        return {"code": self.code.value, "path": self.path, "message": self.message, "hint": self.hint}


class WorkflowValidationError(WfError, ValueError):
    """A workflow has mistakes; ``issues`` lists them all."""

    default_code: ClassVar[str] = "workflow_invalid"

    def __init__(self, issues: Sequence[ValidationIssue]) -> None:
        lines = [f"- [{issue.code.value}] {issue.path}: {issue.message}" for issue in issues]
        super().__init__(
            "\n".join(["workflow validation failed:", *lines]),
            path=issues[0].path,
            hint=issues[0].hint,
        )
        self.issues = tuple(issues)


def _no_issues() -> list[ValidationIssue]:
    return []


@dataclass(slots=True)
class ValidationReport:
    """All the mistakes found in one workflow, in the order of the checks."""

    errors: list[ValidationIssue] = field(default_factory=_no_issues)

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.errors

    def add(self, code: ValidationIssueCode, path: str, message: str, hint: str | None = None) -> None:
        """Note one mistake; without a hint the usual repair for its code is given."""
        self.errors.append(ValidationIssue(code, path, message, hint or ""))

    def raise_for_errors(self) -> None:
        """Raise ``WorkflowValidationError``, a ``ValueError``, when anything was found."""
        if self.errors:
            raise WorkflowValidationError(self.errors)
