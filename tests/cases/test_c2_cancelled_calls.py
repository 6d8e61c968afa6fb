"""Requests that are cancelled while their answer is on the way: nobody gets the answer to another question.

Seen in redis-py#2624 and #2665: a connection went back to its pool with a reply still on the wire, and each of its
later callers received the answer of the one before. The case asks for 5,000 reads, which take a minute or two; here are
2,000.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path

from tests.api.conftest import served
from tests.api.workflows import DOUBLE, HANDLERS
from tests.support.inline_worker import InlineWorker
from tests.support.proxy import Proxy
from tests.support.valkey import EmbeddedValkey
from wf_api.client import AsyncWorkflowClient
from wf_api.http import create_app
from wf_core.models import Workflow
from wf_worker.settings import Settings
from wf_worker.store.opening import open_store

RUNS = 500
READS = 2_000
AT_ONCE = 40
DELAY_SECONDS = 0.02


async def read_and_cancel(url: str, run_ids: list[str]) -> Counter[str]:
    """Reads runs, ``AT_ONCE`` at a time, and cancels one in five after up to four delays."""
    rng, seen = random.Random(1), Counter[str]()
    left = iter([rng.choice(run_ids) for _ in range(READS)])

    async def reader(client: AsyncWorkflowClient) -> None:
        for run_id in left:
            reading = asyncio.ensure_future(client.inspect(run_id))
            if rng.random() < 0.2:
                await asyncio.sleep(rng.uniform(0, 4 * DELAY_SECONDS))
                reading.cancel()
            try:
                run = await reading
            except asyncio.CancelledError:
                seen["cancelled"] += 1
            else:
                seen["right" if run["run_id"] == run_id else "another's"] += 1

    async with AsyncWorkflowClient(url) as client:
        await asyncio.gather(*(reader(client) for _ in range(AT_ONCE)))
    return seen


def test_a_reader_never_gets_the_run_that_a_cancelled_reader_asked_for(valkey: EmbeddedValkey, tmp_path: Path) -> None:
    with Proxy(valkey.port, delay_seconds=DELAY_SECONDS) as to_store:
        settings = Settings(store_url=to_store.url)
        store, direct = open_store(settings), open_store(Settings(store_url=valkey.url))
        digest = direct.publish(Workflow.model_validate(DOUBLE)).digest
        run_ids = [f"run-{n}" for n in range(RUNS)]
        for run_id in run_ids:
            direct.create(direct.new_run(run_id, digest, {"n": 1}, max_steps=10))
        direct.records.close()
        app = create_app(store, InlineWorker(store, HANDLERS).publish, settings)
        with served(app) as url, Proxy(int(url.rpartition(":")[2]), delay_seconds=DELAY_SECONDS) as to_api:
            seen = asyncio.run(read_and_cancel(f"http://127.0.0.1:{to_api.port}", run_ids))
        store.records.close()

    assert seen["another's"] == 0
    assert seen["cancelled"] > READS // 20
    assert sum(seen.values()) == READS
