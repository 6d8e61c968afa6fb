"""The state fields that a JSON Schema declares: found below ``properties`` at any object depth, and folded into it.

A property schema is ordinary JSON Schema plus two keywords of ours, ``reducer`` and ``trace``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Final, cast
from urllib.parse import unquote

from pydantic import BaseModel, ValidationError

from wf_core.models.json_values import JsonValue
from wf_core.models.reducers import ReducerRef
from wf_core.paths import StatePath, parse_toml_path_segments

MAX_STATE_FIELDS: Final = 10_000
"""References let a short schema declare a number of fields exponential in its length; more than this is refused."""

_EXTENSION_KEYWORDS: Final = frozenset({"reducer", "trace"})
_ANY_OBJECT: Final[dict[str, object]] = {"type": "object"}
_DEFS_PREFIX: Final = "#/$defs/"


@dataclass(frozen=True, slots=True)
class FieldDocument:
    """One declared field, as its schema describes it."""

    path: StatePath
    schema: dict[str, JsonValue]
    """Its schema alone: without the extension keywords, with the definitions that its references need."""

    reducer: ReducerRef
    trace: bool
    default: JsonValue


def declared_fields(root: Mapping[str, JsonValue]) -> Iterator[FieldDocument]:
    """Every field, a parent before its children; raises ``ValueError`` at the first bad extension keyword."""
    if "reducer" in root:
        raise ValueError("invalid reducer for the whole state: reducers attach to fields, bare state has none")
    properties = root.get("properties")
    if not isinstance(properties, dict):
        return
    for count, (parts, own, merged) in enumerate(_walk(properties, (), root, frozenset()), start=1):
        if count > MAX_STATE_FIELDS:
            raise ValueError(f"the state schema declares more than {MAX_STATE_FIELDS} fields")
        dotted = ".".join(parts)
        yield FieldDocument(
            path=StatePath(parts),
            schema=_standing_alone(own, root),
            reducer=_reducer(merged["reducer"], dotted) if "reducer" in merged else ReducerRef.replace(),
            trace=_trace(merged.get("trace", True), dotted),
            default=merged.get("default"),
        )


def fold_fields(entries: object) -> dict[str, JsonValue]:
    """The ``properties`` that a deprecated list or map of fields amounts to; raises ``ValueError``."""
    properties: dict[str, JsonValue] = {}
    declared: set[tuple[str, ...]] = set()
    for parts, entry in _entries(entries):
        _insert(properties, parts, _property(entry, ".".join(parts)), declared)
        declared.add(parts)
    return properties


# --- Finding ----------------------------------------------------------------------------------------------------------


def _walk(
    properties: Mapping[str, JsonValue],
    prefix: tuple[str, ...],
    root: Mapping[str, JsonValue],
    expanding: frozenset[str],
) -> Iterator[tuple[tuple[str, ...], dict[str, JsonValue], dict[str, JsonValue]]]:
    """Segments, own schema, and schema with its references followed, of every property."""
    for name, raw in properties.items():
        parts = (*prefix, name)
        own = _as_document(raw)
        merged, expanded = _followed(own, root, expanding)
        yield parts, own, merged
        below = merged.get("properties")
        if isinstance(below, dict):
            yield from _walk(below, parts, root, expanded)


def _followed(
    own: dict[str, JsonValue], root: Mapping[str, JsonValue], expanding: frozenset[str]
) -> tuple[dict[str, JsonValue], frozenset[str]]:
    """The schema merged over the definitions it refers to, and the references being expanded below it."""
    merged = own
    reference = own.get("$ref")
    # A reference that is already being expanded is a recursive schema: its field is declared, its children are not.
    while isinstance(reference, str) and reference.startswith(_DEFS_PREFIX) and reference not in expanding:
        expanding |= {reference}
        target = _definition(reference, root)
        if target is None:
            break
        below = {**_properties(target), **_properties(merged)}
        merged = {**target, **merged}
        if below:
            merged["properties"] = below
        reference = target.get("$ref")
    return merged, expanding


def _definition(reference: str, root: Mapping[str, JsonValue]) -> dict[str, JsonValue] | None:
    current: object = root
    for token in reference.removeprefix("#/").split("/"):
        key = unquote(token).replace("~1", "/").replace("~0", "~")
        if not isinstance(current, Mapping) or key not in current:
            return None
        current = cast("Mapping[str, object]", current)[key]
    return _as_document(current)


def _properties(document: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    properties = document.get("properties")
    return properties if isinstance(properties, dict) else {}


def _as_document(schema: object) -> dict[str, JsonValue]:
    if isinstance(schema, dict):
        return cast("dict[str, JsonValue]", schema)
    return {"not": {}} if schema is False else {}


def _standing_alone(own: Mapping[str, JsonValue], root: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    document = _without_extensions(own)
    for keyword in ("$schema", "$defs"):
        if keyword in root:
            document.setdefault(keyword, root[keyword])
    return document


def _without_extensions(schema: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    document = {key: value for key, value in schema.items() if key not in _EXTENSION_KEYWORDS}
    below = document.get("properties")
    if isinstance(below, dict):
        document["properties"] = {
            name: _without_extensions(child) if isinstance(child, dict) else child for name, child in below.items()
        }
    return document


def _reducer(value: object, dotted: str) -> ReducerRef:
    if not isinstance(value, (str, dict, ReducerRef)):
        raise ValueError(f"invalid reducer for state field {dotted!r}: a name or an object is needed")
    try:
        return ReducerRef.model_validate(value)
    except ValidationError as error:
        reason = "; ".join(fault["msg"] for fault in error.errors())
        raise ValueError(f"invalid reducer for state field {dotted!r}: {reason}") from error


def _trace(value: object, dotted: str) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"invalid trace for state field {dotted!r}: true or false is needed")
    return value


# --- Folding ----------------------------------------------------------------------------------------------------------


def _entries(entries: object) -> Iterator[tuple[tuple[str, ...], dict[str, object]]]:
    """Segments and plain keys of every entry of a list or map."""
    if isinstance(entries, Mapping):
        for key, value in cast("Mapping[object, object]", entries).items():
            yield _key_parts(key), _plain(value)
    elif isinstance(entries, (list, tuple)):
        for value in cast("list[object]", entries):
            entry = _plain(value)
            yield _path_parts(entry.pop("path", None)), entry
    else:
        raise ValueError("state 'fields' must be a list of fields or an object of fields by path")


def _plain(entry: object) -> dict[str, object]:
    if isinstance(entry, BaseModel):
        given = {name: getattr(entry, name) for name in type(entry).model_fields if name in entry.model_fields_set}
    elif isinstance(entry, Mapping):
        given = dict(cast("Mapping[str, object]", entry))
    else:
        raise ValueError("a state field must be an object")
    if "validation_schema" in given:
        given["schema"] = given.pop("validation_schema")
    return given


def _path_parts(path: object) -> tuple[str, ...]:
    if isinstance(path, StatePath):
        return path.parts
    if isinstance(path, str):
        return StatePath.parse(path).parts
    raise ValueError("a state field in a list needs a 'path' such as state.person.name")


def _key_parts(key: object) -> tuple[str, ...]:
    if isinstance(key, StatePath):
        return key.parts
    parts = parse_toml_path_segments(cast("str", key))
    return parts[1:] if len(parts) > 1 and parts[0] == "state" else parts


def _property(entry: dict[str, object], dotted: str) -> dict[str, JsonValue]:
    """The property schema of one entry; keywords that stand beside ``type`` belong to the schema too."""
    keywords = {key: value for key, value in entry.items() if key not in ("schema", "reducer", "trace", "default")}
    if "schema" in entry and keywords:
        raise ValueError(f"state field {dotted!r}: 'schema' cannot be mixed with {', '.join(map(repr, keywords))}")
    schema = _schema_document(entry["schema"]) if "schema" in entry else keywords or _ANY_OBJECT
    document: dict[str, object] = deepcopy(schema)  # fields below are written into it
    if "reducer" in entry:
        document["reducer"] = _reducer(entry["reducer"], dotted).as_declared()
    if not _trace(entry.get("trace", True), dotted):
        document["trace"] = False
    if entry.get("default") is not None:
        document["default"] = entry["default"]
    return cast("dict[str, JsonValue]", document)


def _schema_document(schema: object) -> dict[str, object]:
    if isinstance(schema, BaseModel):
        return schema.model_dump(mode="json", exclude_unset=True)
    return cast("dict[str, object]", _as_document(schema))


def _insert(
    properties: dict[str, JsonValue],
    parts: tuple[str, ...],
    document: dict[str, JsonValue],
    declared: set[tuple[str, ...]],
) -> None:
    dotted = ".".join(parts)
    current = properties
    for depth, part in enumerate(parts[:-1], start=1):
        parent = current.setdefault(part, {"type": "object"})
        if not isinstance(parent, dict) or not _may_hold_fields(parent):
            raise ValueError(f"state field {dotted!r} needs {'.'.join(parts[:depth])!r} to be an object")
        below = parent.setdefault("properties", {})
        if not isinstance(below, dict):
            raise ValueError(f"invalid JSON Schema: properties of {'.'.join(parts[:depth])!r} must be an object")
        current = below
    if parts[-1] in current:
        is_implied_parent = parts not in declared and any(other[: len(parts)] == parts for other in declared)
        if is_implied_parent:
            raise ValueError(f"state field {dotted!r} must be declared before the fields below it")
        raise ValueError(f"duplicate state field path {dotted!r}")
    current[parts[-1]] = document


def _may_hold_fields(parent: dict[str, JsonValue]) -> bool:
    if "$ref" not in parent:
        parent.setdefault("type", "object")
    kind = parent.get("type", "object")
    return kind == "object" or (isinstance(kind, list) and "object" in kind)
