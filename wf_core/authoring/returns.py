"""What the function of a capability may return: a model, nothing, or either together with an outcome."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeAlias

from pydantic import BaseModel
from typing_extensions import TypeVar


class Nothing(BaseModel):
    """A payload without fields."""


OutputT = TypeVar("OutputT", bound=BaseModel, default=Nothing)


@dataclass(frozen=True, slots=True)
class NodeReturn(Generic[OutputT]):
    """An output with the outcome it belongs to. ``output`` None is an output without fields."""

    outcome: str
    output: OutputT | None = None


NoOutput: TypeAlias = NodeReturn[Nothing]
"""The return annotation of a function that only chooses an outcome."""


def outcome(name: str, output: OutputT | None = None) -> NodeReturn[OutputT]:
    """The return value that chooses an outcome."""
    return NodeReturn(name, output)
