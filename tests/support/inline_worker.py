"""A worker in this process: ready frames come from a queue in memory and go through the real step runner."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from wf_core.run_state import RuntimeContext
from wf_worker.dispatch import Dispatcher
from wf_worker.handlers import HandlerRegistry
from wf_worker.leases import LeaseKeeper
from wf_worker.step_runner import StepRunner
from wf_worker.store.protocol import Ready
from wf_worker.store.runs import RunStore

Handler = Callable[[dict[str, Any], RuntimeContext], Any]


class QueueDispatcher(Dispatcher):
    """Keeps messages in memory instead of sending them to a broker."""

    def __init__(self) -> None:
        self.messages: queue.Queue[Ready] = queue.Queue()

    def publish(self, ready: Iterable[Ready]) -> None:
        for frame in ready:
            self.messages.put(frame)

    def close(self) -> None:
        pass


class InlineWorker:
    """Serves handlers on a store. What its ``publish`` is given runs when a test says so, or in a thread."""

    def __init__(self, store: RunStore, handlers: Mapping[str, Handler]) -> None:
        registry = HandlerRegistry()
        registry.update(handlers)
        self._dispatcher = QueueDispatcher()
        self._runner = StepRunner(store, registry, self._dispatcher, LeaseKeeper(store), "inline")
        self._stopping = threading.Event()

    def publish(self, ready: Iterable[Ready]) -> None:
        """Takes messages, as a dispatcher does."""
        self._dispatcher.publish(ready)

    def drain(self) -> None:
        """Runs everything that is due, and what becomes due by it."""
        while True:
            try:
                message = self._dispatcher.messages.get_nowait()
            except queue.Empty:
                return
            self._runner.run(message)

    def forget(self) -> None:
        """Loses every message."""
        with self._dispatcher.messages.mutex:
            self._dispatcher.messages.queue.clear()

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Runs what becomes due in a thread while the block lasts."""
        self._stopping.clear()
        thread = threading.Thread(target=self._serve, name="inline-worker")
        thread.start()
        try:
            yield
        finally:
            self._stopping.set()
            thread.join()

    def _serve(self) -> None:
        while not self._stopping.is_set():
            try:
                message = self._dispatcher.messages.get(timeout=0.02)
            except queue.Empty:
                continue
            self._runner.run(message)
