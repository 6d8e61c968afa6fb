"""Those who start runs, answer what runs ask, and judge how runs end."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from tests.chaos.ledger import Ledger
from tests.chaos.shapes import SHAPES, Job
from tests.support.random_flows import answer
from wf_api.client import WorkflowApiError, WorkflowClient
from wf_api.client.calls import passing
from wf_api.wire import ENDED, InboxEntry, TraceEntryView

T = TypeVar("T")

PATIENCE_SECONDS: Final = 15.0
"""How long one request may take before it is given up and repeated."""


@dataclass
class Clock:
    """What customers go by: whether to start another run, and until when a run must have ended."""

    closed: threading.Event
    """Set: no new runs."""
    settle_seconds: float
    closed_at: float = float("inf")

    def close(self) -> None:
        """No new runs from now on."""
        self.closed_at = time.monotonic()
        self.closed.set()

    @property
    def overdue(self) -> bool:
        """Whether everything must have ended by now."""
        return time.monotonic() > self.closed_at + self.settle_seconds


class Overdue(Exception):
    """A request was repeated until the end of the time to settle, and never answered."""


@dataclass(frozen=True)
class Begun:
    """A run that was acknowledged, and what it must come to."""

    run_id: str
    key: str
    shape: str
    job: Job


@dataclass
class Customer:
    """Starts one run after another and waits for each."""

    url: str
    name: str
    seed: int
    shapes: Mapping[str, int]
    ledger: Ledger
    clock: Clock

    def __post_init__(self) -> None:
        self.client = WorkflowClient(self.url, PATIENCE_SECONDS)

    def work(self) -> None:
        """Until the clock is closed and the last run is judged."""
        number = 0
        with self.client:
            while not self.clock.closed.is_set():
                number += 1
                key = f"{self.name}-{number}"
                try:
                    self.judge(self.begin(key))
                except Overdue as error:
                    self.ledger.fault(f"{key}: {error}")
                except Exception as error:  # whatever it is, it must be seen
                    self.ledger.fault(f"{key}: {type(error).__name__}: {error}")

    def begin(self, key: str) -> Begun:
        """Starts a run, which is acknowledged when this returns."""
        rng = random.Random(f"{self.seed} {key}")
        shape = rng.choices(list(self.shapes), list(self.shapes.values()))[0]
        job = SHAPES[shape](rng)
        for child in job.children.values():
            self._repeat(lambda child=child: self.client.publish(child))
        digest = self._repeat(lambda: self.client.publish(job.workflow))["digest"]
        priority = rng.choice(["low", "normal", "normal", "high"])
        run = self._repeat(
            lambda: self.client.start(
                digest=digest,
                input=job.workflow_input,
                idempotency_key=key,
                priority=priority,
                tags={"key": key},
            )
        )
        run_id = run["run_id"]
        self.ledger.acknowledged(run_id, f"{key} {shape} {job.workflow.name}")
        return Begun(run_id, key, shape, job)

    def judge(self, begun: Begun) -> None:
        """Waits for the run's end, and says what is wrong with it."""
        try:
            self._judge(begun)
        except (Overdue, WorkflowApiError) as error:
            self.ledger.is_lost(begun.run_id, str(error))

    def _judge(self, begun: Begun) -> None:
        run_id, pause = begun.run_id, 0.1
        while (run := self._repeat(lambda: self.client.inspect(run_id)))["status"] not in ENDED:
            if self.clock.overdue:
                raise Overdue(f"it is still {run['status']}, {run['steps_executed']} steps done")
            time.sleep(pause)
            pause = min(2.5, 1.5 * pause)
        faults = begun.job.faults(run, self._trace(run_id))
        under_key = [
            entry["run_id"] for entry in self._repeat(lambda: self.client.list(tags={"key": begun.key}))["runs"]
        ]
        if under_key != [run_id]:
            faults.append(f"its key led to the runs {under_key}")
        self.ledger.judged(run_id, begun.shape, run["status"], run["recovered_frames"], faults)

    def _trace(self, run_id: str) -> list[TraceEntryView]:
        trace: list[TraceEntryView] = []
        start: int | None = 0
        while start is not None:
            page = self._repeat(lambda start=start: self.client.trace(run_id, start=start, limit=100))
            trace += page["trace"]
            start = page["next_start"]
        return trace

    def _repeat(self, call: Callable[[], T]) -> T:
        """What a careful customer does: the same request again, until it is answered."""
        while True:
            try:
                return call()
            except WorkflowApiError as error:
                if not passing(error):
                    raise
                self.ledger.note(f"repeated after {error.code}")
                if self.clock.overdue:
                    raise Overdue(f"never answered: {error}") from error
            time.sleep(0.3)


EXPECTED_REFUSALS: Final = ("interrupt_answered", "interrupt_not_open", "run_not_interrupted", "run_not_found")
"""What somebody is told who answers what was answered already: an answer whose reply got lost, or one of two."""


@dataclass
class Answerer:
    """Looks into the inbox of all runs and answers each interrupt, some of them twice."""

    url: str
    ledger: Ledger
    rng: random.Random
    stop: threading.Event

    def work(self) -> None:
        """Until it is told to stop."""
        with WorkflowClient(self.url, PATIENCE_SECONDS) as client:
            while not self.stop.wait(0.2):
                try:
                    entries = client.inbox(limit=50)["interrupts"]
                except WorkflowApiError as error:
                    self._unanswered(error)
                    continue
                for entry in entries:
                    for _ in range(2 if self.rng.random() < 0.2 else 1):
                        self._answer(client, entry)

    def _answer(self, client: WorkflowClient, entry: InboxEntry) -> None:
        request: dict[str, Any] = entry["payload"]
        run_id, key = entry["run_id"], entry["interrupt_key"]
        try:
            client.resume(run_id, answer(request), interrupt_key=key, idempotency_key=f"{run_id} {key}")
            self.ledger.note("answered")
        except WorkflowApiError as error:
            self._unanswered(error)

    def _unanswered(self, error: WorkflowApiError) -> None:
        if passing(error) or error.code in EXPECTED_REFUSALS:
            self.ledger.note(f"answerer: {error.code}")
        else:
            self.ledger.fault(f"an answer was refused: {error}")
