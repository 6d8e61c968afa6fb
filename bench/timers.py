"""Retry delays are kept in the store, not in a worker: ``python -m bench.timers``.

Many items fail once under a backoff of ten minutes. What a worker holds must not grow with the number of its retries,
the queue must be nearly empty while they wait, each must stand in the store as a timer, and another worker must be able
to take any of them: the one on which they failed is killed, and an idle one finishes the run. The ten minutes are not
waited for unless ``--wait`` says so: the harness sets the timers in the store to now.

Prints what it measures; the last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bench import load_jobs
from bench.gauges import Gauges, gauges, resident_mib
from wf_api.cli.stack import Part, Stack
from wf_api.client import WorkflowClient
from wf_worker.store.keys import RUN_KEYS, SHARD_KEYS

BACKOFF_SECONDS = 600
SAMPLE_SECONDS = 2.0
ENVIRONMENT = {"PYTHONPATH": str(Path(__file__).resolve().parents[1]), "WF_INPUT_BYTES": str(64 * 1024 * 1024)}
PATIENCE_SECONDS = 1800


@dataclass
class Watched:
    """Samples of one worker while timers pile up."""

    gauge: Gauges
    incarnation: str
    items: int
    worker: Part
    samples: list[dict[str, float]] = field(default_factory=list[dict[str, float]])

    def until(self, waiting: int) -> Iterator[dict[str, float]]:
        """A sample every now and then, until so many timers are in the store."""
        started = time.monotonic()
        while True:
            sample = {
                "seconds": round(time.monotonic() - started, 1),
                "worker_mib": round(resident_mib(self.worker.process.pid), 1),
                "queue": self.gauge.queue_length(),
                "timers": self.gauge.in_set(self.incarnation, "WAITS"),
            }
            self.samples.append(sample)
            yield sample
            if sample["timers"] >= waiting:
                return
            if time.monotonic() - started > PATIENCE_SECONDS:
                raise SystemExit(f"only {sample['timers']} timers after {PATIENCE_SECONDS} s")
            time.sleep(SAMPLE_SECONDS)


def due_now(gauge: Gauges, incarnation: str) -> None:
    """Sets every timer of a run to now, as if its ten minutes were over."""
    seconds, micros = gauge.client.time()
    now = seconds * 1000 + micros // 1000
    waits = gauge.keys.base(incarnation) + RUN_KEYS["WAITS"]
    for first in range(0, gauge.client.zcard(waits), 1000):
        frames = gauge.client.zrange(waits, first, first + 999)
        gauge.client.zadd(waits, dict.fromkeys(frames, now))
    shard = gauge.keys.shard(gauge.keys.shard_of_incarnation(incarnation))
    gauge.client.zadd(shard + SHARD_KEYS["ATTENTION"], {incarnation: now})


def second_attempts(client: WorkflowClient, run_id: str, total: int) -> Counter[str]:
    """How many of the run's handler steps each worker committed."""
    by_worker: Counter[str] = Counter()
    for start in range(0, total, 100):
        page = client.trace(run_id, start=start, limit=100)["trace"]
        by_worker.update(entry["worker"] for entry in page if entry["step_type"] == "node")
    return by_worker


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--wait", action="store_true", help="wait for the ten minutes instead of moving the timers")
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="wf-timers-") as folder,
        Stack(Path(folder), [load_jobs.__file__], workers=1, environment=ENVIRONMENT) as stack,
        gauges(stack.store_url) as gauge,
        WorkflowClient(stack.url, timeout_seconds=60) as client,
    ):
        client.publish(load_jobs.backing_off(given.items, BACKOFF_SECONDS))
        first = next(part for part in stack.parts if part.is_worker)
        before = gauge.messages()
        numbers = list(range(given.items))
        run_id = client.start("backing_off", {"numbers": numbers}, max_steps=3 * given.items)["run_id"]
        watched = Watched(gauge, gauge.incarnation(run_id), given.items, first)
        print(f"{given.items} items fail once and wait {BACKOFF_SECONDS} s; one worker, process {first.process.pid}")
        for sample in watched.until(given.items):
            print(
                "after {seconds:6.1f} s: worker {worker_mib:6.1f} MiB, queue {queue:4}, timers {timers:6}".format(
                    **sample
                )
            )
        sent_while_failing = gauge.messages() - before

        second = stack.start_worker()
        stack.wait_for_workers(1)
        idle_mib = resident_mib(second.process.pid)
        stack.kill(first)
        print(f"another worker, process {second.process.pid}, is idle with {idle_mib:.1f} MiB; the first one is killed")
        if not given.wait:
            due_now(gauge, watched.incarnation)
        started = time.monotonic()
        view = client.wait(run_id, "ended", timeout=PATIENCE_SECONDS)
        finished = time.monotonic() - started
        by_worker = second_attempts(client, run_id, view["trace_count"])
        messages = gauge.messages() - before

    memory = [sample["worker_mib"] for sample in watched.samples]
    steps = [sample for sample in watched.samples if sample["timers"] > 0]
    right = view["status"] == "completed" and view["output"] == {"total": sum(numbers)}
    result = {
        "items": given.items,
        "timers_in_store": watched.samples[-1]["timers"],
        "queue_when_all_wait": watched.samples[-1]["queue"],
        "longest_queue": max(sample["queue"] for sample in watched.samples),
        "worker_mib_first_timers": steps[0]["worker_mib"] if steps else memory[0],
        "worker_mib_all_timers": memory[-1],
        "worker_mib_highest": max(memory),
        "seconds_until_all_wait": watched.samples[-1]["seconds"],
        "messages_while_failing": sent_while_failing,
        "messages_in_all": messages,
        "committed_by": len(by_worker),
        "second_worker_committed": max(by_worker.values(), default=0),
        "seconds_until_finished": round(finished, 1),
        "output_is_right": right,
    }
    print(f"finished by the other worker after {finished:.1f} s: {dict(by_worker)}")
    print(json.dumps(result))
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
