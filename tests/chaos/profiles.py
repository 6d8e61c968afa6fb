"""How much of what: the mixtures of shapes and disturbances that can be asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True)
class Profile:
    """One mixture. Intervals are mean seconds between two disturbances of a kind; the actual ones are drawn."""

    workers: int = 4
    customers: int = 40
    shapes: Mapping[str, int] = field(default_factory=lambda: {"random_flow": 12, "wide_loop": 1})
    """How often each shape is drawn, relative to the others."""
    every_seconds: Mapping[str, float] = field(
        default_factory=lambda: {
            "kill": 7,
            "stop": 20,
            "cut": 9,
            "lose_replies": 7,
            "slow": 20,
            "outage": 45,
            "flush": 20,
            "restart": 60,
            "flush_scripts": 30,
        }
    )
    lease_seconds: float = 3
    sweep_seconds: float = 0.3
    retention_seconds: int = 60
    """Also how long idempotency keys are kept. Longer than any customer is cut off from its run."""
    settle_seconds: float = 150
    """How long after the last disturbance every run must have ended."""
    kills_per_minute: float = 6.0
    """Fewer make the whole of it a failure: nothing was shown."""
    restarts: int = 1

    def settings(self) -> dict[str, str]:
        """The settings of API and workers."""
        return {
            "WF_LEASE_SECONDS": str(self.lease_seconds),
            "WF_SWEEP_SECONDS": str(self.sweep_seconds),
            "WF_RETENTION_SECONDS": str(self.retention_seconds),
            "WF_IDEMPOTENCY_SECONDS": str(self.retention_seconds),
            "WF_MAX_STEPS": "100000",
            "WF_MAX_LOSSES": "1000",  # here workers die for no fault of a step
        }


PROFILES: Final[Mapping[str, Profile]] = {
    "full": Profile(),
    "smoke": Profile(
        workers=3,
        customers=6,
        shapes={"random_flow": 1},
        every_seconds={"kill": 5, "stop": 9, "cut": 4, "lose_replies": 3, "slow": 9, "flush": 7, "restart": 9},
        lease_seconds=1.5,
        sweep_seconds=0.2,
        retention_seconds=15,
        kills_per_minute=6.0,
    ),
}
