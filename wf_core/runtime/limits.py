"""Step admission: one unit of the budget for each dispatch."""

from __future__ import annotations

from wf_core.errors import WorkflowStepLimitExceeded
from wf_core.run_limits import RunLimits
from wf_core.run_state import ExecutionFrame, RunState

__all__ = ["RunLimits", "admit_step_attempt", "remaining_step_attempts"]


def admit_step_attempt(run: RunState, frame: ExecutionFrame, node_id: str) -> int:
    """Counts one attempt and stores its number on the frame; :class:`WorkflowStepLimitExceeded` changes nothing."""
    if run.steps_executed >= run.limits.max_steps:
        raise WorkflowStepLimitExceeded.from_run(run, frame, node_id)
    run.steps_executed += 1
    frame.step_number = run.steps_executed
    return run.steps_executed


def remaining_step_attempts(run: RunState) -> int:
    """How many attempts the budget still admits."""
    return run.steps_remaining
