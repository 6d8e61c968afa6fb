"""Durability: what of an acknowledged change survives a crash of the store's server.

    memory          nothing is promised
    everysec        a crash of the process loses nothing as a rule, one of the machine about two seconds
    always          nothing that was acknowledged, if the disk keeps its word
    replicated(n)   what was acknowledged is on n replicas: a failover to one of them keeps it

The first three are the server's own settings, which are compared with what is asked for when a process starts. The last
one is waited for, by every call of the API that somebody gets an answer to.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, Self

Level = Literal["memory", "everysec", "always", "replicated"]
_FSYNC: Final = ("everysec", "always")
MAX_REPLICAS: Final = 9


@dataclass(frozen=True, slots=True)
class Durability:
    """A level; ``replicas`` is how many have to confirm, 0 unless the level is ``replicated``."""

    level: Level = "memory"
    replicas: int = 0

    @classmethod
    def parse(cls, text: str) -> Self:
        """The level that a text names; ``ValueError`` for any other."""
        match text:
            case "memory" | "everysec" | "always":
                return cls(text)
            case _:
                found = re.fullmatch(rf"replicated\(([1-{MAX_REPLICAS}])\)", text)
                if found is None:
                    raise ValueError("durability is one of: memory, everysec, always, replicated(1)")
                return cls("replicated", int(found[1]))

    def covers(self, other: Durability) -> bool:
        """Whether everything that ``other`` promises holds where this one does."""
        if other.level == "memory":
            return True
        if self.level in _FSYNC and other.level in _FSYNC:
            return _FSYNC.index(self.level) >= _FSYNC.index(other.level)
        return self.level == other.level and self.replicas >= other.replicas

    def __str__(self) -> str:
        return f"replicated({self.replicas})" if self.level == "replicated" else self.level
