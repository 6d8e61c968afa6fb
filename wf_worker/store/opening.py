"""A run store from settings."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from wf_core.reducers import ReducerDefinition
from wf_worker.errors import StoreUnavailable
from wf_worker.settings import Settings
from wf_worker.store.keys import Keys
from wf_worker.store.redis import RedisRecords, connect
from wf_worker.store.runs import RunStore
from wf_worker.store.server_check import check_durability, check_server

log = logging.getLogger("wf.store")


def open_store(settings: Settings, *, reducers: Mapping[str, ReducerDefinition] | None = None) -> RunStore:
    """The run store that the settings name. Connects when it is first used."""
    keys = Keys(settings.prefix, settings.shards)
    return RunStore(
        RedisRecords(connect(settings.store_url), keys, confirmations=settings.promised.replicas),
        keys,
        reducers=reducers,
        lease_ms=int(settings.lease_seconds * 1000),
        max_losses=settings.max_losses,
        field_bytes=settings.field_bytes,
    )


def verify_server(settings: Settings) -> None:
    """Says what is wrong with the store's server, and raises ``store_unsuitable`` where that could lose runs.

    One that cannot be reached yet is not judged: it may come up later.
    """
    records = RedisRecords(connect(settings.store_url))
    try:
        warnings = [warning for facts in records.facts() for warning in check_server(facts)]
        for persistence in records.persistence():
            check_durability(settings.promised, persistence)
    except StoreUnavailable as error:
        log.warning("the store's server was not checked: %s", error)
        return
    finally:
        records.close()
    for warning in dict.fromkeys(warnings):
        log.warning("the store's server: %s", warning)
