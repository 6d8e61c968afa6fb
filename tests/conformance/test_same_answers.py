"""The store in memory and the scripts answer alike: one random walk, taken over both at once."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.driving import Driver, start
from tests.conformance.workflows import each, each_rests, items, line, nested
from tests.support.stores import FAKE, MEMORY, VALKEY, StoreCase, counted_ids
from wf_core.errors import WfError
from wf_core.models import Workflow
from wf_worker.store.protocol import Claim, Committed, Ready, Refusal

Build = Callable[[str], StoreCase]

WORKFLOWS: dict[str, tuple[Callable[[], Workflow], dict[str, Any]]] = {
    "line": (line, {"value": "x"}),
    "quiesce": (lambda: each(active=3, outstanding=5, follow_up=True), items(9)),
    "continue": (lambda: each(active=2, outstanding=4, interrupt="continue", follow_up=True), items(9)),
    "waits": (lambda: each_rests(active=3, until="2001-01-01T00:00:00Z"), items(9)),
    "far waits": (lambda: each_rests(active=3, until="2100-01-01T00:00:00Z"), items(9)),
    "skip": (lambda: each(active=3, item_error={"action": "skip"}), items(9)),
    "staged": (lambda: each(active=4), items(70)),
    "nested": (lambda: nested(outer="continue", inner="quiesce"), items(3, 4)),
    "nested continue": (lambda: nested(outer="quiesce", inner="continue"), items(3, 4)),
}
MIX = (
    "claim " * 9
    + "commit " * 9
    + "repeat give_back lost renew pause resume resume release due fire unpark republish load cancel"
)
STEPS = 130


class Walker:
    """One of the stores on the walk, with what it was told: messages by frame, claims, commits."""

    def __init__(self, case: StoreCase, workflow: Workflow, workflow_input: dict[str, Any]) -> None:
        self.case = case
        self.run: Driver = start(
            case, workflow, workflow_input, lease_ms=0, max_losses=1, max_steps=60, new_id=counted_ids()
        )
        self.messages: dict[str, Ready] = {}
        self.claims: dict[str, Claim] = {}
        self.committed: dict[str, tuple[Claim, Any]] = {}
        self.told(self.run.ready)

    def told(self, ready: tuple[Ready, ...]) -> list[tuple[str, str]]:
        """Frames that are due now. Several that are released at once may come in the order of the clock."""
        self.messages.update({message.frame: message for message in ready})
        return sorted((message.frame, message.node) for message in ready)

    def frames(self) -> list[str]:
        """Frames a message was ever sent for."""
        return sorted(self.messages)

    # ---- the moves; each gives what must be the same everywhere

    def claim(self, frame: str, _outcome: str) -> Any:
        answer = self.run.store.claim(self.messages[frame], owner="worker")
        if isinstance(answer, Refusal):
            return answer.reason, self.told(answer.ready)
        self.claims[frame] = answer
        frame_body = answer.view.own
        return (
            answer.purpose,
            answer.step,
            answer.attempt,
            answer.losses,
            answer.denied,
            frame_body.id,
            frame_body.node_id,
        )

    def commit(self, frame: str, outcome: str) -> Any:
        claim = self.claims.pop(frame, None)
        if claim is None:
            return None
        try:
            error = ValueError("broken") if outcome == "error" else None
            transition = self.run.transition(claim, "ok" if error else outcome, error=error)
        except AssertionError:  # what it reads was refused
            return "refused"
        self.committed[frame] = (claim, transition)
        return self.ended(self.run.store.commit(claim, transition, call_id=f"commit-{claim.token}"))

    def repeat(self, frame: str, _outcome: str) -> Any:
        if frame not in self.committed:
            return None
        claim, transition = self.committed[frame]
        return self.ended(self.run.store.commit(claim, transition, call_id=f"commit-{claim.token}"))

    def ended(self, committed: Committed) -> Any:
        return committed.status, committed.reason, committed.left, self.told(committed.ready)

    def give_back(self, frame: str, outcome: str) -> Any:
        claim = self.claims.pop(frame, None)
        unserved = "work" if outcome == "ask" else ""
        return None if claim is None else self.told(self.run.store.give_back(claim, unserved=unserved))

    def unpark(self, _frame: str, _outcome: str) -> Any:
        count, ready = self.run.store.unpark(self.run.incarnation, ["work"])
        return count, self.told(ready), self.run.store.parked(self.run.incarnation)

    def lost(self, frame: str, _outcome: str) -> Any:
        if frame not in self.claims:
            return None
        word, ready = self.run.store.lost(self.run.incarnation, frame, self.claims[frame].token)
        return word, self.told(ready)

    def renew(self, frame: str, _outcome: str) -> Any:
        return None if frame not in self.claims else self.run.store.renew(self.claims[frame])

    def load(self, frame: str, _outcome: str) -> Any:
        claim = self.claims.get(frame)
        if claim is None:
            return None
        scope = claim.view.head(claim.frame_id).scope
        wants: list[str | int] = ["input", scope, "state", scope, 1, "last"]
        if ":" in frame:
            wants += ["item", frame, "results", frame.partition(":")[0], 0, 5]
        count = 4 if ":" in frame else 2
        return self.case.records.call("load", claim.incarnation, "load", frame, claim.token, count, *wants)[:2]

    def pause(self, _frame: str, outcome: str) -> Any:
        word, ready = self.run.store.pause(self.run.incarnation, on=outcome == "ask")
        return word, self.told(ready)

    def release(self, _frame: str, _outcome: str) -> Any:
        return self.told(self.run.store.release(self.run.incarnation))

    def resume(self, frame: str, outcome: str) -> Any:
        numbers = self.run.numbers() or [2]
        number = numbers[len(frame) % len(numbers)]
        try:
            return number, self.told(self.run.answer(number, idempotency_key=outcome))
        except WfError as refused:
            return number, refused.code

    def republish(self, frame: str, _outcome: str) -> Any:
        return self.run.store.republish(self.run.incarnation, frame, "1", look_ms=0, send=True)

    def fire(self, _frame: str, _outcome: str) -> Any:
        count, ready = self.run.store.fire(self.run.incarnation)
        return count, self.told(ready)

    def due(self, _frame: str, _outcome: str) -> Any:
        due = self.run.store.due(self.run.incarnation)
        assert due is not None
        return due.status, due.release, due.elapsed, sorted(due.expired), due.unclaimed

    def cancel(self, frame: str, outcome: str) -> Any:
        # Rarely, or every walk would end at once.
        return self.run.store.cancel(self.run.incarnation) if (outcome, frame[-1:]) == ("error", "7") else None

    def records(self) -> Any:
        """The run as it stands, apart from times and from the order in which equals were released."""
        reply = self.case.records.inner.call("audit", self.run.incarnation, "look")
        header = dict(zip(reply[1][::2], reply[1][1::2], strict=True))
        for name in (b"created", b"updated", b"ended", b"rev", b"paused_at"):
            header.pop(name, None)
        heads = {
            key: [word for at, word in enumerate(text.split(b"|")) if at not in (2, 15, 18, 19)]
            for key, text in zip(reply[2][::2], reply[2][1::2], strict=True)
        }
        sets = [sorted(members) for members in reply[3:9]]
        counts = sorted(zip(*[iter(reply[12])] * 3, strict=True))
        sets.append(sorted(reply[13]))
        return header, heads, sets, sorted(reply[9][::2]), sorted(reply[10]), sorted(reply[11][::2]), counts


@pytest.mark.parametrize("name", WORKFLOWS)
@pytest.mark.parametrize(("other", "seed"), [*((VALKEY, seed) for seed in range(6)), (FAKE, 6)])
def test_a_random_walk_is_answered_alike_by_the_store_in_memory_and_by_the_scripts(
    build: Build, name: str, other: str, seed: int
) -> None:
    made, workflow_input = WORKFLOWS[name]
    walkers = [Walker(build(kind), made(), workflow_input) for kind in (MEMORY, other)]
    chance = random.Random(f"{name}/{seed}")

    for at in range(STEPS):
        move, outcome = chance.choice(MIX.split()), chance.choice(("ok", "ok", "ok", "ok", "ask", "error"))
        first, second = (walker.frames() for walker in walkers)
        assert first == second
        pool = sorted(walkers[0].claims) if move != "claim" and walkers[0].claims and chance.random() < 0.8 else first
        frame = chance.choice(pool)

        answers = [getattr(walker, move)(frame, outcome) for walker in walkers]

        assert answers[0] == answers[1], f"step {at}: {move} {frame}"
        states = [walker.records() for walker in walkers]
        assert states[0] == states[1], f"step {at}: {move} {frame}"
