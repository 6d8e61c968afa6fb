"""The capability that the builder itself puts into workflows."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel

from wf_core.authoring.nodes import node
from wf_core.errors import WorkflowExecutionError


class RuntimeErrorInput(BaseModel):
    """What the failure says."""

    message: str


def _runtime_error(payload: RuntimeErrorInput) -> None:
    """Fail the step with a message."""
    raise WorkflowExecutionError(payload.message, code="runtime_error")


RUNTIME_ERROR: Final = node(_runtime_error, name="wf.std.runtime_error")
"""Fails with its message. Stands where a decision has no way on, so that the run does not end as if all were well."""
