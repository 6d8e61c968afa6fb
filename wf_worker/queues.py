"""Queues: which one the message of a frame goes to, and how a queue is declared.

A capability may name a queue; everything else goes to the default one. A run's priority is a suffix, so each queue
stands for three: ``gpu.high``, ``gpu``, ``gpu.low``. A worker takes messages of those that it is told to serve, in that
order where the broker lets it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kombu import Exchange, Queue

from wf_worker.errors import SettingsInvalid
from wf_worker.settings import Settings

PRECONDITION_FAILED: Final = 406
"""What AMQP says to a declaration that contradicts an earlier one."""

NORMAL: Final = "normal"
PRIORITIES: Final = ("high", NORMAL, "low")
"""What a run may ask for, the most urgent first."""


def queue_name(base: str, priority: str) -> str:
    """The queue of one priority. The normal one has no suffix."""
    return base if priority == NORMAL else f"{base}.{priority}"


def all_priorities(served: Iterable[str]) -> list[str]:
    """The queues of a worker that is told to serve these, once each, the most urgent first.

    One whose name says a priority stands for itself alone.
    """
    names = list(served)
    return list(
        dict.fromkeys(
            name if suffix_of(name) else queue_name(name, priority)
            for priority in PRIORITIES
            for name in names
            if suffix_of(name) in (None, priority)
        )
    )


def suffix_of(name: str) -> str | None:
    """The priority that a queue's name says, or None."""
    _, dot, last = name.rpartition(".")
    return last if dot and last in PRIORITIES and last != NORMAL else None


def declare(settings: Settings, name: str) -> Queue:
    """One queue as both ends declare it."""
    # RabbitMQ keeps a quorum queue on several nodes, and takes it into account that a message was given out before.
    typed = {"x-queue-type": settings.queue_type} if settings.broker.startswith(("amqp://", "amqps://")) else None
    return Queue(name, Exchange(name, type="direct"), routing_key=name, queue_arguments=typed)


def other_type(settings: Settings, error: BaseException) -> SettingsInvalid | None:
    """What a broker means that refuses to declare a queue since it has one of that name and of another type."""
    if getattr(error, "reply_code", None) != PRECONDITION_FAILED:
        return None
    return SettingsInvalid(
        f"the broker has a queue that is not as WF_QUEUE_TYPE={settings.queue_type} says: {error}",
        code="queue_type_differs",
        path="WF_QUEUE_TYPE",
        hint="set WF_QUEUE_TYPE to the type that it has, or delete the queue: messages are sent again by themselves",
    )
