"""The DSL: capabilities from typed functions, paths and conditions as Python, and the workflow builder.

The names below are the public ones; the modules behind them are not.
"""

from wf_core.authoring.bindings import input_expression, input_from, input_value, output_to
from wf_core.authoring.builder import WorkflowBuilder
from wf_core.authoring.decisions import DecisionResult
from wf_core.authoring.expressions import (
    Expr,
    PathExpr,
    context,
    eq,
    exists,
    expr,
    ge,
    gt,
    input,  # noqa: A004  # the name reads as the root it stands for
    le,
    lt,
    ne,
    not_,
    state,
)
from wf_core.authoring.graph import BranchRef, BranchResult, HandleResult, StepRef
from wf_core.authoring.inventory import NodeSpecInventory
from wf_core.authoring.nodes import NodeSpec, build_async_registry, build_registry, node
from wf_core.authoring.paths import GraphPath, context_path, graph_path, input_path, state_path
from wf_core.authoring.reducers import AuthoredReducer, ReducerCatalog, reducer
from wf_core.authoring.returns import NodeReturn, NoOutput, Nothing, outcome
from wf_core.authoring.schemas import SchemaLike, schema_ref_from, state_field, state_schema_from
from wf_core.errors import NonRetryable
from wf_core.models.retries import RetryPolicy
from wf_core.run_state import RuntimeContext
from wf_core.tokens import END

__all__ = [
    "END",
    "AuthoredReducer",
    "BranchRef",
    "BranchResult",
    "DecisionResult",
    "Expr",
    "GraphPath",
    "HandleResult",
    "NoOutput",
    "NodeReturn",
    "NodeSpec",
    "NodeSpecInventory",
    "NonRetryable",
    "Nothing",
    "PathExpr",
    "ReducerCatalog",
    "RetryPolicy",
    "RuntimeContext",
    "SchemaLike",
    "StepRef",
    "WorkflowBuilder",
    "build_async_registry",
    "build_registry",
    "context",
    "context_path",
    "eq",
    "exists",
    "expr",
    "ge",
    "graph_path",
    "gt",
    "input",
    "input_expression",
    "input_from",
    "input_path",
    "input_value",
    "le",
    "lt",
    "ne",
    "node",
    "not_",
    "outcome",
    "output_to",
    "reducer",
    "schema_ref_from",
    "state",
    "state_field",
    "state_path",
    "state_schema_from",
]
