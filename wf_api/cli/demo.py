"""``wf demo``: a real job on real input. Every file of every installed package is hashed by worker processes."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from wf_api.cli import output
from wf_api.cli.modules import bundled_example, load_module
from wf_api.cli.stack import Part, Stack, StackError
from wf_api.client import WorkflowClient

FLOW = "environment_audit"
DATA = Path(".wf") / "demo"
ENVIRONMENT = {
    # Short, so that a killed worker's work is taken up while one watches; a real installation keeps the default.
    "WF_LEASE_SECONDS": "3",
    "WF_SWEEP_SECONDS": "0.5",
    "WF_INPUT_BYTES": str(64 * 1024 * 1024),
    "WF_PAYLOAD_BYTES": str(16 * 1024 * 1024),
}
PAGE = 100


@output.expected_errors()
def demo(
    yes: Annotated[bool, typer.Option("--yes", help="Sign the report off without asking.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object as the last line.")] = False,
    workers: Annotated[int, typer.Option(min=1, help="Worker processes.")] = 2,
    packages: Annotated[int | None, typer.Option(min=1, help="Audit only so many packages.")] = None,
    kill_worker: Annotated[
        bool, typer.Option("--kill-worker", help="SIGKILL a worker in mid-run and start another.")
    ] = False,
) -> None:
    """Audit this Python environment on worker processes: every installed file against its RECORD."""
    audit = load_module(str(bundled_example("audit")))
    flow = audit.build()
    listed: list[dict[str, Any]] = audit.installed_packages(packages)
    files = sum(len(package["files"]) for package in listed)
    console = Console(stderr=True)
    console.print(f"auditing {len(listed)} packages with {files} files on {workers} worker processes")
    started = time.monotonic()
    with (
        Stack(
            DATA,
            [str(bundled_example("audit"))],
            workers=workers,
            environment=ENVIRONMENT,
            fresh=True,
            command="wf demo",
        ) as stack,
        WorkflowClient(stack.url) as client,
    ):
        published = client.publish(flow.compile())
        console.print(f"published {published['name']} version {published['version']} to {stack.url}")
        run = client.start(FLOW, {"packages": listed}, max_steps=10 * files + 100 * len(listed) + 100)
        run_id = run["run_id"]
        watch = Watch(client, run_id, len(listed), files, console, quiet=as_json)
        killer = Killer(stack, console) if kill_worker else None
        view = watch.until_paused(killer)
        summary = view["interrupts"][0]["payload"]["summary"]
        approved = True if yes else typer.confirm(f"{describe(summary)}\nsign it off?", default=True)
        answer = {"approved": approved, "note": "signed off by wf demo --yes"} if yes else {"approved": approved}
        client.resume(run_id, answer)
        view = client.wait(run_id, timeout=120)
        seconds = time.monotonic() - started
        watch.read_trace()
    if view["status"] != "completed":
        raise StackError(f"the run is {view['status']}: {view['error']}")
    console.print("running the same workflow once more, in this process and one step after another")
    matches = sequential(flow, listed, answer, files) == view["output"]
    result = {
        "status": view["status"],
        "packages": view["output"]["summary"]["packages"],
        "files": view["output"]["summary"]["files"],
        "workers": workers,
        "killed_workers": 0 if killer is None else killer.killed,
        "recovered_frames": view["recovered_frames"],
        "approved": view["output"]["sign_off"]["approved"],
        "matches_sequential": matches,
        "seconds": round(seconds, 2),
    }
    show(console, view["output"], watch.by_worker)
    if as_json:
        typer.echo(json.dumps(result))
    else:
        equal = "yes" if matches else "NO"
        recovered = result["recovered_frames"]
        console.print(f"{result['seconds']} s; equal to the sequential run: {equal}; recovered frames: {recovered}")
    if not matches:
        raise typer.Exit(1)


def describe(summary: Mapping[str, int]) -> str:
    """The report in a sentence."""
    return (
        f"{summary['packages']} packages, {summary['files']} files: {summary['mismatched']} mismatched, "
        f"{summary['missing']} missing, {summary['unlisted']} unlisted, {summary['unverifiable']} without a digest"
    )


def sequential(flow: Any, listed: list[dict[str, Any]], answer: dict[str, Any], files: int) -> Any:
    """The output of the same workflow in the in-memory engine."""
    from wf_core.run_limits import RunLimits

    run = flow.execute({"packages": listed}, limits=RunLimits(max_steps=10 * files + 100 * len(listed) + 100))
    return flow.resume(run, payload=answer).output


@dataclass
class Watch:
    """Follows a run over HTTP and shows how far it is, and who does the work."""

    client: WorkflowClient
    run_id: str
    packages: int
    files: int
    console: Console
    quiet: bool
    by_worker: Counter[str] = field(default_factory=Counter[str])
    done: Counter[str] = field(default_factory=Counter[str])
    read: int = 0
    shown: float = 0.0

    def until_paused(self, killer: Killer | None) -> Any:
        """Waits for the sign-off. Raises when the run ends otherwise, or stands still for too long."""
        moved = time.monotonic()
        while True:
            before = self.read
            self.read_trace()
            if killer is not None:
                killer.look(self.done["hash_file"], self.files)
            view = self.client.inspect(self.run_id)
            self._show(view["status"])
            if view["interrupts"]:
                self.read_trace()
                return view
            if view["status"] in ("completed", "failed", "cancelled"):
                raise StackError(f"the run is {view['status']}: {view['error']}")
            if self.read > before:
                moved = time.monotonic()
            elif time.monotonic() - moved > 60:
                raise StackError("the run has not moved for a minute; look at the logs below .wf/demo/logs")
            time.sleep(0.1)

    def read_trace(self) -> None:
        """Counts the steps that were committed since the last look, by worker."""
        while True:
            page = self.client.trace(self.run_id, start=self.read, limit=PAGE)["trace"]
            for entry in page:
                if entry["step_type"] == "node":
                    self.by_worker[entry["worker"]] += 1
                    self.done[entry["node_id"]] += 1
            self.read += len(page)
            if len(page) < PAGE:
                return

    def _show(self, status: str) -> None:
        now = time.monotonic()
        if now - self.shown < (2.0 if self.quiet or not self.console.is_terminal else 0.3):
            return
        self.shown = now
        workers = "  ".join(f"{worker.rpartition(':')[2]}: {count}" for worker, count in sorted(self.by_worker.items()))
        packages = f"packages {self.done['find_unlisted']}/{self.packages}"
        files = f"files {self.done['hash_file']}/{self.files}"
        text = f"{status:<11} {packages}  {files}  by worker {workers}"
        self.console.print(text, end="\r" if self.console.is_terminal and not self.quiet else "\n")


@dataclass
class Killer:
    """SIGKILLs one worker process in mid-run, at a moment when it holds a claim, and starts another."""

    stack: Stack
    console: Console
    killed: int = 0

    def look(self, done: int, total: int) -> None:
        """Acts once, when a tenth of the files is done."""
        if self.killed or done * 10 < total:
            return
        worker = next(part for part in self.stack.parts if part.name.startswith("worker-") and part.alive)
        # Stopped first: what it holds then, it still holds when it is killed.
        os.kill(worker.process.pid, signal.SIGSTOP)
        if not self._holds_claim(worker):
            os.kill(worker.process.pid, signal.SIGCONT)
            return
        self.stack.kill(worker)
        self.killed += 1
        self.console.print(f"\nkilled worker {worker.process.pid} in mid-step; starting another")
        self.stack.start_worker()

    def _holds_claim(self, worker: Part) -> bool:
        from wf_worker.settings import Settings
        from wf_worker.store.opening import open_store

        store = open_store(Settings(store_url=self.stack.store_url))
        runs, _ = store.list_runs(limit=1)
        try:
            return any(owner.endswith(f":{worker.process.pid}") for owner in store.owners(runs[0].incarnation))
        finally:
            store.records.close()


def show(console: Console, output: Any, by_worker: Mapping[str, int]) -> None:
    """The result as tables."""
    table = Table(title="environment audit")
    for column in ("packages", "files", "mismatched", "missing", "unlisted", "without digest", "signed off"):
        table.add_column(column, justify="right")
    summary = output["summary"]
    numbers = [summary[name] for name in ("packages", "files", "mismatched", "missing", "unlisted", "unverifiable")]
    table.add_row(*map(str, numbers), "yes" if output["sign_off"]["approved"] else "no")
    console.print(table)
    if output["findings"]:
        findings = Table("package", "file", "problem")
        for finding in output["findings"][:20]:
            findings.add_row(finding["package"], finding["path"], finding["problem"])
        console.print(findings)
        if len(output["findings"]) > 20:
            console.print(f"and {len(output['findings']) - 20} more")
    for worker, count in sorted(by_worker.items()):
        console.print(f"worker {worker}: {count} steps")
