"""Every key of the run store and what it holds. Nothing else spells a key.

A run lives in one of a fixed number of shards, chosen by a checksum of its run id. All keys of a shard carry its hash
tag, so one script touches one slot of a cluster::

    {wf:07}:attn      sorted set: incarnation by next attention of a sweeper, in ms
    {wf:07}:ids       hash: run id to its newest incarnation
    {wf:07}:runs      sorted set: incarnation by creation time, in ms; likewise for those of one status `runs:<status>`,
                      of one workflow `runs:w:<hash>` and with one tag `runs:t:<hash>`
    {wf:07}:parked    set: incarnations with parked frames
    {wf:07}:inbox     sorted set: `<incarnation>#<step number>` of open interrupts by opening time
    {wf:07}:confirmed string: written so that replicas have something to confirm
    {wf:07}:never     nothing, ever: named in every call, so that a slot that moves key by key refuses the call whole
    {wf:07}:r:<incarnation>:...    one run, below

Below a run (``base``)::

    h            hash, the header: identity, status, revision, counters, flags, input, output, error
    f            hash, frame heads by frame key: engine-made words separated by `|` (see lua/shared/records.lua)
    b            hash, frame bodies by frame key, opaque
    ready held paused leases waits failed      sorted sets of frame keys by time, in ms
    due          sorted set: deadlines of frames by time, in ms
    parked       hash: ready frames that a worker gave back, to the capability that it does not serve
    taken        hash: tokens that were taken from their worker, to step number, `|`, why; empty once it is traced
    hb           hash: by frame key the step number of a visit, `|`, what its handler said last in a heartbeat
    open closed  hashes, interrupts by step number
    holds        hash: activation key or `run`, to the step number of the interrupt that set it
    a            hash: activation heads by activation key, `<key>:t` their opaque template
    i:<act> r:<act> w:<act>        items by index; results by index; indexes of waiting items
    s:<scope>    hash: committed top-level state fields
    sc           hash: inputs of child scopes by scope key (the root's is in the header)
    l:<frame>    string: the pending writes of a concurrent item's lineage, one record a line
    o:<frame>    hash: what a reader of that lineage sees, by path: the last write's place in the order, `|`, the value
    x:<name>     string: one large value, staged in chunks
    j            hash, the journal: where each root step was first reached, and what fields of the root scope held then
    t            stream: trace entries, ids `<ordinal>-0`; `d` says why a result did not count
    e            stream: events, ids `<ordinal>-0`, the last 10,000 (see lua/shared/events.lua)
    k            set: names of the keys above that have a name of their own, for deletion

Elsewhere, each harmless alone::

    wf:doc:<digest>          string: a workflow document
    wf:flows wf:flow:<name>  set of workflow names; hash: version to digest
    wf:workers wf:worker:<name>   set of names; what a worker node serves, JSON, for as long as it lives
    wf:idem:<key>            string: what a submit with this idempotency key created
    wf:id                    string: what this store calls itself; messages of another one are refused
"""

from __future__ import annotations

import hashlib
import json
import zlib
from typing import Final

from wf_core.run_state import ITEM_FRAME, ROOT_SCOPE_ID, ExecutionFrame

LAYOUT: Final = "1"
"""Number of this record layout, in every run's header. A process that knows another one leaves the run alone.

Raise it with the first change that an older release would read wrongly. In every layout the header has the fields that
a list of runs shows, so that lists stay whole."""

DEFAULT_SHARDS: Final = 16

RUN_KEYS: Final = {
    "HEADER": "h",
    "FRAMES": "f",
    "BODIES": "b",
    "READY": "ready",
    "HELD": "held",
    "PAUSED": "paused",
    "LEASES": "leases",
    "WAITS": "waits",
    "FAILED": "failed",
    "DUE": "due",
    "BEATS": "hb",
    "PARKED": "parked",
    "TAKEN": "taken",
    "OPEN": "open",
    "CLOSED": "closed",
    "HOLDS": "holds",
    "ACTIVATIONS": "a",
    "ITEMS": "i:",
    "RESULTS": "r:",
    "WAITING": "w:",
    "STATE": "s:",
    "SCOPES": "sc",
    "LINEAGE": "l:",
    "OVERLAY": "o:",
    "STAGED": "x:",
    "JOURNAL": "j",
    "TRACE": "t",
    "EVENTS": "e",
    "NAMES": "k",
}
SHARD_KEYS: Final = {
    "ATTENTION": "attn",
    "IDS": "ids",
    "RUNS": "runs",
    "INBOX": "inbox",
    "PARKED_RUNS": "parked",
    "CONFIRMED": "confirmed",
    "NEVER": "never",
}


def short(text: str) -> str:
    """16 characters of the SHA-256 of an id: what scripts see instead of users' text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


ROOT_SCOPE: Final = short(ROOT_SCOPE_ID)
"""The key of the root scope."""


def lua_names() -> str:
    """The key names as Lua locals, put in front of every script."""
    names = {**RUN_KEYS, **SHARD_KEYS, "ROOT_SCOPE": ROOT_SCOPE, "LAYOUT": LAYOUT}
    return "".join(f"local {name} = '{text}'\n" for name, text in names.items())


def workflow_index(name: str) -> str:
    """The index of the runs of one workflow, whatever its version."""
    return f"w:{short(name)}"


def tag_index(name: str, value: str) -> str:
    """The index of the runs with one tag."""
    return f"t:{short(json.dumps([name, value]))}"


def frame_key(frame: ExecutionFrame) -> str:
    """The store key of a frame: items are ``<activation>:<index>``, so that a script can name them itself."""
    if frame.kind == ITEM_FRAME:
        return item_key(short(frame.metadata["activation_id"]), frame.metadata["loop_index"])
    return short(frame.id)


def item_key(activation: str, index: int) -> str:
    """The store key of an item frame, from its activation's key."""
    return f"{activation}:{index}"


class Keys:
    """Key names under one prefix."""

    def __init__(self, prefix: str = "wf", shards: int = DEFAULT_SHARDS) -> None:
        if not prefix or any(c in prefix for c in "{}|\n "):
            raise ValueError(f"the store prefix {prefix!r} may not be empty or hold braces, bars, blanks or newlines")
        self.prefix = prefix
        self.shards = shards

    def shard_of(self, run_id: str) -> int:
        """The shard of a run id."""
        return zlib.crc32(run_id.encode()) % self.shards

    def incarnation(self, run_id: str, nonce: str) -> str:
        """A new incarnation of a run id: it names its own shard, so that a message can be routed by it alone."""
        return f"{self.shard_of(run_id):02d}-{nonce}"

    def shard(self, number: int) -> str:
        """What every key of a shard begins with."""
        return f"{{{self.prefix}:{number:02d}}}:"

    def shard_of_incarnation(self, incarnation: str) -> int:
        """The shard an incarnation names; ``ValueError`` when it is none of this store's."""
        number, dash, nonce = incarnation.partition("-")
        if not dash or not nonce or not number.isdigit() or int(number) >= self.shards:
            raise ValueError(f"{incarnation!r} is no run of this store")
        return int(number)

    def base(self, incarnation: str) -> str:
        """What every key of a run begins with."""
        return f"{self.shard(self.shard_of_incarnation(incarnation))}r:{incarnation}:"

    def document(self, digest: str) -> str:
        """A workflow document."""
        return f"{self.prefix}:doc:{digest}"

    def flows(self) -> str:
        """The names of all published workflows."""
        return f"{self.prefix}:flows"

    def flow(self, name: str) -> str:
        """The versions of one published workflow."""
        return f"{self.prefix}:flow:{name}"

    def idempotency(self, key: str) -> str:
        """What a submit with this idempotency key created."""
        return f"{self.prefix}:idem:{key}"

    def workers(self) -> str:
        """The names of worker nodes."""
        return f"{self.prefix}:workers"

    def worker(self, name: str) -> str:
        """What a worker node serves."""
        return f"{self.prefix}:worker:{name}"

    def identity(self) -> str:
        """What this store calls itself."""
        return f"{self.prefix}:id"
