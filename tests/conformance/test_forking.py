"""A fork is a run of its own that goes on from where another one stood, and changes nothing of that one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.copying import everything_of, forked, new_copy, rerun, state_of
from tests.conformance.driving import Driver, start
from tests.conformance.test_retention import names
from tests.conformance.workflows import each, items, line, nested, one_by_one, resting, rounds
from tests.support.stores import MemoryCase, RedisCase, Sent, StoreCase
from wf_core.errors import WfError
from wf_core.models import Workflow
from wf_worker.errors import RunDamaged
from wf_worker.store.forks import COPIED_HASHES, COPIED_SCORES
from wf_worker.store.keys import RUN_KEYS, tag_index, workflow_index
from wf_worker.store.protocol import Claim

WORKFLOWS: dict[str, tuple[Workflow, dict[str, Any]]] = {
    "line": (line(), {"value": "x"}),
    "large": (line(), {"value": "x" * 300_000}),
    "nested": (nested(outer="continue", inner="quiesce", active=3), items(4, 3)),
    "held": (each(active=3, outstanding=5, follow_up=True), items(90)),
    "continue": (each(active=2, outstanding=4, interrupt="continue", follow_up=True), items(9)),
}


def asking_once(claim: Claim) -> str:
    """The first step asks, and so do the items with the index 1."""
    return "ask" if claim.frame.endswith(":1") or ":" not in claim.frame else "ok"


def resting_run(case: StoreCase, name: str) -> Driver:
    """A run of one of the workflows that waits for answers."""
    workflow, workflow_input = WORKFLOWS[name]
    run = start(case, workflow, workflow_input)
    run.drain(chooses=asking_once)
    assert run.status == "interrupted"
    return run


def finish(run: Driver) -> Any:
    """Answers whatever is asked and sweeps whatever is due, to the end. The run as it is then, and its state."""
    for _ in range(200):
        run.drain()
        if run.status == "completed":
            break
        due = run.store.due(run.incarnation)
        assert due is not None
        for frame in due.unclaimed:
            run.ready += run.store.republish(run.incarnation, frame.frame, frame.score, look_ms=1000, send=True)[1]
        run.ready = run.answer() if run.numbers() else (*run.ready, *run.store.release(run.incarnation))
    record = run.store.inspect(run.incarnation)
    assert record is not None and record.status == "completed"
    return record.outcome, record.output, record.steps_executed, record.trace_count, state_of(run)


def refused(code: str, act: Any) -> WfError:
    with pytest.raises(WfError) as found:
        act()
    assert found.value.code == code
    return found.value


@pytest.mark.parametrize("name", sorted(WORKFLOWS))
def test_a_fork_of_a_waiting_run_holds_all_that_the_run_holds_and_ends_as_it_ends(case: StoreCase, name: str) -> None:
    run = resting_run(case, name)
    before = everything_of(run)

    fork = forked(run)

    assert (fork.status, fork.numbers()) == ("interrupted", run.numbers())
    assert everything_of(fork) == before
    assert finish(fork) == finish_untouched(run, before)


def finish_untouched(run: Driver, before: dict[str, Any]) -> Any:
    """The run was not changed by what was done to its fork, and goes on by itself."""
    assert everything_of(run) == before
    return finish(run)


def test_a_fork_says_where_it_comes_from_and_is_a_run_of_its_own(case: StoreCase) -> None:
    run = resting_run(case, "line")

    fork = forked(run, extras={"keep": "1,2,3"})

    record = run.store.inspect(fork.incarnation)
    assert record is not None
    assert record.forked_from == {"run_id": "run", "incarnation": run.incarnation, "step": None}
    assert run.store.newest("copy") == fork.incarnation and run.store.newest("run") == run.incarnation
    assert {entry.run_id for entry in run.store.list_runs()[0]} == {"run", "copy"}
    assert {incarnation for incarnation, _ in run.store.inbox()[0]} == {run.incarnation, fork.incarnation}
    run.store.cancel(run.incarnation)
    assert fork.status == "interrupted"


def test_a_fork_of_a_failed_run_goes_on_with_what_failed(case: StoreCase) -> None:
    run = start(case, each(active=3), items(4))
    [*others] = run.work(run.ready[0])
    run.finish(run.claim(others.pop(0)), error=ValueError("no"))
    run.drain(others)
    assert run.status == "failed"

    fork = forked(run)

    assert fork.status == "running" and fork.places()["ready"] >= 1
    record = run.store.inspect(fork.incarnation)
    assert record is not None and record.error is None and record.ended_ms is None
    finish(fork)
    assert run.status == "failed"


def test_a_fork_of_a_run_that_used_its_budget_needs_a_larger_one(case: StoreCase) -> None:
    run = start(case, line(), max_steps=1)
    run.drain()
    assert run.status == "failed"

    refusal = refused("step_budget_used", lambda: forked(run, max_steps=1))
    fork = forked(run, max_steps=5)

    assert refusal.path == "limits.max_steps"
    finish(fork)


def test_a_fork_of_a_cancelled_run_goes_on_and_what_somebody_was_at_begins_anew(case: StoreCase) -> None:
    run = start(case, each(active=2), items(3))
    first, second = run.work(run.ready[0])
    claim = run.claim(first)
    run.store.cancel(run.incarnation)

    fork = forked(run)

    assert fork.places() == {"blocked": 1, "ready": 2}
    assert run.store.renew(claim) == "cancelled"
    messages = {message.frame: message for message in fork.ready}
    assert set(messages) == {claim.frame, second.frame}
    again = fork.claim(messages[claim.frame])
    assert (again.step, again.attempt, again.losses) == (claim.step, 2, 0)


def test_a_fork_of_a_paused_run_is_paused_until_it_is_let_go_on(case: StoreCase) -> None:
    run = start(case, line())
    claim = run.claim(run.ready[0])
    run.store.pause(run.incarnation, on=True)
    refused("run_not_at_rest", lambda: forked(run))
    run.finish(claim)

    fork = forked(run)

    assert (fork.status, fork.places()) == ("running", {"paused": 1})
    fork.ready = run.store.pause(fork.incarnation, on=False)[1]
    finish(fork)
    assert run.places() == {"paused": 1}


def test_a_fork_of_a_run_that_waits_for_a_time_waits_for_the_same_time(memory_case: MemoryCase) -> None:
    run = start(memory_case, resting(for_seconds=60))
    run.drain()
    run.store.pause(run.incarnation, on=True)
    memory_case.clock.advance(10_000)

    fork = forked(run)

    assert everything_of(fork)["waits"] == everything_of(run)["waits"]
    run.store.pause(fork.incarnation, on=False)
    memory_case.clock.advance(50_000)
    fork.drain(run.store.fire(fork.incarnation)[1])
    assert fork.status == "completed"


def test_a_deadline_begins_anew_in_a_fork(memory_case: MemoryCase) -> None:
    run = start(memory_case, line(), extras={"deadline_ms": "60000"})
    run.drain(chooses=asking_once)
    memory_case.clock.advance(59_000)

    fork = forked(run)

    assert everything_of(fork)["due"] == {b"run": str(memory_case.clock.now_ms + 60_000).encode()}


def test_only_a_run_at_rest_that_can_go_on_is_forked(case: StoreCase) -> None:
    run = start(case, line())

    assert refused("run_not_at_rest", lambda: forked(run)).hint
    run.drain()
    assert "rerun" in str(refused("run_completed", lambda: forked(run)).hint)


def test_a_damaged_run_is_not_forked(case: StoreCase) -> None:
    run = resting_run(case, "line")
    run.store.fail_damaged(run.incarnation, RunDamaged("a record is gone", path="b"))

    refused("run_damaged", lambda: forked(run))


def test_an_unknown_run_is_not_forked(case: StoreCase) -> None:
    run = start(case, line())
    run.incarnation = case.keys.incarnation("other", "none")

    refused("run_not_found", lambda: forked(run))


def test_a_patch_replaces_fields_of_the_fork_and_leaves_its_past_alone(case: StoreCase) -> None:
    run = start(case, rounds(), {"value": "x"})
    run.finish(run.claim(run.ready[0]))
    run.store.pause(run.incarnation, on=True)

    fork = forked(run, patch={"values": ["patched"], "answer": {"a": [1, None]}})

    assert state_of(fork)["values"] == ["patched"] and state_of(fork)["answer"] == {"a": [1, None]}
    assert state_of(run)["values"] == ["x"]
    assert state_of(rerun(fork, "step1", "third"))["values"] == ["x"]
    assert "values" not in state_of(rerun(fork, "step0", "fourth"))
    run.store.pause(fork.incarnation, on=False)
    fork.drain()
    assert state_of(fork)["values"] == ["patched", "x"]


@pytest.mark.parametrize(
    ("patch", "path"),
    [({"nobody": 1}, "patch.nobody"), ({"values": "no list"}, "patch.values"), ({"value": 1}, "patch.value")],
)
def test_a_patch_that_the_workflow_does_not_allow_is_refused_and_nothing_is_made(
    case: StoreCase, patch: dict[str, Any], path: str
) -> None:
    run = resting_run(case, "line")
    before = case.contents()

    assert refused("state_patch_invalid", lambda: forked(run, patch=patch)).path == path
    assert case.contents() == before


def test_a_run_that_moves_while_it_is_copied_is_not_forked(case: StoreCase) -> None:
    run = resting_run(case, "nested")

    def answered_meanwhile() -> None:
        case.records.before = lambda: None
        run.answer()

    case.records.after = lambda sent: answered_meanwhile() if sent[0] == "copy_begin" else None
    refused("run_not_at_rest", lambda: forked(run))
    case.records.after = lambda _sent: None

    assert run.store.newest("copy") is None
    assert [entry.run_id for entry in run.store.list_runs()[0]] == ["run"]
    refused("run_not_at_rest", lambda: forked(run))


def test_a_fork_whose_maker_died_is_nobodys_run_and_can_be_made_again(case: StoreCase) -> None:
    run = resting_run(case, "held")
    before = everything_of(run)
    made: list[Sent] = []

    def dies(sent: Sent) -> None:
        made.append(sent)
        if len(made) == 6:
            raise ConnectionError("the maker is gone")

    case.records.after = dies
    with pytest.raises(ConnectionError):
        forked(run)
    case.records.after = lambda _sent: None

    incarnation = new_copy(case).incarnation
    assert run.store.inspect(incarnation) is None and run.store.newest("copy") is None
    assert run.store.cancel(incarnation) == "gone" and run.store.due(incarnation) is None
    assert everything_of(forked(run)) == before


def test_a_run_that_is_removed_while_it_is_copied_is_not_forked(case: StoreCase) -> None:
    run = start(case, line(), {"value": "x"}, extras={"keep": "1,1,1"})
    run.drain(chooses=asking_once)
    run.store.cancel(run.incarnation)
    case.pass_time(2)

    def removed(sent: Sent) -> None:
        if sent[0] == "copy_begin":
            case.records.after = lambda _sent: None
            while run.store.reap(run.incarnation) == "more":
                pass

    case.records.after = removed
    refused("run_not_found", lambda: forked(run))
    assert run.store.newest("copy") is None


def half_made(case: StoreCase) -> Driver:
    """A fork that its maker never opened."""
    run = resting_run(case, "nested")
    opened = case.records.call

    def call(script: str, *args: Any) -> Any:
        if script == "copy_open":
            raise ConnectionError("the maker is gone")
        return opened(script, *args)

    case.records.call = call
    with pytest.raises(ConnectionError):
        forked(run)
    case.records.call = opened
    return Driver(case, run.store, new_copy(case).incarnation, run.digest, ())


def test_nothing_is_left_of_a_fork_that_was_left_half_made(memory_case: MemoryCase) -> None:
    fork = half_made(memory_case)
    shard = memory_case.keys.shard_of_incarnation(fork.incarnation)

    memory_case.clock.advance(599_999)
    assert fork.incarnation not in memory_case.store.sweep(shard)
    assert fork.store.reap(fork.incarnation) == "refused"
    memory_case.clock.advance(1)
    assert fork.incarnation in memory_case.store.sweep(shard)
    due = fork.store.due(fork.incarnation)
    assert due is not None and due.reap
    assert fork.store.reap(fork.incarnation) == "reaped"

    assert [name for name in names(memory_case, fork) if fork.incarnation in name] == []


def test_a_half_made_fork_is_removed_page_by_page_and_cannot_be_opened_any_more(server_case: RedisCase) -> None:
    fork = half_made(server_case)
    client, base = server_case.client, server_case.keys.base(fork.incarnation)
    client.hset(base + RUN_KEYS["HEADER"], "open_by", "1")
    due = fork.store.due(fork.incarnation)
    assert due is not None and due.reap

    opened = fork.store.records.call("copy_open", fork.incarnation, "late", "copy", "", 0, "fork")
    pages = 1
    while (word := fork.store.reap(fork.incarnation, most=3)) == "more":
        pages += 1
        filled = ("copy_fill", fork.incarnation, "late", "hash", "b", "", 0, 2, "x", "y")
        assert fork.store.records.call(*filled)[0] == b"gone"

    assert (opened[0], word) == (b"late", "reaped") and pages > 3
    assert [key for key in server_case.names() if fork.incarnation.encode() in key] == []
    assert fork.incarnation not in str(server_case.contents())


def test_nothing_is_left_of_a_fork_that_has_ended(case: StoreCase) -> None:
    run = resting_run(case, "nested")
    fork = forked(run, extras={"keep": "1,1,1"})
    fork.store.cancel(fork.incarnation)
    case.pass_time(2)

    while (word := fork.store.reap(fork.incarnation)) == "more":
        pass

    assert word == "reaped"
    assert [name for name in names(case, fork) if fork.incarnation in name] == []


def test_every_call_of_a_fork_executed_again_at_once_or_later_changes_nothing(case: StoreCase) -> None:
    run = resting_run(case, "nested")
    made: list[Sent] = []

    def twice(sent: Sent) -> None:
        if sent[0].startswith("copy_"):
            made.append(sent)
            before = case.contents()
            case.records.again(sent)
            assert case.contents() == before, f"{sent[0]} executed again"

    case.records.after = twice
    fork = forked(run)
    case.records.after = lambda _sent: None
    before = case.contents()
    for sent in made:
        case.records.again(sent)
        assert case.contents() == before, f"{sent[0]} executed much later"

    assert {sent[0] for sent in made} == {"copy_begin", "copy_fill", "copy_open"}
    finish(fork)


def test_a_fork_sent_again_is_one_run(case: StoreCase) -> None:
    run = resting_run(case, "line")

    first, second = (run.store.fork(run.incarnation, new_copy(case)) for _ in range(2))

    assert (first.incarnation, second.incarnation) == (new_copy(case).incarnation,) * 2
    assert second.created and second.ready == () and run.store.count_runs() == 2


def test_a_fork_does_not_take_an_id_that_is_in_use(case: StoreCase) -> None:
    run = resting_run(case, "line")
    other = start(case, line(), run_id="copy")

    created = run.store.fork(run.incarnation, new_copy(case))

    assert (created.created, created.incarnation) == (False, other.incarnation)


def test_an_id_that_is_taken_while_a_fork_is_made_stays_with_its_run(case: StoreCase) -> None:
    run = resting_run(case, "line")

    def taken(sent: Sent) -> None:
        if sent[0] == "copy_begin":
            case.records.after = lambda _sent: None
            start(case, line(), run_id="copy")

    case.records.after = taken
    created = run.store.fork(run.incarnation, new_copy(case))

    assert not created.created and run.store.newest("copy") == created.incarnation != new_copy(case).incarnation


def test_a_copy_that_comes_after_its_latest_time_makes_nothing(case: StoreCase) -> None:
    run = resting_run(case, "line")
    forked(run)
    script, _, call_id, args = case.records.last("copy_begin")
    other = case.keys.incarnation("copy", "other")
    before = case.contents()

    answer = case.records.call(script, other, call_id, 1, *args[1:])

    assert answer[0] == b"late" and case.contents() == before


def test_every_record_of_a_run_is_copied_or_left_out_on_purpose() -> None:
    left_out = {"HEADER", "EVENTS", "TAKEN"}  # they begin anew
    named = {"LINEAGE", "OVERLAY", "STAGED", "STATE", "ITEMS", "RESULTS", "WAITING"}
    copied = {*COPIED_HASHES, *COPIED_SCORES, "FRAMES", "NAMES", "TRACE"}

    assert copied | named | left_out == set(RUN_KEYS)


def test_a_run_with_a_deadline_that_has_passed_can_be_forked(memory_case: MemoryCase) -> None:
    run = start(memory_case, line(), extras={"deadline_ms": "1000"})
    claim = run.claim(run.ready[0])
    memory_case.clock.advance(1000)
    score = str(memory_case.clock.now_ms)
    assert run.store.end_at_deadline(run.incarnation, score) == "failed"

    fork = forked(run)

    assert fork.places() == {"ready": 1}
    assert run.claim(fork.ready[0]).step == claim.step
    assert run.status == "failed"


def test_a_fork_in_the_middle_of_a_serial_loop_goes_on_there(case: StoreCase) -> None:
    run = start(case, one_by_one(), items(3))
    ready = run.work(run.ready[0])
    ready = run.work(ready[0])
    run.store.pause(run.incarnation, on=True)

    fork = forked(run)
    for each_run, messages in ((fork, fork.ready), (run, ready)):
        run.store.pause(each_run.incarnation, on=False)
        each_run.drain(messages)

    assert fork.status == run.status == "completed" and state_of(fork) == state_of(run)


def test_copies_are_found_by_the_tags_and_the_workflow_of_their_source(case: StoreCase) -> None:
    digest = case.store.publish(line()).digest
    tags = {"team": "red"}
    created = case.store.create(case.store.new_run("run", digest, {"value": "x"}, max_steps=9, tags=tags))
    run = Driver(case, case.store, created.incarnation, digest, created.ready)
    run.drain(chooses=asking_once)

    copies = {forked(run).incarnation, rerun(run, "first", "again", extras={"keep": "1,1,1"}).incarnation}

    for index in (tag_index("team", "red"), workflow_index("line")):
        found = {name for shard in range(case.keys.shards) for name, _ in case.records.page(shard, index, 9)}
        assert found == {run.incarnation, *copies}
    [record] = [entry for entry in case.store.list_runs()[0] if entry.run_id == "copy"]
    assert record.tags == tags


def test_a_patch_larger_than_a_field_may_be_is_refused(case: StoreCase) -> None:
    run = resting_run(case, "line")
    run.store = case.new_store(field_bytes=100)

    assert refused("payload_too_large", lambda: forked(run, patch={"last": "x" * 100})).path == "patch.last"
    assert forked(run, patch={"last": "x" * 90}).status == "interrupted"
