"""Blocking services from async routes: a bounded number of threads, and waits that hold none."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final, ParamSpec, TypeVar

import anyio.to_thread
from fastapi import Request

from wf_api.backoff import pauses
from wf_api.services.runs import RunService
from wf_api.wire import SETTLED, RunView
from wf_worker.errors import StoreUnavailable

THREADS: Final = 40

P = ParamSpec("P")
T = TypeVar("T")


class Offload:
    """Calls services in threads of their own, so that a slow store delays nobody else's health check."""

    def __init__(self, threads: int = THREADS, *, abandon: bool = False) -> None:
        """``abandon`` lets a caller that is cancelled go on at once; its thread ends when the call does."""
        self._threads = threads
        self._abandon = abandon
        self._limiter: Any = None

    async def __call__(self, act: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The answer of a blocking call."""
        if self._limiter is None:  # it belongs to the event loop, which is not there yet when the app is made
            self._limiter = anyio.CapacityLimiter(self._threads)
        return await anyio.to_thread.run_sync(
            partial(act, *args, **kwargs), limiter=self._limiter, abandon_on_cancel=self._abandon
        )

    async def settled(self, request: Request, runs: RunService, run: RunView, seconds: float) -> RunView:
        """The run once it has ended or waits for somebody, or as it is when the time is over.

        What the caller asked for is done by now, so a store that fails while we look is no failure of the request.
        """
        deadline = time.monotonic() + seconds
        for pause in pauses():
            left = deadline - time.monotonic()
            if run["status"] in SETTLED or left <= 0 or await request.is_disconnected():
                break
            await asyncio.sleep(min(pause, left))
            try:
                run = await self(runs.inspect_run, run["run_id"])
            except StoreUnavailable:
                break
        return run
