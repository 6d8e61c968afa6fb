"""Where a frame goes when a step is done: onward, back to the owner of its item, or to its end."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from wf_core.errors import WorkflowExecutionError
from wf_core.expressions import resolve_bindings
from wf_core.models.steps import EndNode, ForeachNode, Step
from wf_core.plan import Plan
from wf_core.run_state import SUBGRAPH_FRAME, WORKFLOW_FRAME, ExecutionFrame, FrameStatus, Json
from wf_core.runtime.draft import Draft, open_visit_mode
from wf_core.runtime.scheduler import ForeachIterationMetadata, damaged, subgraph_activation
from wf_core.runtime.transition import Arrive, CompleteRun, Reach, RemoveFrame
from wf_core.tokens import END


class Way(Enum):
    """How a frame leaves a step."""

    ONWARD = "onward"
    RETURN = "return"
    END = "end"


@dataclass(frozen=True, slots=True)
class Destination:
    """A checked target: ``node_id`` is the step, the owner, or END."""

    way: Way
    node_id: str


def destination(draft: Draft, plan: Plan, frame: ExecutionFrame, outcome: str) -> Destination:
    """Looks up the edge and checks that the frame may follow it, before anything is written."""
    target = plan.route(frame.node_id, outcome)
    iteration = ForeachIterationMetadata.from_frame(frame)
    if iteration is None:
        return Destination(Way.END if target == END else Way.ONWARD, target)
    if target == iteration.foreach_node_id:
        return Destination(Way.RETURN, target)
    if target == END or isinstance(plan.steps.get(target), EndNode):
        raise WorkflowExecutionError(
            f"an item of foreach {iteration.foreach_node_id!r} reached the end at {target!r} "
            "instead of returning to its owner",
            code="invalid_foreach_terminal",
            path=f"nodes[{frame.node_id}]",
            hint=f"lead the item back to {iteration.foreach_node_id!r}",
        )
    if isinstance(plan.steps.get(target), ForeachNode) and target in active_owners(draft, frame):
        raise WorkflowExecutionError(
            f"an item of foreach {iteration.foreach_node_id!r} targets the older owner {target!r}",
            code="invalid_foreach_return",
            path=f"nodes[{frame.node_id}]",
            hint=f"lead the item back to its immediate owner {iteration.foreach_node_id!r}",
        )
    return Destination(Way.ONWARD, target)


def active_owners(draft: Draft, frame: ExecutionFrame) -> set[str]:
    """The foreach steps whose items the frame is inside, in its scope."""
    owners: set[str] = set()
    current: ExecutionFrame | None = frame
    while current is not None and current.scope_id == frame.scope_id:
        iteration = ForeachIterationMetadata.from_frame(current)
        if iteration is not None:
            owners.add(iteration.foreach_node_id)
        current = None if current.parent_frame_id is None else draft.require_frame(current.parent_frame_id, current.id)
    return owners


def move(draft: Draft, frame: ExecutionFrame, to: Destination, outcome: str) -> str | None:
    """Moves the frame. Gives the frame that the walk goes on with, or None when it stops here."""
    if to.way is Way.ONWARD:
        draft.put(replace(frame, node_id=to.node_id, prior_outcome=outcome, activated_incoming_edge=frame.node_id))
        if frame.kind == WORKFLOW_FRAME:
            draft.add(Reach(to.node_id, outcome, frame.node_id))
        return frame.id
    if to.way is Way.RETURN:
        return end_item(draft, frame)
    return end_frame(draft, frame, "ok")


def end_item(draft: Draft, frame: ExecutionFrame) -> str | None:
    """The item is done. A serial controller takes over at once; a concurrent one is told by the store."""
    iteration = ForeachIterationMetadata.from_frame(frame)
    if iteration is None:
        raise damaged(f"frame {frame.id!r} is no item and cannot return", frame_id=frame.id)
    controller = draft.require_frame(frame.parent_frame_id, frame.id)
    if open_visit_mode(controller, iteration) == "concurrent":
        draft.add(Arrive(iteration.activation_id, iteration.loop_index, frame.id, frame.lineage_id))
        draft.remove(RemoveFrame(frame.id, FrameStatus.COMPLETED, finished_at=iteration.foreach_node_id))
        return None
    draft.remove(RemoveFrame(frame.id, FrameStatus.COMPLETED, finished_at=iteration.foreach_node_id))
    return controller.id


def end_frame(draft: Draft, frame: ExecutionFrame, outcome: str) -> str | None:
    """The frame reached END: the root completes the run, the root of a child scope hands over to its caller."""
    if frame.kind == SUBGRAPH_FRAME:
        return _end_child(draft, frame, outcome)
    if frame.kind != WORKFLOW_FRAME:
        raise damaged(f"frame {frame.id!r} of kind {frame.kind!r} cannot end a workflow", frame_id=frame.id)
    plan = draft.plan(frame)
    output = workflow_output(draft, plan, frame)
    draft.remove(RemoveFrame(frame.id, FrameStatus.COMPLETED))
    draft.add(CompleteRun(outcome, output))
    return None


def _end_child(draft: Draft, frame: ExecutionFrame, outcome: str) -> str:
    """The child's end is noted with its caller, whose next dispatch takes the output; until then the scope stays."""
    caller = draft.require_frame(frame.parent_frame_id, frame.id)
    activation = subgraph_activation(caller)
    if activation is None or activation["child_frame_id"] != frame.id:
        raise damaged(f"frame {caller.id!r} does not wait for the child workflow of {frame.id!r}", frame_id=caller.id)
    ended = {
        **activation,
        "outcome": outcome,
        "prior_outcome": frame.prior_outcome,
        "activated_incoming_edge": frame.activated_incoming_edge,
    }
    draft.put(replace(caller, metadata={**caller.metadata, "subgraph_activation": ended}))
    draft.remove(RemoveFrame(frame.id, FrameStatus.COMPLETED, outcome=outcome))
    return caller.id


def workflow_output(draft: Draft, plan: Plan, frame: ExecutionFrame, *, label: str = "workflow output") -> Json:
    """The declared projection, or (without one) the state fields that the output schema names; checked."""
    workflow = plan.workflow
    if workflow.output:
        output: Json = resolve_bindings(workflow.output, draft.sources(frame), label=label)
    else:
        state = draft.state(frame)
        output = {name: state[name] for name in workflow.output_schema.properties if name in state}
    plan.output_check.check(output, label)
    return output


def stands_at(draft: Draft, frame: ExecutionFrame) -> Step:
    """The step at which the frame stands."""
    return draft.plan(frame).step(frame.node_id)
