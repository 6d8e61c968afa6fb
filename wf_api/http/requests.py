"""What the API takes: strict models, unknown fields refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from wf_api.services.forks import CopyRequest
from wf_api.services.runs import ClosedPolicy, OpenPolicy, RunFilter, StartRequest
from wf_api.wire import MAX_PAGE, MAX_WAIT_SECONDS, Priority, RunStatus
from wf_core.errors import WfError
from wf_core.instants import parse_instant
from wf_core.models.retries import TimeoutSeconds
from wf_core.run_state import TraceLevel

RUN_ID: Final = r"^[A-Za-z0-9][A-Za-z0-9_.:@-]{0,127}$"
DIGEST: Final = r"^sha256:[0-9a-f]{64}$"


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("it holds a character that cannot be printed")
    return text


WaitSeconds = Annotated[
    float,
    Field(
        ge=0,
        le=MAX_WAIT_SECONDS,
        description="Answer when the run has ended or waits for somebody, or after this time.",
    ),
]
IdempotencyKey = Annotated[
    str,
    AfterValidator(_printable),
    Field(min_length=1, max_length=200, description="The same request under the same key is carried out once."),
]


MAX_TAGS: Final = 20
TagName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:/-]{0,63}$")]
TagValue = Annotated[str, AfterValidator(_printable), Field(max_length=256)]


def _pair(text: str) -> str:
    if "=" not in text:
        raise ValueError("a tag is written name=value")
    return text


TagPair = Annotated[str, AfterValidator(_pair), Field(max_length=400, examples=["team=blue"])]


def _instant(text: str) -> str:
    parse_instant(text)
    return text


Instant = Annotated[str, AfterValidator(_instant), Field(examples=["2030-01-31T09:00:00Z"])]


class FieldsClash(WfError, ValueError):
    """Fields that are right one by one do not go together."""

    default_code = "invalid_value"


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class PublishWorkflow(_Request):
    """A workflow to publish. Without a version it gets the next number."""

    workflow: dict[str, Any]
    version: str | None = None


class Limits(_Request):
    """The budget of a run."""

    max_steps: Annotated[int, Field(ge=1, le=1_000_000_000)]


class StartRun(_Request):
    """A run to start: of a workflow by name, with or without a version, or by digest."""

    workflow: str | None = None
    version: str | None = None
    digest: Annotated[str, Field(pattern=DIGEST)] | None = None
    input: dict[str, Any] = Field(default_factory=dict)
    run_id: Annotated[str, Field(pattern=RUN_ID)] | None = None
    idempotency_key: IdempotencyKey | None = None
    open_policy: Annotated[
        OpenPolicy, Field(description="What to do when run_id belongs to a run that has not ended.")
    ] = "fail"
    closed_policy: Annotated[
        ClosedPolicy, Field(description="What to do when run_id belongs to a run that has ended.")
    ] = "reject"
    limits: Limits | None = None
    trace: Annotated[
        TraceLevel, Field(description="How much of its history is kept: full, without payloads, or none.")
    ] = "full"
    deadline_seconds: Annotated[
        TimeoutSeconds | None, Field(description="Seconds after which the run fails unless it has ended.")
    ] = None
    durability: Annotated[
        Literal["memory", "everysec", "always"] | Annotated[str, Field(pattern=r"^replicated\([1-9]\)$")] | None,
        Field(description="Refuse the run where less is promised: memory, everysec, always or replicated(n)."),
    ] = None
    priority: Annotated[Priority, Field(description="Whose steps workers take up first.")] = "normal"
    tags: Annotated[
        dict[TagName, TagValue], Field(max_length=MAX_TAGS, description="Names and values that the run is found by.")
    ] = Field(default_factory=dict)
    wait_seconds: WaitSeconds = 0

    @model_validator(mode="after")
    def _one_workflow(self) -> Self:
        if (self.workflow is None) == (self.digest is None):
            raise FieldsClash("name either a workflow or a digest", hint="give exactly one of the two")
        if self.digest is not None and self.version is not None:
            raise FieldsClash("a digest says which version", hint="leave version out")
        return self

    def as_request(self) -> StartRequest:
        """What the service takes."""
        return StartRequest(
            workflow=self.workflow,
            version=self.version,
            digest=self.digest,
            workflow_input=self.input,
            run_id=self.run_id,
            idempotency_key=self.idempotency_key,
            open_policy=self.open_policy,
            closed_policy=self.closed_policy,
            max_steps=None if self.limits is None else self.limits.max_steps,
            trace=self.trace,
            deadline_seconds=self.deadline_seconds,
            durability=self.durability,
            priority=self.priority,
            tags=self.tags,
        )


class ResumeInterrupt(_Request):
    """An answer to an interrupt that the URL names."""

    payload: dict[str, Any] = Field(default_factory=dict)
    outcome: str = "submitted"
    revision: Annotated[str | None, Field(description="Refuse the answer when the interrupt has another revision.")] = (
        None
    )
    idempotency_key: IdempotencyKey | None = None
    wait_seconds: WaitSeconds = 0


class ResumeRun(ResumeInterrupt):
    """An answer to an interrupt: the named one, or the only one that is open."""

    interrupt_key: str | None = None


class CancelRun(_Request):
    """Why a run is cancelled."""

    reason: Annotated[str, Field(min_length=1, max_length=1000)] | None = None


class PauseRun(_Request):
    """Nothing more needs to be said."""


class RetryRun(_Request):
    """With which budget a failed run goes on; with its own if none is given."""

    limits: Limits | None = None


class ForkRun(_Request):
    """How a new run is made from another one."""

    run_id: Annotated[str, Field(pattern=RUN_ID)] | None = None
    idempotency_key: IdempotencyKey | None = None
    patch: Annotated[
        dict[str, Any], Field(description="New values of top-level state fields, in place of those that it would have.")
    ] = Field(default_factory=dict)
    limits: Limits | None = None
    wait_seconds: WaitSeconds = 0

    def as_request(self) -> CopyRequest:
        """What the service takes."""
        return CopyRequest(
            run_id=self.run_id,
            patch=self.patch,
            max_steps=None if self.limits is None else self.limits.max_steps,
            idempotency_key=self.idempotency_key,
        )


class RerunRun(ForkRun):
    """How a new run is made from another one, and from which of its steps."""

    step: Annotated[str, Field(alias="from", min_length=1, description="The id of a step outside every loop.")]

    def as_request(self) -> CopyRequest:
        """What the service takes."""
        return replace(super().as_request(), step=self.step)


class _Query(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ListWorkflows(_Query):
    """A page of workflows."""

    cursor: str | None = None
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = 50


class _Tagged(_Query):
    """A list of runs with certain tags, each given as ``tag=name=value``."""

    tag: Annotated[list[TagPair], Field(max_length=MAX_TAGS)] = Field(default_factory=list)

    @property
    def tags(self) -> dict[str, str]:
        """The tags by name."""
        return {name: value for name, _, value in (pair.partition("=") for pair in self.tag)}


class ListRuns(_Tagged):
    """A page of runs: those that are all of this."""

    status: RunStatus | None = None
    workflow: str | None = None
    created_from: Instant | None = None
    created_to: Instant | None = None
    cursor: str | None = None
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = 50

    def as_filter(self) -> RunFilter:
        """What the service takes."""
        return RunFilter(
            self.status,
            self.workflow,
            self.tags,
            None if self.created_from is None else parse_instant(self.created_from),
            None if self.created_to is None else parse_instant(self.created_to),
        )


class ListInbox(_Tagged):
    """A page of what all runs ask for."""

    kind: str | None = None
    workflow: str | None = None
    cursor: str | None = None
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = 50


class TraceRange(_Query):
    """A range of a trace."""

    start: Annotated[int, Field(ge=0, le=2**53)] = 0
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = 20


class ReadEvents(_Query):
    """Where to begin, and how long a page is."""

    after: (
        Annotated[str, Field(min_length=1, max_length=64, description="Go on behind the event of this id.")] | None
    ) = None
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE, description="Events of a page; a stream has no end to this.")] = 50


class InspectRun(_Query):
    """What to show of a run."""

    include: Literal["input"] | None = None


class NoQuery(_Query):
    """No parameters."""
