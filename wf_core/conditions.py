"""Conditions evaluated against the readable roots of a step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wf_core.errors import WorkflowExecutionError
from wf_core.expressions import Sources
from wf_core.models.conditions import BinaryCondition, Condition, ExistsCondition, NotCondition, Operand, PathOperand
from wf_core.paths import GraphSourcePath, PathResolutionError


def eval_condition(
    condition: Condition, state: Mapping[str, Any], workflow_input: Mapping[str, Any], context: Mapping[str, Any]
) -> bool:
    """The truth of a condition. A comparison with a missing path raises, ``exists`` does not; a present null exists."""
    return evaluate(condition, Sources(workflow_input=lambda: workflow_input, state=state, context=lambda: context))


def safe_resolve_path(
    path: GraphSourcePath, *, state: Mapping[str, Any], workflow_input: Mapping[str, Any], context: Mapping[str, Any]
) -> Any:
    """The value at the path, or :class:`WorkflowExecutionError` naming it."""
    return _read(path, Sources(workflow_input=lambda: workflow_input, state=state, context=lambda: context))


def evaluate(condition: Condition, sources: Sources) -> bool:
    """Like :func:`eval_condition`, over sources that are read when a path asks for them.

    ``and`` and ``or`` stop at the first argument that decides, so ``exists`` can guard a comparison.
    """
    if isinstance(condition, ExistsCondition):
        try:
            sources.read(condition.path)
        except PathResolutionError:
            return False
        return True
    if isinstance(condition, NotCondition):
        return not evaluate(condition.arg, sources)
    if isinstance(condition, BinaryCondition):
        return _compare(condition, sources)
    if condition.op == "and":
        return all(evaluate(argument, sources) for argument in condition.args)
    return any(evaluate(argument, sources) for argument in condition.args)


def _compare(condition: BinaryCondition, sources: Sources) -> bool:
    left, right = _operand(condition.left, sources), _operand(condition.right, sources)
    try:
        match condition.op:
            case "eq":
                return bool(left == right)
            case "ne":
                return bool(left != right)
            case "gt":
                return bool(left > right)
            case "ge":
                return bool(left >= right)
            case "lt":
                return bool(left < right)
            case "le":
                return bool(left <= right)
    except TypeError as error:
        raise WorkflowExecutionError(
            f"cannot compare {type(left).__name__} with {type(right).__name__} by {condition.op!r}",
            code="not_comparable",
        ) from error


def _operand(operand: Operand, sources: Sources) -> Any:
    return _read(operand.path, sources) if isinstance(operand, PathOperand) else operand.value


def _read(path: GraphSourcePath, sources: Sources) -> Any:
    try:
        return sources.read(path)
    except PathResolutionError as error:
        raise WorkflowExecutionError(
            f"condition reads a missing path: {error}", code="source_path_missing", path=str(path)
        ) from error
