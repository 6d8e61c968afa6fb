"""The asynchronous client."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from typing import Any, Self

import httpx

from wf_api.backoff import pauses
from wf_api.client import calls
from wf_api.client.calls import DEFAULT_TIMEOUT_SECONDS, DEFAULT_URL, Call, Until, WorkflowLike
from wf_api.client.errors import WaitTimeout, WorkflowApiError
from wf_api.client.following import Following
from wf_api.wire import (
    AuditView,
    CancelView,
    EventPage,
    InboxPage,
    InterruptList,
    Priority,
    ProgressView,
    PublishedView,
    RunEventView,
    RunPage,
    RunView,
    TracePage,
    VersionsView,
    WorkflowPage,
    WorkflowView,
)
from wf_core.run_state import TraceLevel


class AsyncWorkflowClient:
    """Calls the API at a URL. Use it as a context manager, or close it.

    ``timeout_seconds`` bounds each request, beside the time that a request asks the server to wait. Every method
    raises :class:`~wf_api.client.errors.WorkflowApiError`.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
        *,
        http_client: httpx.AsyncClient | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        self._timeout_seconds = timeout_seconds
        self._http = http_client or httpx.AsyncClient()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    # ---- workflows

    async def publish(self, workflow: WorkflowLike, version: str | None = None) -> PublishedView:
        """Publishes a workflow, a builder's or a document; without a version it gets the next number."""
        return await self._send(calls.publish(workflow, version))

    async def list_workflows(self, *, cursor: str | None = None, limit: int | None = None) -> WorkflowPage:
        """A page of published workflows by name."""
        return await self._send(calls.list_workflows(cursor, limit))

    async def workflow_versions(self, name: str) -> VersionsView:
        """The versions of a workflow, oldest first."""
        return await self._send(calls.workflow_versions(name))

    async def workflow(self, name: str, version: str = "latest") -> WorkflowView:
        """One version of a workflow with its document; ``version`` may also be a digest."""
        return await self._send(calls.workflow(name, version))

    # ---- runs

    async def start(
        self,
        workflow: str | None = None,
        input: Mapping[str, Any] | None = None,
        *,
        version: str | None = None,
        digest: str | None = None,
        run_id: str | None = None,
        idempotency_key: str | None = None,
        open_policy: str | None = None,
        closed_policy: str | None = None,
        max_steps: int | None = None,
        trace: TraceLevel = "full",
        deadline_seconds: int | None = None,
        durability: str | None = None,
        priority: Priority = "normal",
        tags: Mapping[str, str] | None = None,
        wait_seconds: float = 0,
    ) -> RunView:
        """Starts a run of a workflow (the latest version unless one is named) or of a digest.

        With ``wait_seconds`` (60 at most) the answer comes when the run has ended or waits for somebody. The same call
        with the same ``idempotency_key`` starts one run, however often it is made.
        """
        call = calls.start(
            workflow,
            input,
            version=version,
            digest=digest,
            run_id=run_id,
            idempotency_key=idempotency_key,
            open_policy=open_policy,
            closed_policy=closed_policy,
            max_steps=max_steps,
            trace=trace,
            deadline_seconds=deadline_seconds,
            durability=durability,
            priority=priority,
            tags=tags,
            wait_seconds=wait_seconds,
        )
        return await self._send(call)

    async def inspect(self, run_id: str, *, with_input: bool = False) -> RunView:
        """The run as it is now."""
        return await self._send(calls.inspect(run_id, with_input))

    async def list(
        self,
        *,
        status: str | None = None,
        workflow: str | None = None,
        tags: Mapping[str, str] | None = None,
        created_from: datetime | str | None = None,
        created_to: datetime | str | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> RunPage:
        """A page of the runs that are all of this, newest first; ``next_cursor`` leads to the next one.

        Times are RFC 3339 texts or times with a time zone, both included.
        """
        call = calls.list_runs(
            status=status,
            workflow=workflow,
            tags=tags,
            created_from=created_from,
            created_to=created_to,
            cursor=cursor,
            limit=limit,
        )
        return await self._send(call)

    async def trace(self, run_id: str, *, start: int = 0, limit: int = 20) -> TracePage:
        """A range of the run's finished steps; ``next_start`` leads to the next one."""
        return await self._send(calls.trace(run_id, start, limit))

    async def events(
        self, run_id: str, *, after: str | None = None, patience_seconds: float | None = None
    ) -> AsyncIterator[RunEventView]:
        """What happens to the run, event by event, until nothing follows any more (it has ended).

        ``after`` goes on behind the event of this id. A connection that breaks is made again behind the last event, so
        each comes once; a server that is away is tried for ``patience_seconds``, without for ever. Raises
        ``event_id_unknown`` where the store has lost what was read (begin anew), ``events_trimmed`` where the events
        behind the id are no longer kept. A first event of kind ``gap`` says how many are missing before the oldest.
        """
        following = Following(run_id, after, patience_seconds)
        while True:
            error: WorkflowApiError | None = None
            try:
                request = following.call().request(self._http, self.url, following.timeout(self._timeout_seconds))
                response = await self._http.send(request, stream=True)
                try:
                    if response.status_code != 200:
                        await response.aread()
                    following.begin(response)
                    async for chunk in response.aiter_bytes():
                        for event in following.feed(chunk):
                            yield event
                        if following.ended:
                            return
                finally:
                    await response.aclose()
            except (httpx.TransportError, httpx.InvalidURL) as broken:
                error = calls.unreachable(self.url, broken)
            except WorkflowApiError as refused:
                error = refused
            if following.ended:
                return
            await asyncio.sleep(following.pause(error))

    async def event_page(self, run_id: str, *, after: str | None = None, limit: int | None = None) -> EventPage:
        """A page of events, for whoever asks now and then; ``last_id`` leads on."""
        return await self._send(calls.event_page(run_id, after, limit))

    async def interrupts(self, run_id: str) -> InterruptList:
        """The open interrupts of a run, oldest first."""
        return await self._send(calls.interrupts(run_id))

    async def inbox(
        self,
        *,
        kind: str | None = None,
        workflow: str | None = None,
        tags: Mapping[str, str] | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> InboxPage:
        """What all runs ask for, oldest first."""
        return await self._send(calls.inbox(kind=kind, workflow=workflow, tags=tags, cursor=cursor, limit=limit))

    async def progress(self, run_id: str) -> ProgressView:
        """How far the run and its open concurrent loops are."""
        return await self._send(calls.progress(run_id))

    async def audit(self, run_id: str) -> AuditView:
        """Whether the run's records agree with one another; ``findings`` are the contradictions."""
        return await self._send(calls.audit(run_id))

    async def resume(
        self,
        run_id: str,
        payload: Mapping[str, Any] | None = None,
        outcome: str = "submitted",
        *,
        interrupt_key: str | None = None,
        revision: str | None = None,
        idempotency_key: str | None = None,
        wait_seconds: float = 0,
    ) -> RunView:
        """Answers the only open interrupt, or the one that ``interrupt_key`` names.

        An answer with an ``idempotency_key`` may be sent again; it must name its interrupt.
        """
        call = calls.resume(
            run_id,
            payload,
            outcome=outcome,
            interrupt_key=interrupt_key,
            revision=revision,
            idempotency_key=idempotency_key,
            wait_seconds=wait_seconds,
        )
        return await self._send(call)

    async def cancel(self, run_id: str, *, reason: str | None = None) -> CancelView:
        """Ends a run at once."""
        return await self._send(calls.cancel(run_id, reason))

    async def pause(self, run_id: str) -> RunView:
        """Begins nothing new in the run; running handlers commit."""
        return await self._send(calls.pause(run_id, True))

    async def unpause(self, run_id: str) -> RunView:
        """Goes on with a paused run."""
        return await self._send(calls.pause(run_id, False))

    async def retry(self, run_id: str, *, max_steps: int | None = None) -> RunView:
        """Goes on with a failed run: its failed steps are tried anew, with a larger budget if one is given."""
        return await self._send(calls.retry(run_id, max_steps))

    async def fork(
        self,
        run_id: str,
        *,
        new_run_id: str | None = None,
        patch: Mapping[str, Any] | None = None,
        max_steps: int | None = None,
        idempotency_key: str | None = None,
        wait_seconds: float = 0,
    ) -> RunView:
        """Makes a new run from the present state of one at rest: ended, interrupted, or paused with nothing running.

        ``patch`` holds new values of top-level state fields.
        """
        call = calls.fork(
            run_id,
            None,
            new_run_id=new_run_id,
            patch=patch,
            max_steps=max_steps,
            idempotency_key=idempotency_key,
            wait_seconds=wait_seconds,
        )
        return await self._send(call)

    async def rerun(
        self,
        run_id: str,
        step: str,
        *,
        new_run_id: str | None = None,
        patch: Mapping[str, Any] | None = None,
        max_steps: int | None = None,
        idempotency_key: str | None = None,
        wait_seconds: float = 0,
    ) -> RunView:
        """Makes a new run that begins at a step of another one, with the state as it was when that first came there.

        The step lies outside every loop. ``patch`` holds new values of top-level state fields.
        """
        call = calls.fork(
            run_id,
            step,
            new_run_id=new_run_id,
            patch=patch,
            max_steps=max_steps,
            idempotency_key=idempotency_key,
            wait_seconds=wait_seconds,
        )
        return await self._send(call)

    async def export(self, run_id: str) -> AsyncIterator[str]:
        """A run at rest as lines, each a JSON document; :func:`wf_core.run_export.load_exported_run` reads them.

        They come as the server reads them, so a large run is never held whole. Raises also in the middle, with
        ``run_not_at_rest`` where the run has moved meanwhile, and ``export_incomplete``.
        """
        request = calls.export(run_id).request(self._http, self.url, self._timeout_seconds)
        lines = calls.ExportedLines()
        try:
            response = await self._http.send(request, stream=True)
            try:
                if response.is_error:
                    await response.aread()
                    calls.result_of(response)
                async for piece in response.aiter_bytes():
                    for line in lines.lines(piece):
                        yield line
            finally:
                await response.aclose()
        except (httpx.TransportError, httpx.InvalidURL) as error:
            raise calls.unreachable(self.url, error) from error
        lines.ended()

    async def wait(self, run_id: str, until: Until = "settled", timeout: float | None = None) -> RunView:
        """Looks at the run until it is that far; :class:`~wf_api.client.errors.WaitTimeout` after ``timeout`` seconds.

        ``until`` is ``"settled"`` (ended, or waiting for an answer), ``"ended"``, one or more statuses, or a function
        of the run. A server that is away or busy is asked again until then, without ``timeout`` for ever;
        what it said last is raised in the end.
        """
        started = time.monotonic()
        for pause in pauses(last=1.0):
            late: WorkflowApiError | WaitTimeout
            try:
                run = await self.inspect(run_id)
            except WorkflowApiError as error:
                if not calls.passing(error):
                    raise
                late = error
            else:
                if calls.reached(run, until):
                    return run
                late = WaitTimeout(run, timeout or 0)
            if timeout is not None:
                left = started + timeout - time.monotonic()
                if left <= 0:
                    raise late
                pause = min(pause, left)
            await asyncio.sleep(pause)
        raise AssertionError("unreachable: there is always another pause")

    async def _send(self, call: Call) -> Any:
        try:
            response = await self._http.send(call.request(self._http, self.url, self._timeout_seconds))
        except (httpx.TransportError, httpx.InvalidURL) as error:
            raise calls.unreachable(self.url, error) from error
        return calls.result_of(response)
