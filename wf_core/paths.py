"""Paths name places in graph values and payloads: literal segments, written as dotted TOML keys.

    GraphSourcePath   a readable value: ``input``, ``state`` or ``context``, whole or below
    StatePath         a writable field below ``state``; bare ``state`` is no target
    LocalPath         a place inside one payload; ``.`` is the whole payload

The tuple of segments is the value and the text is its rendering: ``parse(str(path)) == path``. Segments are object
keys, never list positions. The walking functions at the end read mappings only.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, MutableMapping, Sequence
from dataclasses import FrozenInstanceError
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, NoReturn, Self, TypeAlias, TypeGuard, cast, final

from pydantic_core import core_schema

from wf_core.toml_keys import (
    PathResolutionError,
    format_toml_path_segments,
    parse_toml_path_segments,
    segment_fault,
)

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue

GraphRoot: TypeAlias = Literal["input", "state", "context"]
"""The three roots a graph value can be read from."""


def _checked_parts(parts: tuple[str, ...], kind: str) -> tuple[str, ...]:
    if not isinstance(parts, tuple):  # pyright: ignore[reportUnnecessaryIsInstance]  # a structure may hold anything
        raise PathResolutionError(f"invalid {kind} path: parts must be a tuple of strings, not {type(parts).__name__}")
    for part in parts:
        if (fault := segment_fault(part)) is not None:
            raise PathResolutionError(f"invalid {kind} path: {fault}")
    return parts


def _split_fragments(fragments: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(piece for fragment in fragments for piece in fragment.split("."))


# --- The three types --------------------------------------------------------------------------------------------------

_SEGMENT_PATTERN: Final = (
    r"(?:[A-Za-z0-9_-]+"
    r'|"(?:[^"\\\u0000-\u001F\u007F]|\\["\\]|\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8})+"'
    r"|'[^'\u0000-\u001F\u007F]+')"
)
_DOT_PATTERN: Final = r"[ \t]*\.[ \t]*"


def _quotable(name: str) -> str:
    return f"(?:{name}|\"{name}\"|'{name}')"


class _Path:
    """What the three path types share: checked literal segments, value identity, immutability, string dumps."""

    __slots__ = ("_hash", "_text", "parts")

    parts: tuple[str, ...]
    """The literal segments, without the root."""

    _hash: int
    _text: str | None

    _kind: ClassVar[str]
    _pattern: ClassVar[str]
    _description: ClassVar[str]

    def _fill(self, parts: tuple[str, ...], identity: object) -> None:
        object.__setattr__(self, "parts", parts)
        object.__setattr__(self, "_hash", hash(identity))
        object.__setattr__(self, "_text", None)

    def _render(self) -> str:
        raise NotImplementedError

    def _rebuilt(self) -> Self:
        """The same path through its constructor, so that every invariant is checked again."""
        raise NotImplementedError

    @classmethod
    def parse(cls, text: str) -> Self:
        """The path a string stands for; raises ``PathResolutionError``."""
        raise NotImplementedError

    @classmethod
    def _from_structure(cls, root: object, parts: tuple[str, ...]) -> Self:
        raise NotImplementedError

    def __str__(self) -> str:
        text = self._text
        if text is None:
            text = self._render()
            object.__setattr__(self, "_text", text)
        return text

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __hash__(self) -> int:
        return self._hash

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise FrozenInstanceError(f"cannot assign to field {name!r}: paths are immutable")

    def __delattr__(self, name: str) -> NoReturn:
        raise FrozenInstanceError(f"cannot delete field {name!r}: paths are immutable")

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    @classmethod
    def _validate(cls, value: object) -> Self:
        if isinstance(value, cls):
            return value._rebuilt()
        if isinstance(value, str):
            return cls.parse(value)
        if is_json_object(value):
            parts = value.get("parts")
            if set(value) == {"root", "parts"} and isinstance(parts, list):
                return cls._from_structure(value["root"], tuple(cast("list[str]", parts)))
            raise PathResolutionError(f"invalid {cls._kind} path: an object must be exactly {{root, parts: [...]}}")
        raise PathResolutionError(f"invalid {cls._kind} path: expected a string, not {type(value).__name__}")

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls._validate,
            serialization=core_schema.to_string_ser_schema(when_used="always"),
        )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {"type": "string", "pattern": cls._pattern, "description": cls._description}


@final
class GraphSourcePath(_Path):
    """A readable graph value: a root and literal segments below it; no segments means the whole root."""

    __slots__ = ("root",)

    root: GraphRoot
    """``input``, ``state`` or ``context``."""

    _kind = "graph"
    _pattern = (
        rf"^[ \t]*(?:{_quotable('input')}|{_quotable('state')}|{_quotable('context')})"
        rf"(?:{_DOT_PATTERN}{_SEGMENT_PATTERN})*[ \t]*$"
    )
    _description = (
        "Graph source path: input, state, or context, alone or followed by dotted TOML keys, "
        'for example state.person.name or context.foreach."orders.v2".item.'
    )

    def __init__(self, root: GraphRoot, parts: tuple[str, ...] = ()) -> None:
        if root not in ("input", "state", "context"):
            raise PathResolutionError(
                f"unknown path root {root!r}", hint="a graph path starts with input, state or context"
            )
        parts = _checked_parts(parts, "graph")
        object.__setattr__(self, "root", root)
        self._fill(parts, (root, parts))

    def child(self, *segments: str) -> Self:
        """The path below this one, each argument one literal segment: ``loop.item.child("name")``."""
        return type(self)(self.root, (*self.parts, *segments))

    @classmethod
    def parse(cls, text: str) -> Self:
        """The path a string stands for; raises ``PathResolutionError``."""
        root, *parts = parse_toml_path_segments(text)
        return cls._from_structure(root, tuple(parts))

    @classmethod
    def input(cls, *fragments: str) -> Self:
        """The path below ``input``; each fragment is split on its dots, quoting is not understood."""
        return cls("input", _split_fragments(fragments))

    @classmethod
    def state(cls, *fragments: str) -> Self:
        """The path below ``state``; each fragment is split on its dots, quoting is not understood."""
        return cls("state", _split_fragments(fragments))

    @classmethod
    def context(cls, *fragments: str) -> Self:
        """The path below ``context``; each fragment is split on its dots, quoting is not understood."""
        return cls("context", _split_fragments(fragments))

    @classmethod
    def _from_structure(cls, root: Any, parts: tuple[str, ...]) -> Self:
        return cls(root, parts)

    def _rebuilt(self) -> Self:
        return type(self)(self.root, self.parts)

    def _render(self) -> str:
        return format_toml_path_segments((self.root, *self.parts))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GraphSourcePath):
            return NotImplemented
        return self.parts == other.parts and self.root == other.root

    __hash__ = _Path.__hash__

    def __reduce__(self) -> tuple[type[GraphSourcePath], tuple[GraphRoot, tuple[str, ...]]]:
        return GraphSourcePath, (self.root, self.parts)


@final
class StatePath(_Path):
    """A writable state field: at least one literal segment below the implied root ``state``."""

    __slots__ = ()

    _kind = "state"
    _pattern = rf"^[ \t]*{_quotable('state')}(?:{_DOT_PATTERN}{_SEGMENT_PATTERN})+[ \t]*$"
    _description = (
        "Writable state path: state followed by at least one dotted TOML key, for example state.person.name. "
        "Bare state is invalid."
    )

    def __init__(self, parts: tuple[str, ...]) -> None:
        parts = _checked_parts(parts, "state")
        if not parts:
            raise PathResolutionError("a state path needs at least one segment below state; bare state is no target")
        self._fill(parts, parts)

    @classmethod
    def parse(cls, text: str) -> Self:
        """The path a string stands for; raises ``PathResolutionError``."""
        root, *parts = parse_toml_path_segments(text)
        if root != "state":
            raise PathResolutionError(f"invalid state path {text!r}: unknown path root {root!r}, it must be state")
        return cls(tuple(parts))

    @classmethod
    def of(cls, *fragments: str) -> Self:
        """The field below ``state``; each fragment is split on its dots, quoting is not understood."""
        return cls(_split_fragments(fragments))

    @classmethod
    def _from_structure(cls, root: object, parts: tuple[str, ...]) -> Self:
        if root != "state":
            raise PathResolutionError(f"invalid state path: unknown path root {root!r}, it must be state")
        return cls(parts)

    def _rebuilt(self) -> Self:
        return type(self)(self.parts)

    def _render(self) -> str:
        return format_toml_path_segments(("state", *self.parts))

    def __eq__(self, other: object) -> bool:
        return self.parts == other.parts if isinstance(other, StatePath) else NotImplemented

    __hash__ = _Path.__hash__

    def __reduce__(self) -> tuple[type[StatePath], tuple[tuple[str, ...]]]:
        return StatePath, (self.parts,)


@final
class LocalPath(_Path):
    """A place in one payload; no segments means the whole payload, written ``.``."""

    __slots__ = ()

    _kind = "local"
    _pattern = rf"^(?:\.|[ \t]*{_SEGMENT_PATTERN}(?:{_DOT_PATTERN}{_SEGMENT_PATTERN})*[ \t]*)$"
    _description = "Payload-local path: dotted TOML keys such as user.name, or . for the whole payload."

    def __init__(self, parts: tuple[str, ...]) -> None:
        parts = _checked_parts(parts, "local")
        self._fill(parts, parts)

    @classmethod
    def parse(cls, text: str) -> Self:
        """The path a string stands for; raises ``PathResolutionError``."""
        return cls(()) if text == "." else cls(parse_toml_path_segments(text))

    @classmethod
    def root(cls) -> Self:
        """The whole payload, ``.``."""
        return cls(())

    @classmethod
    def of(cls, *fragments: str) -> Self:
        """The place named by the fragments, each split on its dots; no fragments means the whole payload."""
        return cls(_split_fragments(fragments))

    @classmethod
    def _from_structure(cls, root: object, parts: tuple[str, ...]) -> Self:
        if root != "local":
            raise PathResolutionError(f"invalid local path: unknown path root {root!r}, it must be local")
        return cls(parts)

    def _rebuilt(self) -> Self:
        return type(self)(self.parts)

    def _render(self) -> str:
        return format_toml_path_segments(self.parts) if self.parts else "."

    def __eq__(self, other: object) -> bool:
        return self.parts == other.parts if isinstance(other, LocalPath) else NotImplemented

    __hash__ = _Path.__hash__

    def __reduce__(self) -> tuple[type[LocalPath], tuple[tuple[str, ...]]]:
        return LocalPath, (self.parts,)


# --- Reading, writing and comparing -----------------------------------------------------------------------------------

GraphPathLike: TypeAlias = str | GraphSourcePath | StatePath
"""A readable graph path: ready, or as text that is parsed on every call."""


def split_graph_path(path: GraphPathLike) -> tuple[GraphRoot, list[str]]:
    """Root and segments of a graph path; raises ``PathResolutionError`` for a text that is none."""
    root, parts = _root_and_parts(path)
    return root, list(parts)


def is_valid_source_path(
    path: GraphPathLike, state_roots: Collection[str], input_roots: Collection[str], *, allow_context: bool = False
) -> bool:
    """Whether a source names a whole root or a declared field; ``context`` counts only with the flag."""
    try:
        root, parts = _root_and_parts(path)
    except PathResolutionError:
        return False
    if root == "context":
        return allow_context
    return not parts or parts[0] in (state_roots if root == "state" else input_roots)


def is_valid_destination_path(path: str | StatePath) -> bool:
    """Whether a target parses as a state path."""
    if isinstance(path, StatePath):
        return True
    try:
        StatePath.parse(path)
    except PathResolutionError:
        return False
    return True


def resolve_graph_path(
    path: GraphPathLike,
    *,
    state: Mapping[str, Any],
    workflow_input: Mapping[str, Any],
    context: Mapping[str, Any],
) -> Any:
    """The value at a path, not copied; a present null is a value.

    A missing key, or a step into anything but an object, raises ``PathResolutionError`` with code ``path_missing``.
    """
    root, parts = _root_and_parts(path)
    current: Any = state if root == "state" else workflow_input if root == "input" else context
    for depth, part in enumerate(parts):
        if not is_json_object(current):
            at = format_toml_path_segments((root, *parts[:depth]))
            raise PathResolutionError(
                f"cannot read {str(path)!r}: {at} is not an object", code="path_missing", path=str(path)
            )
        if part not in current:
            at = format_toml_path_segments((root, *parts[: depth + 1]))
            raise PathResolutionError(
                f"cannot read {str(path)!r}: {at} is missing", code="path_missing", path=str(path)
            )
        current = current[part]
    return current


def path_exists(
    path: GraphPathLike,
    *,
    state: Mapping[str, Any],
    workflow_input: Mapping[str, Any],
    context: Mapping[str, Any],
) -> bool:
    """Whether ``resolve_graph_path`` finds a value; null counts as one. False for a text that is no path."""
    try:
        resolve_graph_path(path, state=state, workflow_input=workflow_input, context=context)
    except PathResolutionError:
        return False
    return True


def get_nested_value(state: Mapping[str, Any], parts: Sequence[str]) -> Any:
    """The value at the segments, or None when it is missing; for callers to whom missing and null are one."""
    current: Any = state
    for part in parts:
        if not is_json_object(current):
            return None
        current = current.get(part)
    return current


def set_nested_value(state: MutableMapping[str, Any], parts: Sequence[str], value: object) -> None:
    """Write in place, creating objects where a parent is missing or null.

    Raises ``PathResolutionError``, with nothing written, when a parent is anything else or when no segment is given.
    """
    if not parts:
        raise PathResolutionError("cannot write an empty path: a target needs at least one segment")
    current = state
    for depth, part in enumerate(parts[:-1]):
        below: object = current.get(part)
        if below is None:
            current[part] = below = {}
        if not is_mutable_object(below):
            at = format_toml_path_segments(parts[: depth + 1])
            raise PathResolutionError(
                f"cannot descend into {at}: it is not an object",
                code="path_missing",
                path=format_toml_path_segments(parts),
            )
        current = below
    current[parts[-1]] = value


def path_parts_overlap(a: Sequence[str], b: Sequence[str]) -> bool:
    """Whether two places are equal or one holds the other; no segments overlap everything."""
    shared = min(len(a), len(b))
    return tuple(a[:shared]) == tuple(b[:shared])


def is_json_object(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Whether a walk may step into the value."""
    # The exact type comes first: the abstract check alone takes several times as long, on every step of every path.
    return type(value) is dict or isinstance(value, Mapping)


def is_mutable_object(value: object) -> TypeGuard[MutableMapping[str, Any]]:
    """Whether a write may step into the value."""
    return isinstance(value, MutableMapping)


def _root_and_parts(path: GraphPathLike) -> tuple[GraphRoot, tuple[str, ...]]:
    if isinstance(path, GraphSourcePath):
        return path.root, path.parts
    if isinstance(path, StatePath):
        return "state", path.parts
    parsed = GraphSourcePath.parse(path)
    return parsed.root, parsed.parts


__all__ = [
    "GraphPathLike",
    "GraphRoot",
    "GraphSourcePath",
    "LocalPath",
    "PathResolutionError",
    "StatePath",
    "format_toml_path_segments",
    "get_nested_value",
    "is_json_object",
    "is_mutable_object",
    "is_valid_destination_path",
    "is_valid_source_path",
    "parse_toml_path_segments",
    "path_exists",
    "path_parts_overlap",
    "resolve_graph_path",
    "set_nested_value",
    "split_graph_path",
]
