"""Input bindings resolved into one payload."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from wf_core.errors import WorkflowExecutionError
from wf_core.local_paths import LocalPathError, set_local_value
from wf_core.models.input_bindings import (
    ArrayExpression,
    InputExpression,
    InputExpressionBinding,
    InputPathBinding,
    InputValueBinding,
    LiteralExpression,
    ObjectExpression,
    PathExpression,
    StepInputBinding,
)
from wf_core.models.json_values import validate_strict_json_value
from wf_core.paths import GraphSourcePath, PathResolutionError, resolve_graph_path
from wf_core.run_state import Json


class Sources:
    """The three readable roots at one step: the workflow's input, the visible state, the graph context.

    ``workflow_input`` and ``context`` are asked for only when a path reads them, so that a slice need not hold them.
    """

    def __init__(
        self,
        *,
        workflow_input: Callable[[], Mapping[str, Any]],
        state: Mapping[str, Any],
        context: Callable[[], Mapping[str, Any]],
    ) -> None:
        self.state = state
        self._workflow_input = workflow_input
        self._context = context
        self._known: dict[str, Mapping[str, Any]] = {}

    def _root(self, name: str, load: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
        if name not in self._known:
            self._known[name] = load()
        return self._known[name]

    def read(self, path: GraphSourcePath) -> Json:
        """The value at the path; :class:`PathResolutionError` when any segment is missing."""
        return resolve_graph_path(
            path,
            state=self.state if path.parts or path.root != "state" else dict(self.state),
            workflow_input=self._root("input", self._workflow_input) if path.root == "input" else {},
            context=self._root("context", self._context) if path.root == "context" else {},
        )


def resolve_bindings(bindings: Sequence[StepInputBinding], sources: Sources, *, label: str) -> dict[str, Json]:
    """Resolves bindings in list order into a fresh payload.

    A missing source fails here, before any handler runs; a present null is passed on. ``label`` names the step in
    errors, for example ``node 'charge'``.
    """
    payload: dict[str, Json] = {}
    for binding in bindings:
        where = f"{label} input {binding.target}"
        if isinstance(binding, InputPathBinding):
            value = _read(binding.path, sources, where)
        elif isinstance(binding, InputValueBinding):
            value = copy_json(binding.value)
        else:
            assert isinstance(binding, InputExpressionBinding)
            value = resolve_expression(binding.expression, sources, label=label, location=str(binding.target))
        try:
            set_local_value(payload, binding.target, value)
        except LocalPathError as error:
            raise WorkflowExecutionError(f"{where}: {error}", code="input_binding_failed", path=where) from error
    return payload


def resolve_expression(expression: InputExpression, sources: Sources, *, label: str, location: str) -> Json:
    """The value of an expression. What a path contributes must be strict JSON, since it becomes part of a new value."""
    if isinstance(expression, LiteralExpression):
        return copy_json(expression.value)
    if isinstance(expression, PathExpression):
        where = f"{label} input {location}"
        value = _read(expression.path, sources, where)
        try:
            return validate_strict_json_value(value)
        except ValueError as error:
            raise WorkflowExecutionError(f"{where}: {error}", code="not_json", path=where) from error
    if isinstance(expression, ArrayExpression):
        return [
            resolve_expression(item, sources, label=label, location=f"{location}.items[{i}]")
            for i, item in enumerate(expression.items)
        ]
    assert isinstance(expression, ObjectExpression)
    return {
        name: resolve_expression(item, sources, label=label, location=f"{location}.fields.{name}")
        for name, item in expression.fields.items()
    }


def _read(path: GraphSourcePath, sources: Sources, where: str) -> Json:
    try:
        return sources.read(path)
    except PathResolutionError as error:
        raise WorkflowExecutionError(f"{where}: {error}", code="source_path_missing", path=str(path)) from error


def copy_json(value: Json) -> Json:
    """A deep copy of a JSON value: fresh lists and dicts, shared scalars."""
    if type(value) is dict:
        return {key: copy_json(item) for key, item in cast("dict[str, Any]", value).items()}
    if type(value) is list:
        return [copy_json(item) for item in cast("list[Any]", value)]
    return value
