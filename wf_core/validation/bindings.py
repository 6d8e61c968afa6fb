"""Bindings of every kind: what they read is declared, what they write is declared, and no two write the same place."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import pairwise
from typing import Final, TypeAlias, TypeVar, cast

from wf_core.analysis.context_scopes import source_path
from wf_core.analysis.graph import WorkflowGraph, raw, workflow_graph
from wf_core.models.input_bindings import (
    MAX_INPUT_EXPRESSION_DEPTH,
    MAX_INPUT_EXPRESSION_NODES,
    ArrayExpression,
    InputExpressionBinding,
    InputPathBinding,
    InputValueBinding,
    LiteralExpression,
    ObjectExpression,
    PathExpression,
)
from wf_core.models.steps import OutputBinding
from wf_core.models.workflow import Workflow
from wf_core.paths import GraphSourcePath, LocalPath, PathResolutionError, StatePath
from wf_core.schema_navigation import SchemaDocument, property_names, schema_document
from wf_core.validation.issues import ValidationIssueCode, ValidationReport

InputBindingKinds: TypeAlias = tuple[type[InputPathBinding | InputValueBinding | InputExpressionBinding], ...]

STEP_INPUT_BINDINGS: Final[InputBindingKinds] = (InputPathBinding, InputValueBinding, InputExpressionBinding)
WORKFLOW_OUTPUT_BINDINGS: Final[InputBindingKinds] = (InputPathBinding, InputValueBinding)

_LISTED_NAMES: Final = 12


@dataclass(frozen=True, slots=True)
class Facts:
    """What the checks of one workflow look up: its graph, and the names that its schemas declare."""

    workflow: Workflow
    graph: WorkflowGraph
    state_document: SchemaDocument
    input_names: frozenset[str]
    state_names: frozenset[str]
    output_names: frozenset[str]
    report: ValidationReport

    @classmethod
    def of(cls, workflow: Workflow, report: ValidationReport) -> Facts:
        """Look everything up once."""
        state = schema_document(workflow.state_schema)
        return cls(
            workflow=workflow,
            graph=workflow_graph(workflow),
            state_document=state,
            input_names=property_names(workflow.input_schema),
            state_names=property_names(state),
            output_names=property_names(workflow.output_schema),
            report=report,
        )


@dataclass(frozen=True, slots=True)
class PathUse:
    """A graph path that a model reads, as it stands there: a path value, or whatever it was overwritten with."""

    location: str
    value: object


@dataclass(frozen=True, slots=True)
class Malformed:
    """A place that holds no model of the kinds that belong there."""

    location: str
    message: str


@dataclass(frozen=True, slots=True)
class InputRules:
    """How one list of input bindings is judged. ``fields`` None: any target will do."""

    kinds: InputBindingKinds
    fields: Collection[str] | None
    target_code: ValidationIssueCode
    source_code: ValidationIssueCode
    unsupported_code: ValidationIssueCode
    overlap: str
    target_suffix: str = ".target"


@dataclass(frozen=True, slots=True)
class OutputRules:
    """How one list of output bindings is judged. ``fields`` None: any source will do."""

    fields: Collection[str] | None
    source_code: ValidationIssueCode
    target_code: ValidationIssueCode
    source_suffix: str = ".source"
    target_suffix: str = ".target"


def step_input_rules(fields: Collection[str]) -> InputRules:
    """The rules for the input of a node or a subgraph."""
    return InputRules(
        kinds=STEP_INPUT_BINDINGS,
        fields=fields,
        target_code=ValidationIssueCode.INVALID_NODE_INPUT_FIELD,
        source_code=ValidationIssueCode.INVALID_SOURCE_PATH,
        unsupported_code=ValidationIssueCode.MALFORMED_MODEL,
        overlap="overlapping node-local input paths",
    )


def step_output_rules(fields: Collection[str]) -> OutputRules:
    """The rules for the output of a node or a subgraph."""
    return OutputRules(
        fields=fields,
        source_code=ValidationIssueCode.INVALID_NODE_OUTPUT_FIELD,
        target_code=ValidationIssueCode.INVALID_DESTINATION_PATH,
    )


INTERRUPT_REQUEST_RULES: Final = InputRules(
    kinds=STEP_INPUT_BINDINGS,
    fields=None,
    target_code=ValidationIssueCode.INVALID_INTERRUPT_SOURCE,
    source_code=ValidationIssueCode.INVALID_INTERRUPT_SOURCE,
    unsupported_code=ValidationIssueCode.MALFORMED_MODEL,
    overlap="overlapping request paths",
    target_suffix="",
)

INTERRUPT_RESUME_RULES: Final = OutputRules(
    fields=None,
    source_code=ValidationIssueCode.INVALID_INTERRUPT_DESTINATION,
    target_code=ValidationIssueCode.INVALID_INTERRUPT_DESTINATION,
    source_suffix="",
    target_suffix="",
)


def workflow_output_rules(fields: Collection[str]) -> InputRules:
    """The rules for the output of the workflow."""
    return InputRules(
        kinds=WORKFLOW_OUTPUT_BINDINGS,
        fields=fields,
        target_code=ValidationIssueCode.INVALID_WORKFLOW_OUTPUT_FIELD,
        source_code=ValidationIssueCode.INVALID_SOURCE_PATH,
        unsupported_code=ValidationIssueCode.INVALID_WORKFLOW_OUTPUT_FIELD,
        overlap="overlapping workflow output paths",
    )


def check_inputs(bindings: object, location: str, rules: InputRules, facts: Facts) -> None:
    """Check a list of bindings that build a payload out of graph values."""
    report = facts.report
    targets: list[LocalPath] = []
    for index, binding in enumerate(checked_list(bindings, location, report)):
        at = f"{location}[{index}]"
        if not isinstance(binding, rules.kinds):
            report.add(rules.unsupported_code, at, f"unsupported binding {shown(binding)}")
            continue
        target = local_path(binding.target)
        if target is None:
            report.add(
                rules.target_code, at + rules.target_suffix, f"target {shown(binding.target)} is no payload-local path"
            )
        else:
            targets.append(target)
            check_field(target, rules.fields, rules.target_code, at + rules.target_suffix, report)
        for use in binding_path_uses(binding, at):
            check_source(use, rules.source_code, facts)
    report_overlap(targets, rules.target_code, location, rules.overlap, report)


def check_outputs(bindings: object, location: str, rules: OutputRules, facts: Facts) -> None:
    """Check a list of bindings that write parts of a payload to state."""
    report = facts.report
    targets: list[StatePath] = []
    for index, binding in enumerate(checked_list(bindings, location, report)):
        at = f"{location}[{index}]"
        if not isinstance(binding, OutputBinding):
            report.add(ValidationIssueCode.MALFORMED_MODEL, at, f"unsupported binding {shown(binding)}")
            continue
        source = local_path(binding.source)
        if source is None:
            message = f"source {shown(binding.source)} is no payload-local path"
            report.add(rules.source_code, at + rules.source_suffix, message)
        else:
            check_field(source, rules.fields, rules.source_code, at + rules.source_suffix, report)
        target = state_path(binding.target)
        if target is None:
            message = f"target {shown(binding.target)} is no state path"
            report.add(rules.target_code, at + rules.target_suffix, message)
        else:
            targets.append(target)
            check_state_root(target, rules.target_code, at + rules.target_suffix, facts)
    report_overlap(targets, rules.target_code, location, "overlapping state destination paths", report)


def check_source(use: PathUse | Malformed, code: ValidationIssueCode, facts: Facts) -> None:
    """A path under ``input`` or ``state`` starts at a declared field; those under ``context`` are checked elsewhere."""
    if isinstance(use, Malformed):
        facts.report.add(ValidationIssueCode.MALFORMED_MODEL, use.location, use.message)
        return
    path = source_path(use.value)
    if path is None:
        facts.report.add(code, use.location, f"{shown(use.value)} is no path under input, state or context")
        return
    if path.root == "context" or not path.parts:
        return
    names = facts.input_names if path.root == "input" else facts.state_names
    if path.parts[0] not in names:
        facts.report.add(
            code,
            use.location,
            f"path {str(path)!r} starts at undeclared {path.root} field {path.parts[0]!r}",
            hint_for_name(path.parts[0], names, f"{path.root} field"),
        )


def check_field(
    path: LocalPath,
    fields: Collection[str] | None,
    code: ValidationIssueCode,
    location: str,
    report: ValidationReport,
) -> None:
    """The path is the whole payload, or starts at one of the declared fields."""
    if fields is not None and path.parts and path.parts[0] not in fields:
        report.add(
            code,
            location,
            f"field {path.parts[0]!r} of path {str(path)!r} is not declared",
            hint_for_name(path.parts[0], fields, "field"),
        )


def check_state_root(path: StatePath, code: ValidationIssueCode, location: str, facts: Facts) -> None:
    """The path starts at a declared state field."""
    if path.parts[0] not in facts.state_names:
        facts.report.add(
            code,
            location,
            f"path {str(path)!r} starts at undeclared state field {path.parts[0]!r}",
            hint_for_name(path.parts[0], facts.state_names, "state field"),
        )


def binding_path_uses(binding: object, at: str) -> Iterator[PathUse | Malformed]:
    """Every path that an input binding reads, each at its place in the model."""
    if isinstance(binding, InputPathBinding):
        yield PathUse(f"{at}.path", binding.path)
    elif isinstance(binding, InputExpressionBinding):
        yield from _expression_path_uses(binding.expression, f"{at}.expression")


def _expression_path_uses(expression: object, location: str) -> Iterator[PathUse | Malformed]:
    # A stack of our own, and limits: an expression that was changed after parsing may even contain itself.
    pending: list[tuple[object, str, int]] = [(expression, location, 1)]
    visited = 0
    while pending:
        current, at, depth = pending.pop()
        visited += 1
        if depth > MAX_INPUT_EXPRESSION_DEPTH or visited > MAX_INPUT_EXPRESSION_NODES:
            yield Malformed(location, "the expression exceeds the limits of depth or node count")
            return
        if isinstance(current, PathExpression):
            yield PathUse(f"{at}.path", current.path)
        elif isinstance(current, ArrayExpression):
            items = _as_list(current.items)
            if items is None:
                yield Malformed(f"{at}.items", f"expected a list, found {shown(current.items)}")
            for index, item in reversed(list(enumerate(items or ()))):
                pending.append((item, f"{at}.items[{index}]", depth + 1))
        elif isinstance(current, ObjectExpression):
            fields = raw(current.fields)
            if not isinstance(fields, dict):
                yield Malformed(f"{at}.fields", f"expected an object, found {shown(fields)}")
                continue
            for name, field in reversed(cast("dict[object, object]", fields).items()):
                pending.append((field, f"{at}.fields.{name}", depth + 1))
        elif not isinstance(current, LiteralExpression):
            yield Malformed(at, f"expected an expression, found {shown(current)}")


_AnyPath = TypeVar("_AnyPath", LocalPath, StatePath)


def report_overlap(
    targets: Sequence[_AnyPath], code: ValidationIssueCode, location: str, what: str, report: ValidationReport
) -> None:
    """Report the first two targets of which one holds the other, if there are such."""
    # In the order of their segments a path stands right before the first path below it.
    ordered = sorted(targets, key=lambda path: path.parts)
    for outer, inner in pairwise(ordered):
        if inner.parts[: len(outer.parts)] == outer.parts:
            report.add(code, location, f"{what}: {str(outer)!r} and {str(inner)!r}")
            return


def checked_list(value: object, location: str, report: ValidationReport) -> list[object]:
    """The value as a list; anything else is reported and counts as empty."""
    found = _as_list(value)
    if found is None:
        report.add(ValidationIssueCode.MALFORMED_MODEL, location, f"expected a list, found {shown(value)}")
    return found or []


def local_path(value: object) -> LocalPath | None:
    """The value as a payload-local path, text parsed; None when it is none."""
    if isinstance(value, str):
        try:
            return LocalPath.parse(value)
        except PathResolutionError:
            return None
    return value if isinstance(value, LocalPath) else None


def state_path(value: object) -> StatePath | None:
    """The value as a state path, text parsed; None when it is none."""
    if isinstance(value, (str, GraphSourcePath)):
        try:
            return StatePath.parse(str(value))
        except PathResolutionError:
            return None
    return value if isinstance(value, StatePath) else None


def hint_for_name(wanted: str, known: Collection[str], what: str) -> str:
    """What to write in place of an unknown name, in one line."""
    close = get_close_matches(wanted, known, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    if not known:
        return f"declare {wanted!r} in the schema; it declares no {what} yet"
    shown = sorted(known)[:_LISTED_NAMES]
    more = ", …" if len(known) > _LISTED_NAMES else ""
    return f"declare {wanted!r} in the schema, or use a declared {what}: {', '.join(map(repr, shown))}{more}"


def shown(value: object) -> str:
    """A value as messages show it: text and numbers as they are, anything else by its type."""
    return repr(value) if isinstance(value, (str, int, float, type(None))) else type(value).__name__


def _as_list(value: object) -> list[object] | None:
    return cast("list[object]", value) if isinstance(value, list) else None
