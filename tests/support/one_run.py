"""One run over a broker that loses and doubles messages, driven by a seed: it can be left in the middle.

What a whole installation under every fault does lies in :mod:`tests.support.simulation`; here a test takes the run's
records in between, and goes on with what it made of them.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.support.history import START_MS, local_trace, trace_of
from tests.support.random_flows import answer, note
from wf_core.models import Workflow
from wf_core.run_state import RunState
from wf_worker.errors import RequestRefused
from wf_worker.handlers import HandlerRegistry
from wf_worker.leases import HeldClaim, LeaseKeeper
from wf_worker.step_runner import StepRunner
from wf_worker.store.audit import audit_run
from wf_worker.store.keys import Keys
from wf_worker.store.memory import MemoryRecords
from wf_worker.store.protocol import Claim, Created, Ready, RunRecord
from wf_worker.store.runs import RunStore
from wf_worker.sweeper import Receipts, Sweeper

LEASE_MS = 30_000


@dataclass
class Broker:
    """What was sent and not yet delivered."""

    queue: list[Ready] = field(default_factory=list[Ready])

    def publish(self, ready: Iterable[Ready]) -> None:
        self.queue.extend(ready)

    def queue_of(self, queue: str | None, priority: str) -> str:
        return queue or priority

    def queue_is_empty(self, name: str) -> bool:
        return not self.queue


class OneRun:
    """One run of one workflow. Everything that happens to it is a function of the seed."""

    def __init__(
        self, seed: int, workflow: Workflow, workflow_input: dict[str, Any], children: Mapping[str, Workflow]
    ) -> None:
        self.rng = random.Random(seed)
        self.now_ms = START_MS
        keys = Keys()
        self.records = MemoryRecords(keys, clock=lambda: self.now_ms)
        self.store = RunStore(self.records, keys, lease_ms=LEASE_MS, new_id=lambda: f"{self.rng.getrandbits(64):016x}")
        self.broker = Broker()
        handlers = HandlerRegistry()
        handlers.add_handler("note", note)
        broker: Any = self.broker
        self.runner = StepRunner(self.store, handlers, broker, LeaseKeeper(self.store), "w")
        self.sweeper = Sweeper(self.store, broker, Receipts())
        self.claims: list[Claim] = []
        for child in children.values():
            self.store.publish(child)
        self.digest = self.store.program_of(self.store.publish(workflow).digest)
        created = self.store.create(self.store.new_run("run", self.digest, workflow_input, max_steps=100_000))
        self.incarnation = created.incarnation
        self.broker.publish(created.ready)

    @property
    def record(self) -> RunRecord:
        record = self.store.inspect(self.incarnation)
        assert record is not None
        return record

    def run(self, most: int = 20_000) -> RunRecord:
        """To the end. Raises AssertionError when the audit finds something, or the run does not end."""
        for step in range(most):
            self._step(calm=step > most // 2)
            faults = audit_run(self.records, self.incarnation)
            assert not faults, faults
            if self.record.ended:
                return self.record
        raise AssertionError(f"not ended: {self.record.status}")

    def run_for(self, steps: int) -> None:
        """So many steps, and then until it is at rest: ended, interrupted, or paused with nothing running."""
        for _ in range(steps):
            if not self.record.ended:
                self._step(calm=False)
        while self.claims:
            self._finish(self.claims.pop())
        if self.record.status not in ("interrupted", "completed", "failed"):
            self._pause(on=True)

    def go_on_as(self, created: Created) -> None:
        """From now on it is about another run, which is let go on."""
        assert created.created
        self.incarnation, self.claims = created.incarnation, []
        self.broker.queue = list(created.ready)
        if self.record.paused:
            self._pause(on=False)

    def _step(self, *, calm: bool) -> None:
        rng, queue = self.rng, self.broker.queue
        if calm and self.record.paused:
            self._pause(on=False)
        elif not calm and rng.random() < 0.05:
            self._pause(on=not self.record.paused)
        chance = 1.0 if calm else rng.random()
        if queue and chance < 0.1:
            queue.pop(rng.randrange(len(queue)))
        elif queue and chance < 0.2:
            queue.append(rng.choice(queue))
        elif self.claims and (rng.random() < 0.5 or not queue):
            self._finish(self.claims.pop(rng.randrange(len(self.claims))))
        elif queue:
            self._deliver(queue.pop(rng.randrange(len(queue))))
        elif not self._answer():
            self._wait()

    def _pause(self, *, on: bool) -> None:
        self.broker.publish(self.store.pause(self.incarnation, on=on)[1])

    def _deliver(self, message: Ready) -> None:
        claim = self.store.claim(message, owner="w")
        if isinstance(claim, Claim):
            self.claims.append(claim)
        else:
            self.broker.publish(claim.ready)

    def _finish(self, claim: Claim) -> None:
        self.runner.execute(claim, HeldClaim(claim))

    def _answer(self) -> bool:
        """A person answers an open interrupt. It may have expired."""
        opened = self.store.interrupts(self.incarnation)
        if not opened or self.record.ended:
            return False
        interrupt = self.rng.choice(opened)
        try:
            self.broker.publish(
                self.store.resume(
                    self.incarnation,
                    interrupt.number,
                    answer(interrupt.request.payload),
                    "submitted",
                    digest=self.digest,
                )
            )
        except RequestRefused:
            return False
        return True

    def _wait(self) -> None:
        self.now_ms += self.rng.choice([2_000, 6_000, LEASE_MS + 1])
        self.sweeper.sweep()


def compare(run: OneRun, record: RunRecord, expected: RunState | str) -> None:
    """Raises AssertionError where a run did not end as the in-memory engine says."""
    if isinstance(expected, str):
        assert record.status == "failed"
        assert record.error is not None and "unlucky" in str(record.error["message"])
        return
    assert (record.status, record.error) == ("completed", None)
    assert (record.outcome, record.output) == (expected.outcome, expected.output)
    steps = run.store.trace(run.incarnation, 0, 100_000)
    assert trace_of([step.entry for step in steps if step.discarded is None]) == trace_of(local_trace(expected))
