"""Reducers: named pure functions that merge a present and an incoming value of one state path."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from wf_core.errors import WfError, WorkflowExecutionError
from wf_core.models.reducers import ReducerRef, ReducerSpec, SiblingWritePolicy
from wf_core.paths import StatePath
from wf_core.schema_checks import SchemaCheck

ReducerFunction = Callable[..., Any]
"""``(current, incoming)``, or ``(current, incoming, config)`` where the definition accepts a config. Must be pure."""


@dataclass(frozen=True)
class ReducerDefinition:
    """A reducer's contract and its function. An absent and a null present value are both handed in as None."""

    spec: ReducerSpec
    fn: ReducerFunction
    accepts_config: bool = False


def _replace(current: Any, incoming: Any) -> Any:
    return incoming


def _append(current: Any, incoming: Any) -> Any:
    more: list[Any] = incoming if isinstance(incoming, list) else [incoming]
    if current is None:
        return list(more)
    if not isinstance(current, list):
        raise ValueError(f"append needs a list to append to, found {type(current).__name__}")
    return current + more


def _merge_object(current: Any, incoming: Any) -> Any:
    if not isinstance(incoming, dict) or not (current is None or isinstance(current, dict)):
        raise ValueError("merge_object needs objects on both sides")
    merged: dict[str, Any] = {**(current or {}), **incoming}
    return merged


def _add(current: Any, incoming: Any) -> Any:
    return incoming if current is None else current + incoming


def _set_union(current: Any, incoming: Any) -> Any:
    if not isinstance(incoming, list) or not (current is None or isinstance(current, list)):
        raise ValueError("set_union needs lists on both sides")
    union: list[Any] = []
    both: list[Any] = [*(current or []), *incoming]
    for value in both:
        if value not in union:
            union.append(value)
    return union


def _max(current: Any, incoming: Any) -> Any:
    return incoming if current is None or incoming > current else current


def _builtin(name: str, fn: ReducerFunction, description: str, policy: SiblingWritePolicy) -> ReducerDefinition:
    return ReducerDefinition(ReducerSpec(name=name, description=description, sibling_write_policy=policy), fn)


DEFAULT_REDUCER: Final = ReducerRef(name="wf.std.replace")

DEFAULT_REDUCER_DEFINITIONS: Final[Mapping[str, ReducerDefinition]] = {
    d.spec.name: d
    for d in (
        _builtin("wf.std.replace", _replace, "The incoming value.", SiblingWritePolicy.EXCLUSIVE),
        _builtin("wf.std.append", _append, "Appends a value, or each value of a list.", SiblingWritePolicy.MERGEABLE),
        _builtin(
            "wf.std.merge_object", _merge_object, "Merges keys; the incoming ones win.", SiblingWritePolicy.MERGEABLE
        ),
        _builtin("wf.std.add", _add, "The sum.", SiblingWritePolicy.MERGEABLE),
        _builtin("wf.std.set_union", _set_union, "Values in order of first appearance.", SiblingWritePolicy.MERGEABLE),
        _builtin("wf.std.max", _max, "The larger value.", SiblingWritePolicy.MERGEABLE),
    )
}


def reducer_table(injected: Mapping[str, ReducerDefinition] | None) -> Mapping[str, ReducerDefinition]:
    """The built-in reducers with the injected ones over them."""
    return {**DEFAULT_REDUCER_DEFINITIONS, **(injected or {})}


def reducer_definition(reducers: Mapping[str, ReducerDefinition], reducer: ReducerRef) -> ReducerDefinition:
    """The definition a reference names; an error when there is none."""
    definition = reducers.get(reducer.name)
    if definition is None:
        raise WorkflowExecutionError(
            f"unknown reducer {reducer.name!r}",
            code="unknown_reducer",
            hint=f"register it, or use one of: {', '.join(sorted(reducers))}",
        )
    return definition


def apply_reducer(
    *,
    reducer: ReducerRef,
    current_value: Any,
    incoming_value: Any,
    destination_path: StatePath,
    reducers: Mapping[str, ReducerDefinition] | None = None,
) -> Any:
    """The merged value. The config is checked before the function runs; whatever the function raises names the path."""
    definition = reducer_definition(reducers if reducers is not None else DEFAULT_REDUCER_DEFINITIONS, reducer)
    if definition.fn is _replace:
        return incoming_value
    arguments: list[Any] = [current_value, incoming_value]
    if reducer.config or definition.accepts_config:
        SchemaCheck(definition.spec.config_schema).check(reducer.config, f"reducer config for '{reducer.name}'")
    if definition.accepts_config:
        arguments.append(dict(reducer.config))
    try:
        return definition.fn(*arguments)
    except WfError:
        raise
    except Exception as error:
        raise WorkflowExecutionError(
            f"reducer {reducer.name!r} failed on {destination_path}: {error}",
            code="reducer_failed",
            path=str(destination_path),
        ) from error
