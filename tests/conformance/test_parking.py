"""Frames that a worker cannot do are parked: shown as such, and sent for when somebody serves them."""

from __future__ import annotations

from tests.conformance.driving import Driver, start
from tests.conformance.workflows import each, items, line
from tests.support.stores import FAKE, MemoryCase, StoreCase
from wf_worker.store.protocol import Ready

MINUTE = 60_000


def park(run: Driver, *messages: object) -> None:
    for message in messages or run.ready:
        run.store.give_back(run.claim(message), look_ms=30_000, unserved="work")  # type: ignore[arg-type]


def test_a_parked_frame_is_shown_with_the_capability_that_nobody_served(case: StoreCase) -> None:
    run = start(case, line())
    assert run.store.parked(run.incarnation) == {}

    park(run)

    assert run.store.parked(run.incarnation) == {"work": 1}
    assert run.store.parked_runs() == [run.incarnation]
    assert (run.places(), run.status) == ({"ready": 1}, "running")


def test_it_is_sent_for_when_somebody_serves_it(case: StoreCase) -> None:
    run = start(case, line())
    park(run)
    assert run.store.unpark(run.incarnation, ["other"]) == (0, ())

    count, [message] = run.store.unpark(run.incarnation, ["other", "work"])

    assert count == 1
    assert (run.store.parked(run.incarnation), run.store.parked_runs()) == ({}, [])
    assert run.store.unpark(run.incarnation, ["work"]) == (0, ())
    claim = run.claim(message)
    assert claim.attempt == 1
    run.drain(run.finish(claim))
    assert run.status == "completed"


def test_whoever_claims_it_anyway_unparks_it(case: StoreCase) -> None:
    run = start(case, line())
    claim = run.claim(run.ready[0])
    run.store.give_back(claim, look_ms=1, unserved="work")
    case.pass_time(2)
    due = run.store.due(run.incarnation)
    assert due is not None
    [frame] = due.unclaimed
    _, [message] = run.store.republish(run.incarnation, frame.frame, frame.score, look_ms=9, send=True)

    run.claim(message)

    assert run.store.parked(run.incarnation) == {}


def test_many_parked_frames_are_sent_for_page_by_page(case: StoreCase) -> None:
    count = 70 if case.kind != FAKE else 66
    run = start(case, each(active=count, outstanding=count), items(count))
    queue = list(run.ready)
    claims = []
    while queue:
        answer = run.store.claim(queue.pop(0), owner="worker")
        if hasattr(answer, "token") and answer.purpose.value == "step":
            claims.append(answer)
        elif hasattr(answer, "token"):
            queue += run.finish(answer)
        else:
            queue += answer.ready
    for claim in claims:
        run.store.give_back(claim, look_ms=30_000, unserved="work")
    assert run.store.parked(run.incarnation) == {"work": count}

    first, messages = run.store.unpark(run.incarnation, ["work"])
    second, rest = run.store.unpark(run.incarnation, ["work"])

    assert (first, second) == (64, count - 64)
    run.drain((*messages, *rest))
    assert run.status == "completed"


def test_the_clock_of_the_queue_goes_on_while_workers_give_the_frame_back(memory_case: MemoryCase) -> None:
    run = start(memory_case, line(queue_timeout_seconds=90, total_timeout_seconds=10))
    for _ in range(2):
        memory_case.clock.advance(40_000)
        park(run)
        _, run.ready = run.store.unpark(run.incarnation, ["work"])

    memory_case.clock.advance(9_999)
    due = run.store.due(run.incarnation)
    assert due is not None and due.overdue == ()
    memory_case.clock.advance(1)
    due = run.store.due(run.incarnation)
    assert due is not None and len(due.overdue) == 1


def test_a_cancelled_run_is_not_sent_for(case: StoreCase) -> None:
    run = start(case, line())
    park(run)
    run.store.cancel(run.incarnation)

    assert run.store.unpark(run.incarnation, ["work"]) == (0, ())
    assert run.store.parked_runs() == []


def test_a_node_is_believed_to_serve_what_it_says_for_as_long_as_it_says_so(memory_case: MemoryCase) -> None:
    store = memory_case.store
    store.announce("one", ["work", "play"], ["wf"])
    memory_case.clock.advance(20_000)
    store.announce("two", ["work"], ["wf"])
    assert store.announced().capabilities == {"work", "play"}

    memory_case.clock.advance(10_000)
    assert store.announced().capabilities == {"work"}
    memory_case.clock.advance(20_000)
    assert store.announced().capabilities == set()


def test_what_nodes_say_can_be_read_by_others(case: StoreCase) -> None:
    case.store.announce("one", ["b", "a"], ["wf"])
    case.store.announce("one", ["c"], ["wf"])

    assert case.new_store().announced().capabilities == {"c"}


def test_a_frame_whose_message_nobody_would_take_is_parked_until_somebody_does(case: StoreCase) -> None:
    run = start(case, line())
    claim = run.claim(run.ready[0])
    run.store.give_back(claim, look_ms=1)

    def look(unserved: str) -> tuple[str, tuple[Ready, ...]]:
        case.pass_time(2)
        due = run.store.due(run.incarnation)
        assert due is not None
        [frame] = due.unclaimed
        return run.store.republish(
            run.incarnation, frame.frame, frame.score, look_ms=1, send=not unserved, unserved=unserved
        )

    assert look("work (queue gpu)") == ("later", ())
    assert run.store.parked(run.incarnation) == {"work (queue gpu)": 1}
    assert run.store.unpark(run.incarnation, ["work"]) == (0, ())

    word, [message] = look("")

    assert (word, run.store.parked(run.incarnation)) == ("sent", {})
    run.claim(message)
