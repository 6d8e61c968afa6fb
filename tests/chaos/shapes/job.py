"""One job: what to publish, what to start it with, and how it must end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from tests.support.history import local_trace, sequential, trace_of
from tests.support.random_flows import out_of_order
from wf_api.wire import RunView, TraceEntryView
from wf_core.models import Workflow
from wf_core.run_state import RunState

UNLUCKY: Final = "unlucky"
"""What the handler says that makes a random workflow fail."""


@dataclass
class Job:
    """A workflow with those that it enters, and an input. The expected end is worked out when the job is made."""

    workflow: Workflow
    workflow_input: dict[str, Any]
    children: Mapping[str, Workflow] = field(default_factory=dict[str, Workflow])
    most: int = 5_000
    """The budget of steps for the run in memory."""
    expected: RunState | None = field(init=False)
    """The run in memory; None where it fails."""
    too_long: bool = field(init=False)
    """Whether the run in memory came to the end of its budget: nothing is known then of how the job must end."""

    def __post_init__(self) -> None:
        run = sequential(self.workflow, self.workflow_input, self.children, most=self.most)
        self.expected = None if isinstance(run, str) else run
        self.too_long = isinstance(run, str) and UNLUCKY not in run

    def faults(self, run: RunView, trace: Sequence[TraceEntryView]) -> list[str]:
        """What is wrong with an ended run."""
        if self.expected is None:
            error = run["error"]
            right = run["status"] == "failed" and error is not None and UNLUCKY in error["message"]
            return [] if right else [f"ended {run['status']} ({error}) instead of failing"]
        found: list[str] = []
        if (run["status"], run["outcome"]) != ("completed", self.expected.outcome):
            found.append(f"ended {run['status']} with outcome {run['outcome']} ({run['error']})")
            return found
        if run["output"] != self.expected.output:
            found.append(f"output {run['output']!r} instead of {self.expected.output!r}")
        elif (line := out_of_order(run["output"].get("log", []))) is not None:
            found.append(f"line out of order: {line}")
        counted = [entry for entry in cast("list[dict[str, Any]]", list(trace)) if entry.get("discarded") is None]
        seen, known = trace_of(counted), self.expected_trace()
        if seen != known:
            more, missing = list((seen - known).elements()), list((known - seen).elements())
            found.append(f"trace has {more[:2]} too much and lacks {missing[:2]} ({len(more)}, {len(missing)})")
        return found

    def expected_trace(self) -> Counter[str]:
        """The trace of the run in memory, as a multiset."""
        assert self.expected is not None
        return trace_of(local_trace(self.expected))
