"""Error codes in the code against docs/reference/errors.md: both ways."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from wf_core.validation import ValidationIssueCode

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGES: Final = ("wf_core", "wf_worker", "wf_api")
REFERENCE: Final = ROOT / "docs" / "reference" / "errors.md"
ROW: Final = re.compile(r"^\| `([a-z][a-z0-9_]*)` \|")
CODE: Final = re.compile(r"[a-z][a-z0-9_]*")


def modules() -> Iterator[ast.Module]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield ast.parse(path.read_text(encoding="utf-8"), str(path))


def text_of(node: ast.expr | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def codes_in(node: ast.AST) -> Iterator[str | None]:
    """Every way in which code gives an error or an issue its code."""
    match node:
        case ast.Call(func=ast.Name(id="error_body"), args=[first, *_]):
            yield text_of(first)
        case ast.keyword(arg="code", value=value):
            yield text_of(value)
        case ast.Assign(targets=[ast.Name(id="default_code")], value=value):
            yield text_of(value)
        case ast.AnnAssign(target=ast.Name(id="default_code"), value=value):
            yield text_of(value)
        case ast.Dict(keys=keys, values=values):
            for key, value in zip(keys, values, strict=True):
                if text_of(key) == "code":
                    yield text_of(value)
        case _:
            pass


def raised_codes() -> set[str]:
    given = {code for module in modules() for node in ast.walk(module) for code in codes_in(node)}
    return {code for code in given if code is not None} | {code.value for code in ValidationIssueCode}


def written_texts() -> set[str]:
    texts = {node.value for module in modules() for node in ast.walk(module) if isinstance(node, ast.Constant)}
    return {text for text in texts if isinstance(text, str) and CODE.fullmatch(text)}


def documented_codes() -> list[str]:
    rows = (ROW.match(line) for line in REFERENCE.read_text(encoding="utf-8").splitlines())
    return [row.group(1) for row in rows if row is not None]


def test_every_error_code_of_the_code_is_explained_in_the_reference() -> None:
    assert sorted(raised_codes() - set(documented_codes())) == []


def test_every_error_code_of_the_reference_exists_in_the_code() -> None:
    assert sorted(set(documented_codes()) - raised_codes() - written_texts()) == []


def test_no_error_code_is_explained_twice() -> None:
    codes = documented_codes()

    assert sorted({code for code in codes if codes.count(code) > 1}) == []


def test_every_explanation_has_a_cause_and_a_cure() -> None:
    rows = [line for line in REFERENCE.read_text(encoding="utf-8").splitlines() if ROW.match(line)]

    assert [row for row in rows if len([cell for cell in row.strip("|").split(" | ") if cell.strip()]) < 3] == []


@pytest.mark.parametrize(
    "source",
    [
        'raise Oops("text", code="made_up")',
        'class Oops:\n    default_code = "made_up"',
        'class Oops:\n    default_code: ClassVar[str] = "made_up"',
        'issue = {"code": "made_up", "path": ""}',
        'error_body("made_up", "text")',
    ],
)
def test_a_code_is_found_however_it_is_given(source: str) -> None:
    found = [code for node in ast.walk(ast.parse(source)) for code in codes_in(node)]

    assert found == ["made_up"]
