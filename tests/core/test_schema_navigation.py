"""Walking JSON Schemas: what counts as declared, how references resolve, what is known about items."""

from __future__ import annotations

from typing import Any

import pytest

from wf_core.models import SchemaRef
from wf_core.schema_navigation import (
    MAX_INLINED_SCHEMAS,
    MAX_REFERENCE_HOPS,
    declares_array,
    declares_path,
    item_schema,
    property_names,
    schema_document,
)

PERSON: dict[str, Any] = {"type": "object", "properties": {"name": {"type": "string"}}}


def chain(hops: int) -> dict[str, Any]:
    """A property whose schema is reached over so many references."""
    definitions: dict[str, Any] = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(1, hops)}
    definitions[f"d{hops}"] = {"type": "array", "items": PERSON}
    return {"properties": {"list": {"$ref": "#/$defs/d1"}}, "$defs": definitions}


@pytest.mark.parametrize(
    ("schema", "parts", "declared"),
    [
        (PERSON, (), True),
        (PERSON, ("name",), True),
        (PERSON, ("age",), False),
        (PERSON, ("name", "first"), False),
        ({"properties": {"a": {}}}, ("a",), True),
        ({"properties": {"a": {}}}, ("a", "b"), False),
        ({"properties": {"a": {"type": "object", "additionalProperties": True}}}, ("a", "b"), False),
        ({"properties": {"a": {"additionalProperties": PERSON}}}, ("a", "b"), False),
        ({"properties": {"a": {"type": "string", "properties": {"b": {}}}}}, ("a", "b"), False),
        ({"properties": {"a": {"type": ["object", "null"], "properties": {"b": {}}}}}, ("a", "b"), True),
        ({"properties": {"a": True}}, ("a",), True),
        ({"properties": {"a": False}}, ("a",), False),
        ({"properties": {"list": {"type": "array", "items": PERSON}}}, ("list", "0"), False),
        ({"properties": {"a.b": {"properties": {"$ref": {}}}}}, ("a.b", "$ref"), True),
    ],
)
def test_only_declared_properties_of_objects_are_paths(
    schema: dict[str, Any], parts: tuple[str, ...], declared: bool
) -> None:
    assert declares_path(schema, parts) is declared


@pytest.mark.parametrize(
    "reference",
    ["#/$defs/Person", "#/definitions/Old", "#/$defs/a~1b~0c", "#/$defs/with%20blank", "#/$defs/Box/properties/inner"],
)
def test_local_references_are_followed(reference: str) -> None:
    schema = {
        "properties": {"who": {"$ref": reference}},
        "$defs": {
            "Person": PERSON,
            "a/b~c": PERSON,
            "with blank": PERSON,
            "Box": {"properties": {"inner": PERSON}},
        },
        "definitions": {"Old": PERSON},
    }

    assert declares_path(schema, ("who", "name"))
    assert not declares_path(schema, ("who", "age"))


@pytest.mark.parametrize(
    "reference",
    ["#", "#/properties/who", "#/$defs/Nobody", "#/$defs", "other.json#/$defs/Person", "http://example.test/x", 7],
)
def test_other_references_are_unresolved_and_declare_nothing(reference: object) -> None:
    schema = {"properties": {"who": {"$ref": reference, "properties": {"name": {}}}}, "$defs": {"Person": PERSON}}

    assert not declares_path(schema, ("who",))
    assert not declares_path(schema, ("who", "name"))
    assert item_schema({"properties": {"list": {"type": "array", "items": {"$ref": reference}}}}, ("list",)) == {}


def test_a_reference_chain_is_followed_up_to_its_limit() -> None:
    within, beyond = chain(MAX_REFERENCE_HOPS), chain(MAX_REFERENCE_HOPS + 1)

    assert declares_array(within, ("list",))
    assert item_schema(within, ("list",)) == PERSON
    assert not declares_path(beyond, ("list",))
    assert item_schema(beyond, ("list",)) == {}


def test_references_in_a_circle_are_unresolved() -> None:
    schema = {
        "properties": {"a": {"$ref": "#/$defs/A"}, "list": {"type": "array", "items": {"$ref": "#/$defs/A"}}},
        "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}, "Self": {"$ref": "#/$defs/Self"}},
    }

    assert not declares_path(schema, ("a",))
    assert item_schema(schema, ("list",)) == {}


def test_a_reference_resolves_in_the_nearest_definitions_table() -> None:
    schema = {
        "properties": {
            "near": {
                "properties": {"x": {"$ref": "#/$defs/T"}, "y": {"$ref": "#/$defs/Outer"}},
                "$defs": {"T": {"properties": {"near": {}}}},
            },
            "far": {"$ref": "#/$defs/T"},
        },
        "$defs": {"T": {"properties": {"far": {}}}, "Outer": {"properties": {"t": {"$ref": "#/$defs/T"}}}},
    }

    assert declares_path(schema, ("near", "x", "near"))
    assert not declares_path(schema, ("near", "x", "far"))
    assert declares_path(schema, ("far", "far"))
    assert declares_path(schema, ("near", "y", "t", "far"))


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
def test_one_branch_of_a_composition_suffices(keyword: str) -> None:
    schema = {
        "properties": {"a": {keyword: [{"type": "null"}, {"$ref": "#/$defs/Gone"}, {"$ref": "#/$defs/Person"}]}},
        "$defs": {"Person": PERSON},
    }

    assert declares_path(schema, ("a", "name"))
    assert not declares_path(schema, ("a", "age"))


def test_keywords_beside_a_reference_declare_properties_too() -> None:
    schema = {
        "properties": {"who": {"$ref": "#/$defs/Person", "properties": {"age": {}}}},
        "$defs": {"Person": PERSON},
    }

    assert declares_path(schema, ("who", "name"))
    assert declares_path(schema, ("who", "age"))


def test_a_recursive_schema_is_walked_as_deep_as_the_path() -> None:
    schema = {
        "$ref": "#/$defs/Tree",
        "$defs": {"Tree": {"type": "object", "properties": {"left": {"anyOf": [{"$ref": "#/$defs/Tree"}]}}}},
    }

    assert declares_path(schema, ("left",) * 50)
    assert property_names(schema) == {"left"}


def test_a_composition_that_contains_itself_ends() -> None:
    schema = {"$ref": "#/$defs/A", "$defs": {"A": {"anyOf": [{"$ref": "#/$defs/A"}, PERSON]}}}

    assert declares_path(schema, ("name",))
    assert not declares_path(schema, ("age",))


@pytest.mark.parametrize(
    ("array", "items"),
    [
        ({"type": "array", "items": PERSON}, PERSON),
        ({"type": ["array", "null"], "items": PERSON}, PERSON),
        ({"type": "array"}, {}),
        ({"type": "array", "items": True}, {}),
        ({"items": PERSON}, {}),
        ({"type": "object", "items": PERSON}, {}),
        ({"anyOf": [{"type": "array", "items": PERSON}, {"type": "null"}]}, PERSON),
        (
            {"anyOf": [{"type": "array", "items": PERSON}, {"type": "array", "items": {"type": "string"}}]},
            {"anyOf": [PERSON, {"type": "string"}]},
        ),
    ],
)
def test_item_schemas_come_from_array_types_only(array: dict[str, Any], items: dict[str, Any]) -> None:
    assert item_schema({"properties": {"list": array}}, ("list",)) == items


def test_item_of_an_undeclared_path_is_unconstrained() -> None:
    assert item_schema(PERSON, ("friends",)) == {}
    assert item_schema(PERSON, ()) == {}


def test_references_inside_an_item_are_inlined_with_the_keywords_beside_them() -> None:
    schema = {
        "properties": {"list": {"type": "array", "items": {"$ref": "#/$defs/Order"}}},
        "$defs": {
            "Order": {
                "type": "object",
                "title": "Order",
                "properties": {"buyer": {"$ref": "#/$defs/Person", "title": "Buyer", "required": ["name"]}},
                "required": ["buyer"],
            },
            "Person": PERSON,
        },
    }

    assert item_schema(schema, ("list",)) == {
        "type": "object",
        "title": "Order",
        "properties": {"buyer": {**PERSON, "title": "Buyer", "required": ["name"]}},
        "required": ["buyer"],
    }


def test_a_recursive_item_keeps_its_reference_and_the_definitions() -> None:
    definitions = {
        "Tree": {
            "type": "object",
            "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}},
        }
    }
    schema = {"properties": {"trees": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}}, "$defs": definitions}

    item = item_schema(schema, ("trees",))

    assert item == {**definitions["Tree"], "$defs": definitions}
    nested = item_schema(item, ("children",))
    assert declares_path({"properties": {"item": nested}}, ("item", "children"))
    assert declares_array(item, ("children",))


def test_inlining_stops_growing_when_definitions_multiply() -> None:
    depth = 40
    definitions: dict[str, Any] = {
        f"d{n}": {"properties": {"l": {"$ref": f"#/$defs/d{n + 1}"}, "r": {"$ref": f"#/$defs/d{n + 1}"}}}
        for n in range(depth)
    }
    definitions[f"d{depth}"] = {"properties": {"end": {}}}
    schema = {"properties": {"list": {"type": "array", "items": {"$ref": "#/$defs/d0"}}}, "$defs": definitions}

    item = item_schema(schema, ("list",))

    assert _size(item) < 4 * MAX_INLINED_SCHEMAS
    assert declares_path(item, ("l", "r") * (depth // 2) + ("end",))
    assert not declares_path(item, ("l", "r") * (depth // 2) + ("start",))


def test_a_schema_that_was_made_to_contain_itself_is_still_copied() -> None:
    knot: dict[str, Any] = {"type": "object", "properties": {}}
    knot["properties"] |= {"left": knot, "right": knot}

    item = item_schema({"properties": {"list": {"type": "array", "items": knot}}}, ("list",))

    assert declares_path(item, ("left", "right") * 100)


def test_values_that_look_like_schemas_are_left_alone() -> None:
    item = {"type": "object", "default": {"$ref": "#/$defs/x"}, "enum": [{"$ref": "#/$defs/x"}]}

    assert item_schema({"properties": {"list": {"type": "array", "items": item}}}, ("list",)) == item


def test_schema_models_and_mappings_are_documents_and_other_values_are_empty() -> None:
    model = SchemaRef.model_validate({"type": "object", "properties": {"a": {}}, "$defs": {"T": {}}})

    assert schema_document(model) == {"type": "object", "properties": {"a": {}}, "$defs": {"T": {}}}
    assert schema_document({"type": "object"}) == {"type": "object"}
    assert schema_document("object") == {}
    assert not declares_path(None, ("a",))


def _size(value: object) -> int:
    if isinstance(value, dict):
        return 1 + sum(_size(member) for member in value.values())
    if isinstance(value, list):
        return 1 + sum(_size(member) for member in value)
    return 1
