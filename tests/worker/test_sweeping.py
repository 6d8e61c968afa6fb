"""Lost work is found, an honest backlog is left alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import pytest

from tests.support import jobs
from wf_worker.handlers import build_handlers
from wf_worker.leases import LeaseKeeper
from wf_worker.queues import queue_name
from wf_worker.step_runner import StepEnd, StepRunner
from wf_worker.store.keys import Keys
from wf_worker.store.memory import MemoryRecords
from wf_worker.store.protocol import Claim, Ready, UnclaimedFrame
from wf_worker.store.runs import RunStore
from wf_worker.sweeper import BACKSTOP_MS, FIRST_LOOK_MS, LAST_UNSERVED_MS, LATER_BY_MS, Receipts, Sweeper, judge


@dataclass
class Queue:
    """A broker that can lose what it is given."""

    sent: list[Ready] = field(default_factory=list[Ready])

    def publish(self, ready: Iterable[Ready]) -> None:
        self.sent.extend(ready)

    def queue_of(self, queue: str | None, priority: str) -> str:
        return queue_name(queue or "wf", priority)

    def queue_is_empty(self, name: str) -> bool:
        return not any(self.queue_of(each.queue, each.priority) == name for each in self.sent)


class World:
    """A store in memory with its own clock, one worker and one sweeper."""

    def __init__(self) -> None:
        self.now_ms = 1_700_000_000_000
        keys = Keys()
        self.records = MemoryRecords(keys, clock=lambda: self.now_ms)
        self.store = RunStore(self.records, keys, lease_ms=30_000)
        self.queue = Queue()
        self.receipts = Receipts()
        self.sweeper = Sweeper(self.store, self.queue, self.receipts)  # type: ignore[arg-type]
        handlers = build_handlers(jobs.NODES)
        self.runner = StepRunner(self.store, handlers, self.queue, LeaseKeeper(self.store), "worker")  # type: ignore[arg-type]

    def start(self, numbers: list[int], run_id: str = "run") -> str:
        published = self.store.publish(jobs.squares().compile())
        new = self.store.new_run(run_id, published.digest, {"numbers": numbers}, max_steps=1_000)
        # A store whose clock is not ours refuses a submit that seems late, once; then it knows the difference.
        created = self.store.create(new)
        self.queue.publish(created.ready)
        return created.incarnation

    def drain(self) -> None:
        while self.queue.sent:
            self.runner.run(self.queue.sent.pop(0))

    def status(self, incarnation: str) -> str:
        record = self.store.inspect(incarnation)
        assert record is not None
        return record.status


@pytest.fixture
def world() -> World:
    return World()


def test_a_message_that_was_lost_is_sent_again_after_the_first_look(world: World) -> None:
    run = world.start([1, 2])
    world.queue.sent.clear()

    world.sweeper.sweep()
    assert world.queue.sent == []
    world.now_ms += FIRST_LOOK_MS + 1
    world.sweeper.sweep()
    world.drain()

    assert world.status(run) == "completed"


def test_a_run_finishes_although_every_message_is_lost_once(world: World) -> None:
    run = world.start([1, 2, 3])
    for _ in range(100):
        world.queue.sent.clear()
        world.now_ms += 11_000
        world.sweeper.sweep()
        if world.queue.sent:
            world.runner.run(world.queue.sent.pop(0))
        if world.status(run) == "completed":
            break

    record = world.store.inspect(run)
    assert record is not None
    assert record.output == {"lines": ["1", "2", "3"], "total": 14}


def test_the_frame_of_a_dead_worker_is_taken_up_when_its_lease_is_over(world: World) -> None:
    run = world.start([5])
    world.runner.run(world.queue.sent.pop(0))
    world.runner.run(world.queue.sent.pop(0)) if len(world.queue.sent) > 1 else None
    claim = world.store.claim(world.queue.sent.pop(0), owner="dead")
    assert isinstance(claim, Claim)

    world.now_ms += 29_000
    assert world.sweeper.sweep().recovered == 0
    world.now_ms += 12_000
    assert world.sweeper.sweep().recovered == 1
    world.drain()

    assert world.status(run) == "completed"
    assert world.store.renew(claim) == "stale"


def test_a_claim_from_before_the_recovery_cannot_commit(world: World) -> None:
    world.start([5])
    world.runner.run(world.queue.sent.pop(0))
    message = world.queue.sent.pop(0)
    frozen = world.store.claim(message, owner="frozen")
    assert isinstance(frozen, Claim)
    world.now_ms += 60_000
    world.sweeper.sweep()

    assert world.runner.run(message) is StepEnd.REFUSED


def unclaimed(age_ms: int, looks: int, now_ms: int = 10**12) -> UnclaimedFrame:
    return UnclaimedFrame("f", "0", now_ms - age_ms, looks, "work", None, "normal")


def test_an_empty_queue_says_that_the_message_is_lost() -> None:
    assert judge(unclaimed(5_000, 0), 10**12, queue_empty=True, newest_received_ms=0) == (True, FIRST_LOOK_MS)


def test_a_message_received_that_was_sent_clearly_later_says_the_same() -> None:
    frame = unclaimed(20_000, 0)

    assert judge(frame, 10**12, queue_empty=False, newest_received_ms=frame.since_ms + LATER_BY_MS)[0]
    assert not judge(frame, 10**12, queue_empty=False, newest_received_ms=frame.since_ms + LATER_BY_MS - 1)[0]


def test_a_backlog_is_looked_at_in_growing_intervals_and_never_amplified() -> None:
    frame_age, sent, looks = 0, 0, []
    while frame_age < 2 * BACKSTOP_MS - 1:
        send, look_ms = judge(unclaimed(frame_age, len(looks)), 10**12, queue_empty=False, newest_received_ms=0)
        sent += send
        looks.append(look_ms)
        frame_age += look_ms

    assert sent <= 1
    assert looks[:4] == [5_000, 5_000, 10_000, 20_000]
    assert max(looks[:-1]) <= 600_000


def test_an_idle_node_finds_a_lost_message_although_its_next_look_is_minutes_away(world: World) -> None:
    run = world.start([])
    world.sweeper.queues = ("wf",)
    for _ in range(30):  # an honest backlog of five minutes: the frame is looked for less and less often
        world.now_ms += 10_000
        assert world.sweeper.sweep().republished == 0
        assert world.sweeper.look_ahead().republished == 0
    world.queue.sent.clear()

    world.now_ms += 1_000
    assert world.sweeper.sweep().republished == 0
    assert world.sweeper.look_ahead().republished == 1
    world.drain()
    assert world.status(run) == "completed"


def test_an_idle_node_does_not_send_again_what_became_due_just_now(world: World) -> None:
    world.start([])
    world.sweeper.queues = ("wf",)
    world.queue.sent.clear()

    assert world.sweeper.look_ahead().republished == 0


def test_a_sweeper_goes_on_with_everything_whose_time_has_come(world: World) -> None:
    count = 150
    published = world.store.publish(jobs.resting(60).compile())
    late = {"numbers": list(range(count)), "due": "2001-01-01T00:00:00Z"}
    created = world.store.create(world.store.new_run("run", published.digest, late, max_steps=1_000))
    world.queue.publish(created.ready)
    world.drain()
    assert world.store.waits_until(created.incarnation) == world.now_ms + 60_000

    fired = 0
    for _ in range(count // 4 + 1):
        assert world.sweeper.sweep().fired == 0
        world.now_ms += 60_000
        fired += world.sweeper.sweep().fired
        world.drain()

    assert (world.status(created.incarnation), fired) == ("completed", count)


def test_a_message_of_another_queue_says_nothing_about_this_one(world: World) -> None:
    world.start([1])
    lost = world.queue.sent.pop()
    world.receipts.saw("wf.high", world.now_ms + 60_000)
    world.queue.sent.append(replace(lost, revision="stale"))  # the frame's own queue is not empty
    world.now_ms += FIRST_LOOK_MS + 1

    assert world.sweeper.sweep().republished == 0
    world.receipts.saw("wf", world.now_ms + 60_000)
    world.now_ms += FIRST_LOOK_MS + 1
    assert world.sweeper.sweep().republished == 1


def test_a_step_that_no_living_worker_serves_is_parked_and_not_sent_again(world: World) -> None:
    run = world.start([1])
    world.runner.run(world.queue.sent.pop(0))  # opens the loop
    world.queue.sent.clear()
    world.store.announce("other", ["something else"], ["wf"])

    for _ in range(3):
        world.now_ms += FIRST_LOOK_MS + 1
        assert world.sweeper.sweep().republished == 0
    assert world.store.parked(run) == {"square": 1}

    world.store.announce("one", ["square"], ["wf"])
    world.now_ms += LAST_UNSERVED_MS
    assert world.sweeper.sweep().republished == 1
    assert world.store.parked(run) == {}
    world.drain()
    assert world.status(run) == "completed"


def test_a_queue_that_no_worker_takes_messages_of_is_named(world: World) -> None:
    run = world.start([1])
    world.runner.run(world.queue.sent.pop(0))  # opens the loop
    world.store.announce("one", ["square"], ["wf.low"])

    world.now_ms += FIRST_LOOK_MS + 1
    world.sweeper.sweep()

    assert world.store.parked(run) == {"square (queue wf)": 1}


def test_a_run_of_a_newer_release_is_left_to_workers_that_know_its_records(world: World) -> None:
    run, other = world.start([1]), world.start([2], "other")
    header = world.records.contents.runs[run].header
    header["layout"] = b"2"
    ends = {world.runner.run(message) for message in world.queue.sent if message.incarnation == run}
    world.queue.sent = [message for message in world.queue.sent if message.incarnation == other]
    world.drain()
    world.now_ms += FIRST_LOOK_MS + 1
    world.sweeper.wake_parked(["anything"])
    world.sweeper.sweep()

    assert ends == {StepEnd.LEFT}
    assert (world.queue.sent, world.status(other)) == ([], "completed")
    header["layout"] = b"1"  # what a process of that release sees
    world.now_ms += 11_000
    world.sweeper.sweep()
    world.drain()
    assert world.status(run) == "completed"
