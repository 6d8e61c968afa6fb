"""Servers that cannot keep runs are refused, and doubtful ones warned about."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tests.support.valkey import EmbeddedValkey
from wf_worker.errors import SettingsInvalid
from wf_worker.settings import Settings
from wf_worker.store.opening import verify_server
from wf_worker.store.server_check import check_server

GOOD: dict[str, Any] = {
    "redis_version": "7.2.4",
    "maxmemory": 0,
    "maxmemory_policy": "noeviction",
    "aof_enabled": 1,
    "role": "master",
}


def test_a_good_server_is_not_warned_about() -> None:
    assert check_server(GOOD) == []


@pytest.mark.parametrize(
    ("facts", "word"),
    [
        ({"redis_version": "6.0.16"}, "6.0.16"),
        ({"redis_version": "5.0"}, "5.0"),
        ({"maxmemory": 1000, "maxmemory_policy": "allkeys-lru"}, "allkeys-lru"),
        ({"role": "slave"}, "replica"),
    ],
)
def test_a_server_that_may_lose_records_is_refused_with_the_repair(facts: dict[str, Any], word: str) -> None:
    with pytest.raises(SettingsInvalid, match=word) as refused:
        check_server({**GOOD, **facts})

    assert (refused.value.code, refused.value.path) == ("store_unsuitable", "WF_STORE_URL")
    assert refused.value.hint


@pytest.mark.parametrize(
    ("facts", "word"),
    [({"maxmemory_policy": "volatile-ttl"}, "volatile-ttl"), ({"aof_enabled": 0}, "append-only")],
)
def test_a_doubtful_server_is_warned_about(facts: dict[str, Any], word: str) -> None:
    [warning] = check_server({**GOOD, **facts})

    assert word in warning


def test_a_real_server_is_judged_by_what_it_says(valkey: EmbeddedValkey, caplog: pytest.LogCaptureFixture) -> None:
    settings = Settings(store_url=valkey.url)
    with valkey.client() as client:
        before = client.config_get("maxmemory*")
        try:
            client.config_set("maxmemory-policy", "allkeys-lru")
            client.config_set("maxmemory", "100mb")
            with pytest.raises(SettingsInvalid, match="allkeys-lru"):
                verify_server(settings)
        finally:
            client.config_set("maxmemory-policy", before["maxmemory-policy"])
            client.config_set("maxmemory", before["maxmemory"])
    verify_server(settings)


def test_a_server_that_is_not_there_is_not_judged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "wf.store"):
        verify_server(Settings(store_url="redis://127.0.0.1:1/0"))

    assert "was not checked" in caplog.text
