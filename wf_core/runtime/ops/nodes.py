"""The node step: resolve its input, hand it to a handler, turn the answer into writes and a route."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from wf_core.errors import WorkflowExecutionError
from wf_core.expressions import copy_json, resolve_bindings
from wf_core.models.results import NodeResult
from wf_core.models.steps import NodeUse
from wf_core.plan import NodeContract, Plan
from wf_core.run_state import ExecutionFrame, ForeachContext, Json, RuntimeContext
from wf_core.runtime.draft import Draft, trace_entry
from wf_core.runtime.flow import destination, move
from wf_core.runtime.patches import build_patch
from wf_core.runtime.transition import StepNumber


@dataclass(frozen=True, slots=True)
class NodeCall:
    """A handler call that is ready to be made.

    ``payload`` is the checked input as the trace shows it; give the handler :meth:`handler_payload`. ``context``
    holds copies, so a handler cannot rewrite the run.
    """

    frame_id: str
    node_id: str
    handler: str
    payload: dict[str, Json]
    context: RuntimeContext

    def handler_payload(self) -> dict[str, Json]:
        """A copy of the payload that is the handler's own."""
        copied: dict[str, Json] = copy_json(self.payload)
        return copied


def prepare(draft: Draft, frame: ExecutionFrame, step: NodeUse, platform: object) -> NodeCall:
    """Resolves and checks the input and derives the handler's context. Writes nothing."""
    plan = draft.plan(frame)
    contract = node_contract(plan, step)
    context = draft.context(frame)
    payload = resolve_bindings(step.input, draft.sources(frame), label=f"node {step.id!r}")
    contract.input.check(payload, f"node input for {step.id}")
    return NodeCall(
        frame_id=frame.id,
        node_id=step.id,
        handler=step.node,
        payload=payload,
        context=RuntimeContext(
            current_node_id=step.id,
            frame_id=frame.id,
            scope_id=frame.scope_id,
            lineage_id=frame.lineage_id,
            parent_lineage_id=frame.parent_lineage_id,
            prior_outcome=frame.prior_outcome,
            activated_incoming_edge=frame.activated_incoming_edge,
            metadata=copy_json(frame.metadata),
            platform=platform,
            foreach=OwnCopies(context.foreach),
        ),
    )


class OwnCopies(Mapping[str, ForeachContext]):
    """The active loops for one handler: an entry is copied when it is asked for, since items may be large and most
    handlers take what they need through their input."""

    __slots__ = ("_copied", "_entries")

    def __init__(self, entries: Mapping[str, ForeachContext]) -> None:
        self._entries = entries
        self._copied: dict[str, ForeachContext] = {}

    def __getitem__(self, node_id: str) -> ForeachContext:
        if node_id not in self._copied:
            entry = self._entries[node_id]
            self._copied[node_id] = replace(entry, item=copy_json(entry.item))
        return self._copied[node_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return repr(dict(self))


def finish(
    draft: Draft, frame: ExecutionFrame, step: NodeUse, call: NodeCall, raw: Any, number: StepNumber
) -> str | None:
    """Takes a handler's answer: outcome, output, writes, route. Everything is checked before anything is written."""
    plan = draft.plan(frame)
    contract = node_contract(plan, step)
    result = coerce_node_result(raw)
    if result.outcome not in contract.definition.outcomes:
        raise WorkflowExecutionError(
            f"step {step.id!r} returned the undeclared outcome {result.outcome!r}",
            code="outcome_undeclared",
            path=f"nodes[{step.id}]",
            hint=f"return one of: {', '.join(contract.definition.outcomes)}; or declare it in the node definition",
        )
    contract.output.check(result.output, f"node output for {step.id}")
    patch = build_patch(plan, step.output, result.output, draft.state(frame), label=f"node output for {step.id!r}")
    to = destination(draft, plan, frame, result.outcome)
    changes = draft.write(frame, patch)
    draft.trace(
        number,
        trace_entry(
            frame,
            "node",
            resolved_input=call.payload,
            outcome=result.outcome,
            next_node_id=to.node_id,
            output=result.output,
            changes=changes,
        ),
    )
    return move(draft, frame, to, result.outcome)


def node_contract(plan: Plan, step: NodeUse) -> NodeContract:
    """The compiled definition behind a node step."""
    contract = plan.contracts.get(step.node)
    if contract is None:
        raise WorkflowExecutionError(
            f"step {step.id!r} uses the node definition {step.node!r}, which the workflow does not have",
            code="unknown_node_def",
            path=f"nodes[{step.id}].node",
        )
    return contract


def coerce_node_result(raw: Any) -> NodeResult:
    """A handler's answer as a result.

    A ``NodeResult`` stays as it is. A dict with both ``outcome`` and ``output`` is an envelope, any other dict is the
    output of outcome ``ok``. Everything else is refused.
    """
    if isinstance(raw, NodeResult):
        return raw
    if isinstance(raw, Mapping):
        table: dict[str, Any] = dict(raw)  # pyright: ignore[reportUnknownArgumentType]
        if "outcome" in table and "output" in table:
            try:
                return NodeResult.model_validate(table)
            except ValidationError as error:
                faults = "; ".join(f"{'.'.join(map(str, f['loc']))}: {f['msg']}" for f in error.errors())
                raise WorkflowExecutionError(
                    f"a handler returned a malformed envelope: {faults}",
                    code="result_not_supported",
                    hint="outcome is a text and output an object; to return both as data, name the outcome too",
                ) from error
        # Not validated here: whether it is JSON is asked of the whole answer, by name and place, where it is kept.
        return NodeResult.model_construct(outcome="ok", output=table, meta={})
    raise WorkflowExecutionError(
        f"a handler returned {type(raw).__name__}",
        code="result_not_supported",
        hint="return a dict, a NodeResult, or {'outcome': ..., 'output': ...}",
    )
