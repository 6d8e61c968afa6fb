"""Reducers as they are declared: which one merges writes into a field, and what a reducer promises."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Self, cast

from pydantic import BaseModel, ConfigDict, Field, model_validator

from wf_core.models.json_values import JsonValue
from wf_core.models.refs import CapabilityRef
from wf_core.models.schema_documents import SchemaDocument

REPLACE: Final = "wf.std.replace"
"""The reducer of every field that declares none."""


class ReducerRef(BaseModel):
    """A reducer by reference, with its configuration.

    Written as ``"wf.std.append"``, as ``{"ref": {"source", "capability_key"}, "config"}``, or, deprecated, as
    ``{"name", "config"}``. Dumped in the second form.
    """

    ref: CapabilityRef
    config: dict[str, JsonValue] = Field(default_factory=dict)

    if TYPE_CHECKING:  # ``name`` is a way in, not a field

        def __init__(
            self, *, ref: CapabilityRef | str = ..., name: str = ..., config: dict[str, Any] = ...
        ) -> None: ...

    @property
    def name(self) -> str:
        """The dotted text of the reference."""
        return str(self.ref)

    @classmethod
    def replace(cls) -> Self:
        """The default reducer."""
        return cls(name=REPLACE)

    @property
    def is_default(self) -> bool:
        """Whether this is plain replacement."""
        return not self.config and self.name == REPLACE

    def as_declared(self) -> JsonValue:
        """The shortest JSON that parses to this: the name, or the structure when there is a configuration."""
        return self.model_dump(mode="json") if self.config else self.name

    @model_validator(mode="before")
    @classmethod
    def _from_short_forms(cls, data: object) -> object:
        if isinstance(data, (str, CapabilityRef)):
            return {"ref": data}
        if not isinstance(data, dict):
            return data
        fields = dict(cast("dict[str, object]", data))
        if "name" in fields:
            if "ref" in fields:
                raise ValueError("reducer 'ref' and 'name' are mutually exclusive")
            name = fields.pop("name")
            if not isinstance(name, str):
                raise ValueError("reducer 'name' must be a string")
            fields["ref"] = name
        return fields


class SiblingWritePolicy(StrEnum):
    """Whether concurrent items of one loop may write the same field."""

    EXCLUSIVE = "exclusive"
    MERGEABLE = "mergeable"


def _closed_object() -> dict[str, JsonValue]:
    return {"type": "object", "properties": {}, "additionalProperties": False}


class ReducerSpec(BaseModel):
    """What a reducer is called and what it promises."""

    model_config = ConfigDict(extra="allow")

    name: str
    description: str = ""
    config_schema: SchemaDocument = Field(default_factory=_closed_object)
    sibling_write_policy: SiblingWritePolicy = SiblingWritePolicy.MERGEABLE
