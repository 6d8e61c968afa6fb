"""The condition step: one predicate, two ways on."""

from __future__ import annotations

from wf_core.conditions import evaluate
from wf_core.models.steps import ConditionNode
from wf_core.run_state import ExecutionFrame
from wf_core.runtime.draft import Draft, trace_entry
from wf_core.runtime.flow import destination, move


def dispatch(draft: Draft, frame: ExecutionFrame, step: ConditionNode) -> str | None:
    """Evaluates against the same view as bindings and follows ``true`` or ``false``."""
    predicate = evaluate(step.check, draft.sources(frame))
    outcome = "true" if predicate else "false"
    to = destination(draft, draft.plan(frame), frame, outcome)
    number = draft.count()
    draft.trace(
        number,
        trace_entry(
            frame,
            "condition",
            resolved_input={},
            outcome=outcome,
            next_node_id=to.node_id,
            output={"predicate": predicate},
        ),
    )
    return move(draft, frame, to, outcome)
