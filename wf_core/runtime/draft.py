"""The kernel's working copy: a slice with the changes of one event over it.

A step that the kernel walks to must read what the step before it wrote, although nothing is stored yet. A draft
reads through its own changes and records each as an operation; :meth:`Draft.transition` hands them out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wf_core.errors import WorkflowExecutionError
from wf_core.expressions import Sources
from wf_core.paths import StatePath
from wf_core.plan import Plan, Program
from wf_core.run_limits import MAX_NESTING
from wf_core.run_state import (
    ITEM_FRAME,
    ROOT_LINEAGE_ID,
    ROOT_SCOPE_ID,
    SUBGRAPH_FRAME,
    WORKFLOW_FRAME,
    ExecutionFrame,
    Json,
    LineageState,
    RuntimeScope,
    TraceEntry,
)
from wf_core.runtime.ops.frames import FrameContextView, frame_context_view
from wf_core.runtime.patches import Patch
from wf_core.runtime.scheduler import ForeachIterationMetadata, damaged, foreach_visits
from wf_core.runtime.slice import MISSING, Missing, RunSlice, fold_overlay
from wf_core.runtime.state_view import StateView
from wf_core.runtime.transition import (
    AppendWrites,
    CommitFields,
    ItemResult,
    Offset,
    OpenScope,
    Operation,
    PutFrame,
    RemoveFrame,
    StepNumber,
    Traced,
    Transition,
)


class BudgetMet(Exception):
    """The walk reached a step that the run's budget does not admit."""


class Draft:
    """One event's changes over a slice.

    ``admitted`` is the number of the first step where the host has admitted it already (the in-memory engine does);
    every other step counts one. ``steps_left`` is how many steps the budget still admits, None where the store says.
    """

    def __init__(
        self,
        program: Program,
        base: RunSlice,
        frame_id: str,
        *,
        admitted: int | None = None,
        steps_left: int | None = None,
    ) -> None:
        self.program = program
        self.frame_id = frame_id
        self.error: BaseException | None = None
        self._base = base
        self._admitted = admitted
        self._steps_left = steps_left
        self._steps = 0
        self._frames: dict[str, ExecutionFrame] = {}
        self._lineages: dict[str, LineageState] = {}
        self._overlays: dict[str, dict[StatePath, Json]] = {}
        self._fields: dict[str, dict[str, Json]] = {}
        self._scopes: dict[str, RuntimeScope] = {}
        self._operations: list[Operation] = []
        self._context: tuple[ExecutionFrame, FrameContextView] | None = None

    # -- reading, through the changes

    def frame(self, frame_id: str) -> ExecutionFrame | None:
        return self._frames.get(frame_id) or self._base.frame(frame_id)

    def scope(self, scope_id: str) -> RuntimeScope | None:
        return self._scopes.get(scope_id) or self._base.scope(scope_id)

    def workflow_input(self, scope_id: str) -> dict[str, Json]:
        begun = self._scopes.get(scope_id)
        return begun.workflow_input if begun is not None else self._base.workflow_input(scope_id)

    def state_field(self, scope_id: str, name: str) -> Json | Missing:
        changed = self._fields.get(scope_id)
        if changed is not None and name in changed:
            return changed[name]
        return MISSING if scope_id in self._scopes else self._base.state_field(scope_id, name)

    def state_names(self, scope_id: str) -> Sequence[str]:
        known = () if scope_id in self._scopes else self._base.state_names(scope_id)
        return tuple(dict.fromkeys((*known, *self._fields.get(scope_id, ()))))

    def lineage(self, lineage_id: str) -> LineageState | None:
        return self._lineages.get(lineage_id) or self._base.lineage(lineage_id)

    def overlay(self, lineage_id: str) -> Mapping[StatePath, Json]:
        changed = self._overlays.get(lineage_id)
        if changed is not None:
            return changed
        return {} if lineage_id in self._lineages else self._base.overlay(lineage_id)

    def results(self, controller: ExecutionFrame, node_id: str, activation_id: str) -> Sequence[ItemResult]:
        return self._base.results(controller, node_id, activation_id)

    def unannounced_item(self, frame_id: str) -> int | None:
        return self._base.unannounced_item(frame_id)

    def require_frame(self, frame_id: str | None, asked_by: str) -> ExecutionFrame:
        """A frame that must exist; its absence is damage."""
        frame = None if frame_id is None else self.frame(frame_id)
        if frame is None:
            raise damaged(f"missing parent frame {frame_id!r} of frame {asked_by!r}", frame_id=asked_by)
        return frame

    def plan(self, frame: ExecutionFrame) -> Plan:
        """The plan of the workflow that the frame's scope runs."""
        return self.program.for_scope(self.scope(frame.scope_id))

    def state(self, frame: ExecutionFrame) -> StateView:
        """The frame's visible state."""
        return StateView(self, frame)

    def context(self, frame: ExecutionFrame) -> FrameContextView:
        """The frame's structured context, derived once."""
        if self._context is None or self._context[0] is not frame:
            self._context = (frame, frame_context_view(self, frame))
        return self._context[1]

    def sources(self, frame: ExecutionFrame) -> Sources:
        """What the bindings of a step at this frame read."""
        return Sources(
            workflow_input=lambda: self.workflow_input(frame.scope_id),
            state=self.state(frame),
            context=lambda: self.context(frame).graph,
        )

    # -- changing

    def count(self) -> StepNumber:
        """Takes one step of the budget and gives its number."""
        if self._admitted is not None:
            number, self._admitted = self._admitted, None
            return number
        if self._steps_left is not None and self._steps >= self._steps_left:
            raise BudgetMet
        self._steps += 1
        return Offset(self._steps)

    def put(self, frame: ExecutionFrame) -> None:
        """The frame is new or changed. A new frame begins its own lineage, unless it shares an existing one."""
        if frame.kind != WORKFLOW_FRAME and frame.id not in self._frames and self._base_lacks(frame):
            self._lineages[frame.lineage_id] = LineageState(frame.lineage_id, frame.scope_id, frame.parent_lineage_id)
        self._frames[frame.id] = frame

    def _base_lacks(self, frame: ExecutionFrame) -> bool:
        return self._base.frame(frame.id) is None

    def open_scope(self, scope: RuntimeScope, state: dict[str, Json]) -> None:
        """A child workflow begins."""
        self._scopes[scope.id] = scope
        self._fields[scope.id] = dict(state)
        self.add(OpenScope(scope, state))

    def remove(self, operation: RemoveFrame) -> None:
        """The frame has ended."""
        self.add(operation)

    def add(self, operation: Operation) -> None:
        """Records one operation."""
        self._operations.append(operation)

    def trace(self, step: StepNumber, entry: TraceEntry) -> None:
        """Records a finished step."""
        self.add(Traced(entry, step))

    def write(self, frame: ExecutionFrame, patch: Patch) -> dict[str, Json]:
        """Routes a patch to where the frame writes, and gives the changes that the trace shows: those that were
        committed (none if they wait), without fields that are not traced."""
        if not patch.writes:
            return {}
        kind, key = write_target(self, frame)
        if kind == "lineage":
            if key not in self._overlays:
                self._overlays[key] = dict(self.overlay(key))
            for write in patch.writes:
                fold_overlay(self._overlays[key], write.path, write.visible_value)
            self.add(AppendWrites(key, patch.writes))
            return {}
        self._fields.setdefault(key, {}).update(patch.fields)
        self.add(CommitFields(key, patch.fields, patch.writes))
        plan = self.plan(frame)
        hidden = {str(write.path) for write in patch.writes if not plan.is_traced(write.path)}
        return {path: value for path, value in patch.changes.items() if path not in hidden} if hidden else patch.changes

    def transition(self) -> Transition:
        """All changes, frames first, ready to be applied."""
        # Frames that end here are told of too: what they closed before they ended is part of what they were.
        puts = [PutFrame(frame) for frame in self._frames.values()]
        return Transition(self.frame_id, (*puts, *self._operations), self._steps, self.error)


def check_nesting(draft: Draft, frame: ExecutionFrame) -> None:
    """Raises where one more loop or child workflow inside the frame would be one too many. Scopes do not count anew."""
    depth, current = 0, frame
    while current.parent_frame_id is not None:
        depth += current.kind in (ITEM_FRAME, SUBGRAPH_FRAME)
        if depth >= MAX_NESTING:
            raise WorkflowExecutionError(
                f"step {frame.node_id!r} is inside {MAX_NESTING} loops and child workflows, one more is not allowed",
                code="nesting_too_deep",
                path=f"nodes[{frame.node_id}]",
                hint="let a child workflow that enters itself come to an end, or loop over one flat list",
            )
        current = draft.require_frame(current.parent_frame_id, current.id)


def write_target(view: RunSlice, frame: ExecutionFrame) -> tuple[str, str]:
    """Where a frame's writes go: ``("lineage", id)`` or ``("scope", id)``.

    From the frame outwards in its scope, the first *concurrent* item takes the write into its lineage, where no
    sibling sees it; serial items pass it on. Outside every concurrent item it is committed. The whole chain is checked
    before anything is buffered.
    """
    found: tuple[str, str] | None = None
    seen: set[str] = set()
    current = frame
    while (iteration := ForeachIterationMetadata.from_frame(current)) is not None:
        if current.id in seen:
            raise damaged(f"cycle in the frame ancestry at {current.id!r}", frame_id=current.id)
        seen.add(current.id)
        if current.parent_frame_id is None:
            raise damaged(f"item frame {current.id!r} has no parent", frame_id=current.id)
        parent = view.frame(current.parent_frame_id)
        if parent is None:
            raise damaged(
                f"missing parent frame {current.parent_frame_id!r} of frame {current.id!r}", frame_id=current.id
            )
        if found is None and open_visit_mode(parent, iteration) == "concurrent":
            found = ("lineage", current.lineage_id)
        current = parent
    if found is not None:
        return found
    root_lineage = ROOT_LINEAGE_ID if current.scope_id == ROOT_SCOPE_ID else f"{current.scope_id}:root"
    return ("scope", current.scope_id) if current.lineage_id == root_lineage else ("lineage", current.lineage_id)


def open_visit_mode(controller: ExecutionFrame, iteration: ForeachIterationMetadata) -> str:
    """The mode of the visit an item belongs to; an item of a closed or superseded visit is refused.

    A serial visit keeps its barrier in the controller; a concurrent one may keep it in the store, so an open visit
    without a barrier here is concurrent.
    """
    visits = foreach_visits(controller, iteration.foreach_node_id)
    if visits.active_id != iteration.activation_id:
        raise WorkflowExecutionError(
            f"stale item of foreach {iteration.foreach_node_id!r}: activation {iteration.activation_id!r} is closed, "
            f"active is {visits.active_id!r}",
            code="stale_activation",
            path=f"frames[{controller.id}]",
        )
    return visits.mode or "concurrent"


def trace_entry(
    frame: ExecutionFrame,
    step_type: str,
    *,
    resolved_input: Any,
    outcome: str,
    next_node_id: str,
    output: Any = None,
    changes: dict[str, Json] | None = None,
) -> TraceEntry:
    """One trace entry of the step at which the frame stands."""
    return TraceEntry(
        frame_id=frame.id,
        node_id=frame.node_id,
        step_type=step_type,
        resolved_input=resolved_input,
        outcome=outcome,
        next_node_id=next_node_id,
        output={} if output is None else output,
        state_changes=changes or {},
    )
