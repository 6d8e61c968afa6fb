"""References to capabilities: a source, and a name within it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, cast

from pydantic_core import core_schema

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue


@dataclass(frozen=True, slots=True)
class SourceRef:
    """The dotted name of a group of capabilities, such as ``wf.std``."""

    parts: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.parts or not all(part and not part.isspace() and "." not in part for part in self.parts):
            raise ValueError(f"invalid source reference {'.'.join(self.parts)!r}: dotted, non-empty parts are needed")

    @classmethod
    def parse(cls, text: str) -> Self:
        """The source a dotted text names; raises ``ValueError``."""
        return cls(tuple(text.split(".")))

    def __str__(self) -> str:
        return ".".join(self.parts)

    @classmethod
    def from_json(cls, value: object) -> Self:
        """The source a text names, or the ready reference itself; raises ``ValueError``."""
        if isinstance(value, cls):
            return value
        if isinstance(value, str):
            return cls.parse(value)
        raise ValueError(f"a source reference is a dotted string, not {type(value).__name__}")

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls.from_json,
            serialization=core_schema.plain_serializer_function_ser_schema(str, return_schema=core_schema.str_schema()),
        )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {"type": "string", "description": "Dotted name of a capability source, such as wf.std."}


@dataclass(frozen=True, slots=True)
class CapabilityRef:
    """One capability of a source. Text form ``source.name``, split at the last dot: only the source may have dots."""

    source: SourceRef
    name: str

    def __post_init__(self) -> None:
        if not self.name or self.name.isspace() or "." in self.name:
            raise ValueError(f"invalid capability name {self.name!r}: a non-empty name without dots is needed")

    @classmethod
    def parse(cls, text: str) -> Self:
        """The capability a dotted text names; raises ``ValueError``."""
        source, dot, name = text.rpartition(".")
        if not dot:
            raise ValueError(f"invalid capability reference {text!r}: write it as source.name")
        return cls(SourceRef.parse(source), name)

    def as_dict(self) -> dict[str, str]:
        """The JSON form: ``source`` and ``capability_key``."""
        return {"source": str(self.source), "capability_key": self.name}

    def __str__(self) -> str:
        return f"{self.source}.{self.name}"

    @classmethod
    def from_json(cls, value: object) -> Self:
        """The capability a text or its JSON form names, or the ready reference itself; raises ``ValueError``."""
        if isinstance(value, cls):
            return value
        if isinstance(value, str):
            return cls.parse(value)
        if isinstance(value, Mapping):
            fields = cast("Mapping[object, object]", value)
            source, name = fields.get("source"), fields.get("capability_key")
            if set(fields) == {"source", "capability_key"} and isinstance(name, str):
                return cls(SourceRef.from_json(source), name)
        raise ValueError("a capability reference is a string source.name, or an object {source, capability_key}")

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls.from_json, serialization=core_schema.plain_serializer_function_ser_schema(cls.as_dict)
        )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {
            "type": "object",
            "description": "Capability reference; the string form source.name is accepted too.",
            "properties": {"source": {"type": "string"}, "capability_key": {"type": "string"}},
            "required": ["source", "capability_key"],
            "additionalProperties": False,
        }
