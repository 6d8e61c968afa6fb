"""A run is created whole or not at all, once for each incarnation, under the policies for an id in use."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.driving import start
from tests.conformance.workflows import line
from tests.support.stores import StoreCase
from wf_worker.store.protocol import RunFilter


def test_a_new_run_is_pending_with_one_message_for_its_root(case: StoreCase) -> None:
    run = start(case, line(), {"value": "x"})

    assert run.status == "pending"
    assert [ready.node for ready in run.ready] == ["first"]
    assert case.store.newest("run") == run.incarnation


def test_creating_again_under_the_same_incarnation_gives_the_same_answer(case: StoreCase) -> None:
    digest = case.store.publish(line()).digest
    new = case.store.new_run("run", digest, {}, max_steps=5)
    first = case.store.create(new)
    before = case.contents()

    second = case.store.create(new)

    assert (second.created, second.incarnation, second.ready) == (True, first.incarnation, ())
    assert case.contents() == before


@pytest.mark.parametrize("policies", [{}, {"closed_policy": "allow"}])
def test_an_id_in_use_by_an_open_run_is_refused_with_the_run_that_uses_it(
    case: StoreCase, policies: dict[str, Any]
) -> None:
    run = start(case, line())
    before = case.contents()

    second = case.store.create(case.store.new_run("run", run.digest, {}, max_steps=5, **policies))

    assert (second.created, second.incarnation, second.status) == (False, run.incarnation, "pending")
    assert case.contents() == before


@pytest.mark.parametrize(
    ("ending", "policy", "allowed"),
    [
        ("completed", "reject", False),
        ("completed", "allow", True),
        ("completed", "allow_after_failure", False),
        ("cancelled", "reject", False),
        ("cancelled", "allow", True),
        ("cancelled", "allow_after_failure", True),
    ],
)
def test_the_policy_decides_whether_a_closed_id_is_used_again(
    case: StoreCase, ending: str, policy: str, allowed: bool
) -> None:
    run = start(case, line())
    if ending == "completed":
        run.drain()
    else:
        case.store.cancel(run.incarnation)
    assert run.status == ending

    second = case.store.create(case.store.new_run("run", run.digest, {}, max_steps=5, closed_policy=policy))

    assert second.created is allowed
    assert (case.store.newest("run") == second.incarnation) and (second.incarnation != run.incarnation) is allowed


def test_the_id_of_a_deleted_run_is_free(case: StoreCase) -> None:
    run = start(case, line())
    case.drop_header(run.incarnation)

    assert case.store.create(case.store.new_run("run", run.digest, {}, max_steps=5)).created


def test_a_create_that_comes_after_its_latest_time_makes_nothing(case: StoreCase) -> None:
    start(case, line())
    script, _, call_id, args = case.records.last("create")
    incarnation = case.keys.incarnation("other", "late")
    before = case.contents()

    reply = case.records.call(script, incarnation, call_id, 1, "other", *args[2:])

    assert reply[0] == b"late"
    assert case.contents() == before


def test_runs_are_listed_by_status_newest_first(case: StoreCase) -> None:
    for name in ("a", "b", "c"):
        start(case, line(), run_id=name)
        case.pass_time(2)
    case.store.cancel(case.store.newest("b") or "")

    everything, _ = case.store.list_runs()
    cancelled, _ = case.store.list_runs(RunFilter(status="cancelled"))
    first_two, following = case.store.list_runs(limit=2)
    rest, end = case.store.list_runs(limit=2, before=following)

    assert [record.run_id for record in everything] == ["c", "b", "a"]
    assert [record.run_id for record in cancelled] == ["b"]
    assert [record.run_id for record in (*first_two, *rest)] == ["c", "b", "a"] and end is None
    assert (case.store.count_runs(), case.store.count_runs(RunFilter(status="pending"))) == (3, 2)


def test_a_reserved_key_keeps_its_first_value(case: StoreCase) -> None:
    assert case.store.reserve("key", {"n": 1}, 60) == {"n": 1}
    assert case.store.reserve("key", {"n": 2}, 60) == {"n": 1}


def test_a_store_keeps_the_first_name_it_was_given(case: StoreCase) -> None:
    assert case.records.identity("first") == "first"
    assert case.records.identity("second") == "first"


def test_a_version_is_bound_to_one_document_for_ever(case: StoreCase) -> None:
    assert case.records.add_version("flow", "1", "a") == "a"
    assert case.records.add_version("flow", "1", "b") == "a"
    assert (case.records.versions("flow"), case.records.flow_names()) == ({"1": "a"}, ["flow"])
