"""The page of a large run, opened by many at once while it goes on: ``python -m bench.pages``.

Prints how long each kind of page took, its bytes, and the memory of the API before and after; the last line is one JSON
object. Nothing is compared with the clock of another machine.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

from bench import load_jobs
from bench.gauges import resident_mib
from wf_api.cli.stack import Stack
from wf_api.client import WorkflowClient

PAGES = ("", "/progress", "/interrupts", "/trace?limit=100", "/trace?limit=100&start={middle}")
CLIENTS = 10
ROUNDS = 20
PATIENCE_SECONDS = 7200
ENVIRONMENT = {"PYTHONPATH": str(Path(__file__).resolve().parents[1]), "WF_INPUT_BYTES": str(64 * 1024 * 1024)}


def open_pages(url: str, middle: int) -> dict[str, list[tuple[float, int]]]:
    """Ten clients open every page; ms and bytes of each."""

    def some(_client: int) -> list[tuple[str, float, int]]:
        seen: list[tuple[str, float, int]] = []
        with httpx.Client(timeout=60) as client:
            for page in PAGES * ROUNDS:
                started = time.perf_counter()
                response = client.get(url + page.format(middle=middle))
                response.raise_for_status()
                seen.append((page, 1000 * (time.perf_counter() - started), len(response.content)))
        return seen

    found: dict[str, list[tuple[float, int]]] = {page: [] for page in PAGES}
    with ThreadPoolExecutor(CLIENTS) as pool:
        for seen in pool.map(some, range(CLIENTS)):
            for page, ms, size in seen:
                found[page].append((ms, size))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=20_000)
    given = parser.parse_args()
    numbers = list(range(given.items))
    with (
        tempfile.TemporaryDirectory(prefix="wf-pages-") as folder,
        Stack(Path(folder), [load_jobs.__file__], workers=2, environment=ENVIRONMENT) as stack,
        WorkflowClient(stack.url, timeout_seconds=60) as client,
    ):
        api = next(part for part in stack.parts if part.name == "server").process.pid
        client.publish(load_jobs.three_steps())
        run_id = client.start("three_steps", {"numbers": numbers}, max_steps=4 * given.items)["run_id"]
        client.wait(run_id, until=lambda run: run["steps_executed"] > 2 * given.items, timeout=PATIENCE_SECONDS)
        before = resident_mib(api)
        pages = open_pages(f"{stack.url}/v1/runs/{run_id}", given.items)
        after = resident_mib(api)
        ended = client.wait(run_id, "ended", timeout=PATIENCE_SECONDS)

    shown = {
        page: {
            "median_ms": round(statistics.median(ms for ms, _ in seen), 1),
            "highest_ms": round(max(ms for ms, _ in seen), 1),
            "most_bytes": max(size for _, size in seen),
        }
        for page, seen in pages.items()
    }
    for page, figures in shown.items():
        print(f"GET run{page:<34} {figures}")
    right = ended["status"] == "completed" and ended["output"] == {"total": sum(numbers)}
    result = {
        "items": given.items,
        "clients": CLIENTS,
        "api_mib_before": round(before, 1),
        "api_mib_after": round(after, 1),
        "pages": shown,
        "output_is_right": right,
    }
    print(json.dumps(result))
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
