"""The processes: two Valkeys, the API and workers, each of which may be killed and is started again in its place."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import httpx

from tests.support.proxy import Proxy
from tests.support.valkey import EmbeddedValkey
from tests.support.waiting import eventually
from wf_api.cli.stack import PARENT_VARIABLE, free_port

ROOT: Final = Path(__file__).resolve().parents[2]
HANDLERS: Final = "tests.chaos.handlers"
SERVER: Final = "server"


@dataclass
class Process:
    """One process of ``wf`` with its log. It leads a group of its own, so that its children die with it."""

    name: str
    arguments: tuple[str, ...]
    log: Path
    environment: Mapping[str, str]
    popen: subprocess.Popen[bytes] | None = None
    log_start: int = 0
    """Where in its log the present process begins."""

    def start(self) -> None:
        """Starts it, or another one in its place."""
        with self.log.open("ab") as log:
            self.log_start = log.tell()
            self.popen = subprocess.Popen(
                [sys.executable, "-m", "wf_api.cli.main", *self.arguments],
                env={**os.environ, **self.environment, PARENT_VARIABLE: str(os.getpid()), "PYTHONUNBUFFERED": "1"},
                cwd=ROOT,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def works(self) -> bool:
        """Whether a worker has said that it is ready."""
        with self.log.open("rb") as log:
            log.seek(self.log_start)
            return b"worker ready" in log.read()

    def signal(self, number: int) -> None:
        """Sends a signal to it and its children."""
        if self.popen is not None and self.popen.poll() is None:
            os.killpg(self.popen.pid, number)

    def kill(self) -> None:
        """SIGKILL, and waits until it is gone."""
        self.signal(signal.SIGKILL)
        if self.popen is not None:
            self.popen.wait(10)


@dataclass
class Installation:
    """All processes. Use it as a context manager: leaving it ends every one of them, also those that were stopped."""

    folder: Path
    workers: int
    settings: Mapping[str, str]
    """Environment variables of API and workers, beside the URLs."""
    broker_url: str | None = None
    """A broker that runs already; None: a Valkey of our own."""
    fsync: str = "always"
    """How often the store syncs its append-only file."""
    kills: int = 0
    restarts: int = 0
    processes: dict[str, Process] = field(default_factory=dict[str, Process])
    lock: threading.RLock = field(default_factory=threading.RLock)
    """Held by whoever ends or starts processes."""

    def __post_init__(self) -> None:
        for name in ("store", "broker", "logs"):
            (self.folder / name).mkdir(parents=True)
        self.store = EmbeddedValkey(self.folder / "store", append_only=True, fsync=self.fsync)
        self.broker = EmbeddedValkey(self.folder / "broker")
        self._server_port = free_port()
        self.to_store = Proxy(self.store.port)
        self.to_broker = Proxy(self.broker.port)
        self.to_server = Proxy(self._server_port)

    @property
    def proxies(self) -> tuple[Proxy, ...]:
        """The three networks."""
        return self.to_store, self.to_broker, self.to_server

    @property
    def url(self) -> str:
        """Where the API answers its customers."""
        return f"http://127.0.0.1:{self.to_server.port}"

    def __enter__(self) -> Installation:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start(self) -> None:
        self.store.start()
        if self.broker_url is None:
            self.broker.start()
        for proxy in self.proxies:
            proxy.start()
        environment = {
            **self.settings,
            "WF_STORE_URL": self.to_store.url,
            "WF_BROKER_URL": self.broker_url or self.to_broker.url,
        }
        server = ("server", "--port", str(self._server_port), "-m", HANDLERS, "--log-level", "WARNING")
        self._add(SERVER, server, environment)
        for n in range(1, self.workers + 1):
            # Every third one has a pool: there a kill may hit a child, and the parent goes on.
            pool = ("--concurrency", "2") if n % 3 == 0 else ()
            self._add(f"worker-{n}", ("worker", HANDLERS, *pool), environment)
        eventually(self.is_ready, lambda: f"the API is ready, see {self.folder}/logs", 60)
        eventually(lambda: self.working == self.worker_names, lambda: f"the workers work, see {self.folder}/logs", 60)

    def _add(self, name: str, arguments: tuple[str, ...], environment: Mapping[str, str]) -> None:
        self.processes[name] = Process(name, arguments, self.folder / "logs" / f"{name}.log", environment)
        self.processes[name].start()

    def is_ready(self) -> bool:
        """Whether the API says that it can use the store."""
        try:
            return httpx.get(f"http://127.0.0.1:{self._server_port}/readyz", timeout=3).status_code == 200
        except httpx.HTTPError:
            return False

    @property
    def worker_names(self) -> list[str]:
        """The names of the workers."""
        return [name for name in self.processes if name != SERVER]

    @property
    def working(self) -> list[str]:
        """The names of the workers that have begun to work since they were started."""
        return [name for name in self.worker_names if self.processes[name].works]

    def kill(self, name: str) -> None:
        """SIGKILL for a process and its children; another one starts in its place."""
        with self.lock:
            self.processes[name].kill()
            self.kills += 1
            self.processes[name].start()

    def kill_child(self, name: str) -> bool:
        """SIGKILL for one child of a worker's pool; whether it had one."""
        with self.lock:
            parent = self.processes[name].popen
            children = _children(parent.pid) if parent is not None else []
            if not children:
                return False
            os.kill(children[-1], signal.SIGKILL)
            self.kills += 1
            return True

    def tend(self) -> list[str]:
        """Starts again whatever has ended by itself; the names."""
        with self.lock:
            ended = [p for p in self.processes.values() if p.popen is not None and p.popen.poll() is not None]
            for process in ended:
                process.start()
            return [process.name for process in ended]

    def restart_store(self, away_seconds: float) -> None:
        """SIGKILL for the store, which is then started on the same files."""
        self.store.kill()
        time.sleep(away_seconds)
        self.store.start()
        self.restarts += 1

    def logged(self, *marks: str) -> int:
        """How many lines of the workers' logs hold one of these."""
        count = 0
        for name in self.worker_names:
            with self.processes[name].log.open(errors="replace") as log:
                count += sum(any(mark in line for mark in marks) for line in log)
        return count

    def stop(self) -> None:
        """Ends everything; whoever works first, the servers last."""
        with self.lock:
            for process in self.processes.values():
                process.signal(signal.SIGCONT)
                process.signal(signal.SIGTERM)
            deadline = time.monotonic() + 5
            for process in self.processes.values():
                try:
                    if process.popen is not None:
                        process.popen.wait(max(0.1, deadline - time.monotonic()))
                except subprocess.TimeoutExpired:
                    pass  # killed below, with whatever children it has
                process.kill()
        for proxy in self.proxies:
            proxy.stop()
        self.store.kill()
        self.broker.kill()


def _children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
