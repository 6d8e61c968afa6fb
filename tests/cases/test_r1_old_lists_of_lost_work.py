"""Of two recovery passes the slower one, with its older list, executed a run that the faster one had handed back.

It acted on what it had read before its claim failed (dbos-inc/dbos-transact-py#742). Here each thing on a sweeper's
list is named as it was read, by token or by score, and a call about something that has moved on changes nothing.
"""

from __future__ import annotations

import random
from typing import Any

from tests.cases.flows import END, ToWorker, flow, found, step
from tests.support.inline_worker import InlineWorker
from tests.support.stores import MemoryCase, Sent, StoreCase
from wf_core.models import Workflow
from wf_core.run_state import RuntimeContext
from wf_worker.store.protocol import Claim
from wf_worker.sweeper import Receipts, Sweeper

ONE_STEP = flow("one", [step("one", "work", None, "state.v")], [("one", "ok", END)], state={"v": {}}, gives={"v": {}})
ROUNDS = 1_000


class Passes:
    """Two sweepers and a worker on one store in memory; what each attempt executed is noted."""

    def __init__(self, case: MemoryCase, digest: str, seed: int) -> None:
        self.case = case
        self.chance = random.Random(seed)
        self.attempts: list[int] = []
        self.worker = InlineWorker(case.store, {"work": self.work})
        self.sweepers = [self.sweeper(), self.sweeper()]
        self.chance.shuffle(self.sweepers)
        self.created = case.store.create(case.store.new_run(f"run {seed}", digest, {}, max_steps=9))

    def sweeper(self) -> Sweeper:
        return Sweeper(self.case.store, ToWorker(self.worker), Receipts())

    def work(self, _payload: dict[str, Any], context: RuntimeContext) -> dict[str, Any]:
        self.attempts.append(getattr(context, "attempt", 0))
        return {"value": "done"}

    def slow_pass(self) -> None:
        """One sweeper has read what is due, and stops; the other one makes a whole pass; the first one goes on."""
        slow, fast = self.sweepers

        def between(sent: Sent) -> None:
            if sent[0] != "due":
                return
            self.case.records.after = lambda _sent: None
            self.case.clock.advance(11_000)
            fast.sweep()
            if self.chance.random() < 0.5:
                self.worker.drain()

        self.case.records.after = between
        slow.sweep()
        self.worker.drain()


def test_a_thousand_times_a_slow_pass_executes_nothing_twice(memory_case: MemoryCase) -> None:
    digest = memory_case.store.publish(Workflow.model_validate(ONE_STEP)).digest
    with memory_case.unaudited():
        for seed in range(ROUNDS):
            passes = Passes(memory_case, digest, seed)
            store, run = memory_case.store, passes.created.incarnation
            lost = seed % 2 == 0
            if lost:
                claim = store.claim(passes.created.ready[0], owner="dead")
                assert isinstance(claim, Claim)
            memory_case.clock.advance(40_000)

            passes.slow_pass()

            record = found(store, run)
            assert (record.status, record.output) == ("completed", {"v": "done"}), seed
            assert passes.attempts == ([2] if lost else [1]), seed
            assert (record.recovered_frames, record.trace_count) == (int(lost), 1), seed


def test_an_old_list_changes_nothing_once_somebody_has_acted_on_it(case: StoreCase) -> None:
    store = case.new_store(lease_ms=0)
    digest = store.publish(Workflow.model_validate(ONE_STEP)).digest
    created = store.create(store.new_run("run", digest, {}, max_steps=9))
    dead = store.claim(created.ready[0], owner="dead")
    assert isinstance(dead, Claim)
    old = store.due(created.incarnation)
    assert old is not None and len(old.expired) == 1

    [(frame, token)] = old.expired
    word, [message] = store.lost(created.incarnation, frame, token)
    second = store.claim(message, owner="alive")
    assert (word, isinstance(second, Claim)) == ("lost", True)
    before = case.contents()

    for frame, token in old.expired * 10:
        assert store.lost(created.incarnation, frame, token) == ("stale", ())
    assert store.republish(created.incarnation, frame, "1", look_ms=5, send=True) == ("refused", ())
    assert not isinstance(store.claim(message, owner="slow"), Claim)
    assert case.contents() == before
