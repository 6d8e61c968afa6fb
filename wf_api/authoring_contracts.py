"""What an author may write at a place: the paths of a schema, and the context paths of a step, as options."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Literal, NotRequired, TypedDict

from wf_core.analysis.context_scopes import ContextFieldAvailability, context_fields_by_node
from wf_core.context_contracts import FOREACH_CONTEXT_KEY
from wf_core.models.workflow import Workflow
from wf_core.paths import GraphSourcePath, format_toml_path_segments
from wf_core.schema_navigation import SchemaNode, declared_members, inline, root_node, walk

MAX_LEVELS: Final = 32

Origin = Literal["workflow_input", "workflow_state", "runtime_context", "step_input", "step_output", "workflow_output"]
Use = Literal["step_input", "workflow_output", "state_target", "step_output_source"]

_ORIGINS: Final[dict[str, Origin]] = {
    "input": "workflow_input",
    "state": "workflow_state",
    "context": "runtime_context",
    "step_input": "step_input",
    "step_output": "step_output",
    "output": "workflow_output",
}


class AuthoringPathOptionPayload(TypedDict):
    """One path that may be written, as it is written."""

    path: str
    label: str
    origin: Origin
    schema: dict[str, Any]
    required: bool
    availability: Literal["available", "conditional"]
    uses: list[Use]
    description: NotRequired[str]
    reason: NotRequired[str]


def schema_path_options(schema: Any, *, root: str, uses: Sequence[Use]) -> list[AuthoringPathOptionPayload]:
    """Every declared object property of a schema, depth first in declaration order, below ``root``.

    Arrays are leaves: their items have no path. A definition that contains itself is offered once and not expanded
    again. Raises ``ValueError`` for an unknown root.
    """
    if root not in _ORIGINS:
        raise ValueError(f"unknown root {root!r}; one of: {', '.join(_ORIGINS)}")
    return [
        _option((root, *parts), node, origin=_ORIGINS[root], required=required, uses=uses)
        for parts, node, required in _members(root_node(schema), (), frozenset(), MAX_LEVELS)
    ]


def context_path_options(fields: Iterable[ContextFieldAvailability]) -> list[AuthoringPathOptionPayload]:
    """One option for each context field, then those below ``foreach``: every field of every active entry, and the
    object members of its item. Loop ids are literal segments, quoted where they must be."""
    options: list[AuthoringPathOptionPayload] = []
    below: list[AuthoringPathOptionPayload] = []
    for field in fields:
        options.append(_context_option(GraphSourcePath("context", (field.name,)), field.schema, field))
        if field.name == FOREACH_CONTEXT_KEY:
            below += _entries(field)
    return options + below


def context_path_options_for_node(workflow: Workflow, node_id: str) -> list[AuthoringPathOptionPayload]:
    """The context paths that a step may read; none for a step that is unknown, unreachable or of two regions."""
    return context_path_options(context_fields_by_node(workflow).get(node_id, ()))


def _entries(field: ContextFieldAvailability) -> Iterator[AuthoringPathOptionPayload]:
    for parts, node, _ in _members(root_node(field.schema), (), frozenset(), MAX_LEVELS):
        if len(parts) > 1:  # the entry itself is an object of identities; its fields are what one binds
            yield _context_option(GraphSourcePath("context", (FOREACH_CONTEXT_KEY, *parts)), inline(node), field)


def _context_option(path: GraphSourcePath, schema: Any, field: ContextFieldAvailability) -> AuthoringPathOptionPayload:
    option: AuthoringPathOptionPayload = {
        "path": str(path),
        "label": _label(path.parts[-1], schema),
        "origin": "runtime_context",
        "schema": dict(schema),
        "required": False,
        "availability": field.availability,
        "uses": ["step_input"],
    }
    if len(path.parts) == 1 and field.description:
        option["description"] = field.description
    if field.reason is not None:
        option["reason"] = field.reason
    return option


def _members(
    node: SchemaNode, above: tuple[str, ...], expanding: frozenset[int], levels: int
) -> Iterator[tuple[tuple[str, ...], SchemaNode, bool]]:
    """Path, place and whether it is required, for every property below a place."""
    if levels == 0:
        return
    required = {name for place in walk(node, ()) for name in _texts(place.schema.get("required"))}
    for name, places in declared_members(node).items():
        parts = (*above, name)
        yield parts, places[0], name in required
        identity = id(places[-1].schema)
        if identity not in expanding:
            yield from _members(places[0], parts, expanding | {identity}, levels - 1)


def _texts(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _option(
    parts: tuple[str, ...], node: SchemaNode, *, origin: Origin, required: bool, uses: Sequence[Use]
) -> AuthoringPathOptionPayload:
    schema = inline(node)
    option: AuthoringPathOptionPayload = {
        "path": format_toml_path_segments(parts),
        "label": _label(parts[-1], schema),
        "origin": origin,
        "schema": schema,
        "required": required,
        "availability": "available",
        "uses": list(uses),
    }
    description = schema.get("description")
    if isinstance(description, str):
        option["description"] = description
    return option


def _label(name: str, schema: Any) -> str:
    title = schema.get("title")
    return title if isinstance(title, str) and title else name.replace("_", " ").replace("-", " ").title()
