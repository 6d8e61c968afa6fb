"""The read side of the kernel: a possibly partial, read-only view of one run.

Whether a part is *absent* or merely *not loaded* is the difference between a damaged run and a missing read. A
slice that was not given a part raises :class:`SliceMiss`; the store loads it and the pure function runs again. What
it then reports as absent is absent for certain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from wf_core.paths import StatePath
from wf_core.run_state import ExecutionFrame, Json, LineageState, RunState, RuntimeScope
from wf_core.runtime.scheduler import damaged, foreach_visits
from wf_core.runtime.transition import ItemError, ItemResult


class Missing:
    """The type of :data:`MISSING`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = Missing()
"""Absent for certain; never confused with a present null."""


@dataclass(frozen=True, slots=True)
class Need:
    """One part of a run that a slice does not hold.

    kind      key             names
    state     scope id        top-level fields, or none for all
    input     scope id
    frame     frame id
    item      item frame id
    results   activation id
    """

    kind: str
    key: str
    names: tuple[str, ...] = ()


class SliceMiss(Exception):
    """The kernel needs a part that the slice does not hold. Load it and call again."""

    def __init__(self, *needs: Need) -> None:
        super().__init__(", ".join(f"{n.kind}:{n.key}:{','.join(n.names)}" for n in needs))
        self.needs = needs


@dataclass(frozen=True, slots=True)
class Unloaded:
    """Stands in an item frame's metadata for an item that the slice was not given."""

    frame_id: str


def loaded(item: Json) -> Json:
    """The item itself; :class:`SliceMiss` when the slice was not given it."""
    if isinstance(item, Unloaded):
        raise SliceMiss(Need("item", item.frame_id))
    return item


class RunSlice(Protocol):
    """What the kernel may read of a run. Nothing returned here may be changed by its reader."""

    def frame(self, frame_id: str) -> ExecutionFrame | None:
        """The frame, or None when it does not exist. An item frame's metadata holds its item."""
        ...

    def scope(self, scope_id: str) -> RuntimeScope | None:
        """Identity of the scope. Its state and input are read with the methods below, never from this value."""
        ...

    def workflow_input(self, scope_id: str) -> dict[str, Json]:
        """The input of the scope's workflow."""
        ...

    def state_field(self, scope_id: str, name: str) -> Json | Missing:
        """One committed top-level state field."""
        ...

    def state_names(self, scope_id: str) -> Sequence[str]:
        """The names of all committed top-level state fields."""
        ...

    def lineage(self, lineage_id: str) -> LineageState | None:
        """The lineage with its writes, or None when it does not exist."""
        ...

    def overlay(self, lineage_id: str) -> Mapping[StatePath, Json]:
        """What a reader of the lineage sees above its parent: the last visible value of each path, in write order."""
        ...

    def results(self, controller: ExecutionFrame, node_id: str, activation_id: str) -> Sequence[ItemResult]:
        """The results of the open concurrent visit of the controller to foreach ``node_id``, in item order."""
        ...

    def unannounced_item(self, frame_id: str) -> int | None:
        """Where admission wrote no ``loop`` trace entry for an item yet: the step number that entry gets, else None."""
        ...


def fold_overlay(overlay: dict[StatePath, Json], path: StatePath, visible: Any) -> None:
    """Adds one write to an overlay: the last write of a path counts, and takes the last place in the order."""
    overlay.pop(path, None)
    overlay[path] = visible


class RunStateSlice:
    """The whole of a ``RunState``, read where it lies.

    One instance serves a whole execution: it remembers how far each lineage's overlay was folded, so that a read
    costs the number of distinct paths and not the number of writes.
    """

    def __init__(self, run: RunState) -> None:
        self.run = run
        self._overlays: dict[str, tuple[int, dict[StatePath, Json]]] = {}

    def frame(self, frame_id: str) -> ExecutionFrame | None:
        return self.run.frames.get(frame_id)

    def scope(self, scope_id: str) -> RuntimeScope | None:
        return self.run.scopes.get(scope_id)

    def workflow_input(self, scope_id: str) -> dict[str, Json]:
        scope = self.run.scopes.get(scope_id)
        return scope.workflow_input if scope is not None else {}

    def state_field(self, scope_id: str, name: str) -> Json | Missing:
        scope = self.run.scopes.get(scope_id)
        return MISSING if scope is None else scope.committed_state.get(name, MISSING)

    def state_names(self, scope_id: str) -> Sequence[str]:
        scope = self.run.scopes.get(scope_id)
        return () if scope is None else tuple(scope.committed_state)

    def lineage(self, lineage_id: str) -> LineageState | None:
        return self.run.lineages.get(lineage_id)

    def overlay(self, lineage_id: str) -> Mapping[StatePath, Json]:
        lineage = self.run.lineages.get(lineage_id)
        if lineage is None or not lineage.writes:
            return {}
        folded, overlay = self._overlays.get(lineage_id, (0, {}))
        if folded > len(lineage.writes):
            folded, overlay = 0, {}
        for write in lineage.writes[folded:]:
            fold_overlay(overlay, write.path, write.visible_value)
        self._overlays[lineage_id] = (len(lineage.writes), overlay)
        return overlay

    def results(self, controller: ExecutionFrame, node_id: str, activation_id: str) -> Sequence[ItemResult]:
        return stored_results(self.run, controller, node_id)

    def unannounced_item(self, frame_id: str) -> int | None:
        return None


def stored_results(run: RunState, controller: ExecutionFrame, node_id: str) -> list[ItemResult]:
    """The results that the barrier in the controller's metadata holds, in item order; malformed ones raise."""
    barrier = foreach_visits(controller, node_id).barrier
    if barrier is None:
        raise damaged(f"foreach {node_id!r} of frame {controller.id!r} has no barrier", frame_id=controller.id)
    pending: dict[str, Any] = barrier["pending_results"]
    return [stored_result(run, controller, pending[key]) for key in sorted(pending, key=int)]


def stored_result(run: RunState, controller: ExecutionFrame, record: Any) -> ItemResult:
    """One pending result: a success must name a known lineage, a failure an error of the same item."""
    try:
        index, frame_id, status = record["index"], record["frame_id"], record["status"]
        if status == "succeeded":
            return ItemResult(index, tuple(run.lineages[record["lineage_id"]].writes))
        error = record["error"]
        if error["index"] != index or error["frame_id"] != frame_id:
            raise damaged(
                f"the error of item {index} belongs to frame {error['frame_id']!r}, index {error['index']}",
                frame_id=controller.id,
            )
        return ItemResult(index, error=ItemError(**error))
    except (KeyError, TypeError) as error:
        raise damaged(
            f"malformed item result in frame {controller.id!r}: missing or wrong {error}", frame_id=controller.id
        ) from error
