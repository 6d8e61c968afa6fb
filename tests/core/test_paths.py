from __future__ import annotations

import copy
import json
import pickle
import re
import tomllib
from collections import UserDict
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter, ValidationError

from wf_core.errors import WfError
from wf_core.paths import (
    GraphSourcePath,
    LocalPath,
    PathResolutionError,
    StatePath,
    format_toml_path_segments,
    get_nested_value,
    is_valid_destination_path,
    is_valid_source_path,
    parse_toml_path_segments,
    path_exists,
    path_parts_overlap,
    resolve_graph_path,
    set_nested_value,
    split_graph_path,
)

AnyPath = GraphSourcePath | StatePath | LocalPath


def is_segment(text: str) -> bool:
    return bool(text.strip()) and not re.search(r"[\x00-\x1f\x7f]", text)


segments = st.one_of(
    st.from_regex(r"[A-Za-z0-9_-]{1,8}", fullmatch=True),
    st.text(alphabet="ab.'\"\\[]#= é", min_size=1, max_size=8).filter(is_segment),
    st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12).filter(is_segment),
)
some_parts = st.lists(segments, min_size=1, max_size=4).map(tuple)
any_parts = st.lists(segments, max_size=4).map(tuple)
paths = st.one_of(
    st.builds(GraphSourcePath, st.sampled_from(["input", "state", "context"]), any_parts),
    st.builds(StatePath, some_parts),
    st.builds(LocalPath, any_parts),
)


# --- Text ---


@pytest.mark.parametrize("text", ["input", "state", "context"])
def test_a_whole_root_is_a_graph_path_without_segments(text: str) -> None:
    path = GraphSourcePath.parse(text)

    assert (path.root, path.parts, str(path)) == (text, (), text)


@pytest.mark.parametrize(
    ("text", "root", "parts", "canonical"),
    [
        ("state.person.name", "state", ("person", "name"), "state.person.name"),
        ("state.person-name", "state", ("person-name",), "state.person-name"),
        ("input.items.0.name", "input", ("items", "0", "name"), "input.items.0.name"),
        (
            'context.foreach."orders.v2".item',
            "context",
            ("foreach", "orders.v2", "item"),
            'context.foreach."orders.v2".item',
        ),
        (
            'input."customer.name"."display name"',
            "input",
            ("customer.name", "display name"),
            'input."customer.name"."display name"',
        ),
        ('input."[name]"', "input", ("[name]",), 'input."[name]"'),
        ("input.'a.b'", "input", ("a.b",), 'input."a.b"'),
        ("input . user", "input", ("user",), "input.user"),
        (" \tinput\t.\tuser ", "input", ("user",), "input.user"),
        ('"input"."user"', "input", ("user",), "input.user"),
        (r'state."say \"hi\" \\ \u00e9\U0001F600"', "state", ('say "hi" \\ é😀',), r'state."say \"hi\" \\ é😀"'),
        (r"state.'no \escape'", "state", (r"no \escape",), r'state."no \\escape"'),
    ],
)
def test_a_graph_path_parses_to_literal_segments_and_renders_canonically(
    text: str, root: str, parts: tuple[str, ...], canonical: str
) -> None:
    path = GraphSourcePath.parse(text)

    assert (path.root, path.parts) == (root, parts)
    assert str(path) == canonical


def test_state_and_local_paths_parse_and_render_canonically() -> None:
    assert StatePath.parse("state.person.name").parts == ("person", "name")
    assert str(StatePath(("person", "first name"))) == 'state.person."first name"'
    assert LocalPath.parse("user.email").parts == ("user", "email")
    assert LocalPath.parse("state.x").parts == ("state", "x")
    assert LocalPath.parse(".") == LocalPath.root()
    assert str(LocalPath.root()) == "."


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "\t",
        ".user",
        "user.",
        "a..b",
        "items[0].name",
        "a#b",
        "a,b",
        '"a"b',
        "a = 1",
        "é",
        "a b",
        "a\nb",
        "a.b\n",
        "\ra",
        '"open',
        "'open",
        "''a'",
        '"open\\',
        '"""x"""',
        "'''x'''",
        '""',
        '" "',
        "''",
        '"\u3000"',
        r'"a\nb"',
        r'"a\u0000b"',
        r'"a\u007fb"',
        '"a\tb"',
        "'a\tb'",
        '"a\x7fb"',
        r'"\q"',
        r'"\/"',
        r'"\u12"',
        r'"\ud800"',
        r'"\U00110000"',
        "'\ud800'",
        "[input]\nname",
        "[input.user]",
        "x = 1}\ny={z",
        "x = true}\ny={z",
        "x}\n",
        '{"root":"input","parts":["x"]}',
        "a.b # comment",
        "input\u00a0.user",
    ],
)
def test_a_text_that_is_not_exactly_one_dotted_key_is_refused_by_every_type(text: str) -> None:
    for parse, prefix in ((LocalPath.parse, ""), (GraphSourcePath.parse, "state."), (StatePath.parse, "state.")):
        with pytest.raises(PathResolutionError, match="invalid TOML path"):
            parse(prefix + text)


@pytest.mark.parametrize("letter", list("btnfr"))
def test_an_escape_for_a_control_character_is_known_and_refused(letter: str) -> None:
    with pytest.raises(PathResolutionError, match="control characters"):
        LocalPath.parse(f'"a\\{letter}b"')


@pytest.mark.parametrize("value", [None, 1, b"a"])
def test_only_a_string_is_read_as_a_path(value: object) -> None:
    for parse in (LocalPath.parse, GraphSourcePath.parse, StatePath.parse):
        with pytest.raises(PathResolutionError, match="a path is written as a string"):
            parse(value)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["", " ", "."])
def test_graph_and_state_paths_have_no_root_marker_and_no_empty_form(text: str) -> None:
    for path_type in (GraphSourcePath, StatePath):
        with pytest.raises(PathResolutionError, match="empty path"):
            path_type.parse(text)


def test_the_local_root_marker_is_exactly_one_dot() -> None:
    for text in (" . ", " .", ". ", ".."):
        with pytest.raises(PathResolutionError):
            LocalPath.parse(text)


@pytest.mark.parametrize("text", ["output", "output.foo", "foo.bar", "State.x", '"state.x"'])
def test_an_unknown_root_is_refused(text: str) -> None:
    with pytest.raises(PathResolutionError, match="unknown path root") as caught:
        GraphSourcePath.parse(text)
    assert "input, state or context" in (caught.value.hint or "")
    with pytest.raises(PathResolutionError, match="state path"):
        StatePath.parse(text)


def test_graph_source_path_has_no_output_root_by_any_way_in() -> None:
    with pytest.raises(PathResolutionError, match="unknown path root"):
        GraphSourcePath("output", ("x",))  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match="unknown path root"):
        TypeAdapter(GraphSourcePath).validate_python({"root": "output", "parts": ["x"]})


def test_bare_state_and_other_roots_are_no_state_paths() -> None:
    for text in ("state", "input.x", "context.x"):
        with pytest.raises(PathResolutionError, match="state path"):
            StatePath.parse(text)
    with pytest.raises(PathResolutionError, match="state path"):
        StatePath(())


def test_control_characters_are_named_in_the_error() -> None:
    with pytest.raises(PathResolutionError, match="control characters"):
        LocalPath.parse(r'"a\nb"')
    with pytest.raises(PathResolutionError, match="control characters"):
        LocalPath(("a\x7f",))


def test_a_path_error_is_a_value_error_with_code_and_hint() -> None:
    with pytest.raises(PathResolutionError) as caught:
        GraphSourcePath.parse("state.a b")

    assert isinstance(caught.value, WfError)
    assert isinstance(caught.value, ValueError)
    assert caught.value.code == "path_invalid"
    assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("'open", "unterminated quote"),
        ('"open', "unterminated quote"),
        ("a..b", "empty path segment"),
        ("a.", "empty path segment"),
        ("a.[0]", r"unexpected '\[' at character 3"),
        ("a b", "unexpected 'b' at character 3"),
        (r'"\q"', "escape"),
        (r'"\U00110000"', "is no Unicode character"),
        ('"a\tb"', "control characters"),
        ("'\ud800'", "surrogates"),
        (r'"\ud800"', "surrogates"),
        (r'"\udfff"', "surrogates"),
    ],
)
def test_the_error_says_what_is_wrong_with_a_text(text: str, reason: str) -> None:
    with pytest.raises(PathResolutionError, match=f"invalid TOML path.*{reason}") as caught:
        LocalPath.parse(text)

    assert "quote" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("text", "character"),
    [(r'"\uD7FF"', "\ud7ff"), (r'"\uE000"', "\ue000"), (r'"\U0010FFFF"', "\U0010ffff"), (r'"\u00E9"', "é")],
)
def test_an_escape_may_name_any_unicode_character(text: str, character: str) -> None:
    assert LocalPath.parse(text).parts == (character,)


@given(paths)
def test_every_path_is_read_back_from_its_text(path: AnyPath) -> None:
    assert type(path).parse(str(path)) == path


@given(some_parts)
def test_the_standard_toml_parser_reads_the_same_segments(parts: tuple[str, ...]) -> None:
    text = str(LocalPath(parts))

    node: object = tomllib.loads(f"{text} = 1")
    read: list[str] = []
    while isinstance(node, dict):
        ((key, node),) = node.items()
        read.append(key)

    assert tuple(read) == parts


@given(some_parts)
def test_the_codec_pair_inverts_itself(parts: tuple[str, ...]) -> None:
    assert parse_toml_path_segments(format_toml_path_segments(parts)) == parts


@given(st.text(alphabet="ab._-'\"\\u0 \t\n[]{}=#", max_size=10))
def test_whatever_text_the_parser_accepts_is_a_toml_key_with_the_same_segments(text: str) -> None:
    try:
        parts = parse_toml_path_segments(text)
    except PathResolutionError:
        return
    node: object = tomllib.loads(f"{text} = 1")
    for part in parts:
        assert isinstance(node, dict)
        assert list(node) == [part]
        node = node[part]
    assert node == 1


# --- Values ---


@pytest.mark.parametrize("path", [GraphSourcePath.state("a"), StatePath.of("a"), LocalPath.of("a")])
def test_paths_are_immutable(path: AnyPath) -> None:
    with pytest.raises(FrozenInstanceError):
        path.parts = ("b",)
    with pytest.raises(FrozenInstanceError):
        path.other = 1  # type: ignore[union-attr]
    with pytest.raises(FrozenInstanceError, match="parts"):
        del path.parts
    assert path.parts == ("a",)


def test_paths_are_equal_and_hash_by_type_and_value() -> None:
    assert {GraphSourcePath.state("a.b"), GraphSourcePath.parse("state.a.b")} == {GraphSourcePath("state", ("a", "b"))}
    assert GraphSourcePath.state("a") != GraphSourcePath.input("a")
    assert GraphSourcePath.state("a") != StatePath.of("a")
    assert StatePath.of("a") != LocalPath.of("a")
    assert LocalPath.of("a") != "a"


@pytest.mark.parametrize("make", [GraphSourcePath.input, StatePath.of, LocalPath.of])
def test_different_paths_have_different_hashes(make: Callable[[str], AnyPath]) -> None:
    assert len({hash(make(f"field_{n}")) for n in range(100)}) > 90


def test_a_path_shows_its_type_and_its_text() -> None:
    assert repr(GraphSourcePath.state("a.b")) == "GraphSourcePath('state.a.b')"
    assert repr(LocalPath.root()) == "LocalPath('.')"


def test_a_path_renders_its_text_once() -> None:
    path = StatePath(("a b",))

    assert str(path) is str(path)


def test_a_child_is_the_path_below_with_literal_segments() -> None:
    item = GraphSourcePath.context("foreach.each.item")

    assert item.child("first.name", "x") == GraphSourcePath("context", ("foreach", "each", "item", "first.name", "x"))
    assert GraphSourcePath.input().child("order") == GraphSourcePath("input", ("order",))


@given(paths)
def test_a_copied_or_pickled_path_is_the_same_value(path: AnyPath) -> None:
    assert copy.copy(path) == path
    assert copy.deepcopy(path) == path
    restored = pickle.loads(pickle.dumps(path))
    assert restored == path
    assert (hash(restored), str(restored)) == (hash(path), str(path))


def test_factories_split_fragments_on_dots_and_constructors_split_nothing() -> None:
    assert LocalPath.of() == LocalPath.root()
    assert LocalPath.of("user.name", "first").parts == ("user", "name", "first")
    assert LocalPath.of('"a').parts == ('"a',)
    assert GraphSourcePath.input().parts == ()
    assert GraphSourcePath.context("foreach", "a.b").parts == ("foreach", "a", "b")
    assert StatePath.of("person.name").parts == ("person", "name")
    assert StatePath(("person.name",)).parts == ("person.name",)


@pytest.mark.parametrize("fragments", [("",), ("a", ""), ("a..b",), (".",), ("a.",)])
def test_factories_refuse_empty_pieces(fragments: tuple[str, ...]) -> None:
    for factory in (LocalPath.of, StatePath.of, GraphSourcePath.input, GraphSourcePath.state, GraphSourcePath.context):
        with pytest.raises(PathResolutionError, match="empty path segment"):
            factory(*fragments)


def test_a_state_path_needs_a_fragment() -> None:
    with pytest.raises(PathResolutionError, match="state path"):
        StatePath.of()


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        (("",), "empty path segment ''"),
        (("a", " "), "empty path segment ' '"),
        (("a\x00",), "control characters"),
        (("\ud800",), "surrogates"),
        ((1,), "segment 1 is not a string"),
        (["a"], "must be a tuple of strings, not list"),
        ("a", "must be a tuple of strings, not str"),
        (None, "must be a tuple of strings, not NoneType"),
    ],
)
def test_constructors_refuse_what_is_no_tuple_of_segments(parts: object, reason: str) -> None:
    for kind, build in (("local", LocalPath), ("state", StatePath), ("graph", lambda p: GraphSourcePath("input", p))):
        with pytest.raises(PathResolutionError, match=f"invalid {kind} path: .*{reason}"):
            build(parts)  # type: ignore[arg-type]


# --- Model fields ---


class Holder(BaseModel):
    graph: GraphSourcePath
    state: StatePath
    local: LocalPath


def test_a_model_takes_strings_instances_and_structures_and_dumps_strings() -> None:
    texts = {"graph": 'input."a.b"', "state": "state.x", "local": "."}

    from_text = Holder.model_validate(texts)
    from_instances = Holder(graph=GraphSourcePath("input", ("a.b",)), state=StatePath(("x",)), local=LocalPath(()))
    from_structures = Holder.model_validate(
        {
            "graph": {"root": "input", "parts": ["a.b"]},
            "state": {"root": "state", "parts": ["x"]},
            "local": {"root": "local", "parts": []},
        }
    )

    assert from_text == from_instances == from_structures
    assert from_text.model_dump() == texts
    assert from_text.model_dump(mode="json") == texts
    assert Holder.model_validate_json(from_text.model_dump_json()) == from_text


@pytest.mark.parametrize("path", [GraphSourcePath.state("a"), StatePath(("a.b",)), LocalPath.root()])
def test_every_kind_of_path_is_dumped_as_its_text(path: AnyPath) -> None:
    kind: TypeAdapter[AnyPath] = TypeAdapter(type(path))

    assert kind.dump_python(path) == str(path)
    assert kind.dump_json(path).decode() == json.dumps(str(path))


@pytest.mark.parametrize("path_type", [GraphSourcePath, StatePath, LocalPath])
def test_every_kind_of_path_is_published_as_a_described_string(path_type: type[AnyPath]) -> None:
    schema = TypeAdapter(path_type).json_schema()

    assert schema["type"] == "string"
    assert re.search(schema["pattern"], "state.a")
    assert "dotted TOML key" in schema["description"]


@pytest.mark.parametrize("path_type", [GraphSourcePath, StatePath, LocalPath])
@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (["a"], "expected a string, not list"),
        (None, "expected a string, not NoneType"),
        ({"root": "state"}, "must be exactly"),
        ({"root": "state", "parts": "a"}, "must be exactly"),
    ],
)
def test_a_value_that_is_no_path_is_told_why(path_type: type[AnyPath], value: object, reason: str) -> None:
    with pytest.raises(ValidationError, match=f"invalid (graph|state|local) path: .*{reason}"):
        TypeAdapter(path_type).validate_python(value)


@pytest.mark.parametrize("path_type", [StatePath, LocalPath])
def test_a_structure_with_another_root_is_told_its_root(path_type: type[AnyPath]) -> None:
    with pytest.raises(ValidationError, match="unknown path root 'input'"):
        TypeAdapter(path_type).validate_python({"root": "input", "parts": ["a"]})


@pytest.mark.parametrize(
    ("path_type", "value"),
    [
        (LocalPath, {"root": "input", "parts": []}),
        (LocalPath, {"root": "local"}),
        (LocalPath, {"parts": ["a"]}),
        (LocalPath, {"root": "local", "parts": ["a"], "more": 1}),
        (LocalPath, {"root": "local", "parts": "a"}),
        (LocalPath, {"root": "local", "parts": [1]}),
        (LocalPath, {"root": "local", "parts": [""]}),
        (LocalPath, ["a"]),
        (LocalPath, None),
        (LocalPath, 1),
        (LocalPath, StatePath.of("a")),
        (StatePath, {"root": "state", "parts": []}),
        (StatePath, {"root": "input", "parts": ["a"]}),
        (StatePath, GraphSourcePath.state("a")),
        (GraphSourcePath, {"root": "local", "parts": ["a"]}),
        (GraphSourcePath, {"root": ["input"], "parts": ["a"]}),
        (GraphSourcePath, '{"root":"input","parts":["x"]}'),
    ],
)
def test_a_model_refuses_every_other_shape(path_type: type[AnyPath], value: object) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(path_type).validate_python(value)


def test_a_corrupted_instance_is_refused_when_a_model_takes_it() -> None:
    corrupted = LocalPath.of("a")
    object.__setattr__(corrupted, "parts", ("",))

    with pytest.raises(ValidationError, match="empty path segment"):
        TypeAdapter(LocalPath).validate_python(corrupted)


@pytest.mark.parametrize("mode", ["validation", "serialization"])
def test_the_published_schema_is_a_described_string_with_a_pattern(mode: str) -> None:
    schema = Holder.model_json_schema(mode=mode)  # type: ignore[arg-type]

    assert "$defs" not in schema
    for field in schema["properties"].values():
        assert set(field) == {"type", "pattern", "description", "title"}
        assert field["type"] == "string"


@given(paths)
def test_the_published_pattern_admits_every_canonical_text(path: AnyPath) -> None:
    assert re.search(TypeAdapter(type(path)).json_schema()["pattern"], str(path))


@pytest.mark.parametrize(
    "text",
    [
        "state.a",
        " \tstate\t. a ",
        "\"state\".'a b'",
        r"'state'.'no \escape'",
        r'state."\"\\"',
        r'state."\u00e9"',
        r'state."\U0001F600"',
        'state."é ."',
    ],
)
def test_the_published_pattern_admits_every_way_to_write_a_path(text: str) -> None:
    for path_type in (GraphSourcePath, StatePath):
        assert path_type.parse(text).parts
        assert re.search(TypeAdapter(path_type).json_schema()["pattern"], text)


def test_the_published_pattern_refuses_what_the_parser_refuses() -> None:
    graph = TypeAdapter(GraphSourcePath).json_schema()["pattern"]
    state = TypeAdapter(StatePath).json_schema()["pattern"]

    assert re.search(graph, "input . 'a.b'")
    for text in ("output.x", "state.", "state..x", "items[0]", 'state."open', "state.a b", ""):
        assert not re.search(graph, text)
    assert not re.search(state, "state")


# --- Reading and writing ---


def read(path: str | GraphSourcePath | StatePath) -> object:
    return resolve_graph_path(
        path,
        state={"person": {"name": "Ada", "title": None}, "tags": ["x"], "a.b": 1},
        workflow_input={"items": {"0": "zero"}},
        context={"loop_index": 3},
    )


def test_values_are_read_from_all_three_roots() -> None:
    assert read("state.person.name") == "Ada"
    assert read(StatePath.of("person.name")) == "Ada"
    assert read(GraphSourcePath("state", ("a.b",))) == 1
    assert read("input.items.0") == "zero"
    assert read("context.loop_index") == 3
    assert read("input") == {"items": {"0": "zero"}}


def test_an_explicit_null_is_a_value_and_a_missing_key_is_not() -> None:
    everything = {"state": {"title": None}, "workflow_input": {}, "context": {}}

    assert read("state.person.title") is None
    assert path_exists("state.title", **everything)
    assert path_exists("input.order", state={}, workflow_input={"order": None}, context={})
    assert path_exists("context.loop_item", state={}, workflow_input={}, context={"loop_item": None})
    assert not path_exists("state.other", **everything)
    assert not path_exists("no path at all", **everything)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("state.missing", "state.missing is missing"),
        ("state.person.missing.deep", "state.person.missing is missing"),
        ("state.person.name.first", "state.person.name is not an object"),
        ("state.tags.0.x", "state.tags is not an object"),
        ("state.person.title.x", "state.person.title is not an object"),
        ("context.other", "context.other is missing"),
    ],
)
def test_a_missing_key_and_a_step_into_no_object_fail(path: str, reason: str) -> None:
    with pytest.raises(PathResolutionError) as caught:
        read(path)

    assert (caught.value.code, caught.value.path) == ("path_missing", path)
    assert str(caught.value) == f"cannot read '{path}': {reason}"


def test_splitting_takes_texts_and_ready_paths() -> None:
    assert split_graph_path("state.a.b") == ("state", ["a", "b"])
    assert split_graph_path(GraphSourcePath.context()) == ("context", [])
    assert split_graph_path(StatePath.of("a")) == ("state", ["a"])


@pytest.mark.parametrize(
    ("path", "without_context", "with_context"),
    [
        ("input", True, True),
        ("state", True, True),
        ("context", False, True),
        ("input.order.deep", True, True),
        ("input.other", False, False),
        ("state.total", True, True),
        ("state.order", False, False),
        ("context.anything", False, True),
        ("nonsense path", False, False),
        (GraphSourcePath.state("total"), True, True),
    ],
)
def test_a_source_is_valid_when_its_root_or_first_segment_is_declared(
    path: str | GraphSourcePath, without_context: bool, with_context: bool
) -> None:
    assert is_valid_source_path(path, {"total"}, {"order"}) is without_context
    assert is_valid_source_path(path, {"total"}, {"order"}, allow_context=True) is with_context


def test_a_destination_is_valid_when_it_is_a_state_path() -> None:
    assert is_valid_destination_path("state.x")
    assert is_valid_destination_path(StatePath.of("x"))
    assert not is_valid_destination_path("state")
    assert not is_valid_destination_path("input.x")


def test_nested_reads_merge_missing_and_null() -> None:
    assert get_nested_value({"a": {"b": 1}}, ("a", "b")) == 1
    assert get_nested_value({"a": None}, ("a", "b")) is None
    assert get_nested_value({"a": [1]}, ("a", "0")) is None
    assert get_nested_value({}, ("a",)) is None


def test_nested_writes_create_missing_and_null_parents() -> None:
    state: dict[str, object] = {"keep": 1, "void": None}

    set_nested_value(state, ("a", "b", "c"), 2)
    set_nested_value(state, ["void", "x"], 3)

    assert state == {"keep": 1, "a": {"b": {"c": 2}}, "void": {"x": 3}}


def test_a_nested_write_goes_through_any_mapping_that_can_change() -> None:
    inner = UserDict[str, object]()

    set_nested_value({"a": inner}, ("a", "b"), 1)

    assert inner == {"b": 1}
    with pytest.raises(PathResolutionError, match="cannot descend into a"):
        set_nested_value({"a": MappingProxyType({})}, ("a", "b"), 1)


def test_a_nested_write_into_no_object_fails_and_writes_nothing() -> None:
    state: dict[str, object] = {"a": {"b": [1]}}

    with pytest.raises(PathResolutionError, match=r"cannot descend into a\.b:") as caught:
        set_nested_value(state, ("a", "b", "c", "d"), 2)
    assert (caught.value.code, caught.value.path) == ("path_missing", "a.b.c.d")
    with pytest.raises(PathResolutionError, match="empty path"):
        set_nested_value(state, (), 2)
    assert state == {"a": {"b": [1]}}


def test_places_overlap_when_equal_or_when_one_holds_the_other() -> None:
    assert path_parts_overlap(("a",), ("a",))
    assert path_parts_overlap(("a",), ["a", "b"])
    assert path_parts_overlap(("a", "b"), ("a",))
    assert path_parts_overlap((), ("a",))
    assert not path_parts_overlap(("a", "b"), ("a", "c"))
    assert not path_parts_overlap(("ab",), ("a",))
