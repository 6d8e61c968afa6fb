"""`wf dev` beside others, after a crash, and when one of its processes ends."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from tests.e2e.test_readme import ROOT, WF, Dev, alive
from tests.support.waiting import eventually
from wf_api.cli.stack import Stack, StackError

CAPABILITY_ONLY = """
from pathlib import Path

from pydantic import BaseModel

from wf_core.authoring import node

if Path("broken").exists():
    raise RuntimeError("the module is broken now")


class Number(BaseModel):
    n: int


@node(name="increment")
def increment(number: Number) -> Number:
    return Number(n=number.n + 1)
"""


class Silent(BaseHTTPRequestHandler):
    """Some other program: it says yes to everything and remembers what it was asked."""

    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(f"{self.command} {self.path}")
        self.send_response(200)
        self.end_headers()

    do_POST = do_GET

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def another_program() -> Iterator[tuple[int, list[str]]]:
    asked: list[str] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Silent,), {"asked": asked}))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1], asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def running(folder: Path, *args: str) -> Iterator[Dev]:
    dev = Dev(folder, *args)
    try:
        yield dev
    finally:
        if dev.process.poll() is None:
            dev.interrupt()


def wf(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*WF, *args],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


WORKER = (" worker ", "[celeryd")  # Celery renames its process where the package setproctitle is there


def child(dev: Dev, *of: str) -> int:
    """The process of a part of `wf dev`, by what its command line holds, one text or the other."""
    lines = {pid: Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ") for pid in dev.processes()}
    return next(pid for pid, line in lines.items() if any(text in line for text in of))


def test_a_folder_in_use_is_refused_and_one_whose_process_was_killed_is_taken_over(tmp_path: Path) -> None:
    with running(tmp_path, "--workers", "1") as first:
        started = httpx.post(
            f"{first.url}/v1/runs", json={"workflow": "greetings", "input": {"names": ["Ada"]}, "wait_seconds": 20}
        ).json()
        assert started["status"] == "completed"
        port = (tmp_path / ".wf" / "store.port").read_text()

        second = wf(tmp_path, "dev", "--port", "0")

        assert second.returncode == 1
        assert f"error: this folder is in use by process {first.process.pid} (wf dev)" in second.stderr
        assert "hint: " in second.stderr and "Traceback" not in second.stderr
        assert httpx.get(f"{first.url}/v1/runs/{started['run_id']}").json() == started
        assert first.process.poll() is None

        left = child(first, "valkey")
        first.process.kill()
        first.process.wait()
        assert alive(left)

        with running(tmp_path, "--workers", "1") as third:
            assert not alive(left)
            assert (tmp_path / ".wf" / "store.port").read_text() == port
            assert httpx.get(f"{third.url}/v1/runs/{started['run_id']}").json() == started
            log = (tmp_path / ".wf" / "logs" / "worker-1.log").read_text()
            assert log.count("---- worker-1 starts at ") == 2
            assert third.interrupt() == 0
        with running(tmp_path, "--workers", "1"):
            assert (tmp_path / ".wf" / "store.port").read_text() == port


def test_a_store_port_that_somebody_else_has_taken_is_given_up(tmp_path: Path) -> None:
    (tmp_path / ".wf").mkdir()
    with another_program() as (port, _):
        (tmp_path / ".wf" / "store.port").write_text(str(port))
        with running(tmp_path, "--workers", "1"):
            assert (tmp_path / ".wf" / "store.port").read_text() != str(port)


def test_a_port_in_use_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with another_program() as (port, asked):
        done = wf(tmp_path, "dev", "--port", str(port))

    assert done.returncode == 1
    assert f"error: port {port} is in use" in done.stderr and "hint: " in done.stderr
    assert asked == []
    assert not (tmp_path / ".wf" / "store").exists()


def test_another_server_that_answers_is_not_taken_for_the_api(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    with another_program() as (port, _):
        stack = Stack(tmp_path, [], port=port, store_port=1)
        try:
            with pytest.raises(StackError, match="the API did not start"):
                stack.start_server()
        finally:
            stack.stop()


def test_a_worker_that_ends_is_replaced_until_it_cannot_start(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text(CAPABILITY_ONLY)
    with running(tmp_path, "plain.py", "--workers", "1") as dev:
        said = " ".join(dev.log.read_text().split())
        assert "found increment no workflow found; name the function `build`, or publish with:" in said
        assert f"wf workflow publish plain.py:name --url {dev.url}" in said
        first = child(dev, *WORKER)

        os.kill(first, signal.SIGKILL)

        eventually(lambda: "worker-1 was ended by signal 9; started another" in dev.log.read_text(), "it is said")
        log = tmp_path / ".wf" / "logs" / "worker-1.log"
        eventually(lambda: log.read_text().count("worker ready") == 2, "another worker is ready")

        (tmp_path / "broken").touch()
        os.kill(child(dev, *WORKER), signal.SIGKILL)

        assert dev.process.wait(60) == 1
        said = dev.log.read_text()
        assert said.count("started another") >= 2
        assert "3 times in a row" in said and "RuntimeError: the module is broken now" in said
        assert "Traceback" not in said


@pytest.mark.parametrize(
    ("part", "name", "log"), [("valkey", "the embedded store", "store"), (" server ", "the API", "server")]
)
def test_the_end_of_the_store_or_the_api_ends_everything(tmp_path: Path, part: str, name: str, log: str) -> None:
    with running(tmp_path, "--workers", "1") as dev:
        children = dev.processes()
        os.kill(child(dev, part), signal.SIGKILL)

        assert dev.process.wait(60) == 1

        said = dev.log.read_text()
        assert f"error: {name} was ended by signal 9" in said
        assert f"hint: read .wf/logs/{log}.log" in said
        assert not any(alive(pid) for pid in children)


@pytest.mark.parametrize("folder", ["/dev/null", "/proc/foo"])
def test_a_data_folder_that_cannot_be_used_is_said_in_two_lines(tmp_path: Path, folder: str) -> None:
    done = wf(tmp_path, "dev", "--port", "0", "--data", folder)

    assert done.returncode == 1
    assert f"error: {folder} cannot hold the data" in done.stderr and "hint: " in done.stderr
    assert "Traceback" not in done.stderr


def test_the_demo_leaves_a_folder_in_use_alone(tmp_path: Path) -> None:
    data = tmp_path / ".wf" / "demo"
    (data / "store").mkdir(parents=True)
    (data / "store" / "kept").touch()
    holder = Stack(data, [], command="wf demo", store_port=1)
    holder._take_folder()
    try:
        done = wf(tmp_path, "demo", "--yes", "--packages", "1")
    finally:
        holder.stop()

    assert done.returncode == 1
    assert f"in use by process {os.getpid()} (wf demo)" in done.stderr
    assert (data / "store" / "kept").exists()
