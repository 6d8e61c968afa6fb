"""The guide to writing workflows is one program: its blocks run in order, and its last one against real workers."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.e2e.test_readme import Dev
from wf_core.models.reducers import ReducerRef, SiblingWritePolicy
from wf_core.paths import StatePath
from wf_core.reducers import DEFAULT_REDUCER_DEFINITIONS, apply_reducer

ROOT: Final = Path(__file__).resolve().parents[2]
GUIDE: Final = ROOT / "docs" / "how-to" / "write-a-workflow.md"
FENCED: Final = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
REDUCERS: Final = re.compile(r"^\| `(wf\.std\.\w+)` \| `(.*)` \| `(.*)` \| `(.*)` \| (yes|no) \|$", re.MULTILINE)
SERVER: Final = "http://127.0.0.1:8000"


def program(*, with_server: bool) -> str:
    """The guide's blocks as one script, on the lines where they stand in the guide."""
    text = GUIDE.read_text(encoding="utf-8")
    lines = [""] * text.count("\n")
    for block in FENCED.finditer(text):
        if with_server or SERVER not in block[1]:
            first = text.count("\n", 0, block.start(1))
            code = block[1].splitlines()
            lines[first : first + len(code)] = code
    return "\n".join(lines)


def test_every_block_of_the_guide_runs_in_memory_without_a_warning(tmp_path: Path) -> None:
    script = tmp_path / "guide.py"
    script.write_text(program(with_server=False), encoding="utf-8")

    done = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_the_workflow_of_the_guide_is_published_started_and_answered_on_workers(tmp_path: Path) -> None:
    (tmp_path / "tickets.py").write_text(program(with_server=False), encoding="utf-8")
    whole = program(with_server=True)
    assert whole.count(SERVER) == 1

    dev = Dev(tmp_path, "tickets.py")
    try:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", whole.replace(SERVER, dev.url)],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
    finally:
        assert dev.interrupt() == 0

    assert (done.returncode, done.stderr) == (0, "")


def test_the_guide_shows_every_reducer() -> None:
    shown = {row[0] for row in REDUCERS.findall(GUIDE.read_text(encoding="utf-8"))}

    assert shown == set(DEFAULT_REDUCER_DEFINITIONS)


@pytest.mark.parametrize(
    ("name", "present", "write", "result", "merges"), REDUCERS.findall(GUIDE.read_text(encoding="utf-8"))
)
def test_a_reducer_does_what_the_guide_shows(name: str, present: str, write: str, result: str, merges: str) -> None:
    merged = apply_reducer(
        reducer=ReducerRef(name=name),
        current_value=json.loads(present),
        incoming_value=json.loads(write),
        destination_path=StatePath.of("field"),
    )

    assert merged == json.loads(result)
    policy = DEFAULT_REDUCER_DEFINITIONS[name].spec.sibling_write_policy
    assert (policy is SiblingWritePolicy.MERGEABLE) is (merges == "yes")
