"""The trial, run where the store is: three hosts, one cut off in the middle of a handler and healed.

1. The handlers of three numbers wait at gates, so that each host holds one of them; they are let go, and each host has
   done something. Later three more wait in the same way.
2. The host of one is cut off: its cable is pulled, its process knows nothing.
3. All other numbers are done by the other two, also the one that the cut-off host holds, once its lease has run out.
   The last number waits at a gate, so the run is not over.
4. The host is healed, and its handler let go: its commit is refused, and the run stands as it stood.
5. The last number is let go. The result is that of the engine in memory.
6. Another run of three numbers at gates: the healed host takes part as before.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx

from tests.hosts import jobs
from tests.hosts.network import STORE_ADDRESS, Host, Network, cut_off, heal
from tests.support.valkey import EmbeddedValkey
from tests.support.waiting import eventually
from wf_api.cli.stack import free_port
from wf_api.client import WorkflowClient

ITEMS: Final = 60
FIRST: Final = [0, 1, 2]
SECOND: Final = [20, 21, 22]
LEASE_SECONDS: Final = "2"


@dataclass
class Trial:
    """Processes on hosts, and what is found out about them."""

    made: Network
    folder: Path
    environment: dict[str, str]
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def spawn(self, name: str, command: list[str], **more: str) -> None:
        """Begins a process whose log is ``<name>.log``."""
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes.append(
                subprocess.Popen(command, env={**self.environment, **more}, stdout=log, stderr=subprocess.STDOUT)
            )

    def log(self, host: Host) -> bytes:
        """What the worker of a host has written."""
        return (self.folder / f"{host.name}.log").read_bytes()

    def hold(self, run: str, *gates: tuple[int, int]) -> Path:
        """A folder for a run, with gates for these numbers and attempts."""
        place = self.folder / run
        place.mkdir()
        for n, attempt in gates:
            jobs.gate(place, n, attempt).touch()
        return place

    def host_of(self, place: Path, n: int, attempt: int) -> Host | None:
        """The host on which an attempt has begun."""
        said = jobs.note(place, n, attempt)
        if not said.exists():
            return None
        name = said.read_text().split()[0]
        return next(host for host in self.made.hosts if host.name == name)

    def hosts_of(self, place: Path, numbers: list[int]) -> dict[int, Host]:
        """Waits until the first attempts of these numbers have begun, and says where."""
        eventually(lambda: all(self.host_of(place, n, 1) for n in numbers), f"{numbers} are in their handlers")
        return {n: host for n in numbers if (host := self.host_of(place, n, 1))}

    def let_go(self, place: Path, *numbers: int) -> None:
        """Opens the gates of the first attempts of these numbers."""
        for n in numbers:
            jobs.gate(place, n, 1).unlink()

    def end(self) -> None:
        """Ends every process."""
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def run_trial(made: Network, folder: Path) -> dict[str, Any]:
    """The whole trial. Raises ``AssertionError`` with what was not as it should be."""
    with ExitStack() as at_the_end:
        store = EmbeddedValkey(folder, host=STORE_ADDRESS)
        at_the_end.callback(store.stop)
        store.start()
        trial = Trial(made, folder, {**os.environ, **_variables(store.url)})
        at_the_end.callback(trial.end)
        url = _start(trial)
        client = at_the_end.enter_context(WorkflowClient(url))
        client.publish(jobs.squares())
        try:
            report = cut_off_and_healed(trial, client)
            report["hosts_after"] = all_take_part(trial, client)
        except AssertionError as fault:
            logs = "\n".join(f"--- {host.name}\n{trial.log(host).decode()[-3000:]}" for host in made.hosts)
            raise AssertionError(f"{fault}\n{logs}") from fault
    return report


def _variables(store_url: str) -> dict[str, str]:
    return {
        "WF_STORE_URL": store_url,
        "WF_BROKER_URL": store_url,
        "WF_LEASE_SECONDS": LEASE_SECONDS,
        "WF_SWEEP_SECONDS": "0.2",
        "PYTHONUNBUFFERED": "1",
        "PYTHONPATH": str(Path(__file__).resolve().parents[2]),
    }


def _start(trial: Trial) -> str:
    wf = [sys.executable, "-m", "wf_api.cli.main"]
    port = free_port(STORE_ADDRESS)
    trial.spawn("server", [*wf, "server", "--host", STORE_ADDRESS, "--port", str(port)])
    for host in trial.made.hosts:
        command = host.command(*wf, "worker", "--log-level", "INFO", "tests.hosts.jobs")
        trial.spawn(host.name, command, WF_TEST_ADDRESS=host.address)
    url = f"http://{STORE_ADDRESS}:{port}"
    eventually(lambda: _answers(url), "the API is ready")
    for host in trial.made.hosts:
        eventually(lambda host=host: b"worker ready" in trial.log(host), f"{host.name} is ready")
    return url


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", timeout=1).status_code == 200
    except httpx.HTTPError:
        return False


def cut_off_and_healed(trial: Trial, client: WorkflowClient) -> dict[str, Any]:
    """Steps 1 to 5."""
    numbers, last = list(range(ITEMS)), ITEMS - 1
    place = trial.hold("cut-off", *((n, 1) for n in (*FIRST, *SECOND, last)))
    given = {"folder": str(place), "numbers": numbers}
    run = client.start("squares_on_hosts", given)["run_id"]
    for wave in (FIRST, SECOND):
        held = trial.hosts_of(place, wave)
        assert len(set(held.values())) == 3, f"each host holds one: {held}"
        if wave == FIRST:
            trial.let_go(place, *wave)

    stuck = SECOND[0]
    victim = held[stuck]
    cut_off(victim)
    trial.let_go(place, *SECOND[1:])
    eventually(lambda: trial.host_of(place, stuck, 2) is not None, "another host has the cut-off host's number")
    taken_over_by = trial.host_of(place, stuck, 2)
    assert taken_over_by is not None and taken_over_by != victim
    # The foreach itself, and all its items but the last.
    eventually(lambda: client.inspect(run)["steps_executed"] >= ITEMS, "all numbers but the last are done")
    eventually(lambda: trial.host_of(place, last, 1) is not None, "the last is in its handler")
    before = client.inspect(run)
    assert before["status"] == "running"

    heal(victim)
    trial.let_go(place, stuck)
    eventually(lambda: _was_refused(trial.log(victim)), f"{victim.name} is told that its commit is refused")
    assert client.inspect(run)["revision"] == before["revision"], "the late commit has changed the run"
    trial.let_go(place, last)
    view = client.wait(run, timeout=60)

    local = jobs.squares().execute(given).output
    output = view["output"]
    assert (view["status"], output["lines"], output["total"]) == ("completed", local["lines"], local["total"])
    assert view["recovered_frames"] >= 1
    counts = Counter(output["hosts"])
    assert len(counts) == 3 and sum(counts.values()) == ITEMS, counts
    return {
        "items": ITEMS,
        "items_by_host": dict(sorted(counts.items())),
        "cut_off": victim.name,
        "taken_over_by": taken_over_by.name,
        "late_commit": "refused",
        "recovered_frames": view["recovered_frames"],
        "equals_in_memory": True,
    }


def _was_refused(log: bytes) -> bool:
    return b"result refused" in log or b"discarded" in log


def all_take_part(trial: Trial, client: WorkflowClient) -> int:
    """Step 6."""
    place = trial.hold("healed", *((n, 1) for n in FIRST))
    run = client.start("squares_on_hosts", {"folder": str(place), "numbers": FIRST})["run_id"]
    hosts = set(trial.hosts_of(place, FIRST).values())
    trial.let_go(place, *FIRST)
    view = client.wait(run, timeout=60)
    assert view["output"]["total"] == 5
    assert len(hosts) == 3, f"the healed host takes part: {hosts}"
    return len(hosts)


def print_report(report: dict[str, Any]) -> None:
    """One line for each host, and a last one for machines."""
    for host, count in report["items_by_host"].items():
        remark = "  (cut off and healed)" if host.split()[0] == report["cut_off"] else ""
        print(f"{host}: {count} items{remark}")
    print(json.dumps({"hosts": "holds", **report}))
