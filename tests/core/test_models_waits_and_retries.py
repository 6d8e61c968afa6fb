"""The wait step, and what a step says of repetitions and time limits, as documents."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import TypeAdapter, ValidationError

from wf_core.instants import instant_of, parse_instant
from wf_core.models import InterruptNode, NodeDef, NodeUse, RetryPolicy, Step, WaitNode
from wf_core.models.retries import MAX_SECONDS
from wf_core.paths import GraphSourcePath

steps = TypeAdapter[Step](Step)


def wait(**fields: Any) -> Any:
    return steps.validate_python({"type": "wait", "id": "rest", **fields})


# --- Points in time ---


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2030-01-31T09:00:00Z", 1_896_080_400_000),
        ("2030-01-31t09:00:00z", 1_896_080_400_000),
        ("2030-01-31T10:30:00+01:30", 1_896_080_400_000),
        ("2030-01-31T00:00:00-09:00", 1_896_080_400_000),
        ("2030-01-31T09:00:00.5Z", 1_896_080_400_500),
        ("2030-01-31T09:00:00.1234Z", 1_896_080_400_124),
        ("2030-01-31T09:00:00.123000Z", 1_896_080_400_123),
        ("1969-12-31T23:59:59Z", -1_000),
    ],
)
def test_a_time_is_read_in_milliseconds_and_never_too_early(text: str, ms: int) -> None:
    assert parse_instant(text) == ms


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2030-01-31",
        "2030-01-31T09:00:00",
        "2030-01-31 09:00:00Z",
        "2030-01-31T09:00Z",
        "2030-02-30T09:00:00Z",
        "2030-01-31T24:00:00Z",
        "2030-01-31T09:00:60Z",
        "2030-01-31T09:00:00+25:00",
        "2030-W05-4T09:00:00Z",
        "٢٠٣٠-01-31T09:00:00Z",
        "2030-01-31T09:00:00Z\n",
        "tomorrow",
    ],
)
def test_what_is_no_time_with_an_offset_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_instant(text)


def test_milliseconds_and_times_are_each_others_inverse() -> None:
    for ms in (0, -1_000, 1_896_080_400_123):
        assert parse_instant(instant_of(ms).isoformat()) == ms


# --- The wait step ---


@pytest.mark.parametrize(
    ("fields", "dumped"),
    [
        ({"for_seconds": 90}, {"for_seconds": 90}),
        ({"for_seconds": 0.25}, {"for_seconds": 0.25}),
        ({"until": "2030-01-31T09:00:00Z"}, {"until": "2030-01-31T09:00:00Z"}),
        ({"until": "state.due"}, {"until": "state.due"}),
    ],
)
def test_a_wait_says_how_long_or_until_when_and_is_dumped_as_it_was_said(
    fields: dict[str, Any], dumped: dict[str, Any]
) -> None:
    step = wait(**fields)

    assert isinstance(step, WaitNode)
    assert step.model_dump(mode="json") == {"id": "rest", "type": "wait", **dumped}
    assert steps.validate_python(step.model_dump()) == step


def test_a_time_stays_text_and_anything_else_is_a_path() -> None:
    assert wait(until="2030-01-31T09:00:00Z").until == "2030-01-31T09:00:00Z"
    assert wait(until="input.due").until == GraphSourcePath("input", ("due",))
    assert wait(until=GraphSourcePath("input", ("due",))).until == GraphSourcePath("input", ("due",))


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"for_seconds": None, "until": None},
        {"for_seconds": 1, "until": "input.due"},
        {"for_seconds": 0},
        {"for_seconds": -1},
        {"for_seconds": True},
        {"for_seconds": "90"},
        {"for_seconds": float("inf")},
        {"for_seconds": float("nan")},
        {"for_seconds": MAX_SECONDS + 1},
        {"until": "2030-01-31"},
        {"until": "2030-01-31T09:00:00"},
        {"until": "output.due"},
        {"until": ""},
        {"until": 1_896_080_400},
    ],
)
def test_a_wait_that_says_nothing_or_too_much_or_no_time_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        wait(**fields)


@pytest.mark.parametrize(
    ("until", "told"),
    [
        ("2030-01-31", "is no RFC 3339 time"),
        ("tomorrow", "and no path below input, state or context"),
        ("inptu.due", "and no path below input, state or context"),
        ("input..due", "invalid TOML path"),
    ],
)
def test_a_wrong_moment_is_told_what_it_could_have_been(until: str, told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        wait(until=until)


@pytest.mark.parametrize("until", ["2030-01-31T09:00:00Z", "state.due"])
def test_the_published_schema_admits_times_and_paths(until: str) -> None:
    schema = WaitNode.model_json_schema()

    Draft202012Validator(schema).validate({"type": "wait", "id": "rest", "until": until})
    assert not Draft202012Validator(schema).is_valid({"type": "wait", "id": "rest", "until": "whenever"})


# --- Repetitions and limits ---

POLICY: dict[str, Any] = {
    "max_attempts": 5,
    "initial_seconds": 0.5,
    "multiplier": 2.0,
    "max_seconds": 60.0,
    "jitter": "full",
    "non_retryable": ["CardRefused"],
}
LIMITS: dict[str, Any] = {"total_timeout_seconds": 600, "queue_timeout_seconds": 60, "heartbeat_seconds": 10}


@pytest.mark.parametrize("retry", [0, 3, POLICY, {"max_attempts": 1}, {}])
def test_steps_and_definitions_keep_a_count_or_a_policy_as_it_was_written(retry: Any) -> None:
    use = NodeUse.model_validate({"id": "pay", "node": "charge", "retry": retry, **LIMITS})
    definition = NodeDef.model_validate(
        {"name": "charge", "input_schema": {}, "output_schema": {}, "outcomes": ["ok"], "retry": retry, **LIMITS}
    )

    for model in (use, definition):
        dumped = model.model_dump(mode="json")
        assert dumped["retry"] == retry
        assert {name: dumped[name] for name in LIMITS} == LIMITS
        assert type(model).model_validate(dumped) == model
    assert isinstance(use.retry, int) == isinstance(retry, int)


def test_what_is_not_said_is_not_written() -> None:
    dumped = NodeUse(id="pay", node="charge").model_dump()

    assert not set(LIMITS) & set(dumped)
    assert RetryPolicy().model_dump() == {}
    assert "expires_seconds" not in InterruptNode(id="ask", kind="approval").model_dump()


@pytest.mark.parametrize(
    "retry",
    [
        -1,
        True,
        1.5,
        "3",
        {"max_attempts": 0},
        {"max_attempts": True},
        {"initial_seconds": -1},
        {"initial_seconds": 10, "max_seconds": 5},
        {"multiplier": 0.5},
        {"max_seconds": float("inf")},
        {"jitter": "some"},
        {"non_retryable": [""]},
        {"non_retryable": "CardRefused"},
        {"attempts": 3},
    ],
)
def test_a_policy_that_makes_no_sense_is_refused_at_its_place(retry: Any) -> None:
    with pytest.raises(ValidationError) as refused:
        NodeUse.model_validate({"id": "pay", "node": "charge", "retry": retry})

    assert {error["loc"][0] for error in refused.value.errors()} == {"retry"}
    assert refused.value.error_count() == 1


@pytest.mark.parametrize("name", [*LIMITS, "timeout_seconds"])
@pytest.mark.parametrize("value", [0, -1, 1.5, True, "10", MAX_SECONDS + 1])
def test_time_limits_are_whole_seconds_above_zero(name: str, value: Any) -> None:
    with pytest.raises(ValidationError):
        NodeUse.model_validate({"id": "pay", "node": "charge", name: value})


def test_an_interrupt_keeps_how_long_it_takes_answers() -> None:
    step = InterruptNode.model_validate({"id": "ask", "kind": "approval", "expires_seconds": 3600})

    assert step.model_dump()["expires_seconds"] == 3600
    for refused in (0, MAX_SECONDS + 1):
        with pytest.raises(ValidationError):
            InterruptNode.model_validate({"id": "ask", "kind": "approval", "expires_seconds": refused})
