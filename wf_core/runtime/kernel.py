"""The kernel: a slice and an event go in, a transition comes out. These are the only ways in.

    start                       a new run
    prepare -> complete / fail  a handler step
    walk, open_foreach, finish_foreach   a control step that a worker was asked for
    resume                      the answer to an interrupt
    elapse                      the time that a frame waited for
    deny                        the budget admits no more steps

All are pure. One that raises :class:`~wf_core.runtime.slice.SliceMiss` has decided nothing: load what it names and
call it again. Control steps need no handler, so each event walks on through them until a frame needs a worker or a
person; a host that wants to see every step, as the in-memory engine does, sets ``hops``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from wf_core.errors import WorkflowStepLimitExceeded
from wf_core.models.steps import (
    ConditionNode,
    EndNode,
    ForeachNode,
    InterruptNode,
    JoinNode,
    NodeUse,
    Step,
    SubgraphNode,
    WaitNode,
)
from wf_core.plan import Program, handler_name
from wf_core.run_state import ROOT_FRAME_ID, WORKFLOW_FRAME, ExecutionFrame, InterruptRequest, Json
from wf_core.runtime.draft import BudgetMet, Draft
from wf_core.runtime.failures import fail_run, take_failure
from wf_core.runtime.flow import move, stands_at
from wf_core.runtime.ops import conditions, ends, foreach, interrupts, nodes, subgraphs, waits
from wf_core.runtime.ops.interrupts import check_answer, waiting_place
from wf_core.runtime.ops.nodes import NodeCall
from wf_core.runtime.scheduler import ForeachIterationMetadata, damaged
from wf_core.runtime.slice import RunSlice, SliceMiss
from wf_core.runtime.starting import check_input, initial_state, purpose_at
from wf_core.runtime.transition import Place, Purpose, Transition

MAX_WALK: Final = 64
"""Control steps that one transition may walk through: what one store script applies in a few milliseconds."""

INLINE_ITEMS: Final = 64
"""Items that a concurrent foreach may have to be opened inside another transition."""


@dataclass(frozen=True, slots=True)
class Walk:
    """How far one event may go.

    ``hops`` counts control steps. ``admitted`` is the number of the first step where the host admitted it before the
    call. ``steps_left`` is what the budget still admits, None when the store will say. ``inline_items``: see
    :data:`INLINE_ITEMS`; None opens any foreach in place.
    """

    hops: int = MAX_WALK
    admitted: int | None = None
    steps_left: int | None = None
    inline_items: int | None = INLINE_ITEMS
    max_steps: int = 0
    steps_executed: int = 0


@dataclass(frozen=True, slots=True)
class RunStart:
    """A run as it begins: its checked input, its first state, its root frame and what that frame is due for."""

    workflow_input: dict[str, Json]
    state: dict[str, Json]
    frame: ExecutionFrame
    purpose: Purpose


def start(program: Program, workflow_input: dict[str, Json]) -> RunStart:
    """Checks the input and lays out the first state. Raises with code ``workflow_input_invalid`` before that."""
    plan = program.root
    check_input(plan, workflow_input)
    frame = ExecutionFrame(ROOT_FRAME_ID, WORKFLOW_FRAME, plan.workflow.start)
    return RunStart(
        workflow_input, initial_state(plan, workflow_input), frame, purpose_at(plan.step(plan.workflow.start))
    )


# ---- the handler step


def prepare(program: Program, view: RunSlice, frame_id: str, *, platform: object = None) -> NodeCall:
    """The handler call of the step at which the frame stands. What it raises is that step's failure: :func:`fail`."""
    draft = Draft(program, view, frame_id)
    frame = _frame(draft, frame_id)
    step = stands_at(draft, frame)
    if not isinstance(step, NodeUse):
        raise damaged(f"frame {frame_id!r} is due for a handler but stands at {frame.node_id!r}", frame_id=frame_id)
    return nodes.prepare(draft, frame, step, platform)


def complete(program: Program, view: RunSlice, call: NodeCall, raw: Any, *, number: int, walk: Walk) -> Transition:
    """The handler answered ``raw``. ``number`` is the step number that the visit got when it was claimed."""

    def finish(draft: Draft, frame: ExecutionFrame) -> str | None:
        step = stands_at(draft, frame)
        if not isinstance(step, NodeUse) or step.id != call.node_id:
            raise damaged(f"frame {frame.id!r} no longer stands at {call.node_id!r}", frame_id=frame.id)
        return nodes.finish(draft, frame, step, call, raw, number)

    return _event(program, view, call.frame_id, walk, finish)


def fail(program: Program, view: RunSlice, frame_id: str, error: Exception, *, walk: Walk) -> Transition:
    """The step at which the frame stands failed for good."""

    def finish(draft: Draft, frame: ExecutionFrame) -> str | None:
        return take_failure(draft, frame, error)

    return _event(program, view, frame_id, walk, finish)


# ---- control steps


def walk_on(program: Program, view: RunSlice, frame_id: str, *, walk: Walk) -> Transition:
    """Walks from the control step at which the frame stands."""
    return _event(program, view, frame_id, walk, lambda _draft, frame: frame.id)


def open_foreach(program: Program, view: RunSlice, frame_id: str, *, walk: Walk) -> Transition:
    """Opens the foreach at which the frame stands, however long its list is."""
    return walk_on(program, view, frame_id, walk=replace(walk, hops=1, inline_items=None))


def finish_foreach(program: Program, view: RunSlice, frame_id: str, *, walk: Walk) -> Transition:
    """Every item of the foreach at which the frame stands has a result."""

    def finish(draft: Draft, frame: ExecutionFrame) -> str | None:
        step = stands_at(draft, frame)
        if not isinstance(step, ForeachNode):
            raise damaged(f"frame {frame.id!r} finishes a foreach but stands at {frame.node_id!r}", frame_id=frame.id)
        return foreach.finish(draft, frame, step)

    return _event(program, view, frame_id, walk, finish)


# ---- waits


def elapse(program: Program, view: RunSlice, frame_id: str, *, number: int, walk: Walk) -> Transition:
    """The time has come that the frame waits for. ``number`` is the step number that it got when it began to wait."""

    def finish(draft: Draft, frame: ExecutionFrame) -> str | None:
        step = stands_at(draft, frame)
        if not isinstance(step, WaitNode):
            raise damaged(f"frame {frame.id!r} waited for a time but stands at {frame.node_id!r}", frame_id=frame.id)
        return waits.elapse(draft, frame, step, number)

    return _event(program, view, frame_id, walk, finish)


# ---- interrupts


def check_resume(program: Program, view: RunSlice, request: InterruptRequest, payload: Any, outcome: str) -> None:
    """Raises when the answer cannot be taken, with the codes of :func:`wf_core.runtime.ops.interrupts.check_answer`."""
    frame = _frame(view, waiting_place(request)[0])
    check_answer(program.for_scope(view.scope(frame.scope_id)), frame, request, payload, outcome)


def resume(
    program: Program,
    view: RunSlice,
    request: InterruptRequest,
    payload: dict[str, Json],
    outcome: str,
    *,
    number: int,
    walk: Walk,
) -> Transition:
    """The answer to an open interrupt. Raises, changing nothing, when it cannot be taken or its bindings fail.

    What fails after that, such as the workflow's output where the answer ends it, is a failure of the run.
    """
    frame_id = waiting_place(request)[0]
    draft = Draft(program, view, frame_id, admitted=walk.admitted, steps_left=walk.steps_left)
    frame = _frame(draft, frame_id)
    step = check_answer(draft.plan(frame), frame, request, payload, outcome)
    to = interrupts.take_answer(draft, frame, step, payload, outcome, number)
    try:
        current = move(draft, frame, to, outcome)
    except (SliceMiss, AssertionError):
        raise
    except Exception as error:  # as in _event
        current = take_failure(draft, frame, error)
    return _walk(draft, current, walk)


# ---- the budget


def deny(program: Program, view: RunSlice, frame_id: str, *, walk: Walk) -> Transition:
    """The frame's next step was not admitted: the run fails with the limit's error."""
    draft = Draft(program, view, frame_id)
    frame = _frame(draft, frame_id)
    _deny(draft, frame, walk)
    return draft.transition()


def _deny(draft: Draft, frame: ExecutionFrame, walk: Walk) -> None:
    workflow = draft.program.root.workflow
    error = WorkflowStepLimitExceeded(
        f"workflow {workflow.name!r} reached max_steps={walk.max_steps} at step {frame.node_id!r} "
        f"of frame {frame.id!r} in scope {frame.scope_id!r}",
        max_steps=walk.max_steps,
        steps_executed=walk.steps_executed or walk.max_steps,
        frame_id=frame.id,
        scope_id=frame.scope_id,
        node_id=frame.node_id,
    )
    fail_run(draft, frame, error)


# ---- the walk


def _event(
    program: Program, view: RunSlice, frame_id: str, walk: Walk, act: Callable[[Draft, ExecutionFrame], str | None]
) -> Transition:
    """Lets ``act`` do what the event is about, then walks on. An exception in it is a failure of the frame's step."""
    draft = Draft(program, view, frame_id, admitted=walk.admitted, steps_left=walk.steps_left)
    frame = _frame(draft, frame_id)
    try:
        _announce(draft, frame)
        current = act(draft, frame)
    except (SliceMiss, AssertionError):
        raise
    except BudgetMet:
        _deny(draft, frame, walk)
        current = None
    except Exception as error:  # every error of a step is an outcome of that step, and is recorded as one
        current = take_failure(draft, frame, error)
    return _walk(draft, current, walk)


def _walk(draft: Draft, current: str | None, walk: Walk) -> Transition:
    hops = walk.hops
    while current is not None:
        frame = _frame(draft, current)
        step = stands_at(draft, frame)
        if handler_name(step) is not None:
            draft.add(Place(frame.id, Purpose.STEP))
            break
        if hops == 0:
            draft.add(Place(frame.id, Purpose.WALK, front=isinstance(step, InterruptNode)))
            break
        hops -= 1
        try:
            current = _control_step(draft, frame, step, walk)
        except (SliceMiss, AssertionError):
            raise
        except BudgetMet:
            _deny(draft, frame, walk)
            break
        except Exception as error:  # as in _event: the failure belongs to this step, what came before it is kept
            current = take_failure(draft, frame, error)
    return draft.transition()


def _control_step(draft: Draft, frame: ExecutionFrame, step: Step, walk: Walk) -> str | None:
    """The table of control steps. Each checks everything before it changes the draft."""
    match step:
        case ConditionNode():
            return conditions.dispatch(draft, frame, step)
        case ForeachNode():
            return foreach.dispatch(draft, frame, step, inline_items=walk.inline_items)
        case InterruptNode():
            return interrupts.open_interrupt(draft, frame, step)
        case WaitNode():
            return waits.begin(draft, frame, step)
        case SubgraphNode():
            return subgraphs.dispatch(draft, frame, step)
        case EndNode():
            return ends.end(draft, frame, step)
        case JoinNode():
            return ends.join(draft, frame, step)
        case NodeUse():
            raise damaged(f"step {step.id!r} needs a handler, the kernel cannot walk through it", frame_id=frame.id)


def _announce(draft: Draft, frame: ExecutionFrame) -> None:
    """The ``loop`` trace entry of an item that the store admitted without one."""
    number = draft.unannounced_item(frame.id)
    if number is None:
        return
    iteration = ForeachIterationMetadata.from_frame(frame)
    controller = draft.require_frame(frame.parent_frame_id, frame.id)
    if iteration is not None:
        draft.trace(
            number,
            foreach.loop_entry(
                controller, iteration.foreach_node_id, iteration.loop_item, iteration.loop_index, frame.node_id
            ),
        )


def _frame(view: RunSlice, frame_id: str) -> ExecutionFrame:
    frame = view.frame(frame_id)
    if frame is None:
        raise damaged(f"frame {frame_id!r} does not exist", frame_id=frame_id)
    return frame
