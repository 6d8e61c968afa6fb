"""Steps: the places of a workflow graph, told apart by ``type``. Keys that a step does not know are ignored."""

from __future__ import annotations

from typing import Annotated, Final, Literal, Self, TypeAlias

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    WithJsonSchema,
    model_validator,
)

from wf_core.instants import parse_instant
from wf_core.models.conditions import Condition
from wf_core.models.deprecated_shapes import fold_binding_maps, fold_foreach_shapes
from wf_core.models.input_bindings import (
    ArrayExpression,
    InputBinding,
    InputExpression,
    InputExpressionBinding,
    InputPathBinding,
    InputValueBinding,
    LiteralExpression,
    ObjectExpression,
    PathExpression,
    StepInputBinding,
)
from wf_core.models.json_values import JsonValue
from wf_core.models.retries import MAX_SECONDS, Retries, TimeLimit, TimeoutSeconds, is_none
from wf_core.models.schema_documents import SchemaDocument
from wf_core.models.schemas import SchemaRef, object_schema
from wf_core.models.tagging import published_as_required
from wf_core.models.workflow_refs import WorkflowRef
from wf_core.paths import GraphSourcePath, LocalPath, StatePath


class OutputBinding(BaseModel):
    """Writes a part of a payload into the state. Here ``target`` is a state field, unlike in an input binding."""

    model_config = ConfigDict(extra="forbid")

    source: LocalPath = Field(description="Payload-local path that is read. Use . for the whole node output payload.")
    target: StatePath = Field(
        description="State field that is written, such as state.person.name. Bare state is invalid."
    )


class _StepModel(BaseModel):
    model_config = ConfigDict(json_schema_extra=published_as_required("type"))

    id: str
    """Unique in the workflow."""


class NodeUse(_StepModel):
    """Calls the handler of a node definition."""

    type: Literal["node"] = "node"
    node: str
    """The ``NodeDef.name``."""

    desc: str | None = None
    input: list[StepInputBinding] = Field(default_factory=list[StepInputBinding])
    output: list[OutputBinding] = Field(default_factory=list[OutputBinding])
    retry: Retries | None = None
    """Repetitions after a failure, or the whole policy, for hosts that repeat; None leaves it to the node definition,
    and so does each part of a policy that is left out."""

    timeout_seconds: TimeoutSeconds | None = None
    """Time for one call, for hosts that limit it; None leaves it, like the times below, to the node definition."""

    total_timeout_seconds: TimeLimit = None
    """Time for all calls of one visit together."""

    queue_timeout_seconds: TimeLimit = None
    """Time from being ready to being taken up."""

    heartbeat_seconds: TimeLimit = None
    """Time between two signs of life of a handler."""

    @model_validator(mode="before")
    @classmethod
    def _from_deprecated_maps(cls, data: object) -> object:
        return fold_binding_maps(data, values="input_values", paths="in_map", inputs="input", outputs="output")


class SubgraphNode(_StepModel):
    """Runs another workflow in a scope of its own."""

    type: Literal["subgraph"] = "subgraph"
    workflow: WorkflowRef
    desc: str | None = None
    input_schema: SchemaRef = Field(default_factory=object_schema)
    output_schema: SchemaRef = Field(default_factory=object_schema)
    input: list[StepInputBinding] = Field(default_factory=list[StepInputBinding])
    output: list[OutputBinding] = Field(default_factory=list[OutputBinding])
    outcomes: list[str] = Field(default_factory=lambda: ["ok"], min_length=1)


class ConditionNode(_StepModel):
    """Chooses between the outcomes ``true`` and ``false``."""

    type: Literal["condition"] = "condition"
    check: Condition


class ForeachItemErrorPolicy(BaseModel):
    """What a failed item does to its loop: fail it, be skipped, or be collected. A bare string is the action."""

    model_config = ConfigDict(extra="forbid")

    action: Literal["fail", "skip", "collect"] = "fail"
    collect_to: StatePath | None = None
    """The list that receives the error records; given exactly when the action is ``collect``."""

    @model_validator(mode="before")
    @classmethod
    def _from_action(cls, data: object) -> object:
        return {"action": data} if isinstance(data, str) else data

    @model_validator(mode="after")
    def _collects_somewhere(self) -> Self:
        if self.action == "collect" and self.collect_to is None:
            raise ValueError("item error action 'collect' needs 'collect_to'")
        if self.action != "collect" and self.collect_to is not None:
            raise ValueError(f"'collect_to' belongs to the item error action 'collect', not to {self.action!r}")
        return self


class ForeachConcurrentPolicy(BaseModel):
    """How many items of a concurrent loop may be under way, and what an interrupt in one does to the others."""

    model_config = ConfigDict(extra="forbid")

    max_active: int = Field(default=4, ge=1, strict=True)
    """Items that run or wait for a worker at the same time."""

    max_outstanding: int = Field(default=20, ge=1, strict=True)
    """Items started but not yet committed, finished ones included; at least ``max_active``."""

    interrupt: Literal["quiesce", "continue"] = "quiesce"
    """``quiesce`` holds the siblings of a waiting item; ``continue`` lets them run."""

    @model_validator(mode="after")
    def _window_holds_the_active(self) -> Self:
        if self.max_outstanding < self.max_active:
            raise ValueError(f"max_outstanding ({self.max_outstanding}) is below max_active ({self.max_active})")
        return self


class ForeachNode(_StepModel):
    """Runs the steps behind its outcome ``loop`` once for each element of a list.

    Goes on with ``done``, or with ``completed_with_errors`` when failed items were skipped or collected. Written and
    dumped with the key ``as``.
    """

    model_config = ConfigDict(serialize_by_alias=True)

    type: Literal["foreach"] = "foreach"
    over: GraphSourcePath
    # Two validation aliases rather than one alias: then the keyword ``as_`` is known to type checkers as well.
    as_: str = Field(validation_alias=AliasChoices("as", "as_"), serialization_alias="as")
    """The context key under which the body reads the element."""

    mode: Literal["serial", "concurrent"] = "serial"
    item_error: ForeachItemErrorPolicy = Field(default_factory=ForeachItemErrorPolicy)
    concurrent: ForeachConcurrentPolicy | None = None

    @property
    def item(self) -> GraphSourcePath:
        """Where the body reads the element."""
        return GraphSourcePath("context", ("foreach", self.id, "item"))

    @property
    def index(self) -> GraphSourcePath:
        """Where the body reads the position of the element, from zero."""
        return GraphSourcePath("context", ("foreach", self.id, "index"))

    @model_validator(mode="before")
    @classmethod
    def _from_deprecated_shapes(cls, data: object) -> object:
        return fold_foreach_shapes(data)

    @model_validator(mode="after")
    def _policy_fits_the_mode(self) -> Self:
        if self.mode == "concurrent" and self.concurrent is None:
            raise ValueError("foreach mode 'concurrent' requires a concurrent policy")
        if self.mode == "serial" and self.concurrent is not None:
            raise ValueError("foreach mode 'serial' takes no concurrent policy")
        return self


_ANY_OBJECT: Final[dict[str, JsonValue]] = {"type": "object", "additionalProperties": True}


def _of_type_object(document: dict[str, JsonValue]) -> dict[str, JsonValue]:
    if document.get("type") != "object":
        raise ValueError("an interrupt schema must have the top-level type 'object'")
    return document


ObjectSchemaDocument: TypeAlias = Annotated[SchemaDocument, AfterValidator(_of_type_object)]


class InterruptNode(_StepModel):
    """Pauses until someone outside answers the request."""

    type: Literal["interrupt"] = "interrupt"
    kind: str
    """What is asked for, in the words of the host."""

    request: list[StepInputBinding] = Field(default_factory=list[StepInputBinding])
    """Bindings of the payload that is shown to whoever answers."""

    resume: list[OutputBinding] = Field(default_factory=list[OutputBinding])
    """Bindings that write the answer into the state."""

    outcomes: list[str] = Field(default_factory=lambda: ["submitted"])
    request_schema: ObjectSchemaDocument = Field(default_factory=_ANY_OBJECT.copy)
    resume_schema: ObjectSchemaDocument = Field(default_factory=_ANY_OBJECT.copy)
    expires_seconds: TimeLimit = None
    """How long it takes answers, for hosts that have a clock; None is for ever."""

    @property
    def has_explicit_contract(self) -> bool:
        """Whether the author described the request or the answer; a schema that admits any object describes nothing.

        Read off the schemas rather than remembered, so that a dump that is parsed again means the same.
        """
        return self.request_schema != _ANY_OBJECT or self.resume_schema != _ANY_OBJECT

    @model_validator(mode="before")
    @classmethod
    def _from_deprecated_maps(cls, data: object) -> object:
        return fold_binding_maps(data, values=None, paths="request_map", inputs="request", outputs="resume")


_WaitSeconds: TypeAlias = Annotated[float, Field(gt=0, le=MAX_SECONDS, strict=True, allow_inf_nan=False)]


_PATH_BEGINS: Final = ("input", "state", "context", '"', "'")


def _is_instant(text: str) -> str:
    try:
        parse_instant(text)
    except ValueError as fault:
        if text[:1].isdigit():
            raise
        raise ValueError(f"{fault}, and no path below input, state or context") from fault
    return text


def _time_or_path(value: object) -> str:
    # No path begins like a time, so each mistake is told in its own terms.
    return "time" if isinstance(value, str) and not value.lstrip().startswith(_PATH_BEGINS) else "path"


Moment: TypeAlias = Annotated[
    Annotated[
        str,
        AfterValidator(_is_instant),
        WithJsonSchema({"type": "string", "format": "date-time", "pattern": "^[0-9]"}),
        Tag("time"),
    ]
    | Annotated[GraphSourcePath, Tag("path")],
    Discriminator(_time_or_path),
]
"""A point in time: an RFC 3339 text, or the path where such a text is found."""


class WaitNode(_StepModel):
    """Goes on with ``elapsed`` after a number of seconds, or when a time has come. It holds no worker."""

    type: Literal["wait"] = "wait"
    for_seconds: _WaitSeconds | None = Field(default=None, exclude_if=is_none)
    """How long, from the moment the step is reached."""

    until: Moment | None = Field(default=None, exclude_if=is_none)
    """When; a time that has passed is no wait at all."""

    @model_validator(mode="after")
    def _for_or_until(self) -> Self:
        if (self.for_seconds is None) == (self.until is None):
            raise ValueError("a wait needs 'for_seconds' or 'until', and not both")
        return self


def is_sound_wait(for_seconds: object, until: object) -> bool:
    """Whether these are what a wait may say, also where a model was changed after it was parsed."""
    if isinstance(until, str) and _time_or_path(until) == "path":
        return False  # a path is kept as one, never as its text
    try:
        WaitNode.model_validate({"id": "w", "for_seconds": for_seconds, "until": until})
    except ValidationError:
        return False
    return True


class JoinNode(_StepModel):
    """Deprecated: a step that merges nothing and goes on with ``done``."""

    type: Literal["join"] = "join"


class EndNode(_StepModel):
    """Ends its workflow with an outcome of the workflow; has no edges."""

    type: Literal["end"] = "end"
    outcome: str = Field(default="ok", min_length=1)


Step: TypeAlias = Annotated[
    NodeUse | SubgraphNode | ConditionNode | ForeachNode | JoinNode | InterruptNode | WaitNode | EndNode,
    Field(discriminator="type"),
]
"""Any step; a new kind is one more member here."""

__all__ = [
    "ArrayExpression",
    "ConditionNode",
    "EndNode",
    "ForeachConcurrentPolicy",
    "ForeachItemErrorPolicy",
    "ForeachNode",
    "InputBinding",
    "InputExpression",
    "InputExpressionBinding",
    "InputPathBinding",
    "InputValueBinding",
    "InterruptNode",
    "JoinNode",
    "JsonValue",
    "LiteralExpression",
    "NodeUse",
    "ObjectExpression",
    "OutputBinding",
    "PathExpression",
    "Step",
    "StepInputBinding",
    "SubgraphNode",
    "WaitNode",
]
