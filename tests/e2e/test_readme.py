"""What the README tells a newcomer to type works as it stands there."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.waiting import eventually
from wf_api.cli.stack import free_port

ROOT = Path(__file__).resolve().parents[2]
WF = [sys.executable, "-m", "wf_api.cli.main"]


def blocks(language: str) -> list[str]:
    """The README's code blocks of a language ('' for those that name none)."""
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    return [text for named, text in fenced if named == language]


class Dev:
    """`wf dev` in a folder of its own, on a free port."""

    def __init__(self, folder: Path, *modules: str) -> None:
        self.folder = folder
        self.port = free_port()
        self.log = folder / "dev.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*WF, "dev", *modules, "--port", str(self.port)],
                cwd=folder,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        eventually(self._ready, "wf dev is ready", 60)

    def _ready(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        return "ready; Ctrl-C" in self.log.read_text()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def processes(self) -> list[int]:
        """Every process that was started below this one."""
        found = subprocess.run(["ps", "-eo", "pid,ppid"], capture_output=True, text=True, check=True).stdout.split(
            "\n"
        )[1:]
        parents = {int(pid): int(ppid) for pid, ppid in (line.split() for line in found if line.strip())}
        return [pid for pid, ppid in parents.items() if ppid == self.process.pid]

    def interrupt(self) -> int:
        """Ctrl-C; the exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(30)


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[Dev]:
    running = Dev(tmp_path)
    yield running
    if running.process.poll() is None:
        running.interrupt()


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_the_producer_script_of_the_readme_prints_what_the_readme_shows(dev: Dev) -> None:
    script = next(block for block in blocks("python") if "WorkflowClient" in block)
    shown = next(block for block in blocks("") if "Hello, Ada!" in block)
    assert len([line for line in script.splitlines() if line.strip()]) <= 5
    assert "http://127.0.0.1:8000" in script

    printed = subprocess.run(
        [sys.executable, "-c", script.replace("http://127.0.0.1:8000", dev.url)],
        cwd=dev.folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert printed.stdout.strip() == shown.strip()


def test_ctrl_c_ends_every_process_and_the_runs_are_there_after_the_next_start(dev: Dev) -> None:
    run = httpx.post(
        f"{dev.url}/v1/runs", json={"workflow": "greetings", "input": {"names": ["Ada"]}, "wait_seconds": 20}
    ).json()
    assert run["status"] == "completed"
    children = dev.processes()
    assert len(children) == 4  # store, API, two workers

    assert dev.interrupt() == 0

    eventually(lambda: not any(alive(pid) for pid in children), "every process of wf dev has ended", 30)
    again = Dev(dev.folder)
    kept = httpx.get(f"{again.url}/v1/runs/{run['run_id']}").json()
    assert again.interrupt() == 0
    assert kept == run


def test_the_workflow_of_the_readme_runs_in_memory_and_on_workers(tmp_path: Path) -> None:
    workflow = next(block for block in blocks("python") if block.startswith("# review.py"))
    in_memory = next(block for block in blocks("python") if "flow.execute" in block)
    (tmp_path / "review.py").write_text(workflow)
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    subprocess.run(
        [sys.executable, "-W", "error", "-c", f"from review import *\n{in_memory}"],
        env=environment,
        timeout=60,
        check=True,
    )

    dev = Dev(tmp_path, "review.py")
    try:
        run = subprocess.run(
            [*WF, "run", "start", "review", "--url", dev.url, "--input", '{"amount": 500}', "--wait", "20", "--json"],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert '"status": "interrupted"' in run.stdout
    finally:
        assert dev.interrupt() == 0
