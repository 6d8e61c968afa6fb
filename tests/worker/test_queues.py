"""Which queue a message goes to, and which ones a worker takes messages of."""

from __future__ import annotations

from celery import Celery

from tests.support import jobs
from wf_core.authoring import node
from wf_worker.app import install
from wf_worker.dispatch import Dispatcher
from wf_worker.queues import all_priorities, queue_name
from wf_worker.settings import Settings
from wf_worker.store.protocol import Served


def test_the_priority_of_a_run_is_a_suffix_of_the_queue() -> None:
    assert [queue_name("gpu", priority) for priority in ("high", "normal", "low")] == ["gpu.high", "gpu", "gpu.low"]


def test_a_worker_serves_every_priority_of_its_queues_the_most_urgent_first() -> None:
    assert all_priorities(["wf", "gpu"]) == ["wf.high", "gpu.high", "wf", "gpu", "wf.low", "gpu.low"]
    assert all_priorities(["wf", "wf"]) == ["wf.high", "wf", "wf.low"]


def test_a_queue_that_says_its_priority_stands_for_itself() -> None:
    assert all_priorities(["gpu.low", "wf.high", "wf.high"]) == ["wf.high", "gpu.low"]
    assert all_priorities(["wf", "wf.low"]) == ["wf.high", "wf", "wf.low"]


def names_of(app: Celery) -> list[str]:
    return [queue.name for queue in app.conf.task_queues if queue.name != "celery"]


def test_a_worker_serves_the_default_queue_and_those_of_its_capabilities() -> None:
    app = Celery("app", broker="memory://")

    worker = install(app, Settings(broker_url="memory://"), nodes=[jobs.square, node(jobs.hold, queue="gpu")])

    assert worker.queues == ("wf.high", "gpu.high", "wf", "gpu", "wf.low", "gpu.low")
    assert names_of(app) == list(worker.queues)


def test_a_worker_that_is_told_its_queues_serves_no_other() -> None:
    app = Celery("app", broker="memory://")

    worker = install(app, Settings(broker_url="memory://"), nodes=[node(jobs.hold, queue="gpu")], queues=["tpu"])

    assert worker.queues == ("tpu.high", "tpu", "tpu.low")


def test_a_capability_without_a_queue_goes_to_that_of_the_installation() -> None:
    dispatcher = Dispatcher(Celery(broker="memory://"), Settings(queue="jobs", broker_url="memory://"), lambda: "store")

    assert dispatcher.queue_of(None, "normal") == "jobs"
    assert dispatcher.queue_of("gpu", "high") == "gpu.high"


ANNOUNCED = Served(
    (
        (frozenset({"render"}), frozenset({"gpu", "gpu.low"})),
        (frozenset({"render", "write"}), frozenset({"wf"})),
    )
)


def test_a_step_is_served_by_a_node_that_has_its_capability_and_takes_its_queue() -> None:
    assert ANNOUNCED.unserved("render", "gpu") == ""
    assert ANNOUNCED.unserved("render", "wf") == ""
    assert ANNOUNCED.unserved("write", "gpu") == "write (queue gpu)"
    assert ANNOUNCED.unserved("render", "gpu.high") == "render (queue gpu.high)"
    assert ANNOUNCED.unserved("other", "gpu") == "other"


def test_every_node_can_do_a_control_step_and_nothing_is_known_without_nodes() -> None:
    assert ANNOUNCED.unserved(None, "anything") == ""
    assert Served(()).unserved("render", "gpu") == ""
