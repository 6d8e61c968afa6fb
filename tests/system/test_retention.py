"""What ended long enough ago is removed by the workers themselves."""

from __future__ import annotations

from pathlib import Path

import redis

from tests.support import jobs
from tests.support.waiting import eventually
from tests.system.conftest import ENVIRONMENT, JOBS
from wf_api.cli.stack import Stack
from wf_api.client import WorkflowClient


def test_after_its_retention_no_key_of_a_run_is_left(tmp_path: Path) -> None:
    environment = {**ENVIRONMENT, "WF_RETENTION_SECONDS": "3"}
    with (
        Stack(tmp_path / "wf", [JOBS], workers=1, environment=environment) as stack,
        WorkflowClient(stack.url) as client,
        redis.Redis.from_url(stack.store_url) as store,
    ):
        client.publish(jobs.squares())
        run_id = client.start("squares", {"numbers": list(range(50))}, run_id="short-lived")["run_id"]
        assert client.wait(run_id, timeout=60)["status"] == "completed"

        def left() -> list[bytes]:
            return [key for key in store.scan_iter() if b":r:" in key]

        eventually(lambda: left() == [], "nothing of the run is left")
        assert client.list()["total"] == 0
        assert client.start("squares", {"numbers": [3]}, run_id="short-lived", wait_seconds=30)["output"]["total"] == 9
