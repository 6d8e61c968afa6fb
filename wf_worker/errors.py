"""Errors of the distributed engine. Each code stands in docs/reference/errors.md."""

from __future__ import annotations

from typing import Any, ClassVar

from wf_core.errors import WfError, WorkflowExecutionError


class StoreError(WfError):
    """The run store cannot do what was asked."""

    default_code: ClassVar[str] = "store_failed"


class StoreUnavailable(StoreError):
    """The store server cannot be reached or refuses work for now; the same call may succeed later."""

    default_code: ClassVar[str] = "store_unavailable"


class BrokerUnavailable(StoreUnavailable):
    """The broker cannot be reached. Nothing is lost by it: the sweeper sends what could not be sent."""

    default_code: ClassVar[str] = "broker_unavailable"


class RunDamaged(StoreError, WorkflowExecutionError):
    """A stored record is missing or cannot be what the engine wrote. Never read as absent."""

    default_code: ClassVar[str] = "damaged"


class LayoutUnknown(StoreError):
    """Another release wrote the records of a run in a layout that this one does not know. The run is left alone."""

    default_code: ClassVar[str] = "run_layout_unknown"


class PayloadTooLarge(WorkflowExecutionError):
    """A payload or a state field is larger than its limit. Never retried."""

    default_code: ClassVar[str] = "payload_too_large"


class RequestRefused(WfError):
    """What a caller asked for conflicts with the run as it is; ``details`` says with what."""

    default_code: ClassVar[str] = "refused"

    def __init__(
        self,
        message: str,
        *,
        code: str,
        path: str | None = None,
        hint: str | None = None,
        details: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message, code=code, path=path, hint=hint)
        self.details = details or {}


class SettingsInvalid(WfError):
    """A setting is wrong or unsafe."""

    default_code: ClassVar[str] = "settings_invalid"
