"""The real step runner, sweeper, kernel and store over a simulated broker and clock, in one thread, driven by a seed.

Messages are delivered in any order, twice, late or never; workers claim and then crash, or freeze past their lease and
come back; the clock jumps. What happens is a function of the seed alone.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.support.random_flows import answer, note
from wf_core.models import Workflow
from wf_worker.handlers import HandlerRegistry
from wf_worker.leases import HeldClaim, LeaseKeeper
from wf_worker.step_runner import StepRunner
from wf_worker.store.audit import audit_run
from wf_worker.store.keys import Keys
from wf_worker.store.memory import MemoryRecords
from wf_worker.store.protocol import Claim, Ready, Records, RunRecord
from wf_worker.store.runs import RunStore
from wf_worker.sweeper import Receipts, Sweeper

LEASE_MS = 30_000
START_MS = 1_700_000_000_000
"""What time it is when a simulation begins; random workflows wait until a time shortly after."""


@dataclass
class Faults:
    """How likely each thing is to go wrong at a moment."""

    drop: float = 0.05
    double: float = 0.05
    crash: float = 0.05
    freeze: float = 0.05
    jump: float = 0.03
    late: float = 0.0
    """A call that was made before is executed once more."""
    tail: float = 0.0
    """The store loses its last writes; workers, messages and people stay in the future that it has lost."""
    pause: float = 0.0
    """Somebody pauses the run, or lets it go on."""


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


class Replayed:
    """Records that remember what was called, and execute any of it again."""

    def __init__(self, inner: Records) -> None:
        self._inner = inner
        self._made: list[tuple[str, str, str, tuple[str | bytes | int, ...]]] = []

    def call(self, script: str, incarnation: str, call_id: str, *args: str | bytes | int) -> list[Any]:
        """As it is."""
        if script not in ("create", "audit"):
            self._made = [*self._made[-200:], (script, incarnation, call_id, args)]
        return self._inner.call(script, incarnation, call_id, *args)

    def again(self, rng: random.Random) -> None:
        """One of the latest calls, whose answer nobody reads."""
        if self._made:
            script, incarnation, call_id, args = rng.choice(self._made)
            self._inner.call(script, incarnation, call_id, *args)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class Simulation:
    """One run of one workflow under faults."""

    def __init__(
        self,
        seed: int,
        workflow: Workflow,
        workflow_input: dict[str, Any],
        faults: Faults | None = None,
        children: Mapping[str, Workflow] | None = None,
        records: Records | None = None,
    ) -> None:
        self.rng = random.Random(seed)
        self.faults = faults or Faults()
        self.now_ms = START_MS
        self.seen: Counter[str] = Counter()
        keys = Keys()
        self.memory = MemoryRecords(keys, clock=lambda: self.now_ms)
        self.replayed = Replayed(records or self.memory)
        made: Any = self.replayed
        self.records: Records = made
        self.tail: Any = None
        self.store = RunStore(
            self.records, keys, lease_ms=LEASE_MS, max_losses=1_000, new_id=lambda: f"{self.rng.getrandbits(64):016x}"
        )
        self.broker = Broker()
        handlers = HandlerRegistry()
        handlers.add_handler("note", note)
        broker: Any = self.broker
        self.runner = StepRunner(self.store, handlers, broker, LeaseKeeper(self.store), "w")
        self.sweeper = Sweeper(self.store, broker, Receipts())
        self.claims: list[Claim] = []
        self.frozen: list[Claim] = []
        for child in (children or {}).values():
            self.store.publish(child)
        self.digest = self.store.program_of(self.store.publish(workflow).digest)
        new = self.store.new_run("run", self.digest, workflow_input, max_steps=100_000)
        created = self.store.create(new)
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

    def _step(self, *, calm: bool) -> None:
        rng, faults = self.rng, self.faults
        if not calm:
            self._disturb()
        elif self.record.paused:
            self._pause(on=False)
        chance = 1.0 if calm else rng.random()
        if self.broker.queue and chance < faults.drop:
            self.broker.queue.pop(rng.randrange(len(self.broker.queue)))
            self.seen["dropped"] += 1
        elif self.broker.queue and chance < faults.drop + faults.double:
            self.broker.queue.append(rng.choice(self.broker.queue))
            self.seen["doubled"] += 1
        elif self.frozen and rng.random() < 0.1:
            # A zombie: it goes on with the slice it had, long after its claim was given to somebody else.
            self._finish(self.frozen.pop(rng.randrange(len(self.frozen))))
            self.seen["zombies"] += 1
        elif self.claims and (rng.random() < 0.5 or not self.broker.queue):
            claim = self.claims.pop(rng.randrange(len(self.claims)))
            fate = 1.0 if calm else rng.random()
            if fate < faults.crash:
                self.seen["crashed"] += 1
            elif fate < faults.crash + faults.freeze:
                self.frozen.append(claim)
                self.seen["frozen"] += 1
            else:
                self._finish(claim)
        elif self.broker.queue:
            self._deliver(self.broker.queue.pop(rng.randrange(len(self.broker.queue))))
        elif not self._answer():
            self._wait()
        if not calm and rng.random() < faults.jump:
            self._wait()

    def _disturb(self) -> None:
        """What a network and a server's disk can do between two calls."""
        rng, faults = self.rng, self.faults
        if rng.random() < faults.late:
            self.replayed.again(rng)
            self.seen["repeated"] += 1
        if faults.tail and self.tail is not None and rng.random() < faults.tail:
            self.memory.restore(self.tail)
            self.seen["lost tails"] += 1
        if rng.random() < faults.pause:
            self._pause(on=not self.record.paused)
        if faults.tail and rng.random() < 0.1:
            self.tail = self.memory.snapshot()

    def _pause(self, *, on: bool) -> None:
        word, ready = self.store.pause(self.incarnation, on=on)
        self.broker.publish(ready)
        self.seen[word] += 1

    def _deliver(self, message: Ready) -> None:
        claim = self.store.claim(message, owner="w")
        if isinstance(claim, Claim):
            self.claims.append(claim)
        else:
            self.broker.publish(claim.ready)
            self.seen[f"refused {claim.reason.value}"] += 1

    def _finish(self, claim: Claim) -> None:
        self.seen[self.runner.execute(claim, HeldClaim(claim)).value] += 1

    def _answer(self) -> bool:
        """A person answers an open interrupt, sometimes twice."""
        opened = self.store.interrupts(self.incarnation)
        if not opened or self.record.ended:
            return False
        interrupt = self.rng.choice(opened)
        for _ in range(1 + (self.rng.random() < 0.3)):
            try:
                ready = self.store.resume(
                    self.incarnation,
                    interrupt.number,
                    answer(interrupt.request.payload),
                    "submitted",
                    digest=self.digest,
                )
            except Exception as refused:
                self.seen[f"answer {getattr(refused, 'code', refused)}"] += 1
            else:
                self.broker.publish(ready)
                self.seen["answered"] += 1
        return True

    def _wait(self) -> None:
        self.now_ms += self.rng.choice([2_000, 6_000, LEASE_MS + 1])
        self.seen["waited"] += 1
        report = self.sweeper.sweep()
        self.seen["recovered"] += report.recovered
        self.seen["republished"] += report.republished
        self.seen["fired"] += report.fired
        self.seen["timed out"] += report.timed_out
