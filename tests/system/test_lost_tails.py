"""Real processes at `everysec`: the store's machine fails, the end of its file is gone, and every run ends right."""

from __future__ import annotations

import os
import random
import threading
from pathlib import Path

from tests.chaos.customers import Answerer, Clock, Customer
from tests.chaos.installation import Installation
from tests.chaos.ledger import Ledger
from tests.chaos.profiles import PROFILES
from tests.support.waiting import eventually

TAIL_BYTES = 20_000


def test_runs_go_on_from_the_last_durable_commit_and_end_right(tmp_path: Path) -> None:
    ledger, quiet, lost = Ledger(), threading.Event(), 0
    settings = {**PROFILES["smoke"].settings(), "WF_RETENTION_SECONDS": "600", "WF_DURABILITY": "everysec"}
    with Installation(tmp_path / "wf", 2, settings, fsync="everysec") as installation:
        store, clock = installation.store, Clock(threading.Event(), 120)
        customer = Customer(installation.url, "c", 5, {"random_flow": 1, "wide_loop": 1}, ledger, clock)
        answerer = Answerer(installation.url, ledger, random.Random(3), quiet)
        answering = threading.Thread(target=answerer.work)
        answering.start()
        try:
            begun = [customer.begin(f"c-{n}") for n in range(6)]
            for _ in range(3):
                written = store.append_only_file
                durable = written.stat().st_size
                eventually(lambda at=durable + TAIL_BYTES, file=written: file.stat().st_size > at, "more is written")
                store.kill()
                lost += written.stat().st_size - durable
                os.truncate(written, durable)
                store.start()
            clock.close()
            for run in begun:
                customer.judge(run)
        finally:
            quiet.set()
            answering.join(30)
            customer.client.close()

    assert lost > 3 * TAIL_BYTES
    assert (ledger.ended, ledger.wrong, ledger.lost) == (6, [], [])
