"""Schemas from whatever an author has: a model, a type, a JSON Schema document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast, get_origin

from pydantic import BaseModel, TypeAdapter
from pydantic.errors import PydanticUserError

from wf_core.authoring.reducers import AuthoredReducer
from wf_core.models.json_values import JsonValue
from wf_core.models.reducers import REPLACE, ReducerRef
from wf_core.models.schemas import SchemaRef, StateSchema

if TYPE_CHECKING:
    from pydantic import GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import core_schema

SchemaLike: TypeAlias = object
"""A ``SchemaRef`` or ``StateSchema``, a pydantic model, any type that pydantic can describe, or a document."""

_EMPTY_CONTAINERS: Final = (list, dict)
_DEFS_PREFIX: Final = "#/$defs/"


def schema_ref_from(schema: SchemaLike) -> SchemaRef:
    """The schema of a payload, a copy; ``TypeError`` for what is no schema, ``ValueError`` for an invalid one."""
    given = _given_document(schema)
    return SchemaRef.model_validate(_generated_document(schema) if given is None else given)


def state_schema_from(schema: SchemaLike) -> StateSchema:
    """The schema of a state, a copy; raises like :func:`schema_ref_from`.

    A document is taken as it stands. Of a model only the defaults of top-level fields become initial values: a
    default of None means that the field is missing until it is written, and of default factories only ``list`` and
    ``dict`` count, since any other may give another value each time.
    """
    given = _given_document(schema)
    if given is not None:
        return StateSchema.model_validate(given)
    document = _generated_document(schema)
    defaults = {name: field["default"] for name, field in _fields(document).items() if field.get("default") is not None}
    if isinstance(schema, type) and issubclass(schema, BaseModel):
        defaults |= _container_defaults(schema)
    document = cast("dict[str, Any]", _without_defaults(document))
    for name, field in _fields(document).items():
        if name in defaults:
            field["default"] = defaults[name]
    return StateSchema.model_validate(document)


@dataclass(frozen=True, slots=True)
class StateFieldMetadata:
    """How writes to one state field are merged and traced; stands in ``Annotated[...]``."""

    reducer: JsonValue
    trace: bool

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        document = {**handler(schema), "reducer": self.reducer}
        return document if self.trace else {**document, "trace": False}


def state_field(
    *, reducer: str | Mapping[str, Any] | ReducerRef | AuthoredReducer = REPLACE, trace: bool = True
) -> StateFieldMetadata:
    """Metadata for an ``Annotated`` field of a state model, at any depth.

    ``reducer`` is a name such as ``"wf.std.append"``, ``{"ref", "config"}``, or the reducer itself.
    """
    if isinstance(reducer, AuthoredReducer):
        reducer = reducer.name
    elif isinstance(reducer, Mapping):
        reducer = dict(reducer)
    return StateFieldMetadata(ReducerRef.model_validate(reducer).as_declared(), trace)


# --- Documents --------------------------------------------------------------------------------------------------------


def _given_document(schema: SchemaLike) -> dict[str, Any] | None:
    """The document that the author wrote or had made before; None for a type."""
    if isinstance(schema, SchemaRef | StateSchema):
        return cast("dict[str, Any]", schema.as_json_schema())
    if isinstance(schema, Mapping):
        return dict(cast("Mapping[str, Any]", schema))
    return None


def _generated_document(schema: SchemaLike) -> dict[str, Any]:
    # Pydantic takes a text for a forward reference and an instance of a model for its class: both are mistakes here.
    if schema is None or isinstance(schema, str | BaseModel):
        raise _unsupported(schema)
    try:
        document = TypeAdapter[Any](cast("Any", schema)).json_schema()
    except PydanticUserError as error:
        raise _unsupported(schema) from error
    return _entered(document)


def _entered(document: dict[str, Any]) -> dict[str, Any]:
    """The document with a reference at its root followed, as a model that contains itself has one."""
    reference = document.get("$ref")
    definitions: dict[str, Any] = document.get("$defs", {})
    if not isinstance(reference, str) or reference.removeprefix(_DEFS_PREFIX) not in definitions:
        return document
    return {**definitions[reference.removeprefix(_DEFS_PREFIX)], "$defs": definitions}


def _container_defaults(model: type[BaseModel]) -> dict[str, JsonValue]:
    """The empty lists and objects that ``default_factory`` gives to fields, by their names in the schema."""
    defaults: dict[str, JsonValue] = {}
    for name, field in model.model_fields.items():
        factory = get_origin(field.default_factory) or field.default_factory
        if factory in _EMPTY_CONTAINERS:
            alias = field.validation_alias
            defaults[alias if isinstance(alias, str) else name] = [] if factory is list else {}
    return defaults


def _without_defaults(schema: object) -> object:
    """A copy without the keyword ``default`` on any field, in the definitions too."""
    if not isinstance(schema, dict):
        return schema
    document = dict(cast("dict[str, Any]", schema))
    document.pop("default", None)
    for table in ("properties", "$defs"):
        entries = document.get(table)
        if isinstance(entries, dict):
            entries = cast("dict[str, object]", entries)
            document[table] = {name: _without_defaults(entry) for name, entry in entries.items()}
    return document


def _fields(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    properties: dict[str, Any] = document.get("properties", {})
    return {name: field for name, field in properties.items() if isinstance(field, dict)}


def _unsupported(schema: object) -> TypeError:
    return TypeError(f"unsupported schema {schema!r}: pass a model, a type, or a JSON Schema document")
