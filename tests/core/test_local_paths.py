from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wf_core.local_paths import (
    LocalPathError,
    get_local_value,
    has_overlapping_paths,
    paths_overlap,
    set_local_value,
    split_local_path,
)
from wf_core.paths import LocalPath


def test_a_nested_value_is_read_by_text_or_ready_path() -> None:
    payload = {"user": {"e.mail": None}}

    assert get_local_value(payload, 'user."e.mail"') is None
    assert get_local_value(payload, LocalPath(("user",))) is payload["user"]


def test_the_whole_payload_is_read_as_a_shallow_copy() -> None:
    payload = {"user": {"name": "Ada"}}

    whole = get_local_value(payload, ".")

    assert whole == payload
    assert whole is not payload
    assert whole["user"] is payload["user"]


@pytest.mark.parametrize("path", ["missing", "user.missing", "user.name.first", "list.0", "not a path", ""])
def test_reading_what_is_not_there_fails(path: str) -> None:
    with pytest.raises(LocalPathError) as caught:
        get_local_value({"user": {"name": "Ada"}, "list": [1]}, path)

    assert isinstance(caught.value, ValueError)
    assert caught.value.code == "local_path_failed"


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("user.email.domain", "user.email is missing"),
        ("user.name.first.letter", "user.name is not an object"),
        (LocalPath(("list", "0")), "list is not an object"),
    ],
)
def test_the_error_names_the_path_and_how_far_it_could_be_read(path: str | LocalPath, reason: str) -> None:
    with pytest.raises(LocalPathError) as caught:
        get_local_value({"user": {"name": "Ada"}, "list": [1]}, path)

    assert caught.value.path == str(path)
    assert str(caught.value) == f"cannot read '{path}': {reason}"


def test_a_missing_output_field_is_called_missing() -> None:
    with pytest.raises(LocalPathError, match=r"user\.email is missing"):
        get_local_value({"user": {}}, "user.email")


def test_a_write_creates_the_objects_on_its_way() -> None:
    payload: dict[str, object] = {"user": {"name": "Ada"}}

    set_local_value(payload, "user.address.city", "London")
    set_local_value(payload, LocalPath.of("mode"), "fast")

    assert payload == {"user": {"name": "Ada", "address": {"city": "London"}}, "mode": "fast"}


@pytest.mark.parametrize("obstacle", [1, "text", [1], None])
def test_a_write_through_anything_but_an_object_fails_and_changes_nothing(obstacle: object) -> None:
    payload = {"user": obstacle}

    with pytest.raises(LocalPathError, match="cannot descend into user:") as caught:
        set_local_value(payload, "user.name.first", 1)

    assert caught.value.path == "user.name.first"
    assert payload == {"user": obstacle}


def test_writing_the_whole_payload_replaces_its_content() -> None:
    payload: dict[str, object] = {"old": 1}

    set_local_value(payload, ".", {"new": 2})

    assert payload == {"new": 2}


def test_writing_a_payload_into_itself_keeps_it() -> None:
    payload: dict[str, object] = {"old": 1}

    set_local_value(payload, ".", payload)

    assert payload == {"old": 1}


@pytest.mark.parametrize("value", [1, None, [1], "text"])
def test_the_whole_payload_can_only_be_an_object(value: object) -> None:
    payload = {"old": 1}

    with pytest.raises(LocalPathError, match=f"must be an object, not {type(value).__name__}") as caught:
        set_local_value(payload, ".", value)

    assert caught.value.path == "."
    assert payload == {"old": 1}


def test_splitting_gives_segments_and_none_for_the_whole_payload() -> None:
    assert split_local_path('a."b.c"') == ["a", "b.c"]
    assert split_local_path(".") == []
    with pytest.raises(LocalPathError, match="invalid TOML path") as caught:
        split_local_path("a..b")
    assert "quote" in (caught.value.hint or "")


def test_places_overlap_when_equal_or_when_one_holds_the_other() -> None:
    assert paths_overlap("a", "a.b")
    assert paths_overlap("a.b", LocalPath.of("a.b"))
    assert paths_overlap(".", "a")
    assert not paths_overlap("a.b", "a.c")


parts = st.lists(st.sampled_from(["a", "b", "a-b", "é"]), max_size=3).map(tuple)


@given(st.lists(parts.map(LocalPath), max_size=6))
def test_a_set_of_places_overlaps_exactly_when_two_of_them_do(paths: list[LocalPath]) -> None:
    pairwise = any(paths_overlap(a, b) for i, a in enumerate(paths) for b in paths[i + 1 :])

    assert has_overlapping_paths(paths) is pairwise
