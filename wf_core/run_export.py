"""A run that was exported from workers, as a run in memory: to be looked at, or to go on with :func:`resume_workflow`.

An export is JSON Lines, one record a line, each with its ``kind``:

===========  =============================================================================================
header       first: ``format``, and the ``run`` as the API shows it, with its input
workflow     a document that the run executes or may enter; ``ref`` null for the run's own
frame        a live frame: where it stands (``place``, ``purpose``), whose child it is, its ``metadata``
timer        when a waiting frame is due, by the frame's ``key``
lineage      the pending ``writes`` of a concurrent item
scope        a workflow's invocation: ``workflow``, ``ref`` (null for the root), ``input``
state        one committed top-level field of a scope
activation   an open visit of a concurrent loop, and its window
result       what a finished item gave: its ``writes``, or its ``error``
interrupt    an open question
trace        a finished step
damage       a record that could not be read
end          last: how many ``lines`` there are, this one included. Without it the export is not whole
===========  =============================================================================================

What the engine in memory does otherwise: of several open questions it asks the oldest, the others are asked again when
their turn comes; a step that waits for its next attempt is tried at once, and so is one that was out of time; a
cancelled run is a failed one. Finished frames are not part of an export, their results and traces are.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Final, cast

from wf_core.errors import WfError
from wf_core.models.reducers import ReducerRef
from wf_core.models.workflow_refs import WorkflowRef
from wf_core.paths import StatePath
from wf_core.run_limits import RunLimits
from wf_core.run_state import (
    ROOT_FRAME_ID,
    ROOT_LINEAGE_ID,
    ROOT_SCOPE_ID,
    WORKFLOW_FRAME,
    ExecutionFrame,
    FrameStatus,
    InterruptRequest,
    InterruptRoute,
    Json,
    LineageState,
    RunState,
    RunStatus,
    RuntimeScope,
    StateWrite,
    TraceEntry,
)
from wf_core.runtime.ops.foreach import loop_entry
from wf_core.runtime.scheduler import new_barrier, with_visit
from wf_core.tokens import END

FORMAT: Final = 1
"""The number of this format. It changes whenever the meaning of a record does."""

Record = Mapping[str, Any]

_STATUS: Final = {
    "completed": RunStatus.COMPLETED,
    "failed": RunStatus.FAILED,
    "cancelled": RunStatus.FAILED,
}


class ExportInvalid(WfError, ValueError):
    """A file is no export, or not a whole one; ``path`` names the line."""

    default_code: ClassVar[str] = "export_invalid"


def read_export(lines: Iterable[str | bytes]) -> Iterator[dict[str, Json]]:
    """The records of an export one by one, the header first.

    Raises :class:`ExportInvalid` for what is no export of a known format, and with ``export_incomplete`` at the end of
    one that breaks off.
    """
    count, last = 0, ""
    for line in lines:
        if not line.strip():
            continue
        count += 1
        record = _record(line, count)
        if count == 1 and (record["kind"] != "header" or record.get("format") != FORMAT):
            break
        last = record["kind"] if record["kind"] != "end" or record.get("lines") == count else "wrong"
        yield record
    if count == 0 or not last:
        raise ExportInvalid(
            f"this is no export of format {FORMAT}", path="lines[1]", hint="write one with: wf run export RUN -o FILE"
        )
    if last != "end":
        raise ExportInvalid(
            "the export breaks off", code="export_incomplete", path=f"lines[{count}]", hint="export the run again"
        )


def _record(line: str | bytes, number: int) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise ExportInvalid(f"line {number} is no JSON: {error}", path=f"lines[{number}]") from error
    if not isinstance(record, dict) or not isinstance(cast("Record", record).get("kind"), str):
        raise ExportInvalid(f"line {number} is no record of an export", path=f"lines[{number}]")
    return cast("dict[str, Any]", record)


def exported_view(lines: Iterable[str | bytes]) -> dict[str, Json]:
    """The run of an export as the API showed it. The export is read to its end, and nothing else of it is kept.

    Raises as :func:`read_export`.
    """
    records = read_export(lines)
    view = next(records).get("run")
    for _ in records:
        pass
    if not isinstance(view, dict):
        raise ExportInvalid("the header holds no run", path="lines[1].run")
    return cast("dict[str, Json]", view)


def load_exported_run(lines: Iterable[str | bytes]) -> RunState:
    """The run of an export. It shares nothing with anybody, and :mod:`wf_core.run_codec` can store it.

    Raises as :func:`read_export`, and :class:`ExportInvalid` where a record does not have the fields of its kind.
    """
    kinds: dict[str, list[Record]] = defaultdict(list)
    for record in read_export(lines):
        kinds[str(record["kind"])].append(record)
    damaged = kinds["damage"]
    if damaged:
        raise ExportInvalid(f"the run was damaged when it was exported: {damaged[0]['message']}", path="damage")
    try:
        return _Reader(kinds).run()
    except (KeyError, TypeError, IndexError, ValueError) as error:
        if isinstance(error, WfError):
            raise
        raise ExportInvalid(f"a record of the export is malformed: {error!r}", path="records") from error


class _Reader:
    """Puts the records of one export together."""

    def __init__(self, kinds: Mapping[str, list[Record]]) -> None:
        self.kinds = kinds
        self.view: Record = kinds["header"][0]["run"]
        self.frames = {line["id"]: _frame(line) for line in kinds["frame"]}
        self.lines = {line["id"]: line for line in kinds["frame"]}
        self.due = {line["key"]: line["due_ms"] for line in kinds["timer"]}
        # A result that came too late is no part of the history.
        self.trace = [_traced(line) for line in kinds["trace"] if line["discarded"] is None]
        self.asked = [_interrupt(line) for line in kinds["interrupt"]]
        self.ready: list[str] = []
        # A question that is asked again is traced again.
        again = {(_waiting(request), request.step_number) for request in self.asked[1:]}
        self.trace = [entry for entry in self.trace if (entry.frame_id, entry.step_number) not in again]

    def run(self) -> RunState:
        scopes = {line["id"]: _scope(line) for line in self.kinds["scope"]}
        for line in self.kinds["state"]:
            scopes[line["scope"]].committed_state[line["field"]] = line["value"]
        lineages = self._lineages()
        self._visits(lineages)
        self._stand()
        # In memory one open question is enough for the whole run to wait.
        status = _STATUS.get(self.view["status"], RunStatus.INTERRUPTED if self.asked else RunStatus.RUNNING)
        error, view = self.view["error"], self.view
        run = RunState(
            workflow_name=view["workflow"],
            status=status,
            workflow_input=view["input"],
            state=scopes[ROOT_SCOPE_ID].committed_state,
            outcome=view["outcome"],
            output=view["output"] if status is RunStatus.COMPLETED else {},
            trace=self.trace,
            frames=self.frames,
            scopes=scopes,
            lineages=lineages,
            ready_frame_ids=self.ready if status is RunStatus.RUNNING or status is RunStatus.INTERRUPTED else [],
            error=None if error is None else error["message"],
            interrupt=self.asked[0] if self.asked and status is RunStatus.INTERRUPTED else None,
            limits=RunLimits(max_steps=view["limits"]["max_steps"]),
            steps_executed=view["steps_executed"],
        )
        run.current_frame_id = _waiting(run.interrupt) if run.interrupt is not None else self._root().id
        run.sync_from_current_frame()
        if status is RunStatus.COMPLETED:
            run.current_node_id = END
        return run

    def _root(self) -> ExecutionFrame:
        """The root frame; that of a completed run has ended, and stands for itself."""
        root = self.frames.get(ROOT_FRAME_ID)
        if root is None:
            root = ExecutionFrame(ROOT_FRAME_ID, WORKFLOW_FRAME, self._last_step(), FrameStatus.COMPLETED)
            root.metadata["workflow_outcome"] = self.view["outcome"]
            self.frames[ROOT_FRAME_ID] = root
        return root

    def _last_step(self) -> str:
        """Where the root frame was last, as far as the trace tells."""
        for entry in reversed(self.trace):
            if entry.frame_id == ROOT_FRAME_ID:
                return entry.node_id
        own = next(line["document"] for line in self.kinds["workflow"] if line["ref"] is None)
        return str(own["start"])

    # ---- lineages and visits

    def _lineages(self) -> dict[str, LineageState]:
        found = {ROOT_LINEAGE_ID: LineageState(ROOT_LINEAGE_ID, ROOT_SCOPE_ID)}
        for frame in self.frames.values():
            found.setdefault(frame.lineage_id, LineageState(frame.lineage_id, frame.scope_id, frame.parent_lineage_id))
        for scope in self.kinds["scope"]:
            if scope["ref"] is not None:
                lineage = f"{scope['id']}:root"
                found.setdefault(lineage, LineageState(lineage, scope["id"]))
        for line in self.kinds["lineage"]:
            found[line["id"]].writes = [_write(write) for write in line["writes"]]
        return found

    def _visits(self, lineages: dict[str, LineageState]) -> None:
        """The barrier of each open concurrent visit, which the engine in memory keeps with the controller."""
        results: dict[str, list[Record]] = defaultdict(list)
        for line in self.kinds["result"]:
            results[line["activation"]].append(line)
        for visit in self.kinds["activation"]:
            controller = self.frames[visit["frame_id"]]
            live = [
                frame.id
                for frame in sorted(self.frames.values(), key=lambda f: f.metadata.get("loop_index", 0))
                if frame.metadata.get("activation_id") == visit["id"]
            ]
            barrier = new_barrier("concurrent")
            barrier["next_index"] = visit["admitted"]
            barrier["active_frame_ids"] = list(live)
            barrier["outstanding_frame_ids"] = list(live)
            for result in sorted(results[visit["id"]], key=lambda line: line["index"]):
                barrier["pending_results"][str(result["index"])] = _result(visit, result, lineages)
            active = {"id": visit["id"], "barrier": barrier}
            sequence = controller.metadata["foreach_activations"][visit["node_id"]]["next_sequence"]
            put = with_visit(controller, visit["node_id"], next_sequence=sequence, active=active)
            self.frames[controller.id] = put
            for frame_id in live:
                if not self.lines[frame_id]["announced"]:
                    self.trace.append(_admitted(put, visit, self.frames[frame_id]))

    # ---- where frames stand

    def _stand(self) -> None:
        children: dict[str, list[str]] = defaultdict(list)
        for frame in self.frames.values():
            if frame.parent_frame_id is not None:
                children[frame.parent_frame_id].append(frame.id)
        oldest = _waiting(self.asked[0]) if self.asked else None
        for frame_id, frame in self.frames.items():
            line = self.lines[frame_id]
            frame.metadata.pop("blocked_on", None)
            match line["place"]:
                case "failed":
                    frame.status = FrameStatus.FAILED
                case "open" if frame_id == oldest:
                    frame.status = FrameStatus.INTERRUPTED
                case "blocked":
                    self._block(frame, children[frame_id])
                case _ if line["purpose"] == "elapsed":
                    frame.status = FrameStatus.BLOCKED
                    frame.metadata["blocked_on"] = {"type": "time", "due_ms": self.due.get(line["key"], 0)}
                case _:
                    self.ready.append(frame_id)

    def _block(self, frame: ExecutionFrame, children: list[str]) -> None:
        frame.status = FrameStatus.BLOCKED
        frame.metadata["blocked_on"] = {"type": "child_frames", "frame_ids": children}


# ---- single records


def _frame(line: Record) -> ExecutionFrame:
    return ExecutionFrame(
        id=line["id"],
        kind=line["frame_kind"],
        node_id=line["node_id"],
        parent_frame_id=line["parent_frame_id"],
        scope_id=line["scope_id"],
        lineage_id=line["lineage_id"],
        parent_lineage_id=line["parent_lineage_id"],
        prior_outcome=line["prior_outcome"],
        activated_incoming_edge=line["activated_incoming_edge"],
        metadata=dict(line["metadata"]),
        step_number=line["step_number"],
    )


def _scope(line: Record) -> RuntimeScope:
    ref = line["ref"]
    known = None if ref is None else WorkflowRef.model_validate(ref)
    return RuntimeScope(line["id"], line["workflow"], line["input"] or {}, {}, known)


def _write(record: Record) -> StateWrite:
    reducer = ReducerRef.model_validate(record["reducer"])
    return StateWrite(StatePath(tuple(record["path"])), record["incoming_value"], record.get("visible_value"), reducer)


def _result(visit: Record, result: Record, lineages: dict[str, LineageState]) -> dict[str, Json]:
    """One pending result as a barrier keeps it; the writes of a success lie in the lineage of its item."""
    index, error = result["index"], result["error"]
    lineage = f"{visit['id']}[{index}]"
    if error is None:
        writes = [_write(write) for write in result["writes"]]
        lineages[lineage] = LineageState(lineage, visit["scope_id"], visit["lineage_id"], writes)
    return {
        "index": index,
        "frame_id": f"{visit['id']}:{index}",
        "status": "succeeded" if error is None else "failed",
        "lineage_id": lineage,
        "error": error,
    }


def _admitted(controller: ExecutionFrame, visit: Record, item: ExecutionFrame) -> TraceEntry:
    """The trace entry of an admission that workers write with the item's first step."""
    metadata = item.metadata
    entry: TraceEntry = loop_entry(
        controller, visit["node_id"], metadata["loop_item"], metadata["loop_index"], visit["body_node_id"]
    )
    entry.step_number = visit["step_number"]
    return entry


def _traced(line: Record) -> TraceEntry:
    return TraceEntry(
        frame_id=line["frame_id"],
        node_id=line["node_id"],
        step_type=line["step_type"],
        resolved_input=line["resolved_input"],
        outcome=line["outcome"],
        next_node_id=line["next_node_id"],
        output=line["output"],
        state_changes={change["path"]: change["value"] for change in line["state_changes"]},
        step_number=line["step_number"],
    )


def _interrupt(line: Record) -> InterruptRequest:
    request = dict(line["request"])
    if request["route"] is not None:
        route = dict(request["route"])
        ref = route.pop("workflow_ref")
        known = None if ref is None else WorkflowRef.model_validate(ref)
        request["route"] = InterruptRoute(**route, workflow_ref=known)
    return InterruptRequest(**request, step_number=line["step_number"])


def _waiting(request: InterruptRequest) -> str:
    """The frame that really waits for the answer."""
    return request.frame_id if request.route is None else request.route.frame_id
