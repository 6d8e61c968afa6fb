"""Events as they happen: one response per reader, and one look at the store for all of them.

Readers that have read everything wait in :class:`EventWatch`, which asks for the last event of all their runs in one
round trip. So hundreds of open readers hold no thread and no connection to the store.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from wf_api.http.errors import body_of, response_of, status_of
from wf_api.http.offload import Offload
from wf_api.services.events import Batch, EventService, WatchedRun
from wf_api.wire import RunEventView
from wf_core.errors import WfError
from wf_worker.errors import RequestRefused

log = logging.getLogger("wf.api")

BATCH: Final = 100
"""Events that are read at once for one reader."""

FIRST_PAUSE: Final = 0.05
LAST_PAUSE: Final = 1.0
"""Seconds between two looks at a run: few where something has just happened, a second where nothing does."""

STALLED_SECONDS: Final = 60.0
"""A reader that takes nothing for so long is gone. It may come back with its last id."""

RECONNECT_MS: Final = 1000
"""How soon a browser connects again."""


@dataclass(eq=False, slots=True)
class _Waiter:
    """A reader that knows of everything up to an event. ``due`` is when to look for it next, on the loop's clock."""

    incarnation: str
    seen: str | None
    told: asyncio.Future[None]
    due: float
    pause: float = FIRST_PAUSE


class EventWatch:
    """Wakes readers when the last event of their run is another than the one they know. Belongs to one event loop."""

    def __init__(self, last_events: Callable[[Sequence[str]], list[str | None]], offload: Offload) -> None:
        self._last_events = last_events
        self._offload = offload
        self._waiters: set[_Waiter] = set()
        self._came = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None
        self.closing = False

    def close(self) -> None:
        """Ends every wait: the server stops. Readers connect again, to whoever serves then."""
        self.closing = True
        for waiter in self._waiters:
            _wake(waiter)

    @contextmanager
    def waiting(self, incarnation: str, seen: str | None) -> Iterator[asyncio.Future[None]]:
        """A future that is done once the run has an event that is not ``seen``."""
        loop = asyncio.get_running_loop()
        waiter = _Waiter(incarnation, seen, loop.create_future(), _tick(loop.time() + FIRST_PAUSE))
        self._waiters.add(waiter)
        if self.closing:
            _wake(waiter)
        self._came.set()
        if self._looking is None or self._looking.done():
            self._looking = loop.create_task(self._look_while_anybody_waits(), name="wf-events")
        try:
            yield waiter.told
        finally:
            self._waiters.discard(waiter)

    async def _look_while_anybody_waits(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiters:
            self._came.clear()
            due = [waiter for waiter in self._waiters if waiter.due <= loop.time()]
            if due:
                await self._look(due)
            else:
                await self._rest(min(waiter.due for waiter in self._waiters) - loop.time())

    async def _rest(self, seconds: float) -> None:
        """Until the next look is due, or somebody comes who may be due earlier."""
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                await self._came.wait()
        except TimeoutError:
            return

    async def _look(self, due: Sequence[_Waiter]) -> None:
        """One read for all that are due. Those who came meanwhile may know more than it saw: they wait for the next."""
        runs = list({waiter.incarnation for waiter in due})
        try:
            found = dict(zip(runs, await self._offload(self._last_events, runs), strict=True))
        except WfError as error:
            log.warning("events are not looked for: %s", error)
            found = {}
        now = asyncio.get_running_loop().time()
        for waiter in due:
            if waiter.incarnation in found and found[waiter.incarnation] != waiter.seen:
                _wake(waiter)
            waiter.pause = min(LAST_PAUSE, waiter.pause * 2)
            waiter.due = _tick(now + waiter.pause)


def _wake(waiter: _Waiter) -> None:
    if not waiter.told.done():
        waiter.told.set_result(None)


def _tick(at: float) -> float:
    """Looks of many readers fall together: at most twenty a second, however many there are."""
    return math.ceil(at / FIRST_PAUSE) * FIRST_PAUSE


@dataclass(slots=True)
class Readers:
    """How many readers are open, of at most so many."""

    most: int
    count: int = 0

    @contextmanager
    def one_more(self) -> Iterator[None]:
        """A place for a reader; ``too_many_readers`` where all are taken."""
        if self.count >= self.most:
            raise RequestRefused(
                f"{self.count} readers of events are open already",
                code="too_many_readers",
                hint="connect again later, or read pages: Accept: application/json",
            )
        self.count += 1
        try:
            yield
        finally:
            self.count -= 1


@dataclass(slots=True)
class EventHub:
    """What all streams of a server share."""

    events: EventService
    offload: Offload
    readers: Readers
    heartbeat_seconds: float
    watch: EventWatch = field(init=False)

    def __post_init__(self) -> None:
        self.watch = EventWatch(self.events.last_events, self.offload)


class EventStream(Response):
    """The events of a run as server-sent events, until its last one or until the reader leaves."""

    media_type = "text/event-stream"

    def __init__(self, hub: EventHub, run: WatchedRun, first: Batch) -> None:
        self._hub = hub
        self._run = run
        self._first = first
        self.status_code = 200
        self.background = None
        self.init_headers({"Cache-Control": "no-store", "X-Accel-Buffering": "no"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            with self._hub.readers.one_more():
                await self._answer(receive, send)
        except RequestRefused as refusal:
            await response_of(refusal)(scope, receive, send)

    async def _answer(self, receive: Receive, send: Send) -> None:
        async with anyio.create_task_group() as group:

            async def until_gone() -> None:
                while (await receive())["type"] != "http.disconnect":
                    pass
                group.cancel_scope.cancel()

            group.start_soon(until_gone)
            try:
                async with asyncio.timeout(None) as patience:
                    await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
                    async for text in self._texts():
                        patience.reschedule(asyncio.get_running_loop().time() + STALLED_SECONDS)
                        await send({"type": "http.response.body", "body": text.encode(), "more_body": True})
                        patience.reschedule(None)
                    await send({"type": "http.response.body", "body": b"", "more_body": False})
            except TimeoutError:
                log.info("a reader of events takes nothing run=%s", self._run.run_id)
            group.cancel_scope.cancel()

    async def _texts(self) -> AsyncIterator[str]:
        yield f"retry: {RECONNECT_MS}\n\n"
        batch = self._first
        try:
            while True:
                if batch.events:
                    yield "".join(map(event_text, batch.events))
                if batch.ended:
                    yield message_text("end", {"run_id": self._run.run_id})
                    return
                if len(batch.events) < BATCH:
                    async for text in self._until_more(batch.last_id):
                        yield text
                    if self._hub.watch.closing:
                        return
                batch = await self._hub.offload(self._hub.events.read, self._run, batch.last_id, BATCH)
        except WfError as error:
            # The status line is long gone: what went wrong is said in the stream, and the reader decides.
            yield message_text("problem", {"error": body_of(error), "status": status_of(error)})

    async def _until_more(self, seen: str | None) -> AsyncIterator[str]:
        """Heartbeats until there is something to read."""
        with self._hub.watch.waiting(self._run.incarnation, seen) as told:
            while not told.done():
                done, _ = await asyncio.wait([told], timeout=self._hub.heartbeat_seconds)
                if not done:
                    yield ": still here\n\n"


def event_text(event: RunEventView) -> str:
    """One event. A gap has no id, so a reader that connects again names the event before it."""
    return message_text(event["kind"], event, event["id"])


def message_text(name: str, data: Any, event_id: str | None = None) -> str:
    """One message of a stream: its JSON is ASCII, so that no reader takes a character for the end of a line."""
    head = "" if event_id is None else f"id: {event_id}\n"
    return f"{head}event: {name}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n"
