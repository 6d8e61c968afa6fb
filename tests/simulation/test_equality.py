"""Whatever the broker, the clock, the workers, the API and the store do: the run ends as the sequential engine says."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.sim import KINDS
from tests.support.history import START_MS, Committed, sequential
from tests.support.patching import Patch, patched, rewritten
from tests.support.random_flows import note
from tests.support.simulated_places import ValkeyPlace
from tests.support.simulation import CRUEL, Faults, Simulation, faults_of, scenario_of, simulate
from tests.support.tapes import Activity, Gate, NotReplayed
from tests.support.valkey import EmbeddedValkey
from wf_worker.store.memory_rules import Call

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedValkey]:
    valkey = EmbeddedValkey(tmp_path_factory.mktemp("valkey"))
    valkey.start()
    yield valkey
    valkey.stop()


@pytest.mark.parametrize("seed", range(60))
def test_a_random_workflow_under_faults_ends_like_the_sequential_engine(seed: int) -> None:
    simulate(seed)


@pytest.mark.parametrize("seed", range(4))
def test_the_scripts_on_a_server_end_like_the_sequential_engine_under_every_fault(
    server: EmbeddedValkey, seed: int
) -> None:
    scenario = scenario_of(seed)
    with contextlib.closing(ValkeyPlace(server.url, START_MS, small=scenario.small)) as place:
        Simulation(seed, scenario, CRUEL, place).run()


def test_a_seed_does_the_same_things_in_every_process_whatever_was_simulated_before() -> None:
    command = "from tests.support.simulation import simulate; {}print(sorted(simulate(7).items()))"
    told = {
        subprocess.run(
            [sys.executable, "-c", command.format(before)],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hashes, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            check=True,
        ).stdout
        for hashes, before in (("1", ""), ("2", "simulate(3); simulate(4); "))
    }

    assert len(told) == 1
    assert b"repeated" in told.pop()


def test_every_kind_of_fault_happens_to_somebody() -> None:
    happened: set[str] = set()
    for seed in range(3, 200, 4):
        happened.update(kind for kind, count in simulate(seed).items() if count)
        if happened >= set(KINDS):
            return
    # Crashes of requests that are rare in themselves are met in longer simulations only.
    rare = {f"crashed: {what}" for what in ("cancel", "pause", "retry", "answer", "start")}
    assert set(KINDS) - happened <= rare


def test_a_result_of_another_history_is_noticed() -> None:
    scenario = scenario_of(8)
    run = sequential(scenario.wide, scenario.workflow_input, scenario.wide_children)
    assert not isinstance(run, str)
    trace = [
        {"step_type": e.step_type, "frame_id": e.frame_id, "node_id": e.node_id, "output": e.output} for e in run.trace
    ]
    first = next(entry for entry in trace if entry["step_type"] == "node")
    line = first["output"]["line"]
    first["output"] = {**first["output"], "line": {**line, "text": line["text"][:-6] + "abcdef"}}

    with pytest.raises(AssertionError, match="of another history"):
        sequential(
            scenario.wide, scenario.workflow_input, scenario.wide_children, Committed(trace, mended=False, whole=True)
        )


def test_a_run_that_never_ends_is_noticed() -> None:
    never = "self.run.waits[key] = self.now + 2**40"
    broken = rewritten(Call.place, ("self.run.ready[key] = self.now + LOOK_MS", never))
    with patched([Patch(Call, "place", broken)]), pytest.raises(AssertionError, match="I11"):
        Simulation(1, scenario_of(1), Faults()).run()


def test_an_activity_that_does_something_else_when_it_is_called_anew_is_noticed() -> None:
    gate, tokens = Gate(random.Random(1), Counter()), iter("ab")

    def claim_and_commit() -> None:
        gate.call("claim", bool, named=(next(tokens),))
        gate.call("commit", bool)

    activity = Activity("step", claim_and_commit)
    assert not gate.go_on(activity, 1)
    with pytest.raises(NotReplayed, match="claim"):
        gate.go_on(activity, 1)


def test_faults_differ_from_seed_to_seed() -> None:
    assert len({faults_of(seed) for seed in range(4)}) == 3


def test_a_note_shows_what_its_call_saw() -> None:
    ctx: Any = SimpleNamespace(foreach={}, attempt=1)
    one = note({"step": "a", "value": 1, "log": []}, ctx, "x")
    other = note({"step": "a", "value": 1, "log": [{"text": "t"}]}, ctx, "x")
    assert one != other
