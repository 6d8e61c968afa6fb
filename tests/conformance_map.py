"""Reads docs/conformance.md and says how many rules of the core are mapped to tests.

    python3 tests/conformance_map.py [folder of the checkout]

Exit code 1 when a number is missing or stands there twice, or when a test that the page names is gone or never runs.
A rule that the page calls open is no fault, but it does not count, and the line says so. Needs no package.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = Path("docs") / "conformance.md"
RULES: Final = range(1, 129)

NUMBERED: Final = re.compile(r"^\|\s*\d")
ROW: Final = re.compile(r"^\| (\d+) \| ([^|]+) \| ([^|]+) \|$")
NAMED: Final = re.compile(r"`([^`\s]+)::(\w+)`")
TESTS: Final = re.compile(r"`[^`\s]+::\w+`(<br>`[^`\s]+::\w+`)*")
SUPERSEDED: Final = re.compile(r"superseded by (\d+(?:, \d+)*)")
NOT_YET: Final = re.compile(r"(open|deferred): (.+)")
NEVER_RUN: Final = frozenset({"skip", "xfail"})


@dataclass
class Map:
    """What the page says, and what is wrong with it."""

    tests: dict[int, list[str]] = field(default_factory=dict)
    superseded: dict[int, list[int]] = field(default_factory=dict)
    deferred: dict[int, str] = field(default_factory=dict)
    open: dict[int, str] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    @property
    def mapped(self) -> int:
        return len({*self.tests, *self.superseded, *self.deferred} & {*RULES})

    def lines(self) -> Iterator[str]:
        yield from self.faults
        still_open = "; ".join(f"{number} open: {why}" for number, why in sorted(self.open.items()))
        yield f"core: {self.mapped} of {len(RULES)} required tests mapped" + (f" ({still_open})" if still_open else "")
        others = [f"{number} deferred: {why}" for number, why in sorted(self.deferred.items())]
        others += [
            f"{number} superseded by {', '.join(map(str, numbers))}" for number, numbers in self.superseded.items()
        ]
        if others:
            yield f"core: counted without a test of their own: {'; '.join(others)}"


def read_map(root: Path) -> Map:
    """The page of a checkout, checked against its tests."""
    text = (root / PAGE).read_text(encoding="utf-8")
    read, numbers = Map(), Counter[int]()
    for line in text.splitlines():
        if not NUMBERED.match(line):
            continue
        row = ROW.match(line)
        if row is None:
            read.faults.append(f"not a row of number, rule and tests: {line[:80]}")
            continue
        numbers[int(row.group(1))] += 1
        _take(read, int(row.group(1)), row.group(3).strip())
    read.faults += [f"rule {number} is missing" for number in RULES if number not in numbers]
    read.faults += [f"rule {number} does not exist" for number in sorted(numbers) if number not in RULES]
    read.faults += [f"rule {number} stands there {count} times" for number, count in numbers.items() if count > 1]
    for number, by in read.superseded.items():
        read.faults += [f"rule {number} is superseded by {n}, which no test shows" for n in by if n not in read.tests]
    read.faults += [
        f"{path}::{name} {fault}"
        for path, name in dict.fromkeys(NAMED.findall(text))
        if (fault := fault_of(root, path, name))
    ]
    return read


def _take(read: Map, number: int, shown: str) -> None:
    if TESTS.fullmatch(shown):
        read.tests[number] = [f"{path}::{name}" for path, name in NAMED.findall(shown)]
    elif by := SUPERSEDED.fullmatch(shown):
        read.superseded[number] = [int(n) for n in by.group(1).split(", ")]
    elif why := NOT_YET.fullmatch(shown):
        (read.open if why.group(1) == "open" else read.deferred)[number] = why.group(2)
    else:
        read.faults.append(f"rule {number} names neither tests nor a reason for having none: {shown[:80]}")


def fault_of(root: Path, path: str, name: str) -> str | None:
    """What is wrong with a named test; None when it exists and runs."""
    if not re.fullmatch(r"tests/\w+/test_\w+\.py", path) or not name.startswith("test_"):
        return "is not the name of a test"
    if not (root / path).is_file():
        return "is gone with its file"
    test = functions_of(root / path).get(name)
    if test is None:
        return "is gone"
    marks = {node.attr for mark in test.decorator_list for node in ast.walk(mark) if isinstance(node, ast.Attribute)}
    never = sorted(marks & NEVER_RUN)
    return f"shows nothing, it is marked {never[0]}" if never else None


@cache
def functions_of(path: Path) -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
    """The functions of a module by name, parametrised or not."""
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    return {node.name: node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}


def main(arguments: Sequence[str]) -> int:
    """Prints the count, and every fault before it."""
    read = read_map(Path(arguments[0]) if arguments else ROOT)
    for line in read.lines():
        print(line)
    return 1 if read.faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
