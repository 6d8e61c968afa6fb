"""What several parties decide together: the status of a run follows from what stands where."""

from __future__ import annotations

import pytest

from tests.conformance.driving import Driver, asks_about, start
from tests.conformance.workflows import each, items, line
from tests.support.stores import MEMORY, MemoryCase, StoreCase
from wf_worker.store.audit import audit_run


def test_a_run_with_an_open_interrupt_is_running_while_a_claim_lives(case: StoreCase) -> None:
    run = start(case, each(active=2), items(2))
    first, second = (run.claim(message) for message in run.work(run.ready[0]))
    run.finish(first, "ask")
    assert run.status == "running"

    run.finish(second)

    assert run.status == "interrupted"


def test_a_run_under_continue_is_running_while_anything_can_be_claimed(case: StoreCase) -> None:
    run = start(case, each(active=2, interrupt="continue"), items(4))
    first, second = run.work(run.ready[0])
    third = run.finish(run.claim(first), "ask")
    assert run.status == "running"

    run.drain([second, *third])

    assert run.status == "interrupted"


def test_a_run_whose_frames_are_held_rests_though_their_messages_are_still_out(case: StoreCase) -> None:
    run = start(case, each(active=3), items(3))
    first, *_ = run.work(run.ready[0])

    run.finish(run.claim(first), "ask")

    assert run.status == "interrupted"


def test_a_given_back_claim_lets_the_run_rest(case: StoreCase) -> None:
    run = start(case, each(active=2), items(2))
    first, second = (run.claim(message) for message in run.work(run.ready[0]))
    run.finish(first, "ask")

    case.store.give_back(second)

    assert (run.status, run.places()) == ("interrupted", {"open": 1, "held": 1, "blocked": 1})


def test_a_failing_run_has_failed_when_its_last_claim_is_gone(case: StoreCase) -> None:
    run = start(case, each(active=3), items(3))
    first, second, third = (run.claim(message) for message in run.work(run.ready[0]))
    run.finish(first, error=ValueError("broken"))
    run.finish(second)
    assert run.status == "running"

    case.store.give_back(third)

    record = run.store.inspect(run.incarnation)
    assert record is not None and record.error is not None
    assert (record.status, record.error["message"]) == ("failed", "broken")


def test_a_run_in_which_nothing_can_happen_any_more_fails_as_deadlocked(case: StoreCase) -> None:
    run = start(case, line())
    claim = run.claim(run.ready[0])

    # A transition that places nothing: no kernel decides so, and the run must not hang.
    case.records.call("commit", run.incarnation, "call", claim.frame, claim.token, 0, "", "", 0, "0", 0, 0)

    header = case.records.header(run.incarnation, ["status", "deadlocked"])
    assert header == {"status": b"failed", "deadlocked": b"1"}


def test_a_completed_run_leaves_no_frame_behind(case: StoreCase) -> None:
    run = start(case, each(active=2), items(3))
    run.drain()

    assert (run.status, run.places(), run.store.progress(run.incarnation)) == ("completed", {}, [])


def test_the_revision_of_a_run_changes_with_its_status_and_not_with_its_steps(case: StoreCase) -> None:
    run = start(case, each(active=2), items(4))
    seen: list[tuple[str, str]] = []
    queue = list(run.ready)
    while queue:
        queue += run.work(queue.pop(0))
        record = run.store.inspect(run.incarnation)
        assert record is not None
        seen.append((record.status, record.revision))

    assert len(seen) > 5 and len(set(seen)) == 2


# ---- the audit itself


def broken(case: MemoryCase) -> Driver:
    run = start(case, each(active=2), items(5))
    first, _ = run.work(run.ready[0])
    run.work(first)
    case.records.auditing = False
    return run


@pytest.mark.parametrize(
    ("damage", "finding"),
    [
        ("lost set", "says it is ready and is not in that set"),
        ("two places", "is in the set held, its head says ready"),
        ("no head", "has no head"),
        ("blocked on nothing", "is blocked on nothing"),
        ("open window", "nobody is due to admit them"),
        ("unfinished", "its controller is not due to finish it"),
        ("held by nobody", "is held and nothing holds it"),
        ("hold of nobody", "which is not open"),
        ("budget", "the run took 3 of at most 1 steps"),
        ("status", "the run is interrupted and should be running"),
        ("revision", "was given out 2 times"),
    ],
)
def test_the_audit_notices(memory_case: MemoryCase, damage: str, finding: str) -> None:
    run = broken(memory_case)
    assert audit_run(memory_case.memory, run.incarnation) == []
    records = memory_case.memory.contents.runs[run.incarnation]
    [activation] = records.activations.values()
    first, second = [key for key in records.frames if ":" in key]
    match damage:
        case "lost set":
            del records.ready[first]
        case "two places":
            records.held[first] = 1
        case "no head":
            del records.frames[first]
        case "blocked on nothing":
            records.frames[first].place = "blocked"
            del records.ready[first]
        case "open window":
            activation.max_active = 4
        case "unfinished":
            activation.items = activation.next_index = 1
        case "held by nobody":
            records.frames[first].place = "held"
            records.held[first] = records.ready.pop(first)
        case "hold of nobody":
            records.holds["run"] = "2"
        case "budget":
            records.header.update(steps=b"3", max_steps=b"1")
        case "status":
            records.header["status"] = b"interrupted"
        case _:
            records.frames[first].rev = records.frames[second].rev

    assert any(finding in sentence for sentence in audit_run(memory_case.memory, run.incarnation))


def test_the_audit_of_a_run_that_is_not_there_finds_nothing(case: StoreCase) -> None:
    assert audit_run(case.records.inner, case.keys.incarnation("none", "none")) == []


def test_asking_about_every_item_rests_with_one_question_each(case: StoreCase) -> None:
    run = start(case, each(active=2, outstanding=5, interrupt="continue"), items(5))

    run.drain(chooses=asks_about(0, 1, 2, 3, 4))

    assert (len(run.numbers()), run.status) == (5, "interrupted")
    assert case.kind != MEMORY or case.contents()
