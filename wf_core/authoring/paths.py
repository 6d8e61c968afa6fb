"""Path helpers: the three graph roots, written as a key expression or as literal segments."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from wf_core.paths import GraphRoot, GraphSourcePath, LocalPath, StatePath, parse_toml_path_segments

GraphPath: TypeAlias = GraphSourcePath
"""Another name of ``GraphSourcePath``."""

SegmentArgument: TypeAlias = "str | Iterable[str] | GraphSourcePath | StatePath"
"""What path helpers take: one key expression, several literal segments, one iterable of them, or a finished path."""


def input_path(*segments: SegmentArgument) -> GraphSourcePath:
    """A value of the workflow's input: ``input_path("order.total")``; nothing given is the whole of it."""
    return rooted_path("input", segments)


def state_path(*segments: SegmentArgument) -> GraphSourcePath:
    """A value of the state: ``state_path("order.total")``; nothing given is the whole of it."""
    return rooted_path("state", segments)


def context_path(*segments: SegmentArgument) -> GraphSourcePath:
    """A value of the step's context: ``context_path("loop_index")``; nothing given is the whole of it."""
    return rooted_path("context", segments)


def graph_path(text: str) -> GraphSourcePath:
    """The path a text such as ``state.order.total`` stands for."""
    return GraphSourcePath.parse(text)


def rooted_path(root: GraphRoot, segments: tuple[SegmentArgument, ...]) -> GraphSourcePath:
    """The path below a root.

    One string is a key expression, as in the text of a path; several strings, or one iterable, are taken literally,
    so ``("orders.v2", "total")`` are two segments. A finished path is passed through: ``ValueError`` when it has
    another root, ``TypeError`` when segments are to be added to it.
    """
    if len(segments) != 1:
        return GraphSourcePath(root, tuple(_literal(segment) for segment in segments))
    [only] = segments
    if isinstance(only, str):
        return GraphSourcePath(root, parse_toml_path_segments(only))
    if isinstance(only, GraphSourcePath | StatePath):
        path = only if isinstance(only, GraphSourcePath) else GraphSourcePath("state", only.parts)
        if path.root != root:
            raise ValueError(f"{str(only)!r} is no path below {root!r}")
        return path
    if isinstance(only, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers are not all typed
        return GraphSourcePath(root, tuple(_literal(segment) for segment in only))
    raise TypeError(f"unsupported path value {only!r}")


def _literal(segment: object) -> str:
    if isinstance(segment, str):
        return segment
    if isinstance(segment, GraphSourcePath | StatePath | LocalPath):
        raise TypeError(f"cannot add segments to the finished path {str(segment)!r}; write all of them out")
    raise TypeError(f"unsupported path segment {segment!r}: a segment is a string")
