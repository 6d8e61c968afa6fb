"""Decisions: cases asked one after the other, and where each of them leads."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from wf_core.authoring.expressions import CheckLike, SourceLike, compare, condition_from, expr, literal
from wf_core.authoring.graph import BranchRef, StepRef
from wf_core.models.conditions import Condition
from wf_core.models.steps import ConditionNode

MatchCases: TypeAlias = Mapping[Any, BranchRef] | Iterable[tuple[object, BranchRef]]
"""Values and where they lead, in order. Pairs can hold what a dict cannot: lists, and 1 beside True."""


@dataclass(frozen=True, slots=True)
class Case:
    """One question of a decision; ``key`` is the case's name in the result."""

    key: object
    check: Condition
    target: BranchRef


class DecisionTargets(Mapping[Any, StepRef]):
    """Where the cases lead, by key and in order; keys are equal when they are the same JSON."""

    __slots__ = ("_pairs",)

    def __init__(self, pairs: Iterable[tuple[object, StepRef]]) -> None:
        self._pairs = tuple(pairs)

    def __getitem__(self, key: object) -> StepRef:
        wanted = _canonical(key)
        for held, target in self._pairs:
            if _canonical(held) == wanted:
                return target
        raise KeyError(key)

    def __iter__(self) -> Iterator[Any]:
        return (key for key, _ in self._pairs)

    def __len__(self) -> int:
        return len(self._pairs)

    def __contains__(self, key: object) -> bool:
        wanted = _canonical(key)
        return any(_canonical(held) == wanted for held, _ in self._pairs)

    def __repr__(self) -> str:
        return f"DecisionTargets({self._pairs!r})"


@dataclass(frozen=True, slots=True)
class DecisionResult:
    """A decision that was built: the first condition, all of them, and where the cases lead."""

    entry: ConditionNode
    conditions: tuple[ConditionNode, ...]
    targets: DecisionTargets
    """By ``True`` and ``False``, by position and ``"default"``, or by value and ``"default"``."""

    fallback: StepRef
    """Where it leads when no case holds; the generated step that fails when none was given."""

    def __getitem__(self, key: object) -> StepRef:
        return self.targets[key]


def choice_cases(cases: Iterable[tuple[CheckLike, BranchRef]]) -> list[Case]:
    """Cases with their positions as keys."""
    return [Case(position, condition_from(check), target) for position, (check, target) in enumerate(cases)]


def match_cases(path: SourceLike, cases: MatchCases) -> list[Case]:
    """Cases that compare one path, with the values as keys."""
    compared = expr(path)
    pairs = cast("Mapping[object, BranchRef]", cases).items() if isinstance(cases, Mapping) else cases
    return [Case(literal(value), compare("eq", compared, value).condition, target) for value, target in pairs]


def _canonical(key: object) -> str | None:
    try:
        return json.dumps(key, sort_keys=True)
    except (TypeError, ValueError):
        return None
