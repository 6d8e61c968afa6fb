"""What each level of durability promises, shown on servers that are killed and on files that lose their end."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pytest import MonkeyPatch

from tests.support import jobs
from tests.support.valkey import EmbeddedValkey
from tests.support.waiting import eventually
from wf_api.services.runs import RunService, StartRequest
from wf_core.errors import WfError
from wf_worker.durability import Durability
from wf_worker.errors import SettingsInvalid, StoreUnavailable
from wf_worker.handlers import build_handlers
from wf_worker.leases import LeaseKeeper
from wf_worker.settings import Settings
from wf_worker.step_runner import StepEnd, StepRunner
from wf_worker.store import redis as redis_records
from wf_worker.store.opening import open_store, verify_server
from wf_worker.store.protocol import Ready
from wf_worker.sweeper import Receipts, Sweeper


class Messages:
    """A broker that forgets nothing: whatever was sent once may be delivered at any time."""

    def __init__(self) -> None:
        self.sent: list[Ready] = []

    def publish(self, ready: Any) -> None:
        self.sent.extend(ready)

    def queue_of(self, queue: str | None, priority: str) -> str:
        return priority

    def queue_is_empty(self, name: str) -> bool:
        return True


class Installation:
    """One store, the service and a worker over it, in this process."""

    def __init__(self, settings: Settings) -> None:
        self.store = open_store(settings)
        self.messages = Messages()
        messages: Any = self.messages
        self.runs = RunService(self.store, messages.publish, settings)
        handlers = build_handlers(jobs.NODES)
        self.worker = StepRunner(self.store, handlers, messages, LeaseKeeper(self.store), "worker")
        self.sweeper = Sweeper(self.store, messages, Receipts())

    def start(self, key: str) -> str:
        request = StartRequest("squares", workflow_input={"numbers": [1, 2, 3]}, idempotency_key=key)
        return self.runs.start_run(request).run["run_id"]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Callable[..., EmbeddedValkey]]:
    """Starts servers, each with files of its own."""
    started: list[EmbeddedValkey] = []

    def start(**options: Any) -> EmbeddedValkey:
        folder = tmp_path / f"server{len(started)}"
        folder.mkdir()
        valkey = EmbeddedValkey(folder, **options)
        started.append(valkey)
        valkey.start()
        return valkey

    yield start
    for valkey in started:
        valkey.kill()


def test_with_always_a_killed_server_has_kept_whatever_was_acknowledged(server: Callable[..., EmbeddedValkey]) -> None:
    valkey = server(append_only=True)
    settings = Settings(store_url=valkey.url, durability="always")
    verify_server(settings)
    installation = Installation(settings)
    installation.store.publish(jobs.squares().compile())
    acknowledged: dict[str, int] = {}
    stop, rng = threading.Event(), random.Random(1)

    def work() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            try:
                sent = len(installation.messages.sent)
                run_id = installation.start(f"key{number}")
                acknowledged[run_id] = 0
                # Its message, unless the answer of its creation got lost: then a sweeper would send it.
                for message in installation.messages.sent[sent : sent + 1]:
                    if installation.worker.run(message) is StepEnd.COMMITTED:
                        acknowledged[run_id] = 1
            except StoreUnavailable:
                installation.store.records.close()

    worker = threading.Thread(target=work)
    worker.start()
    try:
        for _ in range(10):
            before, wanted = len(acknowledged), rng.randrange(3, 30)
            eventually(lambda least=before + wanted: len(acknowledged) >= least, "runs are acknowledged")
            valkey.kill()
            valkey.start()
    finally:
        stop.set()
        worker.join(60)

    assert sum(acknowledged.values()) > 30
    for run_id, steps in acknowledged.items():
        assert installation.runs.inspect_run(run_id)["steps_executed"] >= steps


@pytest.mark.parametrize("seed", range(4))
def test_with_everysec_a_run_resumes_from_the_last_durable_commit_and_ends_right(
    server: Callable[..., EmbeddedValkey], seed: int
) -> None:
    rng = random.Random(seed)
    valkey = server(append_only=True, fsync="everysec")
    settings = Settings(store_url=valkey.url, durability="everysec", lease_seconds=0.3)
    verify_server(settings)
    installation = Installation(settings)
    installation.store.publish(jobs.squares().compile())
    run_id = installation.start("key")
    durable, at, lost = 0, 0, rng.randrange(1, 4)
    for at in range(5):
        if at == 5 - lost:
            durable = valkey.append_only_file.stat().st_size
        installation.worker.run(installation.messages.sent[at])
    before = installation.runs.inspect_run(run_id)["steps_executed"]

    valkey.kill()
    os.truncate(valkey.append_only_file, durable)  # between two calls: the end that had not reached the disk
    valkey.start()

    assert installation.runs.inspect_run(run_id)["steps_executed"] < before

    def ended() -> bool:
        for message in list(installation.messages.sent):  # those of the lost future, too
            installation.worker.run(message)
        installation.sweeper.sweep()
        return installation.runs.inspect_run(run_id)["status"] == "completed"

    eventually(ended, "the run ends")
    assert installation.runs.inspect_run(run_id)["output"] == {"lines": ["1", "2", "3"], "total": 14}


def test_with_replicas_a_start_is_acknowledged_when_they_have_it(
    server: Callable[..., EmbeddedValkey], monkeypatch: MonkeyPatch
) -> None:
    primary = server(options=("--repl-diskless-sync-delay", "0"))
    replica = server(options=("--replicaof", "127.0.0.1", str(primary.port)))
    settings = Settings(store_url=primary.url, durability="replicated(1)")
    installation = Installation(settings)
    installation.store.publish(jobs.squares().compile())
    with primary.client() as client:
        eventually(lambda: "online" in str(client.info("replication").get("slave0")), "the replica is in step")
    first = installation.start("first")

    replica.kill()
    monkeypatch.setattr(redis_records, "CONFIRM_MS", 300)
    with pytest.raises(WfError) as refused:
        installation.start("second")
    assert refused.value.code == "durability_unconfirmed"

    replica.start()

    def accepted() -> bool:
        try:
            installation.start("second")
        except WfError as error:
            assert error.code == "durability_unconfirmed"
            return False
        return True

    eventually(accepted, "the replica confirms")
    assert len(installation.runs.list_runs()["runs"]) == 2
    # What was acknowledged is on the replica.
    on_replica = Installation(Settings(store_url=replica.url))
    assert on_replica.runs.inspect_run(first)["status"] == "pending"
    assert len(on_replica.runs.list_runs()["runs"]) == 2


@pytest.mark.parametrize(
    ("append_only", "fsync", "promised", "fault"),
    [
        (False, "always", "everysec", "appendonly is no"),
        (False, "always", "always", "appendonly is no"),
        (True, "everysec", "always", "appendfsync everysec"),
        (True, "no", "everysec", "appendfsync no"),
        (True, "everysec", "everysec", None),
        (True, "always", "everysec", None),
        (False, "always", "memory", None),
    ],
)
def test_a_server_that_keeps_less_than_is_promised_is_refused_at_start(
    server: Callable[..., EmbeddedValkey], append_only: bool, fsync: str, promised: str, fault: str | None
) -> None:
    valkey = server(append_only=append_only, fsync=fsync)
    settings = Settings(store_url=valkey.url, durability=promised)

    if fault is None:
        verify_server(settings)
        return
    with pytest.raises(SettingsInvalid, match=fault) as refused:
        verify_server(settings)
    assert (refused.value.code, refused.value.path) == ("durability_unavailable", "WF_DURABILITY")


def test_a_run_that_wants_more_than_is_promised_is_refused(server: Callable[..., EmbeddedValkey]) -> None:
    installation = Installation(Settings(store_url=server().url))
    installation.store.publish(jobs.squares().compile())

    with pytest.raises(WfError) as refused:
        installation.runs.start_run(StartRequest("squares", workflow_input={"numbers": []}, durability="everysec"))

    assert (refused.value.code, refused.value.path) == ("durability_unavailable", "durability")
    assert installation.store.count_runs() == 0


@pytest.mark.parametrize(
    ("promised", "covered"),
    [
        ("memory", {"memory"}),
        ("everysec", {"memory", "everysec"}),
        ("always", {"memory", "everysec", "always"}),
        ("replicated(1)", {"memory", "replicated(1)"}),
        ("replicated(2)", {"memory", "replicated(1)", "replicated(2)"}),
    ],
)
def test_a_level_covers_what_promises_no_more(promised: str, covered: set[str]) -> None:
    levels = ["memory", "everysec", "always", "replicated(1)", "replicated(2)"]

    assert {text for text in levels if Durability.parse(promised).covers(Durability.parse(text))} == covered


@pytest.mark.parametrize("text", ["", "disk", "replicated", "replicated(0)", "replicated(10)", "Always"])
def test_no_other_level_is_taken(text: str) -> None:
    with pytest.raises(ValueError, match="durability"):
        Settings(durability=text)
