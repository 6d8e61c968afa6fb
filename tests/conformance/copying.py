"""What tests of forks and reruns share: making one, and looking at the records of two runs side by side."""

from __future__ import annotations

import json
from typing import Any

from tests.conformance.driving import Driver
from tests.support.stores import StoreCase
from wf_worker.store.keys import ROOT_SCOPE, RUN_KEYS
from wf_worker.store.protocol import Created, NewCopy, RecordKind

KINDS_OF: dict[str, RecordKind] = {
    **dict.fromkeys(("ready", "held", "paused", "waits", "failed", "due"), "scores"),
    **dict.fromkeys(("f", "b", "hb", "parked", "open", "closed", "holds", "a", "sc", "j"), "hash"),
    "k": "set",
    "t": "trace",
}


def new_copy(case: StoreCase, run_id: str = "copy", **more: Any) -> NewCopy:
    """A request for a run that is made from another one."""
    return NewCopy(run_id, case.keys.incarnation(run_id, f"of{run_id}"), f"call-{run_id}", **more)


def forked(run: Driver, run_id: str = "copy", **more: Any) -> Driver:
    """A fork with a worker for it."""
    return driver(run, run.store.fork(run.incarnation, new_copy(run.case, run_id, **more)))


def rerun(run: Driver, step: str, run_id: str = "copy", **more: Any) -> Driver:
    """A rerun with a worker for it."""
    return driver(run, run.store.rerun(run.incarnation, step, new_copy(run.case, run_id, **more)))


def driver(run: Driver, created: Created) -> Driver:
    """A worker for a run that was made."""
    assert created.created, created
    return Driver(run.case, run.store, created.incarnation, run.digest, created.ready)


def pages(run: Driver, kind: RecordKind, key: str) -> list[Any]:
    """A whole record."""
    return [part for _, page in run.store.pages(run.incarnation, kind, key) for part in page]


def record(run: Driver, kind: RecordKind, key: str) -> Any:
    """A whole record as a value that can be compared."""
    flat = pages(run, kind, key)
    if kind == "set":
        return set(flat)
    if kind == "text":
        return b"".join(flat)
    return flat if kind == "trace" else dict(zip(flat[::2], flat[1::2], strict=True))


def everything_of(run: Driver) -> dict[str, Any]:
    """Every record of a run but its header."""
    found = {key: record(run, kind, key) for key, kind in KINDS_OF.items()}
    for name in map(bytes.decode, found["k"]):
        if name.startswith(RUN_KEYS["STAGED"]):
            found[name] = record(run, "text", name)
        elif ":" in name:
            found[name] = record(run, "hash", name)
        else:
            for prefix in ("ITEMS", "RESULTS"):
                found[RUN_KEYS[prefix] + name] = record(run, "hash", RUN_KEYS[prefix] + name)
            found[RUN_KEYS["WAITING"] + name] = record(run, "set", RUN_KEYS["WAITING"] + name)
    for key in map(bytes.decode, found["f"]):
        found[RUN_KEYS["LINEAGE"] + key] = record(run, "text", RUN_KEYS["LINEAGE"] + key)
        found[RUN_KEYS["OVERLAY"] + key] = record(run, "hash", RUN_KEYS["OVERLAY"] + key)
    return found


def state_of(run: Driver) -> dict[str, Any]:
    """The root scope's state, large values and all."""
    found: dict[str, Any] = {}
    for name, value in record(run, "hash", RUN_KEYS["STATE"] + ROOT_SCOPE).items():
        if value.startswith(b"@"):
            value = b"=" + record(run, "text", RUN_KEYS["STAGED"] + value[1:].split(b" ")[0].decode())
        found[name.decode()] = json.loads(value[1:])
    return found


def large_values(run: Driver) -> int:
    """How many large values the run keeps."""
    return sum(1 for name in record(run, "set", RUN_KEYS["NAMES"]) if name.startswith(RUN_KEYS["STAGED"].encode()))
