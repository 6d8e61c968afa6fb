"""What a handler answers."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class NodeResult(BaseModel):
    """The outcome that chooses the next edge, and the output payload that the step's bindings read."""

    model_config = ConfigDict(extra="allow")

    outcome: str
    output: dict[str, Any] = Field(default_factory=dict)
    meta: dict[str, Any] = Field(default_factory=dict)
    """For the host; the engine does not read it."""
