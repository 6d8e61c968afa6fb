"""When a step that failed is tried again: what a step and its capability say together."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from wf_core.errors import NonRetryable, WfError
from wf_core.models.retries import RetryPolicy

DEFAULT_ATTEMPTS = 3
"""Attempts in all where there is a policy that does not say how many; without a policy there is one."""

DEFAULTS = RetryPolicy(initial_seconds=1.0, multiplier=2.0, max_seconds=60.0, jitter="full", non_retryable=[])


@dataclass(frozen=True, slots=True)
class RetryRules:
    """A policy with every part decided."""

    max_attempts: int
    initial_seconds: float
    multiplier: float
    max_seconds: float
    jitter: bool
    non_retryable: frozenset[str]

    def admit(self, error: BaseException, failures: int) -> bool:
        """Whether the step is tried again after its ``failures`` earlier ones and this one.

        An error is known by the names of its class and of the classes above it, and by its code if it has one.
        """
        if failures + 1 >= self.max_attempts or isinstance(error, NonRetryable):
            return False
        names = {kind.__name__ for kind in type(error).__mro__}
        if isinstance(error, WfError):
            names.add(error.code)
        return names.isdisjoint(self.non_retryable)

    def delay_ms(self, failures: int, chance: float) -> int:
        """Time until the next attempt after ``failures`` earlier ones. ``chance`` is a random number from 0 to 1."""
        if self.initial_seconds == 0:
            return 0
        try:
            seconds = min(self.max_seconds, self.initial_seconds * self.multiplier**failures)
        except OverflowError:
            seconds = self.max_seconds
        return math.ceil(1000 * seconds * (chance if self.jitter else 1.0))


def retry_rules(use: int | RetryPolicy | None, definition: int | RetryPolicy | None) -> RetryRules:
    """The rules of a step: its own policy, part by part before that of its capability."""
    policies = [_policy(given) for given in (use, definition) if given is not None]

    def part(name: str) -> Any:
        found = (getattr(policy, name) for policy in (*policies, DEFAULTS))
        return next((value for value in found if value is not None), None)

    initial, longest = part("initial_seconds"), part("max_seconds")
    return RetryRules(
        max_attempts=part("max_attempts") or (DEFAULT_ATTEMPTS if policies else 1),
        initial_seconds=initial,
        multiplier=part("multiplier"),
        max_seconds=max(initial, longest),
        jitter=part("jitter") == "full",
        non_retryable=frozenset(part("non_retryable")),
    )


def _policy(given: int | RetryPolicy) -> RetryPolicy:
    return given if isinstance(given, RetryPolicy) else RetryPolicy(max_attempts=given + 1)
