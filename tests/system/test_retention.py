"""What ended long enough ago is removed by the workers themselves."""

from __future__ import annotations

from pathlib import Path

from tests.support import jobs
from tests.support.installations import Servers
from tests.support.waiting import eventually
from tests.system.conftest import installed
from wf_api.client import WorkflowClient


def test_after_its_retention_no_key_of_a_run_is_left(
    tmp_path: Path, servers: Servers, environment: dict[str, str]
) -> None:
    shortly = {**environment, "WF_RETENTION_SECONDS": "3"}
    with installed(tmp_path, servers, shortly, workers=1) as stack, WorkflowClient(stack.url) as client:
        client.publish(jobs.squares())
        run_id = client.start("squares", {"numbers": list(range(50))}, run_id="short-lived")["run_id"]
        assert client.wait(run_id, timeout=60)["status"] == "completed"

        eventually(lambda: servers.keys(stack, ":r:") == [], "nothing of the run is left")
        assert client.list()["total"] == 0
        assert client.start("squares", {"numbers": [3]}, run_id="short-lived", wait_seconds=30)["output"]["total"] == 9
