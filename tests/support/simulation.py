"""The real engine over a simulated broker and clock, in one thread, driven by a seed. See docs/simulation.md.

Real are the Celery task, the step runner, the dispatcher, the sweeper, the service behind the API, the kernel and the
store's scripts. Each thing that one of them does is an activity (:mod:`tests.support.tapes`) that may stop between any
two of its calls: then others go on, it crashes, or it stays frozen past its lease and comes back. Messages are
delivered in any order, twice, late or never; answers of the store get lost and calls are sent again, or much later once
more; the store loses its last writes while workers, messages and people stay in the future that it has lost. What
happens is a function of the seed alone.
"""

from __future__ import annotations

import json
import random
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Final

from tests.support.history import START_MS, compare, sequential, steps_of, widened
from tests.support.invariants import EFFECTS, Invariants, Sent
from tests.support.patching import patched
from tests.support.random_flows import FlowMaker, answer, note
from tests.support.simulated_parts import (
    Broker,
    Message,
    OncePerPass,
    Outside,
    SimulatedCelery,
    SimulatedHandlers,
    SimulatedLeases,
    TapedItems,
    fields_kept,
    small_limits,
)
from tests.support.simulated_places import MemoryPlace, Place
from tests.support.tapes import Activity, Gate
from wf_api.services.runs import RunService, StartRequest
from wf_core.errors import WfError
from wf_core.models import Workflow
from wf_core.run_state import RunState
from wf_worker.dispatch import SENT_HEADER, Dispatcher
from wf_worker.errors import RequestRefused, StoreError
from wf_worker.queues import PRIORITIES
from wf_worker.settings import Settings
from wf_worker.step_runner import StepRunner
from wf_worker.store.audit import audit_run
from wf_worker.store.memory_state import FINAL
from wf_worker.store.protocol import RunRecord
from wf_worker.store.runs import RunStore
from wf_worker.sweeper import Receipts, Sweeper
from wf_worker.tasks import register_task

LEASE_MS: Final = 30_000
RETENTION_SECONDS: Final = 3_600
MOST_STEPS: Final = 60
"""Steps of the sequential execution; larger workflows are made anew, and smaller."""
CHAOS: Final = 1_500
"""After so many steps nothing goes wrong any more."""
MOST: Final = 12_000
"""After so many steps the run must have ended."""
RUN: Final = "run"
SETTINGS: Final = Settings(retention_seconds=RETENTION_SECONDS, idempotency_seconds=RETENTION_SECONDS)


@dataclass(frozen=True)
class Faults:
    """How likely each thing is to go wrong at a moment."""

    drop: float = 0.03
    double: float = 0.03
    crash: float = 0.02
    freeze: float = 0.02
    jump: float = 0.03
    late: float = 0.0
    """A call that was made before is executed once more."""
    lost_reply: float = 0.01
    """A call is carried out, its answer is lost, and the client sends it again."""
    silent: float = 0.0
    """The store does not answer for longer than the client tries; what was sent may have been carried out."""
    tail: float = 0.0
    """The store loses its last writes; workers, messages and people stay in the future that it has lost."""
    broker: float = 0.0
    """The broker loses all its messages, or takes none for a while."""


HARSH: Final = Faults(drop=0.06, double=0.06, crash=0.05, freeze=0.05, jump=0.06, lost_reply=0.03, broker=0.004)
CRUEL: Final = Faults(
    *(0.05, 0.05, 0.04, 0.04, 0.06),
    late=0.12,
    lost_reply=0.03,
    silent=0.01,
    tail=0.03,
    broker=0.004,
)
"""What is more, any call may be executed again at any later time, and the store may lose its last writes."""
REORDER: Final = Faults(drop=0, double=0.1, crash=0, freeze=0, jump=0, lost_reply=0)

PLANS: Final = (
    *((), (), ("pause",), ("cancel",), ("pause", "cancel"), ("retry",), ("retry", "pause"), ("budget",)),
    *(("budget", "retry"), ("again",), ("cancel", "again"), ("retry", "again"), ("cancel", "retry")),
)
"""What people do besides starting and answering: ``pause`` now and then, ``cancel`` once, ``retry`` what failed, start
the run ``again`` under its id when it has ended; ``budget``: they allow few steps."""


@dataclass(frozen=True)
class Scenario:
    """A workflow, and what people do with it."""

    workflow: Workflow
    workflow_input: dict[str, Any]
    children: Mapping[str, Workflow]
    wide: Workflow
    """The workflow as the engine in memory gets it."""
    wide_children: Mapping[str, Workflow]
    plan: tuple[str, ...] = ()
    max_steps: int = 100_000
    steps: int = 0
    """What the sequential execution takes."""
    small: bool = True
    """Whether the limits are small."""
    same_server: bool = False
    """Whether the broker is the store's server, and is set back with it."""


def scenario_of(seed: int, plan: tuple[str, ...] | None = None) -> Scenario:
    """The scenario of a seed."""
    rng = random.Random(f"scenario {seed}")
    chosen = rng.choice(PLANS) if plan is None else plan
    crowded = rng.random() < 0.4
    for depth in (2, 2, 2, 2, 1, 1) if crowded else (3, 3, 2, 2, 1, 1):
        maker = FlowMaker(rng, depth, failures="budget" not in chosen, taken_in="retry" not in chosen, crowded=crowded)
        workflow, workflow_input = maker.make()
        wide, wide_children = widened(workflow), {name: widened(child) for name, child in maker.children.items()}
        run = sequential(wide, workflow_input, wide_children, _mended, most=3 * MOST_STEPS)
        if isinstance(run, RunState) and steps_of(run) <= MOST_STEPS:
            break
    else:
        return scenario_of(seed + 1_000_000, chosen)
    few = max(1, steps_of(run) - rng.choice([0, 0, 0, 1, 2]))
    return Scenario(
        workflow,
        workflow_input,
        maker.children,
        wide,
        wide_children,
        chosen,
        max_steps=few if "budget" in chosen else 100_000,
        steps=steps_of(run),
        small=rng.random() < 0.75,
        same_server=rng.random() < 0.5,
    )


def _mended(payload: dict[str, Any], ctx: Any) -> dict[str, Any]:
    return note(payload, ctx, mended=True)


@dataclass
class Node:
    """One process: its store, its dispatcher; a worker's also the task, the step runner and the sweeper."""

    name: str
    store: RunStore
    dispatcher: Dispatcher
    receipts: Receipts = field(default_factory=Receipts)
    runner: Any = None
    task: Any = None
    sweeper: Any = None


class GatedRecords:
    """A store's records, every call of which is a place to stop and is judged."""

    def __init__(self, world: Simulation) -> None:
        self._world = world
        self._records = world.place.records
        self._gate = world.gate

    def call(self, script: str, incarnation: str, call_id: str, *args: Any) -> list[Any]:
        """Executes a script."""
        sent, by = (script, incarnation, call_id, args), self._gate.current
        named = () if script == "republish" else (call_id, *args)  # what was received meanwhile decides on that one
        return self._gate.call(script, lambda: self._world.made_call(sent, by), network=True, named=named)

    def sweep(self, shard: int, most: int, hold_off_ms: int, ahead_ms: int = 0) -> list[str]:
        """Takes runs that want attention."""
        return self._gate.call("sweep", lambda: self._records.sweep(shard, most, hold_off_ms, ahead_ms), network=True)

    def reserve(self, key: str, value: bytes, seconds: int) -> bytes:
        """Reserves an idempotency key. What it leads to is remembered, for whoever judges the answer."""
        kept = self._gate.call("reserve", lambda: self._records.reserve(key, value, seconds), network=True)
        if self._gate.current is not None:
            self._gate.current.reserved = kept
        return kept

    def document(self, digest: str) -> bytes | None:
        """A workflow document, which each process reads once and which never changes."""
        return self._records.document(digest)

    def header(self, incarnation: str, fields: Sequence[str]) -> dict[str, bytes] | None:
        """Fields of a header. Who reads its revision decides on something."""

        def read() -> dict[str, bytes] | None:
            if fields == ("rev",):
                self._world.invariants.decided(incarnation)
            return self._records.header(incarnation, fields)

        return self._gate.call("header", read, network=True)

    def __getattr__(self, name: str) -> Any:
        read = getattr(self._records, name)
        return lambda *args: self._gate.call(name, lambda: read(*args), network=True)


class Simulation:
    """One scenario under faults."""

    def __init__(self, seed: int, scenario: Scenario, faults: Faults | None = None, place: Place | None = None) -> None:
        self.rng = random.Random(f"faults {seed}")
        self.scenario = scenario
        self.faults = faults or Faults()
        self.seen: Counter[str] = Counter()
        self.place = place or MemoryPlace(START_MS)
        self.invariants = Invariants(self.place.records, self.place.copy_of)
        self.gate = Gate(self.rng, self.seen)
        self.broker = Broker()
        self.outside = Outside(self.gate, lambda: self.place.now_ms)
        self.activities: list[Activity] = []
        self.made: deque[tuple[Sent, Activity | None]] = deque(maxlen=400)
        self.tails: deque[tuple[Any, Any, list[Any]]] = deque(maxlen=6)
        self.mended = False
        self.wanted = [StartRequest(workflow=scenario.workflow.name, workflow_input=scenario.workflow_input)]
        self.told: dict[int, str] = {}
        """What starts were answered: the incarnation of each."""
        self.known: set[str] = set()
        """Every incarnation that ever was."""
        self.cancel_at = self.rng.randrange(20, 200) if "cancel" in scenario.plan else None
        self.late_controllers = self.rng.random() < 0.3
        """Whether messages of items are delivered ahead of those of their loops' controllers."""
        self.torn = False
        """Whether the last tail that was kept ends ahead of a piece of a staged value."""
        self.dirty = False
        self.steps = 0
        self.calm = False
        self._plans: Any = None
        self.nodes = [self._worker(f"w{i}") for i in range(3)]
        self.api = self._node("api")
        self.service = RunService(self.api.store, self.api.dispatcher.publish, SETTINGS)

    # ---- the processes

    def _node(self, name: str) -> Node:
        records: Any = GatedRecords(self)
        store = RunStore(
            records,
            self.place.records.keys,
            lease_ms=LEASE_MS,
            max_losses=1_000,
            new_id=lambda: self.gate.value("id", lambda: f"{self.rng.getrandbits(64):016x}"),
        )
        vars(store)["_items"] = TapedItems(self.gate)
        self._plans = store.plans = self._plans or store.plans  # compiled once, for all of them
        celery: Any = SimulatedCelery(self.gate, self.broker)
        return Node(name, store, Dispatcher(celery, SETTINGS, lambda: "simulated"))

    def _worker(self, name: str) -> Node:
        node = self._node(name)
        handlers = SimulatedHandlers(self.gate)
        handlers.add_handler("note", self._note)
        leases = SimulatedLeases(node.store, self.gate)
        node.runner = StepRunner(node.store, handlers, node.dispatcher, leases, name)
        celery: Any = SimulatedCelery(self.gate, self.broker)
        node.task = register_task(celery, lambda: node.runner, lambda: "simulated")
        queues = tuple(node.dispatcher.queue_of(None, priority) for priority in PRIORITIES)
        node.sweeper = Sweeper(node.store, node.dispatcher, node.receipts, node=name, serves=("note",), queues=queues)
        return node

    def _note(self, payload: dict[str, Any], ctx: Any) -> dict[str, Any]:
        """The handler: what it gives is its own, and shows what it saw."""
        if self.rng.random() < 0.2:
            ctx.heartbeat({"at": self.place.now_ms})
        return note(payload, ctx, f"{self.rng.getrandbits(32):08x}", mended=self.mended)

    # ---- the course of things

    def run(self) -> None:
        """To the end. Raises AssertionError where something is not as it must be."""
        small = small_limits() if self.scenario.small else []
        with patched([fields_kept(), *self.outside.patches(), *self.place.patches(), *small]):
            for workflow in (*self.scenario.children.values(), self.scenario.workflow):
                self.api.store.publish(workflow)
            for self.steps in range(MOST):
                self._step()
                self._judge()
                if self._over():
                    break
            else:
                raise AssertionError(f"I2: not ended: {self._now()}")
            self.end()

    def _step(self) -> None:
        self.calm = self.steps > CHAOS
        rng, faults = self.rng, self.faults
        gate = self.gate
        gate.lost_reply, gate.silent, gate.tender = (
            (0.0, 0.0, 0.0) if self.calm else (faults.lost_reply, faults.silent, faults.freeze * 5)
        )
        if self.calm:
            self.broker.down = False
            for activity in self.activities:
                activity.frozen = False
        else:
            self._disturb()
        self._people()
        moving = [activity for activity in self.activities if not activity.frozen]
        busy = sum(1 for activity in moving if activity.kind == "step")
        messages = self.broker.messages
        if messages and busy < 4 and (rng.random() < 0.4 or not moving):
            self._deliver(messages.pop(self._next(messages)))
        elif moving and rng.random() < 0.95:
            self._go_on(rng.choice(moving))
        else:
            self._wait()
        if not self.calm and rng.random() < faults.jump:
            self._wait()

    def _next(self, messages: list[Message]) -> int:
        """Which message comes: mostly the oldest one. In some seeds those of loops' controllers come late."""
        at = self.rng.randrange(len(messages)) if self.rng.random() < 0.2 else 0
        if self.late_controllers and not self.calm:
            at = next((i for i, message in enumerate(messages) if ":" in message.kwargs["frame"]), at)
        self.seen["reordered"] += at > 0
        return at

    def _disturb(self) -> None:
        """What networks, systems and disks can do between two calls."""
        rng, faults = self.rng, self.faults
        messages, activities = self.broker.messages, self.activities
        if messages and rng.random() < faults.drop:
            messages.pop(rng.randrange(len(messages)))
            self.seen["dropped"] += 1
        if messages and rng.random() < faults.double:
            messages.append(rng.choice(messages))
            self.seen["doubled"] += 1
        if rng.random() < faults.broker:
            self.broker.down = not self.broker.down
            self.seen["broker down"] += self.broker.down
            if rng.random() < 0.5:
                messages.clear()
                self.seen["flushed"] += 1
        if self.broker.down and rng.random() < 0.05:
            self.broker.down = False
        if activities and rng.random() < faults.crash:
            gone = activities.pop(rng.randrange(len(activities)))
            self.seen[f"crashed: {gone.kind}"] += 1
        if activities and rng.random() < faults.freeze:
            rng.choice(activities).frozen = True
            self.seen["frozen"] += 1
        if rng.random() < 0.03:
            frozen = [activity for activity in activities if activity.frozen]
            if frozen:
                rng.choice(frozen).frozen = False
                self.seen["zombies"] += 1
        if activities and rng.random() < faults.freeze:
            self._renew(rng.choice(activities))
        if self.made and rng.random() < faults.late:
            self._again()
        if faults.tail and rng.random() < 0.08:
            self._keep_tail()
        if self.tails and rng.random() < faults.tail:
            self._lose_tail()
        if self.torn and rng.random() < 0.2:
            self._lose_tail(0)  # the last piece of a value is lost, what was staged ahead of it is not
        self.torn = False

    def _again(self) -> None:
        """One of the latest calls is executed once more, and nobody reads its answer."""
        sent, by = self.rng.choice(self.made)
        self._executed(sent, by)
        self.seen["repeated"] += 1

    def _keep_tail(self) -> None:
        """The store may be set back to this moment."""
        self.tails.append((self.place.snapshot(), self.invariants.snapshot(), list(self.broker.messages)))

    def _lose_tail(self, back: int | None = None) -> None:
        back = self.rng.randrange(len(self.tails)) if back is None else back
        for _ in range(back):
            self.tails.pop()
        kept, books, messages = self.tails[-1]
        self.place.restore(kept)
        self.invariants.restore(books)
        if self.scenario.same_server:
            self.broker.messages[:] = messages
        for activity in self.activities:
            # Whoever looks at a page does not see that it is of a history that is lost, and goes on looking.
            activity.frozen = activity.frozen or (activity.kind == "answer" and self.rng.random() < 0.7)
        self.dirty = True
        self.torn = False
        self.seen["lost tails"] += 1

    # ---- calls

    def made_call(self, sent: Sent, by: Activity | None) -> list[Any]:
        """Executes a call, and remembers it as one that may be executed again."""
        if sent[0] in EFFECTS or sent[0] in ("stage", "renew", "republish", "fire", "release", "due"):
            self.made.append((sent, by))
        return self._executed(sent, by)

    def _executed(self, sent: Sent, by: Activity | None) -> list[Any]:
        self.dirty = True
        if sent[0] == "stage" and self.faults.tail and not self.calm and self.rng.random() < 0.5:
            self._keep_tail()
            self.torn = True
        if sent[0] == "create":
            self.known.add(sent[1])
        try:
            return self.invariants.made(sent, by, self.place.now_ms)
        except WfError:
            raise
        except Exception as error:
            self.invariants.blame(f"I1: {sent[0]} stopped in its middle: {type(error).__name__}: {error}")
            raise

    # ---- workers

    def _deliver(self, message: Any) -> None:
        node = self.rng.choice(self.nodes)
        node.receipts.saw(message.queue, message.headers[SENT_HEADER])
        request = SimpleNamespace(request=SimpleNamespace(headers=message.headers))
        self._begin(Activity("step", lambda: node.task(request, **message.kwargs), node))

    def _begin(self, activity: Activity) -> None:
        activity.begun = self.seen["lost tails"]
        self.activities.append(activity)
        self._go_on(activity)

    def _go_on(self, activity: Activity) -> None:
        rng = self.rng
        # A step makes some four calls, a request to the API twenty.
        few = rng.randrange(1, 4 if activity.kind == "step" else 12)
        calls = 1_000 if rng.random() < 0.3 or self.calm else few
        try:
            done = self.gate.go_on(activity, calls)
        except StoreError as error:
            self.seen[f"{activity.kind} failed: {error.code}"] += 1
            done = True
        if done:
            self.activities.remove(activity)
            self.seen[f"done: {activity.kind}"] += 1

    def _wait(self) -> None:
        """Time passes. Whoever lives renews what it holds, or was too busy to; somebody sweeps."""
        rng = self.rng
        self.place.set_clock(self.place.now_ms + rng.choice([500, 2_000, 6_000, LEASE_MS + 1]))
        self.seen["waited"] += 1
        for activity in self.activities:
            if rng.random() < 0.5:
                self._renew(activity)
            else:
                self.seen["leases not renewed"] += activity.held is not None and not activity.frozen
        node = rng.choice(self.nodes)
        if not any(activity.kind == "sweep" and activity.node is node for activity in self.activities):
            looked = node.sweeper._looked_ahead
            self._begin(Activity("sweep", lambda: self._sweep(node, looked), node))

    def _renew(self, activity: Activity) -> None:
        """The thread that renews leases comes to the one of a worker, if it has one."""
        if activity.held is not None and not activity.frozen and not activity.held.lost.is_set():
            activity.node.runner.leases.renew(activity.held)
            self.seen["renewed"] += 1

    def _sweep(self, node: Node, looked_ahead: float = float("-inf")) -> None:
        sweeper = node.sweeper
        # What a pass does follows from its tape and from what its sweeper knew when it began.
        sweeper._stop, sweeper._announced, sweeper._looked_ahead = OncePerPass(), float("-inf"), looked_ahead
        sweeper._run()

    # ---- people

    def _people(self) -> None:
        rng, plan, calm = self.rng, self.scenario.plan, self.calm
        doing = Counter(activity.kind for activity in self.activities)
        for i in range(len(self.wanted)):
            there = i in self.told and self.place.records.header(self.told[i], ("status",)) is not None
            if rng.random() < (0.002 if there else 1.0 if not doing["start"] else 0.02) and doing["start"] < 2:
                self._begin(Activity("start", lambda i=i: self._start(i), self.api))
        status, paused = self._now()
        if not status:
            return
        if status in FINAL:
            self._after_the_end(status, doing)
            return
        if doing["answer"] < 3 and rng.random() < (0.5 if calm else 0.08) and self._open():
            self._begin(Activity("answer", self._answer, self.api))
        self._perhaps_cancel(doing)
        if not doing["pause"] and (paused if calm else "pause" in plan and rng.random() < 0.03):
            on = not paused
            self._begin(Activity("pause", lambda: self._asked(lambda: self.service.pause_run(RUN, on=on)), self.api))

    def _perhaps_cancel(self, doing: Counter[str]) -> None:
        """Once, and it may come too late."""
        late = self._now()[0] in FINAL
        if self.cancel_at is not None and (late or self.steps >= self.cancel_at) and not doing["cancel"]:
            self._begin(Activity("cancel", self._cancel, self.api))

    def _after_the_end(self, status: str, doing: Counter[str]) -> None:
        rng, plan = self.rng, self.scenario.plan
        self._perhaps_cancel(doing)
        if status == "failed" and "retry" in plan and not doing["retry"]:
            if rng.random() < 0.2:
                self.mended = True
                more = self.scenario.steps if "budget" in plan else None
                retry = lambda: self._asked(lambda: self.service.retry_run(RUN, max_steps=more))  # noqa: E731
                self._begin(Activity("retry", retry, self.api))
        elif "again" in plan and len(self.wanted) == 1 and rng.random() < 0.1:
            first = self.wanted[0]
            again = StartRequest(workflow=first.workflow, workflow_input=first.workflow_input, closed_policy="allow")
            self.wanted.append(again)

    def _start(self, i: int) -> None:
        request, key = self.wanted[i], f"start {i}"
        try:
            self.service.start_run(
                StartRequest(
                    workflow=request.workflow,
                    workflow_input=request.workflow_input,
                    run_id=RUN,
                    idempotency_key=key,
                    closed_policy=request.closed_policy,
                    max_steps=self.scenario.max_steps,
                )
            )
        except RequestRefused as refused:
            # After a lost tail another life of the same request may have got the id.
            self.seen[f"start refused: {refused.code}"] += 1
            self.told[i] = self.place.records.newest(RUN) or ""
            return
        assert self.gate.current is not None
        self.told[i] = json.loads(self.gate.current.reserved)["incarnation"]
        # Where the store lost its tail meanwhile, what was done before may be gone already.
        if self.gate.current.begun == self.seen["lost tails"]:
            self.invariants.acknowledge(self.told[i])

    def _answer(self) -> None:
        """A person opens the page of a run, looks at it for a while, and answers what it shows; perhaps twice."""
        try:
            shown = self.service.list_interrupts(RUN)["interrupts"]
        except RequestRefused:
            return
        if not shown:
            return
        asked = self.gate.value("choice", lambda: self.rng.choice(shown))
        key = self.gate.value("key", lambda: f"{self.rng.getrandbits(64):016x}")
        times = self.gate.value("times", lambda: 1 + (self.rng.random() < 0.3))
        wrong = self.gate.value("wrong", lambda: self.rng.random() < 0.1)
        self.gate.call("looks at the page", bool)
        for time in range(times + wrong):
            outcome = "no such outcome" if wrong and time == 0 else "submitted"
            self._asked(lambda outcome=outcome: self._submit(asked, outcome, key))

    def _submit(self, asked: Any, outcome: str, key: str) -> None:
        self.service.resume_run(
            RUN,
            payload=answer(asked["payload"]),
            outcome=outcome,
            interrupt_key=asked["interrupt_key"],
            revision=asked["revision"],
            idempotency_key=key,
        )

    def _cancel(self) -> None:
        self._asked(lambda: self.service.cancel_run(RUN))
        self.cancel_at = None

    def _asked(self, ask: Callable[[], Any]) -> None:
        """Whatever a person is told."""
        try:
            ask()
        except StoreError:
            raise
        except WfError as refused:
            told = f"told: {refused.code}"
            self.gate.value("told", lambda: self.seen.update({told: 1}))

    # ---- looking, without disturbing

    def _now(self) -> tuple[str, bool]:
        """The status of the newest run under the id, and whether it is paused; no status where there is none."""
        incarnation = self.place.records.newest(RUN)
        header = self.place.records.header(incarnation, ("status", "paused")) if incarnation else None
        return (header["status"].decode(), header.get("paused") == b"1") if header else ("", False)

    def inspect(self, incarnation: str) -> RunRecord | None:
        """The run as it is."""
        return self.api.store.inspect(incarnation)

    def _open(self) -> bool:
        return bool(self.place.records.interrupts(self.place.records.newest(RUN)))

    def _judge(self) -> None:
        if self.dirty:
            self.dirty = False
            incarnation = self.place.records.newest(RUN)
            for fault in audit_run(self.place.records, incarnation) if incarnation else ():
                self.invariants.blame(f"I11: {fault}")
            contents = self.place.contents()
            if contents is not None:
                self.invariants.attended(contents, self.place.now_ms)
            self.invariants.acknowledged()
        assert not self.invariants.broken, self.invariants.broken[0]

    def _over(self) -> bool:
        status, _ = self._now()
        if status not in FINAL or len(self.told) < len(self.wanted):
            return False
        if status == "failed" and "retry" in self.scenario.plan:
            return False
        if "again" in self.scenario.plan and len(self.wanted) == 1:
            return False
        # What is still under way may come for a while.
        return (self.calm and not self.activities) or self.rng.random() < 0.04

    # ---- the end

    def end(self) -> None:
        """The verdict on every run there is; then their time passes, and nothing may be left."""
        for incarnation in sorted(self.known):
            record = self.inspect(incarnation)
            if record is not None:
                self._verdict(record)
        self._retention()

    def _verdict(self, record: RunRecord) -> None:
        self.seen[f"ended: {record.status}"] += 1
        if record.status == "cancelled":
            self.invariants.unchanged(record.incarnation)
            return
        assert record.ended, f"I2: an earlier run under the id is {record.status}"
        steps = self.api.store.trace(record.incarnation, 0, 100_000)
        scenario = self.scenario
        compare(
            record,
            [step.entry for step in steps if step.discarded is None],
            *(scenario.wide, scenario.workflow_input, scenario.wide_children),
            # One that nobody retried, or whose retry the store has lost, failed of what was mended only afterwards.
            mended=self.mended and record.status != "failed",
        )

    def _retention(self) -> None:
        self.activities.clear()
        self.faults = Faults(*(0.0 for _ in range(5)), lost_reply=0.0)
        self.gate.lost_reply = self.gate.silent = 0.0
        self.broker.down = False
        for _ in range(4):
            self.place.set_clock(self.place.now_ms + RETENTION_SECONDS * 1000)
            for node in self.nodes:
                self._sweep(node)
            for _ in range(10 if self.made else 0):
                self._again()
        left = self.place.remains()
        assert not left, f"I12: left after retention: {left[:3]}"
        assert not self.invariants.broken, self.invariants.broken[0]
        self.seen["reaped"] += 1


def simulate(seed: int, faults: Faults | None = None, place: Place | None = None) -> Counter[str]:
    """What happened to the scenario of a seed; AssertionError where something was not as it must be."""
    simulation = Simulation(seed, scenario_of(seed), faults or faults_of(seed), place)
    simulation.run()
    return simulation.seen


def faults_of(seed: int) -> Faults:
    """How cruel the world is to a seed."""
    return (Faults(), HARSH, CRUEL, CRUEL)[seed % 4]


__all__ = ["CRUEL", "HARSH", "REORDER", "Faults", "Scenario", "Simulation", "faults_of", "scenario_of", "simulate"]
