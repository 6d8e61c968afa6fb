"""The window of a concurrent foreach: how many items are under way, in which order, and who goes on."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from queue import Empty, Queue

import pytest

from tests.conformance.driving import start
from tests.conformance.workflows import each, items
from tests.support.stores import CLUSTER, MEMORY, VALKEY, StoreCase
from wf_worker.store.protocol import Ready, Refusal, Refused


def index(ready: Ready) -> int:
    return int(ready.frame.rpartition(":")[2])


@pytest.mark.parametrize("seed", range(3))
def test_no_more_items_are_active_than_the_window_allows_in_whatever_order_they_end(case: StoreCase, seed: int) -> None:
    chance = random.Random(seed)
    run = start(case, each(active=3, outstanding=5), items(12))
    queue = list(run.work(run.ready[0]))
    most = 0
    while queue:
        places = run.places()
        most = max(most, places.get("ready", 0) + places.get("leased", 0))
        queue += run.work(queue.pop(chance.randrange(len(queue))))

    assert most == 3
    assert run.status == "completed"


def test_items_are_admitted_in_index_order_one_for_each_that_arrives(case: StoreCase) -> None:
    run = start(case, each(active=3), items(6))
    opened = run.work(run.ready[0])

    following = [run.work(message) for message in reversed(opened)]

    assert [index(ready) for ready in opened] == [0, 1, 2]
    assert [[index(ready) for ready in messages] for messages in following] == [[3], [4], [5]]


def test_one_call_admits_64_items_and_signals_the_controller_for_the_rest(case: StoreCase) -> None:
    run = start(case, each(active=150, outstanding=150), items(150))
    [opening] = run.work(run.ready[0])

    first = run.work(opening)
    answer = case.store.claim(first[-1], owner="worker")
    assert isinstance(answer, Refusal) and answer.reason is Refused.ADMITTED
    second = answer.ready
    answer = case.store.claim(second[-1], owner="worker")
    assert isinstance(answer, Refusal)
    third = answer.ready

    assert [index(ready) for ready in (*first[:-1], *second[:-1], *third)] == list(range(150))
    assert (first[-1].node, second[-1].node) == ("each", "each")
    assert (len(first), len(second), len(third)) == (65, 65, 22)


def test_an_admission_that_an_arrival_has_made_already_admits_nothing(case: StoreCase) -> None:
    run = start(case, each(active=70, outstanding=70), items(70))
    [opening] = run.work(run.ready[0])
    *opened, admission = run.work(opening)
    arrived = run.work(opened[0])
    assert [index(ready) for ready in arrived] == list(range(64, 70))

    answer = case.store.claim(admission, owner="worker")

    assert isinstance(answer, Refusal) and (answer.reason, answer.ready) == (Refused.ADMITTED, ())


def test_the_last_arrival_makes_the_controller_due_once(case: StoreCase) -> None:
    run = start(case, each(active=4), items(4))
    claims = [run.claim(message) for message in run.work(run.ready[0])]

    messages = [run.finish(claim) for claim in claims]
    before = case.contents()
    repeated = [case.records.again(sent)[0] for sent in case.records.sent if sent[0] == "commit"]

    assert [len(ready) for ready in messages] == [0, 0, 0, 1]
    assert messages[-1][0].node == "each"
    assert case.contents() == before
    assert set(repeated) == {b"stale"}
    assert run.claim(messages[-1][0]).purpose.value == "finish"


def test_finishing_replaces_a_pending_admission_whose_message_is_then_stale(case: StoreCase) -> None:
    run = start(case, each(active=70, outstanding=70), items(65))
    [opening] = run.work(run.ready[0])
    *opened, admission = run.work(opening)
    last = run.work(opened[0])
    queue = [*opened[1:], *last]
    finish: tuple[Ready, ...] = ()
    for message in queue:
        finish = run.work(message)

    answer = case.store.claim(admission, owner="worker")

    assert isinstance(answer, Refusal) and answer.reason is Refused.STALE
    assert [ready.node for ready in finish] == ["each"]
    run.drain(finish)
    assert run.status == "completed"


def test_an_empty_foreach_is_done_at_once(case: StoreCase) -> None:
    run = start(case, each(), items(0))

    [after] = run.work(run.ready[0])

    assert after.node == "after"
    assert run.places() == {"ready": 1}


def test_a_waiting_item_makes_room_under_continue_up_to_the_outstanding_limit(case: StoreCase) -> None:
    run = start(case, each(active=2, outstanding=4, interrupt="continue"), items(10))
    queue = list(run.work(run.ready[0]))
    asked: list[int] = []
    while queue:
        message = queue.pop(0)
        queue += run.work(message, lambda _: "ask")
        asked.append(index(message))

    assert asked == [0, 1, 2, 3]
    assert (run.status, run.places()) == ("interrupted", {"open": 4, "blocked": 1})


def test_an_answered_item_comes_back_even_above_the_active_limit(case: StoreCase) -> None:
    run = start(case, each(active=1, outstanding=3, interrupt="continue", follow_up=True), items(5))
    run.drain(chooses=lambda claim: "ask" if claim.view.own.node_id == "work" else "ok")
    assert run.places()["open"] == 3

    ready = [message for number in run.numbers() for message in run.answer(number)]

    assert [message.node for message in ready] == ["follow_up"] * 3
    assert run.places() == {"ready": 3, "blocked": 1}
    run.drain(ready)
    assert run.status == "completed"


@pytest.mark.parametrize("build_kind", [MEMORY, VALKEY, CLUSTER])
def test_many_workers_at_once_give_every_item_one_result(build: Callable[[str], StoreCase], build_kind: str) -> None:
    case = build(build_kind)
    run = start(case, each(active=8, outstanding=8), items(60))
    messages: Queue[Ready] = Queue()
    for ready in run.work(run.ready[0]):
        messages.put(ready)
        messages.put(ready)  # every message twice: the second is stale or finds the frame claimed
    done = threading.Event()
    failures: list[BaseException] = []

    def worker() -> None:
        while not done.is_set():
            try:
                message = messages.get(timeout=0.01)
            except Empty:
                continue
            try:
                for ready in run.work(message):
                    messages.put(ready)
                    messages.put(ready)
                if run.status == "completed":
                    done.set()
            except BaseException as error:
                failures.append(error)
                done.set()

    threads = [threading.Thread(target=worker) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)

    assert not failures
    assert run.status == "completed"
    record = case.store.inspect(run.incarnation)
    assert record is not None and record.steps_executed == 63
