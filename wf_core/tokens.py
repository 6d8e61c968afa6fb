"""The two reserved step names of a workflow graph."""

from typing import Final

START: Final = "__start__"
"""Reserved for outer layers; in a workflow it is neither an edge source nor a target."""

END: Final = "__end__"
"""Only an edge target: it is no step, has no frame and consumes no step of the budget."""
