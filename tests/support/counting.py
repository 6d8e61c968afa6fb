"""The store and the dispatcher with every call counted, for exact assertions about round trips and messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from wf_worker.dispatch import Dispatcher
from wf_worker.store.protocol import Ready
from wf_worker.store.redis import RedisRecords


class CountingRecords(RedisRecords):
    """Records over a real server that count the scripts they execute and the bytes they send."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.calls: Counter[str] = Counter()
        self.other: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()

    def call(self, script: str, incarnation: str, call_id: str, *args: str | bytes | int) -> list[Any]:
        self.calls[script] += 1
        answer = super().call(script, incarnation, call_id, *args)
        self.bytes[script] += sum(len(str(arg)) for arg in args) + size_of(answer)
        return answer

    def document(self, digest: str) -> bytes | None:
        self.other["document"] += 1
        return super().document(digest)

    def header(self, *args: Any) -> dict[str, bytes] | None:
        self.other["header"] += 1
        return super().header(*args)


class CountingDispatcher(Dispatcher):
    """Publishes through Celery to a real broker, and counts."""

    published = 0

    def publish(self, ready: Iterable[Ready]) -> None:
        frames = list(ready)
        self.published += len(frames)
        super().publish(frames)


def size_of(answer: Any) -> int:
    """The bytes of an answer, without its framing."""
    if isinstance(answer, list):
        return sum(size_of(part) for part in answer)
    return len(answer) if isinstance(answer, bytes) else 0
