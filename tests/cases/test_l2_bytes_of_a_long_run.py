"""A store grew with the number of steps times the size of the state: 19 GB for a small system in development.

The whole state was saved after each step, and nothing was ever removed (bytedance/deer-flow#4148,
caipe-io/ai-platform-engineering#1238, pizza-bot-app/pizza-bot#58). Here a step writes the fields it changed, a large
value that nobody changes is stored once, and when a run's time is over nothing of it is left.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.cases.flows import END, each, flow, found, item, step
from tests.support.inline_worker import InlineWorker
from tests.support.stores import RedisCase
from wf_core.models import Workflow

STEPS = 200
LARGE = "x" * 1_000_000
TEN_BYTES = "0123456789"


def growing(mode: str) -> dict[str, Any]:
    """A large text is put into the state; then each step appends ten bytes to a list beside it."""
    loop = each("each", "input.items")
    if mode == "serial":
        del loop["concurrent"]
        loop["mode"] = "serial"
    return flow(
        "growing",
        [
            step("begin", "echo", "input.given", "state.text"),
            loop,
            step("add", "echo", item("each"), "state.words"),
            step("end", "length", "state.text", "state.size"),
        ],
        [
            ("begin", "ok", "each"),
            ("each", "loop", "add"),
            ("add", "ok", "each"),
            ("each", "done", "end"),
            ("end", "ok", END),
        ],
        takes={"given": {}, "items": {"type": "array", "items": {}}},
        state={"text": {}, "words": {"type": "array", "reducer": "wf.std.append"}, "size": {}},
        gives={"words": {}, "size": {}},
    )


def stored_bytes(case: RedisCase) -> int:
    """What the server spends on all keys of the store."""
    client: Any = case.client
    return sum(client.memory_usage(key, samples=0) or 0 for key in case.names())


@pytest.mark.parametrize(("mode", "trace"), [("serial", "full"), ("concurrent", "full"), ("serial", "off")])
def test_a_large_text_that_never_changes_is_not_stored_again_and_in_the_end_nothing_is_left(
    valkey_case: RedisCase, mode: str, trace: str
) -> None:
    sizes: list[int] = []

    def echo(payload: dict[str, Any], _context: object) -> dict[str, Any]:
        sizes.append(stored_bytes(valkey_case) if len(sizes) in (1, STEPS) else 0)
        return payload

    def length(payload: dict[str, Any], _context: object) -> dict[str, Any]:
        return {"value": len(payload["value"])}

    store = valkey_case.store
    worker = InlineWorker(store, {"echo": echo, "length": length})
    empty = set(valkey_case.names())
    digest = store.publish(Workflow.model_validate(growing(mode))).digest
    documents = set(valkey_case.names()) - empty
    given: dict[str, Any] = {"given": LARGE, "items": [TEN_BYTES] * STEPS}
    with valkey_case.unaudited():
        extras = {"trace": trace, "keep": "1,1,1"}
        created = store.create(store.new_run("run", digest, given, max_steps=3 * STEPS, extras=extras))
        worker.publish(created.ready)
        worker.drain()

        record = found(store, created.incarnation)
        assert record.error is None
        assert record.output == {"words": [TEN_BYTES] * STEPS, "size": len(LARGE)}
        # The input and the field hold the text once each; behind one that came in chunks the server keeps room.
        assert sizes[1] < 3.5 * len(LARGE)
        growth = sizes[STEPS] - sizes[1]
        assert growth < 5_000_000
        assert growth < 1_000 * STEPS

        valkey_case.pass_time(2)
        while (word := store.reap(created.incarnation)) == "more":
            pass
        assert word == "reaped"
    assert set(valkey_case.names()) - empty - documents == set()
