"""What the workers serve: the one handler of the random workflows, made slow now and then.

How long it takes depends on what it is asked, so that a repeated attempt takes as long. Some take longer than a lease:
then a claim has to be renewed, and whoever is killed or stopped is in the midst of it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any, Final

from tests.support.random_flows import digest, note
from wf_core.run_state import RuntimeContext

LEASE_SECONDS: Final = float(os.environ.get("WF_LEASE_SECONDS", "3"))


def slow_note(payload: dict[str, Any], ctx: RuntimeContext) -> dict[str, Any]:
    """:func:`note`, after 5 to 20 ms; one in 200 takes more than a lease."""
    lot = int(digest(payload), 16)
    time.sleep(1.3 * LEASE_SECONDS if lot % 200 == 0 else 0.005 + lot % 16 / 1000)
    return note(payload, ctx)


registry: dict[str, Callable[..., Any]] = {"note": slow_note}
