"""The in-memory store's calls that make a run from another one's records, and these records as they are copied.

Here a run is Python values, in a server it is keys: :func:`record_of` and :func:`put_record` lead to and fro.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Final

from wf_worker.store.keys import ROOT_SCOPE, RUN_KEYS
from wf_worker.store.memory_rules import LOOK_MS, PAGE, PAGE_BYTES, PARKED, Answer, Arguments, Call
from wf_worker.store.memory_state import ActivationHead, FrameHead, OpenRecord, RunRecords, TraceRecord, by_score

OPEN_WITHIN_MS: Final = 600_000

_SCORES: Final = {
    RUN_KEYS[name]: name.lower() for name in ("READY", "HELD", "PAUSED", "LEASES", "WAITS", "FAILED", "DUE")
}
_HASHES: Final = {
    RUN_KEYS[key]: name
    for key, name in (
        ("BODIES", "bodies"), ("BEATS", "beats"), ("PARKED", "parked"), ("CLOSED", "closed"), ("HOLDS", "holds"),
        ("SCOPES", "scopes"), ("JOURNAL", "journal"),
    )
}  # fmt: skip
"""Hashes that are kept as they are stored."""

_TEXTS_IN: Final = (RUN_KEYS["PARKED"], RUN_KEYS["HOLDS"])
"""Those of them that are kept as texts."""

_NAMED: Final = {
    RUN_KEYS[key]: name
    for key, name in (
        ("ITEMS", "items"), ("RESULTS", "results"), ("STATE", "state"), ("LINEAGE", "lineages"),
        ("OVERLAY", "overlays"), ("STAGED", "staged"),
    )
}  # fmt: skip
"""Records with a name of their own, by what their key begins with."""

_SLOT: Final = re.compile(r"(\d+)\|(.*)", re.DOTALL)


# ---- the records as they are copied


def record_of(run: RunRecords, key: str) -> list[bytes]:
    """One record, flat: fields and values, members and scores, members, one text, or the trace's entries."""
    if key in _SCORES:
        scores = getattr(run, _SCORES[key])
        return [part for member in by_score(scores) for part in (member.encode(), str(scores[member]).encode())]
    if key == RUN_KEYS["TRACE"]:
        entries = enumerate(run.trace, 1)
        rows = (
            (str(n).encode(), str(e.number).encode(), e.worker.encode(), e.entry, e.discarded.encode())
            for n, e in entries
        )
        return [part for row in rows for part in row]
    if key == RUN_KEYS["NAMES"]:
        return [name.encode() for name in sorted(run.names)]
    if key.startswith(RUN_KEYS["WAITING"]):
        return [index.encode() for index in sorted(run.waiting.get(key[len(RUN_KEYS["WAITING"]) :], ()))]
    found = _hash_of(run, key)
    return [found] if isinstance(found, bytes) else [_bytes(part) for pair in found.items() for part in pair]


def _hash_of(run: RunRecords, key: str) -> Any:
    if key in _HASHES:
        return getattr(run, _HASHES[key])
    if key == RUN_KEYS["FRAMES"]:
        return {name: head.text() for name, head in run.frames.items()}
    if key == RUN_KEYS["ACTIVATIONS"]:
        heads = {name: head.text() for name, head in run.activations.items()}
        return {**heads, **{f"{name}:t": template for name, template in run.templates.items()}}
    if key == RUN_KEYS["OPEN"]:
        heads = {number: opened.text() for number, opened in run.open.items()}
        return {**heads, **{f"b{number}": opened.record for number, opened in run.open.items()}}
    prefix = key[:2]
    empty: Any = b"" if prefix in (RUN_KEYS["LINEAGE"], RUN_KEYS["STAGED"]) else {}
    return getattr(run, _NAMED[prefix]).get(key[2:], empty)


def put_record(run: RunRecords, kind: str, key: str, offset: int, values: Sequence[bytes]) -> None:
    """Writes a page of a record."""
    pairs = list(zip(values[::2], values[1::2], strict=False))
    if key in _SCORES:
        getattr(run, _SCORES[key]).update({member.decode(): int(score) for member, score in pairs})
    elif kind == "trace":
        for i in range(0, len(values), 5):
            ordinal, number, worker, entry, why = values[i : i + 5]
            if int(ordinal) > len(run.trace):
                run.trace.append(TraceRecord(number.decode(), worker.decode(), entry, why.decode()))
    elif key == RUN_KEYS["NAMES"]:
        run.names.update(name.decode() for name in values)
    elif key.startswith(RUN_KEYS["WAITING"]):
        run.waiting.setdefault(key[2:], set()).update(index.decode() for index in values)
    elif kind == "text":
        texts: dict[str, bytes] = getattr(run, _NAMED[key[:2]])
        before = texts.get(key[2:], b"")
        texts[key[2:]] = before[:offset] + values[0] + before[offset + len(values[0]) :]
    else:
        _put_hash(run, key, pairs)


def _put_hash(run: RunRecords, key: str, pairs: Sequence[tuple[bytes, bytes]]) -> None:
    if key in _HASHES:
        record = getattr(run, _HASHES[key])
        record.update({name.decode(): value.decode() if key in _TEXTS_IN else value for name, value in pairs})
    elif key == RUN_KEYS["FRAMES"]:
        run.frames.update({name.decode(): _head(FrameHead, value) for name, value in pairs})
    elif key == RUN_KEYS["ACTIVATIONS"]:
        for name, value in pairs:
            if name.endswith(b":t"):
                run.templates[name.decode()[:-2]] = value
            else:
                run.activations[name.decode()] = _head(ActivationHead, value)
    elif key == RUN_KEYS["OPEN"]:
        for name, value in sorted(pairs, key=lambda pair: pair[0].startswith(b"b")):
            _put_open(run, name.decode(), value)
    else:
        record = getattr(run, _NAMED[key[:2]]).setdefault(key[2:], {})
        by_bytes = key.startswith(RUN_KEYS["OVERLAY"])
        record.update({name if by_bytes else name.decode(): value for name, value in pairs})


def _put_open(run: RunRecords, name: str, value: bytes) -> None:
    if name.startswith("b"):
        run.open[name[1:]].record = value
        return
    frame, rev, hold, act, index, opened, expiry = value.decode().split("|")
    run.open[name] = OpenRecord(frame, rev, hold, act, index, int(opened), expiry, b"")


def _head(kind: type[Any], text: bytes) -> Any:
    words = text.decode().split("|")
    numbers = {word.name: word.type == "int" for word in fields(kind)}
    return kind(*(int(word) if is_number else word for word, is_number in zip(words, numbers.values(), strict=True)))


def _bytes(part: str | bytes) -> bytes:
    return part.encode() if isinstance(part, str) else part


# ---- the calls


def copy_begin(call: Call, args: Arguments) -> Answer:
    """The header of a run that will be made from the records of another one."""
    latest, run_id, sequence = args.number(), args.text(), args.text()
    header = {args.text(): args.data() for _ in range(args.number())}
    status = call.get("status")
    if status == "creating":
        return call.answer("begun" if call.get("from_seq") == sequence else "moved")
    if status is not None:
        return call.answer("gone" if status == "deleting" else "opened")
    if call.now > latest:
        return call.answer("late", call.now)
    other = call.in_the_way(run_id, "reject")
    if other is not None:
        return call.answer("exists", *other)
    call.run.header.update(header)
    call.contents.runs[call.incarnation] = call.run
    open_by = call.now + OPEN_WITHIN_MS
    own = {"run_id": run_id, "from_seq": sequence, "open_by": open_by, "rev": f"0.{call.call_id}", "status": "creating"}
    for name, value in own.items():
        call.set(name, value)
    call.attend(open_by)
    return call.answer("begun")


def copy_fill(call: Call, args: Arguments) -> Answer:
    """A page of one record of a run that is being made."""
    if call.get("status") != "creating":
        return call.answer("gone")
    kind, key, name, offset = args.text(), args.text(), args.text(), args.number()
    values = args.take(args.number())
    if name:
        call.run.names.add(name)
    if kind == "text":
        length = len(_hash_of(call.run, key))
        if length < offset:
            return call.answer("gap", length)
    if values:
        put_record(call.run, kind, key, offset, values)
    return call.answer("filled")


def copy_open(call: Call, args: Arguments) -> Answer:
    """Opens a run whose records were copied."""
    run, status = call.run, call.get("status")
    run_id, max_steps = args.text(), args.text()
    patch = [(args.text(), args.data()) for _ in range(args.number())]
    forked = args.text() == "fork"
    if status is None:
        return call.answer("gone")
    if status != "creating":
        return call.answer("opened", call.flag("created"))
    if call.number("open_by") <= call.now:
        return call.answer("late")
    other = call.in_the_way(run_id, "reject")
    if other is not None:
        return call.answer("exists", *other)
    for name in ("open_by", "from_seq"):
        del run.header[name]
    for name, value in {"created": call.now, "updated": call.now, "status": "pending", "rev": call.revision()}.items():
        call.set(name, value)
    if max_steps:
        call.set("max_steps", max_steps)
    call.enlist(run_id)
    call.tell("status", "pending")
    call.start_clock()
    for name, value in patch:
        if not (forked and call.keep_before(name)):
            call.drop_large(ROOT_SCOPE, name)
        run.state.setdefault(ROOT_SCOPE, {})[name] = value
    run.names.add(f"{RUN_KEYS['STATE']}{ROOT_SCOPE}")
    if forked:
        _go_on(call)
    else:
        key, node, scope, purpose, limits = args.texts(5)
        body, origin, outcome = args.take(3)
        run.journal[f"@{node}"] = b"|".join((b"0", origin, outcome))
        run.bodies[key] = body
        call.place(key, call.new_head(node, "", scope, "", "w", limits), purpose)
    return call.answer("opened", call.flag("created"))


def _go_on(call: Call) -> None:
    run = call.run
    if call.paused():
        call.tell("paused")
    for key in by_score(run.ready)[:PAGE]:
        if run.frames[key].owner != PARKED:
            run.ready[key] = call.now + LOOK_MS
            call.out.append((key, run.frames[key].rev, run.frames[key].node))
    for key in (*by_score(run.failed), *by_score(run.leases)):
        head = run.frames[key]
        head.failures, head.losses, head.began = 0, 0, ""
        call.place(key, head, head.purpose)
    for number, opened in run.open.items():
        call.shard.inbox[f"{call.incarnation}#{number}"] = opened.opened
        call.tell("interrupt_opened", number, call.asking_step(opened.frame), opened.frame, "")
    if run.parked:
        call.shard.parked.add(call.incarnation)
    call.attend(call.now)
    call.settle()


def past(call: Call, args: Arguments) -> Answer:
    """The fields of the root scope as they were when a root step was first reached."""
    if call.gone():
        return call.answer("gone")
    position, names = args.text(), args.texts(args.number())
    journal, state = call.run.journal, call.run.state.get(ROOT_SCOPE, {})
    reached = journal.get(f"@{position}")
    if reached is None:
        return call.answer("unreached")
    mark, origin, outcome = reached.split(b"|", 2)
    kept: dict[str, int] = {}
    for slot in journal:
        found = _SLOT.fullmatch(slot)
        if found is not None and int(found[1]) >= int(mark):
            kept[found[2]] = min(int(found[1]), kept.get(found[2], int(found[1])))
    answers: list[bytes | None] = []
    weight = 0
    if not names:
        for name, at in kept.items():
            if journal[f"{at}|{name}"] == b"!":
                return call.answer("lost", name)
        answers = [name.encode() for name in state if name not in kept]
        answers += [name.encode() for name in kept]
    for name in names:
        value = journal[f"{kept[name]}|{name}"] if name in kept else state.get(name)
        if value == b"!":
            return call.answer("lost", name)
        value = None if value == b"-" else value
        weight += len(value or b"")
        if answers and weight > PAGE_BYTES:
            break
        answers.append(value)
    return call.answer("past", mark, origin, outcome, answers)
