"""``make hosts``: workers on three hosts, one of which is cut off and healed; which host ran how many items."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.hosts.network import Host, Network, missing, network
from tests.hosts.trial import print_report, run_trial

HOSTS: Final = 3


def main(arguments: list[str]) -> int:
    if arguments:
        return _inside(*arguments)
    lacks = missing()
    if lacks:
        print(f"hosts: network namespaces cannot be made here: {lacks}", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="wf-hosts-") as folder, network(HOSTS) as made:
        spaces = json.dumps(made.spaces)
        return subprocess.run(
            made.in_store(sys.executable, "-m", "tests.hosts", spaces, folder), check=False
        ).returncode


def _inside(spaces: str, folder: str) -> int:
    store, *hosts = json.loads(spaces)
    made = Network(store, tuple(Host(number, f"wf-h{number}", space) for number, space in enumerate(hosts, 1)))
    try:
        report = run_trial(made, Path(folder))
    except AssertionError as fault:
        print(f"hosts: FAILED: {fault}", file=sys.stderr)
        return 1
    print_report(report)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
