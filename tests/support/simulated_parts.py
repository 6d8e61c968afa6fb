"""What stands around the code under test in a simulation: time and chance, a broker under Celery's interface, leases
without a thread, and limits so small that a run of a few items meets them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from kombu.exceptions import OperationalError

import wf_api.services.runs as services
import wf_worker.dispatch as dispatch
import wf_worker.patience as patience
import wf_worker.step_runner as step_runner
import wf_worker.store.answers as answers
import wf_worker.store.calls as calls
import wf_worker.store.claims as claims
import wf_worker.store.memory_rules as memory_rules
import wf_worker.store.memory_scripts as memory_scripts
import wf_worker.store.transitions as transitions
import wf_worker.sweeper as sweeper
from tests.support.patching import Patch
from tests.support.tapes import Gate
from wf_core.models.schemas import StateSchema
from wf_core.runtime.kernel import Walk
from wf_worker.handlers import HandlerRegistry
from wf_worker.leases import HeldClaim, LeaseKeeper
from wf_worker.store.claims import ItemCache
from wf_worker.store.protocol import Claim
from wf_worker.store.runs import RunStore

SMALL_SCRIPTS: Mapping[str, int] = {"PAGE": 2, "SCAN": 4, "SMALL_ITEM": 40, "PAGE_BYTES": 150}
"""The scripts' own limits in a simulation, by the names that they have in Lua and in the store in memory."""


def small_limits() -> list[Patch]:
    """Pages, chunks and walks so short that what is done in several calls with thousands of items is so with three."""
    return [
        *(Patch(memory_rules, name, value) for name, value in SMALL_SCRIPTS.items()),
        *(Patch(memory_scripts, name, SMALL_SCRIPTS[name]) for name in ("PAGE", "PAGE_BYTES")),
        Patch(claims, "CHUNK_ITEMS", 2),
        Patch(claims, "CHUNK_BYTES", 64),
        Patch(claims, "RESULT_PAGE", 2),
        Patch(transitions, "INLINE_ITEMS_BYTES", 60),
        Patch(transitions, "INLINE_VALUE", 150),
        Patch(step_runner, "Walk", functools.partial(Walk, hops=3, inline_items=2)),
        Patch(answers, "Walk", functools.partial(Walk, hops=3)),
        Patch(answers, "INLINE_ITEMS", 2),
    ]


def fields_kept() -> Patch:
    """Fields of a schema worked out once: a simulation reads the same few workflows some hundred times."""
    plain, kept = StateSchema.field_index, dict[int, tuple[StateSchema, Any]]()

    def field_index(self: StateSchema) -> Any:
        if id(self) not in kept:
            kept[id(self)] = (self, plain(self))  # with the schema itself, so that no other one gets its id
        return kept[id(self)][1]

    return Patch(StateSchema, "field_index", field_index)


class Outside:
    """Time and chance, as the modules ``time``, ``random`` and ``secrets`` would give them."""

    def __init__(self, gate: Gate, clock: Callable[[], int]) -> None:
        self._gate = gate
        self._clock = clock

    def patches(self) -> list[Patch]:
        """Every place where the code under test asks for them."""
        places = (
            *((step_runner, "random"), (sweeper, "random"), (sweeper, "time"), (calls, "time")),
            *((dispatch, "time"), (calls, "secrets"), (services, "secrets"), (patience, "time")),
        )
        return [Patch(module, name, self) for module, name in places]

    def time(self) -> float:
        """Seconds since the epoch."""
        return self._gate.value("time", self._clock) / 1000

    monotonic = time

    def sleep(self, _seconds: float) -> None:
        """A place to stop at: how long it is slept is for the simulation's clock to say."""
        self._gate.call("sleep", bool)

    def random(self) -> float:
        """From 0 to 1."""
        return self._gate.value("chance", self._gate.rng.random)

    def uniform(self, low: float, high: float) -> float:
        """Between the two."""
        return low + (high - low) * self.random()

    def shuffle(self, items: list[Any]) -> None:
        """In another order."""
        order = self._gate.value("order", lambda: self._gate.rng.sample(range(len(items)), len(items)))
        items[:] = [items[i] for i in order]

    def token_hex(self, size: int = 8) -> str:
        """So many random bytes."""
        return self._gate.value("token", lambda: f"{self._gate.rng.getrandbits(8 * size):0{2 * size}x}")


@dataclass
class Message:
    """One Celery message on its way."""

    queue: str
    kwargs: dict[str, Any]
    headers: dict[str, Any]


@dataclass
class Broker:
    """What was sent and not yet delivered, whatever queue it was sent to; ``down`` while it takes nothing."""

    messages: list[Message] = field(default_factory=list[Message])
    down: bool = False


class SimulatedCelery:
    """As much of a Celery application as a dispatcher and the one task use."""

    channel_errors = (LookupError,)

    def __init__(self, gate: Gate, broker: Broker) -> None:
        self._gate = gate
        self._broker = broker
        self.amqp = SimpleNamespace(producer_pool=SimpleNamespace(acquire=lambda **_: SimpleNamespace(release=bool)))

    def send_task(self, _name: str, *, queue: Any, kwargs: dict[str, Any], headers: dict[str, Any], **_: Any) -> None:
        """Puts a message into its queue."""
        message = Message(queue.name, dict(kwargs), dict(headers))
        self._gate.call("send", lambda: self._send(message))

    def _send(self, message: Message) -> None:
        if self._broker.down:
            raise OperationalError("the simulated broker is down")
        self._broker.messages.append(message)

    def connection_for_write(self) -> SimulatedCelery:
        """A connection; here also its own channel."""
        return self

    channel = connection_for_write

    def __enter__(self) -> SimulatedCelery:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def queue_declare(self, queue: str, **_: Any) -> Any:
        """How many messages of a queue nobody has taken."""
        count = self._gate.call("queue", lambda: sum(m.queue == queue for m in self._broker.messages))
        return SimpleNamespace(message_count=count)

    def task(self, **_: Any) -> Callable[[Any], Any]:
        """The task's function as it is."""
        return lambda function: function


class SimulatedHandlers(HandlerRegistry):
    """A handler's call is a place where a worker may stop, and what it gave is what it gave."""

    def __init__(self, gate: Gate) -> None:
        super().__init__()
        self._gate = gate

    def call(self, name: str, payload: dict[str, Any], context: Any) -> Any:
        return self._gate.call("handler", lambda: super(SimulatedHandlers, self).call(name, payload, context))


class SimulatedLeases(LeaseKeeper):
    """Leases whose renewal is an event of the simulation, not a thread."""

    def __init__(self, store: RunStore, gate: Gate) -> None:
        super().__init__(store)
        self._gate = gate

    @contextmanager
    def keep(self, claim: Claim) -> Generator[HeldClaim]:
        activity = self._gate.current
        assert activity is not None
        held = HeldClaim(claim)
        if activity.held is not None and activity.held.lost.is_set():
            held.lost.set()
        activity.held = held
        yield held


class TapedItems(ItemCache):
    """A process's cache of items. What it gave is on the tape of whoever asked."""

    def __init__(self, gate: Gate) -> None:
        super().__init__()
        self._gate = gate

    def get(self, name: tuple[str, str, str]) -> Any:
        return self._gate.value("cache", lambda: super(TapedItems, self).get(name))


class OncePerPass:
    """Stands for the event that ends a sweeper's thread: one pass, then the end."""

    def __init__(self) -> None:
        self._passed = False

    def wait(self, _seconds: float) -> bool:
        """False the first time."""
        self._passed = not self._passed
        return not self._passed
