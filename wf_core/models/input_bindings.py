"""Input bindings: what is put into a payload, from graph values, literals, or expressions composed of both.

Everywhere here ``target`` is a place in the payload that is being built, ``path`` a graph value that is read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final, Literal, TypeAlias, cast

from pydantic import BaseModel, ConfigDict, Field, Tag, field_validator

from wf_core.models.json_values import StrictJsonValue
from wf_core.models.tagging import published_as_required, told_apart_by
from wf_core.paths import GraphSourcePath, LocalPath

MAX_INPUT_EXPRESSION_DEPTH: Final = 64
"""Levels of nesting in one expression; the outermost expression is level 1."""

MAX_INPUT_EXPRESSION_NODES: Final = 1024
"""Expressions plus literal lists and objects in one expression tree."""

_TARGET_DESCRIPTION: Final = (
    "Payload-local path that receives the value. Use . for the whole node input payload; "
    "it must then be the only input binding."
)
_PATH_DESCRIPTION: Final = "Graph path that is read: input, state, or context, alone or followed by dotted keys."
_VALUE_DESCRIPTION: Final = "Literal JSON-compatible value, delivered as it stands; null is a value."

_EXPRESSION: Final = ConfigDict(extra="forbid", json_schema_extra=published_as_required("kind"))


class LiteralExpression(BaseModel):
    """A value that stands for itself."""

    model_config = _EXPRESSION

    kind: Literal["literal"] = "literal"
    value: StrictJsonValue = Field(description=_VALUE_DESCRIPTION)


class PathExpression(BaseModel):
    """The value found at a graph path."""

    model_config = _EXPRESSION

    kind: Literal["path"] = "path"
    path: GraphSourcePath = Field(description=_PATH_DESCRIPTION)


class ArrayExpression(BaseModel):
    """A list of the values of its items, in order."""

    model_config = _EXPRESSION

    kind: Literal["array"] = "array"
    # Strict: the limits are counted on lists and dicts, so nothing else may turn into one later.
    items: list[InputExpression] = Field(strict=True)


class ObjectExpression(BaseModel):
    """An object of the values of its fields, in order."""

    model_config = _EXPRESSION

    kind: Literal["object"] = "object"
    fields: dict[str, InputExpression] = Field(strict=True)


InputExpression: TypeAlias = Annotated[
    LiteralExpression | PathExpression | ArrayExpression | ObjectExpression, Field(discriminator="kind")
]
"""A tree of literals and graph paths, told apart by ``kind``."""


class InputPathBinding(BaseModel):
    """Delivers a graph value."""

    model_config = ConfigDict(extra="forbid")

    target: LocalPath = Field(description=_TARGET_DESCRIPTION)
    path: GraphSourcePath = Field(description=_PATH_DESCRIPTION)


class InputValueBinding(BaseModel):
    """Delivers a literal."""

    model_config = ConfigDict(extra="forbid")

    target: LocalPath = Field(description=_TARGET_DESCRIPTION)
    value: StrictJsonValue = Field(description=_VALUE_DESCRIPTION)


class InputExpressionBinding(BaseModel):
    """Delivers the value of an expression tree."""

    model_config = ConfigDict(extra="forbid")

    target: LocalPath = Field(description=_TARGET_DESCRIPTION)
    expression: InputExpression = Field(description="Expression tree of literals, graph paths, arrays and objects.")

    @field_validator("expression", mode="before")
    @classmethod
    def _within_limits(cls, value: object) -> object:
        validate_input_expression_limits(value)
        return value


InputBinding: TypeAlias = Annotated[
    Annotated[InputPathBinding, Tag("path")] | Annotated[InputValueBinding, Tag("value")],
    told_apart_by("path", "value", "expression"),
]
"""A binding of the workflow's output: a path or a value."""

StepInputBinding: TypeAlias = Annotated[
    Annotated[InputPathBinding, Tag("path")]
    | Annotated[InputValueBinding, Tag("value")]
    | Annotated[InputExpressionBinding, Tag("expression")],
    told_apart_by("path", "value", "expression"),
]
"""A binding of a step's input or of an interrupt's request: a path, a value or an expression."""


def validate_input_expression_limits(
    value: object, *, max_depth: int = MAX_INPUT_EXPRESSION_DEPTH, max_nodes: int = MAX_INPUT_EXPRESSION_NODES
) -> None:
    """Raise ``ValueError`` when a tree, raw or made of models, is deeper or larger than allowed.

    Every expression counts one node, and so does every list or object inside a literal, one level below what holds
    it; scalars count nothing. Shapes are not judged here: what is no expression counts one node and holds nothing.
    """
    # A stack of our own: the tree is untrusted, and even one that contains itself runs into the node limit.
    pending: list[tuple[object, int, bool]] = [(value, 1, True)]
    nodes = 0
    while pending:
        current, depth, is_expression = pending.pop()
        nodes += 1
        if depth > max_depth:
            raise ValueError(f"input expression exceeds the maximum depth of {max_depth}")
        if nodes > max_nodes:
            raise ValueError(f"input expression exceeds the maximum node count of {max_nodes}")
        children, are_expressions = _expression_children(current) if is_expression else (_containers(current), False)
        pending.extend((child, depth + 1, are_expressions) for child in children)


def _expression_children(expression: object) -> tuple[Iterable[object], bool]:
    """What an expression holds one level below, and whether those are expressions."""
    match _key(expression, "kind"):
        case "array":
            return _held(_key(expression, "items")), True
        case "object":
            return _held(_key(expression, "fields")), True
        case "literal":
            return _containers([_key(expression, "value")]), False
        case _:
            return (), True


def _key(expression: object, name: str) -> object:
    if isinstance(expression, dict):
        return cast("dict[object, object]", expression).get(name)
    return getattr(expression, name, None) if isinstance(expression, BaseModel) else None


def _held(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return cast("dict[object, object]", value).values()
    return cast("list[object]", value) if isinstance(value, list) else ()


def _containers(value: object) -> Iterable[object]:
    return filter(_is_container, _held(value))


def _is_container(value: object) -> bool:
    return isinstance(value, (list, dict))
