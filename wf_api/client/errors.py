"""What a client raises."""

from __future__ import annotations

from typing import Any

from wf_api.wire import RunView
from wf_core.errors import WfError


class WorkflowApiError(WfError):
    """The API refused a request, or could not be reached.

    ``code``, ``message``, ``path``, ``hint`` and ``details`` are what the server sent. ``http_status`` is None where
    there was no answer (``server_unreachable``).
    """

    default_code = "api_failed"

    def __init__(
        self,
        message: str,
        *,
        code: str,
        path: str | None = None,
        hint: str | None = None,
        details: dict[str, Any] | None = None,
        http_status: int | None = None,
    ) -> None:
        super().__init__(message, code=code, path=path, hint=hint)
        self.details = details or {}
        self.http_status = http_status

    def __str__(self) -> str:
        return f"{self.code}: {self.message}" + (f" ({self.hint})" if self.hint else "")


class WaitTimeout(WfError, TimeoutError):
    """A run did not get that far in time; ``run`` is how it was when it was last looked at."""

    default_code = "wait_timed_out"

    def __init__(self, run: RunView, seconds: float) -> None:
        super().__init__(
            f"run {run['run_id']!r} is {run['status']} after {seconds:g} s",
            hint="it goes on; wait longer, or look whether a worker serves its steps",
        )
        self.run = run
