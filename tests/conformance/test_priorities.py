"""The priority of a run and the queue of a capability stand in every message that any call brings forth."""

from __future__ import annotations

from tests.conformance.driving import Driver, start
from tests.conformance.workflows import each, items, line
from tests.support.stores import StoreCase
from wf_core.models import Workflow


def on_queue(workflow: Workflow, queue: str) -> Workflow:
    document = workflow.model_dump(mode="json", by_alias=True)
    for definition in document["node_defs"]:
        definition["queue"] = queue
    return Workflow.model_validate(document)


def urgent(case: StoreCase, workflow: Workflow, **more: object) -> Driver:
    return start(case, workflow, **more, extras={"priority": "high"})  # type: ignore[arg-type]


def test_every_message_of_a_run_has_its_priority_and_the_queue_of_its_step(case: StoreCase) -> None:
    run = urgent(case, on_queue(each(active=2, outstanding=2), "gpu"), workflow_input=items(3))
    queue, seen = list(run.ready), set[tuple[str, str | None, str]]()
    while queue:
        message = queue.pop(0)
        seen.add((message.label, message.queue, message.priority))
        queue += run.work(message)

    assert run.status == "completed"
    assert seen == {("work", "gpu", "high"), ("foreach", None, "high")}


def test_a_message_that_is_sent_again_goes_to_the_same_queue(case: StoreCase) -> None:
    run = urgent(case, on_queue(line(), "gpu"))
    run.store.give_back(run.claim(run.ready[0]), look_ms=1)
    case.pass_time(2)
    due = run.store.due(run.incarnation)
    assert due is not None
    [frame] = due.unclaimed

    _, [message] = run.store.republish(run.incarnation, frame.frame, frame.score, look_ms=9, send=True)

    assert (frame.capability, frame.queue, frame.priority) == ("work", "gpu", "high")
    assert (message.queue, message.priority) == ("gpu", "high")


def test_a_run_that_says_nothing_is_like_all_others(case: StoreCase) -> None:
    run = start(case, line())

    assert [(message.queue, message.priority) for message in run.ready] == [(None, "normal")]
