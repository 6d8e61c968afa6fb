"""Frames and what they remember: the typed readers of frame metadata, and how frames come to be.

Metadata is persisted JSON. It is read through these helpers only, and they fail closed: malformed metadata is
damage, never an absent value.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, TypeGuard

from wf_core.errors import WorkflowExecutionError
from wf_core.run_state import ITEM_FRAME, ExecutionFrame, ForeachContext, Json

_ITEM_KEYS: Final = ("foreach_node_id", "activation_id", "loop_alias")
_BARRIER_KEYS: Final[tuple[tuple[str, type], ...]] = (
    ("next_index", int),
    ("mode", str),
    ("active_frame_ids", list),
    ("outstanding_frame_ids", list),
    ("pending_results", dict),
)


def damaged(message: str, *, frame_id: str) -> WorkflowExecutionError:
    """The error for persisted state that cannot be what the engine wrote."""
    return WorkflowExecutionError(message, code="damaged", path=f"frames[{frame_id}]")


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Whether persisted JSON is an object."""
    return isinstance(value, dict)


@dataclass(frozen=True, slots=True)
class ForeachIterationMetadata:
    """What an item frame remembers of its iteration."""

    foreach_node_id: str
    activation_id: str
    loop_index: int
    loop_item: Json
    loop_alias: str

    @classmethod
    def from_frame(cls, frame: ExecutionFrame) -> ForeachIterationMetadata | None:
        """The iteration of an item frame, None for any other frame; malformed metadata of an item frame raises."""
        if frame.kind != ITEM_FRAME:
            return None
        metadata = frame.metadata
        node_id, visit, alias = (metadata.get(key) for key in _ITEM_KEYS)
        index = metadata.get("loop_index")
        if (
            not (isinstance(node_id, str) and isinstance(visit, str) and isinstance(alias, str))
            or not (node_id and visit)
            or type(index) is not int
            or index < 0
            or "loop_item" not in metadata
        ):
            raise _malformed_item(frame)
        return cls(node_id, visit, index, metadata["loop_item"], alias)

    def to_metadata(self) -> dict[str, Json]:
        """The persisted form."""
        return {
            "foreach_node_id": self.foreach_node_id,
            "activation_id": self.activation_id,
            "loop_index": self.loop_index,
            "loop_item": self.loop_item,
            "loop_alias": self.loop_alias,
        }

    def to_context(self, frame: ExecutionFrame) -> ForeachContext:
        """The entry that handlers and bindings see."""
        return ForeachContext(
            node_id=self.foreach_node_id,
            activation_id=self.activation_id,
            frame_id=frame.id,
            scope_id=frame.scope_id,
            lineage_id=frame.lineage_id,
            index=self.loop_index,
            item=self.loop_item,
        )


def _malformed_item(frame: ExecutionFrame) -> WorkflowExecutionError:
    """The error for the first wrong key of an item frame's metadata. The alias is looked at where it is used."""
    metadata, wrong = frame.metadata, "missing loop_item"
    if type(metadata.get("loop_index")) is not int or metadata["loop_index"] < 0:
        wrong = f"loop_index is {metadata.get('loop_index')!r}"
    for key in reversed(_ITEM_KEYS):
        value = metadata.get(key)
        if not isinstance(value, str) or (not value and key != "loop_alias"):
            wrong = f"{key} is {value!r}"
    return damaged(f"malformed foreach metadata of frame {frame.id!r}: {wrong}", frame_id=frame.id)


@dataclass(frozen=True, slots=True)
class ForeachVisits:
    """A frame's memory of one foreach: how often it entered it, and the visit that is open now."""

    next_sequence: int
    active_id: str | None
    barrier: dict[str, Json] | None
    """Progress of a serial visit (and, in the in-memory engine, of a concurrent one); None where the store keeps it."""

    @property
    def mode(self) -> str | None:
        """The mode the open visit began in, or None where no barrier is kept here."""
        return None if self.barrier is None else self.barrier.get("mode")


def foreach_visits(frame: ExecutionFrame, node_id: str) -> ForeachVisits:
    """Reads the frame's activation table for one foreach; anything malformed raises."""
    table = frame.metadata.get("foreach_activations", {})
    if not is_object(table):
        raise damaged(f"malformed foreach_activations of frame {frame.id!r}", frame_id=frame.id)
    if node_id not in table:
        return ForeachVisits(0, None, None)
    entry = _object(table[node_id])
    sequence = entry.get("next_sequence")
    if type(sequence) is not int or sequence < 0 or "active" not in entry:
        raise damaged(f"malformed activation entry for foreach {node_id!r} of frame {frame.id!r}", frame_id=frame.id)
    if entry["active"] is None:
        return ForeachVisits(sequence, None, None)
    active = _object(entry["active"])
    visit, barrier = active.get("id"), active.get("barrier")
    if not isinstance(visit, str) or not visit:
        raise damaged(f"malformed active activation of foreach {node_id!r} in frame {frame.id!r}", frame_id=frame.id)
    if barrier is not None:
        check_barrier(barrier, frame.id)
    return ForeachVisits(sequence, visit, barrier)


def _object(value: Any) -> dict[str, Any]:
    """The value if it is an object, else one without any key."""
    return value if is_object(value) else {}


def check_barrier(barrier: Any, frame_id: str) -> None:
    """A barrier has an index to go on from, its mode, the live frames and the results so far."""
    if not is_object(barrier):
        raise damaged(f"malformed barrier of frame {frame_id!r}", frame_id=frame_id)
    for key, kind in _BARRIER_KEYS:
        value = barrier.get(key)
        if type(value) is not kind:
            fault = f"{key} is {value!r}" if key in barrier else f"missing '{key}'"
            raise damaged(f"malformed barrier of frame {frame_id!r}: {fault}", frame_id=frame_id)
    if barrier["next_index"] < 0:
        raise damaged(
            f"malformed barrier of frame {frame_id!r}: next_index is {barrier['next_index']!r}", frame_id=frame_id
        )
    if barrier["mode"] not in ("serial", "concurrent"):
        raise damaged(f"malformed barrier of frame {frame_id!r}: mode is {barrier['mode']!r}", frame_id=frame_id)


def new_barrier(mode: str) -> dict[str, Json]:
    """The barrier of a visit that has just begun."""
    return {"next_index": 0, "mode": mode, "active_frame_ids": [], "outstanding_frame_ids": [], "pending_results": {}}


def with_visit(
    frame: ExecutionFrame, node_id: str, *, next_sequence: int, active: dict[str, Json] | None
) -> ExecutionFrame:
    """The frame with its table entry for one foreach replaced."""
    table = {
        **frame.metadata.get("foreach_activations", {}),
        node_id: {"next_sequence": next_sequence, "active": active},
    }
    return replace(frame, metadata={**frame.metadata, "foreach_activations": table})


def activation_id(frame_id: str, node_id: str, sequence: int) -> str:
    """The id of one visit. Opaque: nothing parses it."""
    return f"{frame_id}:{node_id}#{sequence}"


def item_frame_id(activation: str, index: int) -> str:
    """The frame of one item of a visit."""
    return f"{activation}:{index}"


def item_lineage_id(activation: str, index: int) -> str:
    """The lineage of one item of a visit."""
    return f"{activation}[{index}]"


def item_frame(
    *,
    activation: str,
    index: int,
    item: Json,
    foreach_id: str,
    alias: str,
    body: str,
    controller_id: str,
    scope_id: str,
    lineage_id: str,
) -> ExecutionFrame:
    """The frame of one item as it begins. ``lineage_id`` is the controller's; the item gets one of its own above it.

    Both engines and both modes make item frames here and nowhere else.
    """
    metadata = ForeachIterationMetadata(foreach_id, activation, index, item, alias).to_metadata()
    return ExecutionFrame(
        id=item_frame_id(activation, index),
        kind=ITEM_FRAME,
        node_id=body,
        parent_frame_id=controller_id,
        scope_id=scope_id,
        lineage_id=item_lineage_id(activation, index),
        parent_lineage_id=lineage_id,
        metadata=metadata,
    )


def subgraph_activation(frame: ExecutionFrame) -> dict[str, Any] | None:
    """The child workflow that a frame waits for, or whose end it has to take in; None when there is none.

    ``workflow_ref``, ``scope_id``, ``lineage_id``, ``child_frame_id``, ``child_input``; once the child has ended also
    its ``outcome``, ``prior_outcome`` and ``activated_incoming_edge``. Anything malformed raises.
    """
    record: Any = frame.metadata.get("subgraph_activation")
    if record is None:
        return None
    texts = ("scope_id", "lineage_id", "child_frame_id")
    if not is_object(record) or not all(isinstance(record.get(key), str) for key in texts):
        raise damaged(f"malformed subgraph_activation of frame {frame.id!r}", frame_id=frame.id)
    if not is_object(record.get("child_input")):
        raise damaged(f"malformed subgraph_activation of frame {frame.id!r}: no child_input", frame_id=frame.id)
    return record
