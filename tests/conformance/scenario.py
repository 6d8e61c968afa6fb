"""One run that takes every call at least once: staging, loops in loops, questions, a pause, losses, going on."""

from __future__ import annotations

from tests.conformance.driving import Driver, asks_about, start
from tests.conformance.workflows import each, items, nested
from tests.support.stores import StoreCase


def staged(case: StoreCase, run_id: str = "staged") -> Driver:
    """A foreach of 900 items, staged in three chunks and just opened."""
    run = start(case, each(active=2, outstanding=2), items(900), run_id=run_id)
    [opening] = run.work(run.ready[0])
    run.ready = run.work(opening)
    return run


def everything(case: StoreCase, run_id: str = "run") -> Driver:
    """A run at a point where every script has been called."""
    run = start(case, nested(outer="continue", inner="quiesce", active=3), items(4, 3), run_id=run_id, lease_ms=0)
    queue = list(run.work(run.ready[0]))
    lost = run.claim(queue.pop(0))
    queue += run.store.lost(run.incarnation, lost.frame, lost.token)[1]
    given = run.claim(queue.pop(0))
    run.store.renew(given)
    queue += run.store.give_back(given)
    parked = run.claim(queue.pop(0))
    run.store.give_back(parked, look_ms=1)
    case.pass_time(2)
    due = run.store.due(run.incarnation)
    assert due is not None
    [frame] = due.unclaimed
    queue += run.store.republish(run.incarnation, frame.frame, frame.score, look_ms=10, send=True)[1]
    run.drain(queue, asks_about(1))
    run.store.pause(run.incarnation, on=True)
    run.drain(run.answer())
    queue = list(run.store.pause(run.incarnation, on=False)[1])
    queue += run.store.release(run.incarnation)
    for _ in range(3):
        queue += run.work(queue.pop(0))
    run.ready = tuple(queue)
    return run
