"""What a worker does with one message, top to bottom.

    1 claim      the frame becomes ours for the length of a lease, and its slice comes with it     one script
    2 prepare    pure: the handler call of the step, or straight to 4 for a control step
    3 call       user code
    4 complete   pure: what the answer changes
    5 commit     all of it or nothing of it                                                         one script
    6 dispatch   one message for each frame that is due now

A worker may die anywhere in here. Before 1 nothing has happened; after 5 the sweeper sends the messages; in between the
lease runs out and the frame is claimed again under its next attempt, so a handler runs at least once and commits once.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, Final, TypeVar

from wf_core.errors import WfError, WorkflowExecutionError
from wf_core.models.results import NodeResult
from wf_core.plan import Program
from wf_core.runtime import kernel
from wf_core.runtime.failures import error_text
from wf_core.runtime.kernel import Walk
from wf_core.runtime.ops.nodes import NodeCall
from wf_core.runtime.transition import Purpose, Transition
from wf_worker.context import worker_context
from wf_worker.dispatch import Dispatcher
from wf_worker.errors import LayoutUnknown, PayloadTooLarge, RunDamaged, StoreError, StoreUnavailable
from wf_worker.handlers import HandlerRegistry
from wf_worker.leases import HeldClaim, LeaseKeeper
from wf_worker.patience import patiently
from wf_worker.store.protocol import Claim, CommitStatus, Ready, Refusal, Refused
from wf_worker.store.runs import RunStore, new_call_id
from wf_worker.store.slices import StoredSlice

log = logging.getLogger("wf.steps")

T = TypeVar("T")

PARK_MS = 30_000
"""How long a frame rests that nobody serves, unless a worker starts that does."""

OFFER_MS = 1_000
"""How soon a frame is offered again that this worker has no handler for and another one has."""


class StepEnd(StrEnum):
    """How a message was dealt with."""

    COMMITTED = "committed"
    REFUSED = "refused"
    """The message was stale or double, or the run was over, paused or held: nothing was done."""
    DISCARDED = "discarded"
    """The claim was lost before the commit: the result was refused, and the step runs again elsewhere."""
    LEFT = "left"
    """The run is of another release: a sweeper that knows its records sends the message again."""
    PARKED = "parked"
    """No handler of that name here: given back, no attempt spent."""


@dataclass(frozen=True, slots=True)
class StepRunner:
    """Everything that a step needs. One per process."""

    store: RunStore
    handlers: HandlerRegistry
    dispatcher: Dispatcher
    leases: LeaseKeeper
    owner: str

    def run(self, message: Ready) -> StepEnd:
        """Claims, executes and commits the frame a message names."""
        token = new_call_id()  # the same for every try: a claim whose answer was lost is ours already
        try:
            claim = self._patiently(lambda: self.store.claim(message, owner=self.owner, token=token))
        except LayoutUnknown as other:
            log.warning("message left to a newer worker run=%s frame=%s: %s", message.incarnation, message.frame, other)
            return StepEnd.LEFT
        if isinstance(claim, Refusal):
            log.debug("message refused run=%s frame=%s: %s", message.incarnation, message.frame, claim.reason.value)
            self._dispatch(claim.ready)
            return StepEnd.COMMITTED if claim.reason is Refused.ADMITTED else StepEnd.REFUSED
        with self.leases.keep(claim) as held:
            return self.execute(claim, held)

    def execute(self, claim: Claim, held: HeldClaim) -> StepEnd:
        """Steps 2 to 6 of a frame that is ours."""
        program = self.store.program(claim.view.digest)
        try:
            rule = self._rule(program, claim, held)
        except _Parked as parked:
            # Somebody who lives may serve it: then the frame is offered again soon, else it rests.
            look_ms = OFFER_MS if parked.capability in self.store.announced().capabilities else PARK_MS
            self._dispatch(self.store.give_back(claim, look_ms=look_ms, unserved=parked.capability))
            return StepEnd.PARKED
        except _ClaimLost:
            return StepEnd.DISCARDED
        try:
            return self._commit(claim, rule)
        except RunDamaged as damage:
            # Never read as absent: what cannot be what the engine wrote fails the run, and says which record it was.
            return self._commit(claim, _failed(program, claim.frame_id, damage))
        except PayloadTooLarge as error:
            return self._commit(claim, _failed(program, claim.frame_id, error))
        except WfError:
            raise
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            # The result cannot be written, and would not be the next time either: that is a failure of the step.
            log.exception("result cannot be stored run=%s frame=%s", claim.view.run_id, claim.frame)
            refused = WorkflowExecutionError(
                f"the result cannot be stored: {error_text(error)}", code="result_not_json"
            )
            return self._commit(claim, _failed(program, claim.frame_id, refused))

    def _rule(self, program: Program, claim: Claim, held: HeldClaim) -> Callable[[StoredSlice, Walk], Transition]:
        """Steps 2 and 3: what the kernel is to be asked in step 4."""
        frame_id = claim.frame_id
        if claim.denied:
            return lambda view, walk: kernel.deny(program, view, frame_id, walk=walk)
        match claim.purpose:
            case Purpose.STEP:
                return self._call_handler(program, claim, held)
            case Purpose.OPEN:
                return lambda view, walk: kernel.open_foreach(program, view, frame_id, walk=walk)
            case Purpose.FINISH:
                return lambda view, walk: kernel.finish_foreach(program, view, frame_id, walk=walk)
            case Purpose.ELAPSED:
                number = claim.step or 0
                return lambda view, walk: kernel.elapse(program, view, frame_id, number=number, walk=walk)
            case Purpose.EXPIRED:
                number = claim.step or 0
                return lambda view, walk: kernel.expire(program, view, frame_id, number=number, walk=walk)
            case Purpose.ATTEMPT_TIMEOUT | Purpose.HEARTBEAT_TIMEOUT:
                return _failed_once(program, claim, timed_out(claim))
            case Purpose.TOTAL_TIMEOUT | Purpose.QUEUE_TIMEOUT:
                return _failed(program, frame_id, timed_out(claim))
            case Purpose.LOST:
                lost = WorkflowExecutionError(
                    f"{claim.losses} workers died at step {claim.view.own.node_id!r}",
                    code="worker_lost",
                    path=f"nodes[{claim.view.own.node_id}]",
                    hint="look at the workers' logs: the handler may exhaust memory or crash the process",
                )
                return lambda view, walk: kernel.fail(program, view, frame_id, lost, walk=walk)
            case Purpose.WALK | Purpose.ADMIT:
                return lambda view, walk: kernel.walk_on(program, view, frame_id, walk=walk)

    def _call_handler(
        self, program: Program, claim: Claim, held: HeldClaim
    ) -> Callable[[StoredSlice, Walk], Transition]:
        frame_id, number = claim.frame_id, claim.step or 0
        try:
            call = self._decide(claim, lambda view: kernel.prepare(program, view, frame_id))
            self.handlers.check_input(call.handler, call.payload)
        except Exception as error:  # the step's own failure: a missing source, an invalid input
            return _failed(program, frame_id, error)
        if not self.handlers.serves(call.handler):
            log.warning("no handler here run=%s node=%s handler=%s", claim.view.run_id, call.node_id, call.handler)
            raise _Parked(call.handler)
        try:
            raw = self._call(claim, held, call)
        except Exception as error:  # user code may raise anything; the policies of step and loop decide what it means
            log.warning(
                "handler failed run=%s frame=%s node=%s handler=%s attempt=%d",
                *(claim.view.run_id, claim.frame, call.node_id, call.handler, claim.attempt),
                exc_info=error,
            )
            return _failed_once(program, claim, error)
        try:
            result = self.handlers.result_of(call.handler, raw)
        except WfError as error:  # the same answer would be no better the next time
            log.warning(
                "answer refused run=%s frame=%s node=%s: %s", claim.incarnation, claim.frame, call.node_id, error
            )
            return _failed(program, frame_id, error)
        return _Answered(program, call, result, number)

    def _call(self, claim: Claim, held: HeldClaim, call: NodeCall) -> Any:
        context = worker_context(
            call,
            claim,
            is_cancelled=held.lost.is_set,
            beat=lambda details: self.leases.renew(held, heartbeat=True, details=details),
        )
        return self.handlers.call(call.handler, call.handler_payload(), context)

    def _commit(self, claim: Claim, rule: Callable[[StoredSlice, Walk], Transition]) -> StepEnd:
        """Steps 4 to 6. A budget that does not admit the walk says how far it may go, and the rule is asked again."""
        left: int | None = None
        while True:
            walk = Walk(steps_left=left, max_steps=claim.view.max_steps)
            try:
                transition = self._decide(claim, partial(_ask, rule, walk))
            except _ClaimLost:
                return self._discarded(claim, rule)
            commit = partial(self.store.commit, claim, transition, call_id=new_call_id())
            committed = self._patiently(commit)
            match committed.status:
                case CommitStatus.BUDGET:
                    left = committed.left
                case CommitStatus.REFUSED:
                    log.info("result refused run=%s frame=%s: %s", claim.incarnation, claim.frame, committed.reason)
                    self._dispatch(committed.ready)
                    return self._discarded(claim, rule)
                case CommitStatus.DONE | CommitStatus.AGAIN:
                    self._dispatch(committed.ready)
                    return StepEnd.COMMITTED

    def _discarded(self, claim: Claim, rule: Callable[[StoredSlice, Walk], Transition]) -> StepEnd:
        if isinstance(rule, _Answered):
            self.store.discard(claim, rule.result.output)
        return StepEnd.DISCARDED

    def _decide(self, claim: Claim, rule: Callable[[StoredSlice], T]) -> T:
        decided = self._patiently(lambda: self.store.decide(claim, rule))
        if isinstance(decided, Refused):
            raise _ClaimLost
        return decided

    def _patiently(self, call: Callable[[], T]) -> T:
        return patiently(call, lease_ms=self.store.lease_ms)

    def _dispatch(self, ready: tuple[Ready, ...]) -> None:
        try:
            self.dispatcher.publish(ready)
        except StoreUnavailable as error:
            # The frames are ready in the store: whoever sweeps next sends what could not be sent now.
            log.warning("messages not sent, the sweeper will: %s", error)


@dataclass(frozen=True, slots=True)
class _Answered:
    """What the kernel makes of a handler's answer. Should that come too late, the trace tells of it."""

    program: Program
    call: NodeCall
    result: NodeResult
    number: int

    def __call__(self, view: StoredSlice, walk: Walk) -> Transition:
        return kernel.complete(self.program, view, self.call, self.result, number=self.number, walk=walk)


def _ask(rule: Callable[[StoredSlice, Walk], Transition], walk: Walk, view: StoredSlice) -> Transition:
    return rule(view, walk)


class _Parked(Exception):
    """No handler of that name is registered here."""

    def __init__(self, capability: str) -> None:
        super().__init__(capability)
        self.capability = capability


class _ClaimLost(Exception):
    """The store refused to read under the claim."""


def _failed(program: Program, frame_id: str, error: Exception) -> Callable[[StoredSlice, Walk], Transition]:
    if isinstance(error, _Parked | _ClaimLost) or (isinstance(error, StoreError) and not isinstance(error, RunDamaged)):
        raise error
    return lambda view, walk: kernel.fail(program, view, frame_id, error, walk=walk)


def _failed_once(program: Program, claim: Claim, error: Exception) -> Callable[[StoredSlice, Walk], Transition]:
    """The step's retry policy decides. The chance is drawn here, so that the rule may be asked again."""
    frame_id, failures, chance = claim.frame_id, claim.failures, random.random()
    return lambda view, walk: kernel.fail_or_retry(
        program, view, frame_id, error, failures=failures, chance=chance, walk=walk
    )


_TIMED_OUT: Final = {
    Purpose.ATTEMPT_TIMEOUT: ("did not end within timeout_seconds", "give it more time, or make it faster"),
    Purpose.TOTAL_TIMEOUT: ("did not succeed within total_timeout_seconds", "look at why its attempts fail"),
    Purpose.QUEUE_TIMEOUT: ("was taken up by nobody within queue_timeout_seconds", "start more workers that serve it"),
    Purpose.HEARTBEAT_TIMEOUT: (
        "gave no sign of life within heartbeat_seconds",
        "call ctx.heartbeat() more often than that, or allow more time between two",
    ),
}


def timed_out(claim: Claim) -> WorkflowExecutionError:
    """The error of a step that was out of time; its code is the purpose of the claim."""
    node_id = claim.view.own.node_id
    fault, hint = _TIMED_OUT[claim.purpose]
    return WorkflowExecutionError(
        f"step {node_id!r} {fault}", code=claim.purpose.value, path=f"nodes[{node_id}]", hint=hint
    )
