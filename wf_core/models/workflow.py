"""The workflow: a flat graph of steps and edges between declared schemas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from wf_core.models.input_bindings import InputBinding
from wf_core.models.schemas import NodeDef, SchemaRef, StateSchema
from wf_core.models.steps import Step

if TYPE_CHECKING:
    from wf_core.validation import ValidationReport


class Edge(BaseModel):
    """The route a step takes on one outcome; ``to`` is a step id or END. Written and dumped with the key ``from``."""

    model_config = ConfigDict(serialize_by_alias=True)

    # Two validation aliases rather than one alias: then the keyword ``from_`` is known to type checkers as well.
    from_: str = Field(validation_alias=AliasChoices("from", "from_"), serialization_alias="from")
    outcome: str
    to: str


class Workflow(BaseModel):
    """A whole workflow as its author wrote it. That it parses does not mean it is sound: see ``validate_structure``."""

    name: str
    input_schema: SchemaRef
    state_schema: StateSchema
    output_schema: SchemaRef
    output: list[InputBinding] = Field(default_factory=list[InputBinding])
    """Bindings of the final output; without any, state fields are projected by the names in ``output_schema``."""

    node_defs: list[NodeDef] = Field(default_factory=list[NodeDef])
    outcomes: list[str] = Field(default_factory=lambda: ["ok"], min_length=1)
    start: str
    nodes: list[Step]
    edges: list[Edge]

    def validate_structure(self) -> ValidationReport:
        """Every fault of the graph, as a report; nothing is raised for an author's mistake."""
        # The one import upwards, and late: validation reads these models.
        from wf_core.validation import validate_workflow

        return validate_workflow(self)
