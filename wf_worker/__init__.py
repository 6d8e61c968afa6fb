"""The distributed engine: one Celery task over a run store in Redis."""
