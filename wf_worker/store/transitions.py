"""A kernel transition as the flat list of operations that the scripts apply."""

from __future__ import annotations

from dataclasses import dataclass, field

from wf_core.models.steps import ForeachNode
from wf_core.paths import StatePath
from wf_core.plan import Plan, Program
from wf_core.run_state import (
    ITEM_FRAME,
    ROOT_SCOPE_ID,
    WORKFLOW_FRAME,
    ExecutionFrame,
    FrameStatus,
    Json,
    RuntimeScope,
    TraceEntry,
)
from wf_core.runtime.slice import Unloaded
from wf_core.runtime.transition import (
    Activation,
    After,
    AppendWrites,
    Arrive,
    Block,
    CloseActivation,
    CloseScope,
    CommitFields,
    CompleteRun,
    FailRun,
    Offset,
    OpenActivation,
    OpenInterrupt,
    OpenScope,
    Operation,
    Place,
    Purpose,
    PutFrame,
    Reach,
    RemoveFrame,
    Retry,
    StepNumber,
    Traced,
    Transition,
    Wait,
)
from wf_worker.errors import PayloadTooLarge, RunDamaged
from wf_worker.store import encoding
from wf_worker.store.encoding import INLINE_VALUE, to_bytes
from wf_worker.store.keys import frame_key, item_key, short
from wf_worker.store.slices import StoredSlice

INLINE_ITEMS_BYTES = 64 * 1024
"""Bytes of items that may open a foreach inside a commit; more are staged first."""

Arg = str | bytes | int


@dataclass(slots=True)
class Encoded:
    """A transition ready to be sent: its operations, and what must be staged before it."""

    operations: list[tuple[str, list[Arg]]] = field(default_factory=list[tuple[str, list[Arg]]])
    staged_items: dict[str, list[bytes]] = field(default_factory=dict[str, list[bytes]])
    staged_values: dict[str, bytes] = field(default_factory=dict[str, bytes])

    def arguments(self) -> list[Arg]:
        """Number of operations, then each as name, argument count, arguments."""
        flat: list[Arg] = [len(self.operations)]
        for name, args in self.operations:
            flat.append(name)
            flat.append(len(args))
            flat.extend(args)
        return flat


class TransitionEncoder:
    """Encodes one transition over the slice it was decided on."""

    def __init__(self, view: StoredSlice, program: Program, call_id: str, *, field_bytes: int) -> None:
        self._view = view
        self._field_bytes = field_bytes
        self._program = program
        self._call_id = call_id
        self._new: dict[str, ExecutionFrame] = {}
        self._scopes: dict[str, RuntimeScope] = {}
        self._arriving: set[str] = set()
        self._encoded = Encoded()

    def encode(self, transition: Transition) -> Encoded:
        """All operations, in order. Raises :class:`PayloadTooLarge` for a state field above its limit."""
        for operation in transition.operations:
            if isinstance(operation, PutFrame):
                self._new[operation.frame.id] = operation.frame
            elif isinstance(operation, Arrive):
                self._arriving.add(self._key(operation.frame_id))
            elif isinstance(operation, OpenScope):
                self._scopes[operation.scope.id] = operation.scope
        # Of a frame that ends here no body is kept. One that began here as well was never anywhere.
        ended = {operation.frame_id for operation in transition.operations if isinstance(operation, RemoveFrame)}
        for operation in transition.operations:
            subject = _subject(operation)
            if subject in ended and (isinstance(operation, PutFrame) or not self._view.knows(subject or "")):
                continue
            self._operation(operation)
        return self._encoded

    def _add(self, name: str, *args: Arg) -> None:
        self._encoded.operations.append((name, list(args)))

    def _operation(self, operation: Operation) -> None:
        match operation:
            case PutFrame(frame):
                self._put(frame)
            case Place(frame_id, purpose, _):
                self._add("place", self._key(frame_id), purpose.value, self._limits(frame_id, purpose))
            case Block(frame_id, _):
                self._add("block", self._key(frame_id))
            case RemoveFrame(frame_id, status):
                self._add("remove", self._key(frame_id), "1" if status is FrameStatus.FAILED else "")
            case Reach(node_id, outcome, origin):
                self._add(
                    "reach", self._position(ROOT_SCOPE_ID, node_id), self._position(ROOT_SCOPE_ID, origin), outcome
                )
            case AppendWrites(lineage_id, writes):
                key = self._lineage_key(lineage_id)
                # Nobody reads a lineage whose item arrives in this very transition.
                seen = () if key in self._arriving else encoding.encode_overlay(writes)
                self._add("writes", key, encoding.encode_writes(writes), *seen)
            case CommitFields(scope_id, fields, _):
                self._add("fields", short(scope_id), *self._fields(fields))
            case OpenScope(scope, state):
                self._add("scope", short(scope.id), to_bytes(scope.workflow_input), *self._fields(state))
            case CloseScope(scope_id):
                self._add("unscope", short(scope_id))
            case OpenActivation(activation):
                self._open(activation)
            case Arrive(activation_id, index, frame_id, _, error):
                record = b"" if error is None else encoding.encode_item_error(error)
                self._add(
                    "arrive",
                    short(activation_id),
                    index,
                    self._key(frame_id),
                    "ok" if error is None else "error",
                    record,
                )
            case CloseActivation(activation_id, frame_id, _):
                self._add("close", short(activation_id), self._key(frame_id))
            case OpenInterrupt(frame_id, request, step, expires):
                after = "" if expires is None else expires.ms
                self._add("interrupt", self._key(frame_id), _number(step), encoding.encode_interrupt(request), after)
            case Wait(frame_id, due, step):
                moment = f"+{due.ms}" if isinstance(due, After) else due.ms
                self._add("wait", self._key(frame_id), _number(step), moment)
            case Retry(frame_id, due):
                self._add("retry", self._key(frame_id), due.ms)
            case CompleteRun(outcome, output):
                self._add("complete", outcome, to_bytes(output))
            case FailRun(frame_id, order, error, again):
                self._add(
                    "fail",
                    self._key(frame_id),
                    ".".join(f"{i:08d}" for i in order),
                    encoding.encode_error(error),
                    again.value if error.type != "damaged" else "",
                    self._limits(frame_id, again),
                )
            case Traced(entry, step):
                frame = self._new.get(entry.frame_id) or self._view.frame(entry.frame_id)
                self._tell(entry, step, frame)
                if self._view.trace != "off":
                    self._add("trace", _number(step), encoding.encode_trace(entry, frame, self._view.trace))

    def _tell(self, entry: TraceEntry, step: StepNumber, frame: ExecutionFrame | None) -> None:
        """The event of a finished step. What opens interrupts and items of concurrent loops is told otherwise."""
        if frame is None or (entry.step_type, entry.outcome) == ("interrupt", "interrupt"):
            return
        plan = self._plan(frame.scope_id)
        at = plan.step(entry.node_id)
        if isinstance(at, ForeachNode) and at.mode == "concurrent" and entry.outcome == "loop":
            return
        known = entry.next_node_id in plan.positions
        following = self._position(frame.scope_id, entry.next_node_id) if known else ""
        position = self._position(frame.scope_id, entry.node_id)
        self._add("step", _number(step), position, self._key(frame.id), following, entry.outcome)

    def _fields(self, fields: dict[str, Json]) -> list[Arg]:
        args: list[Arg] = []
        for name, value in fields.items():
            data = to_bytes(value)
            if len(data) > self._field_bytes:
                raise PayloadTooLarge(
                    f"state field {name!r} would have {len(data)} bytes, the limit is {self._field_bytes}",
                    path=str(StatePath((name,))),
                    hint="keep large data elsewhere and a reference to it in the state, or raise WF_FIELD_BYTES",
                )
            args += [name, self._value(data)]
        return args

    def _position(self, scope_id: str, node_id: str) -> int:
        return self._program.position(self._scopes.get(scope_id) or self._view.scope(scope_id), node_id)

    def _plan(self, scope_id: str) -> Plan:
        return self._program.for_scope(self._scopes.get(scope_id) or self._view.scope(scope_id))

    def _limits(self, frame_id: str, purpose: Purpose) -> str:
        """What the step at which the frame stands may take."""
        frame = self._new.get(frame_id) or self._view.frame(frame_id)
        if purpose is not Purpose.STEP or frame is None:
            return ""
        return encoding.encode_limits(self._plan(frame.scope_id).time_limits.get(frame.node_id))

    def _put(self, frame: ExecutionFrame) -> None:
        key = frame_key(frame)
        kind = self._kind(frame)
        chain = self._chain(frame)
        parent = "" if frame.parent_frame_id is None else self._key(frame.parent_frame_id)
        body = encoding.encode_frame(frame, item_elsewhere=kind == "c")
        self._add(
            "frame",
            key,
            self._position(frame.scope_id, frame.node_id),
            parent,
            short(frame.scope_id),
            chain,
            kind,
            body,
        )

    def _kind(self, frame: ExecutionFrame) -> str:
        if self._view.knows(frame.id):
            return self._view.head(frame.id).kind
        if frame.kind == ITEM_FRAME:
            return "s"  # items of concurrent visits are made by the store
        return "w" if frame.kind == WORKFLOW_FRAME else "g"

    def _chain(self, frame: ExecutionFrame) -> str:
        """The concurrent activations around a frame: its own head's, or (for a new frame) its parent's."""
        current = frame
        while not self._view.knows(current.id):
            parent = self._new.get(current.parent_frame_id or "") or self._view.frame(current.parent_frame_id or "")
            if parent is None:
                raise RunDamaged(f"frame {current.id!r} has no known ancestor", path=f"frames[{current.id}]")
            current = parent
        return self._view.head(current.id).chain

    def _key(self, frame_id: str) -> str:
        if self._view.knows(frame_id):
            return self._view.key(frame_id)
        frame = self._new.get(frame_id)
        if frame is None:
            raise RunDamaged(f"frame {frame_id!r} is neither loaded nor new", path=f"frames[{frame_id}]")
        return frame_key(frame)

    def _lineage_key(self, lineage_id: str) -> str:
        owner = self._view.frame_of_lineage(lineage_id)
        if owner is None:
            raise RunDamaged(f"lineage {lineage_id!r} belongs to no loaded frame", path=f"lineages[{lineage_id}]")
        return self._view.key(owner)

    def _value(self, data: bytes) -> bytes:
        if len(data) <= INLINE_VALUE:
            return b"=" + data
        name = f"{self._call_id}.{len(self._encoded.staged_values)}"
        self._encoded.staged_values[name] = data
        self._add("staged", name, len(data))
        return f"@{name} {len(data)}".encode()

    def _open(self, activation: Activation) -> None:
        key = short(activation.id)
        items = [to_bytes(_whole(item)) for item in activation.items]
        staged = len(items) > 64 or sum(map(len, items)) > INLINE_ITEMS_BYTES
        if staged:
            self._encoded.staged_items[key] = items
        policy = "c" if activation.interrupt == "continue" else "q"
        controller = self._new.get(activation.frame_id) or self._view.frame(activation.frame_id)
        if controller is None:
            raise RunDamaged(
                f"frame {activation.frame_id!r} is neither loaded nor new", path=f"frames[{activation.frame_id}]"
            )
        chain = self._chain(controller)
        own = f"{key}.{policy}"
        self._add(
            "open",
            key,
            len(items),
            activation.max_active,
            activation.max_outstanding,
            policy,
            self._key(activation.frame_id),
            f"{chain},{own}" if chain else own,
            self._position(activation.scope_id, activation.body_node_id),
            short(activation.scope_id),
            activation.body_purpose.value,
            encoding.encode_limits(self._plan(activation.scope_id).time_limits.get(activation.body_node_id)),
            _number(activation.step),
            encoding.encode_template(activation),
            "1" if staged else "0",
            *([] if staged else items),
        )


def _subject(operation: Operation) -> str | None:
    """The frame that an operation puts somewhere."""
    match operation:
        case PutFrame(frame):
            return frame.id
        case Place(frame_id, _, _) | Block(frame_id, _) | RemoveFrame(frame_id):
            return frame_id
        case _:
            return None


def _whole(item: object) -> object:
    if isinstance(item, Unloaded):
        raise RunDamaged("an item that was not loaded cannot be stored")
    return item


def _number(step: StepNumber) -> str:
    return f"+{step.n}" if isinstance(step, Offset) else str(step)


__all__ = ["Encoded", "TransitionEncoder", "item_key"]
