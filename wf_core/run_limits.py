"""How much one run may do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

DEFAULT_MAX_STEPS: Final = 10_000

MAX_NESTING: Final = 32
"""Loops and child workflows that may be inside one another, all together."""


@dataclass(frozen=True, slots=True)
class RunLimits:
    """The step budget: ``max_steps`` step attempts in all frames and scopes of one run. There is no "unlimited"."""

    max_steps: int = DEFAULT_MAX_STEPS

    def __post_init__(self) -> None:
        if type(self.max_steps) is not int:
            raise TypeError(f"max_steps must be an int, got {type(self.max_steps).__name__}")
        if self.max_steps < 1:
            raise ValueError(f"max_steps must be at least 1, got {self.max_steps}")
