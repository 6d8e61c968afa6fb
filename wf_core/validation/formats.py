"""Formats in the schemas of a workflow: one that nobody checks would admit everything, so it is a mistake."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, cast

from wf_core.analysis.graph import as_list, steps_of
from wf_core.models.schemas import NodeDef, SchemaRef, StateSchema
from wf_core.models.steps import InterruptNode, SubgraphNode
from wf_core.models.workflow import Workflow
from wf_core.schema_formats import known_formats, unknown_formats
from wf_core.toml_keys import shown_place
from wf_core.validation.issues import ValidationIssueCode, ValidationReport


def check_formats(workflow: Workflow, report: ValidationReport) -> None:
    """Every unknown format of every schema, with its place."""
    for location, schema in _schemas(workflow):
        for place, name in unknown_formats(schema):
            near = get_close_matches(name, known_formats(), n=1)
            report.add(
                ValidationIssueCode.UNKNOWN_FORMAT,
                shown_place(place, below=location),
                f"there is no format {name!r}",
                hint=f"did you mean {near[0]!r}?" if near else None,
            )


def _schemas(workflow: Workflow) -> Iterator[tuple[str, Mapping[str, Any]]]:
    named: list[tuple[str, object]] = [
        ("input_schema", workflow.input_schema),
        ("state_schema", workflow.state_schema),
        ("output_schema", workflow.output_schema),
    ]
    for index, definition in enumerate(as_list(workflow.node_defs)):
        if isinstance(definition, NodeDef):
            named.append((f"node_defs[{index}].input_schema", definition.input_schema))
            named.append((f"node_defs[{index}].output_schema", definition.output_schema))
    for index, step in steps_of(workflow):
        if isinstance(step, InterruptNode):
            named.append((f"nodes[{index}].request_schema", step.request_schema))
            named.append((f"nodes[{index}].resume_schema", step.resume_schema))
        elif isinstance(step, SubgraphNode):
            named.append((f"nodes[{index}].input_schema", step.input_schema))
            named.append((f"nodes[{index}].output_schema", step.output_schema))
    for location, schema in named:
        if isinstance(schema, SchemaRef | StateSchema):
            yield location, schema.as_json_schema()
        elif isinstance(schema, dict):
            yield location, cast("dict[str, Any]", schema)
