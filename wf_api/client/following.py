"""Following a run's events over connections that may break: what both clients share. They only send and sleep."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import httpx

from wf_api.client import calls
from wf_api.client.calls import Call
from wf_api.client.errors import WorkflowApiError
from wf_api.wire import RunEventView

SILENCE_SECONDS: Final = 60.0
"""A stream that says nothing for so long is broken: the server gives a sign of life more often."""

FIRST_PAUSE: Final = 0.1
LAST_PAUSE: Final = 5.0


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a stream of server-sent events."""

    name: str
    data: str


class StreamParser:
    """Server-sent events from bytes, however they are cut. Comments and fields that are not needed are passed over."""

    def __init__(self) -> None:
        self._rest = b""
        self._name = ""
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> Iterator[Message]:
        """The messages that the chunk completes."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            field, _, value = line.decode().rstrip("\r").partition(":")
            value = value.removeprefix(" ")
            if field == "event":
                self._name = value
            elif field == "data":
                self._data.append(value)
            elif field == "" and value == "" and self._data:
                message = Message(self._name, "\n".join(self._data))
                self._name, self._data = "", []
                yield message


class Following:
    """Where a reader of events is. It begins with one connection, and goes on with as many as it takes.

    What goes wrong before the server has answered once is raised, and so is what would go wrong again. Anything else is
    tried again, for ``patience_seconds`` without an answer (for ever without).
    """

    def __init__(self, run_id: str, after: str | None, patience_seconds: float | None) -> None:
        self.run_id = run_id
        self.after = after
        self.ended = False
        self._patience = patience_seconds
        self._answered_at: float | None = None
        self._pause = FIRST_PAUSE
        self._parser = StreamParser()

    def call(self) -> Call:
        """The next connection's request."""
        return calls.events(self.run_id, self.after)

    def timeout(self, seconds: float) -> httpx.Timeout:
        """How long to wait for a connection, and for the next byte of it."""
        return httpx.Timeout(seconds, read=SILENCE_SECONDS)

    def begin(self, response: httpx.Response) -> None:
        """The server has answered; a refusal, whose body was read, is raised."""
        if response.status_code not in (200, 204):
            calls.result_of(response)
        self._answered_at = time.monotonic()
        self.ended = response.status_code == 204
        self._parser = StreamParser()

    def feed(self, chunk: bytes) -> Iterator[RunEventView]:
        """The events that a chunk completes. Raises the error that the server ended the stream with."""
        self._answered_at = time.monotonic()
        for message in self._parser.feed(chunk):
            self._pause = FIRST_PAUSE
            if message.name == "end":
                self.ended = True
                return
            data: Any = json.loads(message.data)
            if message.name == "problem":
                raise calls.error_of(data, data.get("status"))
            self.after = data["id"] or self.after
            yield data

    def pause(self, error: WorkflowApiError | None) -> float:
        """Seconds until the next connection; the error is raised where that would be no use, or takes too long."""
        if error is not None:
            away = None if self._answered_at is None else time.monotonic() - self._answered_at
            impatient = away is None or (self._patience is not None and away > self._patience)
            if impatient or not calls.passing(error):
                raise error
        pause, self._pause = self._pause, min(LAST_PAUSE, 2 * self._pause)
        return pause
