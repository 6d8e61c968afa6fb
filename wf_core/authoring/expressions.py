"""Conditions as Python expressions: paths that compare, and results that combine with ``&``, ``|`` and ``~``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NoReturn, TypeAlias, cast

from pydantic import TypeAdapter

from wf_core.authoring.paths import SegmentArgument, context_path, input_path, state_path
from wf_core.models.conditions import (
    BinaryCondition,
    Condition,
    ExistsCondition,
    LiteralOperand,
    NotCondition,
    Operand,
    PathOperand,
    VariadicCondition,
)
from wf_core.models.json_values import JsonValue, validate_strict_json_value
from wf_core.paths import GraphSourcePath, StatePath

BinaryOperator: TypeAlias = Literal["eq", "ne", "gt", "ge", "lt", "le"]

_CONDITION: Final = TypeAdapter[Condition](Condition)
_GRAPH_PATH: Final = TypeAdapter(GraphSourcePath)


@dataclass(frozen=True, slots=True)
class Expr:
    """A condition under construction; ``condition`` is the tree that a workflow carries."""

    condition: Condition

    def __and__(self, other: CheckLike) -> Expr:
        return _combined("and", self.condition, condition_from(other))

    def __or__(self, other: CheckLike) -> Expr:
        return _combined("or", self.condition, condition_from(other))

    def __rand__(self, other: CheckLike) -> Expr:
        return _combined("and", condition_from(other), self.condition)

    def __ror__(self, other: CheckLike) -> Expr:
        return _combined("or", condition_from(other), self.condition)

    def __invert__(self) -> Expr:
        return Expr(NotCondition(arg=self.condition))

    def __bool__(self) -> NoReturn:
        # ``a and b`` and ``1 < x < 5`` ask for the truth of the first part and would drop it without a word.
        raise TypeError("a condition has no truth before the run: combine with &, | and ~, not with and, or and not")


CheckLike: TypeAlias = Expr | Condition | Mapping[str, Any]
"""A condition in any form: an expression, a core condition, or its JSON with path objects allowed inside."""


@dataclass(frozen=True, slots=True, eq=False)
class PathExpr:
    """A path that can be compared. An operand that is a path is read at run time, any other is a literal."""

    path: GraphSourcePath

    def eq(self, other: object) -> Expr:
        """Equal, null included."""
        return compare("eq", self, other)

    def ne(self, other: object) -> Expr:
        """Not equal, null included."""
        return compare("ne", self, other)

    def gt(self, other: object) -> Expr:
        """Greater."""
        return compare("gt", self, other)

    def ge(self, other: object) -> Expr:
        """Greater or equal."""
        return compare("ge", self, other)

    def lt(self, other: object) -> Expr:
        """Less."""
        return compare("lt", self, other)

    def le(self, other: object) -> Expr:
        """Less or equal."""
        return compare("le", self, other)

    def exists(self) -> Expr:
        """Present, even as null."""
        return exists(self)

    def __eq__(self, other: object) -> Expr:  # pyright: ignore[reportIncompatibleMethodOverride]  # it builds a condition
        return compare("eq", self, other)

    def __ne__(self, other: object) -> Expr:  # pyright: ignore[reportIncompatibleMethodOverride]  # it builds a condition
        return compare("ne", self, other)

    def __gt__(self, other: object) -> Expr:
        return compare("gt", self, other)

    def __ge__(self, other: object) -> Expr:
        return compare("ge", self, other)

    def __lt__(self, other: object) -> Expr:
        return compare("lt", self, other)

    def __le__(self, other: object) -> Expr:
        return compare("le", self, other)


SourceLike: TypeAlias = PathExpr | GraphSourcePath | StatePath | str | Mapping[str, Any]
"""A readable path in any form: an object, a text such as ``state.total``, or ``{"root", "parts"}``."""


def input(*segments: SegmentArgument) -> PathExpr:
    """A value of the workflow's input, to compare; arguments as for ``input_path``."""
    return PathExpr(input_path(*segments))


def state(*segments: SegmentArgument) -> PathExpr:
    """A value of the state, to compare; arguments as for ``state_path``."""
    return PathExpr(state_path(*segments))


def context(*segments: SegmentArgument) -> PathExpr:
    """A value of the step's context, to compare; arguments as for ``context_path``."""
    return PathExpr(context_path(*segments))


def expr(path: SourceLike) -> PathExpr:
    """A path to compare."""
    return PathExpr(source_path(path))


def eq(left: object, right: object) -> Expr:
    """Equal, null included. Operands that are path objects are read at run time; texts are literals."""
    return compare("eq", left, right)


def ne(left: object, right: object) -> Expr:
    """Not equal, null included."""
    return compare("ne", left, right)


def gt(left: object, right: object) -> Expr:
    """Greater."""
    return compare("gt", left, right)


def ge(left: object, right: object) -> Expr:
    """Greater or equal."""
    return compare("ge", left, right)


def lt(left: object, right: object) -> Expr:
    """Less."""
    return compare("lt", left, right)


def le(left: object, right: object) -> Expr:
    """Less or equal."""
    return compare("le", left, right)


def exists(path: SourceLike) -> Expr:
    """Present, even as null."""
    return Expr(ExistsCondition(path=source_path(path)))


def not_(condition: CheckLike) -> Expr:
    """The opposite."""
    return Expr(NotCondition(arg=condition_from(condition)))


# --- What other modules of the DSL use --------------------------------------------------------------------------------


def compare(op: BinaryOperator, left: object, right: object) -> Expr:
    """A comparison of two operands."""
    return Expr(BinaryCondition(op=op, left=_operand(left), right=_operand(right)))


def condition_from(check: CheckLike) -> Condition:
    """The condition behind any of its forms; ``TypeError`` for anything else."""
    if isinstance(check, Expr):
        return check.condition
    if isinstance(check, ExistsCondition | NotCondition | VariadicCondition | BinaryCondition):
        return check
    if isinstance(check, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers are not all typed
        return _CONDITION.validate_python(_with_plain_paths(check))
    raise TypeError(f"unsupported condition {check!r}: compare a path, as in state('total') > 5")


def source_path(value: SourceLike) -> GraphSourcePath:
    """The readable path behind any of its forms; ``TypeError`` for anything else, ``ValueError`` for a bad text."""
    if isinstance(value, GraphSourcePath):
        return value
    if isinstance(value, PathExpr):
        return value.path
    if isinstance(value, StatePath):
        return GraphSourcePath("state", value.parts)
    if isinstance(value, str):
        return GraphSourcePath.parse(value)
    if isinstance(value, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers are not all typed
        return _GRAPH_PATH.validate_python(value)
    raise TypeError(f"unsupported path value {value!r}")


def literal(value: object) -> JsonValue:
    """A value that stands for itself, copied; ``TypeError`` for what is not JSON."""
    try:
        return validate_strict_json_value(value)
    except ValueError as error:
        raise TypeError(f"unsupported literal {value!r}: {error}") from error


def _operand(value: object) -> Operand:
    if isinstance(value, PathExpr | GraphSourcePath | StatePath):
        return PathOperand(path=source_path(value))
    return LiteralOperand(value=literal(value))


def _combined(op: Literal["and", "or"], left: Condition, right: Condition) -> Expr:
    """Both conditions under one operator; a chain of the same operator stays flat."""
    arguments: list[Condition] = []
    for side in (left, right):
        if isinstance(side, VariadicCondition) and side.op == op:
            arguments += side.args
        else:
            arguments.append(side)
    return Expr(VariadicCondition(op=op, args=arguments))


def _with_plain_paths(value: object) -> object:
    """The JSON of a condition with expressions in it replaced by what they stand for."""
    if isinstance(value, PathExpr):
        return value.path
    if isinstance(value, Expr):
        return value.condition
    if isinstance(value, StatePath):
        return source_path(value)
    if isinstance(value, Mapping):
        return {key: _with_plain_paths(entry) for key, entry in cast("Mapping[str, object]", value).items()}
    if isinstance(value, list | tuple):
        return [_with_plain_paths(entry) for entry in cast("list[object]", value)]
    return value
