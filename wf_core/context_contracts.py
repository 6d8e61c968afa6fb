"""What a running step finds in its ``context``, as JSON Schemas: the standard fields and those of active loops.

The runtime builds the values and static analysis the schemas; both take the names of the fields from here.
Schemas handed out by this module and by the analysis share structure: read them, copy before changing them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

ContextSchema: TypeAlias = dict[str, Any]
"""A JSON Schema of the context object or of one of its fields."""

PRIOR_OUTCOME_CONTEXT_KEY: Final = "prior_outcome"
ACTIVATED_INCOMING_EDGE_CONTEXT_KEY: Final = "activated_incoming_edge"
SCOPE_ID_CONTEXT_KEY: Final = "scope_id"
LINEAGE_ID_CONTEXT_KEY: Final = "lineage_id"
PARENT_LINEAGE_ID_CONTEXT_KEY: Final = "parent_lineage_id"
FOREACH_CONTEXT_KEY: Final = "foreach"
LOOP_ITEM_CONTEXT_KEY: Final = "loop_item"
LOOP_INDEX_CONTEXT_KEY: Final = "loop_index"
SCOPED_CONTEXT_KEY: Final = "_scoped"


@dataclass(frozen=True, slots=True)
class ContextFieldContract:
    """One field of the context object: its name, its schema, and a sentence for people who pick it."""

    name: str
    schema: ContextSchema
    description: str


STANDARD_CONTEXT_FIELDS: Final[tuple[ContextFieldContract, ...]] = (
    ContextFieldContract(
        PRIOR_OUTCOME_CONTEXT_KEY,
        {"type": ["string", "null"]},
        "Outcome of the step that led here; null where a frame starts.",
    ),
    ContextFieldContract(
        ACTIVATED_INCOMING_EDGE_CONTEXT_KEY,
        {"type": ["string", "null"]},
        "Id of the step that led here; null where a frame starts.",
    ),
    ContextFieldContract(SCOPE_ID_CONTEXT_KEY, {"type": "string"}, "Id of the workflow invocation this step runs in."),
    ContextFieldContract(
        LINEAGE_ID_CONTEXT_KEY, {"type": "string"}, "Id of the lineage that holds this step's writes."
    ),
    ContextFieldContract(
        PARENT_LINEAGE_ID_CONTEXT_KEY,
        {"type": ["string", "null"]},
        "Id of the lineage around this one; null at the root of an invocation.",
    ),
)
"""Present at every step, in this order."""

STANDARD_CONTEXT_FIELD_NAMES: Final = frozenset(field.name for field in STANDARD_CONTEXT_FIELDS)

RESERVED_CONTEXT_KEYS: Final = STANDARD_CONTEXT_FIELD_NAMES | {
    FOREACH_CONTEXT_KEY,
    LOOP_ITEM_CONTEXT_KEY,
    LOOP_INDEX_CONTEXT_KEY,
}
"""Names that no foreach alias may take."""


def foreach_alias_field(alias: str, item_schema: ContextSchema) -> ContextFieldContract:
    """The field that a foreach adds under its alias."""
    return ContextFieldContract(alias, item_schema, f"Current item of the loop with the alias {alias!r}.")


def foreach_context_fields(alias: str, item_schema: ContextSchema) -> tuple[ContextFieldContract, ...]:
    """The convenience fields of the innermost active foreach: item and index under fixed names, then its alias."""
    return (
        ContextFieldContract(LOOP_ITEM_CONTEXT_KEY, item_schema, "Current item of the innermost loop."),
        ContextFieldContract(LOOP_INDEX_CONTEXT_KEY, {"type": "integer"}, "Zero-based index of the innermost loop."),
        foreach_alias_field(alias, item_schema),
    )


def foreach_entry_schema(node_id: str, item_schema: ContextSchema) -> ContextSchema:
    """The schema of ``context.foreach.<node_id>``: which iteration this is, and its item."""
    return closed_object(
        {
            "node_id": {"const": node_id},
            "activation_id": {"type": "string"},
            "frame_id": {"type": "string"},
            "scope_id": {"type": "string"},
            "lineage_id": {"type": "string"},
            "index": {"type": "integer"},
            "item": item_schema,
        }
    )


def structured_foreach_contract(entry_schemas: Mapping[str, ContextSchema]) -> ContextFieldContract:
    """The ``foreach`` field: one entry per active foreach, keyed by step id, outermost first."""
    return ContextFieldContract(
        FOREACH_CONTEXT_KEY,
        closed_object(entry_schemas),
        "Every active loop of this workflow invocation, by the id of its foreach step.",
    )


def closed_object(properties: Mapping[str, ContextSchema]) -> ContextSchema:
    """An object schema with exactly these properties, all of them required."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": sorted(properties),
        "additionalProperties": False,
    }
