"""The list of outcomes that a capability, a step or a workflow declares."""

from __future__ import annotations

from collections.abc import Iterable


def checked_outcomes(outcomes: Iterable[str], owner: str) -> list[str]:
    """The outcomes as a list; ``ValueError`` naming the owner unless there are some, none blank, each once."""
    if isinstance(outcomes, str):
        raise ValueError(f"{owner}: outcomes are a list, write [{outcomes!r}]")
    listed = list(outcomes)
    if not listed:
        raise ValueError(f"{owner}: at least one outcome is needed")
    for outcome in listed:
        if not isinstance(outcome, str) or not outcome.strip():  # pyright: ignore[reportUnnecessaryIsInstance]  # callers are not all typed
            raise ValueError(f"{owner}: an outcome is a text that is not blank, not {outcome!r}")
    if len(set(listed)) != len(listed):
        raise ValueError(f"{owner}: an outcome is listed twice in {listed!r}")
    return listed
