"""Lost work is found: expired claims, messages that never arrived, frames whose hold is gone.

The sweeper is a thread of every worker node. It decides nothing about meaning: it makes frames due again, and the
worker that claims them asks the kernel.
"""

from __future__ import annotations

import functools
import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from wf_core.errors import WfError
from wf_worker.dispatch import Dispatcher
from wf_worker.errors import BrokerUnavailable, LayoutUnknown, RunDamaged, StoreUnavailable
from wf_worker.store.looking import ANNOUNCED_SECONDS
from wf_worker.store.protocol import DueRun, Ready, Served, UnclaimedFrame
from wf_worker.store.runs import RunStore

log = logging.getLogger("wf.sweeper")

FIRST_LOOK_MS: Final = 5_000
LAST_LOOK_MS: Final = 600_000
BACKSTOP_MS: Final = 3_600_000
"""A message is sent again without evidence of its loss only when its frame is this old, and then twice as old."""
LAST_BACKSTOP_MS: Final = 24 * BACKSTOP_MS
RELEASE_PAGES: Final = 32
"""Pages of released frames, and of frames whose time has come, that one visit of a run asks for."""
REAP_PAGES: Final = 100
"""Pages of an ended run that one visit removes."""
FIRST_UNSERVED_MS: Final = 1_000
LAST_UNSERVED_MS: Final = 30_000
"""How soon a frame is looked for again whose capability or queue no worker serves."""
IDLE_RUNS: Final = 50
"""Runs at most that an idle node looks at ahead of their time, each five seconds."""
LATER_BY_MS: Final = 5_000
"""A message sent this much later and received already says that an earlier one is lost or stuck."""


@dataclass(slots=True)
class Receipts:
    """When the newest message of each queue that this node received was sent, ms by its sender's clock. A hint, nothing
    more."""

    newest_sent_ms: dict[str, int] = field(default_factory=dict[str, int])

    def saw(self, queue: str, sent_ms: int) -> None:
        """A message was received."""
        self.newest_sent_ms[queue] = max(self.newest(queue), sent_ms)

    def newest(self, queue: str) -> int:
        """When the newest one was sent; 0 when there was none."""
        return self.newest_sent_ms.get(queue, 0)


@dataclass(slots=True)
class SweepReport:
    """What one pass did."""

    runs: int = 0
    recovered: int = 0
    republished: int = 0
    put_off: int = 0
    released: int = 0
    fired: int = 0
    timed_out: int = 0
    reaped: int = 0


@dataclass
class Sweeper:
    """One pass over all shards at a time; :meth:`start` runs passes in a thread."""

    store: RunStore
    dispatcher: Dispatcher
    receipts: Receipts
    interval_seconds: float = 1.0
    recovered: int = 0
    serves: tuple[str, ...] = ()
    """What this node serves. It says so while it lives, and at its beginning sends for frames that waited for it."""
    queues: tuple[str, ...] = ()
    """The queues whose messages it takes."""
    node: str = "node"
    _announced: float = float("-inf")
    _looked_ahead: float = float("-inf")
    _blind_until: float = 0.0
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def sweep(self) -> SweepReport:
        """Handles every run that wants attention now. Raises :class:`StoreUnavailable` when the store is silent."""
        report = SweepReport()
        shards = list(range(self.store.keys.shards))
        random.shuffle(shards)  # so that several nodes do not queue up behind one another
        for shard in shards:
            for incarnation in self.store.sweep(shard):
                self._visited(incarnation, report)
        self.recovered += report.recovered
        return report

    def _visited(self, incarnation: str, report: SweepReport, ahead_ms: int = 0) -> None:
        try:
            self._visit(incarnation, report, ahead_ms)
        except StoreUnavailable:
            raise
        except LayoutUnknown as other:
            log.info("run left to a newer worker run=%s: %s", incarnation, other)
        except RunDamaged as damage:
            log.error("run is damaged run=%s: %s", incarnation, damage)
            self._damaged(incarnation, damage)
        except Exception:  # one faulty run may not keep the others waiting
            log.exception("run not swept run=%s", incarnation)

    def look_ahead(self) -> SweepReport:
        """Where this node has nothing to do, frames are looked for whose time to be looked for has not come.

        A frame that stood in a backlog for long is looked for rarely. When its message gets lost then, and nothing
        comes after it, that rare look is all that would find it, minutes after everybody has become idle.
        """
        report = SweepReport()
        if not self.queues or not all(self.dispatcher.queue_is_empty(queue) for queue in self.queues):
            return report
        shards = list(range(self.store.keys.shards))
        random.shuffle(shards)
        left = IDLE_RUNS
        for shard in shards:
            for incarnation in self.store.sweep(shard, most=left, ahead_ms=LAST_LOOK_MS) if left else ():
                left -= 1
                self._visited(incarnation, report, ahead_ms=LAST_LOOK_MS)
        return report

    def _visit(self, incarnation: str, report: SweepReport, ahead_ms: int) -> None:
        due = self.store.due(incarnation, ahead_ms=ahead_ms)
        if due is not None:
            report.runs += 1
            self._handle(due, report)

    def _damaged(self, incarnation: str, damage: RunDamaged) -> None:
        """A missing workflow document leaves the run where it is: it may be published again. Else the run ends here."""
        if not (damage.path or "").startswith("doc:"):
            self.store.fail_damaged(incarnation, damage)

    def _handle(self, due: DueRun, report: SweepReport) -> None:
        if due.reap:
            self._reap(due, report)
            return
        for _ in range(RELEASE_PAGES if due.release else 0):
            ready = self.store.release(due.incarnation)
            report.released += len(ready)
            self._publish(ready)
            if not ready:
                break
        for _ in range(RELEASE_PAGES if due.elapsed else 0):
            fired, ready = self.store.fire(due.incarnation)
            report.fired += fired
            self._publish(ready)
            if not fired:
                break
        for what, score in due.overdue:
            ready: tuple[Ready, ...] = ()
            if what == "run":
                word = self.store.end_at_deadline(due.incarnation, score)
            elif what.startswith("i"):  # an interrupt; frame keys are hexadecimal
                word, ready = self.store.expire(due.incarnation, int(what[1:]), score)
            else:
                word, ready = self.store.fence(due.incarnation, what, score)
            if word in ("expired", "fenced", "failed"):
                report.timed_out += 1
                log.warning("a deadline has passed run=%s: %s %s", due.incarnation, what, word)
            self._publish(ready)
        if time.monotonic() >= self._blind_until:
            for frame, token in due.expired:
                word, ready = self.store.lost(due.incarnation, frame, token)
                if word == "lost":
                    report.recovered += 1
                    log.warning("recovered a frame of a lost worker run=%s frame=%s", due.incarnation, frame)
                self._publish(ready)
        if due.unclaimed:
            # Asked after the frames were read: a message that arrived in between leaves its queue not empty.
            look = _Look(self.dispatcher.queue_is_empty, self.store.announced())
            for frame in due.unclaimed:
                # Ahead of its time only where its message has had time to arrive.
                if float(frame.score) <= due.now_ms or due.now_ms - frame.since_ms >= FIRST_LOOK_MS:
                    self._look(due, frame, look, report)

    def _reap(self, due: DueRun, report: SweepReport) -> None:
        for _ in range(REAP_PAGES):
            word = self.store.reap(due.incarnation)
            if word != "more":
                report.reaped += word == "reaped"
                return

    def _look(self, due: DueRun, frame: UnclaimedFrame, look: _Look, report: SweepReport) -> None:
        queue = self.dispatcher.queue_of(frame.queue, frame.priority)
        unserved = look.served.unserved(frame.capability, queue)
        if unserved:
            send, look_ms = False, min(LAST_UNSERVED_MS, max(FIRST_UNSERVED_MS, due.now_ms - frame.since_ms))
        else:
            newest = self.receipts.newest(queue)
            send, look_ms = judge(frame, due.now_ms, queue_empty=look.empty(queue), newest_received_ms=newest)
        word, ready = self.store.republish(
            due.incarnation, frame.frame, frame.score, look_ms=look_ms, send=send, unserved=unserved
        )
        if word == "sent":
            report.republished += 1
            log.info("sent a message again run=%s frame=%s", due.incarnation, frame.frame)
        elif word == "later":
            report.put_off += 1
        self._publish(ready)

    def _publish(self, ready: tuple[Ready, ...]) -> None:
        self.dispatcher.publish(ready)

    def wake_parked(self, capabilities: Sequence[str]) -> int:
        """Sends again for frames that were given back unserved and whose capabilities are served now; how many."""
        woken = 0
        for incarnation in self.store.parked_runs() if capabilities else ():
            try:
                woken += self._woken(incarnation, capabilities)
            except LayoutUnknown as other:
                log.info("run left to a newer worker run=%s: %s", incarnation, other)
        return woken

    def _woken(self, incarnation: str, capabilities: Sequence[str]) -> int:
        woken = 0
        for _ in range(RELEASE_PAGES):
            count, ready = self.store.unpark(incarnation, capabilities)
            woken += count
            self._publish(ready)
            if count == 0:
                break
        return woken

    def announce(self) -> None:
        """Says what this node serves, often enough to be believed all the while."""
        if self.serves and time.monotonic() - self._announced > ANNOUNCED_SECONDS / 3:
            self.store.announce(self.node, self.serves, self.queues)
            self._announced = time.monotonic()

    def leave(self) -> None:
        """Ends the thread, and takes back what this node announced: nobody shall wait for it."""
        self.stop()
        if self.serves:
            try:
                self.store.withdraw(self.node)
            except StoreUnavailable as error:
                log.warning("not withdrawn, and believed for %d s: %s", ANNOUNCED_SECONDS, error)

    # -- the thread

    def start(self) -> None:
        """Sweeps in a daemon thread until :meth:`stop`."""
        self._thread = threading.Thread(target=self._run, name="wf-sweeper", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread after its present pass."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=5)

    def _run(self) -> None:
        try:
            self.announce()
            woken = self.wake_parked(self.serves)
            if woken:
                log.info("sent for %d frames that waited for what this worker serves", woken)
        except WfError as error:  # they are looked for again in half a minute anyway
            log.warning("parked frames not sent for: %s", error)
        while not self._stop.wait(self.interval_seconds * random.uniform(0.8, 1.2)):
            try:
                self.announce()
                self.sweep()
                if time.monotonic() - self._looked_ahead > FIRST_LOOK_MS / 1000:
                    self._looked_ahead = time.monotonic()
                    self.look_ahead()
            except BrokerUnavailable as error:
                log.warning("sweep stopped: %s", error)
            except StoreUnavailable as error:
                # Whoever was cut off cannot tell a dead worker from one that could not renew either: it waits one
                # lease, counted from the moment the store answers again, before it calls any lease expired.
                self._blind_until = time.monotonic() + self.store.lease_ms / 1000
                log.warning("sweep stopped: %s", error)
            except WfError as error:
                log.error("sweep stopped: [%s] %s", error.code, error)
            except Exception:
                log.exception("sweep stopped by a fault")


class _Look:
    """What a look at the unclaimed frames of one run finds, each thing asked once."""

    def __init__(self, queue_is_empty: Callable[[str], bool], served: Served) -> None:
        self.empty = functools.cache(queue_is_empty)
        self.served = served


def judge(frame: UnclaimedFrame, now_ms: int, *, queue_empty: bool, newest_received_ms: int) -> tuple[bool, int]:
    """Whether to send a ready frame's message again, and when to look at the frame next (ms from now).

    A queue without messages, or a message received that was sent clearly later, says that this one is lost or lies in
    a busy worker's prefetch. Anything else is a backlog, which must not be amplified: it is looked at in growing
    intervals, and sent again without evidence only when it is an hour old, then two, then four.
    """
    age_ms = max(0, now_ms - frame.since_ms)
    if queue_empty or newest_received_ms >= frame.since_ms + LATER_BY_MS:
        return True, min(LAST_LOOK_MS, FIRST_LOOK_MS * 2 ** min(frame.looks, 7))
    if age_ms >= BACKSTOP_MS:
        return True, min(age_ms, LAST_BACKSTOP_MS)
    return False, max(FIRST_LOOK_MS, min(LAST_LOOK_MS, age_ms))
