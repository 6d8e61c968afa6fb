"""The end and join steps: an end names the workflow's outcome, a join passes on."""

from __future__ import annotations

from wf_core.models.steps import EndNode, JoinNode
from wf_core.run_state import ExecutionFrame
from wf_core.runtime.draft import Draft, trace_entry
from wf_core.runtime.flow import destination, end_frame, move
from wf_core.tokens import END


def end(draft: Draft, frame: ExecutionFrame, step: EndNode) -> str | None:
    """Ends the workflow with the step's outcome."""
    number = draft.count()
    draft.trace(number, trace_entry(frame, "end", resolved_input={}, outcome=step.outcome, next_node_id=END))
    return end_frame(draft, frame, step.outcome)


def join(draft: Draft, frame: ExecutionFrame, step: JoinNode) -> str | None:
    """A deprecated pass-through: it merges nothing."""
    to = destination(draft, draft.plan(frame), frame, "done")
    number = draft.count()
    draft.trace(number, trace_entry(frame, "join", resolved_input={}, outcome="done", next_node_id=to.node_id))
    return move(draft, frame, to, "done")
