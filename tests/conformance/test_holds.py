"""What an open interrupt holds, and what its answer sets free."""

from __future__ import annotations

import pytest

from tests.conformance.driving import Driver, asks_about, start
from tests.conformance.workflows import each, items, line, nested
from tests.support.stores import FAKE, StoreCase
from wf_core.runtime.transition import Purpose
from wf_worker.store.protocol import Claim, Ready, Refusal, Refused

PAGE = 64


def holds(run: Driver) -> list[str]:
    """What is held: ``run`` or activation keys."""
    reply = run.case.records.inner.call("audit", run.incarnation, "look")
    return [name.decode() for name in reply[10][::2]]


def activations(run: Driver) -> dict[str, int]:
    """Activation keys with their depth in the nest, the outermost 1."""
    reply = run.case.records.inner.call("audit", run.incarnation, "look")
    keys, heads = reply[11][::2], reply[11][1::2]
    return {
        key.decode(): head.decode().split("|")[6].count(",") + 1
        for key, head in zip(keys, heads, strict=True)
        if not key.endswith(b":t")
    }


def refusal(run: Driver, ready: Ready) -> Refused:
    answer = run.store.claim(ready, owner="other")
    assert isinstance(answer, Refusal)
    return answer.reason


def release_all(run: Driver) -> list[int]:
    """Releases as a sweeper does; how many messages each page brought."""
    pages: list[int] = []
    while True:
        due = run.store.due(run.incarnation)
        assert due is not None
        if not due.release:
            return pages
        ready = run.store.release(run.incarnation)
        pages.append(len(ready))
        run.ready = (*run.ready, *ready)


def test_an_interrupt_outside_every_loop_holds_the_run(case: StoreCase) -> None:
    run = start(case, line())
    run.drain(chooses=lambda _: "ask")

    assert (holds(run), run.status) == (["run"], "interrupted")


@pytest.mark.parametrize(
    ("outer", "inner", "held_depth"),
    [
        ("quiesce", "quiesce", "run"),
        ("continue", "quiesce", 2),
        ("quiesce", "continue", None),
        ("continue", "continue", None),
    ],
)
def test_an_interrupt_holds_the_outermost_loop_before_one_that_continues(
    case: StoreCase, outer: str, inner: str, held_depth: int | str | None
) -> None:
    run = start(case, nested(outer=outer, inner=inner), items(2, 2))
    queue = list(run.work(run.ready[0]))
    while run.numbers() == []:
        queue += run.work(queue.pop(0), lambda claim: "ask" if claim.purpose.value == "step" else "ok")

    depths = activations(run)
    expected = (
        []
        if held_depth is None
        else ["run"]
        if held_depth == "run"
        else [key for key in holds(run) if depths[key] == held_depth]
    )
    assert holds(run) == expected and len(expected) == (held_depth is not None)


def test_held_frames_are_refused_and_running_handlers_commit(case: StoreCase) -> None:
    run = start(case, each(active=3), items(5))
    asking, running, ready = run.work(run.ready[0])
    claim = run.claim(running)
    run.finish(run.claim(asking), "ask")

    assert refusal(run, ready) is Refused.HELD
    assert refusal(run, ready) is Refused.STALE
    assert run.status == "running"
    assert run.finish(claim) == ()
    assert run.status == "interrupted"
    # The arrival made room for an item and left word with the controller.
    assert run.places() == {"open": 1, "held": 2}


def test_an_answer_goes_on_with_everything_that_was_held(case: StoreCase) -> None:
    run = start(case, each(active=3), items(5))
    asking, running, ready = run.work(run.ready[0])
    claim = run.claim(running)
    run.finish(run.claim(asking), "ask")
    assert refusal(run, ready) is Refused.HELD
    run.finish(claim)

    messages = run.answer()

    assert run.status == "running"
    run.drain(messages)
    assert run.status == "completed"


def test_an_interrupt_in_one_item_leaves_other_items_of_an_outer_loop_that_continues_alone(case: StoreCase) -> None:
    run = start(case, nested(outer="continue", inner="quiesce", active=2), items(2, 3))
    asking: list[str] = []

    def first_order_of_the_first_item(claim: Claim) -> str:
        if not asking and claim.frame.endswith(":0") and claim.purpose is Purpose.STEP:
            asking.append(claim.frame)
            return "ask"
        return "ok"

    run.drain(chooses=first_order_of_the_first_item)

    # The second outer item is done; of the first, one order waits, one is held, the third was not admitted.
    assert run.status == "interrupted"
    [progress] = [p for p in run.store.progress(run.incarnation) if p.node_id == "outer"]
    assert (progress.total, progress.done) == (2, 1)
    run.drain(run.answer())
    assert run.status == "completed"


def test_an_answer_lifts_every_hold_over_its_frame_though_other_interrupts_stay_open(case: StoreCase) -> None:
    run = start(case, each(active=3), items(6))
    first, second, third = (run.claim(message) for message in run.work(run.ready[0]))
    run.finish(first, "ask")
    run.finish(second, "ask")
    run.finish(third)
    assert (holds(run), run.status) == (["run"], "interrupted")

    messages = run.answer()

    assert holds(run) == []
    run.drain(messages)
    # The other item still waits; the siblings went on to the end, all under quiesce.
    assert (run.status, len(run.numbers())) == ("interrupted", 1)
    run.drain(run.answer())
    assert run.status == "completed"


def test_a_new_interrupt_holds_again(case: StoreCase) -> None:
    run = start(case, each(active=2), items(4))
    first, second = (run.claim(message) for message in run.work(run.ready[0]))
    run.finish(first, "ask")
    run.finish(second, "ask")
    run.drain(run.answer(), asks_about(2))

    assert (holds(run), run.status, len(run.numbers())) == (["run"], "interrupted", 2)
    while run.numbers():
        run.drain(run.answer())
    assert run.status == "completed"


def test_a_loop_that_continues_holds_nothing_and_runs_to_its_end_around_the_waiting_item(case: StoreCase) -> None:
    run = start(case, each(active=2, outstanding=10, interrupt="continue"), items(8))
    run.drain(chooses=asks_about(0))

    assert (holds(run), run.status, run.places()) == ([], "interrupted", {"open": 1, "blocked": 1})
    [progress] = run.store.progress(run.incarnation)
    assert (progress.admitted, progress.done) == (8, 7)
    run.drain(run.answer())
    assert run.status == "completed"


def many_held(case: StoreCase) -> Driver:
    """One item asks, and 64 + 1 siblings were refused and are held."""
    run = start(case, each(active=66, outstanding=66), items(70))
    [opening] = run.work(run.ready[0])
    *opened, admission = run.work(opening)
    answer = run.store.claim(admission, owner="worker")
    assert isinstance(answer, Refusal)
    asking, *others = (*opened, *answer.ready)
    run.finish(run.claim(asking), "ask")
    for message in others:
        assert refusal(run, message) is Refused.HELD
    assert run.places() == {"open": 1, "held": PAGE + 1, "blocked": 1}
    assert run.status == "interrupted"
    return run


def test_more_held_frames_than_a_page_are_released_page_by_page(case: StoreCase) -> None:
    run = many_held(case)

    messages = run.answer()

    assert run.status == "running"
    run.ready = messages
    pages = release_all(run)
    assert pages[-1] >= 1 and len({ready.frame for ready in run.ready}) == len(run.ready)
    run.drain()
    assert run.status == "completed"


def test_a_pause_between_the_pages_keeps_what_is_left_until_the_run_goes_on(case: StoreCase) -> None:
    run = many_held(case)
    messages = run.answer()
    run.store.pause(run.incarnation, on=True)
    released = run.store.release(run.incarnation)
    refused = [refusal(run, message) for message in messages]

    assert released == ()
    assert set(refused) == {Refused.PAUSED}
    places = run.places()
    assert places["held"] >= 1 and places["paused"] == len(messages)

    _, run.ready = run.store.pause(run.incarnation, on=False)
    release_all(run)
    run.drain()
    assert run.status == "completed"


def test_a_hold_set_between_the_pages_keeps_what_is_left(case: StoreCase) -> None:
    run = many_held(case)
    first, *messages = run.answer()
    # The first released item asks as well, before the last page.
    run.finish(run.claim(first), "ask")
    assert holds(run) == ["run"]

    assert run.store.release(run.incarnation) == ()

    for message in messages:
        run.work(message)
    assert set(run.refusals) == {Refused.HELD}
    assert run.status == "interrupted"
    run.ready = run.answer()
    release_all(run)
    run.drain()
    assert run.status == "completed"


@pytest.mark.parametrize("outer", ["quiesce", "continue"])
@pytest.mark.parametrize("inner", ["quiesce", "continue"])
def test_nested_loops_of_any_policies_end_with_many_questions_and_a_pause_in_between(
    case: StoreCase, outer: str, inner: str
) -> None:
    count = 2 if case.kind == FAKE else 5  # the real servers get more than a page of orders
    workflow = nested(outer=outer, inner=inner, active=5, outstanding=5, inner_active=13, inner_outstanding=13)
    run = start(case, workflow, items(count, 14))
    asks = asks_about(0, 7)
    run.drain(chooses=asks)
    rounds = 0
    while run.numbers():
        rounds += 1
        run.ready = run.answer()
        if rounds % 3 == 1:
            run.store.pause(run.incarnation, on=True)
            run.drain()
            release_all(run)
            _, run.ready = run.store.pause(run.incarnation, on=False)
        release_all(run)
        run.drain(chooses=asks)

    assert run.status == "completed"
    record = run.store.inspect(run.incarnation)
    # Opening and closing the loops, 14 handlers and 2 questions for each item.
    assert record is not None and record.steps_executed == 2 * (count + 1) + 16 * count
