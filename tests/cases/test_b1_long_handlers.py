"""A job that took longer than the broker's visibility timeout was started again and again, while it still ran.

The Redis transport puts back what was not acknowledged in time, and nobody renews that (celery/celery#5935,
celery/celery#5306, celery/kombu#337, pretix/pretix#2058). Here a message is a hint: the frame is held by a lease of its
own, which a thread renews, and whoever gets the message again is refused before the handler is called.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cases.flows import END, NOTE, flow, notes, noting
from tests.support.valkey import EmbeddedValkey
from tests.support.waiting import eventually
from wf_core.models import Workflow
from wf_worker.app import celery_app, store_id
from wf_worker.dispatch import Dispatcher
from wf_worker.settings import Settings
from wf_worker.store.opening import open_store

VISIBLE_AGAIN_SECONDS = 2
APPLICATION = f"""
from celery import Celery

from tests.cases.flows import registry
from wf_worker import install
from wf_worker.handlers import HandlerRegistry
from wf_worker.settings import Settings

settings = Settings()
app = Celery("late", broker=settings.broker)
app.conf.broker_transport_options = {{"visibility_timeout": {VISIBLE_AGAIN_SECONDS}}}
handlers = HandlerRegistry()
handlers.update(registry)
install(app, settings, handlers=handlers)
app.tasks["wf.step"].acks_late = True
"""
LONG = flow("long", [noting("work", "work", True)], [("work", "ok", END)], takes={"file": {}}, defs=[NOTE])


@contextmanager
def worker(folder: Path, name: str, valkey: EmbeddedValkey) -> Iterator[Path]:
    """A worker that acknowledges late; its log."""
    root = Path(__file__).resolve().parents[2]
    environment = {
        **os.environ,
        "WF_STORE_URL": valkey.url,
        "WF_LEASE_SECONDS": "1.5",
        "PYTHONPATH": f"{folder}:{root}",
    }
    command = [sys.executable, "-m", "celery", "-A", "late", "worker", "-Q", "wf", "-n", name, "--pool=solo"]
    log = folder / f"{name}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*command, "--loglevel", "INFO"], env=environment, cwd=folder, stdout=out, stderr=subprocess.STDOUT
        )
    try:
        yield log
    finally:
        process.kill()
        process.wait(30)


def test_a_message_that_comes_again_while_its_handler_runs_calls_nothing(
    valkey: EmbeddedValkey, tmp_path: Path
) -> None:
    (tmp_path / "late.py").write_text(APPLICATION)
    file = tmp_path / "notes"
    settings = Settings(store_url=valkey.url)
    app, store = celery_app(settings), open_store(settings)
    dispatcher = Dispatcher(app, settings, store_id(settings))
    digest = store.publish(Workflow.model_validate(LONG)).digest
    created = store.create(store.new_run("run", digest, {"file": str(file)}, max_steps=9))
    dispatcher.publish(created.ready)

    def taken_and_visible_again() -> bool:
        with valkey.client() as client:
            [(_, taken)] = client.zrange("unacked_index", 0, 0, withscores=True) or [(b"", time.time())]
        return taken + VISIBLE_AGAIN_SECONDS < time.time()

    try:
        with worker(tmp_path, "first", valkey) as first:
            eventually(lambda: len(notes(file)) == 1, lambda: f"the handler begins\n{first.read_text()[-3000:]}")
            eventually(taken_and_visible_again, "the message is so old that others may have it")
            # A worker that starts looks for such messages at once.
            with worker(tmp_path, "second", valkey) as second:
                eventually(
                    lambda: "'refused'" in second.read_text(),
                    lambda: f"the message comes again and is refused\n{second.read_text()[-3000:]}",
                )
                assert len(notes(file)) == 1
                Path(f"{file}.release").touch()
                eventually(lambda: store.inspect(created.incarnation).ended, "the run ends")  # type: ignore[union-attr]
                received = [log.read_text().count(" received") for log in (first, second)]
        record = store.inspect(created.incarnation)
    finally:
        dispatcher.close()
        store.records.close()

    assert record is not None
    assert (record.status, record.trace_count, record.recovered_frames) == ("completed", 1, 0)
    assert [(word, attempt) for word, attempt, _ in notes(file)] == [("work", 1)]
    assert received[0] == 1 and received[1] >= 1
