"""Waiting for other processes and threads: for a condition with a deadline, never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable


def eventually(condition: Callable[[], bool], what: str | Callable[[], str], seconds: float = 60.0) -> None:
    """Returns once the condition holds; fails after ``seconds`` with ``what`` did not happen."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= deadline:
            raise AssertionError(f"did not happen in {seconds} s: {what if isinstance(what, str) else what()}")
        time.sleep(0.02)
