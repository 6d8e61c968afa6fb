"""Bindings: what flows into a payload, and what flows from one into the state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias, TypeVar, cast

from pydantic import BaseModel, TypeAdapter

from wf_core.authoring.expressions import PathExpr, SourceLike, literal, source_path
from wf_core.models.input_bindings import (
    InputBinding,
    InputExpression,
    InputExpressionBinding,
    InputPathBinding,
    InputValueBinding,
    StepInputBinding,
    validate_input_expression_limits,
)
from wf_core.models.steps import OutputBinding
from wf_core.paths import GraphSourcePath, LocalPath, PathResolutionError, StatePath, parse_toml_path_segments

LocalLike: TypeAlias = LocalPath | str | Mapping[str, Any]
"""A place in a payload in any form: an object, a text such as ``order.total`` or ``.``, or ``{"root", "parts"}``."""

StateTarget: TypeAlias = StatePath | GraphSourcePath | PathExpr | str | Mapping[str, Any]
"""A state field in any form; the root of a text may be left out, so ``receipts`` is ``state.receipts``."""

StepInputs: TypeAlias = Iterable[StepInputBinding | Mapping[str, Any]]
"""Input bindings, or mappings of their shape whose values may be path objects."""

WorkflowOutputs: TypeAlias = Iterable[InputBinding | Mapping[str, Any]]
StepOutputs: TypeAlias = Iterable[OutputBinding | Mapping[str, Any]]

_STEP_INPUT: Final = TypeAdapter[StepInputBinding](StepInputBinding)
_WORKFLOW_OUTPUT: Final = TypeAdapter[InputBinding](InputBinding)
_LOCAL_PATH: Final = TypeAdapter(LocalPath)
_STATE_PATH: Final = TypeAdapter(StatePath)

Converted = TypeVar("Converted")


def input_from(path: SourceLike, target: LocalLike) -> InputPathBinding:
    """Deliver the value at a graph path."""
    return InputPathBinding(target=local_path(target), path=source_path(path))


def input_value(target: LocalLike, value: object) -> InputValueBinding:
    """Deliver a literal; None is one."""
    return InputValueBinding(target=local_path(target), value=literal(value))


def input_expression(target: LocalLike, expression: InputExpression | Mapping[str, Any]) -> InputExpressionBinding:
    """Deliver the value of an expression, given as a model or as JSON with path objects allowed inside."""
    return InputExpressionBinding(
        target=local_path(target), expression=cast("InputExpression", _expression(expression))
    )


def output_to(source: LocalLike, target: StateTarget) -> OutputBinding:
    """Write a part of a payload to a state field."""
    return OutputBinding(source=local_path(source), target=state_target(target))


# --- What the builder uses --------------------------------------------------------------------------------------------


def step_inputs(bindings: StepInputs) -> list[StepInputBinding]:
    """Bindings of a step's input or of an interrupt's request."""
    return [_input(binding, _STEP_INPUT) for binding in _listed(bindings)]


def workflow_outputs(bindings: WorkflowOutputs) -> list[InputBinding]:
    """Bindings of the workflow's output: paths and values."""
    return [_input(binding, _WORKFLOW_OUTPUT) for binding in _listed(bindings)]


def step_outputs(bindings: StepOutputs) -> list[OutputBinding]:
    """Bindings of a step's output or of an interrupt's answer."""
    return [_output(binding) for binding in _listed(bindings)]


def local_path(value: LocalLike) -> LocalPath:
    """The place in a payload behind any of its forms; ``TypeError`` for anything else."""
    if isinstance(value, LocalPath):
        return value
    if isinstance(value, str):
        return LocalPath.parse(value)
    if isinstance(value, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers are not all typed
        return _LOCAL_PATH.validate_python(value)
    raise TypeError(f"unsupported path value {value!r}: a place in a payload is a text such as 'order.total'")


def state_target(value: StateTarget) -> StatePath:
    """The state field behind any of its forms; ``ValueError`` for a path that is not below ``state``."""
    if isinstance(value, PathExpr):
        value = value.path
    if isinstance(value, StatePath):
        return value
    if isinstance(value, GraphSourcePath):
        if value.root != "state":
            raise ValueError(f"{str(value)!r} cannot be written: a target is a field below state")
        return StatePath(value.parts)
    if isinstance(value, str):
        return _state_target_text(value)
    if isinstance(value, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers are not all typed
        return _STATE_PATH.validate_python(value)
    raise TypeError(f"unsupported path value {value!r}: a target is a field below state")


def _state_target_text(text: str) -> StatePath:
    root, *below = parse_toml_path_segments(text)
    if root == "state":
        return StatePath(tuple(below))
    if root in ("input", "context") and below:
        raise PathResolutionError(
            f"{text!r} cannot be written: a target is a field below state",
            hint=f"write 'state.{text}' for a state field of that name",
        )
    return StatePath((root, *below))


def _listed(bindings: Iterable[Any]) -> Iterable[Any]:
    if isinstance(bindings, str | Mapping | BaseModel):
        raise TypeError(f"unsupported bindings {bindings!r}: pass a list of bindings")
    return bindings


def _input(binding: object, adapter: TypeAdapter[Converted]) -> Converted:
    if isinstance(binding, InputPathBinding | InputValueBinding | InputExpressionBinding):
        return adapter.validate_python(binding)
    fields = _fields(binding)
    if "target" in fields:
        fields["target"] = local_path(fields["target"])
    if "path" in fields:
        fields["path"] = source_path(fields["path"])
    if "value" in fields:
        fields["value"] = literal(fields["value"])
    if "expression" in fields:
        fields["expression"] = _expression(fields["expression"])
    return adapter.validate_python(fields)


def _output(binding: object) -> OutputBinding:
    if isinstance(binding, OutputBinding):
        return binding
    fields = _fields(binding)
    if "source" in fields:
        fields["source"] = local_path(fields["source"])
    if "target" in fields:
        fields["target"] = state_target(fields["target"])
    return OutputBinding.model_validate(fields)


def _fields(binding: object) -> dict[str, Any]:
    if isinstance(binding, Mapping):
        return dict(cast("Mapping[str, Any]", binding))
    raise TypeError(f"unsupported binding {binding!r}: use input_from, input_value, output_to, or a mapping")


def _expression(expression: object) -> object:
    """The JSON of an expression with its path objects made plain; models are passed through."""
    validate_input_expression_limits(expression)  # first, so that the walk below is bounded
    return _with_plain_paths(expression)


def _with_plain_paths(expression: object) -> object:
    if isinstance(expression, BaseModel):
        return expression
    fields = _fields(expression)
    kind, items, entries = fields.get("kind"), fields.get("items"), fields.get("fields")
    if kind == "path" and "path" in fields:
        fields["path"] = source_path(fields["path"])
    elif kind == "array" and isinstance(items, list):
        fields["items"] = [_with_plain_paths(item) for item in cast("list[object]", items)]
    elif kind == "object" and isinstance(entries, dict):
        held = cast("dict[str, object]", entries)
        fields["fields"] = {name: _with_plain_paths(entry) for name, entry in held.items()}
    return fields
