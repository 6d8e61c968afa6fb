"""What is particular to servers that run already. The rest of this folder runs on each of them: see conftest.py."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from kombu import Connection, Exchange, Queue

from tests.support import jobs
from tests.support.installations import AMQP_URL, RABBITMQ, Servers
from tests.support.waiting import eventually
from wf_api.cli.stack import Stack
from wf_api.client import WorkflowClient
from wf_worker.app import celery_app, verify_queues
from wf_worker.dispatch import Dispatcher
from wf_worker.errors import BrokerUnavailable, SettingsInvalid
from wf_worker.settings import Settings
from wf_worker.store.protocol import Ready

on_rabbitmq = pytest.mark.skipif(not os.environ.get(AMQP_URL), reason=f"{AMQP_URL} names no RabbitMQ")


def test_a_run_finishes_although_a_worker_is_killed(stack: Stack, client: WorkflowClient) -> None:
    flow = jobs.squares()
    client.publish(flow)
    run = client.start("squares", {"numbers": list(range(300))})
    # A worker that dies in mid-run is the case in which a broker may give a message twice, or never again.
    eventually(lambda: client.inspect(run["run_id"])["steps_executed"] >= 50, "50 steps are done")
    os.kill(next(part for part in stack.parts if part.name == "worker-1").process.pid, signal.SIGKILL)
    view = client.wait(run["run_id"], timeout=100)
    assert view["output"] == flow.execute({"numbers": list(range(300))}).output


@pytest.fixture
def on_amqp() -> Iterator[Settings]:
    """Settings for RabbitMQ with a queue of a name that nobody else uses."""
    name = Servers(RABBITMQ).name
    url = os.environ[AMQP_URL]
    yield Settings(broker_url=url, queue=name)
    with Connection(url) as connection, connection.channel() as channel:
        channel.queue_delete(name)
        channel.exchange_delete(name)


def declare_classic(settings: Settings) -> None:
    with Connection(settings.broker) as connection, connection.channel() as channel:
        name = settings.queue
        Queue(name, Exchange(name, type="direct"), routing_key=name)(channel).declare()


@on_rabbitmq
def test_queues_are_quorum_queues(on_amqp: Settings) -> None:
    verify_queues(celery_app(on_amqp), on_amqp, [on_amqp.queue])

    with Connection(on_amqp.broker) as connection, connection.channel() as channel:
        channel.queue_declare(on_amqp.queue, durable=True, auto_delete=False, arguments={"x-queue-type": "quorum"})


@on_rabbitmq
def test_a_classic_queue_of_that_name_is_refused_with_the_repair(on_amqp: Settings) -> None:
    declare_classic(on_amqp)

    with pytest.raises(SettingsInvalid, match=on_amqp.queue) as refused:
        verify_queues(celery_app(on_amqp), on_amqp, [on_amqp.queue])

    assert (refused.value.code, refused.value.path) == ("queue_type_differs", "WF_QUEUE_TYPE")
    assert "delete the queue" in str(refused.value.hint)


@on_rabbitmq
def test_a_message_for_a_queue_of_another_type_is_not_sent_and_says_why(on_amqp: Settings) -> None:
    declare_classic(on_amqp)
    dispatcher = Dispatcher(celery_app(on_amqp), on_amqp, lambda: "store")

    with pytest.raises(BrokerUnavailable) as refused:
        dispatcher.publish([Ready("00-0", "f", "1.a", "sha256:0", "node", 0)])

    assert refused.value.code == "queue_type_differs"
    dispatcher.close()


@on_rabbitmq
def test_a_classic_queue_may_be_kept(on_amqp: Settings) -> None:
    declare_classic(on_amqp)
    kept = on_amqp.model_copy(update={"queue_type": "classic"})

    verify_queues(celery_app(kept), kept, [kept.queue])
    dispatcher = Dispatcher(celery_app(kept), kept, lambda: "store")
    assert dispatcher.queue_is_empty(kept.queue)
    dispatcher.publish([Ready("00-0", "f", "1.a", "sha256:0", "node", 0)])
    eventually(lambda: not dispatcher.queue_is_empty(kept.queue), "the message is in the queue")
    dispatcher.close()
