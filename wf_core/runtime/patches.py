"""One output becomes one patch of the state: all of it valid, or nothing of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wf_core.errors import WorkflowExecutionError
from wf_core.local_paths import LocalPathError, get_local_value
from wf_core.models.steps import OutputBinding
from wf_core.paths import StatePath, path_parts_overlap
from wf_core.plan import Plan
from wf_core.reducers import apply_reducer
from wf_core.run_state import Json, StateWrite
from wf_core.runtime.slice import Missing
from wf_core.runtime.state_view import StateView, value_at, with_value


@dataclass(frozen=True, slots=True)
class Patch:
    """``writes`` in order; ``fields`` the resulting value of every top-level field they touch; ``changes`` what the
    trace shows once the patch is committed: path text to incoming value (to the aggregate, for a barrier)."""

    writes: tuple[StateWrite, ...]
    fields: dict[str, Json]
    changes: dict[str, Json]


def build_patch(
    plan: Plan, bindings: Sequence[OutputBinding], output: Mapping[str, Any], state: StateView, *, label: str
) -> Patch:
    """Reads every source, merges against the state as it was before, and checks what results.

    ``label`` says whose output it is in errors, for example ``node output for 'charge'``. Raises
    :class:`WorkflowExecutionError` and leaves everything as it was when a source is missing, targets overlap, a
    reducer refuses or a declared schema is not satisfied.
    """
    refuse_overlap([binding.target for binding in bindings])
    changes = [(binding.target, read_source(binding, output, label)) for binding in bindings]
    return stage(plan, changes, state)


def refuse_overlap(targets: Sequence[StatePath]) -> None:
    """Two writes of one patch may not touch the same place."""
    for i, first in enumerate(targets):
        for second in targets[i + 1 :]:
            if path_parts_overlap(first.parts, second.parts):
                raise WorkflowExecutionError(
                    f"overlapping state destination paths {first} and {second}",
                    code="overlapping_writes",
                    path=str(second),
                )


def read_source(binding: OutputBinding, output: Mapping[str, Any], label: str) -> Json:
    """The value a binding takes out of an output; a present null is a value, an absent one an error."""
    try:
        return get_local_value(output, binding.source)
    except LocalPathError as error:
        raise WorkflowExecutionError(
            f"{label} did not include required field '{binding.source}'",
            code="output_field_missing",
            path=str(binding.source),
        ) from error


def stage(plan: Plan, changes: Sequence[tuple[StatePath, Json]], state: StateView) -> Patch:
    """Merges each change against the state before the patch and checks the result against the declared schemas."""
    writes: list[StateWrite] = []
    fields: dict[str, Json | Missing] = {}
    for path, incoming in changes:
        reducer = plan.reducer_for(path)
        root = path.parts[0]
        if len(path.parts) == 1 and reducer.name == "wf.std.replace":
            visible: Json = incoming  # the present value is not read, so a slice need not hold it
            fields[root] = visible
        else:
            before = value_at(state.field(root), path.parts[1:])
            visible = apply_reducer(
                reducer=reducer,
                current_value=None if isinstance(before, Missing) else before,
                incoming_value=incoming,
                destination_path=path,
                reducers=plan.reducers,
            )
            current = fields[root] if root in fields else state.field(root)
            fields[root] = with_value(current, path.parts[1:], visible, path)
        writes.append(StateWrite(path, incoming, visible, reducer))
    check_written(plan, [path for path, _ in changes], fields)
    return Patch(tuple(writes), fields, {str(write.path): write.incoming_value for write in writes})


def check_written(plan: Plan, targets: Sequence[StatePath], fields: Mapping[str, Json | Missing]) -> None:
    """Checks the declared fields that the writes may have broken; one that is missing afterwards breaks nothing."""
    for target in targets:
        for declared in plan.fields_to_check(target):
            value = value_at(fields[declared[0]], declared[1:])
            if not isinstance(value, Missing):
                plan.fields[declared].check.check(value, "state write state." + ".".join(declared))


def check_state_patch(plan: Plan, fields: Mapping[str, Json]) -> None:
    """New values of top-level state fields, given from outside, against the declared state.

    Raises :class:`WorkflowExecutionError` with ``state_patch_invalid``, the path below ``patch``.
    """
    declared = {parts[0] for parts in plan.fields}
    for name, value in fields.items():
        if name not in declared:
            raise WorkflowExecutionError(
                f"the workflow declares no state field {name!r}",
                code="state_patch_invalid",
                path=f"patch.{name}",
                hint=f"patch top-level fields that it declares: {', '.join(sorted(declared)) or 'there are none'}",
            )
        try:
            check_written(plan, [StatePath((name,))], {name: value})
        except WorkflowExecutionError as error:
            raise WorkflowExecutionError(
                error.message,
                code="state_patch_invalid",
                path=f"patch.{name}",
                hint="the workflow shows what the field takes as state_schema; nothing was made",
            ) from error
