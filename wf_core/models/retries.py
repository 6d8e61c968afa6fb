"""What a step says of failures that may pass, and of work that takes too long.

Core stays free of clocks: a host that repeats and limits reads these, the in-memory engine only keeps them.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

RetryCount: TypeAlias = Annotated[int, Field(ge=0, strict=True)]
"""Repetitions after a failure: a policy with one attempt more."""

MAX_SECONDS: Final = 10 * 366 * 24 * 3600
"""Longest time that anything may be told to wait or to take: ten years."""

TimeoutSeconds: TypeAlias = Annotated[int, Field(gt=0, le=MAX_SECONDS, strict=True)]


def is_none(value: object) -> bool:
    """For fields that are not written where they say nothing."""
    return value is None


TimeLimit: TypeAlias = Annotated[TimeoutSeconds | None, Field(exclude_if=is_none)]
"""A limit that may be left out."""

_Seconds: TypeAlias = Annotated[float, Field(ge=0, le=MAX_SECONDS, strict=True, allow_inf_nan=False)]
_Factor: TypeAlias = Annotated[float, Field(ge=1, strict=True, allow_inf_nan=False)]


class RetryPolicy(BaseModel):
    """How often a failed step is tried again, and after how long. A part that is left out is decided elsewhere."""

    model_config = ConfigDict(extra="forbid")

    max_attempts: Annotated[int, Field(ge=1, strict=True)] | None = Field(default=None, exclude_if=is_none)
    """Attempts in all; 1 is never again."""

    initial_seconds: _Seconds | None = Field(default=None, exclude_if=is_none)
    """Time before the second attempt."""

    multiplier: _Factor | None = Field(default=None, exclude_if=is_none)
    """By how much each time is longer than the one before it."""

    max_seconds: _Seconds | None = Field(default=None, exclude_if=is_none)
    """The longest time between two attempts."""

    jitter: Literal["full", "none"] | None = Field(default=None, exclude_if=is_none)
    """``full`` takes a random part of each time, so that many failures do not come back together."""

    non_retryable: list[Annotated[str, Field(min_length=1)]] | None = Field(default=None, exclude_if=is_none)
    """Names of error types that are never tried again."""

    @model_validator(mode="after")
    def _first_time_is_not_the_longest(self) -> Self:
        if (
            self.initial_seconds is not None
            and self.max_seconds is not None
            and self.initial_seconds > self.max_seconds
        ):
            raise ValueError(f"initial_seconds ({self.initial_seconds}) is above max_seconds ({self.max_seconds})")
        return self


def _count_or_policy(value: object) -> str:
    return "policy" if isinstance(value, dict | RetryPolicy) else "count"


Retries: TypeAlias = Annotated[
    Annotated[RetryCount, Tag("count")] | Annotated[RetryPolicy, Tag("policy")], Discriminator(_count_or_policy)
]
"""A number of repetitions, or a policy."""
