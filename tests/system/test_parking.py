"""A step that no worker serves waits for one that does."""

from __future__ import annotations

from pathlib import Path

from tests.support import jobs
from tests.support.waiting import eventually
from tests.system.conftest import ENVIRONMENT, JOBS
from wf_api.cli.stack import Stack
from wf_api.client import WorkflowClient

OTHER = """
from pydantic import BaseModel
from wf_core.authoring import node


class Nothing(BaseModel):
    pass


@node
def unrelated(payload: Nothing) -> Nothing:
    return Nothing()
"""


def test_a_run_says_what_nobody_serves_and_goes_on_as_soon_as_somebody_does(tmp_path: Path) -> None:
    module = tmp_path / "other.py"
    module.write_text(OTHER)
    with (
        Stack(tmp_path / "wf", [str(module)], workers=1, environment=ENVIRONMENT) as stack,
        WorkflowClient(stack.url) as client,
    ):
        client.publish(jobs.squares())
        run_id = client.start("squares", {"numbers": [1, 2, 3]})["run_id"]
        eventually(lambda: client.inspect(run_id)["parked"] == {"square": 3}, "every item is parked")
        assert client.inspect(run_id)["status"] == "running"

        stack.modules = [JOBS]
        stack.start_worker()
        view = client.wait(run_id, timeout=60)

        assert (view["status"], view["parked"]) == ("completed", {})
        assert view["output"] == {"lines": ["1", "2", "3"], "total": 14}
