"""Store keys are spelled in one module and nowhere else."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from wf_worker.store.keys import SHARD_KEYS, Keys

ROOT: Final = Path(__file__).resolve().parents[2]
KEYS_MODULE: Final = ROOT / "wf_worker" / "store" / "keys.py"

# A run's base, a shard's hash tag, a key outside the shards. What an f-string fills in is written as {} here.
KEY_PARTS: Final = re.compile(r":r:|\{\}r:|\{wf|^(\w+|\{\}):(doc:|flow:|idem:|flows$|id$)")


def texts_of(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """String literals and f-strings, docstrings apart."""
    passed_over = {id(statement.value) for node in ast.walk(tree) for statement in prose(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            passed_over.update(id(part) for part in node.values)
            yield (
                node.lineno,
                "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values),
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in passed_over:
            yield node.lineno, node.value


def prose(node: ast.AST) -> Iterator[ast.Expr]:
    """Texts that stand as statements of their own: docstrings of modules, classes, functions and attributes."""
    if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return
    for statement in node.body:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            yield statement


def spelled_keys(tree: ast.Module) -> list[tuple[int, str]]:
    return [(line, text) for line, text in texts_of(tree) if KEY_PARTS.search(text)]


def test_only_the_module_of_key_names_spells_a_store_key() -> None:
    spelled = [
        (path.relative_to(ROOT).as_posix(), line, text)
        for package in ("wf_worker", "wf_api")
        for path in sorted((ROOT / package).rglob("*.py"))
        if path != KEYS_MODULE
        for line, text in spelled_keys(ast.parse(path.read_text(encoding="utf-8")))
    ]

    assert spelled == []


def test_the_check_knows_every_kind_of_key() -> None:
    keys = Keys()
    incarnation = keys.incarnation("run", "0a")
    kinds = [
        keys.base(incarnation) + "h",
        keys.shard(7) + SHARD_KEYS["ATTENTION"],
        keys.document("sha256:0"),
        keys.flows(),
        keys.flow("name"),
        keys.idempotency("key"),
        keys.identity(),
    ]

    assert [key for key in kinds if not KEY_PARTS.search(key)] == []


@pytest.mark.parametrize(
    "source", ['key = f"{shard}r:{incarnation}:h"', 'key = f"{prefix}:idem:{key}"', 'key = "{wf:07}:attn"']
)
def test_a_key_is_found_in_texts_and_in_parts_of_them(source: str) -> None:
    assert len(spelled_keys(ast.parse(source))) == 1


def test_a_docstring_may_speak_of_keys() -> None:
    assert spelled_keys(ast.parse('def f():\n    """Reads {wf:07}:attn."""')) == []
