"""Replacing parts of the code under test for the length of a block, and never without noticing that they have moved."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Patch:
    """``name`` of ``owner``, a module, a class or a dictionary, is ``value`` instead."""

    owner: Any
    name: str
    value: Any

    @property
    def present(self) -> Any:
        """What is there now; raises where there is nothing."""
        return self.owner[self.name] if isinstance(self.owner, dict) else inspect.getattr_static(self.owner, self.name)

    def put(self, value: Any) -> None:
        """Writes it."""
        if isinstance(self.owner, dict):
            self.owner[self.name] = value
        else:
            setattr(self.owner, self.name, value)


@contextmanager
def patched(patches: Iterable[Patch]) -> Iterator[None]:
    """Everything replaced until the block is left."""
    done: list[tuple[Patch, Any]] = []
    try:
        for patch in patches:
            done.append((patch, patch.present))
            patch.put(patch.value)
        yield
    finally:
        for patch, before in reversed(done):
            patch.put(before)


def replaced(text: str, old: str, new: str) -> str:
    """The text with ``old``, which must stand in it exactly once, replaced."""
    found = text.count(old)
    assert found == 1, f"{old!r} stands {found} times in the text that should be changed, not once"
    return text.replace(old, new)


def rewritten(function: Callable[..., Any], *changes: tuple[str, str]) -> Any:
    """The function compiled anew from its source with some texts replaced; each must stand there exactly once."""
    plain: Any = inspect.unwrap(function)
    source = textwrap.dedent(inspect.getsource(plain)).replace("@staticmethod\n", "")
    for old, new in changes:
        source = replaced(source, old, new)
    made: dict[str, Any] = {}
    # Annotations stay texts, as in the module that the function comes from.
    exec(
        compile("from __future__ import annotations\n" + source, plain.__code__.co_filename, "exec"),
        plain.__globals__,
        made,
    )
    return made[plain.__name__]
