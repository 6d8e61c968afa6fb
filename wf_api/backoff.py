"""How often to look again while waiting for something that another process does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

FIRST_SECONDS: Final = 0.05
LAST_SECONDS: Final = 0.5


def pauses(first: float = FIRST_SECONDS, last: float = LAST_SECONDS, factor: float = 1.5) -> Iterator[float]:
    """Pauses in seconds, growing from the first to the last, without end."""
    pause = first
    while True:
        yield pause
        pause = min(last, pause * factor)
