"""Documents: links lead somewhere, no path is of somebody's machine, every setting and script is described."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from wf_worker.settings import Settings

ROOT: Final = Path(__file__).resolve().parents[2]
SCRIPTS: Final = sorted(path.stem for path in (ROOT / "wf_worker" / "store" / "lua").glob("*.lua"))
LINK: Final = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
FENCE: Final = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
HEADING: Final = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
# Written in pieces, so that this file is not a finding of its own.
MACHINE_PATHS: Final = re.compile(r"(?<![\w.~}$-])/(?:" + "|".join(("work", "root", "home", "Users")) + r")/[\w.-]")


def documents() -> list[Path]:
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def prose_of(document: Path) -> str:
    return FENCE.sub("", document.read_text(encoding="utf-8"))


def anchors_of(document: Path) -> set[str]:
    """Names of headings as GitHub makes them."""
    titles = HEADING.findall(prose_of(document))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def broken_links(document: Path) -> Iterator[str]:
    for link in LINK.findall(prose_of(document)):
        if re.match(r"[a-z]+:", link):
            continue
        target, _, anchor = link.partition("#")
        path = (document.parent / target).resolve() if target else document
        if not path.exists() or (anchor and anchor not in anchors_of(path)):
            yield f"{document.relative_to(ROOT)}: {link}"


def project_files() -> list[Path]:
    """What git tracks or would track; every file where there is no git."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode == 0:
        return [ROOT / name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).is_file()]
    return [path for path in ROOT.rglob("*") if path.is_file() and not made_by_tools(path.relative_to(ROOT).parts)]


def made_by_tools(parts: tuple[str, ...]) -> bool:
    """Environments, caches and builds, as .gitignore lists them."""
    hidden = any(part.startswith(".") and part != ".ci" for part in parts[:-1])
    return hidden or bool({"__pycache__", "build", "dist", "mutants"}.intersection(parts[:-1]))


def lines_of(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        return []


def test_every_relative_link_of_the_documents_leads_to_a_file_and_a_heading() -> None:
    assert [link for document in documents() for link in broken_links(document)] == []


def test_no_file_names_a_path_of_a_developers_machine() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for path in project_files()
        for number, line in enumerate(lines_of(path), 1)
        if MACHINE_PATHS.search(line)
    ]

    assert found == []


@pytest.mark.parametrize(
    ("text", "is_one"), [("/{}/ada/wf", True), ("see /{}/x", True), ("a/{}/b", False), ("$X/{}/b", False)]
)
def test_a_path_of_a_machine_is_told_from_other_paths(text: str, is_one: bool) -> None:
    assert bool(MACHINE_PATHS.search(text.format("home"))) is is_one


@pytest.mark.parametrize("name", sorted(Settings.model_fields))
def test_every_setting_is_described_under_its_variable_name(name: str) -> None:
    assert f"`WF_{name.upper()}`" in (ROOT / "docs" / "reference" / "settings.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_store_script_is_described_in_the_data_model(name: str) -> None:
    assert f"| `{name}` |" in (ROOT / "docs" / "data-model.md").read_text(encoding="utf-8")


NAMED_TEST: Final = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
CRASH_ROW: Final = re.compile(
    r"^\| (?:API|Worker|All workers|Sweeper|Broker|Network|Store|Replica|Handler) \|.*$", re.MULTILINE
)


def test_every_test_that_a_document_names_exists() -> None:
    named = {pair for document in documents() for pair in NAMED_TEST.findall(document.read_text(encoding="utf-8"))}
    texts = {path: (ROOT / path).read_text(encoding="utf-8") for path, _ in named if (ROOT / path).is_file()}

    assert [f"{path}::{name}" for path, name in sorted(named) if f"def {name}(" not in texts.get(path, "")] == []


def test_every_crash_point_names_the_test_that_shows_it() -> None:
    rows = CRASH_ROW.findall((ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8"))

    assert len(rows) > 30
    assert [row for row in rows if not NAMED_TEST.search(row)] == []
