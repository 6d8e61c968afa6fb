"""Ready frames to Celery messages.

A message only says "look at this frame": the store is the truth. It may be lost, doubled, delayed or reordered, so
sending one is never part of what makes a step right, and failing to send one is repaired by the sweeper.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, Final, cast

from celery import Celery
from kombu import Queue
from kombu.exceptions import OperationalError

from wf_worker.errors import BrokerUnavailable
from wf_worker.queues import declare, other_type, queue_name
from wf_worker.settings import Settings
from wf_worker.store.protocol import Ready

TASK_NAME: Final = "wf.step"
"""The one Celery task, stable for ever."""

STORE_HEADER: Final = "wf_store"
SENT_HEADER: Final = "wf_sent_ms"


class Dispatcher:
    """Publishes messages over one held producer. Safe for threads."""

    def __init__(self, app: Celery, settings: Settings, store_id: Callable[[], str]) -> None:
        self._app: Any = app
        self._settings = settings
        self._queues: dict[str, Queue] = {}
        self._store_id = store_id
        self._lock = threading.Lock()
        self._producer: Any = None
        self._refusals: tuple[type[Exception], ...] = tuple(self._app.connection_for_write().channel_errors)

    def publish(self, ready: Iterable[Ready]) -> None:
        """Sends one message for each frame. Raises :class:`BrokerUnavailable` at the first
        that cannot be sent; those not sent are found again by the sweeper."""
        frames = list(ready)
        if not frames:
            return
        with self._lock:
            try:
                for frame in frames:
                    self._send(frame)
            except (OperationalError, OSError, *self._refusals) as error:
                self._drop_producer()
                fault = other_type(self._settings, error)
                if fault is not None:
                    raise BrokerUnavailable(fault.message, code=fault.code, hint=fault.hint) from error
                raise BrokerUnavailable(
                    f"the broker cannot be reached: {error}",
                    hint="check WF_BROKER_URL and the server",
                ) from error

    def _send(self, frame: Ready) -> None:
        if self._producer is None:
            self._producer = self._app.amqp.producer_pool.acquire(block=True)
        self._app.send_task(
            TASK_NAME,
            kwargs={
                "run": frame.incarnation,
                "frame": frame.frame,
                "revision": frame.revision,
                "workflow": frame.digest,
                "node": frame.node,
                "at": frame.position,
            },
            queue=self._declared(self.queue_of(frame.queue, frame.priority)),
            producer=self._producer,
            serializer="json",
            ignore_result=True,
            retry=True,
            retry_policy={"max_retries": 2, "interval_start": 0, "interval_step": 0.1},
            # Given, since Celery would spend more time on describing the arguments than on the rest of the message.
            argsrepr="()",
            kwargsrepr=f"run={frame.incarnation} frame={frame.frame}",
            shadow=f"wf:{frame.label or frame.node}",
            headers={STORE_HEADER: self._store_id(), SENT_HEADER: int(time.time() * 1000)},
        )

    def _drop_producer(self) -> None:
        if self._producer is not None:
            producer, self._producer = self._producer, None
            producer.release()

    def queue_of(self, queue: str | None, priority: str) -> str:
        """Where the messages of a capability's queue (None: it names none) and of a run's priority go."""
        return queue_name(queue or self._settings.queue, priority)

    def _declared(self, name: str) -> Queue:
        queue = self._queues.get(name)
        if queue is None:
            queue = self._queues[name] = declare(self._settings, name)
        return queue

    def queue_is_empty(self, name: str) -> bool:
        """Whether the broker holds no message of a queue that nobody has taken. Asked anew each time."""
        with self._app.connection_for_write() as connection, connection.channel() as channel:
            try:
                declared = channel.queue_declare(queue=name, passive=True)
            except connection.channel_errors:
                return True  # kombu's Redis transport knows no empty queue: it says "not found"
            return cast(int, declared.message_count) == 0

    def close(self) -> None:
        """Gives the producer back."""
        with self._lock:
            self._drop_producer()
