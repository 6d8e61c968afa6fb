"""Clients of the API, synchronous and asynchronous, with one surface.

Results are the typed dictionaries of :mod:`wf_api.wire`; what goes wrong is a :class:`WorkflowApiError`.
"""

from wf_api.client.asynchronous import AsyncWorkflowClient
from wf_api.client.errors import WaitTimeout, WorkflowApiError
from wf_api.client.synchronous import WorkflowClient

__all__ = ["AsyncWorkflowClient", "WaitTimeout", "WorkflowApiError", "WorkflowClient"]
