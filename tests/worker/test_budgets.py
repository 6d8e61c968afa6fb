"""Round trips, messages and bytes of the hot path, counted exactly over a real server and a real broker queue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pytest
from celery import Celery
from pydantic import BaseModel

from tests.support.counting import CountingDispatcher, CountingRecords
from tests.support.pump import pump
from tests.support.valkey import EmbeddedValkey
from wf_core.authoring import END, WorkflowBuilder, input_from, input_path, node, output_to, state_field, state_path
from wf_worker.app import celery_app, store_id
from wf_worker.handlers import build_handlers
from wf_worker.leases import LeaseKeeper
from wf_worker.settings import Settings
from wf_worker.step_runner import StepRunner
from wf_worker.store.keys import Keys
from wf_worker.store.protocol import RunRecord
from wf_worker.store.redis import connect
from wf_worker.store.runs import RunStore


class Number(BaseModel):
    n: int = 0


class Numbers(BaseModel):
    numbers: list[int]


class Sums(BaseModel):
    n: Annotated[int, state_field(reducer="wf.std.add")] = 0


@node
def one(payload: Number) -> Number:
    return Number(n=1)


@dataclass
class Bench:
    """One process with everything counted."""

    app: Celery
    settings: Settings
    records: CountingRecords
    store: RunStore
    dispatcher: CountingDispatcher
    runner: StepRunner

    def run(self, flow: WorkflowBuilder, workflow_input: dict[str, object]) -> tuple[RunRecord, list[int]]:
        published = self.store.publish(flow.compile())
        new = self.store.new_run(
            f"run-{len(self.records.calls)}-{self.dispatcher.published}",
            published.digest,
            workflow_input,
            max_steps=10_000,
        )
        created = self.store.create(new)
        self.dispatcher.publish(created.ready)
        sizes = pump(self.app, self.settings, self.runner)
        record = self.store.inspect(created.incarnation)
        assert record is not None
        return record, sizes


@pytest.fixture
def bench(valkey: EmbeddedValkey) -> Bench:
    settings = Settings(store_url=valkey.url, broker_url=valkey.url)
    app = celery_app(settings)
    records = CountingRecords(connect(settings.store_url), Keys())
    store = RunStore(records)
    dispatcher = CountingDispatcher(app, settings, store_id(settings))
    runner = StepRunner(store, build_handlers([one]), dispatcher, LeaseKeeper(store), "counter")
    return Bench(app, settings, records, store, dispatcher, runner)


def chain(length: int) -> WorkflowBuilder:
    flow = WorkflowBuilder("chain", Number, Sums, Sums)
    previous = None
    for i in range(length):
        step = flow.use(
            one, id=f"s{i}", input=[input_from(state_path("n"), "n")], output=[output_to("n", state_path("n"))]
        )
        if previous is None:
            flow.set_entry_point(step)
        else:
            flow.set_route(previous, "ok", step)
        previous = step
    assert previous is not None
    flow.set_route(previous, "ok", END)
    return flow


def fan(items: int) -> tuple[WorkflowBuilder, dict[str, object]]:
    flow = WorkflowBuilder("fan", Numbers, Sums, Sums)
    each = flow.foreach(
        id="each",
        over=input_path("numbers"),
        as_="number",
        mode="concurrent",
        concurrent={"max_active": 50, "max_outstanding": 100},
    )
    step = flow.use(one, input=[input_from(each.item, "n")], output=[output_to("n", state_path("n"))])
    flow.set_entry_point(each)
    flow.set_route(each, "loop", step)
    flow.set_route(step, "ok", each)
    flow.set_route(each, "done", END)
    return flow, {"numbers": list(range(items))}


def test_a_handler_step_of_a_chain_costs_two_script_calls_and_one_message(bench: Bench) -> None:
    record, sizes = bench.run(chain(200), {"n": 0})

    assert (record.status, record.output) == ("completed", {"n": 200})
    assert bench.records.calls == {"create": 1, "claim": 200, "commit": 200}
    assert bench.dispatcher.published == len(sizes) == 200
    assert bench.records.other["document"] == 1


def test_an_item_of_a_foreach_costs_two_script_calls_and_one_message_beyond_a_constant(bench: Bench) -> None:
    flow, workflow_input = fan(1_000)

    record, _ = bench.run(flow, workflow_input)

    assert (record.status, record.output) == ("completed", {"n": 1_000})
    calls = sum(bench.records.calls.values())
    assert bench.records.calls["claim"] == 1_000 + 3  # the walk that reaches the loop, its opening, its barrier
    assert calls - 2 * 1_000 <= 20  # create, three claims and commits, three chunks of items, five pages of results
    assert bench.dispatcher.published - 1_000 == 3


def test_the_bytes_of_an_items_claim_and_commit_do_not_grow_with_the_list(bench: Bench) -> None:
    per_item: list[float] = []
    for items in (100, 1_000):
        bench.records.calls.clear()
        bench.records.bytes.clear()
        flow, workflow_input = fan(items)
        bench.run(flow, workflow_input)
        per_item.append((bench.records.bytes["claim"] + bench.records.bytes["commit"]) / items)

    assert per_item[1] < per_item[0] * 1.1


def test_a_message_holds_no_payload_and_stays_under_a_kilobyte(bench: Bench) -> None:
    flow, _ = fan(3)

    _, sizes = bench.run(flow, {"numbers": [1, 2, 3], "secret": "x" * 100_000})

    assert sizes
    assert max(sizes) < 1024
