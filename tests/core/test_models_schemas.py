from __future__ import annotations

import pytest
from pydantic import ValidationError

from wf_core.models import NodeDef, ReducerRef, SchemaRef, StateField, StateFieldDecl, StateSchema
from wf_core.models.state_fields import MAX_STATE_FIELDS
from wf_core.paths import StatePath

CONFIGURED = {"ref": {"source": "acme", "capability_key": "top"}, "config": {"n": 3}}


# --- Payload schemas ---


def test_every_keyword_of_a_schema_is_kept_and_absent_ones_are_not_dumped_as_null() -> None:
    raw = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": ["object", "null"],
        "properties": {"a": {"const": None}, "b": True},
        "required": ["a"],
        "additionalProperties": False,
        "const": None,
    }

    schema = SchemaRef.model_validate(raw)

    assert schema.model_dump() == schema.model_dump(mode="json") == raw
    assert schema.as_json_schema() == raw
    assert SchemaRef.model_validate_json(schema.model_dump_json()) == schema


def test_known_keywords_have_empty_defaults() -> None:
    schema = SchemaRef()

    assert (schema.title, schema.type, schema.properties, schema.required) == (None, None, {}, [])
    assert schema.as_json_schema() == {}
    assert schema.model_dump() == {"properties": {}, "required": []}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "nothing"},
        {"type": "object", "properties": []},
        {"type": "object", "required": "a"},
        {"type": "object", "properties": {"a": {"type": "array", "items": 1}}},
        {"type": "string", "pattern": "("},
        {"$schema": 1},
        {"$schema": "http://[no"},
        {"title": 1},
        {"minLength": -1},
        {"default": {1, 2}},
    ],
)
def test_an_invalid_schema_is_refused_when_it_is_parsed(schema: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match="invalid JSON Schema"):
        SchemaRef.model_validate(schema)
    with pytest.raises(ValidationError, match="invalid JSON Schema"):
        StateSchema.model_validate({"type": "object", "properties": {"field": schema}, **schema})


def test_the_schema_keyword_selects_the_dialect_and_the_newest_is_the_default() -> None:
    boolean_bound = {"exclusiveMinimum": True, "minimum": 1}
    draft_4 = {"$schema": "http://json-schema.org/draft-04/schema#", **boolean_bound}

    assert SchemaRef.model_validate(draft_4).as_json_schema() == draft_4
    with pytest.raises(ValidationError, match="invalid JSON Schema"):
        SchemaRef.model_validate(boolean_bound)


def test_the_dump_of_a_draft_4_schema_parses_again() -> None:
    schema = SchemaRef.model_validate({"$schema": "http://json-schema.org/draft-04/schema#", "type": "object"})

    assert SchemaRef.model_validate(schema.model_dump()) == schema


def test_a_very_deep_schema_is_refused_rather_than_crashing() -> None:
    deep: dict[str, object] = {}
    for _ in range(5000):
        deep = {"items": deep}

    with pytest.raises(ValidationError, match="invalid JSON Schema"):
        SchemaRef.model_validate(deep)


# --- Node definitions ---


def test_a_node_definition_needs_an_outcome_and_sane_hints() -> None:
    contract = {"name": "charge", "input_schema": {"type": "object"}, "output_schema": {"type": "object"}}

    assert NodeDef.model_validate({**contract, "outcomes": ["ok"], "retry": 0, "timeout_seconds": 1}).retry == 0
    for wrong in (
        {"outcomes": []},
        {},
        {"outcomes": ["ok"], "retry": -1},
        {"outcomes": ["ok"], "retry": True},
        {"outcomes": ["ok"], "timeout_seconds": 0},
        {"outcomes": ["ok"], "timeout_seconds": 1.5},
    ):
        with pytest.raises(ValidationError):
            NodeDef.model_validate({**contract, **wrong})


# --- State schemas: canonical form ---


def test_fields_are_found_at_any_object_depth_parents_first() -> None:
    schema = StateSchema.model_validate(
        {
            "properties": {
                "person": {
                    "type": "object",
                    "properties": {"tags": {"type": "array", "reducer": "wf.std.append", "trace": False}},
                },
                "a.b": {"type": ["string", "null"], "default": "x"},
                "any": True,
                "never": False,
            }
        }
    )

    index = schema.field_index()
    assert list(index) == [
        StatePath(("person",)),
        StatePath(("person", "tags")),
        StatePath(("a.b",)),
        StatePath(("any",)),
        StatePath(("never",)),
    ]
    tags = index[StatePath.of("person.tags")]
    assert (tags.type, tags.reducer.name, tags.trace, tags.default) == ("array", "wf.std.append", False, None)
    assert index[StatePath(("a.b",))].default == "x"
    assert index[StatePath(("a.b",))].type is None
    assert index[StatePath.of("person")].reducer == ReducerRef(name="wf.std.replace")
    assert index[StatePath.of("never")].validation_schema.as_json_schema() == {"not": {}}
    assert schema.fields == list(index.values())
    assert list(schema.field_map()) == ["person", "person.tags", "a.b", "any", "never"]
    assert schema.root_fields() == {"person", "a.b", "any", "never"}


def test_a_field_named_like_an_extension_keyword_is_a_field() -> None:
    schema = StateSchema.model_validate({"properties": {"reducer": {"type": "string"}, "trace": {"type": "number"}}})

    assert schema.root_fields() == {"reducer", "trace"}
    assert schema.field_map()["reducer"].type == "string"


def test_an_extracted_schema_stands_alone() -> None:
    schema = StateSchema.model_validate(
        {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$defs": {"Tag": {"type": "string"}},
            "properties": {
                "person": {
                    "type": "object",
                    "reducer": "wf.std.merge_object",
                    "properties": {"tags": {"type": "array", "items": {"$ref": "#/$defs/Tag"}, "trace": False}},
                }
            },
        }
    )

    assert schema.field_map()["person"].validation_schema.as_json_schema() == {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$defs": {"Tag": {"type": "string"}},
        "type": "object",
        "properties": {"tags": {"type": "array", "items": {"$ref": "#/$defs/Tag"}}},
    }


def test_fields_behind_references_are_declared() -> None:
    schema = StateSchema.model_validate(
        {
            "$defs": {
                "Person": {"$ref": "#/$defs/Named", "properties": {"age": {"type": "integer"}}},
                "Named": {"type": "object", "properties": {"name": {"type": "string", "reducer": "wf.std.max"}}},
                "a/b ~": {"properties": {"x": {}}},
            },
            "properties": {
                "owner": {"$ref": "#/$defs/Person", "properties": {"extra": {}}},
                "odd": {"$ref": "#/$defs/a~1b%20~0"},
                "gone": {"$ref": "#/$defs/Nothing"},
                "foreign": {"$ref": "https://example.org/schema"},
            },
        }
    )

    fields = schema.field_map()
    assert list(fields) == [
        "owner",
        "owner.name",
        "owner.age",
        "owner.extra",
        "odd",
        "odd.x",
        "gone",
        "foreign",
    ]
    assert fields["owner.name"].reducer.name == "wf.std.max"
    assert fields["owner"].validation_schema.as_json_schema()["$ref"] == "#/$defs/Person"


def test_a_recursive_schema_is_declared_down_to_its_first_repetition() -> None:
    schema = StateSchema.model_validate(
        {
            "$defs": {
                "Node": {"properties": {"value": {}, "next": {"$ref": "#/$defs/Node"}}},
                "Loop": {"$ref": "#/$defs/Loop"},
            },
            "properties": {"head": {"$ref": "#/$defs/Node"}, "loop": {"$ref": "#/$defs/Loop"}},
        }
    )

    assert list(schema.field_map()) == ["head", "head.value", "head.next", "loop"]


def test_a_schema_that_unfolds_to_countless_fields_is_refused() -> None:
    levels = MAX_STATE_FIELDS.bit_length()
    defs: dict[str, object] = {f"L{levels}": {}}
    for level in range(levels):
        below = {"$ref": f"#/$defs/L{level + 1}"}
        defs[f"L{level}"] = {"properties": {"x": below, "y": below}}

    with pytest.raises(ValidationError, match="more than"):
        StateSchema.model_validate({"$defs": defs, "properties": {"root": {"$ref": "#/$defs/L0"}}})


@pytest.mark.parametrize("reducer", [5, None, True, [], "append", {"name": 1}, {}, {"ref": "a.b", "name": "a.b"}])
def test_a_bad_reducer_is_refused_by_the_name_of_its_field(reducer: object) -> None:
    nested = {"properties": {"person": {"properties": {"tags": {"reducer": reducer}}}}}

    with pytest.raises(ValidationError, match=r"invalid reducer for state field 'person\.tags'"):
        StateSchema.model_validate(nested)
    with pytest.raises(ValidationError, match=r"invalid reducer for state field 'person\.tags'"):
        StateSchema.model_validate({"fields": {"person.tags": {"type": "array", "reducer": reducer}}})


@pytest.mark.parametrize("trace", [1, "no", None])
def test_a_bad_trace_flag_is_refused_by_the_name_of_its_field(trace: object) -> None:
    with pytest.raises(ValidationError, match="state field 'a'"):
        StateSchema.model_validate({"properties": {"a": {"trace": trace}}})


def test_the_whole_state_has_no_reducer_and_no_other_type() -> None:
    with pytest.raises(ValidationError, match="bare state has none"):
        StateSchema.model_validate({"reducer": "wf.std.append"})
    with pytest.raises(ValidationError):
        StateSchema.model_validate({"type": "array"})
    assert StateSchema().as_json_schema() == {"type": "object"}


def test_a_null_default_means_no_default() -> None:
    assert StateSchema.model_validate({"properties": {"a": {"default": None}}}).field_map()["a"].default is None


# --- State schemas: deprecated fields ---


def test_a_list_of_fields_is_folded_into_properties() -> None:
    schema = StateSchema.model_validate(
        {
            "title": "S",
            "fields": [
                {"path": "state.person", "schema": {"type": "object", "properties": {"name": {"type": "string"}}}},
                {"path": "state.person.tags", "type": "array", "reducer": "wf.std.append"},
                {"path": "state.top", "type": "array", "reducer": CONFIGURED, "trace": False, "default": []},
                {"path": 'state."a.b".c', "trace": True, "default": None},
            ],
        }
    )

    assert schema.model_dump(mode="json") == {
        "title": "S",
        "type": "object",
        "properties": {
            "person": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "tags": {"type": "array", "reducer": "wf.std.append"},
                },
            },
            "top": {"type": "array", "reducer": CONFIGURED, "trace": False, "default": []},
            "a.b": {"type": "object", "properties": {"c": {"type": "object"}}},
        },
        "required": [],
    }
    assert StateSchema.model_validate(schema.model_dump()) == schema


def test_a_map_of_fields_is_folded_into_properties() -> None:
    schema = StateSchema.model_validate(
        {
            "fields": {
                "person.tags": {"type": "array", "reducer": {"name": "wf.std.append", "config": {}}},
                "state.total": {"type": "number", "minimum": 0},
                "state": {"type": "string"},
                "'x.y'": {"schema": True},
            }
        }
    )

    assert schema.properties == {
        "person": {"type": "object", "properties": {"tags": {"type": "array", "reducer": "wf.std.append"}}},
        "total": {"type": "number", "minimum": 0},
        "state": {"type": "string"},
        "x.y": {},
    }
    assert "fields" not in schema.model_dump()


def test_a_field_map_in_python_gives_the_same_schema() -> None:
    schema = StateSchema.from_field_map(
        {
            "person.tags": StateField(type="array", reducer=ReducerRef(name="wf.std.append"), default=[]),
            "state.total": StateField(type="number", trace=False),
        }
    )

    assert schema.properties == {
        "person": {
            "type": "object",
            "properties": {"tags": {"type": "array", "reducer": "wf.std.append", "default": []}},
        },
        "total": {"type": "number", "trace": False},
    }


def test_ready_declarations_are_folded_too() -> None:
    decl = StateFieldDecl(path=StatePath.of("a"), validation_schema=SchemaRef(type="string"), default="x")

    schema = StateSchema.model_validate({"fields": [decl]})

    assert schema.properties == {"a": {"type": "string", "default": "x"}}


@pytest.mark.parametrize(
    "fields",
    [
        {"a": {"type": "string"}, "state.a": {"type": "string"}},
        [{"path": "state.a", "type": "string"}, {"path": "state.a", "type": "string"}],
        [{"path": "state.a.b", "type": "string"}, {"path": "state.a.b", "type": "string"}],
        [{"path": "state.a", "schema": {"properties": {"b": {}}}}, {"path": "state.a.b", "type": "string"}],
    ],
)
def test_a_repeated_field_is_refused(fields: object) -> None:
    with pytest.raises(ValidationError, match=r"duplicate state field path 'a(\.b)?'"):
        StateSchema.model_validate({"fields": fields})


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ([{"path": "state.a.b", "type": "string"}, {"path": "state.a", "type": "object"}], "declared before"),
        ([{"path": "state.a", "type": "array"}, {"path": "state.a.b", "type": "string"}], "to be an object"),
        ([{"path": "state", "type": "string"}], "state path"),
        ([{"path": "a", "type": "string"}], "state path"),
        ([{"type": "string"}], "path"),
        (["state.a"], "must be an object"),
        ({"a": "string"}, "must be an object"),
        ({"a": {"type": "string", "schema": {}}}, "'schema'"),
        ({"a..b": {"type": "string"}}, "invalid TOML path"),
        ({"a": {"type": "nothing"}}, "invalid JSON Schema"),
        (None, "list of fields"),
        ("a", "list of fields"),
    ],
)
def test_malformed_fields_are_refused(fields: object, reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        StateSchema.model_validate({"fields": fields})


def test_fields_and_properties_are_not_merged() -> None:
    with pytest.raises(ValidationError, match="cannot be mixed"):
        StateSchema.model_validate({"fields": {"a": {"type": "string"}}, "properties": {"b": {}}})


def test_parsing_leaves_the_given_fields_unchanged() -> None:
    person: dict[str, object] = {"type": "object"}
    raw = {"fields": [{"path": "state.person", "schema": person}, {"path": "state.person.name", "type": "string"}]}

    StateSchema.model_validate(raw)

    assert person == {"type": "object"}
    assert list(raw) == ["fields"]


def test_a_declaration_reads_type_or_schema_and_dumps_schema() -> None:
    short = StateFieldDecl.model_validate({"path": "state.a", "type": "array"})
    full = StateFieldDecl.model_validate({"path": "state.a", "schema": {"type": "array"}})

    assert short == full
    assert short.type == "array"
    assert short.model_dump(mode="json")["schema"]["type"] == "array"
    assert StateFieldDecl.model_validate(short.model_dump()) == short
    assert StateFieldDecl(path=StatePath.of("a")).type == "object"
    with pytest.raises(ValidationError, match="mutually exclusive"):
        StateFieldDecl.model_validate({"path": "state.a", "type": "array", "schema": {}})
