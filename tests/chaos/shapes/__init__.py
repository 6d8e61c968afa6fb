"""What is run: each shape makes workflows, an input, and what must come of them.

A new shape is a module with a function like those in :data:`SHAPES`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Final

from tests.chaos.shapes import random_flow, wide_loop
from tests.chaos.shapes.job import Job

SHAPES: Final[Mapping[str, Callable[[random.Random], Job]]] = {
    "random_flow": random_flow.make,
    "wide_loop": wide_loop.make,
}

__all__ = ["SHAPES", "Job"]
