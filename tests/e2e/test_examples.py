"""The examples that a newcomer can start by themselves."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_orders_example_prints_the_same_from_memory_and_from_worker_processes(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "examples.orders"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    local, distributed = done.stdout.removeprefix("in memory:\n").split("on worker processes:\n")
    assert local == distributed
    assert "customer 1 Ada, order 3 A-3: sold out\n" in local
    assert "customer 2 Grace, order 2 G-2: refused\n" in local
    assert not re.search(r"\d\d:\d\d|\d{4}-\d\d", done.stdout)
    assert (tmp_path / ".wf" / "orders" / "logs").is_dir()
