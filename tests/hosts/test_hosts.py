"""Workers on three hosts, where this machine lets network namespaces be made."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hosts.network import missing

LACKS = missing()


@pytest.mark.skipif(LACKS is not None, reason=f"network namespaces cannot be made: {LACKS}")
def test_a_host_that_is_cut_off_in_mid_handler_commits_nothing_and_takes_part_again_when_it_is_healed() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "tests.hosts"],
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )

    assert ended.returncode == 0, ended.stderr
    report = json.loads(ended.stdout.splitlines()[-1])
    assert report["late_commit"] == "refused"
    assert len(report["items_by_host"]) == 3
    assert sum(report["items_by_host"].values()) == report["items"]
