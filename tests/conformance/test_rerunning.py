"""A rerun is a new run with the state as it was when a root step was first reached, however the other run went on."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.copying import large_values, pages, record, rerun, state_of
from tests.conformance.driving import Driver, start
from tests.conformance.workflows import each, items, line, nested, one_by_one, rounds
from tests.support.stores import RedisCase, Sent, StoreCase
from wf_core.errors import WfError
from wf_core.models import Workflow
from wf_worker.errors import RunDamaged
from wf_worker.store.keys import RUN_KEYS
from wf_worker.store.protocol import Claim

BIG = 300_000
"""More bytes than a state field may have inside a commit."""


def rounds_taken(case: StoreCase, count: int, value: str = "x", *, run_id: str = "run", **more: Any) -> Driver:
    """A run that went round so often before it came to ``after``."""
    run = start(case, rounds(**more), {"value": value}, run_id=run_id)
    taken: list[None] = []

    def chooses(claim: Claim) -> str:
        if claim.view.own.node_id == f"step{more.get('steps', 2) - 1}":
            taken.append(None)
            return "ask" if len(taken) < count else "ok"
        return "ok"

    run.drain(chooses=chooses)
    assert run.status == "completed"
    return run


def refused(code: str, act: Any) -> WfError:
    with pytest.raises(WfError) as found:
        act()
    assert found.value.code == code
    return found.value


@pytest.mark.parametrize(("step", "values"), [("step0", 0), ("step1", 1), ("after", 6)])
def test_the_state_is_the_one_of_the_first_time_that_the_step_was_reached(
    case: StoreCase, step: str, values: int
) -> None:
    run = rounds_taken(case, 3)
    before = state_of(run)

    again = rerun(run, step)

    assert state_of(again).get("values", []) == ["x"] * values
    again.drain()
    assert state_of(again)["values"] == ["x"] * (6 if step == "after" else 2)
    assert (run.status, state_of(run)) == ("completed", before)


def test_a_rerun_is_a_run_of_its_own_that_says_where_it_comes_from(case: StoreCase) -> None:
    run = rounds_taken(case, 2)

    again = rerun(run, "step1", extras={"keep": "1,2,3"})

    found = run.store.inspect(again.incarnation)
    assert found is not None
    assert found.forked_from == {"run_id": "run", "incarnation": run.incarnation, "step": "step1"}
    assert (found.status, found.steps_executed, found.trace_count, found.max_steps) == ("pending", 0, 0, 10_000)
    claim = again.claim(again.ready[0])
    assert (claim.step, claim.attempt, claim.view.own.node_id) == (1, 1, "step1")
    assert (claim.view.own.prior_outcome, claim.view.own.activated_incoming_edge) == ("ok", "step0")
    assert claim.view.workflow_input("root") == {"value": "x"}


def test_a_rerun_from_the_first_step_is_a_start_with_the_same_input(case: StoreCase) -> None:
    run = rounds_taken(case, 2)

    again = rerun(run, "step0")

    claim = again.claim(again.ready[0])
    assert (claim.view.own.prior_outcome, claim.view.own.activated_incoming_edge) == (None, None)
    assert state_of(again) == {"value": "x"}


def test_a_rerun_can_be_rerun_from_its_own_first_step_and_not_from_those_before(case: StoreCase) -> None:
    run = rounds_taken(case, 3)
    again = rerun(run, "after", patch={"values": ["patched"]})
    again.drain()

    third = rerun(again, "after", "third")

    assert state_of(third)["values"] == ["patched"]
    refused("step_not_reached", lambda: rerun(again, "step0", "fourth"))


def test_a_step_that_was_not_reached_is_refused(case: StoreCase) -> None:
    run = start(case, line())
    before = case.contents()

    assert refused("step_not_reached", lambda: rerun(run, "second")).path == "from"
    assert case.contents() == before


def test_an_unknown_step_is_refused(case: StoreCase) -> None:
    run = start(case, line())

    refused("unknown_step", lambda: rerun(run, "nowhere"))


@pytest.mark.parametrize(
    ("workflow", "loop"), [(each(), "each"), (one_by_one(), "each"), (nested(), "outer")], ids=["c", "s", "nested"]
)
def test_a_step_inside_a_loop_is_refused_and_its_loop_named(case: StoreCase, workflow: Workflow, loop: str) -> None:
    run = start(case, workflow, items(2, 2))
    run.drain()

    assert loop in str(refused("step_not_rerunnable", lambda: rerun(run, "work")).hint)


@pytest.mark.parametrize("workflow", [each(), one_by_one()], ids=["concurrent", "serial"])
def test_a_loop_is_rerun_whole_and_the_step_after_it_with_its_results(case: StoreCase, workflow: Workflow) -> None:
    run = start(case, workflow, items(3))
    run.drain()
    values = state_of(run)["values"]
    assert len(values) == 3

    loop, after = rerun(run, "each"), rerun(run, "after", "second")

    assert "values" not in state_of(loop) and state_of(after)["values"] == values
    for again in (loop, after):
        again.drain()
        assert (again.status, state_of(again)["values"]) == ("completed", values)


def test_a_question_at_the_root_is_asked_again(case: StoreCase) -> None:
    run = start(case, line())
    run.drain(chooses=lambda _: "ask")
    run.drain(run.answer())

    again = rerun(run, "ask")
    again.drain()

    assert again.status == "interrupted"
    again.drain(again.answer())
    assert again.status == "completed"


def test_a_run_that_is_moving_may_be_rerun_and_what_is_read_changes_no_more(case: StoreCase) -> None:
    run = start(case, rounds(target="state.last"), {"value": "x" * BIG})
    run.finish(run.claim(run.work(run.ready[0])[0]), "ask")

    def goes_on(sent: Sent) -> None:
        if sent[0] == "copy_begin":
            case.records.after = lambda _sent: None
            run.store.cancel(run.incarnation)

    case.records.after = goes_on
    again = rerun(run, "step1")

    assert run.status == "cancelled"
    assert state_of(again)["last"] == "x" * BIG


def test_a_field_that_is_written_between_two_pages_is_read_as_it_was(case: StoreCase) -> None:
    run = start(case, rounds(target="state.last"), {"value": "x"})
    [second] = run.work(run.ready[0])
    seen: list[str] = []

    def goes_on(sent: Sent) -> None:
        seen.append(sent[0])
        if sent[0] == "past" and seen.count("past") == 1:
            run.drain([second], lambda _: "ok")

    case.records.after = goes_on
    again = rerun(run, "step0")
    case.records.after = lambda _sent: None

    assert run.status == "completed" and "last" in state_of(run)
    assert "last" not in state_of(again)


def test_large_values_are_kept_for_as_long_as_a_step_may_be_rerun_with_them(case: StoreCase) -> None:
    run = rounds_taken(case, 4, "x" * BIG, target="state.last")

    # The one that step1 found and the one that `after` found, not one for each of eight writes.
    assert large_values(run) == 2
    for step, present in (("step0", False), ("step1", True), ("after", True)):
        again = rerun(run, step, f"from-{step}")
        assert (state_of(again).get("last") == "x" * BIG) is present
        again.drain()
        assert again.status == "completed"


def test_a_large_value_that_is_gone_before_it_was_copied_makes_no_run(server_case: RedisCase) -> None:
    run = rounds_taken(server_case, 1, "x" * BIG, target="state.last")
    server_case.records.auditing = False
    for key in server_case.names():
        if b":" + RUN_KEYS["STAGED"].encode() in key:
            server_case.client.delete(key)

    refused("damaged", lambda: rerun(run, "after"))
    assert run.store.newest("copy") is None


def test_a_patch_is_over_the_state_of_the_past(case: StoreCase) -> None:
    run = rounds_taken(case, 2)

    again = rerun(run, "step1", patch={"values": ["a", "b"]})

    assert state_of(again)["values"] == ["a", "b"]
    refused("state_patch_invalid", lambda: rerun(run, "step1", "other", patch={"values": 1}))


def test_a_run_of_any_end_may_be_rerun(case: StoreCase) -> None:
    for number, end in enumerate(("fail", "cancel", "damage")):
        run = start(case, rounds(), {"value": "x"}, run_id=end)
        [message] = run.work(run.ready[0])
        if end == "fail":
            run.finish(run.claim(message), error=ValueError("no"))
        elif end == "cancel":
            run.store.cancel(run.incarnation)
        else:
            run.store.fail_damaged(run.incarnation, RunDamaged("a record is gone", path="b"))

        again = rerun(run, "step1", f"copy{number}")
        again.drain()

        assert again.status == "completed" and state_of(again)["values"] == ["x", "x"]


def test_a_budget_and_a_deadline_begin_anew(case: StoreCase) -> None:
    run = start(case, rounds(), {"value": "x"}, extras={"deadline_ms": "600000"}, max_steps=7)
    run.drain()

    again = rerun(run, "step1", max_steps=1)

    found = run.store.inspect(again.incarnation)
    assert found is not None and found.max_steps == 1 and found.deadline_ms == found.created_ms + 600_000
    again.drain()
    assert again.status == "failed"


def test_every_call_of_a_rerun_executed_again_at_once_or_later_changes_nothing(case: StoreCase) -> None:
    run = rounds_taken(case, 2, "x" * BIG, target="state.last")
    made: list[Sent] = []

    def twice(sent: Sent) -> None:
        if sent[0].startswith(("copy_", "past")):
            made.append(sent)
            before = case.contents()
            case.records.again(sent)
            assert case.contents() == before, f"{sent[0]} executed again"

    case.records.after = twice
    again = rerun(run, "after")
    case.records.after = lambda _sent: None
    before = case.contents()
    for sent in made:
        case.records.again(sent)
        assert case.contents() == before, f"{sent[0]} executed much later"

    again.drain()
    assert again.status == "completed"


def test_nothing_is_left_of_a_run_with_a_journal(case: StoreCase) -> None:
    run = rounds_taken(case, 2, "x" * BIG, target="state.last")
    again = rerun(run, "after", extras={"keep": "1,1,1"})
    again.drain()
    case.pass_time(2)

    while (word := again.store.reap(again.incarnation)) == "more":
        pass

    assert word == "reaped" and again.incarnation not in str(case.contents())


# ---- what the journal costs


def journal_bytes(run: Driver) -> int:
    """What a run keeps of its past, large values included."""
    journal = pages(run, "hash", RUN_KEYS["JOURNAL"])
    large = [name.decode() for name in record(run, "set", RUN_KEYS["NAMES"]) if name.startswith(b"x:")]
    return sum(map(len, journal)) + sum(len(record(run, "text", name)) for name in large)


def test_a_field_that_never_changes_is_not_kept_again_over_200_steps(memory_case: StoreCase) -> None:
    run = start(memory_case, rounds(steps=200), {"value": "0123456789", "items": [{"name": "n" * 1_000_000}]})
    with memory_case.unaudited():
        run.drain()

    assert run.status == "completed"
    assert journal_bytes(run) < 500_000
    with memory_case.unaudited():
        assert state_of(rerun(run, "step150"))["values"] == ["0123456789"] * 150


def test_the_journal_does_not_grow_with_the_rounds_of_a_cycle(memory_case: StoreCase) -> None:
    few = rounds_taken(memory_case, 2, "y" * 100, run_id="few", target="state.last")
    with memory_case.unaudited():
        many = rounds_taken(memory_case, 50, "y" * 100, run_id="many", target="state.last")

    assert journal_bytes(few) == journal_bytes(many) < 1000


def test_a_run_keeps_no_more_of_its_past_than_its_bound(memory_case: StoreCase) -> None:
    size = 1_000_000
    run = start(memory_case, rounds(steps=60, target="state.last"), {"value": "x" * size})
    with memory_case.unaudited():
        run.drain()
    assert run.status == "completed"

    # The present value of the last field is a small one.
    assert 30 * size < journal_bytes(run) <= 32 * 1024 * 1024 + 1000
    assert large_values(run) == 33
    with memory_case.unaudited():
        assert state_of(rerun(run, "step20", "kept"))["last"] == "x" * size
        before = memory_case.contents()
        refused("step_state_not_kept", lambda: rerun(run, "step40", "lost"))
    assert memory_case.contents() == before


def test_what_was_lost_of_the_past_is_refused_by_every_store(case: StoreCase) -> None:
    run = start(case, rounds(steps=4, target="state.last"), {"value": "x"})
    [message] = run.work(run.ready[0])
    kept = {"kept": str(32 * 1024 * 1024)}
    case.put_header(run.incarnation, kept)
    run.drain([message])
    assert run.status == "completed"

    assert state_of(rerun(run, "step0", "kept")) == {"value": "x"}
    before = case.contents()
    refused("step_state_not_kept", lambda: rerun(run, "step2", "lost"))
    assert case.contents() == before


def test_items_of_a_serial_loop_keep_one_value_however_many_they_are(memory_case: StoreCase) -> None:
    sizes: list[int] = []
    for count in (3, 60):
        run = start(memory_case, one_by_one(), items(count), run_id=f"r{count}")
        with memory_case.unaudited():
            run.drain()
        sizes.append(len(pages(run, "hash", RUN_KEYS["JOURNAL"])))

    assert sizes[0] == sizes[1]
