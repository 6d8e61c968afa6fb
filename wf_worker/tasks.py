"""The one Celery task: reads the message, calls the step runner, nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from celery import Celery

from wf_worker.dispatch import STORE_HEADER, TASK_NAME
from wf_worker.errors import StoreError
from wf_worker.step_runner import StepRunner
from wf_worker.store.protocol import Ready


def register_task(app: Celery, runner: Callable[[], StepRunner], store_id: Callable[[], str]) -> Any:
    """Registers ``wf.step`` on an application. ``runner`` gives the process's step runner."""

    def step(self: Any, *, run: str, frame: str, revision: str, workflow: str, node: str, at: int) -> str:
        # A message of another store would be refused as stale there; here it would be lost without a word.
        headers: Any = self.request.headers or {}
        sender: Any = headers.get(STORE_HEADER) or getattr(self.request, STORE_HEADER, None)
        if sender != store_id():
            raise StoreError(
                f"a message of store {sender!r} reached a worker of store {store_id()!r}", code="foreign_message"
            )
        return runner().run(Ready(run, frame, revision, workflow, node, at)).value

    decorate: Any = app.task
    return decorate(
        name=TASK_NAME,
        bind=True,
        ignore_result=True,
        serializer="json",
        max_retries=0,
        acks_late=False,
        track_started=False,
        # Celery gives a shared task to every other application of the process: they would run this one's node.
        shared=False,
    )(step)
