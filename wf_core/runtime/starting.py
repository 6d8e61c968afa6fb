"""How the scope of a workflow begins: its input checked, its first state laid out."""

from __future__ import annotations

from wf_core.errors import WorkflowExecutionError
from wf_core.expressions import copy_json
from wf_core.models.steps import Step
from wf_core.paths import StatePath
from wf_core.plan import Plan, handler_name
from wf_core.run_state import Json
from wf_core.runtime.slice import MISSING
from wf_core.runtime.state_view import with_value
from wf_core.runtime.transition import Purpose


def check_input(plan: Plan, workflow_input: dict[str, Json]) -> None:
    """The input against the workflow's schema."""
    try:
        plan.input_check.check(workflow_input, "workflow input")
    except WorkflowExecutionError as error:
        raise WorkflowExecutionError(
            error.message,
            code="workflow_input_invalid",
            path="input" + (error.path or "").removeprefix("workflow input"),
            hint="the workflow shows the schema it wants as input_schema",
        ) from error


def initial_state(plan: Plan, workflow_input: dict[str, Json]) -> dict[str, Json]:
    """Declared defaults in declaration order, then every top-level key of the input over them, declared or not."""
    state: dict[str, Json] = {}
    for declared in plan.workflow.state_schema.fields:
        if declared.default is not None:
            path: StatePath = declared.path
            root = path.parts[0]
            state[root] = with_value(state.get(root, MISSING), path.parts[1:], copy_json(declared.default), path)
    state.update(copy_json(workflow_input))
    return state


def purpose_at(step: Step) -> Purpose:
    """What a frame that stands at the step is due for."""
    return Purpose.WALK if handler_name(step) is None else Purpose.STEP
