"""Reading and writing places inside one payload, as named by ``LocalPath``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping
from itertools import pairwise
from typing import Any, TypeAlias

from wf_core.errors import WfError
from wf_core.paths import (
    LocalPath,
    PathResolutionError,
    format_toml_path_segments,
    is_json_object,
    is_mutable_object,
    path_parts_overlap,
)

LocalPathLike: TypeAlias = str | LocalPath
"""A place in a payload: ready, or as text that is parsed on every call."""


class LocalPathError(WfError, ValueError):
    """A local path is malformed, names nothing in the payload, or cannot be written."""

    default_code = "local_path_failed"


def split_local_path(path: LocalPathLike) -> list[str]:
    """The segments of a local path; ``.`` has none. Raises ``LocalPathError`` for a text that is no path."""
    return list(_parts(path))


def get_local_value(payload: Mapping[str, Any], path: LocalPathLike) -> Any:
    """The value at a place, or a shallow copy of the payload for ``.``; raises ``LocalPathError`` if it is missing."""
    parts = _parts(path)
    if not parts:
        return dict(payload)
    current: Any = payload
    for depth, part in enumerate(parts):
        if not is_json_object(current):
            at = format_toml_path_segments(parts[:depth])
            raise LocalPathError(f"cannot read {str(path)!r}: {at} is not an object", path=str(path))
        if part not in current:
            at = format_toml_path_segments(parts[: depth + 1])
            raise LocalPathError(f"cannot read {str(path)!r}: {at} is missing", path=str(path))
        current = current[part]
    return current


def set_local_value(payload: MutableMapping[str, Any], path: LocalPathLike, value: object) -> None:
    """Write in place, creating missing objects; ``.`` replaces the whole content and needs a mapping.

    Raises ``LocalPathError``, with nothing written, when the way leads into anything but an object.
    """
    parts = _parts(path)
    if not parts:
        if not is_json_object(value):
            raise LocalPathError(f"the whole payload must be an object, not {type(value).__name__}", path=".")
        content = dict(value)
        payload.clear()
        payload.update(content)
        return

    current = payload
    for depth, part in enumerate(parts[:-1]):
        below: object = current.setdefault(part, {})
        if not is_mutable_object(below):
            at = format_toml_path_segments(parts[: depth + 1])
            raise LocalPathError(f"cannot descend into {at}: it is not an object", path=str(path))
        current = below
    current[parts[-1]] = value


def paths_overlap(a: LocalPathLike, b: LocalPathLike) -> bool:
    """Whether two places are equal or one holds the other; ``.`` overlaps everything."""
    return path_parts_overlap(_parts(a), _parts(b))


def has_overlapping_paths(paths: Iterable[LocalPathLike]) -> bool:
    """Whether any two of the places overlap."""
    # In sorted order a place is followed at once by what it holds, so neighbours are enough.
    ordered = sorted(_parts(path) for path in paths)
    return any(path_parts_overlap(a, b) for a, b in pairwise(ordered))


def _parts(path: LocalPathLike) -> tuple[str, ...]:
    if isinstance(path, LocalPath):
        return path.parts
    try:
        return LocalPath.parse(path).parts
    except PathResolutionError as error:
        raise LocalPathError(error.message, hint=error.hint) from error
