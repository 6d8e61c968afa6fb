"""Every call of the in-memory store: the counterpart of the files in ``lua``, one function for each script.

Arguments and answers are those that the head of each script names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from wf_worker.store.keys import LAYOUT
from wf_worker.store.memory_copies import copy_begin, copy_fill, copy_open, past
from wf_worker.store.memory_rules import (
    LARGE_VALUE,
    LOOK_MS,
    PAGE,
    PAGE_BYTES,
    PARKED,
    SHORT,
    Answer,
    Arguments,
    Call,
)
from wf_worker.store.memory_state import FrameHead, RunRecords, TraceRecord, by_score


def create(call: Call, args: Arguments) -> Answer:
    """A new run, whole or not at all."""
    latest, run_id, _, closed_policy = args.number(), args.data(), args.text(), args.text()
    digest, max_steps, workflow_input = args.data(), args.data(), args.data()
    if call.get("status") is not None:
        if call.run.header["run_id"] == run_id:
            return call.answer("created", call.run.header["created"])
        return call.answer("exists", call.incarnation, call.flag("status"))
    if call.now > latest:
        return call.answer("late", call.now)
    other = call.in_the_way(run_id.decode(), closed_policy)
    if other is not None:
        return call.answer("exists", *other)
    now = str(call.now).encode()
    header = {
        "layout": LAYOUT.encode(),
        "run_id": run_id,
        "status": b"pending",
        "rev": f"1.{call.call_id}".encode(),
        "seq": b"1",
        "steps": b"0",
        "max_steps": max_steps,
        "digest": digest,
        "input": workflow_input,
        "created": now,
        "updated": now,
        "traced": b"0",
    }
    for _ in range(args.number()):
        name = args.text()
        header[name] = args.data()
    call.run.header.update(header)
    call.contents.runs[call.incarnation] = call.run
    call.enlist(run_id.decode())
    key, node, scope, purpose, limits, body = (
        args.text(), args.text(), args.text(), args.text(), args.text(), args.data(),
    )  # fmt: skip
    for _ in range(args.number()):
        name = args.text()
        call.run.state.setdefault(scope, {})[name] = args.data()
    call.run.names.add(f"s:{scope}")
    call.run.bodies[key] = body
    call.run.journal[f"@{node}"] = b"0||"
    call.start_clock()
    call.tell("status", "pending")
    call.place(key, call.new_head(node, "", scope, "", "w", limits), purpose)
    return call.answer("created", call.now)


def claim(call: Call, args: Arguments) -> Answer:
    """Gives a ready frame to a token, with the slice that its step reads."""
    if call.gone():
        return call.answer("gone")
    key, revision, token, owner, lease_ms = args.text(), args.text(), args.text(), args.text(), args.number()
    wants_input, names = _wants(args)
    head = call.run.frames.get(key)
    if call.ended() or call.failing():
        return call.answer("over", call.flag("status"))
    if head is not None and call.holds_token(head, token):
        denied = head.purpose == "step" and head.step == ""
        return call.answer("granted", *_granted(call, key, head, denied, wants_input, names))
    if head is None or head.place != "ready" or head.rev != revision:
        return call.answer("stale")
    if call.paused() or call.under_hold(head.chain, call.held_act(head)):
        call.place(key, head, head.purpose)
        call.settle()
        return call.answer(head.place)
    if head.purpose == "admit":
        if head.act not in call.run.activations:
            return call.answer("damaged", f"a {head.act}")
        call.leave(key, head)
        head.place, head.purpose, head.rev = "blocked", "", call.revision()
        call.admit(head.act)
        call.settle()
        return call.answer("admitted")
    denied = call.grant(key, head, token, owner, lease_ms)
    call.settle()
    return call.answer("granted", *_granted(call, key, head, denied, wants_input, names))


def _wants(args: Arguments) -> tuple[bool, list[str] | None]:
    wants_input = args.data() == b"1"
    return wants_input, args.names()


def _granted(
    call: Call, key: str, head: FrameHead, denied: bool, wants_input: bool, names: list[str] | None
) -> list[Any]:
    deadline = call.handler_deadline(head) if head.purpose == "step" and not denied else None
    first = head.purpose == "step" and head.attempt <= 1
    beat = b"|" if first else call.run.beats.get(key, b"|")
    step, _, said = beat.partition(b"|")
    counts = [head.attempt, head.losses, head.failures]
    return [
        *(head.purpose, head.step, *counts, "1" if denied else "0", head.rev),
        "" if deadline is None else deadline[0],
        said if step == head.step.encode() else b"",
        call.slice(key, wants_input=wants_input, names=names),
    ]


def load(call: Call, args: Arguments) -> Answer:
    """More of what a claimed frame reads."""
    if call.gone():
        return call.answer("gone")
    head, token = call.run.frames.get(args.text()), args.text()
    if call.ended():
        return call.answer("stale")
    if head is None or not (call.holds_token(head, token) or (head.place == "open" and head.rev == token)):
        return call.answer("stale")
    return call.answer("loaded", [_load(call, args) for _ in range(args.number())])


def _load(call: Call, args: Arguments) -> Any:
    match args.text():
        case "state":
            scope = args.text()
            return call.fields_of(scope, args.names())
        case "input":
            return call.input_of(args.text())
        case "item":
            return call.item_of(args.text(), small_only=False)
        case "results":
            act, start, stop = args.text(), args.number(), args.number()
            head, results = call.run.activations.get(act), call.run.results.get(act, {})
            return [None if head is None else str(head.items).encode(), _page(results, start, stop)]
        case "large":
            return call.run.staged.get(args.text())
        case _:
            return None


def _page(results: Mapping[str, bytes], start: int, stop: int) -> list[bytes | None]:
    """As many results as fit into a page by weight, at least one."""
    page: list[bytes | None] = []
    weight = 0
    for index in range(start, stop):
        result = results.get(str(index))
        weight += len(result or b"")
        if page and weight > PAGE_BYTES:
            break
        page.append(result)
    return page


def stage(call: Call, args: Arguments) -> Answer:
    """One chunk of a large value, or some items of a large foreach, ahead of the commit that makes them reachable."""
    if call.gone():
        return call.answer("gone")
    frame, token, kind, name, offset = args.text(), args.text(), args.text(), args.text(), args.number()
    pieces = args.take(args.number())
    if call.ended() or not call.holds_token(call.run.frames.get(frame), token):
        return call.answer("stale")
    run = call.run
    if kind == "items":
        items = run.items.get(name, {})
        if offset == 0 and any(items.get(str(i)) != piece for i, piece in enumerate(pieces)):
            items = {}
        if len(items) < offset:
            return call.answer("gap", len(items))
        items.update({str(offset + i): piece for i, piece in enumerate(pieces)})
        run.items[name] = items
        run.names.add(name)
        return call.answer("staged", len(items))
    [piece], value = pieces, run.staged.get(name, b"")
    if offset == 0 and not value.startswith(piece):
        value = b""
    if len(value) >= offset + len(piece):
        return call.answer("staged", len(value))
    if len(value) != offset:
        return call.answer("gap", len(value))
    run.staged[name] = value + piece
    run.names.add(f"x:{name}")
    return call.answer("staged", offset + len(piece))


def commit(call: Call, args: Arguments) -> Answer:
    """Applies a transition under a claim, or nothing of it."""
    if call.gone():
        return call.answer("gone")
    key, token, steps, next_token, next_owner, lease_ms = (
        args.text(), args.text(), args.number(), args.text(), args.text(), args.number(),
    )  # fmt: skip
    wants_input, names = _wants(args)
    operations = args.operations()
    head = call.run.frames.get(key)
    if head is not None and head.rev.endswith(f".{call.call_id}"):
        return call.answer("again")
    if call.ended():
        return call.answer("over", call.flag("status"))
    if head is None or not call.holds_token(head, token):
        return call.answer("stale")
    deadline = call.run.due.get(key) if head.until else None
    if deadline is not None and deadline <= call.now:
        which = head.until
        call.take_claim(head, f"{which}_timeout")
        call.place(key, head, f"{which}_timeout")
        call.settle()
        return call.answer("late", which)
    refusal = call.check_operations(operations, steps)
    if refusal is not None:
        return call.answer(*refusal)
    call.committer = head.owner
    call.leave(key, head)
    head.place, head.token, head.owner, head.rev = "blocked", "", "", call.revision()
    call.apply_operations(operations, steps)
    call.settle()
    head = call.run.frames.get(key)
    if next_token == "" or head is None or head.place != "ready" or head.purpose not in ("step", "walk"):
        return call.answer("done")
    if call.failing() or call.ended():
        return call.answer("done")
    call.out = [message for message in call.out if message[0] != key]
    denied = call.grant(key, head, next_token, next_owner, lease_ms)
    return call.answer("claimed", *_granted(call, key, head, denied, wants_input, names))


def discard(call: Call, args: Arguments) -> Answer:
    """A result that came after its claim was taken away, or after the run had ended, is told once in the trace."""
    if call.gone():
        return call.answer("gone")
    key, token, owner, entry = args.text(), args.text(), args.text(), args.data()
    head, taken = call.run.frames.get(key), call.run.taken.get(token)
    step, why = "", ""
    if taken is not None:
        step, _, why = taken.partition("|")
    elif call.ended() and head is not None and call.holds_token(head, token) and head.purpose == "step" and head.step:
        step, why = head.step, call.flag("status")
    if not why or call.get("trace") == "off":
        return call.answer("refused")
    call.run.taken[token] = ""
    call.set("traced", call.number("traced") + 1)
    call.run.trace.append(TraceRecord(step, owner, entry, why))
    return call.answer("traced", why)


def renew(call: Call, args: Arguments) -> Answer:
    """Extends a lease."""
    if call.gone():
        return call.answer("gone")
    key, token, lease_ms = args.text(), args.text(), args.number()
    if call.ended():
        return call.answer("cancelled" if call.get("status") == "cancelled" else "stale")
    head, beat, said = call.run.frames.get(key), args.data() == b"1", args.data()
    if head is None or not call.holds_token(head, token):
        return call.answer("stale")
    if beat and said:
        call.run.beats[key] = f"{head.step}|".encode() + said
    if beat and head.purpose == "step":
        call.watch_handler(key, head)
    call.run.leases[key] = call.now + lease_ms
    return call.answer("renewed")


def give_back(call: Call, args: Arguments) -> Answer:
    """A worker that cannot do a claimed frame puts it back; the attempt does not count, its queue's clock goes on."""
    if call.gone():
        return call.answer("gone")
    if call.ended():
        return call.answer("over", call.flag("status"))
    key, token, later, capability = args.text(), args.text(), args.number(), args.text()
    head = call.run.frames.get(key)
    if head is None or not call.holds_token(head, token):
        return call.answer("stale")
    if head.purpose == "step":
        head.attempt = max(0, head.attempt - 1)
        if head.attempt == 0:
            head.began = ""
    call.place(key, head, head.purpose, head.left)
    if later > 0 and head.place == "ready":
        call.run.ready[key] = call.now + later
        call.out = []
    if capability and head.place == "ready":
        call.park(key, head, capability)
    call.settle()
    return call.answer("given")


def unpark(call: Call, args: Arguments) -> Answer:
    """Frames that were given back unserved get their messages again, a page a call."""
    if call.gone() or call.ended():
        call.shard.parked.discard(call.incarnation)
        return call.answer("gone")
    served, moved = set(args.texts(args.number())), 0
    for key, capability in list(call.run.parked.items()):
        head = call.run.frames.get(key)
        if head is None or head.owner != PARKED or head.place != "ready" or capability not in served or moved == PAGE:
            continue
        moved += 1
        del call.run.parked[key]
        head.owner = ""
        call.run.ready[key] = call.now + LOOK_MS
        call.attend(call.now + LOOK_MS)
        call.out.append((key, head.rev, head.node))
    if not call.run.parked:
        call.shard.parked.discard(call.incarnation)
    return call.answer("unparked", moved)


def lost(call: Call, args: Arguments) -> Answer:
    """The worker that held a frame is gone; the token names the loss."""
    if call.gone():
        return call.answer("gone")
    if call.ended():
        return call.answer("over", call.flag("status"))
    key, token, limit, known_dead, error = args.text(), args.text(), args.number(), args.data() == b"1", args.data()
    head = call.run.frames.get(key)
    if head is None or not call.holds_token(head, token):
        return call.answer("stale")
    expiry = call.run.leases.get(key)
    if not known_dead and expiry is not None and expiry > call.now:
        return call.answer("alive", expiry)
    call.take_claim(head, "lost")
    head.losses += 1
    call.tell_of("attempt_failed", key, head, head.attempt, "lost")
    call.set("recovered", int(call.get("recovered") or "0") + 1)
    if head.losses > 2 * limit + 2:
        call.leave(key, head)
        head.place, head.token, head.owner, head.rev = "failed", "", "", call.revision()
        if head.purpose == "lost":
            head.purpose = "step" if head.step else "walk"
        call.run.failed[key] = call.now
        call.tell_of("step_failed", key, head)
        if not call.failing():
            call.set("failing", "!")
            call.set("fail_error", error)
    else:
        call.place(key, head, "lost" if head.losses > limit else head.purpose)
    call.settle()
    return call.answer("lost", head.losses)


def interrupt(call: Call, args: Arguments) -> Answer:
    """One open interrupt with the slice its answer needs."""
    if call.gone():
        return call.answer("gone")
    number = args.text()
    wants_input, names = _wants(args)
    opened = call.run.open.get(number)
    if opened is None:
        closed = call.run.closed.get(number)
        if closed is not None:
            return call.answer("answered", closed)
        return call.answer("over" if call.ended() else "closed", call.flag("status"))
    if call.ended() or call.failing():
        return call.answer("over", call.flag("status"))
    if call.out_of_time(opened):
        return call.answer("expired")
    if opened.frame not in call.run.frames:
        return call.answer("damaged", f"f {opened.frame}")
    return call.answer(
        "open", opened.text(), opened.record, call.slice(opened.frame, wants_input=wants_input, names=names)
    )


def resume(call: Call, args: Arguments) -> Answer:
    """One answer to one open interrupt."""
    if call.gone():
        return call.answer("gone")
    number, revision, idempotency_key, digest, steps = args.text(), args.text(), args.text(), args.text(), args.number()
    operations = args.operations()
    closed = call.run.closed.get(number)
    if closed is not None:
        first_call, first_key, first_digest, _ = closed.decode().split("|")
        same = idempotency_key != "" and (first_key, first_digest) == (idempotency_key, digest)
        return call.answer("again" if first_call == call.call_id or same else "answered", closed)
    if call.ended() or call.failing():
        return call.answer("over", call.flag("status"))
    opened = call.run.open.get(number)
    if opened is None:
        return call.answer("closed", call.flag("status"))
    if opened.rev != revision:
        return call.answer("stale", opened.rev)
    if call.out_of_time(opened):
        return call.answer("expired")
    head = call.run.frames.get(opened.frame)
    if head is None or head.place != "open":
        return call.answer("damaged", f"f {opened.frame}")
    refusal = call.check_operations(operations, steps)
    if refusal is not None:
        return call.answer(*refusal)
    call.close_interrupt(number, opened, "answered")
    call.run.closed[number] = f"{call.call_id}|{idempotency_key}|{digest}|{call.now}".encode()
    head.place, head.rev = "blocked", call.revision()
    call.lift(head.chain)
    call.apply_operations(operations, steps)
    call.settle()
    return call.answer("resumed", call.now)


def expire(call: Call, args: Arguments) -> Answer:
    """Nobody answered an interrupt in time: it takes no answer any more, and the next claimer asks the kernel."""
    if call.gone():
        return call.answer("gone")
    number, expiry = args.text(), args.text()
    opened = call.run.open.get(number)
    if call.ended() or call.failing() or opened is None or opened.expiry != expiry or not call.out_of_time(opened):
        return call.answer("refused")
    head = call.run.frames.get(opened.frame)
    if head is None or head.place != "open":
        return call.answer("damaged", f"f {opened.frame}")
    call.close_interrupt(number, opened, "expired")
    call.run.closed[number] = f"{call.call_id}||expired|{call.now}".encode()
    head.place, head.rev = "blocked", call.revision()
    call.lift(head.chain)
    call.fresh(head, "")
    head.step = number
    call.place(opened.frame, head, "expired")
    call.settle()
    return call.answer("expired")


def deadline(call: Call, args: Arguments) -> Answer:
    """The time of the whole run is over: it fails at once."""
    if call.gone():
        return call.answer("gone")
    named, error = args.text(), args.data()
    score = call.run.due.get("run")
    if call.ended() or score is None or str(score) != named or score > call.now:
        return call.answer("refused")
    del call.run.due["run"]
    call.set("failing", "!")
    call.set("error", error)
    call.finish("failed")
    return call.answer("failed")


def cancel(call: Call, args: Arguments) -> Answer:
    """Ends a run at once."""
    if call.gone():
        return call.answer("gone")
    revision, reason = args.text(), args.data()
    if call.ended():
        if call.get("status") == "cancelled" and call.flag("rev").endswith(f".{call.call_id}"):
            return call.answer("cancelled")
        return call.answer("over", call.flag("status"))
    if revision and revision != call.get("rev"):
        return call.answer("changed", call.flag("rev"))
    call.set("error", reason)
    call.finish("cancelled")
    return call.answer("cancelled")


def pause(call: Call, args: Arguments) -> Answer:
    """Stops new claims, or lets them go on."""
    if call.gone():
        return call.answer("gone")
    if call.ended():
        return call.answer("over", call.flag("status"))
    on, revision = args.text(), args.text()
    if (call.get("paused") or "0") == on:
        return call.answer("paused" if on == "1" else "running")
    if revision and revision != call.get("rev"):
        return call.answer("changed", call.flag("rev"))
    call.set("paused", on)
    call.set("paused_at", call.now)
    call.set("rev", call.revision())
    call.tell("paused" if on == "1" else "unpaused")
    if on == "0":
        call.set("release", "1")
        call.release()
    call.settle()
    return call.answer("paused" if on == "1" else "running")


def fail_run(call: Call, args: Arguments) -> Answer:
    """Ends a run whose records are damaged."""
    if call.gone():
        return call.answer("gone")
    if call.ended():
        return call.answer("over", call.flag("status"))
    call.set("failing", "!")
    call.set("damaged", "1")
    call.set("error", args.data())
    call.finish("failed")
    return call.answer("failed")


def retry_failed(call: Call, args: Arguments) -> Answer:
    """A failed run goes on: what failed is due again with a fresh count of failures, the rest stays as it is."""
    if call.gone():
        return call.answer("gone")
    revision, max_steps = args.text(), args.text()
    if call.get("status") != "failed":
        if call.get("retry") == call.call_id:
            return call.answer("retried", 0)
        return call.answer("not_failed", call.flag("status"))
    if revision and revision != call.get("rev"):
        return call.answer("changed", call.flag("rev"))
    if call.get("damaged") == "1" or call.get("deadlocked") == "1":
        return call.answer("damaged")
    if max_steps and int(max_steps) <= call.number("steps"):
        return call.answer("budget", call.number("steps"))
    for name in ("failing", "fail_error", "error", "ended"):
        call.run.header.pop(name, None)
    call.set("retry", call.call_id)
    if max_steps:
        call.set("max_steps", max_steps)
    call.set_status("running")
    failed = by_score(call.run.failed)
    for key in failed:
        head = call.run.frames[key]
        head.failures, head.losses, head.began = 0, 0, ""
        call.place(key, head, head.purpose)
    for number, opened in sorted(call.run.open.items(), key=lambda interrupt: int(interrupt[0])):
        call.shard.inbox[f"{call.incarnation}#{number}"] = opened.opened
        call.tell("interrupt_opened", number, call.asking_step(opened.frame), opened.frame, "")
    call.attend(call.now)
    call.settle()
    return call.answer("retried", len(failed))


def release(call: Call, args: Arguments) -> Answer:
    """The next page of frames whose hold or pause is gone."""
    if call.gone():
        return call.answer("gone")
    if not call.ended() and call.flag("release"):
        call.release()
        call.settle()
    return call.answer("released")


def republish(call: Call, args: Arguments) -> Answer:
    """The message of a ready frame is sent again, or only looked for later."""
    if call.gone():
        return call.answer("gone")
    if call.ended() or call.failing():
        return call.answer("refused")
    key, named, look_ms, send, unserved = (
        args.text(), args.text(), args.number(), args.data() == b"1", args.text(),
    )  # fmt: skip
    head, score = call.run.frames.get(key), call.run.ready.get(key)
    if head is None or score is None or str(score) != named:
        return call.answer("refused")
    call.run.ready[key] = call.now + look_ms
    call.attend(call.now + look_ms)
    head.looks += 1
    if unserved:
        call.park(key, head, unserved)
    elif head.owner == PARKED:
        call.run.parked.pop(key, None)
        head.owner = ""
    if send:
        call.out = [(key, head.rev, head.node)]
        return call.answer("sent")
    return call.answer("later")


def fire(call: Call, args: Arguments) -> Answer:
    """Frames whose time has come are due, a page a call."""
    if call.gone():
        return call.answer("gone")
    if call.ended() or call.failing():
        return call.answer("refused")
    waits = call.run.waits
    page = [key for key in by_score(waits) if waits[key] <= call.now][:PAGE]
    for key in page:
        if key not in call.run.frames:
            return call.answer("damaged", f"f {key}")
    for key in page:
        call.place(key, call.run.frames[key], call.run.frames[key].purpose)
    if len(page) == PAGE:
        call.attend(call.now)
    call.settle()
    return call.answer("fired", len(page))


def fence(call: Call, args: Arguments) -> Answer:
    """A frame's deadline has passed: whoever works on it is shut out, and the next claimer asks the kernel."""
    if call.gone():
        return call.answer("gone")
    key, named = args.text(), args.text()
    head, score = call.run.frames.get(key), call.run.due.get(key)
    if call.ended() or head is None or not head.until or score is None or str(score) != named or score > call.now:
        return call.answer("refused")
    which = head.until
    if which == "queue" and (call.paused() or call.under_hold(head.chain, None)):
        call.place(key, head, head.purpose)
        call.settle()
        return call.answer("stopped")
    call.take_claim(head, f"{which}_timeout")
    call.place(key, head, f"{which}_timeout")
    call.settle()
    return call.answer("fenced", which)


def due(call: Call, args: Arguments) -> Answer:
    """What of a run wants a sweeper now, and when to look at it next."""
    attention = call.shard.attention
    if call.get("status") == "creating":
        if call.number("open_by") <= call.now:
            return call.answer("reap")
        attention[call.incarnation] = call.number("open_by")
        return call.answer("gone")
    if call.gone():
        attention.pop(call.incarnation, None)
        return call.answer("gone")
    if call.ended():
        kept_until = call.kept_until()
        if kept_until is not None and kept_until <= call.now:
            return call.answer("reap")
        call.attend_at_last()
        return call.answer("due", call.flag("status"), "", [], [], call.now, 0, [], "", "")
    run, limit, ahead = call.run, args.number(), args.number()
    expired: Answer = []
    unclaimed: Answer = []
    elapsed = 0
    for key in [key for key in by_score(run.leases) if run.leases[key] <= call.now][:limit]:
        head = run.frames.get(key)
        expired += [key.encode(), head.token.encode() if head is not None else b""]
    overdue = [key for key in by_score(run.due) if run.due[key] <= call.now][:limit]
    if not call.failing():
        elapsed = sum(1 for score in run.waits.values() if score <= call.now)
        for key in [key for key in by_score(run.ready) if run.ready[key] <= call.now + ahead][:limit]:
            head = run.frames.get(key)
            if head is not None:
                unclaimed += [key.encode(), str(run.ready[key]).encode(), head.text()]
    scored = [part.encode() for key in overdue for part in (key, str(run.due[key]))]
    times = [min(scores.values()) for scores in (run.leases, run.ready, run.waits, run.due) if scores]
    if call.flag("release"):
        times = [call.now]
    if times:
        attention[call.incarnation] = max(min(times), call.now + 1000)
    else:
        attention.pop(call.incarnation, None)
    return call.answer(
        *("due", call.flag("status"), call.flag("release"), expired, unclaimed, call.now, elapsed, scored),
        *(call.flag("digest"), call.flag("priority")),
    )


def reap(call: Call, args: Arguments) -> Answer:
    """Nothing of an ended run is left when its time is over. In memory it is one page."""
    status = call.get("status")
    if status is None:
        call.shard.attention.pop(call.incarnation, None)
        return call.answer("gone")
    kept_until = call.kept_until() if call.ended() else None
    if status == "creating":
        kept_until = call.number("open_by")
    if kept_until is None or kept_until > call.now:
        return call.answer("refused")
    for index in (status, *call.own_indexes()):
        call.shard.runs_by.get(index, {}).pop(call.incarnation, None)
    run_id = call.flag("run_id")
    if call.shard.ids.get(run_id) == call.incarnation:
        del call.shard.ids[run_id]
    for index in (call.shard.runs, call.shard.attention):
        index.pop(call.incarnation, None)
    call.shard.parked.discard(call.incarnation)
    del call.contents.runs[call.incarnation]
    return call.answer("reaped")


def audit(call: Call, args: Arguments) -> Answer:
    """What an audit of a small run needs."""
    if call.gone():
        return call.answer("gone")
    run = call.run
    heads = [part for key, head in run.frames.items() for part in (key.encode(), head.text())]
    sets = [
        [key.encode() for key in by_score(s)]
        for s in (run.ready, run.held, run.paused, run.leases, run.waits, run.failed)
    ]
    opened = [part for n, r in run.open.items() for part in (n.encode(), r.text(), f"b{n}".encode(), r.record)]
    holds = [part.encode() for pair in run.holds.items() for part in pair]
    activations: Answer = []
    counts: Answer = []
    for key, act in run.activations.items():
        activations += [key.encode(), act.text(), f"{key}:t".encode(), run.templates[key]]
        sizes = (len(run.results.get(key, {})), len(run.waiting.get(key, ())))
        counts += [key.encode(), *(str(size).encode() for size in sizes)]
    header = [part for name, value in run.header.items() for part in (name.encode(), value)]
    deadlines = [key.encode() for key in by_score(run.due)]
    told = [[f"{event.ordinal}-0".encode(), [b"e", event.text]] for event in run.events]
    events = [str(len(told)).encode(), told[:1], told[-1:]]
    return call.answer(
        "audit", header, heads, *sets, opened, holds, activations, counts, deadlines, events, _journal(run)
    )


_AUDITED_FIELDS: Final = ("status", "failing", "paused", "release", "seq", "steps", "max_steps", "rev", "events")


def audit_page(call: Call, args: Arguments) -> Answer:
    """What an audit reads of one record. In memory it is one page."""
    if call.gone():
        return call.answer("gone")
    run, name = call.run, args.text()
    page: Answer
    match name:
        case "header":
            header = [
                part for field in _AUDITED_FIELDS if field in run.header for part in (field.encode(), run.header[field])
            ]
            page = [header, str(len(run.frames)).encode(), str(2 * len(run.open)).encode()]
        case "e":
            told = [[f"{event.ordinal}-0".encode(), [b"e", event.text]] for event in run.events]
            page = [str(len(told)).encode(), told[:1], told[-1:]]
        case "f":
            page = [part for key, head in run.frames.items() for part in (key.encode(), head.text())]
        case "open":
            page = [part for number, opened in run.open.items() for part in (number.encode(), opened.text())]
        case "holds":
            page = [part.encode() for pair in run.holds.items() for part in pair]
        case "a":
            page = []
            for key, act in run.activations.items():
                sizes = (len(run.results.get(key, {})), len(run.waiting.get(key, ())))
                page += [key.encode(), act.text(), *(str(size).encode() for size in sizes)]
                page += [f"{key}:t".encode(), b"", b"", b""]
        case _:
            page = [key.encode() for key in by_score(getattr(run, name))]
    return call.answer("audit_page", call.number("seq"), 0, page)


def _journal(run: RunRecords) -> Answer:
    """Every slot of the journal, its value where it is short, and the length of the large value that it names."""
    parts: Answer = []
    for slot, value in run.journal.items():
        named = LARGE_VALUE.fullmatch(value) if len(value) <= SHORT else None
        length = b"" if named is None else str(len(run.staged.get(named[1].decode(), b""))).encode()
        parts += [slot.encode(), value if len(value) <= SHORT else b"", length]
    return parts


SCRIPTS: Final[Mapping[str, Callable[[Call, Arguments], Answer]]] = {
    "audit": audit,
    "audit_page": audit_page,
    "cancel": cancel,
    "claim": claim,
    "commit": commit,
    "copy_begin": copy_begin,
    "copy_fill": copy_fill,
    "copy_open": copy_open,
    "create": create,
    "deadline": deadline,
    "discard": discard,
    "due": due,
    "expire": expire,
    "fail_run": fail_run,
    "fence": fence,
    "fire": fire,
    "give_back": give_back,
    "interrupt": interrupt,
    "load": load,
    "lost": lost,
    "past": past,
    "pause": pause,
    "reap": reap,
    "release": release,
    "renew": renew,
    "republish": republish,
    "resume": resume,
    "retry_failed": retry_failed,
    "stage": stage,
    "unpark": unpark,
}
