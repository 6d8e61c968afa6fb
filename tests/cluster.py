"""``make cluster``: what runs on servers in cluster mode, and that no call reached for two slots.

Starts a cluster of one node that has every slot and one of three nodes on this machine, runs the conformance suite over
both and the system suite with its run store on the three (the broker is a server of its own), then asks every node how
often it has answered CROSSSLOT.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.support.valkey_cluster import ONE_URL, THREE_URL, running

SUITES: Final = {"conformance": ("tests/conformance",), "system": ("tests/system",)}


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="wf-cluster-") as name:
        folder = Path(name)
        (folder / "one").mkdir()
        (folder / "three").mkdir()
        with running(folder / "one", 1) as one, running(folder / "three", 3) as three:
            variables = {ONE_URL: one.url, THREE_URL: three.url}
            ran = {suite: run(selection, variables) for suite, selection in SUITES.items()}
            refused = one.refused("CROSSSLOT") + three.refused("CROSSSLOT")
    counts = ", ".join(f"{suite} {passed} passed" for suite, (_, passed) in ran.items())
    holds = refused == 0 and all(code == 0 and passed for code, passed in ran.values())
    print(f"cluster: {'holds' if holds else 'FAILED'}: {counts}; one node and three nodes; CROSSSLOT {refused} times")
    return 0 if holds else 1


def run(selection: Sequence[str], variables: dict[str, str]) -> tuple[int, int]:
    """One suite: pytest's exit code, and how many tests passed."""
    command = [sys.executable, "-m", "pytest", "-q", "-m", "cluster", *selection]
    process = subprocess.Popen(command, env={**os.environ, **variables}, stdout=subprocess.PIPE, text=True)
    said: list[str] = []
    for line in process.stdout or ():
        print(line, end="", flush=True)
        said.append(line)
    code = process.wait()
    passed = re.findall(r"(\d+) passed", "".join(said))
    return code, int(passed[-1]) if passed else 0


if __name__ == "__main__":
    sys.exit(main())
