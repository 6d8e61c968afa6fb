"""Capabilities: typed functions with a name and outcomes, and the handlers that the engine calls."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, TypeVar, cast, overload

from pydantic import BaseModel

from wf_core.authoring.inventory import NodeSpecInventory
from wf_core.authoring.outcomes import checked_outcomes
from wf_core.authoring.outputs import plain_output
from wf_core.authoring.returns import NodeReturn, Nothing
from wf_core.authoring.signatures import contract_of, is_coroutine_function, label_of
from wf_core.errors import WorkflowExecutionError
from wf_core.models.queues import check_queue
from wf_core.models.retries import RetryPolicy
from wf_core.models.schemas import NodeDef, SchemaRef
from wf_core.run_state import RuntimeContext

SyncHandler = Callable[[dict[str, Any], RuntimeContext], dict[str, Any]]
"""Takes the checked payload, gives ``{"outcome", "output"}``."""

AsyncHandler = Callable[[dict[str, Any], RuntimeContext], Awaitable[dict[str, Any]]]

DEFAULT_OUTCOMES: Final = ("ok",)

InputT = TypeVar("InputT", bound=BaseModel)
OutputT = TypeVar("OutputT", bound=BaseModel)
Built = TypeVar("Built")


@dataclass(frozen=True)
class NodeSpec(Generic[InputT, OutputT]):
    """A capability: a function, its contract, and how a workflow calls it. Made by :func:`node`."""

    name: str
    input_model: type[InputT]
    output_model: type[OutputT]
    outcomes: tuple[str, ...]
    """What a call may choose; the first is that of a function that returns a bare output."""

    fn: Callable[..., Any]
    description: str | None = None
    is_async: bool = False
    accepts_context: bool = False
    input_schema_contract: Mapping[str, Any] | None = None
    """The published input schema, where it is not that of the model."""

    output_schema_contract: Mapping[str, Any] | None = None
    """The published output schema, where it is not that of the model."""

    retry: int | RetryPolicy | None = None
    """Repetitions for uses that set none."""

    timeout_seconds: int | None = None
    """Time for one call, for uses that set none."""

    total_timeout_seconds: int | None = None
    """Time for all calls of one visit together."""

    queue_timeout_seconds: int | None = None
    """Time from being ready to being taken up."""

    heartbeat_seconds: int | None = None
    """Time between two signs of life of the function."""

    queue: str | None = None
    """Where its steps wait for workers that serve it; None: the queue of the installation."""

    def __post_init__(self) -> None:
        if not self.name.strip():
            raise ValueError(f"the capability of {label_of(self.fn)} needs a name that is not blank")
        if not self.is_async and is_coroutine_function(self.fn):
            raise TypeError(f"{label_of(self.fn)} is a coroutine function and cannot become a synchronous capability")
        if self.queue is not None:
            check_queue(self.queue)
        object.__setattr__(self, "outcomes", tuple(checked_outcomes(self.outcomes, f"capability {self.name!r}")))

    def __call__(self, payload: InputT, ctx: RuntimeContext | None = None) -> Any:
        """Call the function itself; a coroutine function gives its coroutine."""
        if not self.accepts_context:
            return self.fn(payload)
        if ctx is None:
            raise TypeError(f"capability {self.name!r} wants a context: call it with (payload, ctx)")
        return self.fn(payload, ctx)

    @property
    def input_schema(self) -> dict[str, Any]:
        """The published input schema, a document of its own."""
        return _published(self.input_schema_contract, self.input_model)

    @property
    def output_schema(self) -> dict[str, Any]:
        """The published output schema, a document of its own."""
        return _published(self.output_schema_contract, self.output_model)

    def to_node_def(self) -> NodeDef:
        """The contract as a workflow carries it."""
        return NodeDef(
            name=self.name,
            input_schema=SchemaRef.model_validate(self.input_schema),
            output_schema=SchemaRef.model_validate(self.output_schema),
            outcomes=list(self.outcomes),
            retry=self.retry,
            timeout_seconds=self.timeout_seconds,
            total_timeout_seconds=self.total_timeout_seconds,
            queue_timeout_seconds=self.queue_timeout_seconds,
            heartbeat_seconds=self.heartbeat_seconds,
            queue=self.queue,
        )

    def to_registry_handler(self) -> SyncHandler:
        """The handler of a synchronous capability; ``TypeError`` for an asynchronous one.

        A handler raises ``TypeError`` for a return value of another kind than promised, and code
        ``outcome_undeclared`` for an outcome that is not declared.
        """
        if self.is_async:
            raise TypeError(f"capability {self.name!r} is asynchronous: use an async registry")
        validate, call, answer = self.input_model.model_validate, self.fn, self._answers()
        if self.accepts_context:
            return lambda payload, ctx: answer(call(validate(payload), ctx))
        return lambda payload, ctx: answer(call(validate(payload)))

    def to_async_registry_handler(self) -> AsyncHandler:
        """The handler for an event loop, of either kind; a synchronous function runs on the loop itself."""
        validate, call, answer = self.input_model.model_validate, self.fn, self._answers()
        accepts_context, is_async = self.accepts_context, self.is_async

        async def handler(payload: dict[str, Any], ctx: RuntimeContext) -> dict[str, Any]:
            returned = call(validate(payload), ctx) if accepts_context else call(validate(payload))
            return answer(await returned if is_async else returned)

        return handler

    def to_inventory(self) -> NodeSpecInventory:
        """The description for listings."""
        return NodeSpecInventory(
            name=self.name,
            description=self.description,
            outcomes=self.outcomes,
            input_schema=self.input_schema,
            output_schema=self.output_schema,
            is_async=self.is_async,
            accepts_context=self.accepts_context,
        )

    def _answers(self) -> Callable[[Any], dict[str, Any]]:
        """The conversion of return values; everything it looks up is looked up here, once."""
        name, model, outcomes, default = self.name, self.output_model, self.outcomes, self.outcomes[0]
        may_be_none = model is Nothing

        def answer(returned: Any) -> dict[str, Any]:
            chosen: str = default
            output: Any = returned
            if isinstance(returned, NodeReturn):
                result = cast("NodeReturn[Any]", returned)
                chosen, output = result.outcome, result.output
                if chosen not in outcomes:
                    raise WorkflowExecutionError(
                        f"capability {name!r} returned the undeclared outcome {chosen!r}",
                        code="outcome_undeclared",
                        hint=f"return one of: {', '.join(outcomes)}; or declare it in the capability's outcomes",
                    )
            if isinstance(output, model):
                return {"outcome": chosen, "output": plain_output(name, output)}
            if output is None and may_be_none:
                return {"outcome": chosen, "output": {}}
            raise TypeError(f"capability {name!r} must return {model.__name__}, not {type(output).__name__}")

        return answer


@overload
def node(
    fn: Callable[..., Any],
    /,
    *,
    name: str | None = None,
    input_model: type[BaseModel] | None = None,
    output_model: type[BaseModel] | None = None,
    outcomes: Sequence[str] | None = None,
    description: str | None = None,
    is_async: bool | None = None,
    retry: int | RetryPolicy | None = None,
    timeout_seconds: int | None = None,
    total_timeout_seconds: int | None = None,
    queue_timeout_seconds: int | None = None,
    heartbeat_seconds: int | None = None,
    queue: str | None = None,
) -> NodeSpec[Any, Any]: ...
@overload
def node(
    fn: None = None,
    /,
    *,
    name: str | None = None,
    input_model: type[BaseModel] | None = None,
    output_model: type[BaseModel] | None = None,
    outcomes: Sequence[str] | None = None,
    description: str | None = None,
    is_async: bool | None = None,
    retry: int | RetryPolicy | None = None,
    timeout_seconds: int | None = None,
    total_timeout_seconds: int | None = None,
    queue_timeout_seconds: int | None = None,
    heartbeat_seconds: int | None = None,
    queue: str | None = None,
) -> Callable[[Callable[..., Any]], NodeSpec[Any, Any]]: ...
def node(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    input_model: type[BaseModel] | None = None,
    output_model: type[BaseModel] | None = None,
    outcomes: Sequence[str] | None = None,
    description: str | None = None,
    is_async: bool | None = None,
    retry: int | RetryPolicy | None = None,
    timeout_seconds: int | None = None,
    total_timeout_seconds: int | None = None,
    queue_timeout_seconds: int | None = None,
    heartbeat_seconds: int | None = None,
    queue: str | None = None,
) -> NodeSpec[Any, Any] | Callable[[Callable[..., Any]], NodeSpec[Any, Any]]:
    """Make a function a capability; used bare, called with options, or on a capability for a changed copy.

    The function takes ``(payload)`` or ``(payload, ctx: RuntimeContext)``. What is not given is read off it: models
    from the annotations, name and description from name and docstring, one outcome ``ok``. Raises ``TypeError``
    naming the function when its signature says too little, ``ValueError`` for empty, repeated or blank outcomes.
    """
    given = {
        "name": name,
        "input_model": input_model,
        "output_model": output_model,
        "outcomes": outcomes,
        "description": description,
        "is_async": is_async,
        "retry": retry,
        "timeout_seconds": timeout_seconds,
        "total_timeout_seconds": total_timeout_seconds,
        "queue_timeout_seconds": queue_timeout_seconds,
        "heartbeat_seconds": heartbeat_seconds,
        "queue": queue,
    }
    options: dict[str, Any] = {key: value for key, value in given.items() if value is not None}

    def specified(fn: Callable[..., Any]) -> NodeSpec[Any, Any]:
        if isinstance(fn, NodeSpec):
            return replace(cast("NodeSpec[Any, Any]", fn), **options)
        return _spec_of(fn, options)

    return specified if fn is None else specified(fn)


def build_registry(*specs: NodeSpec[Any, Any]) -> dict[str, SyncHandler]:
    """Handlers by capability name; ``TypeError`` for an asynchronous one, ``ValueError`` for a repeated name."""
    return _by_name(specs, NodeSpec[Any, Any].to_registry_handler)


def build_async_registry(*specs: NodeSpec[Any, Any]) -> dict[str, AsyncHandler]:
    """Handlers for an event loop by capability name; ``ValueError`` for a repeated name."""
    return _by_name(specs, NodeSpec[Any, Any].to_async_registry_handler)


def _spec_of(fn: Callable[..., Any], options: dict[str, Any]) -> NodeSpec[Any, Any]:
    contract = contract_of(fn, input_model=options.get("input_model"), output_model=options.get("output_model"))
    name = options.get("name") or getattr(fn, "__name__", None)
    if name is None:
        raise TypeError(f"{label_of(fn)} has no name of its own: pass name")
    docstring = inspect.getdoc(fn) if inspect.isroutine(fn) else None
    read: dict[str, Any] = {
        "name": name,
        "input_model": contract.input_model,
        "output_model": contract.output_model,
        "outcomes": DEFAULT_OUTCOMES,
        "description": docstring,
        "is_async": is_coroutine_function(fn),
    }
    return NodeSpec(fn=fn, accepts_context=contract.accepts_context, **{**read, **options})


def _published(contract: Mapping[str, Any] | None, model: type[BaseModel]) -> dict[str, Any]:
    return deepcopy(dict(contract)) if contract is not None else model.model_json_schema()


def _by_name(specs: Iterable[NodeSpec[Any, Any]], build: Callable[[NodeSpec[Any, Any]], Built]) -> dict[str, Built]:
    handlers: dict[str, Built] = {}
    for spec in specs:
        if spec.name in handlers:
            raise ValueError(f"two capabilities are named {spec.name!r}: give one of them another name")
        handlers[spec.name] = build(spec)
    return handlers
