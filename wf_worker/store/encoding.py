"""Records to bytes and back, and a transition to the flat operations that the scripts apply.

Values are JSON. What comes from outside was checked when it entered, so writing does not check again; reading is
strict, and a record that cannot be read is damage.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from typing import Any, Final, cast

import msgspec

from wf_core.models.reducers import ReducerRef
from wf_core.models.workflow_refs import WorkflowRef
from wf_core.paths import StatePath
from wf_core.run_state import (
    ITEM_FRAME,
    ExecutionFrame,
    InterruptRequest,
    InterruptRoute,
    Json,
    StateWrite,
    TraceEntry,
    TraceLevel,
)
from wf_core.runtime.scheduler import item_frame
from wf_core.runtime.slice import fold_overlay
from wf_core.runtime.transition import Activation, ItemError, ItemResult, RunError
from wf_worker.errors import RunDamaged

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode

INLINE_VALUE: Final = 256 * 1024
"""Bytes of a state field that may travel inside a commit; a larger one is staged in chunks of this size."""


def to_bytes(value: Any) -> bytes:
    """A JSON value as bytes."""
    return _encode(value)


def from_bytes(data: bytes, what: str) -> Any:
    """The JSON value; :class:`RunDamaged` naming the record when the bytes are not one."""
    try:
        return _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RunDamaged(f"{what} is not readable: {error}", path=what) from error


TRACED_VALUE: Final = 64 * 1024
"""Bytes of one value that a trace entry holds; a larger one is traced as ``{"omitted_bytes": n}``."""

# ---- frames


def encode_frame(frame: ExecutionFrame, *, item_elsewhere: bool) -> bytes:
    """The body of a frame. The item of a concurrent foreach is kept under its activation, not here."""
    metadata = frame.metadata
    if item_elsewhere:
        metadata = {key: value for key, value in metadata.items() if key != "loop_item"}
    return _encode(
        [
            1,
            frame.id,
            frame.node_id,
            frame.kind,
            frame.parent_frame_id,
            frame.scope_id,
            frame.lineage_id,
            frame.parent_lineage_id,
            frame.prior_outcome,
            frame.activated_incoming_edge,
            metadata,
        ]
    )


def decode_frame(data: bytes, key: str) -> ExecutionFrame:
    """The frame of a stored body."""
    record = from_bytes(data, f"frame {key}")
    if not isinstance(record, list) or len(record) != 11 or record[0] != 1 or not isinstance(record[10], dict):  # pyright: ignore[reportUnknownArgumentType]
        raise RunDamaged(f"frame {key} has a malformed body", path=f"b[{key}]")
    fields = cast(list[Any], record)
    return ExecutionFrame(
        id=fields[1],
        node_id=fields[2],
        kind=fields[3],
        parent_frame_id=fields[4],
        scope_id=fields[5],
        lineage_id=fields[6],
        parent_lineage_id=fields[7],
        prior_outcome=fields[8],
        activated_incoming_edge=fields[9],
        metadata=fields[10],
    )


def encode_template(activation: Activation) -> bytes:
    """What every item frame of an activation is made from; the item frames themselves need no body at first."""
    return _encode(
        [
            1,
            activation.id,
            activation.node_id,
            activation.alias,
            activation.frame_id,
            activation.scope_id,
            activation.lineage_id,
            activation.body_node_id,
        ]
    )


def frame_from_template(data: bytes, index: int, item: Json, key: str) -> ExecutionFrame:
    """An item frame as it began."""
    record = from_bytes(data, f"activation template of {key}")
    if not isinstance(record, list) or len(record) != 8 or record[0] != 1:  # pyright: ignore[reportUnknownArgumentType]
        raise RunDamaged(f"the activation template of {key} is malformed", path=f"a[{key}]")
    _, activation_id, node_id, alias, controller, scope, lineage, body = record  # pyright: ignore[reportUnknownVariableType]
    return item_frame(
        activation=activation_id,  # pyright: ignore[reportUnknownArgumentType]
        index=index,
        item=item,
        foreach_id=node_id,  # pyright: ignore[reportUnknownArgumentType]
        alias=alias,  # pyright: ignore[reportUnknownArgumentType]
        body=body,  # pyright: ignore[reportUnknownArgumentType]
        controller_id=controller,  # pyright: ignore[reportUnknownArgumentType]
        scope_id=scope,  # pyright: ignore[reportUnknownArgumentType]
        lineage_id=lineage,  # pyright: ignore[reportUnknownArgumentType]
    )


# ---- writes and results


@functools.lru_cache(maxsize=1024)
def _reducer_text(name: str) -> ReducerRef:
    return ReducerRef(name=name)


def encode_writes(writes: Sequence[StateWrite]) -> bytes:
    """Write records, one a line: path, incoming value, reducer. A barrier replays them."""
    lines: list[bytes] = []
    for write in writes:
        reducer: Any = write.reducer.name if not write.reducer.config else write.reducer.model_dump(mode="json")
        lines.append(_encode([write.path.parts, write.incoming_value, reducer]))
    return b"\n".join(lines) + b"\n" if lines else b""


def encode_overlay(writes: Sequence[StateWrite]) -> list[bytes]:
    """What a reader of the lineage sees of these writes: path and last visible value by turns, in write order."""
    seen: dict[StatePath, Any] = {}
    for write in writes:
        fold_overlay(seen, write.path, write.visible_value)
    return [part for path, value in seen.items() for part in (_encode(path.parts), _encode(value))]


def decode_overlay(pairs: Sequence[bytes], what: str) -> dict[StatePath, Any]:
    """What a reader of a lineage sees: value by path, in the order in which each path was last written."""
    found: list[tuple[tuple[int, int], StatePath, Any]] = []
    for path, record in zip(pairs[::2], pairs[1::2], strict=True):
        order, bar, value = record.partition(b"|")
        sequence, dot, index = order.partition(b".")
        parts = from_bytes(path, what)
        if not bar or not dot or not sequence.isdigit() or not index.isdigit() or not isinstance(parts, list):
            raise RunDamaged(f"{what} holds a malformed value", path=what)
        place = (int(sequence), int(index))
        found.append((place, StatePath(tuple(cast("list[str]", parts))), from_bytes(value, what)))
    found.sort(key=lambda entry: entry[0])
    return {path: value for _, path, value in found}


def decode_writes(data: bytes, what: str) -> list[StateWrite]:
    """The write records of a result, in order. What was visible of each is not kept: replaying makes it anew."""
    writes: list[StateWrite] = []
    for line in data.split(b"\n"):
        if not line:
            continue
        record = from_bytes(line, what)
        if not isinstance(record, list) or len(record) != 3 or not isinstance(record[0], list):  # pyright: ignore[reportUnknownArgumentType]
            raise RunDamaged(f"{what} holds a malformed write record", path=what)
        fields = cast(list[Any], record)
        reducer = _reducer_text(fields[2]) if isinstance(fields[2], str) else ReducerRef.model_validate(fields[2])
        writes.append(StateWrite(StatePath(tuple(fields[0])), fields[1], None, reducer))
    return writes


def encode_item_error(error: ItemError) -> bytes:
    """A failed item's record."""
    return _encode(error.as_record())


def decode_result(data: bytes, index: int) -> ItemResult:
    """One item's result: ``ok|<revision>`` and its write records, or ``error|<revision>`` and its error."""
    head, newline, body = data.partition(b"\n")
    status = head.partition(b"|")[0]
    what = f"result of item {index}"
    if newline and status == b"ok":
        return ItemResult(index, tuple(decode_writes(body, what)))
    if newline and status == b"error":
        record = from_bytes(body, what)
        try:
            return ItemResult(index, error=ItemError(**record))
        except TypeError as error:
            raise RunDamaged(f"{what} is malformed: {error}", path=what) from error
    raise RunDamaged(f"{what} is malformed", path=what)


# ---- interrupts, errors, trace


def encode_interrupt(request: InterruptRequest) -> bytes:
    """An open interrupt; its step number is the record's key."""
    record = asdict(request)
    record.pop("step_number")
    if request.route is not None:
        record["route"]["workflow_ref"] = (
            None if request.route.workflow_ref is None else request.route.workflow_ref.model_dump(mode="json")
        )
    return _encode(record)


def decode_interrupt(data: bytes, number: int) -> InterruptRequest:
    """The request behind an open interrupt."""
    what = f"interrupt {number}"
    record = from_bytes(data, what)
    try:
        route = record["route"]
        if route is not None:
            ref = route["workflow_ref"]
            known = None if ref is None else WorkflowRef.model_validate(ref)
            plain: dict[str, Any] = {key: value for key, value in route.items() if key != "workflow_ref"}
            record["route"] = InterruptRoute(**plain, workflow_ref=known)
        return InterruptRequest(**record, step_number=number)
    except (KeyError, TypeError, ValueError) as error:
        raise RunDamaged(f"{what} is malformed: {error}", path=what) from error


def encode_error(error: RunError) -> bytes:
    """A run's error."""
    return _encode(error.as_record())


def encode_trace(entry: TraceEntry, frame: ExecutionFrame | None, level: TraceLevel) -> bytes:
    """A trace entry, with the identities of the frame it is about; a summary without its payloads.

    The trace is history for people. A value of more than :data:`TRACED_VALUE` bytes (the aggregate of a large barrier,
    say) is named by its size only: it would make the commit as heavy as the value that was staged to keep it light.
    """
    if level == "summary":
        entry = replace(entry, resolved_input={}, output={}, state_changes={})
    activation = None if frame is None or frame.kind != ITEM_FRAME else frame.metadata.get("activation_id")
    return _encode(
        {
            "frame_id": entry.frame_id,
            "node_id": entry.node_id,
            "step_type": entry.step_type,
            "scope_id": None if frame is None else frame.scope_id,
            "lineage_id": None if frame is None else frame.lineage_id,
            "activation_id": activation,
            "resolved_input": _traced(entry.resolved_input),
            "outcome": entry.outcome,
            "next_node_id": entry.next_node_id,
            "output": _traced(entry.output),
            "state_changes": [{"path": path, "value": _traced(value)} for path, value in entry.state_changes.items()],
        }
    )


def _traced(value: Json) -> msgspec.Raw:
    data = _encode(value)
    return msgspec.Raw(data if len(data) <= TRACED_VALUE else _encode({"omitted_bytes": len(data)}))


# ---- chunks


def chunks(values: Iterable[bytes], *, most: int, most_bytes: int) -> Iterable[tuple[int, list[bytes]]]:
    """Consecutive values in chunks of bounded count and size, each with the offset of its first value."""
    chunk: list[bytes] = []
    size = offset = 0
    for value in values:
        if chunk and (len(chunk) == most or size + len(value) > most_bytes):
            yield offset, chunk
            offset, chunk, size = offset + len(chunk), [], 0
        chunk.append(value)
        size += len(value)
    if chunk:
        yield offset, chunk


def slices(data: bytes, size: int) -> Iterable[tuple[int, bytes]]:
    """A long value cut into pieces, each with its offset."""
    for offset in range(0, len(data), size):
        yield offset, data[offset : offset + size]


Encoder = Callable[[Any], bytes]
