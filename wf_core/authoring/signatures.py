"""The contract that a function's signature states: its payload model, its output model, whether it takes a context."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeGuard, get_args, get_origin, get_type_hints

from pydantic import BaseModel

from wf_core.authoring.returns import NodeReturn, Nothing
from wf_core.run_state import RuntimeContext

_POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True, slots=True)
class Contract:
    """What a function takes and gives."""

    input_model: type[BaseModel]
    output_model: type[BaseModel]
    accepts_context: bool


def contract_of(
    fn: Callable[..., Any], *, input_model: type[BaseModel] | None = None, output_model: type[BaseModel] | None = None
) -> Contract:
    """The contract of ``(payload)`` or ``(payload, ctx)``; a given model takes the place of its annotation.

    Raises ``TypeError`` naming the function. With both models given no annotation is looked at.
    """
    parameters = _positional_parameters(fn)
    accepts_context = len(parameters) == 2
    if input_model is None or output_model is None:
        hints = _hints(fn)
        if accepts_context and hints.get(parameters[1]) is not RuntimeContext:
            raise _refused(fn, f"the second parameter {parameters[1]!r} must be annotated RuntimeContext")
        input_model = input_model or _payload_model(fn, parameters[0], hints)
        output_model = output_model or _returned_model(fn, hints)
    return Contract(input_model, output_model, accepts_context)


def is_coroutine_function(fn: Callable[..., Any]) -> bool:
    """Whether a call gives a coroutine, for functions and for objects that are called like one."""
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(fn, "__call__", None))  # noqa: B004  # the method itself is asked, not whether it exists


def label_of(fn: Callable[..., Any]) -> str:
    """The name of a function in messages."""
    return getattr(fn, "__qualname__", None) or repr(fn)


def _positional_parameters(fn: Callable[..., Any]) -> list[str]:
    parameters = inspect.signature(fn).parameters
    if any(parameter.kind not in _POSITIONAL for parameter in parameters.values()):
        raise _refused(fn, "keyword-only and variadic parameters are not supported; take (payload) or (payload, ctx)")
    if len(parameters) not in (1, 2):
        raise _refused(fn, f"it takes {len(parameters)} parameters; take (payload) or (payload, ctx)")
    return list(parameters)


def _hints(fn: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(fn if inspect.isroutine(fn) else fn.__call__)
    except NameError as error:
        raise _refused(
            fn, f"an annotation cannot be resolved ({error}); define it in the module, or pass both models"
        ) from error


def _payload_model(fn: Callable[..., Any], parameter: str, hints: dict[str, Any]) -> type[BaseModel]:
    hint = hints.get(parameter)
    if _is_model(hint):
        return hint
    raise _refused(fn, f"its payload {parameter!r} must be annotated with a pydantic model, found {_shown(hint)}")


def _returned_model(fn: Callable[..., Any], hints: dict[str, Any]) -> type[BaseModel]:
    hint = hints.get("return")
    if hint in (type(None), NodeReturn):
        return Nothing
    model = get_args(hint)[0] if get_origin(hint) is NodeReturn else hint
    if _is_model(model):
        return model
    raise _refused(
        fn, f"its return must be annotated Model, NodeReturn[Model], NodeReturn or None, found {_shown(hint)}"
    )


def _is_model(hint: object) -> TypeGuard[type[BaseModel]]:
    return isinstance(hint, type) and issubclass(hint, BaseModel) and hint is not BaseModel


def _shown(hint: object) -> str:
    return "none" if hint is None else repr(hint)


def _refused(fn: Callable[..., Any], reason: str) -> TypeError:
    return TypeError(f"{label_of(fn)} cannot become a capability: {reason}")
