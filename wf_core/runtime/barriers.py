"""The barrier of a concurrent foreach: many items' buffered writes become one patch, in item order."""

from __future__ import annotations

from collections.abc import Sequence

from wf_core.errors import WorkflowExecutionError
from wf_core.models.reducers import SiblingWritePolicy
from wf_core.paths import StatePath
from wf_core.plan import Plan
from wf_core.reducers import GROWING, Growing, apply_reducer, reducer_definition, reducer_faults
from wf_core.run_state import Json, StateWrite
from wf_core.runtime.patches import Patch, check_written
from wf_core.runtime.slice import Missing
from wf_core.runtime.state_view import StateView, value_at, with_value
from wf_core.runtime.transition import ItemResult


def replay(
    plan: Plan, results: Sequence[ItemResult], state: StateView, *, collect: tuple[StatePath, list[Json]] | None = None
) -> Patch:
    """Replays every item's *incoming* values in item order, each reducer seeing the result before it.

    Replaying what the steps contributed, not what each item saw, is what makes ``add`` and ``append`` count once. The
    records stay replayable: an enclosing barrier takes them again. Each record's visible value is the final one of
    its path, which is what a reader sees of them. ``collect`` is one more write, of the ordered error list.
    """
    _refuse_conflicts(plan, results)
    incoming = [(write.path, write.incoming_value) for result in results for write in result.writes]
    if collect is not None:
        incoming.append(collect)
    final: dict[StatePath, Json] = {}
    fields: dict[str, Json | Missing] = {}
    growing: dict[StatePath, Growing] = {}
    for path, value in incoming:
        root = path.parts[0]
        current = fields[root] if root in fields else state.field(root)
        before = value_at(current, path.parts[1:])
        present = None if isinstance(before, Missing) else before
        reducer = plan.reducer_for(path)
        grown = growing.get(path)
        if grown is not None and grown.value is before:
            # This replay made the value and nobody else holds it: growing it in place keeps a barrier of n items at n
            # steps, where a copy for each would make it n squared.
            with reducer_faults(reducer, path):
                grown.take(value)
            continue
        visible = apply_reducer(
            reducer=reducer,
            current_value=present,
            incoming_value=value,
            destination_path=path,
            reducers=plan.reducers,
        )
        grower = GROWING.get(reducer_definition(plan.reducers, reducer).fn)
        if grower is not None:
            grown = growing[path] = grower(visible)
            visible = grown.value
        final[path] = visible
        fields[root] = with_value(current, path.parts[1:], visible, path)
    check_written(plan, list(final), fields)
    writes = tuple(StateWrite(path, value, final[path], plan.reducer_for(path)) for path, value in incoming)
    return Patch(writes, fields, {str(path): value_at(fields[path.parts[0]], path.parts[1:]) for path in final})


def _refuse_conflicts(plan: Plan, results: Sequence[ItemResult]) -> None:
    """Two items may write one path only through a reducer declared exactly there that merges siblings, and never a
    path and one above or below it. The writes of one item never conflict with each other."""
    owners: dict[StatePath, set[int]] = {}
    for result in results:
        for write in result.writes:
            owners.setdefault(write.path, set()).add(result.index)
    by_parts = {path.parts: path for path in owners}
    for path, indexes in owners.items():
        if len(indexes) > 1:
            rule = plan.fields.get(path.parts)
            policy = (
                SiblingWritePolicy.EXCLUSIVE
                if rule is None
                else reducer_definition(plan.reducers, rule.reducer).spec.sibling_write_policy
            )
            if policy is not SiblingWritePolicy.MERGEABLE:
                raise WorkflowExecutionError(
                    f"overlapping sibling writes to {path} by items {_some(indexes)}: it needs a mergeable reducer",
                    code="sibling_write_conflict",
                    path=str(path),
                    hint=f"declare a mergeable reducer, such as wf.std.append, at exactly {path}",
                )
        for n in range(1, len(path.parts)):
            above = by_parts.get(path.parts[:n])
            if above is not None and len(owners[above] | indexes) > 1:
                raise WorkflowExecutionError(
                    f"overlapping sibling writes to {above} and {path} by items {_some(owners[above] | indexes)}",
                    code="sibling_write_conflict",
                    path=str(path),
                )


def _some(indexes: set[int]) -> str:
    shown = sorted(indexes)[:5]
    return ", ".join(map(str, shown)) + (", ..." if len(indexes) > len(shown) else "")
