"""The map of rules and tests is complete, and its checker notices when it is not."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance_map import NAMED, PAGE, ROOT, RULES, main, read_map

Change = Callable[[str], str]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The page and every file that it names."""
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    for path in {str(PAGE), *(path for path, _ in NAMED.findall(text))}:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    return tmp_path


def change(path: Path, edit: Change) -> None:
    before = path.read_text(encoding="utf-8")
    after = edit(before)
    assert after != before
    path.write_text(after, encoding="utf-8")


def test_every_rule_is_on_the_page_once_and_every_test_it_names_exists() -> None:
    assert read_map(ROOT).faults == []


def test_the_count_says_which_rules_are_open(capsys: pytest.CaptureFixture[str]) -> None:
    read = read_map(ROOT)

    assert main([]) == 0
    line = capsys.readouterr().out.splitlines()[0]
    assert line.startswith(f"core: {len(RULES) - len(read.open)} of 128 required tests mapped")
    assert all(f"{number} open: {why}" in line for number, why in read.open.items())


def test_a_copy_is_as_complete_as_the_checkout(checkout: Path) -> None:
    assert main([str(checkout)]) == 0


@pytest.mark.parametrize(
    ("edit", "fault"),
    [
        (lambda text: text.replace("def test_paths_are_immutable", "def test_renamed"), "is gone"),
        (lambda text: text.replace("def test_paths_are_immutable", "def _test_paths_are_immutable"), "is gone"),
        (
            lambda text: text.replace(
                "def test_paths_are_immutable",
                "@pytest.mark.skip\ndef test_paths_are_immutable",
            ),
            "shows nothing, it is marked skip",
        ),
        (
            lambda text: text.replace(
                "def test_paths_are_immutable",
                '@pytest.mark.xfail(reason="it does not hold")\ndef test_paths_are_immutable',
            ),
            "shows nothing, it is marked xfail",
        ),
    ],
)
def test_a_named_test_that_is_gone_or_never_runs_is_a_fault(
    checkout: Path, capsys: pytest.CaptureFixture[str], edit: Change, fault: str
) -> None:
    change(checkout / "tests" / "core" / "test_paths.py", edit)

    assert main([str(checkout)]) == 1
    assert f"tests/core/test_paths.py::test_paths_are_immutable {fault}" in capsys.readouterr().out.splitlines()


def test_a_file_that_is_gone_is_a_fault(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (checkout / "tests" / "core" / "test_paths.py").unlink()

    assert main([str(checkout)]) == 1
    assert "tests/core/test_paths.py::test_paths_are_immutable is gone with its file" in capsys.readouterr().out


def without_row(number: int) -> Change:
    return lambda text: re.sub(rf"^\| {number} \|.*\n", "", text, flags=re.MULTILINE)


def shown_by(number: int, shown: str) -> Change:
    return lambda text: re.sub(rf"^(\| {number} \| [^|]+ \|) [^|]+ \|$", rf"\1 {shown} |", text, flags=re.MULTILINE)


@pytest.mark.parametrize(
    ("edit", "fault"),
    [
        (without_row(7), "rule 7 is missing"),
        (without_row(128), "rule 128 is missing"),
        (lambda text: text.replace("| 7 | ", "| 8 | "), "rule 8 stands there 2 times"),
        (lambda text: text.replace("| 7 | ", "| 129 | "), "rule 129 does not exist"),
        (lambda text: text.replace("| 7 | ", "|7 | "), "rule 7 is missing"),
        (shown_by(7, "somehow"), "rule 7 names neither tests nor a reason for having none: somehow"),
        (shown_by(7, "open: "), "rule 7 names neither tests nor a reason for having none: open:"),
        (shown_by(7, "superseded by 75"), "rule 7 is superseded by 75, which no test shows"),
        (shown_by(7, "`docs/conformance.md::test_it`"), "docs/conformance.md::test_it is not the name of a test"),
        (shown_by(7, "`tests/core/test_paths.py::segments`"), "tests/core/test_paths.py::segments is not the name"),
    ],
)
def test_a_page_that_is_incomplete_is_a_fault(
    checkout: Path, capsys: pytest.CaptureFixture[str], edit: Change, fault: str
) -> None:
    change(checkout / PAGE, edit)

    assert main([str(checkout)]) == 1
    assert fault in capsys.readouterr().out


def test_an_open_rule_is_no_fault_and_is_not_counted(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mapped = read_map(checkout).mapped
    change(checkout / PAGE, shown_by(7, "open: nobody has written it"))

    assert main([str(checkout)]) == 0
    line = capsys.readouterr().out.splitlines()[0]
    assert line.startswith(f"core: {mapped - 1} of 128 required tests mapped (7 open: nobody has written it")
