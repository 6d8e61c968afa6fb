"""The same on servers that run already: RabbitMQ as the broker, a Redis as the store."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import pytest

from tests.support import jobs
from tests.support.waiting import eventually
from tests.system.conftest import ENVIRONMENT, JOBS
from wf_api.cli.stack import Stack
from wf_api.client import WorkflowClient

AMQP = os.environ.get("WF_TEST_AMQP_URL")
REDIS = os.environ.get("WF_TEST_REDIS_URL")


def run_squares(stack: Stack) -> None:
    flow = jobs.squares()
    with WorkflowClient(stack.url) as client:
        client.publish(flow)
        run = client.start("squares", {"numbers": list(range(300))})
        # A worker that dies in mid-run is the case in which a broker may give a message twice, or never again.
        eventually(lambda: client.inspect(run["run_id"])["steps_executed"] >= 50, "50 steps are done")
        stack.kill(next(part for part in stack.parts if part.name == "worker-1"))
        view = client.wait(run["run_id"], timeout=100)
    assert view["output"] == flow.execute({"numbers": list(range(300))}).output


@pytest.mark.skipif(AMQP is None, reason="WF_TEST_AMQP_URL names no RabbitMQ")
def test_runs_finish_with_rabbitmq_as_the_broker_although_a_worker_is_killed(tmp_path: Path) -> None:
    environment = {**ENVIRONMENT, "WF_BROKER_URL": str(AMQP), "WF_QUEUE": f"wf-test-{uuid.uuid4().hex[:12]}"}
    with Stack(tmp_path / "wf", [JOBS], workers=2, environment=environment) as stack:
        run_squares(stack)


@pytest.mark.skipif(REDIS is None, reason="WF_TEST_REDIS_URL names no Redis")
def test_runs_finish_on_a_redis_that_runs_already(tmp_path: Path) -> None:
    name = f"wf-test-{uuid.uuid4().hex[:12]}"
    environment = {
        **ENVIRONMENT,
        "WF_STORE_URL": str(REDIS),
        "WF_BROKER_URL": str(REDIS),
        "WF_PREFIX": name,
        "WF_QUEUE": name,
    }
    with Stack(tmp_path / "wf", [JOBS], workers=2, environment=environment) as stack:
        run_squares(stack)
