"""Walking a JSON Schema by literal segments: declared properties, local references, compositions, array items.

A walk knows only what a schema *declares*. An untyped or open schema declares nothing below itself, so a path into it
is not found, although a value might well be there.

References are local: ``#/$defs/…`` and ``#/definitions/…``. They are looked up in the nearest definitions table on the
way from the place of the reference to the root of the document, then in the next one outwards; thus a self-contained
schema can be set into another document as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast
from urllib.parse import unquote

from wf_core.models.schemas import SchemaRef, StateSchema

SchemaDocument: TypeAlias = Mapping[str, object]

MAX_REFERENCE_HOPS: Final = 32
"""The longest chain of references that is followed; a longer one counts as unresolved."""

MAX_INLINED_SCHEMAS: Final = 4096
"""Past this many copied subschemas the rest is kept as it is, references and all: definitions that each use the next
one twice grow without bound when they are inlined."""

MAX_INLINED_DEPTH: Final = 128
"""Subschemas below this depth are kept as they are."""

_DEFINITION_KEYWORDS: Final = ("$defs", "definitions")
_COMPOSITION_KEYWORDS: Final = ("allOf", "anyOf", "oneOf")
_SCHEMA_LISTS: Final = frozenset({*_COMPOSITION_KEYWORDS, "prefixItems"})
_SCHEMA_MAPS: Final = frozenset({"properties", "patternProperties", "dependentSchemas"})
_SCHEMA_VALUES: Final = frozenset(
    {
        "additionalProperties",
        "contains",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
_ANYTHING: Final[SchemaDocument] = {}
_MISSING: Final = object()


@dataclass(frozen=True, slots=True)
class SchemaNode:
    """One subschema and the schemas around it that carry definitions, innermost first."""

    schema: SchemaDocument
    scopes: tuple[SchemaDocument, ...] = ()


def schema_document(schema: object) -> SchemaDocument:
    """The keywords of a schema model or mapping; nothing for anything else, which therefore declares nothing."""
    if isinstance(schema, SchemaRef | StateSchema):
        return schema.as_json_schema()
    return _as_mapping(schema) or _ANYTHING


def root_node(schema: object) -> SchemaNode:
    """The place where a walk through a whole document starts."""
    return _enter(schema_document(schema), ()) or SchemaNode(_ANYTHING)


def walk(start: SchemaNode, parts: Sequence[str]) -> tuple[SchemaNode, ...]:
    """Every place that declares the property path below ``start``; nothing when no branch declares it.

    References are followed at every step, the last one included. The members of a composition are a union: a path is
    declared when one of them declares it.
    """
    places = tuple(_branches(start))
    for part in parts:
        children = [child for place in places if (child := _property(place, part)) is not None]
        places = tuple(branch for child in children for branch in _branches(child))
    return places


def declares_path(schema: object, parts: Sequence[str]) -> bool:
    """Whether every segment is a declared property and every reference on the way resolves."""
    return bool(walk(root_node(schema), parts))


def property_names(schema: object) -> frozenset[str]:
    """The properties that the top level of a document declares, through references and compositions."""
    return frozenset(name for place in walk(root_node(schema), ()) for name in _properties(place))


def declared_members(start: SchemaNode) -> dict[str, tuple[SchemaNode, ...]]:
    """The properties declared at a place, in declaration order, each with every branch that declares it."""
    members: dict[str, tuple[SchemaNode, ...]] = {}
    for place in walk(start, ()):
        for name in _properties(place):
            if name not in members:
                members[name] = walk(start, (name,))
    return members


def declares_array(schema: object, parts: Sequence[str]) -> bool:
    """Whether the path is declared and its type is, or includes, ``array``."""
    return any(_may_be(place, "array") and "type" in place.schema for place in walk(root_node(schema), parts))


def item_schema(schema: object, parts: Sequence[str]) -> dict[str, Any]:
    """The schema of the items of the array at ``parts``, self-contained; ``{}`` when nothing is known about them."""
    found: list[dict[str, Any]] = []
    for place in walk(root_node(schema), parts):
        if "type" not in place.schema or not _may_be(place, "array"):
            continue
        node = _enter(place.schema.get("items"), place.scopes)
        inlined = inline(node) if node is not None else {}
        if inlined not in found:
            found.append(inlined)
    if len(found) > 1:
        return {"anyOf": found}
    return found[0] if found else {}


def inline(node: SchemaNode) -> dict[str, Any]:
    """A copy of a subschema that stands on its own.

    References are replaced by what they name, keywords beside a reference merged over it; one that does not resolve
    becomes ``{}``. Where a definition contains itself its reference stays, and the copy carries the definitions.
    """
    inliner = _Inliner()
    copied = inliner.copy(node, frozenset(), 0)
    return {**copied, **inliner.tables} if inliner.tables else copied


class _Inliner:
    """The state of one inlining: how much was copied, and the definitions that remaining references need."""

    def __init__(self) -> None:
        self.tables: dict[str, dict[str, object]] = {}
        self._copied = 0

    def copy(self, node: SchemaNode, expanding: frozenset[int], depth: int) -> dict[str, Any]:
        """Copy one subschema; ``expanding`` holds the definitions that it is a part of."""
        self._copied += 1
        if depth > MAX_INLINED_DEPTH or self._copied > MAX_INLINED_SCHEMAS:
            return self._keep(node)
        if "$ref" not in node.schema:
            return self._copy_keywords(node, expanding, depth)

        chain = _reference_chain(node)
        if chain is None:
            return {}
        targets = {id(target.schema) for target in chain[1:]}
        if targets & expanding:
            return self._keep(node)
        inner = expanding | targets
        merged: dict[str, Any] = {}
        for link in reversed(chain):
            merged = _merge(merged, self._copy_keywords(link, inner, depth))
        return merged

    def _keep(self, node: SchemaNode) -> dict[str, Any]:
        for scope in reversed(node.scopes):
            for keyword in _DEFINITION_KEYWORDS:
                table = _as_mapping(scope.get(keyword))
                if table is not None:
                    self.tables.setdefault(keyword, {}).update(table)
        return _without_definitions(node.schema)

    def _copy_keywords(self, node: SchemaNode, expanding: frozenset[int], depth: int) -> dict[str, Any]:
        copied: dict[str, Any] = {}
        for keyword, value in _without_definitions(node.schema).items():
            if keyword == "$ref":
                continue
            members = _as_mapping(value)
            if keyword in _SCHEMA_MAPS and members is not None:
                copied[keyword] = {
                    name: self._copy_value(member, node, expanding, depth) for name, member in members.items()
                }
            elif keyword in _SCHEMA_LISTS and isinstance(value, list):
                listed = cast("list[object]", value)
                copied[keyword] = [self._copy_value(member, node, expanding, depth) for member in listed]
            elif keyword in _SCHEMA_VALUES:
                copied[keyword] = self._copy_value(value, node, expanding, depth)
            else:
                copied[keyword] = value
        return copied

    def _copy_value(self, value: object, around: SchemaNode, expanding: frozenset[int], depth: int) -> object:
        schema = _as_mapping(value)
        node = _enter(schema, around.scopes) if schema is not None else None
        return value if node is None else self.copy(node, expanding, depth + 1)


def _merge(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Keywords beside a reference win over its target; both sides' properties and required names hold."""
    merged = {**under, **over}
    for keyword in ("properties", "required"):
        below, above = under.get(keyword), over.get(keyword)
        if isinstance(below, dict) and isinstance(above, dict):
            merged[keyword] = {**below, **above}
        elif isinstance(below, list) and isinstance(above, list):
            names = cast("list[object]", above)
            merged[keyword] = [*below, *(name for name in names if name not in below)]
    return merged


def _branches(node: SchemaNode) -> Iterator[SchemaNode]:
    """The schema itself, what its reference names, and the members of its compositions, each resolved alike.

    A schema whose reference does not resolve contributes nothing at all.
    """
    pending = [node]
    seen: set[int] = set()
    while pending:
        current = pending.pop()
        if id(current.schema) in seen:
            continue
        seen.add(id(current.schema))
        for link in _reference_chain(current) or ():
            yield link
            for keyword in reversed(_COMPOSITION_KEYWORDS):
                members = link.schema.get(keyword)
                if isinstance(members, list):
                    listed = cast("list[object]", members)
                    entered = (_enter(member, link.scopes) for member in reversed(listed))
                    pending.extend(member for member in entered if member is not None)


def _reference_chain(node: SchemaNode) -> tuple[SchemaNode, ...] | None:
    """The node and all that its references lead to, in order; None when they lead nowhere, in a circle or too far."""
    chain = [node]
    while "$ref" in chain[-1].schema:
        if len(chain) > MAX_REFERENCE_HOPS:
            return None
        target = _referenced(chain[-1])
        if target is None or any(target.schema is link.schema for link in chain):
            return None
        chain.append(target)
    return tuple(chain)


def _referenced(node: SchemaNode) -> SchemaNode | None:
    tokens = _pointer_tokens(node.schema["$ref"])
    if tokens is None:
        return None
    for distance, scope in enumerate(node.scopes):
        found = _descend(scope, tokens)
        if found is not _MISSING:
            # What is found there sees the tables from that place outwards, not those around the reference.
            return _enter(found, node.scopes[distance:])
    return None


def _pointer_tokens(reference: object) -> tuple[str, ...] | None:
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    tokens = tuple(token.replace("~1", "/").replace("~0", "~") for token in unquote(reference[2:]).split("/"))
    return tokens if len(tokens) > 1 and tokens[0] in _DEFINITION_KEYWORDS else None


def _descend(schema: object, tokens: Sequence[str]) -> object:
    found = schema
    for token in tokens:
        members = _as_mapping(found)
        if members is not None and token in members:
            found = members[token]
        elif isinstance(found, list) and token.isascii() and token.isdigit():
            listed = cast("list[object]", found)
            position = int(token)
            if position >= len(listed):
                return _MISSING
            found = listed[position]
        else:
            return _MISSING
    return found


def _enter(schema: object, scopes: tuple[SchemaDocument, ...]) -> SchemaNode | None:
    if schema is True:
        return SchemaNode(_ANYTHING, scopes)
    found = _as_mapping(schema)
    if found is None:
        return None
    carries = any(isinstance(found.get(keyword), Mapping) for keyword in _DEFINITION_KEYWORDS)
    return SchemaNode(found, (found, *scopes) if carries else scopes)


def _property(place: SchemaNode, name: str) -> SchemaNode | None:
    return _enter(_properties(place).get(name), place.scopes)


def _properties(place: SchemaNode) -> SchemaDocument:
    if not _may_be(place, "object"):
        return _ANYTHING
    return _as_mapping(place.schema.get("properties")) or _ANYTHING


def _may_be(place: SchemaNode, type_name: str) -> bool:
    declared = place.schema.get("type", type_name)
    return declared == type_name or (isinstance(declared, list) and type_name in declared)


def _without_definitions(schema: SchemaDocument) -> dict[str, Any]:
    return {keyword: value for keyword, value in schema.items() if keyword not in _DEFINITION_KEYWORDS}


def _as_mapping(value: object) -> SchemaDocument | None:
    return cast("SchemaDocument", value) if isinstance(value, Mapping) else None
