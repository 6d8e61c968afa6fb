"""The engine on a user's own Celery application, with a pool of processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from celery import Celery

from tests.support import jobs
from tests.support.valkey import EmbeddedValkey
from tests.support.waiting import eventually
from wf_core.errors import WfError
from wf_worker.app import celery_app, install, store_id
from wf_worker.dispatch import TASK_NAME, Dispatcher
from wf_worker.settings import Settings
from wf_worker.store.opening import open_store

OWN_APPLICATION = """
import sys
from celery import Celery
from tests.support import jobs
from wf_worker import install, Settings

app = Celery("shop", broker=sys.argv[1] if len(sys.argv) > 1 and "://" in sys.argv[1] else None)
settings = Settings()
app.conf.broker_url = settings.broker
install(app, settings, nodes=jobs.NODES)

@app.task(name="shop.note", ignore_result=True)
def note(path, text):
    with open(path, "a") as notes:
        notes.write(text)
"""


def test_workflows_run_on_a_users_application_beside_its_own_tasks(valkey: EmbeddedValkey, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(OWN_APPLICATION)
    root = Path(__file__).resolve().parents[2]
    environment = {**os.environ, "WF_STORE_URL": valkey.url, "PYTHONPATH": f"{tmp_path}:{root}"}
    command = [
        sys.executable,
        "-m",
        "celery",
        "-A",
        "shop",
        "worker",
        "-Q",
        "wf,celery",
        "--concurrency",
        "2",
        "--loglevel",
        "INFO",
    ]
    settings = Settings(store_url=valkey.url)
    app = celery_app(settings)
    store = open_store(settings)
    dispatcher = Dispatcher(app, settings, store_id(settings))
    with (tmp_path / "worker.log").open("wb") as log:
        worker = subprocess.Popen(command, env=environment, cwd=tmp_path, stdout=log, stderr=subprocess.STDOUT)
    try:
        published = store.publish(jobs.squares().compile())
        created = store.create(store.new_run("run", published.digest, {"numbers": list(range(50))}, max_steps=1_000))
        dispatcher.publish(created.ready)
        app.send_task("shop.note", args=[str(tmp_path / "note"), "hello"], queue="celery")

        def both_ended() -> bool:
            record = store.inspect(created.incarnation)
            return record is not None and record.ended and (tmp_path / "note").exists()

        eventually(both_ended, lambda: f"the run and the task end\n{(tmp_path / 'worker.log').read_text()[-3000:]}")
    finally:
        worker.terminate()
        worker.wait(30)
        dispatcher.close()

    record = store.inspect(created.incarnation)
    assert record is not None and record.output == jobs.squares().execute({"numbers": list(range(50))}).output
    assert (tmp_path / "note").read_text() == "hello"
    owners = {step.worker for step in store.trace(created.incarnation, 0, 200)}
    assert len({owner for owner in owners if owner}) == 2


@pytest.mark.parametrize(
    ("setting", "value"),
    [("task_serializer", "pickle"), ("accept_content", ["json", "pickle"]), ("task_always_eager", True)],
)
def test_an_unsafe_setting_of_the_application_is_refused_by_name(setting: str, value: object) -> None:
    app = Celery("unsafe", set_as_current=False)
    app.conf[setting] = value

    with pytest.raises(WfError, match=setting) as refused:
        install(app, Settings())

    assert refused.value.code == "celery_setting_unsafe"
    assert refused.value.hint


def test_the_applications_own_queues_and_choices_stay() -> None:
    app = Celery("own", set_as_current=False)
    app.conf.worker_prefetch_multiplier = 7

    install(app, Settings())

    assert app.conf.worker_prefetch_multiplier == 7
    assert TASK_NAME in app.tasks
    assert [queue.name for queue in app.conf.task_queues] == ["celery", "wf.high", "wf", "wf.low"]


def test_the_task_of_one_application_is_no_other_ones() -> None:
    installed = [Celery(name, set_as_current=False) for name in ("one", "two")]
    for app in installed:
        install(app, Settings())
    stranger = Celery("stranger", set_as_current=False)

    one, two = (app.tasks[TASK_NAME] for app in installed)
    assert (one.app, two.app) == tuple(installed)
    assert one.run.__func__ is not two.run.__func__
    assert TASK_NAME not in stranger.tasks
