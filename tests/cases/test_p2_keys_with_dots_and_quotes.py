"""A key that holds a dot could not be addressed, or the path that a message printed for it led elsewhere.

Paths were texts, split on dots whenever one was read, and printed without quotes (jmespath/jmespath.py#2,
rest-assured/rest-assured#326, joshbuddy/jsonpath#175). Here a path is a list of segments, parsed once and printed by
the rules for keys of TOML; what is printed, parses back to the same path.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.api.conftest import Api
from tests.cases.flows import END, each, flow, found, inline, item, step
from tests.support.stores import StoreCase
from wf_core.models.json_values import validate_strict_json_value
from wf_core.paths import GraphSourcePath, LocalPath, PathResolutionError, StatePath
from wf_core.toml_keys import parse_toml_path_segments, shown_place

KEYS = [
    *("a.b", "a-b", "a.b-c", "http://x/y", '"', "'", "\\", "é", "e\u0301", "日本", "0", "-1", "k" * 300),
    *(" a ", "a b", "[0]", "$ref", "#", ".", "..", 'a"."b', "state", "input", "__end__", "\u00a0x", "😀", "a\u2028b"),
]
NO_SEGMENTS = ["", " ", "\t", "a\nb", "\x7f"]
DECOY = {"a": {"b": "wrong", "b-c": "wrong"}}
"""Where a path that was split on its dots would lead."""


def named(key: str) -> str:
    """The key as a path names it."""
    return str(LocalPath((key,)))


@pytest.mark.parametrize("key", KEYS)
def test_a_printed_path_is_the_same_path(key: str) -> None:
    for path in (
        LocalPath((key,)),
        LocalPath(("x", key, key)),
        StatePath((key, "x")),
        GraphSourcePath("input", (key,)),
    ):
        assert type(path).parse(str(path)) == path
    assert shown_place(("x", 3, key)) == f"x[3].{LocalPath((key,))}"


SEGMENTS = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1).filter(lambda text: not text.isspace())


@given(st.lists(SEGMENTS, min_size=1, max_size=4))
def test_any_printed_path_is_the_same_path_and_two_paths_never_look_alike(parts: list[str]) -> None:
    path = LocalPath(tuple(parts))

    assert LocalPath.parse(str(path)) == path
    assert parse_toml_path_segments(shown_place(parts)) == tuple(parts)


@pytest.mark.parametrize("key", NO_SEGMENTS)
def test_what_no_path_can_name_is_refused_as_a_segment_and_shown_all_the_same(key: str) -> None:
    with pytest.raises(PathResolutionError):
        LocalPath((key,))
    with pytest.raises(ValueError, match="not a JSON number") as refused:
        validate_strict_json_value({"x": {key: float("nan")}})
    assert shown_place(("x", key)) in str(refused.value)
    assert "\n" not in str(refused.value) and "\x7f" not in str(refused.value)


def keyed(key: str) -> dict[str, Any]:
    """Reads the key from the input, a handler's payload, an item, and the state, and writes it at two depths."""
    name = named(key)
    return flow(
        "keyed",
        [
            {
                "id": "first",
                "type": "node",
                "node": "echo",
                "input": [{"target": name, "path": f"input.box.{name}"}],
                "output": [{"source": name, "target": f"state.{name}"}],
            },
            each("each", "input.boxes"),
            {
                "id": "work",
                "type": "node",
                "node": "echo",
                "input": [{"target": name, "path": f"{item('each')}.{name}"}],
                "output": [{"source": name, "target": "state.listed"}],
            },
            {
                "id": "deep",
                "type": "node",
                "node": "echo",
                "input": [{"target": name, "path": f"state.{name}"}],
                "output": [{"source": name, "target": f"state.deep.{name}"}],
            },
        ],
        [
            ("first", "ok", "each"),
            ("each", "loop", "work"),
            ("work", "ok", "each"),
            ("each", "done", "deep"),
            ("deep", "ok", END),
        ],
        takes={
            "box": {"type": "object", "properties": {key: {}}},
            "boxes": {"type": "array", "items": {"type": "object", "properties": {key: {}}}},
        },
        state={
            key: {"type": "string"},
            "a": {"type": "object", "properties": {"b": {"default": "untouched"}, "b-c": {"default": "untouched"}}},
            "listed": {"type": "array", "reducer": "wf.std.append"},
            "deep": {"type": "object", "properties": {key: {}}},
        },
        gives={"first": {}, "listed": {}, "deep": {}, "a": {}},
        output=[
            {"target": "first", "path": f"state.{name}"},
            *({"target": field, "path": f"state.{field}"} for field in ("listed", "deep", "a")),
        ],
        defs=[
            {
                "name": "echo",
                "input_schema": {"type": "object", "properties": {key: {}}, "additionalProperties": False},
                "output_schema": {"type": "object", "properties": {key: {}}, "additionalProperties": False},
                "outcomes": ["ok"],
            }
        ],
    )


@pytest.mark.parametrize("key", [key for key in KEYS if key != "state"])
def test_a_key_is_bound_in_written_and_read_back(case: StoreCase, key: str) -> None:
    given = {"box": {**DECOY, key: "right"}, "boxes": [{**DECOY, key: f"item {i}"} for i in range(3)]}
    with case.unaudited(), inline(case.store, keyed(key), given) as (_, run):
        record = found(case.store, run)

    assert record.error is None
    assert record.output == {
        "first": "right",
        "listed": ["item 0", "item 1", "item 2"],
        "deep": {key: "right"},
        "a": {"b": "untouched", "b-c": "untouched"},
    }


@pytest.mark.parametrize("key", KEYS)
def test_a_message_about_a_key_points_at_it_over_http(api: Api, key: str) -> None:
    document = flow("strict", [step("echo", "echo")], [("echo", "ok", END)], takes={key: {"type": "integer"}})
    api.publish(document)

    refused = api.post(
        "/v1/runs", {"workflow": "strict", "input": {key: "no integer", **({} if key == "a" else DECOY)}}
    )

    error = refused.json()["error"]
    assert (refused.status_code, error["code"]) == (422, "workflow_input_invalid")
    assert parse_toml_path_segments(error["path"]) == ("input", key)


@pytest.mark.parametrize("key", ["a.b", "é", '"'])
def test_a_binding_to_a_key_that_is_not_declared_is_refused_by_its_own_name(api: Api, key: str) -> None:
    document = keyed("other")
    document["nodes"][0]["output"] = [{"source": "other", "target": f"state.{named(key)}"}]
    document["state_schema"]["properties"]["a"]["properties"]["b"] = {}

    refused = api.post("/v1/workflows", {"workflow": document})

    assert refused.status_code == 422
    # The text of the path, quoted as Python quotes a text.
    assert repr(f"state.{named(key)}") in refused.json()["error"]["details"]["issues"][0]["message"]


def test_an_empty_key_travels_through_a_run_untouched_though_no_path_names_it(case: StoreCase) -> None:
    document = flow(
        "empty",
        [step("echo", "echo", "input.value", "state.v")],
        [("echo", "ok", END)],
        takes={"value": {}},
        state={"v": {}},
        gives={"v": {}},
    )
    with inline(case.store, document, {"value": {"": {"": 1}, "\n": 2}}) as (_, run):
        assert found(case.store, run).output == {"v": {"": {"": 1}, "\n": 2}}
