"""Rules of the store, each switched off by a function that lacks it. The simulation must notice every one.

A sabotage replaces functions of the store in memory, which does what the scripts do. The texts that are taken out of
them must be there exactly once; a sabotage that no longer fits the code fails loudly, and is then to be fitted to it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tests.support.patching import Patch, rewritten
from wf_worker.store import memory_scripts
from wf_worker.store.answers import Answers
from wf_worker.store.claims import Claims
from wf_worker.store.memory_rules import Call
from wf_worker.store.protocol import Claim


@dataclass(frozen=True)
class Sabotage:
    """A rule that is switched off: its name, what it says, and how."""

    name: str
    rule: str
    patches: Callable[[], list[Patch]]


def rule_of(name: str, *changes: tuple[str, str]) -> Patch:
    """What all calls share, changed."""
    return Patch(Call, name, rewritten(getattr(Call, name), *changes))


def script(name: str, *changes: tuple[str, str]) -> Patch:
    """One script, changed."""
    scripts: Any = memory_scripts.SCRIPTS
    return Patch(scripts, name, rewritten(scripts[name], *changes))


def _attempt_fence() -> list[Patch]:
    grant, granted = Call.grant, Claims._granted

    def counted(self: Call, key: str, head: Any, *rest: Any) -> bool:
        denied = grant(self, key, head, *rest)
        head.token = head.rev.partition(".")[0]
        return denied

    def told(self: Claims, *args: Any) -> Claim:
        claim = granted(self, *args)
        claim.token = claim.revision.partition(".")[0]
        return claim

    return [Patch(Call, "grant", counted), Patch(Claims, "_granted", told)]


def _no_interrupt_stamp() -> list[Patch]:
    resume = Answers.resume

    def unnamed(self: Answers, *args: Any, revision: str | None = None, **more: Any) -> Any:
        return resume(self, *args, **more)

    return [Patch(Answers, "resume", unnamed), script("resume", ("if opened.rev != revision:", "if False:"))]


CHANGED: Final = ('if revision and revision != call.get("rev"):', "if False:")
STOPPED: Final = (
    "    if self.failing() or self.paused() or self.under_hold(act.chain, None):\n"
    '        self.signal(act.controller, "admit")\n'
    "        return\n"
)

SABOTAGES: Final = (
    Sabotage(
        "attempt_fence",
        "a claim is a random token; here a number, which is given out again after a lost tail",
        _attempt_fence,
    ),
    Sabotage(
        "counter_stamps",
        "a revision names the call that set it; here it is a number only",
        lambda: [rule_of("revision", ("{self.new_sequence}.{self.call_id}", "{self.new_sequence}.x"))],
    ),
    Sabotage(
        "unfenced_stage",
        "values are staged under the claim's token",
        lambda: [script("stage", (" or not call.holds_token(call.run.frames.get(frame), token)", ""))],
    ),
    Sabotage(
        "no_unstaged_check",
        "a commit checks that what it makes reachable was staged whole",
        lambda: [
            rule_of(
                "check_operations",
                ('if name == "open" and args[13] == b"1"', "if False"),
                ('if name == "staged"', "if False"),
            )
        ],
    ),
    Sabotage(
        "no_admit_on_wait",
        "an item that begins to wait for a person makes room for another one",
        lambda: [rule_of("open_interrupt", ("add(near_index)\n        self.admit(near_act)", "add(near_index)"))],
    ),
    Sabotage(
        "no_cap_continuation",
        "a call that admits only its page leaves a signal for the rest",
        lambda: [
            rule_of("admit", ('    if act.next_index < last:\n        self.signal(act.controller, "admit")\n', ""))
        ],
    ),
    Sabotage(
        "no_deferred_admit",
        "a call that may not admit, the run being paused or held, leaves a signal",
        lambda: [
            rule_of("admit", (STOPPED, _only("self.failing()", "self.paused() or self.under_hold(act.chain, None)")))
        ],
    ),
    Sabotage(
        "no_signal_failing",
        "a call that may not admit, the run being failing, leaves a signal for whoever retries it",
        lambda: [
            rule_of("admit", (STOPPED, _only("self.paused() or self.under_hold(act.chain, None)", "self.failing()")))
        ],
    ),
    Sabotage(
        "no_upgrade",
        "finishing replaces a pending admission",
        lambda: [
            rule_of("signal", ('(purpose == "admit" and self.due_for(head, "admit"))', 'self.due_for(head, "admit")'))
        ],
    ),
    Sabotage(
        "count_claims",
        "all attempts of a visit share one step of the budget",
        lambda: [rule_of("grant", ("if not head.step:", "if True:"))],
    ),
    Sabotage(
        "no_settle_on_refusal",
        "a refused claim, too, decides whether the run is at rest",
        lambda: [
            script(
                "claim",
                (
                    "call.place(key, head, head.purpose)\n        call.settle()\n",
                    "call.place(key, head, head.purpose)\n",
                ),
            )
        ],
    ),
    Sabotage("no_interrupt_stamp", "an answer names the revision of what it answers", _no_interrupt_stamp),
    Sabotage(
        "no_era",
        "pausing, cancelling and retrying name the life of the run that they were decided on",
        lambda: [script(name, CHANGED) for name in ("pause", "cancel", "retry_failed")],
    ),
    Sabotage(
        "ready_not_written",
        "a commit writes the frames that are due into the ready set; their messages may get lost",
        lambda: [
            rule_of(
                "place",
                (
                    "self.run.ready[key] = self.now + LOOK_MS",
                    "self.committer or self.run.ready.update({key: self.now + LOOK_MS})",
                ),
            )
        ],
    ),
    Sabotage(
        "arrivals_counted",
        "an arrival is recorded by its item; here arrivals are counted",
        lambda: [
            rule_of("_arrive", ("setdefault(key, {})[index] =", "setdefault(key, {})[str(len(run.results[key]))] =")),
            rule_of(
                "check_operations",
                ("if args[1].decode() in run.results.get(key, {}):", "if len(run.results.get(key, {})) >= act.items:"),
            ),
        ],
    ),
    Sabotage(
        "lease_not_checked",
        "a claim is lost only when its lease is over by the store's clock",
        lambda: [script("lost", ("if not known_dead and expiry is not None and expiry > call.now:", "if False:"))],
    ),
)


def _only(signalled: str, silent: str) -> str:
    return (
        f"    if {signalled}:\n"
        '        self.signal(act.controller, "admit")\n'
        "        return\n"
        f"    if {silent}:\n"
        "        return\n"
    )
