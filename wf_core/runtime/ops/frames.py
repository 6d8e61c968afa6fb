"""The structured foreach context of a frame, derived from its persisted ancestry.

One walk serves every consumer: node input, foreach source, interrupt request, conditions, workflow output and
handlers. It is never stored flattened, so it cannot disagree with the frames after a restart or on another machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from wf_core.context_contracts import (
    FOREACH_CONTEXT_KEY,
    LOOP_INDEX_CONTEXT_KEY,
    LOOP_ITEM_CONTEXT_KEY,
    RESERVED_CONTEXT_KEYS,
)
from wf_core.run_state import ExecutionFrame, ForeachContext, RunState
from wf_core.runtime.scheduler import ForeachIterationMetadata, damaged
from wf_core.runtime.slice import RunSlice, RunStateSlice, loaded


@dataclass(frozen=True, slots=True)
class FrameContextView:
    """Typed handler context and graph values from one ancestry walk.

    ``foreach`` maps the static id of each active loop to its entry, outermost first. ``graph`` is the JSON object
    that paths under ``context`` read.
    """

    foreach: Mapping[str, ForeachContext]
    graph: Mapping[str, Any]


def frame_context_view(run: RunState | RunSlice, frame: ExecutionFrame) -> FrameContextView:
    """What the frame may know of the loops around it. Reads only; nothing is changed.

    The walk follows ``parent_frame_id`` while the ancestor stands in the same scope. It stops at a scope boundary
    although a child's root frame has a parent in the caller: ancestry says who schedules whom, and gives no right to
    read the caller's context. Every check fails closed, because a damaged frame must fail the run where it is, not
    make a binding read an absent or a wrong iteration.
    """
    view = RunStateSlice(run) if isinstance(run, RunState) else run
    entries: list[tuple[ForeachContext, str]] = []
    seen: set[str] = set()
    current = frame
    while True:
        if current.id in seen:
            raise damaged(f"cyclic execution frame ancestry at frame {current.id!r}", frame_id=current.id)
        seen.add(current.id)
        iteration = ForeachIterationMetadata.from_frame(current)
        if iteration is not None:
            loaded(iteration.loop_item)
            entries.append((iteration.to_context(current), iteration.loop_alias))
        if current.parent_frame_id is None:
            break
        parent = view.frame(current.parent_frame_id)
        if parent is None:
            raise damaged(
                f"missing parent frame {current.parent_frame_id!r} of frame {current.id!r}", frame_id=current.id
            )
        if parent.scope_id != frame.scope_id:
            break
        current = parent
    entries.reverse()
    return _materialise(frame, entries)


def _materialise(frame: ExecutionFrame, entries: list[tuple[ForeachContext, str]]) -> FrameContextView:
    foreach: dict[str, ForeachContext] = {}
    aliases: dict[str, Any] = {}
    for entry, alias in entries:
        if entry.node_id in foreach:
            raise damaged(f"duplicate active foreach id {entry.node_id!r} above frame {frame.id!r}", frame_id=frame.id)
        if not alias or alias in RESERVED_CONTEXT_KEYS:
            raise damaged(
                f"malformed foreach alias {alias!r} of foreach {entry.node_id!r}: empty or reserved", frame_id=frame.id
            )
        if alias in aliases:
            raise damaged(f"duplicate active foreach alias {alias!r} of foreach {entry.node_id!r}", frame_id=frame.id)
        foreach[entry.node_id] = entry
        aliases[alias] = entry.item
    graph: dict[str, Any] = {
        "prior_outcome": frame.prior_outcome,
        "activated_incoming_edge": frame.activated_incoming_edge,
        "scope_id": frame.scope_id,
        "lineage_id": frame.lineage_id,
        "parent_lineage_id": frame.parent_lineage_id,
        FOREACH_CONTEXT_KEY: {
            node_id: {
                "node_id": entry.node_id,
                "activation_id": entry.activation_id,
                "frame_id": entry.frame_id,
                "scope_id": entry.scope_id,
                "lineage_id": entry.lineage_id,
                "index": entry.index,
                "item": entry.item,
            }
            for node_id, entry in foreach.items()
        },
        **aliases,
    }
    if entries:
        innermost = entries[-1][0]
        graph[LOOP_ITEM_CONTEXT_KEY] = innermost.item
        graph[LOOP_INDEX_CONTEXT_KEY] = innermost.index
    return FrameContextView(MappingProxyType(foreach), graph)
