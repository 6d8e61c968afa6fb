"""The execution kernel and the in-memory engine that drives it."""

from wf_core.errors import WorkflowExecutionError
from wf_core.runtime.engine import (
    AsyncNodeHandler,
    Clock,
    NodeHandler,
    PreparedSubgraph,
    execute_workflow,
    execute_workflow_async,
    execute_workflow_result_async,
    next_due,
    resume_workflow,
    resume_workflow_async,
    resume_workflow_result_async,
    step_workflow,
    step_workflow_async,
)
from wf_core.runtime.ops.nodes import coerce_node_result

__all__ = [
    "AsyncNodeHandler",
    "Clock",
    "NodeHandler",
    "PreparedSubgraph",
    "WorkflowExecutionError",
    "coerce_node_result",
    "execute_workflow",
    "execute_workflow_async",
    "execute_workflow_result_async",
    "next_due",
    "resume_workflow",
    "resume_workflow_async",
    "resume_workflow_result_async",
    "step_workflow",
    "step_workflow_async",
]
