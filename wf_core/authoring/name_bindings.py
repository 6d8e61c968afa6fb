"""The bindings of a step whose author wrote none: fields that have the same name on both sides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from wf_core.models.input_bindings import InputPathBinding, StepInputBinding
from wf_core.models.schemas import NodeDef, SchemaRef, StateSchema
from wf_core.models.steps import OutputBinding
from wf_core.paths import GraphSourcePath, LocalPath, StatePath
from wf_core.schema_navigation import property_names, root_node, walk


def inputs_by_name(definition: NodeDef, *, state: StateSchema, workflow_input: SchemaRef) -> list[StepInputBinding]:
    """Each input field from the state, else from the workflow's input; what neither declares stays unbound."""
    in_state, in_input = property_names(state), property_names(workflow_input)
    return [
        InputPathBinding(
            target=LocalPath((name,)), path=GraphSourcePath("state" if name in in_state else "input", (name,))
        )
        for name in _declared_names(definition.input_schema)
        if name in in_state or name in in_input
    ]


def outputs_by_name(definition: NodeDef, *, state: StateSchema) -> list[OutputBinding]:
    """Each output field to the state field of its name; what the state does not declare goes nowhere."""
    in_state = property_names(state)
    return [
        OutputBinding(source=LocalPath((name,)), target=StatePath((name,)))
        for name in _declared_names(definition.output_schema)
        if name in in_state
    ]


def _declared_names(schema: SchemaRef) -> list[str]:
    """The top-level properties, in order, through references and compositions."""
    places = (place.schema.get("properties") for place in walk(root_node(schema), ()))
    tables = (cast("Mapping[str, object]", table) for table in places if isinstance(table, Mapping))
    return list(dict.fromkeys(name for table in tables for name in table))
