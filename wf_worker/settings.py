"""Settings: environment variables with the prefix ``WF_``, or arguments of the same names. Frozen once read."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from wf_core.models.queues import QueueName
from wf_core.models.retries import MAX_SECONDS
from wf_worker.cluster_urls import cluster_fault, names_cluster
from wf_worker.durability import Durability

STORE_SCHEMES: Final = (
    *("redis", "rediss", "valkey", "valkeys", "unix"),
    *("redis+cluster", "rediss+cluster", "valkey+cluster", "valkeys+cluster"),
)
BROKER_SCHEMES: Final = ("redis", "rediss", "valkey", "valkeys", "amqp", "amqps", "memory")


def _store_url(url: str) -> str:
    _checked(url, STORE_SCHEMES, "the run store")
    fault = cluster_fault(url) if names_cluster(url) else None
    if fault:
        raise ValueError(fault)
    return url


def _broker_url(url: str) -> str:
    return _checked(url, BROKER_SCHEMES, "the broker")


def _checked(url: str, schemes: tuple[str, ...], what: str) -> str:
    scheme = url.partition("://")[0]
    if "://" not in url or scheme not in schemes:
        raise ValueError(f"{what} needs a URL that begins with one of: {', '.join(s + '://' for s in schemes)}")
    return url


def _prefix(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,99}", text):
        raise ValueError("a prefix holds letters, digits, '_', '.', ':', '-', 100 at most")
    return text


def _durability(text: str) -> str:
    Durability.parse(text)
    return text


class Settings(BaseSettings):
    """What workers, the API and the command line share.

    Each field is read from ``WF_<NAME>``, for example ``WF_STORE_URL``.
    """

    model_config = SettingsConfigDict(env_prefix="WF_", frozen=True, extra="forbid")

    store_url: Annotated[str, AfterValidator(_store_url)] = "redis://127.0.0.1:6379/0"
    """Where runs are kept: redis://, rediss://, valkey://, valkeys://; nodes of a cluster: redis+cluster://a:1,b:2."""
    broker_url: Annotated[Annotated[str, AfterValidator(_broker_url)] | None, Field(validate_default=True)] = None
    """Where Celery messages go: as above, or amqp://. None: the store's server."""
    prefix: Annotated[str, AfterValidator(_prefix)] = "wf"
    """First part of every key of the store."""
    shards: Annotated[int, Field(ge=1, le=99)] = 16
    """Fixed for the life of a store: a run's shard is a checksum of its id modulo this number."""
    queue: QueueName = "wf"
    """Queue of frames whose capability names none."""
    durability: Annotated[str, AfterValidator(_durability)] = "memory"
    """What survives a crash of the store's server: memory (nothing is promised), everysec, always, replicated(n). A
    server that does not keep that is refused at start."""
    queue_type: Literal["quorum", "classic"] = "quorum"
    """How queues are declared where the broker is RabbitMQ; elsewhere there is one type."""
    grace_seconds: Annotated[float, Field(ge=0)] = 30.0
    """How long a worker that is told to end (SIGTERM) lets running handlers go on."""
    lease_seconds: Annotated[float, Field(gt=0)] = 30.0
    """How long a claim holds without a renewal; a dead worker's frame is taken up after at most this time."""
    max_losses: Annotated[int, Field(ge=0)] = 3
    """Workers that may die at one visit of a step before the step fails as worker_lost."""
    max_steps: Annotated[int, Field(ge=1)] = 10_000
    """Step budget of a run that sets none."""
    sweep_seconds: Annotated[float, Field(ge=0.05)] = 1.0
    """How often an idle worker node looks for lost work."""
    payload_bytes: Annotated[int, Field(ge=1)] = 1024 * 1024
    """Largest handler input or output, and resume payload."""
    field_bytes: Annotated[int, Field(ge=1)] = 16 * 1024 * 1024
    """Largest top-level field of a run's state."""
    input_bytes: Annotated[int, Field(ge=1)] = 4 * 1024 * 1024
    """Largest run input."""
    retention_seconds: Annotated[int, Field(ge=1, le=MAX_SECONDS)] = 7 * 24 * 3600
    """How long an ended run is kept; then nothing of it is left. Decided when the run is started. A run that was
    started with an idempotency key is kept for as long as that at least, so that the key leads to it."""
    retention_failed_seconds: Annotated[int, Field(ge=1, le=MAX_SECONDS)] | None = None
    """The same for failed runs, where it differs."""
    idempotency_seconds: Annotated[int, Field(ge=1)] = 24 * 3600
    """How long a submit's idempotency key is kept."""

    api_event_readers: Annotated[int, Field(ge=1)] = 500
    """Readers of event streams that one API process takes; the next one is told to come later."""
    api_heartbeat_seconds: Annotated[float, Field(ge=0.05)] = 15.0
    """How often an event stream in which nothing happens gives a sign of life."""

    def keep(self, at_least_seconds: int = 0) -> str:
        """How long completed, failed and cancelled runs are kept, in ms, as a run's header says it."""
        failed = self.retention_seconds if self.retention_failed_seconds is None else self.retention_failed_seconds
        kept = (self.retention_seconds, failed, self.retention_seconds)
        return ",".join(str(1000 * max(seconds, at_least_seconds)) for seconds in kept)

    @field_validator("broker_url")
    @classmethod
    def _is_no_cluster(cls, url: str | None, info: ValidationInfo) -> str | None:
        if url is None and names_cluster(info.data.get("store_url", "")):
            raise ValueError("a cluster cannot be the broker: name a server of its own")
        return url

    @property
    def promised(self) -> Durability:
        """The durability that is promised."""
        return Durability.parse(self.durability)

    @property
    def broker(self) -> str:
        """The broker's URL in the form that Celery takes."""
        url = self.broker_url or self.store_url
        return url.replace("valkeys://", "rediss://", 1).replace("valkey://", "redis://", 1)
