"""The subgraph step: another workflow runs in a scope of its own, and sees nothing of its caller but its input."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from wf_core.errors import WorkflowExecutionError
from wf_core.expressions import copy_json, resolve_bindings
from wf_core.models.steps import SubgraphNode
from wf_core.run_state import SUBGRAPH_FRAME, ExecutionFrame, Json, RuntimeScope
from wf_core.runtime.draft import Draft, check_nesting, trace_entry
from wf_core.runtime.flow import destination, move, workflow_output
from wf_core.runtime.patches import build_patch
from wf_core.runtime.scheduler import damaged, subgraph_activation
from wf_core.runtime.starting import initial_state
from wf_core.runtime.transition import Block, CloseScope

_ACTIVATION = "subgraph_activation"
_VISITS = "subgraph_visits"


def dispatch(draft: Draft, frame: ExecutionFrame, step: SubgraphNode) -> str | None:
    """Starts the child, or (when it has ended) takes its output and goes on."""
    activation = subgraph_activation(frame)
    if activation is None:
        return _start(draft, frame, step)
    if not isinstance(activation.get("outcome"), str):
        raise damaged(f"subgraph {step.id!r} of frame {frame.id!r}: its child has not ended", frame_id=frame.id)
    return _finish(draft, frame, step, activation)


def _start(draft: Draft, frame: ExecutionFrame, step: SubgraphNode) -> str:
    check_nesting(draft, frame)
    child = draft.program.child(step.workflow)
    child_input: dict[str, Json] = copy_json(
        resolve_bindings(step.input, draft.sources(frame), label=f"subgraph {step.id!r}")
    )
    draft.plan(frame).boundaries[step.id].input.check(child_input, f"subgraph input for {step.id}")
    child.input_check.check(child_input, f"child workflow input for {step.id}")
    state = initial_state(child, child_input)
    draft.count()
    visits: dict[str, int] = frame.metadata.get(_VISITS, {})
    visit = visits.get(step.id, 0)
    scope_id = f"{frame.id}:subgraph:{step.id}" + (f"#{visit}" if visit else "")
    scope = RuntimeScope(scope_id, child.workflow.name, child_input, workflow_ref=step.workflow)
    root = ExecutionFrame(
        id=f"{scope_id}:frame",
        kind=SUBGRAPH_FRAME,
        node_id=child.workflow.start,
        parent_frame_id=frame.id,
        scope_id=scope_id,
        lineage_id=f"{scope_id}:root",
        metadata={"workflow": {"name": child.workflow.name, "ref": step.workflow.model_dump(mode="json")}},
    )
    record = {
        "workflow_ref": step.workflow.model_dump(mode="json"),
        "scope_id": scope_id,
        "lineage_id": root.lineage_id,
        "child_frame_id": root.id,
        "child_input": child_input,
    }
    metadata = {**frame.metadata, _ACTIVATION: record, _VISITS: {**visits, step.id: visit + 1}}
    draft.open_scope(scope, state)
    draft.put(replace(frame, metadata=metadata))
    draft.put(root)
    draft.add(Block(frame.id, (root.id,)))
    return root.id


def _finish(draft: Draft, frame: ExecutionFrame, step: SubgraphNode, activation: dict[str, Any]) -> str | None:
    plan, child = draft.plan(frame), draft.program.child(step.workflow)
    outcome: str = activation["outcome"]
    if outcome not in step.outcomes:
        raise WorkflowExecutionError(
            f"the child workflow of {step.id!r} ended with the undeclared outcome {outcome!r}",
            code="outcome_undeclared",
            path=f"nodes[{step.id}]",
            hint=f"declare it on the subgraph step; declared are: {', '.join(step.outcomes)}",
        )
    ended = ExecutionFrame(
        id=activation["child_frame_id"],
        kind=SUBGRAPH_FRAME,
        node_id=step.id,
        parent_frame_id=frame.id,
        scope_id=activation["scope_id"],
        lineage_id=activation["lineage_id"],
        prior_outcome=activation.get("prior_outcome"),
        activated_incoming_edge=activation.get("activated_incoming_edge"),
    )
    output = workflow_output(draft, child, ended, label=f"child workflow output for {step.id}")
    plan.boundaries[step.id].output.check(output, f"subgraph output for {step.id}")
    patch = build_patch(plan, step.output, output, draft.state(frame), label=f"subgraph output for {step.id!r}")
    to = destination(draft, plan, frame, outcome)
    number = draft.count()
    changes = draft.write(frame, patch)
    draft.trace(
        number,
        trace_entry(
            frame,
            "subgraph",
            resolved_input=activation["child_input"],
            outcome=outcome,
            next_node_id=to.node_id,
            output=copy_json(output),
            changes=changes,
        ),
    )
    draft.add(CloseScope(activation["scope_id"]))
    done = replace(frame, metadata={key: value for key, value in frame.metadata.items() if key != _ACTIVATION})
    draft.put(done)
    return move(draft, done, to, outcome)
