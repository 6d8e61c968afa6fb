"""Takes messages off a real broker queue and gives them to a step runner in this process, one after another.

What a Celery worker does with a message lies in other tests; here the messages and the calls can be counted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from celery import Celery
from kombu import Connection
from kombu.simple import SimpleQueue

from wf_worker.settings import Settings
from wf_worker.step_runner import StepRunner
from wf_worker.store.protocol import Ready


def messages(app: Celery, settings: Settings) -> Iterator[tuple[Ready, int]]:
    """Every message of the queue with the size of its body, until the queue is empty."""
    connection: Connection
    with app.connection_for_read() as connection:
        queue = SimpleQueue(connection, app.amqp.queues[settings.queue])
        try:
            while True:
                try:
                    message = queue.get(block=False)
                except queue.Empty:
                    return
                message.ack()
                body = message.body if isinstance(message.body, bytes) else str(message.body).encode()
                _args, kwargs, _embed = json.loads(body)
                yield (
                    Ready(
                        kwargs["run"],
                        kwargs["frame"],
                        kwargs["revision"],
                        kwargs["workflow"],
                        kwargs["node"],
                        kwargs["at"],
                    ),
                    len(body),
                )
        finally:
            queue.close()


def pump(app: Celery, settings: Settings, runner: StepRunner) -> list[int]:
    """Runs everything that is due, to the end. Gives the size of every message."""
    sizes: list[int] = []
    while True:
        before = len(sizes)
        for ready, size in messages(app, settings):
            sizes.append(size)
            runner.run(ready)
        if len(sizes) == before:
            return sizes
