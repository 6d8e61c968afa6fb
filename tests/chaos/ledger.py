"""What was promised to customers, and what became of it. Safe for threads."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Ledger:
    """Acknowledged runs and how they ended."""

    ended: int = 0
    recovered: int = 0
    statuses: Counter[str] = field(default_factory=Counter[str])
    shapes: Counter[str] = field(default_factory=Counter[str])
    noted: Counter[str] = field(default_factory=Counter[str])
    """What else happened to customers: requests repeated, answers that came too late."""
    wrong: list[str] = field(default_factory=list[str])
    lost: list[str] = field(default_factory=list[str])
    open: dict[str, str] = field(default_factory=dict[str, str])
    """Runs that were acknowledged and have not been judged, with their labels."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def runs(self) -> int:
        """How many runs were acknowledged."""
        return self.ended + len(self.lost) + len(self.open)

    def acknowledged(self, run_id: str, label: str) -> None:
        """A customer was told that there is such a run."""
        with self._lock:
            self.open[run_id] = label

    def judged(self, run_id: str, shape: str, status: str, recovered: int, faults: list[str]) -> None:
        """A run has ended, and these things are wrong with it."""
        with self._lock:
            label = self.open.pop(run_id)
            self.ended += 1
            self.recovered += recovered
            self.shapes[shape] += 1
            self.statuses[status] += 1
            if faults:
                self.wrong.append(f"{label} run={run_id}: {'; '.join(faults)}")

    def is_lost(self, run_id: str, how: str) -> None:
        """A run that was acknowledged does not end, or is not there."""
        with self._lock:
            label = self.open.pop(run_id)
            self.lost.append(f"{label} run={run_id}: {how}")

    def fault(self, what: str) -> None:
        """Something is wrong that belongs to no run."""
        with self._lock:
            self.wrong.append(what)

    def note(self, what: str) -> None:
        """Something happened that may happen."""
        with self._lock:
            self.noted[what] += 1
