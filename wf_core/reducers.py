"""Reducers: named pure functions that merge a present and an incoming value of one state path."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import Any, Final, Protocol, cast

from wf_core.errors import WfError, WorkflowExecutionError
from wf_core.models.json_values import validate_strict_json_value
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

    @cached_property
    def config_check(self) -> SchemaCheck:
        """The schema of the config, compiled."""
        return SchemaCheck(self.spec.config_schema)


_NEEDS_OBJECTS: Final = "merge_object needs objects on both sides"
_NEEDS_LISTS: Final = "set_union needs lists on both sides"


def _replace(current: Any, incoming: Any) -> Any:
    return incoming


def _append(current: Any, incoming: Any) -> Any:
    more = cast("list[Any]", incoming) if isinstance(incoming, list) else [incoming]
    if current is None:
        return list(more)
    if not isinstance(current, list):
        raise ValueError(f"append needs a list to append to, found {type(current).__name__}")
    return cast("list[Any]", current) + more


def _merge_object(current: Any, incoming: Any) -> Any:
    if not isinstance(incoming, dict) or not (current is None or isinstance(current, dict)):
        raise ValueError(_NEEDS_OBJECTS)
    merged: dict[str, Any] = {**(current or {}), **incoming}
    return merged


def _add(current: Any, incoming: Any) -> Any:
    return incoming if current is None else current + incoming


def _set_union(current: Any, incoming: Any) -> Any:
    if not isinstance(incoming, list) or not (current is None or isinstance(current, list)):
        raise ValueError(_NEEDS_LISTS)
    union = _GrowingUnion([])
    union.take([*cast("list[Any]", current or []), *cast("list[Any]", incoming)])
    return union.value


def _max(current: Any, incoming: Any) -> Any:
    return incoming if current is None or incoming > current else current


class Growing(Protocol):
    """A merged value that takes more in place. It makes its own copy first, so nothing else can see it grow."""

    value: Any

    def take(self, incoming: Any) -> None:
        """What the reducer does with one more incoming value; raises what the reducer raises."""
        ...


class _GrowingList:
    def __init__(self, merged: list[Any]) -> None:
        self.value = list(merged)

    def take(self, incoming: Any) -> None:
        self.value.extend(cast("list[Any]", incoming) if isinstance(incoming, list) else [incoming])


class _GrowingObject:
    def __init__(self, merged: dict[str, Any]) -> None:
        self.value = dict(merged)

    def take(self, incoming: Any) -> None:
        if not isinstance(incoming, dict):
            raise ValueError(_NEEDS_OBJECTS)
        self.value.update(cast("dict[str, Any]", incoming))


class _GrowingUnion:
    """Remembers what it holds by hash, except for lists and objects, which have none."""

    def __init__(self, merged: list[Any]) -> None:
        self.value: list[Any] = []
        self._scalars: set[Any] = set()
        self._others: list[Any] = []
        self.take(merged)

    def take(self, incoming: Any) -> None:
        if not isinstance(incoming, list):
            raise ValueError(_NEEDS_LISTS)
        for value in cast("list[Any]", incoming):
            if isinstance(value, list | dict):
                if value in self._others:
                    continue
                self._others.append(value)
            elif value in self._scalars:
                continue
            else:
                self._scalars.add(value)
            self.value.append(value)


GROWING: Final[Mapping[ReducerFunction, Callable[[Any], Growing]]] = {
    _append: _GrowingList,
    _merge_object: _GrowingObject,
    _set_union: _GrowingUnion,
}
"""The built-in reducers whose value grows, by their function: how to go on from a merged value without copying it."""


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


_BUILT_IN: Final = frozenset(definition.fn for definition in DEFAULT_REDUCER_DEFINITIONS.values())


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
        definition.config_check.check(reducer.config, f"reducer config for '{reducer.name}'")
    if definition.accepts_config:
        arguments.append(dict(reducer.config))
    with reducer_faults(reducer, destination_path):
        merged = definition.fn(*arguments)
        if isinstance(merged, float) and not isfinite(merged):
            raise ValueError(f"the result is {merged}, which is not a finite number")
        # The built-in ones make JSON of JSON; of others it is asked, since what is merged here is stored.
        return merged if definition.fn in _BUILT_IN else validate_strict_json_value(merged)


@contextmanager
def reducer_faults(reducer: ReducerRef, destination_path: StatePath) -> Generator[None]:
    """Whatever a reducer raises, said with its name and the path."""
    try:
        yield
    except WfError:
        raise
    except Exception as error:
        raise WorkflowExecutionError(
            f"reducer {reducer.name!r} failed on {destination_path}: {error}",
            code="reducer_failed",
            path=str(destination_path),
        ) from error
