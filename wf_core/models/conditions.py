"""Conditions: a tree of tests over graph values, told apart by ``op``."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, Tag

from wf_core.models.tagging import published_as_required, told_apart_by
from wf_core.paths import GraphSourcePath


class PathOperand(BaseModel):
    """The value at a graph path; comparing a missing one is an error, comparing null is not."""

    model_config = ConfigDict(extra="forbid")

    path: GraphSourcePath


class LiteralOperand(BaseModel):
    """A value that stands for itself."""

    model_config = ConfigDict(extra="forbid")

    value: Any


Operand: TypeAlias = Annotated[
    Annotated[PathOperand, Tag("path")] | Annotated[LiteralOperand, Tag("value")], told_apart_by("path", "value")
]
"""One side of a comparison."""


class ExistsCondition(BaseModel):
    """True when the path resolves, even to null."""

    model_config = ConfigDict(json_schema_extra=published_as_required("op"))

    op: Literal["exists"] = "exists"
    path: GraphSourcePath


class NotCondition(BaseModel):
    """True when its argument is false."""

    model_config = ConfigDict(json_schema_extra=published_as_required("op"))

    op: Literal["not"] = "not"
    arg: Condition


class VariadicCondition(BaseModel):
    """``and`` or ``or`` of at least one condition."""

    op: Literal["and", "or"]
    args: list[Condition] = Field(min_length=1)


class BinaryCondition(BaseModel):
    """A comparison of two operands."""

    op: Literal["eq", "ne", "gt", "ge", "lt", "le"]
    left: Operand
    right: Operand


Condition: TypeAlias = Annotated[
    ExistsCondition | NotCondition | VariadicCondition | BinaryCondition, Field(discriminator="op")
]
"""Any condition."""
