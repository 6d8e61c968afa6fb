"""The in-memory engine: the kernel over a plain ``RunState``, one step at a time.

It is the reference for what a workflow means, and what tests and notebooks run. The sync and async shells differ
only in how a handler is called.
"""

from __future__ import annotations

import asyncio
import heapq
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeAlias, TypeVar

from wf_core.errors import WorkflowExecutionError
from wf_core.expressions import copy_json
from wf_core.instants import instant_of, milliseconds
from wf_core.models.results import NodeResult
from wf_core.models.steps import ForeachNode, NodeUse, WaitNode
from wf_core.models.workflow import Workflow
from wf_core.plan import Plan, Program, ValidationFailed, compile_plan
from wf_core.reducers import ReducerDefinition
from wf_core.run_limits import RunLimits
from wf_core.run_state import (
    ITEM_FRAME,
    ROOT_FRAME_ID,
    ROOT_LINEAGE_ID,
    ROOT_SCOPE_ID,
    ExecutionFrame,
    FrameStatus,
    LineageState,
    RunState,
    RunStatus,
    RuntimeContext,
    RuntimeScope,
    TraceLevel,
)
from wf_core.runtime import kernel, local
from wf_core.runtime.draft import Draft
from wf_core.runtime.failures import is_fatal
from wf_core.runtime.flow import workflow_output
from wf_core.runtime.kernel import Walk
from wf_core.runtime.limits import admit_step_attempt
from wf_core.runtime.ops import foreach
from wf_core.runtime.ops.interrupts import waiting_place
from wf_core.runtime.ops.nodes import NodeCall
from wf_core.runtime.scheduler import ForeachVisits, foreach_visits
from wf_core.runtime.slice import RunStateSlice
from wf_core.runtime.transition import Transition, Wait

NodeHandler = Callable[[dict[str, Any], RuntimeContext], NodeResult | dict[str, Any]]
AsyncNodeHandler = Callable[[dict[str, Any], RuntimeContext], Any]
Clock: TypeAlias = Callable[[], datetime]
"""Says what time it is, with its time zone. The engine asks it for ``wait`` steps, and for nothing else."""

Handler = TypeVar("Handler")

_STAY = Walk(hops=0, inline_items=None)


@dataclass(frozen=True)
class PreparedSubgraph(Generic[Handler]):
    """A child workflow with its handlers and reducers, supplied before the run begins."""

    workflow: Workflow
    registry: Mapping[str, Handler]
    reducers: Mapping[str, ReducerDefinition] | None = None


Subgraphs = Mapping[str, PreparedSubgraph[Any]]


# ---- entry points


def execute_workflow(
    workflow: Workflow,
    workflow_input: dict[str, Any],
    registry: Mapping[str, NodeHandler],
    *,
    reducers: Mapping[str, ReducerDefinition] | None = None,
    subgraphs: Subgraphs | None = None,
    limits: RunLimits | None = None,
    clock: Clock | None = None,
    trace: TraceLevel = "full",
) -> RunState:
    """Runs a workflow until it completes, pauses, or can only wait for a time.

    ``registry`` maps ``NodeDef.name`` to a handler; ``trace`` says how much of the history is kept. A workflow with
    ``wait`` steps needs a ``clock``. A run that came back ``running`` waits: :func:`next_due` says until when, and
    :func:`resume_workflow` goes on then. Raises ``ValueError`` for an invalid workflow,
    :class:`WorkflowExecutionError` for an invalid input, and whatever a step raised; the run is marked failed first.
    """
    engine = _Engine.create(workflow, workflow_input, registry, reducers, subgraphs, limits, clock=clock, trace=trace)
    return engine.drive()


async def execute_workflow_async(
    workflow: Workflow,
    workflow_input: dict[str, Any],
    registry: Mapping[str, AsyncNodeHandler],
    *,
    reducers: Mapping[str, ReducerDefinition] | None = None,
    subgraphs: Subgraphs | None = None,
    platform: object = None,
    limits: RunLimits | None = None,
    clock: Clock | None = None,
    trace: TraceLevel = "full",
) -> RunState:
    """Like :func:`execute_workflow`; ready items of one concurrent foreach run their handlers together."""
    engine = _Engine.create(workflow, workflow_input, registry, reducers, subgraphs, limits, platform, clock, trace)
    return await engine.drive_async()


async def execute_workflow_result_async(
    workflow: Workflow,
    workflow_input: dict[str, Any],
    registry: Mapping[str, AsyncNodeHandler],
    *,
    reducers: Mapping[str, ReducerDefinition] | None = None,
    subgraphs: Subgraphs | None = None,
    platform: object = None,
    limits: RunLimits | None = None,
    clock: Clock | None = None,
    trace: TraceLevel = "full",
) -> RunState:
    """Like :func:`execute_workflow_async`, but a run that failed is returned instead of raised."""
    engine = _Engine.create(workflow, workflow_input, registry, reducers, subgraphs, limits, platform, clock, trace)
    return await _as_result(engine, engine.drive_async())


def resume_workflow(
    workflow: Workflow,
    run: RunState,
    registry: Mapping[str, NodeHandler],
    *,
    resume_payload: dict[str, Any] | None = None,
    resume_outcome: str = "submitted",
    reducers: Mapping[str, ReducerDefinition] | None = None,
    subgraphs: Subgraphs | None = None,
    clock: Clock | None = None,
    trace: TraceLevel = "full",
) -> RunState:
    """Goes on with a run: answers its interrupt when a payload is given, else drives a snapshot that can move.

    A refused answer raises and leaves the run interrupted, with nothing consumed.
    """
    engine = _Engine.attach(workflow, run, registry, reducers, subgraphs, clock=clock, trace=trace)
    return engine.drive() if engine.accept(resume_payload, resume_outcome) else run


async def resume_workflow_async(
    workflow: Workflow,
    run: RunState,
    registry: Mapping[str, AsyncNodeHandler],
    *,
    resume_payload: dict[str, Any] | None = None,
    resume_outcome: str = "submitted",
    reducers: Mapping[str, ReducerDefinition] | None = None,
    subgraphs: Subgraphs | None = None,
    platform: object = None,
    clock: Clock | None = None,
    trace: TraceLevel = "full",
) -> RunState:
    """Like :func:`resume_workflow`."""
    engine = _Engine.attach(workflow, run, registry, reducers, subgraphs, platform, clock, trace)
    return await engine.resume_async(resume_payload, resume_outcome)


async def resume_workflow_result_async(
    workflow: Workflow,
    run: RunState,
    registry: Mapping[str, AsyncNodeHandler],
    *,
    resume_payload: dict[str, Any] | None = None,
    resume_outcome: str = "submitted",
    reducers: Mapping[str, ReducerDefinition] | None = None,
    subgraphs: Subgraphs | None = None,
    platform: object = None,
    clock: Clock | None = None,
    trace: TraceLevel = "full",
) -> RunState:
    """Like :func:`resume_workflow_async`, but a failure is reported in the run that is returned."""
    engine = _Engine.attach(workflow, run, registry, reducers, subgraphs, platform, clock, trace)
    return await _as_result(engine, engine.resume_async(resume_payload, resume_outcome))


def step_workflow(
    workflow: Workflow,
    run: RunState,
    registry: Mapping[str, NodeHandler],
    *,
    reducers: Mapping[str, ReducerDefinition] | None = None,
    subgraphs: Subgraphs | None = None,
    clock: Clock | None = None,
    trace: TraceLevel = "full",
) -> RunState:
    """At most one step of a run."""
    _Engine.attach(workflow, run, registry, reducers, subgraphs, clock=clock, trace=trace).step()
    return run


async def step_workflow_async(
    workflow: Workflow,
    run: RunState,
    registry: Mapping[str, AsyncNodeHandler],
    *,
    reducers: Mapping[str, ReducerDefinition] | None = None,
    subgraphs: Subgraphs | None = None,
    platform: object = None,
    clock: Clock | None = None,
    trace: TraceLevel = "full",
) -> RunState:
    """At most one step of a run, or one batch of concurrent items."""
    await _Engine.attach(workflow, run, registry, reducers, subgraphs, platform, clock, trace).step_async()
    return run


def next_due(run: RunState) -> datetime | None:
    """When the first of the frames that wait for a time may go on, in UTC; None when none of them waits."""
    first = min(local.waiting_frames(run), default=None)
    return None if first is None else instant_of(first[0])


async def _as_result(engine: _Engine, going: Awaitable[RunState]) -> RunState:
    try:
        return await going
    except Exception as error:  # reported in the run, by contract
        engine.failed(error)
        return engine.run


# ---- the engine


class _Engine:
    """One run with everything that drives it."""

    def __init__(
        self,
        program: Program,
        run: RunState,
        registry: Mapping[str, Any],
        platform: object,
        subgraphs: Subgraphs | None,
        clock: Clock | None,
        trace: TraceLevel,
    ) -> None:
        if clock is None:
            _refuse_waits(program)
        self.program = program
        self.run = run
        self.registry = registry
        self.children = subgraphs or {}
        self.platform = platform
        self.clock = clock
        self.trace: TraceLevel = trace
        self.view = RunStateSlice(run)
        self._timers: list[tuple[int, str]] | None = None
        """The waiting frames as a heap by time; None until they are first looked for."""

    @classmethod
    def create(
        cls,
        workflow: Workflow,
        workflow_input: dict[str, Any],
        registry: Mapping[str, Any],
        reducers: Mapping[str, ReducerDefinition] | None,
        subgraphs: Subgraphs | None,
        limits: RunLimits | None,
        platform: object = None,
        clock: Clock | None = None,
        trace: TraceLevel = "full",
    ) -> _Engine:
        workflow.validate_structure().raise_for_errors()
        program = build_program(workflow, reducers, subgraphs)
        run = create_run_state(program, workflow_input, limits=limits)
        return cls(program, run, registry, platform, subgraphs, clock, trace)

    @classmethod
    def attach(
        cls,
        workflow: Workflow,
        run: RunState,
        registry: Mapping[str, Any],
        reducers: Mapping[str, ReducerDefinition] | None,
        subgraphs: Subgraphs | None,
        platform: object = None,
        clock: Clock | None = None,
        trace: TraceLevel = "full",
    ) -> _Engine:
        if run.workflow_name != workflow.name:
            raise WorkflowExecutionError(
                f"the run belongs to workflow {run.workflow_name!r}, not to {workflow.name!r}", code="workflow_mismatch"
            )
        return cls(build_program(workflow, reducers, subgraphs), run, registry, platform, subgraphs, clock, trace)

    def accept(self, payload: dict[str, Any] | None, outcome: str) -> bool:
        """Takes an answer, or makes a snapshot run again. False when there is nothing to drive."""
        run = self.run
        current = run.current_frame()
        if run.status is RunStatus.INTERRUPTED:
            if payload is None:
                return False
            if run.interrupt is None:
                raise WorkflowExecutionError("the run is interrupted but holds no interrupt", code="damaged")
            self._answer(payload, outcome)
            return True
        if payload is not None or run.status is RunStatus.FAILED:
            raise WorkflowExecutionError(
                f"the run is {run.status.value}: it takes no answer"
                if payload is not None
                else "a failed run cannot be resumed",
                code="run_not_interrupted",
            )
        self._plan(current).step(current.node_id)
        if run.status is RunStatus.COMPLETED:
            draft = Draft(self.program, self.view, current.id)
            run.output = workflow_output(draft, self.program.root, draft.require_frame(ROOT_FRAME_ID, current.id))
            return False
        run.status, run.error = RunStatus.RUNNING, None
        return True

    def _answer(self, payload: dict[str, Any], outcome: str) -> None:
        request = self.run.interrupt
        assert request is not None
        frame_id, node_id = waiting_place(request)
        frame = self.run.frames.get(frame_id)
        if frame is None or frame.status is not FrameStatus.INTERRUPTED:
            raise WorkflowExecutionError(f"frame {frame_id!r} does not wait at {node_id!r}", code="interrupt_not_open")
        transition = kernel.resume(
            self.program, self.view, request, payload, outcome, number=request.step_number or 0, walk=_STAY
        )
        self.run.interrupt, self.run.status, self.run.error = None, RunStatus.RUNNING, None
        try:
            self._apply(transition)
        except Exception as error:
            self.failed(error)
            raise
        if frame_id in self.run.ready_frame_ids:  # the answered frame runs before its waiting siblings
            local.enqueue_frame(self.run, frame_id, front=True)

    # -- driving

    def drive(self) -> RunState:
        try:
            while self.step():
                pass
        except Exception as error:
            self.failed(error)
            raise
        return self.run

    async def resume_async(self, payload: dict[str, Any] | None, outcome: str) -> RunState:
        return await self.drive_async() if self.accept(payload, outcome) else self.run

    async def drive_async(self) -> RunState:
        try:
            while await self.step_async():
                pass
        except Exception as error:
            self.failed(error)
            raise
        return self.run

    def failed(self, error: Exception) -> None:
        self.run.status, self.run.error = RunStatus.FAILED, str(error)

    def step(self) -> bool:
        """One step; False when the run stands still."""
        frame = self._select()
        if frame is None:
            return self._without_ready_frames()
        number = admit_step_attempt(self.run, frame, frame.node_id)
        prepared = self._dispatch(frame, number)
        if prepared is not None:
            self._finish(prepared, number, self._call(prepared))
        return self._moving()

    async def step_async(self) -> bool:
        """One step, or one batch of items; False when the run stands still."""
        frame = self._select()
        if frame is None:
            return self._without_ready_frames()
        number = admit_step_attempt(self.run, frame, frame.node_id)
        batch = [(frame, number), *self._claim_siblings(frame)]
        calls = [(self._dispatch(member, n), n) for member, n in batch]
        ready = [(prepared, n) for prepared, n in calls if prepared is not None]
        answers = await asyncio.gather(*(self._call_async(prepared) for prepared, _ in ready))
        for (prepared, n), answer in zip(ready, answers, strict=True):
            self._finish(prepared, n, answer)
        return self._moving()

    def _select(self) -> ExecutionFrame | None:
        run = self.run
        if run.status in (RunStatus.INTERRUPTED, RunStatus.COMPLETED, RunStatus.FAILED):
            return None
        run.status = RunStatus.RUNNING
        frame = local.select_next_frame(run)
        if frame is not None:
            self._plan(frame).step(frame.node_id)
        return frame

    def _without_ready_frames(self) -> bool:
        """What goes on when the queue is empty: the frame whose time came first. False when the run stands still."""
        run = self.run
        if run.status is not RunStatus.RUNNING:
            return False
        if self._timers is None:
            self._timers = sorted(local.waiting_frames(run))
        if not self._timers:
            run.status = local.resolve_no_ready_frames(run)
            if run.status is RunStatus.FAILED and run.error is None:
                run.error = "a frame failed"
            return False
        if self._timers[0][0] > self._now_ms():
            return False
        _, frame_id = heapq.heappop(self._timers)
        number = local.wake(run, frame_id).step_number or 0
        self._apply(kernel.elapse(self.program, self.view, frame_id, number=number, walk=_STAY))
        return self._moving()

    def _now_ms(self) -> int:
        if self.clock is None:  # no step waits, or the run had been refused; a frame does, whatever its step is now
            raise WorkflowExecutionError("a frame waits for a time, and there is no clock", code="clock_missing")
        return milliseconds(self.clock())

    def _moving(self) -> bool:
        return self.run.status is RunStatus.RUNNING

    def _claim_siblings(self, first: ExecutionFrame) -> list[tuple[ExecutionFrame, int]]:
        """Queued siblings of a concurrent item that also stand at node steps, as far as the budget goes."""
        if not self._batchable(first):
            return []
        run, claimed, others = self.run, list[tuple[ExecutionFrame, int]](), list[str]()
        for frame_id in run.ready_frame_ids:
            frame = run.frames[frame_id]
            if run.steps_remaining > 0 and _siblings(first, frame) and self._batchable(frame):
                frame.status = FrameStatus.RUNNING
                claimed.append((frame, admit_step_attempt(run, frame, frame.node_id)))
            else:
                others.append(frame_id)
        run.ready_frame_ids[:] = others
        return claimed

    def _batchable(self, frame: ExecutionFrame) -> bool:
        plan = self._plan(frame)
        if frame.kind != ITEM_FRAME or not isinstance(plan.steps.get(frame.node_id), NodeUse):
            return False
        owner = plan.steps.get(frame.metadata.get("foreach_node_id", ""))
        return isinstance(owner, ForeachNode) and owner.mode == "concurrent"

    # -- one step

    def _dispatch(self, frame: ExecutionFrame, number: int) -> _Prepared | None:
        """Does a control step; a node step is prepared instead, and handed back to be called and finished."""
        step = self._plan(frame).step(frame.node_id)
        if isinstance(step, NodeUse):
            try:
                handler = self._handler(frame, step)
                call = kernel.prepare(self.program, self.view, frame.id, platform=self.platform)
                return _Prepared(frame.id, call, handler)
            except Exception as error:  # the step's failure, which takes its turn among the answers of a batch
                return _Prepared(frame.id, error, None)
        if isinstance(step, ForeachNode) and step.mode == "concurrent":
            visits = foreach_visits(frame, step.id)
            if visits.active_id is not None:
                self._settle(frame, step, visits, visits.active_id, number)
                return None
        walk = Walk(hops=1, admitted=number, inline_items=None)
        self._apply(kernel.walk_on(self.program, self.view, frame.id, walk=walk))
        return None

    def _settle(self, frame: ExecutionFrame, step: ForeachNode, visits: ForeachVisits, visit: str, number: int) -> None:
        """The controller of an open concurrent visit was woken: finish it, or fill its window again."""
        if visits.mode != step.mode:
            raise foreach.mode_changed(frame, step, visits)
        try:
            items = foreach.read_items(Draft(self.program, self.view, frame.id), frame, step)
        except Exception as error:  # the controller's failure, and its own foreach may take it in
            self._apply(kernel.fail(self.program, self.view, frame.id, error, walk=_STAY))
            return
        if local.controller_can_finish(self.run, frame, step.id, len(items)):
            walk = Walk(hops=0, admitted=number, inline_items=None)
            self._apply(kernel.finish_foreach(self.program, self.view, frame.id, walk=walk))
            return
        local.admit(
            self.run, foreach.activation(self._plan(frame), frame, step, visit, items, number), number, trace=self.trace
        )

    def _finish(self, prepared: _Prepared, number: int, answer: tuple[Any, Exception | None]) -> None:
        raw, error = answer
        call = prepared.call
        if isinstance(call, Exception) or error is not None:
            failure = call if isinstance(call, Exception) else error
            assert failure is not None
            self._apply(kernel.fail(self.program, self.view, prepared.frame_id, failure, walk=_STAY))
        else:
            self._apply(kernel.complete(self.program, self.view, call, raw, number=number, walk=_STAY))

    def _apply(self, transition: Transition) -> None:
        if transition.error is not None:
            # The step failed for good. Its frame stays as it stood, and the caller gets the exception itself.
            if is_fatal(transition.error):
                raise transition.error
            local.apply(self.run, transition, trace=self.trace)
            self.run.frames[transition.frame_id].status = FrameStatus.FAILED
            raise transition.error
        local.apply(self.run, transition, now_ms=self._now_ms, trace=self.trace)
        if self._timers is not None:
            for operation in transition.operations:
                if isinstance(operation, Wait):
                    heapq.heappush(self._timers, local.timer_of(self.run.frames[operation.frame_id]))

    # -- handlers

    def _handler(self, frame: ExecutionFrame, step: NodeUse) -> Any:
        scope = self.run.scopes.get(frame.scope_id)
        ref = None if scope is None else scope.workflow_ref
        registry = self.registry if ref is None else self.children[ref.display].registry
        handler = registry.get(step.node)
        if handler is None:
            raise WorkflowExecutionError(
                f"no handler is registered for {step.node!r}",
                code="handler_missing",
                path=f"nodes[{step.id}].node",
                hint="add it to the registry under the node definition's name",
            )
        return handler

    def _call(self, prepared: _Prepared) -> tuple[Any, Exception | None]:
        if isinstance(prepared.call, Exception):
            return None, None
        try:
            return _own(prepared.handler(prepared.call.handler_payload(), prepared.call.context)), None
        except Exception as error:  # a handler may raise anything; the foreach policy decides
            return None, error

    async def _call_async(self, prepared: _Prepared) -> tuple[Any, Exception | None]:
        if isinstance(prepared.call, Exception):
            return None, None
        try:
            answer = prepared.handler(prepared.call.handler_payload(), prepared.call.context)
            return _own(await answer if inspect.isawaitable(answer) else answer), None
        except Exception as error:
            return None, error

    def _plan(self, frame: ExecutionFrame) -> Plan:
        return self.program.for_scope(self.run.scopes.get(frame.scope_id))


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A node step of a frame, ready to be called, or why it cannot be."""

    frame_id: str
    call: NodeCall | Exception
    handler: Any


def _refuse_waits(program: Program) -> None:
    waits = next((step for step in program.steps() if isinstance(step, WaitNode)), None)
    if waits is not None:
        raise WorkflowExecutionError(
            f"step {waits.id!r} waits for a time, and there is no clock",
            code="clock_missing",
            path=f"nodes[{waits.id}]",
            hint="pass clock=lambda: datetime.now(UTC), or any other callable that says what time it is",
        )


def _siblings(a: ExecutionFrame, b: ExecutionFrame) -> bool:
    """Whether two frames are items of one visit."""
    return a.parent_frame_id == b.parent_frame_id and all(
        a.metadata.get(key) == b.metadata.get(key) for key in ("foreach_node_id", "activation_id")
    )


def _own(raw: Any) -> Any:
    """A handler's answer as the run's own: what the handler keeps and changes later stays its affair."""
    if isinstance(raw, NodeResult):
        return raw.model_copy(update={"output": copy_json(raw.output)})
    return copy_json(raw)


def build_program(
    workflow: Workflow, reducers: Mapping[str, ReducerDefinition] | None = None, subgraphs: Subgraphs | None = None
) -> Program:
    """The workflow with its prepared children, compiled."""
    return Program(
        compile_plan(workflow, reducers=reducers), {key: _compile_child(c) for key, c in (subgraphs or {}).items()}
    )


def _compile_child(child: PreparedSubgraph[Any]) -> Plan | ValidationFailed:
    report = child.workflow.validate_structure()
    if not report.ok:
        faults = [f"[{issue.code.value}] {issue.path}: {issue.message}" for issue in report.errors]
        return ValidationFailed("; ".join(faults))
    return compile_plan(child.workflow, reducers=child.reducers)


def create_run_state(program: Program, workflow_input: dict[str, Any], *, limits: RunLimits | None = None) -> RunState:
    """A new run in memory: pending, its root frame queued. Raises when the input does not satisfy its schema."""
    start = kernel.start(program, workflow_input)
    name = program.root.workflow.name
    run = RunState(
        workflow_name=name,
        status=RunStatus.PENDING,
        workflow_input=start.workflow_input,
        state=start.state,
        scopes={ROOT_SCOPE_ID: RuntimeScope(ROOT_SCOPE_ID, name, start.workflow_input, start.state)},
        lineages={ROOT_LINEAGE_ID: LineageState(ROOT_LINEAGE_ID, ROOT_SCOPE_ID)},
        limits=limits or RunLimits(),
    )
    local.put_frame(run, start.frame)
    local.enqueue_frame(run, start.frame.id)
    run.current_frame_id = start.frame.id
    run.sync_from_current_frame()
    return run
