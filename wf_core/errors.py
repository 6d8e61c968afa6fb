"""The error tree: a stable code, the path to the place, a hint that says what to change.

    WfError                      anything this project raises on purpose
    ├── WorkflowExecutionError   a run cannot go on (also a RuntimeError)
    │   └── WorkflowStepLimitExceeded
    ├── PathResolutionError      a path text or a path walk is wrong (also a ValueError; in wf_core.paths)
    ├── PersistedRunInvalid      a stored run cannot be loaded (also a ValueError; in wf_core.run_codec)
    └── LocalPathError           the same inside one payload (also a ValueError; in wf_core.local_paths)

Errors cross processes as data (``as_dict``), never as pickled exceptions. Every code stands in
docs/reference/errors.md with its cause and cure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from wf_core.run_state import ExecutionFrame, RunState


class WfError(Exception):
    """Base of every deliberate error: ``code`` is stable, ``path`` names the place, ``hint`` the repair."""

    default_code: ClassVar[str] = "error"

    def __init__(
        self, message: str, *, code: str | None = None, path: str | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code
        self.path = path
        self.hint = hint

    def as_dict(self) -> dict[str, str | None]:
        """The wire form: ``code``, ``message``, ``path``, ``hint``."""
        return {"code": self.code, "message": self.message, "path": self.path, "hint": self.hint}


class NonRetryable(Exception):
    """Raised by a handler, or a base of what it raises: this will not pass, however often it is tried."""


class WorkflowExecutionError(WfError, RuntimeError):
    """A run cannot go on: a fault of the graph, a payload, a handler's answer or the persisted state."""

    default_code = "workflow_execution_failed"


class WorkflowStepLimitExceeded(WorkflowExecutionError):
    """The run has used every step attempt that its limits admit. Never an outcome, and no foreach policy handles it."""

    default_code = "step_limit_exceeded"

    def __init__(
        self, message: str, *, max_steps: int, steps_executed: int, frame_id: str, scope_id: str, node_id: str
    ) -> None:
        super().__init__(
            message,
            path=f"nodes[{node_id}]",
            hint="raise limits.max_steps when the run is started, or look for a cycle that does not end",
        )
        self.max_steps = max_steps
        self.steps_executed = steps_executed
        self.frame_id = frame_id
        self.scope_id = scope_id
        self.node_id = node_id

    @classmethod
    def from_run(cls, run: RunState, frame: ExecutionFrame, node_id: str) -> WorkflowStepLimitExceeded:
        """The error for a frame that is denied its next step."""
        return cls(
            f"workflow {run.workflow_name!r} reached max_steps={run.limits.max_steps} "
            f"at step {node_id!r} of frame {frame.id!r} in scope {frame.scope_id!r}",
            max_steps=run.limits.max_steps,
            steps_executed=run.steps_executed,
            frame_id=frame.id,
            scope_id=frame.scope_id,
            node_id=node_id,
        )
