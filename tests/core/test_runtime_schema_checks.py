"""Schema checks: the short way and the validator agree on every value."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from wf_core.errors import WorkflowExecutionError
from wf_core.schema_checks import PayloadInvalid, SchemaCheck

NAMES = st.sampled_from(["a", "b", "c"])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([0.0, 1.0, 1.5, -2.0])
    | st.sampled_from(["", "a", "bb"])
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=8
)
TYPES = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])


def schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {},
        optional={
            "type": TYPES | st.lists(TYPES, min_size=1, max_size=3, unique=True),
            "title": st.just("words"),
            "properties": st.dictionaries(NAMES, inner, max_size=2),
            "required": st.lists(NAMES, max_size=2, unique=True),
            "additionalProperties": st.booleans() | inner,
            "items": inner,
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "enum": st.lists(SCALARS, min_size=1, max_size=3),
            "const": SCALARS,
            "minimum": st.integers(-1, 1),
            "exclusiveMaximum": st.integers(0, 2),
            "minLength": st.integers(0, 2),
            "maxLength": st.integers(0, 2),
            "minItems": st.integers(0, 2),
            "maxItems": st.integers(0, 2),
            "uniqueItems": st.booleans(),
            "not": inner,
        },
    )


SCHEMAS = st.recursive(
    st.just({}) | st.booleans() | st.builds(lambda name: {"type": name}, TYPES), schemas, max_leaves=6
)


@settings(max_examples=300, deadline=None)
@given(schema=schemas(SCHEMAS), value=VALUES)
def test_a_check_accepts_what_the_validator_accepts_and_nothing_else(schema: dict[str, Any], value: Any) -> None:
    fits = Draft202012Validator(schema).is_valid(value)

    try:
        SchemaCheck(schema).check(value, "value")
    except PayloadInvalid:
        assert not fits
    else:
        assert fits


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        ({"type": "object"}, [], "it: [] is not of type 'object'"),
        (
            {"properties": {"a b": {"items": {"type": "string"}}}},
            {"a b": ["x", 1]},
            "it.\"a b\"[1]: 1 is not of type 'string'",
        ),
        ({"required": ["a"]}, {}, "it: 'a' is a required property"),
        ({"properties": {"d": {"format": "date"}}}, {"d": "never"}, "it.d: 'never' is not a 'date'"),
    ],
)
def test_a_refusal_names_the_place_and_the_reason(schema: dict[str, Any], value: Any, message: str) -> None:
    with pytest.raises(WorkflowExecutionError) as caught:
        SchemaCheck(schema).check(value, "it")

    assert str(caught.value) == message
    assert caught.value.code == "payload_invalid"


def test_the_dialect_of_the_document_counts() -> None:
    """A whole float is an integer since draft 6, and none in draft 4."""
    draft4 = SchemaCheck({"$schema": "http://json-schema.org/draft-04/schema#", "type": "integer"})

    SchemaCheck({"type": "integer"}).check(1.0, "it")
    with pytest.raises(PayloadInvalid):
        draft4.check(1.0, "it")


def test_references_resolve_inside_the_document_only() -> None:
    inside = SchemaCheck({"$ref": "#/$defs/n", "$defs": {"n": {"type": "integer"}}})

    inside.check(1, "it")
    with pytest.raises(PayloadInvalid, match="'x' is not of type"):
        inside.check("x", "it")
    with pytest.raises(PayloadInvalid, match="cannot be resolved"):
        SchemaCheck({"$ref": "https://example.invalid/schema"}).check(1, "it")
    with pytest.raises(PayloadInvalid, match="refers to itself without end"):
        SchemaCheck({"$ref": "#"}).check(1, "it")
