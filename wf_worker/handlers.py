"""The registry of handlers, and the only place where user code runs."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from celery.exceptions import WorkerShutdown, WorkerTerminate

from wf_core.authoring import NodeSpec
from wf_core.authoring.standard import RUNTIME_ERROR
from wf_core.errors import WorkflowExecutionError, WorkflowStepLimitExceeded
from wf_core.models.json_values import validate_strict_json_value
from wf_core.models.results import NodeResult
from wf_core.run_state import RuntimeContext
from wf_core.runtime.ops.nodes import coerce_node_result
from wf_worker.errors import PayloadTooLarge, SettingsInvalid, StoreError
from wf_worker.store.encoding import to_bytes

Handler = Callable[[dict[str, Any], RuntimeContext], Any]


class HandlerExited(WorkflowExecutionError):
    """A handler raised something that is meant to end a process or a coroutine."""

    default_code = "handler_exited"


class HandlerFailed(WorkflowExecutionError):
    """A handler raised an error of this engine's own, from a call of its own."""

    default_code = "handler_failed"


@dataclass(frozen=True, slots=True)
class Registered:
    """A handler and how it is called."""

    name: str
    fn: Handler
    is_async: bool


class HandlerRegistry:
    """Handlers by registered name. Nothing stored is ever imported: what is not registered cannot run."""

    def __init__(self, *, payload_bytes: int = 1024 * 1024) -> None:
        self._handlers: dict[str, Registered] = {}
        self._payload_bytes = payload_bytes
        self._queues: set[str] = set()
        self._loop = _LoopThread()
        # What the builder puts into workflows by itself is served everywhere.
        self.add(RUNTIME_ERROR)

    def add(self, *specs: NodeSpec[Any, Any]) -> None:
        """Registers typed capabilities under their names."""
        for spec in specs:
            self.add_handler(
                spec.name, spec.to_async_registry_handler() if spec.is_async else spec.to_registry_handler()
            )
            self._queues.update(() if spec.queue is None else (spec.queue,))

    def add_handler(self, name: str, fn: Handler) -> None:
        """Registers a plain handler, ``(payload, context) -> result``, sync or async."""
        if name in self._handlers:
            raise SettingsInvalid(
                f"two handlers are named {name!r}", code="duplicate_handler", hint="give one another name"
            )
        self._handlers[name] = Registered(name, fn, inspect.iscoroutinefunction(fn))

    def update(self, handlers: Mapping[str, Handler]) -> None:
        """Registers several plain handlers."""
        for name, fn in handlers.items():
            self.add_handler(name, fn)

    @property
    def names(self) -> tuple[str, ...]:
        """The names that this worker was given to serve."""
        return tuple(sorted(self._handlers.keys() - {RUNTIME_ERROR.name}))

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues that its typed capabilities name."""
        return tuple(sorted(self._queues))

    def serves(self, name: str) -> bool:
        """Whether a handler of that name is registered."""
        return name in self._handlers

    def check_input(self, name: str, payload: dict[str, Any]) -> None:
        """Refuses an input that is larger than the limit (``payload_too_large``)."""
        size = len(to_bytes(payload))
        if size > self._payload_bytes:
            raise PayloadTooLarge(
                f"the input of {name!r} has {size} bytes, the limit is {self._payload_bytes}", path="input"
            )

    def call(self, name: str, payload: dict[str, Any], context: RuntimeContext) -> Any:
        """Calls a handler, and raises whatever it raised.

        Sync handlers run in this thread, async ones on the process's one event loop.
        """
        handler = self._handlers[name]
        try:
            raw = handler.fn(payload, context)
            return self._loop.run(_awaited(raw)) if inspect.isawaitable(raw) else raw
        except (WorkerShutdown, WorkerTerminate):
            raise  # the worker itself is told to end
        except (StoreError, WorkflowStepLimitExceeded) as error:
            # A handler may be a client of this very engine: its troubles there are not troubles of this run's store.
            raise HandlerFailed(f"{type(error).__name__}: {error}") from error
        except Exception:
            raise
        except BaseException as error:
            # sys.exit() in a handler ends the step, not the worker: else each attempt would cost a process.
            raise _exited(error) from error

    def result_of(self, name: str, raw: Any) -> NodeResult:
        """A handler's answer as a result in strict JSON of allowed size.

        Raises ``result_not_supported``, ``result_not_json`` or ``payload_too_large`` for one that cannot be kept.
        """
        result = coerce_node_result(raw)
        try:
            output = validate_strict_json_value(result.output)
        except ValueError as error:
            raise WorkflowExecutionError(
                f"the output of {name!r} is not JSON: {error}",
                code="result_not_json",
                hint="return only null, bool, int, finite float, str, list, dict",
            ) from error
        size = len(to_bytes(output))
        if size > self._payload_bytes:
            raise PayloadTooLarge(
                f"the output of {name!r} has {size} bytes, the limit is {self._payload_bytes}", path="output"
            )
        if not isinstance(output, dict):
            raise WorkflowExecutionError(f"the output of {name!r} is no object", code="result_not_supported")
        return NodeResult(outcome=result.outcome, output=output)


async def _awaited(raw: Any) -> Any:
    try:
        return await raw
    except (SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError) as error:
        # Left to asyncio, it would end the event loop of all handlers and never reach whoever waits for this one.
        raise _exited(error) from error


def _exited(error: BaseException) -> HandlerExited:
    return HandlerExited(
        f"the handler raised {type(error).__name__}: {error}",
        hint="raise an exception of your own, or return an outcome; a handler cannot end its worker",
    )


class _LoopThread:
    """One event loop for all async handlers of a process, begun when it is first needed (never before a fork)."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="wf-handlers", daemon=True).start()
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()


def build_handlers(specs: Iterable[NodeSpec[Any, Any]], *, payload_bytes: int = 1024 * 1024) -> HandlerRegistry:
    """A registry of typed capabilities."""
    registry = HandlerRegistry(payload_bytes=payload_bytes)
    registry.add(*specs)
    return registry
