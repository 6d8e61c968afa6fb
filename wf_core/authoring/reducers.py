"""Reducers from functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Self, overload

from pydantic import BaseModel

from wf_core.models.reducers import ReducerSpec, SiblingWritePolicy
from wf_core.reducers import ReducerDefinition

_POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True, slots=True)
class AuthoredReducer:
    """A pure function that merges two values, with its contract. Made by :func:`reducer`."""

    fn: Callable[..., Any]
    spec: ReducerSpec
    config_model: type[BaseModel] | None = None

    @property
    def name(self) -> str:
        """The name that state fields refer to."""
        return self.spec.name

    @property
    def definition(self) -> ReducerDefinition:
        """The reducer as the engine takes it."""
        model, fn = self.config_model, self.fn
        if model is None:
            return ReducerDefinition(self.spec, fn)

        def configured(current: Any, incoming: Any, config: dict[str, Any]) -> Any:
            return fn(current, incoming, model.model_validate(config))

        return ReducerDefinition(self.spec, configured, accepts_config=True)

    def __call__(self, current: Any, incoming: Any, *config: Any) -> Any:
        """Call the function itself."""
        return self.fn(current, incoming, *config)


@overload
def reducer(
    fn: Callable[..., Any],
    /,
    *,
    name: str,
    config_model: type[BaseModel] | None = None,
    description: str | None = None,
    sibling_write_policy: SiblingWritePolicy = SiblingWritePolicy.MERGEABLE,
) -> AuthoredReducer: ...
@overload
def reducer(
    fn: None = None,
    /,
    *,
    name: str,
    config_model: type[BaseModel] | None = None,
    description: str | None = None,
    sibling_write_policy: SiblingWritePolicy = SiblingWritePolicy.MERGEABLE,
) -> Callable[[Callable[..., Any]], AuthoredReducer]: ...
def reducer(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    name: str,
    config_model: type[BaseModel] | None = None,
    description: str | None = None,
    sibling_write_policy: SiblingWritePolicy = SiblingWritePolicy.MERGEABLE,
) -> AuthoredReducer | Callable[[Callable[..., Any]], AuthoredReducer]:
    """Make ``(current, incoming)``, or with a config model ``(current, incoming, config)``, a reducer.

    The function must be pure: it may run again on other machines, and it must not change its arguments. A present
    value that is absent or null comes in as None. ``name`` is dotted, such as ``"billing.latest"``.
    """

    def authored(fn: Callable[..., Any]) -> AuthoredReducer:
        _check_arity(fn, name, 2 if config_model is None else 3)
        contract: dict[str, Any] = {
            "name": name,
            "description": description if description is not None else inspect.getdoc(fn) or "",
            "sibling_write_policy": sibling_write_policy,
        }
        if config_model is not None:
            contract["config_schema"] = config_model.model_json_schema()
        return AuthoredReducer(fn, ReducerSpec.model_validate(contract), config_model)

    return authored if fn is None else authored(fn)


@dataclass(frozen=True, slots=True)
class ReducerCatalog:
    """Reducers by name."""

    definitions: dict[str, ReducerDefinition]
    """What the engine takes as ``reducers``."""

    @classmethod
    def from_reducers(cls, *reducers: AuthoredReducer) -> Self:
        """A catalog of reducers; ``ValueError`` for a repeated name."""
        definitions: dict[str, ReducerDefinition] = {}
        for authored in reducers:
            if authored.name in definitions:
                raise ValueError(f"two reducers are named {authored.name!r}: give one of them another name")
            definitions[authored.name] = authored.definition
        return cls(definitions)

    @property
    def specs(self) -> dict[str, ReducerSpec]:
        """The contracts alone."""
        return {name: definition.spec for name, definition in self.definitions.items()}


def _check_arity(fn: Callable[..., Any], name: str, wanted: int) -> None:
    parameters = inspect.signature(fn).parameters.values()
    if len(parameters) != wanted or any(parameter.kind not in _POSITIONAL for parameter in parameters):
        shape = "(current, incoming)" if wanted == 2 else "(current, incoming, config)"
        raise TypeError(f"reducer {name!r} must be a function of {shape}")
