"""What a worker does with messages, in a line or two: claim, let the kernel decide, commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.support.stores import StoreCase
from wf_core.models import Workflow
from wf_core.runtime import kernel
from wf_core.runtime.kernel import Walk
from wf_core.runtime.transition import Purpose, Transition
from wf_worker.store.protocol import Claim, CommitStatus, Committed, Ready, Refusal, Refused
from wf_worker.store.runs import RunStore

Chooses = Callable[[Claim], str]
"""Says of a claimed handler step which outcome it will have."""


def always_ok(_claim: Claim) -> str:
    """Every step succeeds."""
    return "ok"


@dataclass
class Driver:
    """A run with a worker for it. ``refusals`` collects why messages were refused."""

    case: StoreCase
    store: RunStore
    incarnation: str
    digest: str
    ready: tuple[Ready, ...]
    refusals: list[Refused] = field(default_factory=list)

    # ---- one step at a time

    def claim(self, ready: Ready, **more: Any) -> Claim:
        """A claim that must be granted."""
        claim = self.store.claim(ready, owner="worker", **more)
        assert isinstance(claim, Claim), claim
        return claim

    def transition(
        self, claim: Claim, outcome: str = "ok", *, error: Exception | None = None, left: int | None = None
    ) -> Transition:
        """What the kernel makes of a claim whose handler ends so."""
        program = self.store.program(self.digest)
        walk = Walk(max_steps=claim.view.max_steps, steps_left=left)

        def rule(view: Any) -> Transition:
            if claim.denied:
                return kernel.deny(program, view, claim.frame_id, walk=walk)
            if error is not None:
                return kernel.fail_or_retry(
                    program, view, claim.frame_id, error, failures=claim.failures, chance=1.0, walk=walk
                )
            match claim.purpose:
                case Purpose.STEP:
                    call = kernel.prepare(program, view, claim.frame_id)
                    raw = {"outcome": outcome, "output": {"value": str(call.handler_payload().get("value"))}}
                    return kernel.complete(program, view, call, raw, number=claim.step or 0, walk=walk)
                case Purpose.OPEN:
                    return kernel.open_foreach(program, view, claim.frame_id, walk=walk)
                case Purpose.FINISH:
                    return kernel.finish_foreach(program, view, claim.frame_id, walk=walk)
                case Purpose.EXPIRED:
                    return kernel.expire(program, view, claim.frame_id, number=claim.step or 0, walk=walk)
                case Purpose.ELAPSED:
                    return kernel.elapse(program, view, claim.frame_id, number=claim.step or 0, walk=walk)
                case _:
                    return kernel.walk_on(program, view, claim.frame_id, walk=walk)

        decided = self.store.decide(claim, rule)
        assert isinstance(decided, Transition), decided
        return decided

    def commit(self, claim: Claim, outcome: str = "ok", **more: Any) -> Committed:
        """Ends a claim."""
        return self.store.commit(claim, self.transition(claim, outcome), **more)

    def finish(self, claim: Claim, outcome: str = "ok", *, error: Exception | None = None) -> tuple[Ready, ...]:
        """Ends a claim as a worker would; the messages to send."""
        committed = self.store.commit(claim, self.transition(claim, outcome, error=error))
        assert committed.status is CommitStatus.DONE, committed
        return committed.ready

    def work(self, ready: Ready, chooses: Chooses = always_ok) -> tuple[Ready, ...]:
        """Deals with one message."""
        claim = self.store.claim(ready, owner="worker")
        if isinstance(claim, Refusal):
            self.refusals.append(claim.reason)
            return claim.ready
        return self.finish(claim, chooses(claim))

    def drain(self, ready: Iterable[Ready] | None = None, chooses: Chooses = always_ok) -> int:
        """Deals with messages, and with those they bring forth, until none is left. How many there were."""
        queue, count = list(self.ready if ready is None else ready), 0
        while queue:
            queue += self.work(queue.pop(0), chooses)
            count += 1
        return count

    # ---- looking

    @property
    def status(self) -> str:
        """The run's status."""
        found = self.store.inspect(self.incarnation)
        assert found is not None
        return found.status

    def places(self) -> dict[str, int]:
        """How many frames stand at each place."""
        counts: dict[str, int] = {}
        reply = self.case.records.inner.call("audit", self.incarnation, "look")
        for text in reply[2][1::2]:
            place = text.decode().split("|")[0]
            counts[place] = counts.get(place, 0) + 1
        return counts

    def numbers(self) -> list[int]:
        """The open interrupts."""
        return [opened.number for opened in self.store.interrupts(self.incarnation)]

    def answer(self, number: int | None = None, **more: Any) -> tuple[Ready, ...]:
        """Answers an open interrupt, the oldest by default."""
        if number is None:
            number = self.numbers()[0]
        return self.store.resume(self.incarnation, number, {}, "submitted", digest=self.digest, **more)


def start(
    case: StoreCase,
    workflow: Workflow,
    workflow_input: dict[str, Any] | None = None,
    *,
    run_id: str = "run",
    max_steps: int = 10_000,
    extras: dict[str, str] | None = None,
    **more: Any,
) -> Driver:
    """A new run."""
    store = case.new_store(**more) if more else case.store
    digest = store.publish(workflow).digest
    given = {"value": "x"} if workflow_input is None else workflow_input
    created = store.create(store.new_run(run_id, digest, given, max_steps=max_steps, extras=extras or {}))
    assert created.created
    return Driver(case, store, created.incarnation, digest, created.ready)


def asks_about(*indexes: int) -> Chooses:
    """The steps of these items ask; all others succeed."""
    names = {str(index) for index in indexes}
    return lambda claim: "ask" if claim.frame.rpartition(":")[2] in names else "ok"
