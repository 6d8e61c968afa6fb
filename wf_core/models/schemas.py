"""Schemas of a workflow: payloads, state, and the contracts of its nodes. All are JSON Schema documents."""

from __future__ import annotations

from typing import Any, Literal, Self, cast

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, model_validator

from wf_core.models.json_values import JsonValue
from wf_core.models.queues import QueueName
from wf_core.models.reducers import ReducerRef
from wf_core.models.retries import Retries, TimeLimit, TimeoutSeconds, is_none
from wf_core.models.schema_documents import check_json_schema
from wf_core.models.state_fields import FieldDocument, declared_fields, fold_fields
from wf_core.paths import StatePath


class _SchemaModel(BaseModel):
    """A JSON Schema whose top-level keywords are kept, the known ones as fields and all others beside them."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, JsonValue] = Field(init=False)  # pyright: ignore[reportIncompatibleVariableOverride]  # how pydantic types extra keys

    title: str | None = Field(default=None, exclude_if=is_none)
    type: str | list[str] | None = Field(default=None, exclude_if=is_none)
    properties: dict[str, JsonValue] = Field(default_factory=dict)
    required: list[str] = Field(default_factory=list)

    def as_json_schema(self) -> dict[str, JsonValue]:
        """The document for a JSON Schema library; values are shared with the model, not copied."""
        document: dict[str, JsonValue] = {}
        if self.title is not None:
            document["title"] = self.title
        if self.type is not None:
            document["type"] = cast("JsonValue", self.type)
        if self.properties:
            document["properties"] = self.properties
        if self.required:
            document["required"] = cast("JsonValue", self.required)
        document.update(self.__pydantic_extra__)
        return document


def _check_raw(data: object) -> None:
    """Refuse a raw document that is no valid schema, before the model narrows or converts anything."""
    if isinstance(data, dict):
        document = cast("dict[str, Any]", data)
        absent = [key for key in ("title", "type") if key in document and document[key] is None]
        check_json_schema({key: document[key] for key in document if key not in absent} if absent else document)


class SchemaRef(_SchemaModel):
    """The JSON Schema of a payload. ``$schema`` selects the dialect, Draft 2020-12 without it."""

    @model_validator(mode="before")
    @classmethod
    def _must_be_a_schema(cls, data: object) -> object:
        _check_raw(data)
        return data


def object_schema() -> SchemaRef:
    """The schema of any object."""
    return SchemaRef(type="object")


class StateField(BaseModel):
    """A state field in the deprecated short form, for ``StateSchema.from_field_map``."""

    type: str
    reducer: ReducerRef = Field(default_factory=ReducerRef.replace)
    trace: bool = Field(default=True, strict=True)
    default: JsonValue = None


class StateFieldDecl(BaseModel):
    """One declared state field. Written and dumped with the key ``schema``; ``type`` alone may stand in for it."""

    model_config = ConfigDict(extra="forbid", serialize_by_alias=True)

    path: StatePath
    validation_schema: SchemaRef = Field(
        default_factory=object_schema,
        validation_alias=AliasChoices("schema", "validation_schema"),
        serialization_alias="schema",
    )
    reducer: ReducerRef = Field(default_factory=ReducerRef.replace)
    trace: bool = Field(default=True, strict=True)
    """Whether writes to the field appear in the trace."""

    default: JsonValue = None
    """The initial value; null means that there is none."""

    @property
    def type(self) -> str | None:
        """The type in the field's schema, when it is a single one."""
        kind = self.validation_schema.type
        return kind if isinstance(kind, str) else None

    @model_validator(mode="before")
    @classmethod
    def _from_type(cls, data: object) -> object:
        if not isinstance(data, dict) or "type" not in data:
            return cast("object", data)
        fields = dict(cast("dict[str, object]", data))
        if "schema" in fields or "validation_schema" in fields:
            raise ValueError("state field 'schema' and 'type' are mutually exclusive")
        fields["schema"] = {"type": fields.pop("type")}
        return fields

    @classmethod
    def _from_document(cls, field: FieldDocument) -> Self:
        # The parts come from a checked schema: checking every field again would cost more than parsing the workflow.
        return cls.model_construct(
            path=field.path,
            validation_schema=SchemaRef.model_construct(**field.schema),  # pyright: ignore[reportArgumentType]  # keywords are data
            reducer=field.reducer,
            trace=field.trace,
            default=field.default,
        )


class StateSchema(_SchemaModel):
    """The JSON Schema of a workflow's state.

    A property at any object depth may carry ``reducer`` (default ``wf.std.replace``) and ``trace`` (default true)
    beside the ordinary keywords. The deprecated key ``fields``, a list or a map of fields, is folded into
    ``properties`` and never dumped.

    The field views are computed at every call; code that needs them for each step keeps the result.
    """

    type: Literal["object"] = "object"  # pyright: ignore[reportIncompatibleVariableOverride]  # state is always an object

    @classmethod
    def from_field_map(cls, fields: dict[str, StateField]) -> Self:
        """The schema with the given fields; a key is a dotted path, with or without ``state.`` in front."""
        return cls.model_validate({"fields": fields})

    @property
    def fields(self) -> list[StateFieldDecl]:
        """Every declared field, a parent before its children; references to ``$defs`` are followed."""
        return list(self.field_index().values())

    def field_index(self) -> dict[StatePath, StateFieldDecl]:
        """Every declared field by its path."""
        return {
            field.path: StateFieldDecl._from_document(field)  # pyright: ignore[reportPrivateUsage]  # same module
            for field in declared_fields(self.as_json_schema())
        }

    def field_map(self) -> dict[str, StateFieldDecl]:
        """Every declared field by its segments joined with dots."""
        return {".".join(path.parts): field for path, field in self.field_index().items()}

    def root_fields(self) -> set[str]:
        """The names of the top-level fields."""
        return set(self.properties)

    @model_validator(mode="before")
    @classmethod
    def _must_be_a_schema(cls, data: object) -> object:
        if isinstance(data, dict) and "fields" in data:
            document = dict(cast("dict[str, object]", data))
            if document.get("properties"):
                raise ValueError("deprecated state 'fields' cannot be mixed with 'properties'")
            document["properties"] = fold_fields(document.pop("fields"))
            data = document
        _check_raw(cast("object", data))
        return cast("object", data)

    @model_validator(mode="after")
    def _check_extension_keywords(self) -> Self:
        for _ in declared_fields(self.as_json_schema()):
            pass
        return self


class NodeDef(BaseModel):
    """The contract of a handler: what it takes, what it gives, and the outcomes it may choose."""

    name: str
    input_schema: SchemaRef
    output_schema: SchemaRef
    outcomes: list[str] = Field(min_length=1)
    retry: Retries | None = None
    """Repetitions after a failure, or the whole policy, for hosts that repeat. The value on a step comes first, here
    and below; of two policies each part does."""

    timeout_seconds: TimeoutSeconds | None = None
    """Time for one call, for hosts that limit it."""

    total_timeout_seconds: TimeLimit = None
    """Time for all calls of one visit together."""

    queue_timeout_seconds: TimeLimit = None
    """Time from being ready to being taken up."""

    heartbeat_seconds: TimeLimit = None
    """Time between two signs of life of a handler."""

    queue: QueueName | None = Field(default=None, exclude_if=is_none)
    """Where its steps wait for workers that serve it; None: the queue of the installation."""
