"""A capability described for people and tools: everything but its code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class NodeSpecInventory:
    """One capability as listings show it. The schemas are JSON Schema documents of its own."""

    name: str
    description: str | None
    outcomes: tuple[str, ...]
    input_schema: dict[str, Any]
    output_schema: dict[str, Any]
    is_async: bool
    accepts_context: bool
