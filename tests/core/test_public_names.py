"""The names that users may rely on."""

from __future__ import annotations

import pkgutil
import subprocess
import sys

import pytest

import wf_core

PUBLIC = """
ArrayExpression AsyncNodeHandler ConditionNode END Edge EndNode ExecutionFrame ForeachConcurrentPolicy ForeachContext
ForeachItemErrorPolicy ForeachNode FrameStatus InputExpression InputExpressionBinding InputPathBinding InputValueBinding
InterruptNode InterruptRequest InterruptRoute JoinNode JsonValue LiteralExpression NodeDef NodeHandler NodeResult NodeUse
ObjectExpression PathExpression PersistedRunState PreparedSubgraph ReducerRef ReducerSpec RunLimits RunState RunStatus
RuntimeContext START SchemaRef SiblingWritePolicy StateField StateSchema StepExecutionResult StepInputBinding
SubgraphNode TraceEntry ValidationIssue ValidationIssueCode ValidationReport Workflow WorkflowExecutionError WorkflowRef
WorkflowStepLimitExceeded admit_step_attempt coerce_node_result dump_run_state execute_workflow execute_workflow_async
execute_workflow_result_async load_run_state load_run_state_with_upgrade remaining_step_attempts resume_workflow
resume_workflow_async resume_workflow_result_async step_workflow step_workflow_async validate_strict_json_value
validate_workflow workflow_ref_from
""".split()

STILL_TO_COME = {"PersistedRunState", "dump_run_state", "load_run_state", "load_run_state_with_upgrade"}
"""The stored form of a run in memory; its names join the facade with it."""


def test_the_facade_lists_exactly_the_public_names_that_exist() -> None:
    assert set(wf_core.__all__) == set(PUBLIC) - STILL_TO_COME
    assert len(wf_core.__all__) == len(set(wf_core.__all__))


@pytest.mark.parametrize("name", sorted(wf_core.__all__))
def test_every_listed_name_can_be_imported(name: str) -> None:
    assert getattr(wf_core, name) is not None


def test_names_still_to_come_are_not_there_yet() -> None:
    assert not [name for name in STILL_TO_COME if hasattr(wf_core, name)]


@pytest.mark.parametrize(
    "module",
    [
        "wf_core.paths",
        "wf_core.models",
        "wf_core.errors",
        "wf_core.run_state",
        "wf_core.validation",
        "wf_core.analysis",
        "wf_core.runtime",
        "wf_core.runtime.kernel",
        "wf_core.runtime.slice",
        "wf_core.runtime.ops.frames",
    ],
)
def test_a_module_can_be_imported_first(module: str) -> None:
    done = subprocess.run([sys.executable, "-c", f"import {module}"], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


def test_no_module_imports_from_the_facade() -> None:
    """The facade runs before any module below it, so a module that reads from it would find it half made."""
    sources = {
        info.name: (info.module_finder.find_spec(info.name, None), info)  # type: ignore[union-attr,call-arg]
        for info in pkgutil.walk_packages(wf_core.__path__, "wf_core.")
    }

    for name, (spec, _) in sources.items():
        assert spec is not None and spec.loader is not None
        source = spec.loader.get_source(name)  # type: ignore[attr-defined]
        assert "from wf_core import" not in (source or ""), name
