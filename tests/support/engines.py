"""Ways to drive the kernel in tests: runs without validation, slices that hold nothing, walks of many steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from wf_core.models import Workflow
from wf_core.models.steps import ForeachNode, NodeUse
from wf_core.paths import StatePath
from wf_core.plan import Program
from wf_core.run_limits import RunLimits
from wf_core.run_state import (
    ExecutionFrame,
    Json,
    LineageState,
    RunState,
    RunStatus,
    RuntimeContext,
    RuntimeScope,
    TraceEntry,
)
from wf_core.runtime import kernel, local
from wf_core.runtime.draft import Draft
from wf_core.runtime.engine import build_program, create_run_state
from wf_core.runtime.kernel import Walk
from wf_core.runtime.ops import foreach
from wf_core.runtime.scheduler import foreach_visits
from wf_core.runtime.slice import Missing, Need, RunStateSlice, SliceMiss, Unloaded
from wf_core.runtime.transition import ItemResult, PutFrame, Transition

T = TypeVar("T")
Handler = Callable[[dict[str, Any], RuntimeContext], Any]


def echo(payload: dict[str, Any], context: RuntimeContext) -> dict[str, Any]:
    """A handler that gives back what it was given."""
    return payload


def fresh_run(workflow: Workflow, workflow_input: dict[str, Any] | None = None, *, max_steps: int = 10_000) -> RunState:
    """A new run of a workflow that nobody validated."""
    return create_run_state(build_program(workflow), workflow_input or {}, limits=RunLimits(max_steps=max_steps))


def trace_of(run: RunState) -> list[str]:
    """The run's history as ``node.outcome -> next`` lines."""
    return [f"{entry.node_id}.{entry.outcome} -> {entry.next_node_id}" for entry in run.trace]


def trace_multiset(run: RunState) -> Counter[str]:
    """The trace without its order, step numbers and window sizes, in which engines may differ."""
    return Counter(_comparable(entry) for entry in run.trace)


def _comparable(entry: TraceEntry) -> str:
    shown = entry.resolved_input
    if isinstance(shown, dict):
        shown = {key: value for key, value in shown.items() if key != "active_count"}
    return repr(replace(entry, step_number=None, resolved_input=shown))


# ---- a slice that holds nothing


class PartialSlice:
    """Knows which frames, lineages and scopes exist; every value is missing until it is asked for."""

    def __init__(self, run: RunState) -> None:
        self._whole = RunStateSlice(run)
        self.given: set[Need] = set()

    def give(self, miss: SliceMiss) -> None:
        """Loads what a kernel function asked for; asking twice for the same is a fault of the kernel."""
        for need in miss.needs:
            assert need not in self.given, f"{need} was given and is asked for again"
            self.given.add(need)

    def _require(self, need: Need) -> None:
        if need not in self.given:
            raise SliceMiss(need)

    def frame(self, frame_id: str) -> ExecutionFrame | None:
        frame = self._whole.frame(frame_id)
        if frame is None or "loop_item" not in frame.metadata or Need("item", frame_id) in self.given:
            return frame
        return replace(frame, metadata={**frame.metadata, "loop_item": Unloaded(frame_id)})

    def scope(self, scope_id: str) -> RuntimeScope | None:
        scope = self._whole.scope(scope_id)
        return None if scope is None else RuntimeScope(scope.id, scope.workflow_name, workflow_ref=scope.workflow_ref)

    def workflow_input(self, scope_id: str) -> dict[str, Json]:
        self._require(Need("input", scope_id))
        return self._whole.workflow_input(scope_id)

    def state_field(self, scope_id: str, name: str) -> Json | Missing:
        if Need("state", scope_id, ("*",)) not in self.given:
            self._require(Need("state", scope_id, (name,)))
        return self._whole.state_field(scope_id, name)

    def state_names(self, scope_id: str) -> Sequence[str]:
        self._require(Need("state", scope_id, ("*",)))
        return self._whole.state_names(scope_id)

    def lineage(self, lineage_id: str) -> LineageState | None:
        return self._whole.lineage(lineage_id)

    def overlay(self, lineage_id: str) -> Mapping[StatePath, Json]:
        return self._whole.overlay(lineage_id)

    def results(self, controller: ExecutionFrame, node_id: str, activation_id: str) -> Sequence[ItemResult]:
        self._require(Need("results", activation_id))
        return self._whole.results(controller, node_id, activation_id)

    def unannounced_item(self, frame_id: str) -> int | None:
        return None


def decide_with_nothing(run: RunState, rule: Callable[[PartialSlice], T]) -> tuple[T, int]:
    """The rule's answer over a slice that holds nothing at first, and how often it had to ask."""
    view = PartialSlice(run)
    while True:
        try:
            return rule(view), len(view.given)
        except SliceMiss as miss:
            view.give(miss)


def with_items(run: RunState, transition: Transition) -> Transition:
    """The transition with every item in place that it left where it is stored."""
    return replace(transition, operations=tuple(_with_item(run, operation) for operation in transition.operations))


def _with_item(run: RunState, operation: Any) -> Any:
    if not isinstance(operation, PutFrame) or not isinstance(operation.frame.metadata.get("loop_item"), Unloaded):
        return operation
    item = run.frames[operation.frame.id].metadata["loop_item"]
    return PutFrame(replace(operation.frame, metadata={**operation.frame.metadata, "loop_item": item}))


# ---- the kernel in long strides


class Stepper:
    """Drives a run through the kernel with walks of up to ``hops`` control steps, as a worker does.

    ``decide`` calls a kernel function on a slice of the run; by default on the whole of it.
    """

    def __init__(
        self,
        workflow: Workflow,
        handlers: Mapping[str, Handler],
        *,
        hops: int,
        decide: Callable[[RunState, Callable[[Any], Any]], Any] | None = None,
    ) -> None:
        self.program: Program = build_program(workflow)
        self.handlers = handlers
        self.hops = hops
        self._decide = decide

    def run(self, run: RunState) -> RunState:
        """Until the queue is empty or the run ended."""
        run.status = RunStatus.RUNNING
        while run.status is RunStatus.RUNNING and (frame := local.select_next_frame(run)) is not None:
            self._step(run, frame)
        return run

    def _step(self, run: RunState, frame: ExecutionFrame) -> None:
        step = self.program.root.step(frame.node_id)
        walk = Walk(hops=self.hops, inline_items=None)
        if isinstance(step, NodeUse):
            run.steps_executed += 1
            number = run.steps_executed
            self._apply(run, lambda view: self._node(view, frame.id, number, walk))
        elif isinstance(step, ForeachNode) and step.mode == "concurrent" and (visit := _open_visit(frame, step)):
            items = foreach.read_items(Draft(self.program, RunStateSlice(run), frame.id), frame, step)
            if local.controller_can_finish(run, frame, step.id, len(items)):
                self._apply(run, lambda view: kernel.finish_foreach(self.program, view, frame.id, walk=walk))
            else:
                local.admit(run, foreach.activation(self.program.root, frame, step, visit, items, 0), 0)
        else:
            self._apply(run, lambda view: kernel.walk_on(self.program, view, frame.id, walk=walk))

    def _node(self, view: Any, frame_id: str, number: int, walk: Walk) -> Transition:
        try:
            call = kernel.prepare(self.program, view, frame_id)
            answer = self.handlers[call.handler](call.handler_payload(), call.context)
        except SliceMiss:
            raise
        except Exception as error:
            return kernel.fail(self.program, view, frame_id, error, walk=walk)
        return kernel.complete(self.program, view, call, answer, number=number, walk=walk)

    def _apply(self, run: RunState, rule: Callable[[Any], Transition]) -> None:
        transition = rule(RunStateSlice(run)) if self._decide is None else self._decide(run, rule)
        local.apply(run, transition)


def _open_visit(frame: ExecutionFrame, step: ForeachNode) -> str | None:
    return foreach_visits(frame, step.id).active_id
