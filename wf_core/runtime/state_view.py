"""What a frame reads as its state: the committed fields of its scope under the writes of its lineage chain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from wf_core.errors import WorkflowExecutionError
from wf_core.paths import StatePath
from wf_core.run_state import ExecutionFrame, Json
from wf_core.runtime.scheduler import is_object
from wf_core.runtime.slice import MISSING, Missing, RunSlice


def lineage_chain(view: RunSlice, scope_id: str, lineage_id: str) -> list[str]:
    """The lineage ids that a reader sees through, outermost first.

    Fails closed: an unknown lineage, one of another scope, or a cycle is damage, never an empty layer. Walked with a
    loop, since chains may be a thousand long.
    """
    chain: list[str] = []
    seen: set[str] = set()
    current: str | None = lineage_id
    while current is not None:
        if current in seen:
            raise WorkflowExecutionError(
                f"cycle in the lineage chain at {current!r}", code="damaged", path=f"lineages[{current}]"
            )
        seen.add(current)
        lineage = view.lineage(current)
        if lineage is None:
            raise WorkflowExecutionError(
                f"unknown lineage {current!r} in scope {scope_id!r}", code="damaged", path=f"lineages[{current}]"
            )
        if lineage.scope_id != scope_id:
            raise WorkflowExecutionError(
                f"lineage {current!r} belongs to scope {lineage.scope_id!r}, not to {scope_id!r}",
                code="damaged",
                path=f"lineages[{current}]",
            )
        chain.append(current)
        current = lineage.parent_id
    chain.reverse()
    return chain


class StateView(Mapping[str, Any]):
    """The visible state of one frame, read field by field, so that a slice need not hold the rest."""

    def __init__(self, view: RunSlice, frame: ExecutionFrame) -> None:
        if view.scope(frame.scope_id) is None:
            raise WorkflowExecutionError(
                f"unknown scope {frame.scope_id!r} of frame {frame.id!r}",
                code="damaged",
                path=f"scopes[{frame.scope_id}]",
            )
        self._view = view
        self._scope_id = frame.scope_id
        overlays = [view.overlay(lineage) for lineage in lineage_chain(view, frame.scope_id, frame.lineage_id)]
        self._overlays = [overlay for overlay in overlays if overlay]
        self._seen: dict[str, Json | Missing] = {}

    def field(self, name: str) -> Json | Missing:
        """One top-level field, or MISSING."""
        if name not in self._seen:
            value = self._view.state_field(self._scope_id, name)
            for overlay in self._overlays:
                for path, visible in overlay.items():
                    if path.parts[0] == name:
                        value = with_value(value, path.parts[1:], visible, path)
            self._seen[name] = value
        return self._seen[name]

    def __getitem__(self, name: str) -> Any:
        value = self.field(name)
        if isinstance(value, Missing):
            raise KeyError(name)
        return value

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and not isinstance(self.field(name), Missing)

    def __iter__(self) -> Iterator[str]:
        names = dict.fromkeys(self._view.state_names(self._scope_id))
        for overlay in self._overlays:
            names.update(dict.fromkeys(path.parts[0] for path in overlay))
        return iter(names)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def with_value(current: Json | Missing, parts: tuple[str, ...], value: Json, path: StatePath) -> Json:
    """``current`` with ``value`` at ``parts``: a copy along the way, everything else shared.

    Missing and null objects on the way are created; anything else that is no object refuses.
    """
    if not parts:
        return value
    if isinstance(current, Missing) or current is None:
        current = {}
    if not is_object(current):
        raise WorkflowExecutionError(
            f"cannot descend into {type(current).__name__} at {path}", code="state_write_refused", path=str(path)
        )
    copy = dict(current)
    copy[parts[0]] = with_value(current.get(parts[0]), parts[1:], value, path)
    return copy


def value_at(current: Json | Missing, parts: tuple[str, ...]) -> Json | Missing:
    """The value below ``current``, or MISSING where an object or a key is absent."""
    for part in parts:
        if not is_object(current) or part not in current:
            return MISSING
        current = current[part]
    return current
