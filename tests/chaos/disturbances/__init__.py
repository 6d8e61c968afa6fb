"""What happens to an installation: each disturbance is a function of it and of a random source.

It may take as long as it lasts; those of one kind never overlap, and when it returns the disturbance is over. It says
in a few words what it did. A new one is a function like those in :data:`DISTURBANCES`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Final

from tests.chaos.disturbances import network, processes, servers
from tests.chaos.installation import Installation

Disturbance = Callable[[Installation, random.Random], str]

DISTURBANCES: Final[Mapping[str, Disturbance]] = {
    "kill": processes.kill,
    "stop": processes.stop,
    "cut": network.cut,
    "lose_replies": network.lose_replies,
    "slow": network.slow,
    "outage": network.outage,
    "flush": servers.flush_broker,
    "restart": servers.restart_store,
    "flush_scripts": servers.flush_scripts,
}

__all__ = ["DISTURBANCES", "Disturbance"]
