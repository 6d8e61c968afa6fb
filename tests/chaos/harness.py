"""The order of things: disturb, calm down, let everything end, wait for the retention, count."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.chaos.customers import Answerer, Clock, Customer
from tests.chaos.disturbances import DISTURBANCES
from tests.chaos.installation import Installation
from tests.chaos.ledger import Ledger
from tests.chaos.profiles import Profile
from wf_worker.store.audit import audit_run
from wf_worker.store.keys import Keys
from wf_worker.store.redis import RedisRecords, connect

PROGRESS_SECONDS = 15.0
REFUSALS = (": 'refused'", ": 'discarded'", "result refused")
"""What a worker's log says of a message or a result that came too late."""


@dataclass(frozen=True)
class Summary:
    """What is told in the end."""

    runs: int
    kills: int
    restarts: int
    recovered: int
    refused: int
    wrong: int
    lost: int
    keys_left: int

    def shortfalls(self, profile: Profile, minutes: float) -> list[str]:
        """Why this shows that the engine is wrong, or shows nothing."""
        found = [f"{name} is {value}" for name, value in asdict(self).items() if name in NONE_OF and value]
        if self.kills < int(profile.kills_per_minute * minutes):
            found.append(f"only {self.kills} kills")
        if self.restarts < profile.restarts:
            found.append(f"only {self.restarts} restarts of the store")
        if not self.runs:
            found.append("no run was acknowledged")
        return found


NONE_OF = ("wrong", "lost", "keys_left")


def say(text: str) -> None:
    """A line of progress."""
    print(f"chaos: {text}", file=sys.stderr, flush=True)


@dataclass
class Chaos:
    """One round of it, a function of the seed as far as the machine allows."""

    profile: Profile
    minutes: float
    seed: int
    folder: Path
    broker_url: str | None = None
    ledger: Ledger = field(default_factory=Ledger)
    done: Counter[str] = field(default_factory=Counter[str])

    def run(self) -> Summary:
        """Everything, and what came of it. No process is left, whatever happens."""
        profile = self.profile
        self.installation = Installation(self.folder, profile.workers, profile.settings(), self.broker_url)
        self.clock = Clock(threading.Event(), profile.settle_seconds)
        no_more_answers = threading.Event()
        with self.installation as installation:
            customers = [
                Customer(installation.url, f"c{n}", self.seed, profile.shapes, self.ledger, self.clock)
                for n in range(profile.customers)
            ]
            answerer = Answerer(installation.url, self.ledger, random.Random(self.seed), no_more_answers)
            threads = [_thread(customer.work, customer.name) for customer in customers]
            answering = _thread(answerer.work, "answerer")
            try:
                self._disturb()
                self._settle(threads)
            finally:
                self.clock.close()
                no_more_answers.set()
            answering.join(30)
            self._explain()
            return Summary(
                runs=self.ledger.runs,
                kills=installation.kills,
                restarts=installation.restarts,
                recovered=self.ledger.recovered,
                refused=installation.logged(*REFUSALS),
                wrong=len(self.ledger.wrong),
                lost=len(self.ledger.lost) + len(self.ledger.open),
                keys_left=self._keys_left(),
            )

    # ---- disturbing

    def _disturb(self) -> None:
        """Each kind of disturbance in a thread with a random source of its own: so the seed decides its schedule."""
        until = time.monotonic() + 60 * self.minutes
        kinds = [
            _thread(lambda name=name, every=every: self._repeat(name, every, until), f"disturbance {name}")
            for name, every in self.profile.every_seconds.items()
        ]
        while time.monotonic() < until:
            self._progress("disturbing", until)
            time.sleep(max(0.0, min(PROGRESS_SECONDS, until - time.monotonic())))
        for thread in kinds:
            thread.join(60)

    def _repeat(self, name: str, every: float, until: float) -> None:
        rng = random.Random(f"{self.seed} {name}")
        while True:
            pause = rng.uniform(0.5 * every, 1.5 * every)
            if time.monotonic() + pause > until:
                return
            time.sleep(pause)
            try:
                what = DISTURBANCES[name](self.installation, rng)
            except Exception as error:  # e.g. the store is away that was to be asked for something
                what = f"{name} was not possible: {type(error).__name__}: {error}"
                self.done[f"{name} failed"] += 1
            else:
                self.done[name] += 1
            with (self.folder / "schedule.log").open("a") as log:
                log.write(f"{time.time():.3f} {what}\n")

    # ---- ending

    def _settle(self, customers: list[threading.Thread]) -> None:
        """No disturbance any more, no new runs: what is there must end."""
        for proxy in self.installation.proxies:
            proxy.heal()
        self.clock.close()
        until = time.monotonic() + self.profile.settle_seconds
        while any(thread.is_alive() for thread in customers) and time.monotonic() < until + 30:
            self._progress("settling", until)
            _join(customers, PROGRESS_SECONDS)

    def _progress(self, phase: str, until: float) -> None:
        fallen = self.installation.tend()
        self.done.update(f"{name} fell" for name in fallen)
        ledger = self.ledger
        say(
            f"{phase}, {max(0, until - time.monotonic()):.0f} s left: {ledger.ended} runs judged, "
            f"{len(ledger.open)} open, {ledger.recovered} recovered, "
            f"{len(ledger.wrong)} wrong, {len(ledger.lost)} lost; "
            f"{self.installation.kills} kills, {self.installation.restarts} restarts"
        )

    def _explain(self) -> None:
        say(f"disturbances: {dict(sorted(self.done.items()))}")
        say(f"shapes: {dict(self.ledger.shapes)}; ended: {dict(self.ledger.statuses)}")
        say(f"customers: {dict(sorted(self.ledger.noted.items()))}")
        for fault in [*self.ledger.wrong, *(f"LOST {text}" for text in self.ledger.lost)]:
            say(fault[:1500])
        records = RedisRecords(connect(self.installation.store.url))
        lost = [text.partition(" run=")[2].partition(":")[0] for text in self.ledger.lost]
        for run_id in [*lost, *self.ledger.open]:
            incarnation = records.newest(run_id)
            found = audit_run(records, incarnation) if incarnation else ["there is no such run"]
            say(f"audit of {run_id} ({incarnation}): {found or 'nothing to find'}")
        records.close()

    def _keys_left(self) -> int:
        """Keys of runs, of their indexes and of submits that are left once the retention has passed."""
        until = time.monotonic() + self.profile.retention_seconds + 60
        installation, left = self.installation, [b""]
        with installation.store.client() as client:
            while left and time.monotonic() < until:
                left = [key for key in client.scan_iter(count=1000) if not _is_lasting(key)]
                if left:
                    self._progress(f"waiting for the retention, {len(left)} keys", until)
                    time.sleep(5)
            if left:
                say(f"keys left: {sorted(left)[:20]}")
        return len(left)


def _is_lasting(key: bytes) -> bool:
    """Whether a key belongs to the installation and not to a run: documents, versions, the store's name, workers."""
    keys = Keys()
    whole = (keys.flows(), keys.identity(), keys.workers())
    begins = (keys.document(""), keys.flow(""), keys.worker(""))
    return key in [name.encode() for name in whole] or key.startswith(tuple(name.encode() for name in begins))


def _thread(work: Callable[[], None], name: str) -> threading.Thread:
    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    return thread


def _join(threads: list[threading.Thread], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
