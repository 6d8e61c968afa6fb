"""What the entrance lets in, and what it refuses."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wf_api.strict_json import MAX_DIGITS, MAX_NESTING, JsonRefused, decode, encode


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "json_invalid"),
        ("{", "json_invalid"),
        ('{"a": 1,}', "json_invalid"),
        ("{'a': 1}", "json_invalid"),
        ("[1] [2]", "json_invalid"),
        ('{"a": 01}', "json_invalid"),
        ('"a\nb"', "json_invalid"),
        ("\ufeff{}", "json_invalid"),
        ("NaN", "json_not_finite"),
        ('{"a": [Infinity]}', "json_not_finite"),
        ("-Infinity", "json_not_finite"),
        ("1e999", "json_not_finite"),
        ("-1e999", "json_not_finite"),
        ('{"a": 1, "b": 2, "a": 3}', "json_duplicate_key"),
        ('{"a": 1, "\\u0061": 1}', "json_duplicate_key"),
        ('[{"x": {"k": 0, "k": 0}}]', "json_duplicate_key"),
        ('"\\ud800"', "json_lone_surrogate"),
        ('{"a": ["ok", "\\udfff tail"]}', "json_lone_surrogate"),
        ('{"\\ud83d": 1}', "json_lone_surrogate"),
        ('"\\ude00\\ud83d"', "json_lone_surrogate"),
        ("[" * (MAX_NESTING + 1) + "]" * (MAX_NESTING + 1), "json_too_deep"),
        ('{"a":' * 300 + "1" + "}" * 300, "json_too_deep"),
        ("[" * 200_000, "json_too_deep"),
        ("[" * 200_000 + "]" * 200_000, "json_too_deep"),
        ("1" * (MAX_DIGITS + 1), "json_number_too_long"),
        ("-" + "1" * (MAX_DIGITS + 1), "json_number_too_long"),
    ],
)
def test_what_is_not_strict_json_is_refused_with_its_own_code(text: str, code: str) -> None:
    with pytest.raises(JsonRefused) as refused:
        decode(text.encode("utf-8", "surrogatepass"))

    assert refused.value.code == code
    assert refused.value.hint


@pytest.mark.parametrize("data", [b"\xff", b'"\xed\xa0\x80"', '{"a": 1}'.encode("utf-16")])
def test_bytes_that_are_not_utf_8_are_refused(data: bytes) -> None:
    with pytest.raises(JsonRefused, match="UTF-8"):
        decode(data)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        0,
        -1,
        2**53 + 1,
        2**64,
        -(10**400),
        1.0,
        -0.0,
        0.1,
        5e-324,
        1.7976931348623157e308,
        "",
        '\U0001f600 \u0000 \u2028 "\\',
        [],
        {},
        {"b": 1, "a": {"c": [1, [2, {"d": None}]]}},
        {"": "", "a.b": 1, " ": 2},
    ],
)
def test_a_value_comes_back_as_it_was(value: object) -> None:
    again = decode(encode(decode(json.dumps(value).encode())))

    assert repr(again) == repr(value)


def test_a_surrogate_pair_is_one_character() -> None:
    assert decode(b'"\\ud83d\\ude00"') == "\U0001f600"


def test_the_deepest_allowed_value_is_let_in() -> None:
    value = decode(("[" * MAX_NESTING + "]" * MAX_NESTING).encode())

    assert decode(encode(value)) == value


def test_a_refusal_names_the_place() -> None:
    with pytest.raises(JsonRefused) as refused:
        decode(b'{"input": {"names": ["a", "\\ud800"]}}')

    assert refused.value.path == "input.names[1]"


def test_a_text_above_the_limit_is_refused_by_its_size() -> None:
    with pytest.raises(JsonRefused, match="11 bytes, the limit is 10") as refused:
        decode(b'"123456789"', most_bytes=10)

    assert refused.value.code == "body_too_large"


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**60), 10**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(JSON_VALUES, st.booleans())
def test_any_value_comes_back_as_it_was(value: object, escaped: bool) -> None:
    again = decode(json.dumps(value, ensure_ascii=escaped).encode())

    assert repr(again) == repr(value)
    assert repr(decode(encode(again))) == repr(value)


@given(st.binary(max_size=60) | st.text('{}[]",:\\u0d8eE+-.1NaInfinity ', max_size=30).map(str.encode))
def test_any_bytes_are_either_a_value_or_refused(data: bytes) -> None:
    try:
        value = decode(data)
    except JsonRefused:
        return
    assert decode(encode(value)) == value
