"""Retry policies: what step and capability say together, which errors are tried again, and after how long."""

from __future__ import annotations

from typing import Any

import pytest

from wf_core.errors import NonRetryable, WorkflowExecutionError
from wf_core.models import RetryPolicy
from wf_core.retry_rules import DEFAULT_ATTEMPTS, RetryRules, retry_rules


class CardError(Exception):
    pass


class CardRefused(CardError):
    pass


class GaveUp(NonRetryable):
    pass


def rules(**parts: Any) -> RetryRules:
    return retry_rules(RetryPolicy(**parts), None)


@pytest.mark.parametrize(
    ("use", "definition", "attempts"),
    [
        (None, None, 1),
        (0, None, 1),
        (2, None, 3),
        (None, 2, 3),
        (0, 5, 1),
        (RetryPolicy(max_attempts=4), 9, 4),
        (RetryPolicy(initial_seconds=5), 9, 10),
        (RetryPolicy(), None, DEFAULT_ATTEMPTS),
        (None, RetryPolicy(jitter="none"), DEFAULT_ATTEMPTS),
    ],
)
def test_the_step_says_how_many_attempts_before_its_capability_does(use: Any, definition: Any, attempts: int) -> None:
    assert retry_rules(use, definition).max_attempts == attempts


def test_every_part_is_the_steps_own_or_its_capabilitys_or_the_default() -> None:
    merged = retry_rules(
        RetryPolicy(multiplier=3, non_retryable=["A"]),
        RetryPolicy(initial_seconds=5, multiplier=7, non_retryable=["B"], jitter="none"),
    )

    assert merged == RetryRules(DEFAULT_ATTEMPTS, 5, 3, 60, jitter=False, non_retryable=frozenset({"A"}))


def test_a_first_delay_above_the_longest_of_somebody_else_counts() -> None:
    assert retry_rules(RetryPolicy(initial_seconds=600), None).delay_ms(0, 1.0) == 600_000


@pytest.mark.parametrize(
    ("error", "admitted"),
    [
        (ConnectionError("x"), True),
        (CardError("x"), False),
        (CardRefused("x"), False),
        (NonRetryable("x"), False),
        (GaveUp("x"), False),
        (WorkflowExecutionError("x", code="busy"), False),
        (WorkflowExecutionError("x", code="other"), True),
    ],
)
def test_an_error_is_known_by_its_class_those_above_it_and_its_code(error: Exception, admitted: bool) -> None:
    assert rules(max_attempts=2, non_retryable=["CardError", "busy"]).admit(error, 0) is admitted


def test_attempts_are_counted_in_all() -> None:
    three = rules(max_attempts=3)

    assert [three.admit(ValueError(), failures) for failures in range(4)] == [True, True, False, False]
    assert not retry_rules(None, None).admit(ValueError(), 0)


def test_delays_grow_to_the_longest_and_never_overflow() -> None:
    growing = rules(initial_seconds=0.5, multiplier=4, max_seconds=10, jitter="none", max_attempts=9)

    assert [growing.delay_ms(failures, 0.0) for failures in (0, 1, 2, 3, 5_000)] == [500, 2_000, 8_000, 10_000, 10_000]


def test_full_jitter_takes_any_part_of_a_delay() -> None:
    jittered = rules(initial_seconds=8, max_attempts=9)

    assert [jittered.delay_ms(0, chance) for chance in (0.0, 0.25, 1.0)] == [0, 2_000, 8_000]
