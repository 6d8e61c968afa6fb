"""A TCP proxy that makes a network bad: it cuts, delays, slows and refuses connections, and loses replies.

It runs in a thread of its own. Its knobs are plain attributes that any thread may set; they hold for what passes from
then on. Bytes are never changed: what gets through is right, as TCP has it.
"""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field
from typing import Any

CHUNK_BYTES = 64 * 1024


@dataclass(eq=False)
class _Connection:
    """One accepted connection and the one that was made for it."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter

    def abort(self) -> None:
        """Both ends are gone at once, with whatever was on the way."""
        for writer in (self.client, self.server):
            writer.transport.abort()


@dataclass
class Proxy:
    """Listens on a port of its own and passes everything to ``target_port``, both on this machine.

    Use it as a context manager.
    """

    target_port: int
    delay_seconds: float = 0.0
    """How long each piece of a reply is held back."""
    bytes_per_second: float = 0.0
    """How fast replies pass; 0 is as fast as they come."""
    refusing: bool = False
    """New connections are closed at once."""
    replies_to_lose: int = 0
    """So many replies are dropped, each together with its connection: what was asked for was done, and nobody knows."""
    port: int = 0
    cuts: int = 0
    """How many connections were cut so far."""
    _open: set[_Connection] = field(default_factory=set[_Connection])
    _loop: Any = None
    _thread: threading.Thread | None = None

    def __enter__(self) -> Proxy:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """What is behind it, as a Redis URL."""
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Listens once this returns."""
        listening = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(listening,), name="proxy", daemon=True)
        self._thread.start()
        if not listening.wait(10):
            raise RuntimeError("the proxy does not listen")

    def stop(self) -> None:
        """Cuts every connection and ends."""
        if self._thread is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(10)
            self._thread = None

    def cut(self) -> int:
        """Cuts every connection that is open now, in the midst of whatever passes; how many there were."""
        done: Any = asyncio.run_coroutine_threadsafe(self._cut(), self._loop)
        return done.result(10)

    def heal(self) -> None:
        """A good network from now on."""
        self.delay_seconds = self.bytes_per_second = 0.0
        self.refusing = False
        self.replies_to_lose = 0

    # ---- in the thread

    def _run(self, listening: threading.Event) -> None:
        self._loop = asyncio.new_event_loop()
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        listening.set()
        try:
            self._loop.run_forever()
        finally:
            server.close()
            for connection in list(self._open):
                connection.abort()
            left = asyncio.all_tasks(self._loop)
            for task in left:
                task.cancel()
            if left:
                self._loop.run_until_complete(asyncio.wait(left))
            self._loop.close()

    async def _cut(self) -> int:
        connections = list(self._open)
        for connection in connections:
            connection.abort()
        self.cuts += len(connections)
        return len(connections)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refusing:
            writer.transport.abort()
            return
        try:
            from_server, to_server = await asyncio.open_connection("127.0.0.1", self.target_port)
        except (OSError, asyncio.CancelledError):
            writer.transport.abort()
            return
        connection = _Connection(writer, to_server)
        self._open.add(connection)
        try:
            await asyncio.gather(self._requests(reader, to_server), self._replies(from_server, connection))
        except (OSError, EOFError, asyncio.CancelledError):
            # Cut by us, ended by one of the two, or the proxy ends: it is over for both either way. A cancelled task
            # would be reported by the stream's own callback.
            pass
        finally:
            connection.abort()
            self._open.discard(connection)

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(CHUNK_BYTES):
            writer.write(data)
            await writer.drain()
        writer.write_eof()

    async def _replies(self, reader: asyncio.StreamReader, connection: _Connection) -> None:
        while data := await reader.read(CHUNK_BYTES):
            if self.replies_to_lose > 0:
                self.replies_to_lose -= 1
                self.cuts += 1
                connection.abort()
                return
            seconds = self.delay_seconds + (len(data) / self.bytes_per_second if self.bytes_per_second else 0.0)
            if seconds:
                await asyncio.sleep(seconds)
            connection.client.write(data)
            await connection.client.drain()
        connection.abort()
