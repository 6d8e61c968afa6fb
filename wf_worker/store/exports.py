"""A run at rest as records that need no store: what an export is written from.

Each record is a JSON object with its ``kind``; :mod:`wf_core.run_export` says what each kind holds, and makes a run in
memory of them. They are read page by page, so that a large run is never held whole. The run must not move meanwhile:
that is asked at the beginning and at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

from wf_core.models.reducers import ReducerRef
from wf_core.models.workflow_refs import WorkflowRef
from wf_core.paths import StatePath
from wf_core.plan import Plan
from wf_core.run_state import ROOT_SCOPE_ID, SUBGRAPH_FRAME, ExecutionFrame, Json
from wf_core.runtime.scheduler import subgraph_activation
from wf_worker.errors import RunDamaged
from wf_worker.store import encoding
from wf_worker.store.calls import text_of
from wf_worker.store.encoding import from_bytes
from wf_worker.store.forks import Forks, check_at_rest, not_at_rest
from wf_worker.store.keys import RUN_KEYS, short
from wf_worker.store.slices import Head

Line = dict[str, Json]

_MOVES: Final = ("status", "seq", "paused")
"""Header fields of which one changes whenever a run moves."""


class Exports(Forks):
    """Reading whole runs."""

    def export(self, incarnation: str) -> Iterator[Line]:
        """Every record of a run at rest but its header, and where it is damaged a record that says so.

        Raises :class:`~wf_worker.errors.RequestRefused` with ``run_not_found`` and ``run_not_at_rest`` at once; the
        latter also at the end, where the run has moved while it was read.
        """
        header = self._source(incarnation)
        check_at_rest(header, self._any(incarnation, "LEASES"))
        return self._lines(incarnation, header)

    def _lines(self, run: str, header: Mapping[str, bytes]) -> Iterator[Line]:
        yield from self._workflows(text_of(header["digest"]))
        scopes: dict[str, Line] = {ROOT_SCOPE_ID: _root_scope(self.program(text_of(header["digest"])).root, header)}
        templates = self._templates(run)
        for frame, line in self._frames(run, templates):
            scopes |= {scope["id"]: scope for scope in _scopes_of(frame)}
            yield line
        yield from self._timers(run)
        for scope in scopes.values():
            yield from self._scope(run, scope)
        for key, (head, template) in templates.items():
            yield _activation(head, template)
            yield from self._results(run, key, from_bytes(template, "activation template")[1])
        for opened in self.interrupts(run):
            yield {
                "kind": "interrupt",
                "request": from_bytes(encoding.encode_interrupt(opened.request), "interrupt"),
                "step_number": opened.number,
                "revision": opened.revision,
                "opened_ms": opened.opened_ms,
                "expires_ms": opened.expires_ms,
            }
        yield from self._traced(run)
        now = self._source(run)
        if any(now.get(name) != header.get(name) for name in _MOVES):
            raise not_at_rest("the run has moved while it was exported")

    def _workflows(self, digest: str) -> Iterator[Line]:
        program = self.program(digest)
        for ref, plan in (("", program.root), *sorted(program.children.items())):
            if isinstance(plan, Plan):
                yield {
                    "kind": "workflow",
                    "ref": ref or None,
                    "digest": plan.digest,
                    "document": plan.workflow.model_dump(mode="json", by_alias=True),
                }

    # ---- frames

    def _templates(self, run: str) -> dict[str, tuple[bytes, bytes]]:
        """Heads and templates of the open visits of concurrent loops."""
        found: dict[str, bytes] = {}
        for _, page in self.pages(run, "hash", RUN_KEYS["ACTIVATIONS"]):
            found |= {text_of(key): value for key, value in zip(page[::2], page[1::2], strict=True)}
        heads = {key: head for key, head in found.items() if not key.endswith(":t")}
        for key in heads:
            if f"{key}:t" not in found:
                raise RunDamaged(f"activation {key} has no template", path=f"a[{key}]")
        return {key: (head, found[f"{key}:t"]) for key, head in heads.items()}

    def _frames(
        self, run: str, templates: Mapping[str, tuple[bytes, bytes]]
    ) -> Iterator[tuple[ExecutionFrame | None, Line]]:
        for _, page in self.pages(run, "hash", RUN_KEYS["FRAMES"]):
            keys = [text_of(key) for key in page[::2]]
            bodies = self.records.fields(run, RUN_KEYS["BODIES"], keys)
            for key, head, body in zip(keys, page[1::2], bodies, strict=True):
                try:
                    frame, line = self._frame(run, key, Head.parse(head, key), body, templates)
                except RunDamaged as damage:
                    yield None, {"kind": "damage", "record": damage.path, "message": damage.message}
                    continue
                yield frame, line
                if line["concurrent_item"]:
                    yield from self._lineage(run, key, frame)

    def _frame(
        self, run: str, key: str, head: Head, body: bytes | None, templates: Mapping[str, tuple[bytes, bytes]]
    ) -> tuple[ExecutionFrame, Line]:
        item: Json = None
        if head.kind == "c":
            activation, _, index = key.rpartition(":")
            [stored] = self.records.fields(run, RUN_KEYS["ITEMS"] + activation, [index])
            if stored is None or activation not in templates:
                raise RunDamaged(f"the item of frame {key} is gone", path=f"i[{key}]")
            item = from_bytes(stored, f"item of {key}")
            frame = encoding.frame_from_template(templates[activation][1], int(index), item, key)
            if body is not None:
                frame = encoding.decode_frame(body, key)
                frame.metadata["loop_item"] = item
        elif body is None:
            raise RunDamaged(f"frame {key} has no body", path=f"b[{key}]")
        else:
            frame = encoding.decode_frame(body, key)
        return frame, {
            "kind": "frame",
            "key": key,
            "id": frame.id,
            "frame_kind": frame.kind,
            "node_id": frame.node_id,
            "place": head.place,
            "purpose": head.purpose,
            "step_number": head.step,
            "attempt": head.attempt,
            "losses": head.losses,
            "failures": head.failures,
            "parent_frame_id": frame.parent_frame_id,
            "scope_id": frame.scope_id,
            "lineage_id": frame.lineage_id,
            "parent_lineage_id": frame.parent_lineage_id,
            "prior_outcome": frame.prior_outcome,
            "activated_incoming_edge": frame.activated_incoming_edge,
            "metadata": frame.metadata,
            "concurrent_item": head.kind == "c",
            "announced": head.kind != "c" or body is not None,
        }

    def _lineage(self, run: str, key: str, frame: ExecutionFrame) -> Iterator[tuple[None, Line]]:
        """The pending writes of an item; what a reader of its lineage sees of each path is the last one's value."""
        data = b"".join(piece for _, [piece] in self.pages(run, "text", RUN_KEYS["LINEAGE"] + key))
        if not data:
            return
        flat = [part for _, page in self.pages(run, "hash", RUN_KEYS["OVERLAY"] + key) for part in page]
        seen = encoding.decode_overlay(flat, f"lineage of {key}")
        writes = [
            {**_write(write.path, write.incoming_value, write.reducer), "visible_value": seen.get(write.path)}
            for write in encoding.decode_writes(data, f"lineage of {key}")
        ]
        yield None, {"kind": "lineage", "id": frame.lineage_id, "writes": writes}

    def _timers(self, run: str) -> Iterator[Line]:
        for _, page in self.pages(run, "scores", RUN_KEYS["WAITS"]):
            for key, due in zip(page[::2], page[1::2], strict=True):
                yield {"kind": "timer", "key": text_of(key), "due_ms": int(due)}

    # ---- scopes, results, trace

    def _scope(self, run: str, scope: Line) -> Iterator[Line]:
        key = short(scope["id"])
        if scope["id"] != ROOT_SCOPE_ID:
            [given] = self.records.fields(run, RUN_KEYS["SCOPES"], [key])
            scope = {**scope, "input": None if given is None else from_bytes(given, "workflow input")}
        yield scope
        for _, page in self.pages(run, "hash", RUN_KEYS["STATE"] + key):
            for name, value in zip(page[::2], page[1::2], strict=True):
                field = text_of(name)
                if value.startswith(b"@"):
                    large = RUN_KEYS["STAGED"] + text_of(value[1:].split(b" ")[0])
                    value = b"=" + b"".join(piece for _, [piece] in self.pages(run, "text", large))
                known = from_bytes(value[1:], f"state field {field}")
                yield {"kind": "state", "scope": scope["id"], "field": field, "value": known}

    def _results(self, run: str, key: str, activation: str) -> Iterator[Line]:
        for _, page in self.pages(run, "hash", RUN_KEYS["RESULTS"] + key):
            for index, data in zip(page[::2], page[1::2], strict=True):
                result = encoding.decode_result(data, int(index))
                writes = [_write(write.path, write.incoming_value, write.reducer) for write in result.writes]
                error = None if result.error is None else result.error.as_record()
                yield {
                    "kind": "result",
                    "activation": activation,
                    "index": int(index),
                    "writes": writes,
                    "error": error,
                }

    def _traced(self, run: str) -> Iterator[Line]:
        for _, page in self.pages(run, "trace", RUN_KEYS["TRACE"]):
            for i in range(0, len(page), 5):
                _, number, worker, entry, why = page[i : i + 5]
                known: Line = from_bytes(entry, "trace entry")
                yield {
                    "kind": "trace",
                    "step_number": int(number),
                    **known,
                    "worker": text_of(worker),
                    "discarded": text_of(why) or None,
                }


def _root_scope(plan: Plan, header: Mapping[str, bytes]) -> Line:
    given = from_bytes(header["input"], "workflow input")
    return {"kind": "scope", "id": ROOT_SCOPE_ID, "workflow": plan.workflow.name, "ref": None, "input": given}


def _scopes_of(frame: ExecutionFrame | None) -> Iterator[Line]:
    """The child scope that a frame is the root of, or whose end it has still to take in."""
    if frame is None:
        return
    if frame.kind == SUBGRAPH_FRAME:
        workflow = cast("dict[str, Any]", frame.metadata["workflow"])
        yield {"kind": "scope", "id": frame.scope_id, "workflow": workflow["name"], "ref": workflow["ref"]}
    activation = subgraph_activation(frame)
    if activation is not None and "outcome" in activation:
        name = WorkflowRef.model_validate(activation["workflow_ref"]).display
        ref = activation["workflow_ref"]
        yield {"kind": "scope", "id": activation["scope_id"], "workflow": name, "ref": ref}


def _activation(head: bytes, template: bytes) -> Line:
    words: Sequence[str] = text_of(head).split("|")
    _, activation, node_id, alias, controller, scope, lineage, body = from_bytes(template, "activation template")
    return {
        "kind": "activation",
        "id": activation,
        "node_id": node_id,
        "alias": alias,
        "frame_id": controller,
        "scope_id": scope,
        "lineage_id": lineage,
        "body_node_id": body,
        "items": int(words[0]),
        "admitted": int(words[1]),
        "max_active": int(words[2]),
        "max_outstanding": int(words[3]),
        "interrupt": "continue" if words[4] == "c" else "quiesce",
        "step_number": int(words[11]),
    }


def _write(path: StatePath, value: Json, reducer: ReducerRef) -> Line:
    return {"path": list(path.parts), "incoming_value": value, "reducer": reducer.model_dump(mode="json")}
