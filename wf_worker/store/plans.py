"""Compiled plans, one per process and digest."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from wf_core.models.workflow import Workflow
from wf_core.plan import Plan, Program, compile_plan, document_digest
from wf_core.reducers import ReducerDefinition
from wf_worker.errors import RunDamaged
from wf_worker.store.encoding import from_bytes

MAX_PLANS: Final = 256


class Plans:
    """Programs by digest, the most recently used kept. Safe for threads."""

    def __init__(
        self, load: Callable[[str], bytes | None], reducers: Mapping[str, ReducerDefinition] | None = None
    ) -> None:
        self._load = load
        self._reducers = reducers
        self._lock = threading.Lock()
        self._known: OrderedDict[str, Program] = OrderedDict()

    def program(self, digest: str) -> Program:
        """The compiled workflow; :class:`RunDamaged` when its document is not in the store."""
        with self._lock:
            program = self._known.get(digest)
            if program is not None:
                self._known.move_to_end(digest)
                return program
        record = self._document(digest)
        if record.get("program") == 1:
            pinned: dict[str, str] = record["children"]
            program = Program(self._plan(record["root"]), {key: self._plan(child) for key, child in pinned.items()})
        else:
            program = Program(self._compile(record, digest))
        with self._lock:
            self._known[digest] = program
            while len(self._known) > MAX_PLANS:
                self._known.popitem(last=False)
        return program

    def _plan(self, digest: str) -> Plan:
        return self._compile(self._document(digest), digest)

    def _document(self, digest: str) -> dict[str, Any]:
        data = self._load(digest)
        if data is None:
            raise RunDamaged(
                f"the workflow document {digest} is not in the store", path=f"doc:{digest}", hint="publish it again"
            )
        record = from_bytes(data, f"workflow {digest}")
        if not isinstance(record, dict):
            raise RunDamaged(f"the workflow document {digest} is no object", path=f"doc:{digest}")
        return cast(dict[str, Any], record)

    def _compile(self, record: dict[str, Any], digest: str) -> Plan:
        # Of the document as it is stored: models that gained a field since would write it otherwise.
        found = document_digest(record)
        if found != digest:
            raise RunDamaged(f"the workflow document {digest} has the digest {found}", path=f"doc:{digest}")
        return compile_plan(Workflow.model_validate(record), reducers=self._reducers, digest=digest)
