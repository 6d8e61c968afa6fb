"""Small changes to the core, one at a time, each of which a test has to notice: ``python -m tests.mutants``.

Which modules are changed, and which tests run, stands in ``pyproject.toml`` under ``tool.mutmut``. Prints every change
that no test noticed, a table, and a last line with the score. Exits 1 when that is below 90 %, and when nothing was
changed or something was left unchecked. A change that makes a test run without end counts as noticed.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from mutmut.mutation.data import SourceFileMutationData
from mutmut.mutation.diff_apply import get_diff_for_mutant
from mutmut.stats import status_by_exit_code
from mutmut.utils.file_utils import walk_mutatable_files

REQUIRED = 90.0
FOLDER = Path("mutants")
LOG = FOLDER / "mutmut.log"
PROCESSES = 2
MEMORY_BYTES = 4 * 1024**3


def main() -> int:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))  # a loop without end may grow without end
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    if not run():
        print(LOG.read_text()[-4_000:])
        print(f"mutants: the run failed, see {LOG}")
        return 1
    statuses = dict(read())
    for path, of_module in statuses.items():
        for mutant, status in of_module.items():
            if status not in ("killed", "timeout"):
                print(f"--- {path}: {mutant}: {status}")
                print(changed_lines(mutant, path))
    return report(statuses)


def run() -> bool:
    """Whether every mutant was made and tested."""
    with LOG.open("w") as log:
        done = subprocess.run(
            [sys.executable, "-c", "from mutmut.__main__ import cli; cli()", "run", f"--max-children={PROCESSES}"],
            env={**os.environ, "PYTHONHASHSEED": "0"},  # sets have one order, so that runs can be compared
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,
        )
    return done.returncode == 0


def read() -> Iterator[tuple[Path, dict[str, str]]]:
    """For each module what became of its mutants."""
    for path in sorted(walk_mutatable_files()):
        data = SourceFileMutationData(path=path)
        data.load()
        yield path, {mutant: status_by_exit_code[code] for mutant, code in data.exit_code_by_key.items()}


def changed_lines(mutant: str, path: Path) -> str:
    """The diff without the header, which names a file that is none."""
    return "\n".join(get_diff_for_mutant(mutant, path=path).splitlines()[2:])


def report(statuses: dict[Path, dict[str, str]]) -> int:
    total: Counter[str] = Counter()
    print(f"{'module':40} {'made':>6} {'killed':>8} {'timeout':>8} {'survived':>9}")
    for path, of_module in statuses.items():
        counts = Counter(of_module.values())
        total += counts
        print(line(str(path), counts))
    print(line("all", total))
    made, killed = total.total(), total["killed"] + total["timeout"]
    share = 100 * killed / made if made else 0.0
    print(f"mutants: {killed} of {made} killed ({share:.1f} %)")
    return 0 if share >= REQUIRED and not total["not checked"] else 1


def line(name: str, counts: Counter[str]) -> str:
    made, late = counts.total(), counts["timeout"]
    killed = counts["killed"] + late
    return f"{name:40} {made:6} {killed:8} {late:8} {made - killed:9}"


if __name__ == "__main__":
    sys.exit(main())
