"""What a user can do, without a word of HTTP."""

from wf_api.services.runs import RunService, StartRequest
from wf_api.services.workflows import WorkflowService

__all__ = ["RunService", "StartRequest", "WorkflowService"]
