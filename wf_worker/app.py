"""The engine on a Celery application, with every setting it needs and the reason for it."""

from __future__ import annotations

import functools
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from celery import Celery
from celery.signals import task_received, worker_ready, worker_shutdown, worker_shutting_down
from kombu import Queue

from wf_core.authoring import NodeSpec
from wf_core.reducers import ReducerDefinition
from wf_worker.dispatch import SENT_HEADER, Dispatcher
from wf_worker.errors import SettingsInvalid
from wf_worker.handlers import HandlerRegistry, build_handlers
from wf_worker.leases import LeaseKeeper
from wf_worker.queues import all_priorities, declare, other_type
from wf_worker.settings import Settings
from wf_worker.step_runner import StepRunner
from wf_worker.store.opening import open_store, verify_server
from wf_worker.store.runs import RunStore
from wf_worker.sweeper import Receipts, Sweeper
from wf_worker.tasks import register_task

log = logging.getLogger("wf.worker")

REQUIRED: Final[Mapping[str, Any]] = {
    # A message is a hint in JSON. Anything that can execute code when it is read stays out.
    "task_serializer": "json",
    "accept_content": ["json"],
    # A task that runs inside its sender is no message at all: nothing would be distributed, nothing recovered.
    "task_always_eager": False,
}
CHOSEN: Final[Mapping[str, Any]] = {
    # One message at a time: a frame in a busy worker's prefetch is one that an idle worker cannot take.
    "worker_prefetch_multiplier": 1,
    "worker_hijack_root_logger": False,
    "broker_connection_retry_on_startup": True,
    "broker_connection_max_retries": None,
    # A broker that is full refuses commands of the transport: without this a worker ends at the first of them.
    "broker_channel_error_retry": True,
    # On SIGQUIT running handlers have so long; on SIGTERM see WorkerNode.leave.
    "worker_soft_shutdown_timeout": 30.0,
    "task_default_delivery_mode": "persistent",
}


LEAVING: Final = "wf-leaving"
"""Name of the thread that ends a worker."""


def store_id(settings: Settings) -> Callable[[], str]:
    """Gives what the store calls itself, asked once and when it is first needed. Messages name it: a worker of another
    store refuses them, however the two stores' addresses are written."""

    @functools.cache
    def identity() -> str:
        store = open_store(settings)
        try:
            return store.identity()
        finally:
            store.records.close()

    return identity


def celery_app(settings: Settings) -> Celery:
    """A Celery application for publishing and working, with the engine's settings and nothing else on it."""
    app = Celery("wf", broker=settings.broker, set_as_current=False)
    # On Redis and Valkey the queues are read in the order in which they are given: the most urgent first.
    conf: Any = app.conf
    conf.broker_transport_options = {"queue_order_strategy": "priority"}
    configure(app, settings)
    return app


def configure(app: Celery, settings: Settings, served: Iterable[str] = ()) -> None:
    """Sets what the engine needs, and adds the queues that are ``served``.

    Raises :class:`SettingsInvalid` naming a setting that the application made unsafe.
    """
    conf: Any = app.conf
    explicit = set(conf.changes) if hasattr(conf, "changes") else set[str]()
    for name, value in REQUIRED.items():
        present = conf.get(name)
        if name in explicit and list_of(present) != list_of(value):
            raise SettingsInvalid(
                f"Celery setting {name} is {present!r}; the engine needs {value!r}",
                code="celery_setting_unsafe",
                path=name,
                hint="remove it, or run the engine on a Celery application of its own",
            )
        conf[name] = value
    for name, value in CHOSEN.items():
        if name not in explicit:
            conf[name] = value
    # Celery makes its default queue only where an application lists none; ours may not take it away.
    queues = list(conf.task_queues or [Queue(conf.task_default_queue, routing_key=conf.task_default_queue)])
    present = {queue.name for queue in queues}
    queues += [declare(settings, name) for name in served if name not in present]
    conf.task_queues = queues


def list_of(value: Any) -> list[Any]:
    """A setting that may be one value or several, for comparison."""
    return sorted(map(str, value)) if isinstance(value, list | tuple | set) else [value]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


@dataclass
class WorkerNode:
    """What one worker process holds: its store, its handlers, its dispatcher. Begun anew in every forked process."""

    app: Celery
    settings: Settings
    handlers: HandlerRegistry
    queues: tuple[str, ...]
    """The queues that it takes messages of, unless its command line says others."""
    reducers: Mapping[str, ReducerDefinition] | None = None
    receipts: Receipts = field(default_factory=Receipts)
    sweeper: Sweeper | None = None
    ends_itself: bool = False
    """Whether the process is the engine's own, and may be ended with handlers in it."""
    _pid: int = 0
    _runner: StepRunner | None = None
    _lock: Any = field(default_factory=threading.Lock)

    def runner(self) -> StepRunner:
        """The step runner of this process."""
        if self._runner is None or self._pid != os.getpid():
            with self._lock:
                if self._runner is None or self._pid != os.getpid():
                    store = self.open_store()
                    self._runner = StepRunner(
                        store, self.handlers, self.dispatcher(), LeaseKeeper(store), worker_name()
                    )
                    self._pid = os.getpid()
        return self._runner

    def open_store(self) -> RunStore:
        """A store of its own for the calling process."""
        return open_store(self.settings, reducers=self.reducers)

    def dispatcher(self) -> Dispatcher:
        """A dispatcher over this application."""
        return Dispatcher(self.app, self.settings, store_id(self.settings))

    def start_sweeper(self, queues: Iterable[str]) -> None:
        """Begins to look for lost work in a thread of this process, which takes messages of these queues."""
        self.sweeper = Sweeper(
            self.open_store(),
            self.dispatcher(),
            self.receipts,
            self.settings.sweep_seconds,
            serves=self.handlers.names,
            queues=tuple(queues),
            node=worker_name(),
        )
        self.sweeper.start()

    def leave(self, pool: Any) -> None:
        """The worker was told to end: it takes back what it announced, and looks for lost work no more.

        Celery takes no new messages from now on, and waits for running handlers, for ever if need be. A worker of
        ours does so for ``WF_GRACE_SECONDS``; then its processes end, and their steps are done again elsewhere when
        their leases have run out. A worker of somebody else's application may have tasks of its own: it is not ended.
        """
        if self.sweeper is not None:
            self.sweeper.leave()
        if self.ends_itself:
            time.sleep(self.settings.grace_seconds)
            log.warning("handlers still run after %s s of grace: they are ended", self.settings.grace_seconds)
            end_at_once(pool)

    def stop(self) -> None:
        """Ends the sweeper."""
        if self.sweeper is not None:
            self.sweeper.stop()


def end_at_once(pool: Any) -> None:
    """Ends the processes of a Celery pool, and this one, without waiting for what they do."""
    for pid in pool.info["processes"]:
        if pid != os.getpid():
            os.kill(pid, signal.SIGKILL)
    logging.shutdown()
    os._exit(0)


def worker_name() -> str:
    """The name under which this process claims frames: host and process."""
    return f"{socket.gethostname()}:{os.getpid()}".replace("|", "-")


def install(
    app: Celery,
    settings: Settings | None = None,
    *,
    nodes: Iterable[NodeSpec[Any, Any]] = (),
    handlers: HandlerRegistry | None = None,
    reducers: Mapping[str, ReducerDefinition] | None = None,
    queues: Iterable[str] = (),
) -> WorkerNode:
    """Installs the engine on a Celery application: the task ``wf.step``, its queues, the sweeper.

    ``nodes`` are the capabilities that this worker serves, ``queues`` those it takes messages of: where none are given,
    the default queue and those that the capabilities name. A queue stands for its three priorities.
    The application's own tasks and queues stay as they are; its broker must be the one that ``WF_BROKER_URL`` names.
    Raises :class:`SettingsInvalid` for an unsafe setting.
    """
    settings = settings or Settings()
    registry = handlers or build_handlers(nodes, payload_bytes=settings.payload_bytes)
    served = tuple(all_priorities(tuple(queues) or (settings.queue, *registry.queues)))
    configure(app, settings, served)
    node = WorkerNode(app, settings, registry, served, reducers)
    register_task(app, node.runner, store_id(settings))
    _connect_signals(app, node)
    return node


def _connect_signals(app: Celery, node: WorkerNode) -> None:
    pools: list[Any] = []

    def ready(sender: Any = None, **_: Any) -> None:
        if getattr(sender, "app", app) is app:
            pools.append(getattr(sender, "pool", None))
            _judge(node.settings)
            queues: list[str] = list(app.amqp.queues.consume_from)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
            node.start_sweeper(queues)
            served = ", ".join(node.handlers.names) or "nothing"
            log.info("worker ready, serving %s from %s", served, ", ".join(queues))

    def received(sender: Any = None, request: Any = None, **_: Any) -> None:
        message: Any = getattr(request, "message", None)
        headers: Any = getattr(message, "headers", None) or {}
        sent: Any = headers.get(SENT_HEADER)
        if isinstance(sent, int):
            node.receipts.saw(message.delivery_info["routing_key"], sent)  # its queue's name: see declare()

    def told_to_end(**_: Any) -> None:
        # A signal handler of Celery's: whatever takes time is done elsewhere. The thread ends with the process.
        if pools and not any(thread.name == LEAVING for thread in threading.enumerate()):
            threading.Thread(target=node.leave, args=(pools[-1],), name=LEAVING, daemon=True).start()

    def shutdown(**_: Any) -> None:
        node.stop()

    signals: tuple[tuple[Any, Any], ...] = (
        (worker_ready, ready),
        (task_received, received),
        (worker_shutting_down, told_to_end),
        (worker_shutdown, shutdown),
    )
    for celery_signal, handler in signals:
        celery_signal.connect(handler, weak=False)


def _judge(settings: Settings) -> None:
    """On somebody's own application the worker is theirs: it is told, not ended."""
    try:
        verify_server(settings)
    except SettingsInvalid as fault:
        log.error("%s (%s)", fault.message, fault.hint)


def verify_queues(app: Celery, settings: Settings, names: Iterable[str]) -> None:
    """Declares queues, and raises ``queue_type_differs`` where the broker has one of that name and of another type.

    A broker that cannot be reached yet is not judged: it may come up later.
    """
    connection: Any = app.connection_for_write()  # pyright: ignore[reportUnknownMemberType]
    try:
        for name in names:
            with connection.channel() as channel:
                declare(settings, name)(channel).declare()
    except connection.channel_errors as error:
        fault = other_type(settings, error)
        if fault is not None:
            raise fault from error
        raise
    except connection.connection_errors as error:
        log.warning("queues were not checked: %s", error)
    finally:
        connection.release()


def run_worker(
    settings: Settings,
    *,
    nodes: Iterable[NodeSpec[Any, Any]] = (),
    handlers: HandlerRegistry | None = None,
    reducers: Mapping[str, ReducerDefinition] | None = None,
    queues: Iterable[str] = (),
    concurrency: int = 1,
    name: str | None = None,
    log_level: str = "WARNING",
) -> None:
    """Runs a worker in this process until it is told to stop. More than one at a time means a pool of processes."""
    verify_server(settings)
    app = celery_app(settings)
    node = install(app, settings, nodes=nodes, handlers=handlers, reducers=reducers, queues=queues)
    node.ends_itself = True
    verify_queues(app, settings, node.queues)
    argv = [
        "worker",
        f"--queues={','.join(node.queues)}",
        f"--hostname={name or f'wf-{os.getpid()}'}@%h",
        f"--loglevel={log_level}",
        "--without-gossip",
        "--without-mingle",
        "--without-heartbeat",
        *(["--pool=solo"] if concurrency == 1 else [f"--concurrency={concurrency}", "--pool=prefork"]),
    ]
    start: Any = app.worker_main
    start(argv)
