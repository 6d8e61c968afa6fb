"""Handlers that fail, or take too long, are tried again, on whichever worker is free."""

from __future__ import annotations

from pathlib import Path

from tests.support import jobs
from tests.support.waiting import eventually
from wf_api.cli.stack import Stack
from wf_api.client import WorkflowClient


def attempts(folder: Path, n: int) -> list[tuple[int, str]]:
    """Attempt and idempotency key of every call for a number."""
    lines = (folder / f"attempts-{n}").read_text().splitlines()
    return [(int(attempt), key) for _, attempt, key in (line.split(" ") for line in lines)]


def test_steps_are_tried_again_until_they_succeed_or_their_policy_ends(
    stack: Stack, client: WorkflowClient, tmp_path: Path
) -> None:
    client.publish(jobs.stumbling())

    run_id = client.start("stumbling", {"folder": str(tmp_path), "numbers": [1, 2, 4, 9, 13]})["run_id"]
    view = client.wait(run_id, timeout=60)

    assert (view["status"], view["error"]) == ("completed", None)
    assert (view["output"]["lines"], view["output"]["total"]) == (["1", "2", "4"], 3)
    assert [(record["index"], record["error_type"]) for record in view["output"]["errors"]] == [
        (3, "ConnectionError"),
        (4, "NonRetryable"),
    ]
    assert [[attempt for attempt, _ in attempts(tmp_path, n)] for n in (1, 2, 4, 9, 13)] == [
        [1],
        [1, 2, 3],
        [1, 2, 3],
        [1, 2, 3, 4],
        [1],
    ]
    assert all(len({key for _, key in attempts(tmp_path, n)}) == 1 for n in (2, 4, 9))
    # Each visit counts once, however often it was tried: the loop, five items, the loop's end.
    assert view["steps_executed"] == 7


def test_a_handler_that_takes_too_long_is_shut_out_told_to_stop_and_tried_again(
    stack: Stack, client: WorkflowClient, tmp_path: Path
) -> None:
    client.publish(jobs.dawdling())

    run_id = client.start("dawdling", {"folder": str(tmp_path), "n": 1})["run_id"]
    view = client.wait(run_id, timeout=60)

    assert (view["status"], view["error"]) == ("completed", None)
    assert view["output"] == {"line": "attempt 2 after {'count': 3}"}
    eventually((tmp_path / "stopped").exists, "the first attempt has been told")
    assert float((tmp_path / "stopped").read_text()) > 0
    assert view["steps_executed"] == 1
    eventually(lambda: client.inspect(run_id)["trace_count"] == 2, "the first attempt's result is told of")
    counted, discarded = sorted(client.trace(run_id)["trace"], key=lambda entry: entry["discarded"] or "")
    assert (counted["output"], counted["discarded"]) == (view["output"], None)
    assert (discarded["output"], discarded["discarded"]) == ({"line": "too late"}, "attempt_timeout")
