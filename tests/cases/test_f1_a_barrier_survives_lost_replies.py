"""All parts of a group finished, and what should follow was never called.

The count was raised apart from storing the result, and a time-out in between lost it for good (celery/celery#4207,
celery/celery#5229, celery/celery#3363). Here an item's result and its arrival are one script, an arrival is the
presence of that result and no count, and a call whose reply was lost may be made again.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.cases.flows import END, ToWorker, each, flow, found, item, step
from tests.support.inline_worker import InlineWorker
from tests.support.stores import RedisCase
from tests.support.valkey import EmbeddedValkey
from wf_core.models import Workflow
from wf_core.run_state import RuntimeContext
from wf_worker.errors import StoreUnavailable
from wf_worker.store.audit import audit_run
from wf_worker.store.keys import Keys
from wf_worker.store.redis import RedisRecords, script_text
from wf_worker.store.runs import RunStore
from wf_worker.sweeper import Receipts, Sweeper

GROUP = flow(
    "group",
    [
        each("each", "input.numbers", active=20, outstanding=40),
        step("work", "work", item("each"), "state.results"),
        step("after", "after", "state.results", "state.count"),
    ],
    [("each", "loop", "work"), ("work", "ok", "each"), ("each", "done", "after"), ("after", "ok", END)],
    takes={"numbers": {"type": "array", "items": {}}},
    state={"results": {"type": "array", "reducer": "wf.std.append"}, "count": {}},
    gives={"results": {}, "count": {}},
)


class Line(redis.Connection):
    """A connection that can be cut after a command was sent and before its reply is read."""

    armed = threading.local()

    def read_response(self, *args: Any, **kwargs: Any) -> Any:
        if getattr(Line.armed, "cut", False):
            Line.armed.cut = False
            # The command is on its way already: the server executes it, whoever listens.
            super().read_response(*args, **kwargs)
            self.disconnect()
            raise redis.ConnectionError("cut before the reply was read")
        return super().read_response(*args, **kwargs)


class CutRecords(RedisRecords):
    """Records whose calls lose their reply where ``cuts`` says so, once for each name."""

    def __init__(self, server: EmbeddedValkey, keys: Keys, *, retries: int) -> None:
        pool = redis.ConnectionPool(
            connection_class=Line,
            host="127.0.0.1",
            port=server.port,
            protocol=2,
            retry=Retry(NoBackoff(), retries),
            retry_on_error=[redis.ConnectionError],
        )
        super().__init__(redis.Redis(connection_pool=pool), keys)
        self.cuts: set[tuple[str, str]] = set()
        self.cut: list[tuple[str, str]] = []
        self.every_call = False

    def call(self, script: str, incarnation: str, call_id: str, *args: str | bytes | int) -> list[Any]:
        what = (script, str(args[0]).rpartition(":")[2] if args else "")
        if what in self.cuts or (self.every_call and what not in self.cut and script in ("claim", "commit")):
            self.cuts.discard(what)
            self.cut.append(what)
            self.warm(script)
            Line.armed.cut = True
        try:
            return super().call(script, incarnation, call_id, *args)
        finally:
            Line.armed.cut = False

    def warm(self, script: str) -> None:
        """The script is loaded, so that the next command on the line is the call itself."""
        self.client.script_load(script_text(script))


class Group:
    """A run of the group with a worker and a sweeper; messages whose processing failed are delivered again."""

    def __init__(self, server: EmbeddedValkey, records: CutRecords, numbers: int, lease_ms: int = 30_000) -> None:
        self.records = records
        self.store = RunStore(records, records.keys, lease_ms=lease_ms)
        self.calls: Counter[str] = Counter()
        self.worker = InlineWorker(self.store, {"work": self.work, "after": self.after})
        self.sweeper = Sweeper(self.store, ToWorker(self.worker), Receipts())
        digest = self.store.publish(Workflow.model_validate(GROUP)).digest
        self.given = list(range(numbers))
        created = self.store.create(self.store.new_run("run", digest, {"numbers": self.given}, max_steps=10_000))
        self.run = created.incarnation
        self.worker.publish(created.ready)

    def work(self, payload: dict[str, Any], _: RuntimeContext) -> dict[str, Any]:
        self.calls[str(payload["value"])] += 1
        return payload

    def after(self, payload: dict[str, Any], _: RuntimeContext) -> dict[str, Any]:
        self.calls["after"] += 1
        return {"value": len(payload["value"])}

    def finish(self, seconds: float = 40) -> None:
        """Until the run has ended: every message, and what a sweeper finds where none is left."""
        deadline = time.monotonic() + seconds
        while found(self.store, self.run).status not in ("completed", "failed"):
            assert time.monotonic() < deadline, "the group does not finish"
            try:
                self.worker.drain()
                self.sweeper.sweep()
            except StoreUnavailable:
                continue  # the message is gone, as it is with a worker whose store call failed

    def check(self) -> None:
        record = found(self.store, self.run)
        assert (record.status, record.output) == (
            "completed",
            {"results": self.given, "count": len(self.given)},
        ), record.error
        barriers = [
            entry.entry
            for entry in self.store.trace(self.run, 0, 10_000)
            if entry.entry["node_id"] in ("each", "after")
        ]
        fired = [entry for entry in barriers if entry["outcome"] == "done"]
        assert (len(fired), self.calls["after"]) == (1, 1)
        assert audit_run(self.records, self.run) == []


def test_the_reply_to_one_commit_of_two_hundred_is_lost_and_the_barrier_fires_once(
    valkey_case: RedisCase, valkey_server: EmbeddedValkey
) -> None:
    """The client sends the call again by itself; the messages that its reply held are found by a sweeper."""
    records = CutRecords(valkey_server, valkey_case.keys, retries=3)
    records.cuts = {("commit", "137")}
    group = Group(valkey_server, records, 200)

    group.finish()

    assert records.cut == [("commit", "137")]
    group.check()
    assert all(count == 1 for count in group.calls.values())
    records.close()


def test_any_reply_may_be_lost_for_good_and_the_barrier_fires_once(
    valkey_case: RedisCase, valkey_server: EmbeddedValkey
) -> None:
    """The reply to the first try of every claim and commit: nobody sends it again, a sweeper finds what is due."""
    records = CutRecords(valkey_server, valkey_case.keys, retries=0)
    records.every_call = True
    group = Group(valkey_server, records, 12, lease_ms=50)

    group.finish()

    assert len(records.cut) >= 2 * 12
    group.check()
    records.close()
