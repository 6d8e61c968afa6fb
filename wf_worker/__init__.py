"""The distributed engine: one Celery task over a run store in Redis."""

from wf_worker.app import WorkerNode, install, run_worker
from wf_worker.handlers import HandlerRegistry, build_handlers
from wf_worker.settings import Settings

__all__ = ["HandlerRegistry", "Settings", "WorkerNode", "build_handlers", "install", "run_worker"]
