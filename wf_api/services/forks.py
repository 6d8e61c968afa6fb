"""Making runs from other runs."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from wf_api.services.runs import RunService, Started, new_run_id
from wf_api.strict_json import encode
from wf_worker.errors import RequestRefused
from wf_worker.store.protocol import Created, NewCopy


@dataclass(frozen=True, slots=True)
class CopyRequest:
    """What a run is made with from another one: from its present state, or from a ``step`` of it."""

    step: str | None = None
    run_id: str | None = None
    patch: dict[str, Any] = field(default_factory=dict[str, Any])
    max_steps: int | None = None
    idempotency_key: str | None = None

    def fingerprint(self, source: str) -> str:
        """Two requests under one idempotency key must have the same."""
        parts = ["copy", source, self.step, self.run_id, self.patch, self.max_steps]
        return hashlib.sha256(encode(parts)).hexdigest()


class ForkService(RunService):
    """Runs, and runs made from them."""

    def fork_run(self, run_id: str, request: CopyRequest) -> Started:
        """A new run that goes on from where one at rest stands, its state patched.

        Raises ``run_not_found``, ``run_not_at_rest``, ``run_completed``, ``run_damaged``, ``step_budget_used``,
        ``state_patch_invalid``, ``run_id_in_use``, ``idempotency_key_reused``; no run exists then.
        """
        return self._copied(run_id, request, self._store.fork)

    def rerun_run(self, run_id: str, request: CopyRequest) -> Started:
        """A new run from the state as it was when a root step of another one was first reached.

        Raises ``run_not_found``, ``unknown_step``, ``step_not_rerunnable``, ``step_not_reached``,
        ``state_patch_invalid``, ``run_id_in_use``, ``idempotency_key_reused``; no run exists then.
        """
        step = request.step
        assert step is not None, "a rerun names a step"
        return self._copied(run_id, request, lambda source, new: self._store.rerun(source, step, new))

    def _copied(self, source_id: str, request: CopyRequest, make: Callable[[str, NewCopy], Created]) -> Started:
        self._check_size(request.patch, self._settings.input_bytes, "patch")
        run_id, incarnation, repeated = self._reserved(source_id, request)
        if repeated and self._store.inspect(incarnation) is not None:
            return Started(self._view(incarnation, run_id), created=False)
        keyed = request.idempotency_key is not None
        keep = self._settings.keep(at_least_seconds=self._settings.idempotency_seconds if keyed else 0)
        call_id = hashlib.sha256(f"copy {incarnation}".encode()).hexdigest()[:16]
        new = NewCopy(run_id, incarnation, call_id, request.max_steps, request.patch, {"keep": keep})
        created = make(self._incarnation(source_id), new)
        if not created.created:
            raise RequestRefused(
                f"the run id {run_id!r} is in use by a run that is {created.status}",
                code="run_id_in_use",
                path="run_id",
                hint="use another id, or none",
                details={"run_id": run_id, "status": created.status},
            )
        self._send(created.ready)
        return Started(self._view(incarnation, run_id), created=not repeated)

    def _reserved(self, source_id: str, request: CopyRequest) -> tuple[str, str, bool]:
        """Run id and incarnation of the new run, and whether this very request was sent before."""
        run_id = request.run_id or new_run_id()
        incarnation = self._store.keys.incarnation(run_id, secrets.token_hex(8))
        if request.idempotency_key is None:
            return run_id, incarnation, False
        own = {"incarnation": incarnation, "run_id": run_id, "request": request.fingerprint(source_id)}
        kept = self._store.reserve(request.idempotency_key, own, self._settings.idempotency_seconds)
        if kept["request"] != own["request"]:
            raise RequestRefused(
                "this idempotency key was used for another request",
                code="idempotency_key_reused",
                path="idempotency_key",
                hint="use a new key for a new run",
                details={"run_id": kept["run_id"]},
            )
        return kept["run_id"], kept["incarnation"], kept["incarnation"] != incarnation
