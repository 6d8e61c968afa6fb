"""Events: what happens to a run, in one order, each once, whatever its trace level."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conformance.driving import Driver, asks_about, start
from tests.conformance.scenario import everything
from tests.conformance.workflows import asking, each, items, line, nested
from tests.support.stores import MEMORY, SERVERS, MemoryCase, RedisCase, StoreCase, counted_ids
from wf_worker.errors import RequestRefused, RunDamaged
from wf_worker.store.audit import audit_run
from wf_worker.store.events import RunEvent
from wf_worker.store.keys import RUN_KEYS

SOON = {"max_attempts": 3, "initial_seconds": 0.001, "jitter": "none"}
TROUBLE = ConnectionError("no answer")
SECOND = 1000


def events(run: Driver, after: str | None = None) -> list[RunEvent]:
    """All events behind an id, page by page."""
    found: list[RunEvent] = []
    while True:
        page = run.store.events(run.incarnation, after=after, limit=3)
        found += page.events
        if len(page.events) < 3:
            return found
        after = page.last_id


def told(run: Driver, after: str | None = None) -> list[str]:
    """Each event in a line: kind, step number, node, details."""
    program = run.store.program(run.digest)
    lines: list[str] = []
    for event in events(run, after):
        node = "" if event.position is None else program.step_at(event.position)[1].id
        details = [word for word in event.details if word and word != _frame(event)]
        if event.kind == "step" and event.details[1]:
            details[0] = program.step_at(int(event.details[1]))[1].id
        lines.append(" ".join(word for word in (event.kind, str(event.step or ""), node, *details) if word))
    return lines


def _frame(event: RunEvent) -> str:
    return "" if event.position is None else event.details[0]


def refused(run: Driver, after: str) -> RequestRefused:
    with pytest.raises(RequestRefused) as found:
        run.store.events(run.incarnation, after=after)
    return found.value


# ---- what is told


def test_a_run_tells_of_its_status_and_of_every_step_in_order(case: StoreCase) -> None:
    run = start(case, line())
    run.drain()

    assert told(run) == [
        "status pending",
        "status running",
        "step 1 first second ok",
        "step 2 second ok",
        "status completed",
    ]
    assert [event.ordinal for event in events(run)] == [1, 2, 3, 4, 5]
    since = [event.since_ms for event in events(run)]
    assert since == sorted(since) and since[0] >= 0


@pytest.mark.parametrize("level", ["full", "summary", "off"])
def test_events_do_not_depend_on_the_trace(case: StoreCase, level: str) -> None:
    run = start(case, line(), extras={"trace": level})
    run.drain()

    assert len(told(run)) == 5
    assert len(run.store.trace(run.incarnation, 0, 10)) == (0 if level == "off" else 2)


def test_an_interrupt_is_told_when_it_opens_and_when_it_is_answered(case: StoreCase) -> None:
    run = start(case, line())
    run.drain(chooses=lambda _: "ask")
    run.drain(run.answer())

    assert told(run)[2:] == [
        "step 1 first ask ask",
        "interrupt_opened 2 ask",
        "status interrupted",
        "interrupt_closed 2 ask answered",
        "step 2 ask second submitted",
        "status running",
        "step 3 second ok",
        "status completed",
    ]


def test_an_interrupt_that_expires_is_told_as_closed(case: StoreCase) -> None:
    run = start(case, asking(expires_seconds=1, outcomes=["submitted", "expired"]))
    run.drain()
    case.pass_time(SECOND + 1)
    due = run.store.due(run.incarnation)
    assert due is not None
    [(what, expiry)] = due.overdue
    run.drain(run.store.expire(run.incarnation, int(what[1:]), expiry)[1])

    lines = told(run)
    assert lines[lines.index("interrupt_opened 1 ask") :] == [
        "interrupt_opened 1 ask",
        "status interrupted",
        "interrupt_closed 1 ask expired",
        "status running",
        "step 1 ask unanswered expired",
        "step 2 unanswered ok",
        "status completed",
    ]


def test_a_loop_tells_how_many_items_it_has_and_each_items_steps_by_index(case: StoreCase) -> None:
    run = start(case, each(active=2), items(3))
    run.drain()

    assert "foreach_opened 1 each 3" in told(run)
    steps = [event for event in events(run) if event.kind == "step"]
    indexes = [event.details[0].partition(":")[2] for event in steps]
    assert indexes == ["0", "1", "2", "", ""]
    assert [event.step for event in steps] == [2, 3, 4, 5, 6]


def test_a_cancelled_run_ends_with_that(case: StoreCase) -> None:
    run = start(case, line())
    run.claim(run.ready[0])
    run.store.cancel(run.incarnation)

    page = run.store.events(run.incarnation)
    assert (told(run)[-1], page.ended) == ("status cancelled", True)


def test_pausing_and_going_on_are_told_once_each(case: StoreCase) -> None:
    run = start(case, line())
    for on in (True, True, False, False):
        run.ready = (*run.ready, *run.store.pause(run.incarnation, on=on)[1])
    run.drain()

    assert told(run)[1:4] == ["paused", "status running", "unpaused"]
    assert told(run)[-1] == "status completed"


def test_attempts_that_fail_are_told_with_their_number(case: StoreCase) -> None:
    run = start(case, line(retry=SOON), lease_ms=0)
    run.finish(run.claim(run.ready[0]), error=TROUBLE)
    case.pass_time(2)
    [message] = run.store.fire(run.incarnation)[1]
    lost = run.claim(message)
    [message] = run.store.lost(run.incarnation, lost.frame, lost.token)[1]
    run.drain([message])

    assert told(run)[2:] == [
        "attempt_failed 1 first 1 step",
        "attempt_failed 1 first 2 lost",
        "step 1 first second ok",
        "step 2 second ok",
        "status completed",
    ]


def test_a_failed_run_says_where_and_tells_on_when_it_is_retried(case: StoreCase) -> None:
    run = start(case, each(active=2, interrupt="continue"), items(2))
    first, second = (run.claim(message) for message in run.work(run.ready[0]))
    run.finish(first, "ask")
    run.finish(second, error=TROUBLE)
    assert told(run)[-2:] == ["step_failed 3 work", "status failed"]
    ended = run.store.events(run.incarnation)
    assert ended.ended

    word, messages = run.store.retry_failed(run.incarnation)
    run.drain(messages)

    assert word == "retried"
    assert told(run, ended.last_id)[:2] == ["interrupt_opened 4 ask", "status running"]


@pytest.mark.parametrize("mode", ["concurrent", "serial"])
def test_an_item_that_its_loop_takes_in_is_told_as_failed(case: StoreCase, mode: str) -> None:
    run = start(case, each(active=2, item_error={"action": "skip"}, **_mode(mode)), items(2))
    queue = list(run.ready)
    while queue:
        claim = run.claim(queue.pop(0))
        step = run.store.program(run.digest).step_at(claim.view.head(claim.frame_id).position)[1].id
        queue += run.finish(claim, error=TROUBLE if step == "work" and claim.step in (2, 3) else None)

    assert [line.split()[0] for line in told(run)].count("item_failed") >= 1
    assert told(run)[-1] == "status completed"


def _mode(mode: str) -> dict[str, object]:
    return {} if mode == "concurrent" else {"mode": "serial", "concurrent": None}


def test_a_damaged_run_tells_its_end_whatever_its_events_have_become(server_case: RedisCase) -> None:
    run = start(server_case, line())
    key = server_case.keys.base(run.incarnation) + RUN_KEYS["EVENTS"]
    server_case.client.delete(key)
    server_case.client.set(key, "no stream")
    with server_case.unaudited():
        with pytest.raises(RunDamaged):
            run.claim(run.ready[0])
        assert run.store.fail_damaged(run.incarnation, RunDamaged("e has the wrong type", path="e")) == "failed"

        assert run.status == "failed"
        with pytest.raises(RunDamaged):
            run.store.events(run.incarnation)


# ---- once


def test_no_call_executed_again_tells_anything(case: StoreCase) -> None:
    run = everything(case)
    before = events(run)

    for sent in list(case.records.sent):
        if sent[0] != "pause":  # it names no revision where none was there: it pauses anew
            case.records.again(sent)

    assert events(run) == before


def test_a_refused_commit_tells_nothing(case: StoreCase) -> None:
    run = start(case, line(), lease_ms=0)
    zombie = run.claim(run.ready[0])
    transition = run.transition(zombie)
    run.store.lost(run.incarnation, zombie.frame, zombie.token)
    before = events(run)

    run.store.commit(zombie, transition)

    assert events(run) == before


# ---- reading


def test_a_reader_goes_on_behind_any_id_without_a_gap(case: StoreCase) -> None:
    run = start(case, nested(), items(2, 2))
    run.drain(chooses=asks_about(1))
    whole = events(run)

    for at, event in enumerate(whole):
        assert events(run, event.id) == whole[at + 1 :]
    page = run.store.events(run.incarnation, after=whole[-1].id)
    assert (page.events, page.last_id, page.ended, page.skipped) == ((), whole[-1].id, False, 0)


def test_the_end_shows_with_the_last_event_and_behind_it(case: StoreCase) -> None:
    run = start(case, line())
    assert not run.store.events(run.incarnation).ended
    run.drain()

    whole = run.store.events(run.incarnation)
    assert whole.ended and run.store.events(run.incarnation, after=whole.last_id).ended
    assert not run.store.events(run.incarnation, limit=4).ended
    assert run.store.events(run.incarnation, limit=5).ended


def test_the_last_ids_of_many_runs_are_read_together(case: StoreCase) -> None:
    first = start(case, line(), run_id="a")
    second = start(case, line(), run_id="b")
    first.drain()

    found = case.store.last_events([first.incarnation, "00-nothing", second.incarnation])

    assert found == [events(first)[-1].id, None, events(second)[-1].id]
    assert case.store.last_events([]) == []


@pytest.mark.parametrize("after", ["1.00000000", "99.0badcafe", "", "x", "1", "-1.0", "²." + "0" * 8])
def test_an_id_that_the_run_does_not_have_is_refused(case: StoreCase, after: str) -> None:
    run = start(case, line())

    assert refused(run, after).code == "event_id_unknown"


def test_an_id_of_another_run_is_refused(case: StoreCase) -> None:
    first, second = start(case, line(), run_id="a"), start(case, line(), run_id="b")

    assert refused(second, events(first)[0].id).code == "event_id_unknown"


@pytest.mark.parametrize("kind", [MEMORY, *SERVERS])
def test_an_id_of_a_lost_future_is_refused_also_when_its_number_is_given_out_again(
    build: Callable[[str], StoreCase], kind: str
) -> None:
    case = build(kind)
    run = start(case, line())
    claim = run.claim(run.ready[0])
    kept, known = case.snapshot(), events(run)
    run.finish(claim, "ask")
    lost = events(run)[len(known) :]

    case.restore(kept)
    assert [refused(run, event.id).code for event in lost] == ["event_id_unknown"] * 3
    run.drain(run.finish(claim, "ok"))

    assert [refused(run, event.id).code for event in lost] == ["event_id_unknown"] * 3
    assert len(events(run, known[-1].id)) == 3


def test_an_id_names_all_that_came_before_it(memory_case: MemoryCase) -> None:
    """The very same calls in another order are another history, also where number and call of an event are the same."""
    run = start(memory_case, each(active=3), items(3), new_id=counted_ids())
    claims = [run.claim(message) for message in run.work(run.ready[0])]
    kept = memory_case.snapshot()
    ids: list[str] = []
    for order in ((0, 1, 2), (1, 0, 2)):
        memory_case.restore(kept)
        for at in order:
            run.store.commit(claims[at], run.transition(claims[at]), call_id=f"commit{at}")
        ids.append(events(run)[-1].id)

    assert ids[0].partition(".")[0] == ids[1].partition(".")[0]
    assert ids[0] != ids[1]


# ---- how many are kept


@pytest.mark.parametrize("kind", [MEMORY, *SERVERS])
def test_old_events_go_and_whoever_names_one_is_told_which_is_the_oldest(
    build: Callable[[str], StoreCase], kind: str
) -> None:
    case = build(kind)
    run = start(case, line())
    first = events(run)[0]
    with case.unaudited():
        for at in range(10_400):
            run.store.pause(run.incarnation, on=at % 2 == 0)

    page = run.store.events(run.incarnation, limit=2)
    refusal = refused(run, first.id)

    assert (page.skipped, page.events[0].ordinal) == (368, 369)
    assert (refusal.code, refusal.details) == ("events_trimmed", {"oldest": page.events[0].id})
    assert run.store.events(run.incarnation, after=page.events[0].id, limit=1).events[0].ordinal == 370


# ---- the audit


def test_an_audit_misses_an_event(server_case: RedisCase) -> None:
    run = start(server_case, line())
    run.drain()
    key = server_case.keys.base(run.incarnation) + RUN_KEYS["EVENTS"]

    server_case.client.xdel(key, "3-0")
    assert audit_run(server_case.records.inner, run.incarnation) == ["4 events are kept from 1 to 5"]
    server_case.client.xdel(key, "5-0")
    assert len(audit_run(server_case.records.inner, run.incarnation)) == 3
