"""Servers that a whole installation can run on: the embedded one, or what the environment names.

The system tests run on each of them in turn. An embedded server is always there; what is named takes over its part as
the store, as the broker, or as both.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pytest
from kombu.exceptions import OperationalError

from tests.support.stores import SERVER_URL
from tests.support.valkey_cluster import THREE_URL
from wf_api.cli.stack import Stack
from wf_worker.app import celery_app
from wf_worker.dispatch import Dispatcher
from wf_worker.queues import all_priorities
from wf_worker.settings import Settings
from wf_worker.store.redis import connect

AMQP_URL: Final = "WF_TEST_AMQP_URL"

EMBEDDED, RABBITMQ, REDIS, THREE_NODES = "embedded", "rabbitmq", "redis", "three_nodes"


def kinds() -> list[Any]:
    """The kinds that can be tried here, as parameters. ``-m cluster`` selects the one with a store on three nodes."""
    found: list[Any] = [EMBEDDED]
    found += [RABBITMQ] if os.environ.get(AMQP_URL) else []
    found += [REDIS] if os.environ.get(SERVER_URL) else []
    return found + ([pytest.param(THREE_NODES, marks=pytest.mark.cluster)] if os.environ.get(THREE_URL) else [])


@dataclass(frozen=True)
class Servers:
    """The servers of one test. On those that are shared, everything has a name that nobody else uses."""

    kind: str
    name: str = field(default_factory=lambda: f"wf-test-{uuid.uuid4().hex[:12]}")

    @property
    def variables(self) -> Mapping[str, str]:
        """What the processes of an installation are told."""
        match self.kind:
            case _ if self.kind == RABBITMQ:
                return {"WF_BROKER_URL": os.environ[AMQP_URL], "WF_QUEUE": self.name}
            case _ if self.kind == REDIS:
                url = os.environ[SERVER_URL]
                return {"WF_STORE_URL": url, "WF_BROKER_URL": url, "WF_PREFIX": self.name, "WF_QUEUE": self.name}
            case _ if self.kind == THREE_NODES:
                return {"WF_STORE_URL": os.environ[THREE_URL], "WF_PREFIX": self.name}
            case _:
                return {}

    def settings(self, stack: Stack) -> Settings:
        """The settings of the stack's processes."""
        said = {name.removeprefix("WF_").lower(): value for name, value in self.variables.items()}
        return Settings(**{"store_url": stack.store_url, "broker_url": stack.store_url, **said})  # type: ignore[arg-type]

    def store(self, stack: Stack) -> Any:
        """A client of the store's server."""
        return connect(self.settings(stack).store_url)

    def keys(self, stack: Stack, part: str = "") -> list[str]:
        """The keys of the store whose names hold this part."""
        prefix = self.settings(stack).prefix
        client = self.store(stack)
        names = [key.decode() for key in client.scan_iter(count=1000)]
        client.close()
        return [name for name in names if name.startswith((f"{{{prefix}:", f"{prefix}:")) and part in name]

    def queue_is_empty(self, stack: Stack) -> bool:
        """Whether no message waits in the default queue."""
        settings = self.settings(stack)
        return Dispatcher(celery_app(settings), settings, lambda: "").queue_is_empty(settings.queue)

    def queued(self, stack: Stack) -> int:
        """How many messages wait in the default queue."""
        settings = self.settings(stack)
        with celery_app(settings).connection_for_write() as connection, connection.channel() as channel:
            return channel.queue_declare(settings.queue, passive=True).message_count

    def lose_messages(self, stack: Stack) -> None:
        """Everything that waits in the default queue is gone."""
        self._each_queue(stack, "queue_purge", [self.settings(stack).queue])

    def clear(self, stack: Stack) -> None:
        """Leaves nothing on servers that are shared."""
        if self.kind in (RABBITMQ, REDIS):
            names = all_priorities([self.settings(stack).queue])
            self._each_queue(stack, "queue_delete", names)
            self._each_queue(stack, "exchange_delete", names)
        if self.kind in (REDIS, THREE_NODES):
            client = self.store(stack)
            for name in self.keys(stack):
                client.delete(name)
            client.close()

    def _each_queue(self, stack: Stack, act: str, names: list[str]) -> None:
        with celery_app(self.settings(stack)).connection_for_write() as connection, connection.channel() as channel:
            for name in names:
                try:
                    getattr(channel, act)(name)
                except (*connection.channel_errors, OperationalError) as error:
                    assert "NOT_FOUND" in str(error).upper().replace(" ", "_"), error
