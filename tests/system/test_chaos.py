"""A short round of chaos: `make chaos` is the long one."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.chaos.harness import Chaos
from tests.chaos.profiles import PROFILES
from tests.chaos.shapes import SHAPES

SECONDS = 20


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_makes_valid_jobs(shape: str) -> None:
    for seed in range(5):
        job = SHAPES[shape](random.Random(seed))
        for workflow in (job.workflow, *job.children.values()):
            workflow.validate_structure().raise_for_errors()


def test_what_is_not_as_expected_is_noticed() -> None:
    job = SHAPES["wide_loop"](random.Random(1))
    assert job.expected is not None
    run = {"status": "completed", "outcome": job.expected.outcome, "output": {"log": []}, "error": None}

    faults = job.faults(run, [])  # type: ignore[arg-type]

    assert len(faults) == 2
    assert [fault.split(" ")[0] for fault in faults] == ["output", "trace"]


def test_a_short_round_finds_nothing_wrong_nothing_lost_and_no_key_left(tmp_path: Path) -> None:
    profile = PROFILES["smoke"]

    summary = Chaos(profile, SECONDS / 60, 1, tmp_path / "wf").run()

    assert summary.shortfalls(profile, SECONDS / 60) == []
