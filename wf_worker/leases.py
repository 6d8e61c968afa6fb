"""Claims that are being worked on are renewed from a thread, so that a long handler need not know of leases."""

from __future__ import annotations

import logging
import threading
from collections.abc import Generator
from contextlib import contextmanager

from wf_worker.store.protocol import Claim
from wf_worker.store.runs import RunStore

log = logging.getLogger("wf.leases")


class HeldClaim:
    """A claim under renewal. ``lost`` is set once the store refused to renew it."""

    __slots__ = ("claim", "lost")

    def __init__(self, claim: Claim) -> None:
        self.claim = claim
        self.lost = threading.Event()


class LeaseKeeper:
    """Renews every held claim three times in the life of a lease. One per process, its thread begun on first use."""

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._interval = max(0.05, store.lease_ms / 3000)
        self._lock = threading.Lock()
        self._held: set[HeldClaim] = set()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None

    @contextmanager
    def keep(self, claim: Claim) -> Generator[HeldClaim]:
        """Renews the claim until the block is left."""
        held = HeldClaim(claim)
        with self._lock:
            self._held.add(held)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="wf-leases", daemon=True)
                self._thread.start()
        try:
            yield held
        finally:
            with self._lock:
                self._held.discard(held)

    def renew(self, held: HeldClaim, *, heartbeat: bool = False, details: bytes = b"") -> None:
        """Renews one claim now. An unreachable store changes nothing: the lease may still be good.

        A ``heartbeat`` is a sign of life of the handler itself, with ``details`` for the next attempt.
        """
        try:
            word = self._store.renew(held.claim, heartbeat=heartbeat, details=details)
        except Exception as error:  # whatever it is, the other claims need this thread
            log.warning("lease not renewed run=%s frame=%s: %s", held.claim.incarnation, held.claim.frame, error)
            return
        if word != "renewed":
            held.lost.set()

    def _run(self) -> None:
        while not self._wake.wait(self._interval):
            with self._lock:
                held = list(self._held)
            for claim in held:
                if not claim.lost.is_set():
                    self.renew(claim)

    def stop(self) -> None:
        """Ends the thread."""
        self._wake.set()
