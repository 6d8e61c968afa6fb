"""A run store from settings."""

from __future__ import annotations

from collections.abc import Mapping

from wf_core.reducers import ReducerDefinition
from wf_worker.settings import Settings
from wf_worker.store.keys import Keys
from wf_worker.store.redis import RedisRecords, connect
from wf_worker.store.runs import RunStore


def open_store(settings: Settings, *, reducers: Mapping[str, ReducerDefinition] | None = None) -> RunStore:
    """The run store that the settings name. Connects when it is first used."""
    keys = Keys(settings.prefix, settings.shards)
    return RunStore(
        RedisRecords(connect(settings.store_url), keys),
        keys,
        reducers=reducers,
        lease_ms=int(settings.lease_seconds * 1000),
        max_losses=settings.max_losses,
    )
