"""The slice of a run that a claim brought: what the kernel reads, decoded when it is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from wf_core.models.workflow_refs import WorkflowRef
from wf_core.paths import StatePath
from wf_core.plan import Plan
from wf_core.run_state import (
    ROOT_SCOPE_ID,
    SUBGRAPH_FRAME,
    ExecutionFrame,
    Json,
    LineageState,
    RuntimeScope,
    TraceLevel,
)
from wf_core.runtime.scheduler import subgraph_activation
from wf_core.runtime.slice import MISSING, Missing, Need, SliceMiss, Unloaded
from wf_core.runtime.transition import ItemResult
from wf_worker.errors import RunDamaged
from wf_worker.store.encoding import decode_frame, decode_overlay, frame_from_template, from_bytes

HEAD_WORDS: Final = 21


@dataclass(slots=True)
class Head:
    """A frame head as the scripts keep it; field by field the words that lua/shared/records.lua lists."""

    place: str
    purpose: str
    revision: str
    token: str
    owner: str
    step: int | None
    attempt: int
    losses: int
    failures: int
    position: int
    parent: str
    scope: str
    chain: str
    kind: str
    activation: str
    since_ms: int
    looks: int
    limits: str
    began: str
    left: str
    until: str

    @classmethod
    def parse(cls, text: bytes, key: str) -> Head:
        """The head; a malformed one is damage."""
        words = text.decode().split("|")
        if len(words) != HEAD_WORDS:
            raise RunDamaged(f"frame {key} has a malformed head", path=f"f[{key}]")
        try:
            step = int(words[5]) if words[5] else None
            place, purpose, revision, token, owner = words[:5]
            parent, scope, chain, kind, activation = words[10:15]
            return cls(
                place,
                purpose,
                revision,
                token,
                owner,
                step,
                int(words[6]),
                int(words[7]),
                int(words[8]),
                int(words[9]),
                parent,
                scope,
                chain,
                kind,
                activation,
                int(words[15] or 0),
                int(words[16]),
                *words[17:21],
            )
        except ValueError as error:
            raise RunDamaged(f"frame {key} has a malformed head: {error}", path=f"f[{key}]") from error


@dataclass(slots=True)
class _Stored:
    """One frame of the ancestry, as it came."""

    key: str
    head: Head
    body: bytes | None
    activation_revision: str | None
    opening_step: int | None
    template: bytes | None
    item: bytes | None
    seen: Sequence[bytes] | None


@dataclass(slots=True)
class _Lineage:
    state: LineageState
    overlay: dict[StatePath, Json]


@dataclass(slots=True)
class StoredSlice:
    """What one claim (or one open interrupt) may read of its run. Parts that were not asked for raise SliceMiss."""

    incarnation: str
    run_id: str
    digest: str
    max_steps: int
    steps: int
    frame_id: str
    plan: Plan
    trace: TraceLevel = "full"
    _stored: dict[str, _Stored] = field(default_factory=dict[str, "_Stored"])
    _frames: dict[str, ExecutionFrame] = field(default_factory=dict[str, ExecutionFrame])
    _lineages: dict[str, _Lineage] = field(default_factory=dict[str, "_Lineage"])
    _inputs: dict[str, dict[str, Json]] = field(default_factory=dict[str, dict[str, Json]])
    _scopes: dict[str, RuntimeScope | None] = field(default_factory=dict[str, RuntimeScope | None])
    _state: dict[tuple[str, str], Json | Missing] = field(default_factory=dict[tuple[str, str], Any])
    _whole: set[str] = field(default_factory=set[str])
    _results: dict[str, Sequence[ItemResult]] = field(default_factory=dict[str, Sequence[ItemResult]])

    @classmethod
    def from_reply(cls, reply: Sequence[Any], incarnation: str, plan: Plan, names: Sequence[str] | None) -> StoredSlice:
        """Decodes the slice part of a script's answer. ``names`` are the state fields that were asked for."""
        ancestry, values, workflow_input, run_id, digest, max_steps, steps, trace = reply
        stored = [_stored(record) for record in ancestry]
        if not stored:
            raise RunDamaged("the claimed frame has no head", path="f")
        view = cls(incarnation, _text(run_id), _text(digest), int(max_steps), int(steps), "", plan, _level(trace))
        for record in stored:
            view._add(record)
        view.frame_id = next(iter(view._frames))
        if workflow_input is not None:
            view.give_input(view.own.scope_id, workflow_input)
        view.give_state(view.own.scope_id, names, values)
        return view

    @property
    def own(self) -> ExecutionFrame:
        """The claimed frame."""
        return self._frames[self.frame_id]

    def head(self, frame_id: str) -> Head:
        """The head of a loaded frame."""
        return self._stored[frame_id].head

    def key(self, frame_id: str) -> str:
        """The store key of a loaded frame."""
        return self._stored[frame_id].key

    def knows(self, frame_id: str) -> bool:
        """Whether the frame was loaded."""
        return frame_id in self._stored

    def frame_of_lineage(self, lineage_id: str) -> str | None:
        """The loaded frame that owns a lineage, or None."""
        return next((frame.id for frame in self._frames.values() if frame.lineage_id == lineage_id), None)

    def activation_revision(self, frame_id: str) -> str:
        """The revision of the opening of a concurrent item's activation: with it, its item has a name for ever."""
        return self._stored[frame_id].activation_revision or ""

    # -- what is given later

    def give_input(self, scope_id: str, data: bytes) -> None:
        """The input of a scope's workflow."""
        value = from_bytes(data, "workflow input")
        if not isinstance(value, dict):
            raise RunDamaged("the workflow input is no object", path="h.input")
        self._inputs[scope_id] = value

    def give_state(self, scope_id: str, names: Sequence[str] | None, values: Sequence[Any]) -> None:
        """State fields, in the order of ``names``; without names all, as field and value by turns."""
        if names is None:
            for name, value in zip(values[::2], values[1::2], strict=True):
                self._state[scope_id, _text(name)] = value
            self._whole.add(scope_id)
            return
        for name, value in zip(names, values, strict=True):
            self._state[scope_id, name] = MISSING if value is None else value

    def give_large(self, scope_id: str, name: str, data: bytes | None) -> None:
        """The staged value that a field named."""
        if data is None:
            raise RunDamaged(f"the staged value of state field {name!r} is gone", path=f"s.{name}")
        self._state[scope_id, name] = from_bytes(data, f"state field {name}")

    def give_item(self, frame_id: str, item: Json) -> None:
        """The item of an enclosing iteration."""
        self._frames[frame_id].metadata["loop_item"] = item

    def give_results(self, activation_id: str, results: Sequence[ItemResult]) -> None:
        """Every result of an activation, in item order."""
        self._results[activation_id] = results

    # -- RunSlice

    def frame(self, frame_id: str) -> ExecutionFrame | None:
        return self._frames.get(frame_id)

    def scope(self, scope_id: str) -> RuntimeScope | None:
        if scope_id == ROOT_SCOPE_ID:
            return RuntimeScope(scope_id, self.plan.workflow.name)
        if scope_id not in self._scopes:
            self._scopes[scope_id] = self._child_scope(scope_id)
        return self._scopes[scope_id]

    def _child_scope(self, scope_id: str) -> RuntimeScope | None:
        """A child scope is known by its root frame, or by the caller that has still to take its output."""
        for frame in self._frames.values():
            if frame.kind == SUBGRAPH_FRAME and frame.scope_id == scope_id:
                workflow = frame.metadata.get("workflow")
                if not isinstance(workflow, dict):
                    raise RunDamaged(f"frame {frame.id!r} does not name its workflow", path=f"frames[{frame.id}]")
                known = cast(dict[str, Any], workflow)
                return RuntimeScope(scope_id, known["name"], workflow_ref=WorkflowRef.model_validate(known["ref"]))
            activation = subgraph_activation(frame)
            if activation is not None and activation["scope_id"] == scope_id:
                ref = WorkflowRef.model_validate(activation["workflow_ref"])
                return RuntimeScope(scope_id, ref.display, workflow_ref=ref)
        return None

    def workflow_input(self, scope_id: str) -> dict[str, Json]:
        if scope_id not in self._inputs:
            raise SliceMiss(Need("input", scope_id))
        return self._inputs[scope_id]

    def state_field(self, scope_id: str, name: str) -> Json | Missing:
        value = self._state.get((scope_id, name), None)
        if value is None and (scope_id, name) not in self._state:
            if scope_id in self._whole:
                return MISSING
            raise SliceMiss(Need("state", scope_id, (name,)))
        if isinstance(value, bytes):
            value = self._state[scope_id, name] = self._field(scope_id, name, value)
        return value

    def _field(self, scope_id: str, name: str, data: bytes) -> Json:
        if data[:1] == b"=":
            return from_bytes(data[1:], f"state field {name}")
        if data[:1] == b"@":
            raise SliceMiss(Need("large", scope_id, (name, data[1:].split(b" ")[0].decode())))
        raise RunDamaged(f"state field {name!r} is malformed", path=f"s.{name}")

    def state_names(self, scope_id: str) -> Sequence[str]:
        if scope_id not in self._whole:
            raise SliceMiss(Need("state", scope_id))
        return tuple(
            name
            for scope, name in self._state
            if scope == scope_id and not isinstance(self._state[scope, name], Missing)
        )

    def lineage(self, lineage_id: str) -> LineageState | None:
        found = self._lineages.get(lineage_id)
        if found is not None:
            return found.state
        for frame in self._frames.values():  # the root lineage of a child that has ended; all of it was committed
            activation = subgraph_activation(frame)
            if activation is not None and activation["lineage_id"] == lineage_id:
                return LineageState(lineage_id, activation["scope_id"])
        return None

    def overlay(self, lineage_id: str) -> Mapping[StatePath, Json]:
        found = self._lineages.get(lineage_id)
        return {} if found is None else found.overlay

    def results(self, controller: ExecutionFrame, node_id: str, activation_id: str) -> Sequence[ItemResult]:
        if activation_id not in self._results:
            raise SliceMiss(Need("results", activation_id))
        return self._results[activation_id]

    def unannounced_item(self, frame_id: str) -> int | None:
        stored = self._stored.get(frame_id)
        if stored is None or stored.head.kind != "c" or stored.body is not None:
            return None
        return stored.opening_step

    # -- decoding

    def _add(self, stored: _Stored) -> None:
        frame = self._decode(stored)
        if frame.id in self._frames:
            raise RunDamaged(f"frame {frame.id!r} is its own ancestor", path=f"f[{stored.key}]")
        frame.step_number = stored.head.step
        self._stored[frame.id] = stored
        self._frames[frame.id] = frame
        lineage = LineageState(frame.lineage_id, frame.scope_id, frame.parent_lineage_id)
        overlay: dict[StatePath, Json] = {}
        if stored.seen:
            overlay = decode_overlay(stored.seen, f"lineage of {stored.key}")
        if frame.lineage_id not in self._lineages or frame.kind in ("workflow", SUBGRAPH_FRAME):
            self._lineages[frame.lineage_id] = _Lineage(lineage, overlay)

    def _decode(self, stored: _Stored) -> ExecutionFrame:
        if stored.head.kind != "c":
            if stored.body is None:
                raise RunDamaged(f"frame {stored.key} has no body", path=f"b[{stored.key}]")
            return decode_frame(stored.body, stored.key)
        index = int(stored.key.rpartition(":")[2])
        if stored.template is None:
            raise RunDamaged(f"the activation of item frame {stored.key} is gone", path=f"a[{stored.key}]")
        if stored.body is None:
            frame = frame_from_template(stored.template, index, None, stored.key)
        else:
            frame = decode_frame(stored.body, stored.key)
        item = stored.item
        if item is None:
            frame.metadata.pop("loop_item", None)  # malformed metadata, which the kernel refuses; never a null item
        elif item == b"~":
            frame.metadata["loop_item"] = Unloaded(frame.id)
        else:
            frame.metadata["loop_item"] = from_bytes(item[1:], f"item of {stored.key}")
        return frame


def _stored(record: Sequence[Any]) -> _Stored:
    key, head, body, *more = record
    revision, step, template, item, seen = [*more, None, None, None, None, None][:5]
    text = _text(key)
    return _Stored(
        text,
        Head.parse(head, text),
        body,
        None if revision is None else _text(revision),
        None if step is None else int(step),
        template,
        item,
        seen,
    )


def _level(word: bytes) -> TraceLevel:
    match word:
        case b"full":
            return "full"
        case b"summary":
            return "summary"
        case b"off":
            return "off"
        case _:
            raise RunDamaged(f"the run has the unknown trace level {word!r}", path="h.trace")


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
