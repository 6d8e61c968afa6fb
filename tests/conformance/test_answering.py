"""An open interrupt takes one answer."""

from __future__ import annotations

import pytest

from tests.conformance.driving import Driver, start
from tests.conformance.workflows import line
from tests.support.stores import StoreCase
from wf_core.errors import WfError
from wf_worker.errors import RequestRefused


@pytest.fixture
def run(case: StoreCase) -> Driver:
    """A run that waits at one interrupt."""
    run = start(case, line())
    run.drain(chooses=lambda _: "ask")
    assert run.status == "interrupted"
    return run


def refused(
    run: Driver,
    outcome: str = "submitted",
    *,
    number: int | None = None,
    payload: dict[str, object] | None = None,
    **more: str,
) -> str:
    """The code with which an answer is refused."""
    with pytest.raises(WfError) as found:
        run.store.resume(run.incarnation, number or 2, dict(payload or {}), outcome, digest=run.digest, **more)
    return found.value.code


def test_an_interrupt_is_known_by_its_step_number_and_a_revision(run: Driver) -> None:
    [opened] = run.store.interrupts(run.incarnation)

    assert (opened.number, opened.request.kind, opened.request.outcomes) == (2, "approval", ["submitted"])
    assert opened.revision.partition(".")[0].isdigit() and opened.opened_ms > 0


def test_an_answer_goes_on_at_the_next_step(run: Driver) -> None:
    ready = run.answer(2)

    assert [message.node for message in ready] == ["second"]
    assert (run.status, run.numbers()) == ("running", [])
    run.drain(ready)
    assert run.status == "completed"


def test_a_second_answer_changes_nothing(case: StoreCase, run: Driver) -> None:
    run.answer(2)
    before = case.contents()

    assert refused(run) == "interrupt_answered"
    assert case.contents() == before


def test_an_answer_sent_again_is_told_that_it_was_taken(case: StoreCase, run: Driver) -> None:
    run.answer(2)
    before = case.contents()

    assert case.records.again(case.records.last("resume"))[0] == b"again"
    assert case.contents() == before


@pytest.mark.parametrize("key", ["key", "with|bars|and\nlines", "ключ"])
def test_the_same_answer_under_the_same_idempotency_key_succeeds_again(case: StoreCase, run: Driver, key: str) -> None:
    run.answer(2, idempotency_key=key)
    before = case.contents()

    assert run.answer(2, idempotency_key=key) == ()
    assert refused(run, payload={"answer": "other"}, idempotency_key=key) == "idempotency_key_reused"
    assert refused(run, idempotency_key="another") == "interrupt_answered"
    assert case.contents() == before


def test_an_answer_that_names_another_revision_is_stale(case: StoreCase, run: Driver) -> None:
    [opened] = run.store.interrupts(run.incarnation)
    before = case.contents()

    assert refused(run, revision="1.other") == "interrupt_revision_stale"
    assert case.contents() == before
    run.answer(2, revision=opened.revision)


def test_an_answer_that_does_not_fit_consumes_nothing(case: StoreCase, run: Driver) -> None:
    before = case.contents()

    assert refused(run, "rejected") == "resume_outcome_undeclared"
    assert refused(run, payload={"answer": 5}) == "resume_payload_invalid"
    assert case.contents() == before
    run.answer(2)


def test_a_number_that_was_never_open_is_not_open(run: Driver) -> None:
    assert refused(run, number=9) == "interrupt_not_open"


def test_a_cancelled_run_takes_no_answer(run: Driver) -> None:
    run.store.cancel(run.incarnation)

    assert refused(run) == "run_not_interrupted"


def test_a_deleted_run_takes_no_answer(case: StoreCase, run: Driver) -> None:
    case.drop_header(run.incarnation)

    assert refused(run) == "run_not_found"


def test_an_answer_may_be_given_while_the_run_is_paused_and_waits_until_it_goes_on(run: Driver) -> None:
    run.store.pause(run.incarnation, on=True)

    assert run.answer(2) == ()
    assert run.places() == {"paused": 1}

    _, ready = run.store.pause(run.incarnation, on=False)
    run.drain(ready)
    assert run.status == "completed"


def test_an_answer_that_meets_the_budget_fails_the_run(case: StoreCase) -> None:
    run = start(case, line(), max_steps=2)
    run.drain(chooses=lambda _: "ask")

    run.drain(run.answer())

    record = run.store.inspect(run.incarnation)
    assert record is not None and (record.status, record.steps_executed) == ("failed", 2)


def test_of_two_answers_decided_at_once_one_wins(case: StoreCase, run: Driver) -> None:
    run.answer(2)
    script, incarnation, _, args = case.records.last("resume")

    other = case.records.call(script, incarnation, "other-call", *args)

    assert other[0] == b"answered"
    assert run.status == "running"


def test_refusals_are_data(run: Driver) -> None:
    run.answer(2)
    with pytest.raises(RequestRefused) as found:
        run.answer(2)
    assert found.value.details["answered_at_ms"] > 0
