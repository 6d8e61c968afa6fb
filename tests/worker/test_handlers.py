"""User code is called by registered name, and its answer is kept only when it is exactly JSON."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from celery.exceptions import WorkerTerminate
from pydantic import BaseModel

from wf_core.authoring import NodeReturn, node, outcome
from wf_core.errors import WfError
from wf_core.models import NodeResult
from wf_core.run_state import RuntimeContext
from wf_worker.handlers import HandlerRegistry, build_handlers

CONTEXT = RuntimeContext(current_node_id="step")


class Word(BaseModel):
    word: str


@node(outcomes=["long", "short"])
def judge(payload: Word) -> NodeReturn[Word]:
    return outcome("long" if len(payload.word) > 3 else "short", Word(word=payload.word.upper()))


@node
async def shout(payload: Word) -> Word:
    return Word(word=payload.word + "!")


def answered(registry: HandlerRegistry, name: str, payload: dict[str, Any]) -> NodeResult:
    """The checked answer of a handler."""
    return registry.result_of(name, registry.call(name, payload, CONTEXT))


def registry_with(answer: Any) -> HandlerRegistry:
    registry = HandlerRegistry(payload_bytes=1000)
    registry.add_handler("it", lambda payload, ctx: answer)
    return registry


def test_a_typed_capability_gives_its_outcome_and_its_output_as_plain_json() -> None:
    result = answered(build_handlers([judge]), "judge", {"word": "hello"})

    assert (result.outcome, result.output) == ("long", {"word": "HELLO"})


def test_an_async_capability_runs_on_the_event_loop_of_the_process() -> None:
    registry = build_handlers([shout])

    assert [answered(registry, "shout", {"word": word}).output for word in ("a", "b")] == [
        {"word": "a!"},
        {"word": "b!"},
    ]


def test_an_unregistered_name_is_not_served() -> None:
    assert not build_handlers([judge]).serves("os.system")


def test_two_handlers_of_one_name_are_refused() -> None:
    with pytest.raises(WfError, match="two handlers"):
        build_handlers([judge, judge])


@pytest.mark.parametrize(
    ("answer", "place"),
    [
        ({"scores": [0.5, float("nan")]}, r"scores\[1\]"),
        ({"max": float("inf")}, "max"),
        ({"tags": {"a"}}, "tags: set"),
        ({"pair": (1, 2)}, "pair: tuple"),
        ({"raw": b"x"}, "raw: bytes"),
        ({1: "x"}, "key 1"),
        ({"deep": {"text": "\ud800"}}, "deep.text: text holds a lone surrogate"),
    ],
)
def test_an_answer_that_is_not_json_is_refused_with_the_place_in_it(answer: Any, place: str) -> None:
    with pytest.raises(WfError, match=place) as refused:
        answered(registry_with(answer), "it", {})

    assert refused.value.code == "result_not_json"


def test_an_answer_larger_than_the_limit_is_refused() -> None:
    with pytest.raises(WfError) as refused:
        answered(registry_with({"text": "x" * 1001}), "it", {})

    assert refused.value.code == "payload_too_large"


@pytest.mark.parametrize("answer", [None, 3, "text", ["list"]])
def test_an_answer_of_another_kind_is_refused(answer: Any) -> None:
    with pytest.raises(WfError) as refused:
        answered(registry_with(answer), "it", {})

    assert refused.value.code == "result_not_supported"


def test_large_integers_keep_their_digits() -> None:
    answer = {"id": 15947634569000323, "huge": 2**200, "one": 3.0, "empty": [], "none": {}}

    assert answered(registry_with(answer), "it", {}).output == answer


@pytest.mark.parametrize("ending", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError()])
def test_a_handler_that_tries_to_end_its_worker_only_fails_its_step(ending: BaseException) -> None:
    def leave(payload: dict[str, Any], ctx: RuntimeContext) -> dict[str, Any]:
        raise ending

    registry = HandlerRegistry()
    registry.add_handler("it", leave)

    with pytest.raises(WfError, match=type(ending).__name__) as refused:
        answered(registry, "it", {})

    assert refused.value.code == "handler_exited"


def test_the_workers_own_order_to_end_is_not_a_failure_of_the_handler() -> None:
    def ended(payload: dict[str, Any], ctx: RuntimeContext) -> dict[str, Any]:
        raise WorkerTerminate(0)

    registry = HandlerRegistry()
    registry.add_handler("it", ended)

    with pytest.raises(WorkerTerminate):
        answered(registry, "it", {})


class Anything(BaseModel):
    value: Any
    maybe: float | None = None


@pytest.mark.parametrize(
    ("value", "place"),
    [(float("nan"), "value"), ([1, {"x": float("inf")}], r"value\[1\]\.x"), (float("-inf"), "value")],
)
def test_a_number_that_pydantic_would_write_as_null_is_refused_with_its_place(value: Any, place: str) -> None:
    @node
    def give(payload: Word) -> Anything:
        return Anything(value=value)

    with pytest.raises(WfError, match=place) as refused:
        answered(build_handlers([give]), "give", {"word": "x"})

    assert refused.value.code == "result_not_json"


def test_an_async_handler_that_exits_leaves_the_event_loop_to_the_others() -> None:
    async def leave(payload: dict[str, Any], ctx: RuntimeContext) -> dict[str, Any]:
        raise SystemExit(3)

    registry = build_handlers([shout])
    registry.add_handler("leave", leave)

    with pytest.raises(WfError, match="SystemExit"):
        answered(registry, "leave", {})

    assert answered(registry, "shout", {"word": "still"}).output == {"word": "still!"}


def test_the_fallback_of_a_decision_is_served_by_every_worker() -> None:
    registry = build_handlers([judge])

    assert registry.names == ("judge",)
    with pytest.raises(WfError, match="no way on") as refused:
        registry.call("wf.std.runtime_error", {"message": "no way on"}, CONTEXT)
    assert refused.value.code == "runtime_error"
