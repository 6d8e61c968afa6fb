"""Names of queues: where the steps of a capability wait for workers."""

from __future__ import annotations

import re
from typing import Annotated, Final, TypeAlias

from pydantic import AfterValidator

PRIORITY_SUFFIXES: Final = (".high", ".low")
"""What the engine puts behind a queue's name for a run that is more or less urgent than others."""


def check_queue(name: str) -> str:
    """The name itself; ``ValueError`` when it cannot be that of a queue."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}", name):
        raise ValueError("a queue name holds letters, digits, '_', '.', '-', 100 at most")
    if name.endswith(PRIORITY_SUFFIXES):
        raise ValueError(f"a queue name may not end in {' or '.join(PRIORITY_SUFFIXES)}: a run's priority adds that")
    return name


QueueName: TypeAlias = Annotated[str, AfterValidator(check_queue)]
