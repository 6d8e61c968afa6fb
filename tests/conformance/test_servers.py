"""What holds on real servers: scripts may be forgotten, keys stay in their slot, damage is named."""

from __future__ import annotations

import pytest

from tests.conformance.driving import Driver, start
from tests.conformance.scenario import everything, staged
from tests.conformance.workflows import each, items, line
from tests.support.stores import NAMED, RedisCase
from wf_worker.errors import RunDamaged
from wf_worker.store.keys import RUN_KEYS
from wf_worker.store.protocol import Refusal


def test_a_server_that_forgets_its_scripts_before_every_call_is_not_noticed(server_case: RedisCase) -> None:
    if server_case.kind == NAMED:
        pytest.skip("the scripts of others would be forgotten as well")
    server_case.records.before = lambda: server_case.client.script_flush()
    run = everything(server_case)

    assert run.status == "running"


def keys_of(name: bytes, args: list[bytes]) -> list[bytes]:
    """The keys among a command's arguments."""
    match name:
        case b"DEL":
            return args
        case b"ZINTER":
            return args[1 : 1 + int(args[0])]
        case _:
            return args[:1]


def test_every_key_that_a_call_touches_carries_the_hash_tag_of_its_shard(server_case: RedisCase) -> None:
    if server_case.kind == NAMED:
        pytest.skip("other users' commands would be seen as well")
    tag = server_case.keys.shard(server_case.keys.shard_of("run")).encode()
    server = server_case.node_of(tag.decode())
    with server.monitor() as monitor:
        commands = monitor.listen()
        everything(server_case)
        server.echo("end")
        touched: set[bytes] = set()
        by_scripts = 0
        for seen in commands:
            name, *args = seen["command"].encode().split(b" ")
            if name == b"ECHO":
                break
            if seen["client_type"] == "lua" and name.upper() != b"TIME":
                by_scripts += 1
                touched.update(keys_of(name.upper(), args))

    assert by_scripts > 1000
    assert {key for key in touched if not key.startswith(tag)} == set()


def test_the_keys_of_a_run_are_those_of_the_catalogue(server_case: RedisCase) -> None:
    run = everything(server_case)
    with server_case.unaudited():
        staged(server_case)
    base = server_case.keys.base(run.incarnation).encode()
    fixed = {text.encode() for text in RUN_KEYS.values() if not text.endswith(":")}
    named = tuple(text.encode() for text in RUN_KEYS.values() if text.endswith(":"))

    for key in server_case.names():
        if key.startswith(base):
            rest = key.removeprefix(base)
            assert rest in fixed or rest.startswith(named), rest


def run_with_everything_in_reach(case: RedisCase) -> Driver:
    """A claimed item of a window with room left, so that its commit touches nearly every record."""
    return start(case, each(active=2, outstanding=9, interrupt="continue"), items(6))


@pytest.mark.parametrize(
    "record", sorted(set(RUN_KEYS) - {"STAGED", "ITEMS", "RESULTS", "WAITING", "STATE", "LINEAGE", "OVERLAY", "TAKEN"})
)
def test_a_record_of_the_wrong_type_is_damage_and_nothing_is_written(server_case: RedisCase, record: str) -> None:
    run = run_with_everything_in_reach(server_case)
    first, _ = run.work(run.ready[0])
    claim = run.claim(first)
    transition = run.transition(claim, "ask")
    server_case.records.auditing = False
    key = server_case.keys.base(run.incarnation) + RUN_KEYS[record]
    server_case.client.delete(key)
    if record in ("HEADER", "FRAMES", "LEASES"):
        server_case.client.rpush(key, "wrong")
    else:
        server_case.client.set(key, "wrong")
    before = server_case.contents()

    try:
        committed = run.store.commit(claim, transition)
    except RunDamaged as damage:
        assert damage.code == "damaged"
        assert server_case.contents() == before
    else:
        assert record in ("PAUSED", "HELD", "WAITS", "FAILED", "CLOSED", "RESULTS"), committed


@pytest.mark.parametrize("kind", ["STATE", "LINEAGE", "OVERLAY", "RESULTS", "ITEMS", "WAITING"])
def test_a_named_record_of_the_wrong_type_is_damage_and_nothing_is_written(server_case: RedisCase, kind: str) -> None:
    if kind == "STATE":
        run = start(server_case, line())
        claim = run.claim(run.ready[0])
        name = claim.view.head(claim.frame_id).scope
    else:
        run = run_with_everything_in_reach(server_case)
        claim = run.claim(run.work(run.ready[0])[0])
        name = claim.frame if kind in ("LINEAGE", "OVERLAY") else claim.frame.rpartition(":")[0]
    transition = run.transition(claim)
    server_case.records.auditing = False
    key = server_case.keys.base(run.incarnation) + RUN_KEYS[kind] + name
    server_case.client.delete(key)
    server_case.client.rpush(key, "wrong")
    before = server_case.contents()

    with pytest.raises(RunDamaged):
        run.store.commit(claim, transition)

    assert server_case.contents() == before


def test_a_claim_that_cannot_be_written_down_as_taken_is_not_taken(server_case: RedisCase) -> None:
    run = start(server_case, line(), lease_ms=0)
    claim = run.claim(run.ready[0])
    server_case.records.auditing = False
    server_case.client.set(server_case.keys.base(run.incarnation) + RUN_KEYS["TAKEN"], "wrong")
    before = server_case.contents()

    with pytest.raises(RunDamaged):
        run.store.lost(run.incarnation, claim.frame, claim.token)

    assert server_case.contents() == before


def test_a_header_of_the_wrong_type_is_damage_to_everyone(server_case: RedisCase) -> None:
    run = start(server_case, line())
    server_case.records.auditing = False
    key = server_case.keys.base(run.incarnation) + RUN_KEYS["HEADER"]
    server_case.client.delete(key)
    server_case.client.set(key, "wrong")

    with pytest.raises(RunDamaged):
        run.claim(run.ready[0])
    with pytest.raises(RunDamaged):
        run.store.inspect(run.incarnation)


def test_a_run_of_which_a_frame_has_lost_its_body_ends_and_names_the_record(server_case: RedisCase) -> None:
    run = start(server_case, line())
    claim = run.claim(run.ready[0])
    server_case.records.auditing = False
    key = server_case.keys.base(run.incarnation) + RUN_KEYS["BODIES"]
    server_case.client.delete(key)

    refusal = run.store.claim(run.ready[0], owner="worker", token=claim.token)

    assert isinstance(refusal, Refusal)
    record = run.store.inspect(run.incarnation)
    assert record is not None
    assert (record.status, record.error and record.error["type"]) == ("failed", "damaged")
    assert record.error is not None
    assert claim.frame in record.error["message"]
