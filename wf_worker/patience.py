"""Waiting, with a claim or a result in hand, for a store that takes no calls now.

A store that is full refuses a call before it writes anything. That is back-pressure: whoever was refused waits and
calls again, and nothing that was worked out is lost. One that cannot be reached is called again for as long as a lease:
after that somebody else may have taken the work up.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final, TypeVar

from wf_worker.errors import StoreUnavailable

log = logging.getLogger("wf.steps")

T = TypeVar("T")

FIRST_PAUSE: Final = 0.1
LAST_PAUSE: Final = 2.0


def patiently(call: Callable[[], T], *, lease_ms: int) -> T:
    """The answer of a call that may be made again, or the error of a store that stayed away for a whole lease."""
    pause, away_since = FIRST_PAUSE, None
    while True:
        try:
            return call()
        except StoreUnavailable as error:
            if error.code == "store_full":
                away_since = None
            else:
                away_since = time.monotonic() if away_since is None else away_since
                if time.monotonic() - away_since > lease_ms / 1000:
                    raise
            log.warning("waiting for the store: %s", error)
        time.sleep(pause)
        pause = min(LAST_PAUSE, 2 * pause)
