"""A parent was cancelled, its sub-workflow ran on, and when that ended it wrote "success" over "cancelled".

The child had a token of its own, and the last write did not look at the status (n8n-io/n8n#25832,
tinyhumansai/opencompany#675). Here cancelling is one write that every later commit is checked against: nothing begins
any more, what still runs is told, and its result is refused and traced as discarded.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.cases.flows import END, NOTE, echo, flow, found, notes, noting, step
from tests.support.inline_worker import InlineWorker
from tests.support.stores import StoreCase
from tests.support.waiting import eventually
from wf_api.client import WorkflowClient
from wf_core.models import Workflow
from wf_worker.store.protocol import Refused

CHILD = flow("sleeper", [noting("sleep", "sleep", True)], [("sleep", "ok", END)], takes={"file": {}}, defs=[NOTE])
PARENT = flow(
    "sleeps_below",
    [
        {
            "id": "call",
            "type": "subgraph",
            "workflow": {"name": "sleeper"},
            "input_schema": CHILD["input_schema"],
            "input": [{"target": "file", "path": "input.file"}],
        },
        noting("b", "b"),
    ],
    [("call", "ok", "b"), ("b", "ok", END)],
    takes={"file": {}},
    defs=[NOTE],
)


def test_a_child_of_a_cancelled_run_is_told_and_its_late_result_discarded(
    remote: WorkflowClient, tmp_path: Path
) -> None:
    file = tmp_path / "notes"
    remote.publish(CHILD)
    remote.publish(PARENT)
    run_id = remote.start("sleeps_below", {"file": str(file)})["run_id"]
    eventually(lambda: len(notes(file)) == 1, "the child's step is in its handler")

    assert remote.cancel(run_id)["changed"]
    eventually(Path(f"{file}.told").exists, "the handler has been told")
    Path(f"{file}.release").touch()
    eventually(lambda: remote.inspect(run_id)["trace_count"] > 0, "the late result is told of")

    view = remote.inspect(run_id)
    assert (view["status"], view["outcome"], view["output"]) == ("cancelled", None, None)
    discarded = [entry for entry in remote.trace(run_id)["trace"] if entry["discarded"]]
    assert [(e["node_id"], e["outcome"], e["discarded"], e["output"]) for e in discarded] == [
        ("sleep", "discarded", "cancelled", {"value": "sleep"})
    ]
    assert discarded[0]["worker"].endswith(f":{notes(file)[0][2]}")
    assert [(word, attempt) for word, attempt, _ in notes(file)] == [("sleep", 1)]


LINE = flow(
    "line",
    [
        step("one", "echo", "input.value", "state.v"),
        step("two", "echo", "state.v", "state.v"),
        step("three", "echo", "state.v", "state.v"),
    ],
    [("one", "ok", "two"), ("two", "ok", "three"), ("three", "ok", END)],
    takes={"value": {}},
    state={"v": {}},
    gives={"v": {}},
)


def test_whenever_a_run_is_cancelled_it_stays_so_and_nothing_begins_any_more(case: StoreCase) -> None:
    """Before each call of the run in turn."""
    digest = case.store.publish(Workflow.model_validate(LINE)).digest
    ends: list[tuple[str, int, int]] = []
    for moment in range(1, 9):
        ends.append(cancelled_before(case, digest, moment))

    # Claim and commit by turns: cancelled before a claim nothing is discarded, before a commit its result is.
    assert ends == [
        *(("cancelled", 0, 0), ("cancelled", 1, 1), ("cancelled", 1, 0), ("cancelled", 2, 1), ("cancelled", 2, 0)),
        *(("cancelled", 3, 1), ("completed", 3, 0), ("completed", 3, 0)),
    ]


def cancelled_before(case: StoreCase, digest: str, moment: int) -> tuple[str, int, int]:
    """How a run ends that is cancelled before so many calls: status, handlers called, results discarded."""
    called: list[str] = []

    def handler(payload: dict[str, Any], context: Any) -> Any:
        assert "cancel" not in called, "a handler begins after the cancel"
        called.append("handler")
        return echo(payload, context)

    worker = InlineWorker(case.store, {"echo": handler})
    created = case.store.create(case.store.new_run(f"run {moment}", digest, {"value": 1}, max_steps=100))
    left = [moment]

    def cancel() -> None:
        left[0] -= 1
        if left[0] == 0 and case.store.cancel(created.incarnation) == "cancelled":
            called.append("cancel")

    case.records.before = cancel
    worker.publish(created.ready)
    worker.drain()
    case.records.before = lambda: None

    record = found(case.store, created.incarnation)
    # Whoever comes now is refused as well.
    refusal = case.store.claim(created.ready[0], owner="late")
    assert getattr(refusal, "reason", None) in (Refused.OVER, Refused.STALE)
    trace = case.store.trace(created.incarnation, 0, 100)
    discarded = [entry.discarded for entry in trace if entry.discarded]
    assert set(discarded) <= {"cancelled"}
    assert record.outcome is None if record.status == "cancelled" else record.output == {"v": 1}
    return record.status, len(called) - called.count("cancel"), len(discarded)
