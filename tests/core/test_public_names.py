"""The names that users may rely on."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import wf_core

PUBLIC = """
ArrayExpression AsyncNodeHandler ConditionNode END Edge EndNode ExecutionFrame ForeachConcurrentPolicy ForeachContext
ForeachItemErrorPolicy ForeachNode FrameStatus InputExpression InputExpressionBinding InputPathBinding
InputValueBinding InterruptNode InterruptRequest InterruptRoute JoinNode JsonValue LiteralExpression NodeDef
NodeHandler NodeResult NodeUse ObjectExpression PathExpression PersistedRunState PreparedSubgraph ReducerRef
ReducerSpec RunLimits RunState RunStatus RuntimeContext START SchemaRef SiblingWritePolicy StateField StateSchema
StepExecutionResult StepInputBinding SubgraphNode TraceEntry ValidationIssue ValidationIssueCode ValidationReport
Workflow WorkflowExecutionError WorkflowRef WorkflowStepLimitExceeded admit_step_attempt coerce_node_result
dump_run_state execute_workflow execute_workflow_async execute_workflow_result_async load_run_state
load_run_state_with_upgrade remaining_step_attempts resume_workflow resume_workflow_async resume_workflow_result_async
step_workflow step_workflow_async validate_strict_json_value validate_workflow workflow_ref_from
"""


def test_the_facade_lists_exactly_the_public_names() -> None:
    assert set(wf_core.__all__) == set(PUBLIC.split())
    assert len(wf_core.__all__) == len(set(wf_core.__all__))


@pytest.mark.parametrize("name", sorted(wf_core.__all__))
def test_every_listed_name_can_be_imported(name: str) -> None:
    assert getattr(wf_core, name) is not None


def test_no_module_below_the_facade_imports_from_it() -> None:
    """The facade runs before any module below it, so a module that reads from it would find it half made."""
    root = Path(wf_core.__file__).parent
    for source in root.rglob("*.py"):
        for found in ast.walk(ast.parse(source.read_text())):
            assert not (isinstance(found, ast.ImportFrom) and found.module == "wf_core"), source


@pytest.mark.parametrize("module", ["wf_core.models", "wf_core.runtime.kernel", "wf_core.validation"])
def test_a_module_can_be_imported_first(module: str) -> None:
    done = subprocess.run([sys.executable, "-c", f"import {module}"], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
