"""Two parallel branches asked at once, both under one id, and the answers went to the wrong ones.

The id was made from the place in the graph only, not from the branch and the visit (langchain-ai/langgraph#6533,
langchain-ai/langgraph#6542, langchain-ai/langgraph#4028). Here every open interrupt has a key of its own, and where
several are open an answer has to name one.
"""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from tests.cases.flows import END, each, flow, found, inline, item, step
from tests.support.stores import StoreCase
from wf_api.client import WorkflowApiError, WorkflowClient

NAMES = ["a", "b", "c"]


def questions(*, interrupt: str = "continue", rounds: int = 1) -> dict[str, Any]:
    """Every item asks with its value, so many times one after the other, and keeps the answers."""
    asks: list[dict[str, Any]] = [
        {
            "id": f"ask{i}",
            "type": "interrupt",
            "kind": "question",
            "request": [{"target": "name", "path": item("each")}],
            "resume": [{"source": "said", "target": "state.said"}],
        }
        for i in range(rounds)
    ]
    edges = [("each", "loop", "ask0"), *((f"ask{i}", "submitted", f"ask{i + 1}") for i in range(rounds - 1))]
    edges += [(f"ask{rounds - 1}", "submitted", "pair"), ("pair", "ok", "each"), ("each", "done", END)]
    return flow(
        "questions",
        [each("each", "input.names", interrupt=interrupt), *asks, step("pair", "echo", item("each"), "state.items")],
        edges,
        takes={"names": {"type": "array", "items": {"type": "string"}}},
        state={name: {"type": "array", "reducer": "wf.std.append"} for name in ("said", "items")},
        gives={"said": {}, "items": {}},
    )


def test_answers_in_any_order_reach_the_items_that_asked(remote: WorkflowClient) -> None:
    remote.publish(questions())
    run_id = remote.start("questions", {"names": NAMES})["run_id"]
    view = remote.wait(run_id, until=lambda run: len(run["interrupts"]) == 3, timeout=30)
    keys = {interrupt["payload"]["name"]: interrupt["interrupt_key"] for interrupt in view["interrupts"]}
    assert len(set(keys.values())) == 3

    with pytest.raises(WorkflowApiError) as refused:
        remote.resume(run_id, {"said": "A!"})
    assert (refused.value.http_status, refused.value.code) == (409, "interrupt_ambiguous")
    assert sorted(refused.value.details["interrupt_keys"]) == sorted(keys.values())
    for name in ("c", "a", "b"):
        remote.resume(run_id, {"said": f"{name.upper()}!"}, interrupt_key=keys[name])

    ended = remote.wait(run_id, until="ended", timeout=30)
    assert ended["output"] == {"said": ["A!", "B!", "C!"], "items": NAMES}


@pytest.mark.parametrize("interrupt", ["continue", "quiesce"])
@pytest.mark.parametrize("order", list(permutations(NAMES))[::2], ids="".join)
def test_two_rounds_of_questions_keep_apart_over_every_store(
    case: StoreCase, interrupt: str, order: tuple[str, ...]
) -> None:
    answered: list[int] = []
    with inline(case.store, questions(interrupt=interrupt, rounds=2), {"names": NAMES}) as (worker, run):
        while found(case.store, run).status != "completed":
            opened = {(o.request.payload["name"], o.request.node_id): o for o in case.store.interrupts(run)}
            assert len({o.number for o in opened.values()}) == len(opened)
            chosen = min(opened, key=lambda asked: (asked[1], order.index(str(asked[0]))))
            number = opened[chosen].number
            answered.append(number)
            digest = found(case.store, run).digest
            said = {"said": f"{chosen[0]} at {chosen[1]}"}
            worker.publish(case.store.resume(run, number, said, "submitted", digest=digest))
            worker.drain()

    assert len(set(answered)) == len(answered) == 6
    assert found(case.store, run).output == {
        "said": [f"{name} at ask{i}" for name in NAMES for i in range(2)],
        "items": NAMES,
    }
