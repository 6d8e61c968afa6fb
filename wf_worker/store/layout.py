"""Runs whose records another release of the engine wrote: they are left alone until a process comes that knows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from wf_worker.errors import LayoutUnknown
from wf_worker.store.keys import LAYOUT

OTHER_LAYOUT: Final = b"other_layout"
"""What every script answers for such a run, with the number of its layout."""


def check_layout(incarnation: str, layout: bytes | None) -> None:
    """Raises :class:`LayoutUnknown` where a run's header names a layout that is not ours."""
    if layout is not None and layout != LAYOUT.encode():
        raise LayoutUnknown(
            f"the records of run {incarnation} have layout {layout.decode()}, this release knows layout {LAYOUT}",
            hint="upgrade this process; nothing was changed, and workers of a release that knows it go on with the run",
        )


def refuse_other_layout(incarnation: str, reply: Sequence[Any]) -> None:
    """Raises :class:`LayoutUnknown` where that is a script's answer."""
    if reply[0] == OTHER_LAYOUT:
        check_layout(incarnation, reply[1])
