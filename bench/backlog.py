"""An honest backlog is not multiplied: ``python -m bench.backlog``.

Thousands of frames are ready and one slow worker holds them up for ten minutes, while its sweeper looks at all of them
again and again. A frame's message may be sent again only where it seems to be lost, so the broker must have been given
about one message for each frame. Afterwards the step is let go on, a second worker helps, and every run must end well.

The server counts the messages: kombu puts each into its queue by LPUSH, and nothing else here uses that command. Prints
what it measures; the last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench import load_jobs
from bench.gauges import Gauges, gauges, resident_mib
from wf_api.cli.stack import Stack
from wf_api.client import WorkflowClient

MOST_PER_FRAME = 1.05
STEP_SECONDS = 1.0
SUBMITTERS = 4
PATIENCE_SECONDS = 1800
ENVIRONMENT = {"PYTHONPATH": str(Path(__file__).resolve().parents[1])}


def submit(url: str, frames: int, release: Path) -> None:
    """Starts so many runs of one step each, from several clients at once."""

    def some(first: int) -> None:
        with WorkflowClient(url, timeout_seconds=60) as client:
            for n in range(first, frames, SUBMITTERS):
                given: dict[str, Any] = {"n": n, "release": str(release), "seconds": STEP_SECONDS}
                client.start("one_slow_step", given)

    with ThreadPoolExecutor(SUBMITTERS) as pool:
        list(pool.map(some, range(SUBMITTERS)))


def watch(gauge: Gauges, worker: int, frames: int, before: int, minutes: float) -> None:
    """Says every half minute how it stands, for so long."""
    started = time.monotonic()
    while (passed := time.monotonic() - started) < 60 * minutes:
        messages = gauge.messages() - before
        print(
            f"after {passed:5.0f} s: queue {gauge.queue_length():6}, runs done {gauge.runs('completed'):6}, "
            f"messages {messages:6} ({messages / frames:.4f} a frame), worker {resident_mib(worker):6.1f} MiB",
            flush=True,
        )
        time.sleep(min(30.0, max(0.1, 60 * minutes - passed)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=10_000)
    parser.add_argument("--minutes", type=float, default=10.0)
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="wf-backlog-") as folder,
        Stack(Path(folder) / "wf", [load_jobs.__file__], workers=1, environment=ENVIRONMENT) as stack,
        gauges(stack.store_url) as gauge,
        WorkflowClient(stack.url, timeout_seconds=60) as client,
    ):
        release = Path(folder) / "release"
        worker = next(part for part in stack.parts if part.is_worker)
        client.publish(load_jobs.one_slow_step())
        before, started = gauge.messages(), time.monotonic()
        submit(stack.url, given.frames, release)
        print(f"{given.frames} runs of one step in {time.monotonic() - started:.0f} s; the step takes {STEP_SECONDS} s")
        watch(gauge, worker.process.pid, given.frames, before, given.minutes)
        held = {
            "messages": gauge.messages() - before,
            "still_ready": given.frames - gauge.runs("completed"),
            "queue": gauge.queue_length(),
        }
        release.touch()
        stack.start_worker()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while gauge.runs("completed") < given.frames and time.monotonic() < deadline:
            time.sleep(0.5)
        completed, in_all = gauge.runs("completed"), gauge.messages() - before

    result = {
        "frames": given.frames,
        "minutes": given.minutes,
        "frames_still_ready_at_the_end": held["still_ready"],
        "queue_at_the_end": held["queue"],
        "messages": held["messages"],
        "messages_per_frame": round(held["messages"] / given.frames, 4),
        "messages_per_frame_when_all_is_done": round(in_all / given.frames, 4),
        "runs_completed": completed,
    }
    print(json.dumps(result))
    good = result["messages_per_frame"] <= MOST_PER_FRAME and completed == given.frames
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
