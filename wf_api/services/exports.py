"""Whole runs as text that needs no store."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, Final

from wf_api.services.runs import RunService
from wf_api.strict_json import encode
from wf_core.errors import WfError
from wf_core.run_export import FORMAT
from wf_worker.errors import RequestRefused

log = logging.getLogger("wf.api")

CHUNK_BYTES: Final = 64 * 1024


class ExportService(RunService):
    """Runs, and their exports."""

    def export_run(self, run_id: str) -> Iterator[bytes]:
        """A run at rest as JSON Lines (see :mod:`wf_core.run_export`), in pieces of some 64 KiB.

        Raises ``run_not_found`` and ``run_not_at_rest`` before the first piece. What goes wrong later is told by a last
        line of the kind ``error``, in place of the one of the kind ``end``: what was sent cannot be taken back.
        """
        incarnation = self._incarnation(run_id)
        records = self._store.export(incarnation)
        view = self._view(incarnation, run_id, with_input=True)
        return _pieces({"kind": "header", "format": FORMAT, "run": view}, records)


def _pieces(header: dict[str, Any], records: Iterator[dict[str, Any]]) -> Iterator[bytes]:
    piece, lines = bytearray(encode(header) + b"\n"), 1
    try:
        for record in records:
            piece += encode(record) + b"\n"
            lines += 1
            if len(piece) >= CHUNK_BYTES:
                yield bytes(piece)
                piece.clear()
        last: dict[str, Any] = {"kind": "end", "lines": lines + 1}
    except WfError as error:
        last = {"kind": "error", "error": _told(error)}
    yield bytes(piece) + encode(last) + b"\n"


def _told(error: WfError) -> dict[str, Any]:
    """What the reader is told. Faults of the store are the operator's affair."""
    if isinstance(error, RequestRefused):
        return {"code": error.code, "message": error.message, "path": error.path, "hint": error.hint}
    log.error("an export broke off: %s: %s (%s)", error.code, error.message, error.path, exc_info=error)
    hint = "whoever runs the server finds the cause in its log"
    return {"code": error.code, "message": "the export broke off", "path": None, "hint": hint}
