"""``python -m tests.chaos``: one round; progress on stderr, one JSON object as the last line of stdout.

Exits 1 when a run was wrong or lost, a key was left, or too little was disturbed to show anything.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from tests.chaos.harness import Chaos, say
from tests.chaos.profiles import PROFILES


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0, help="how long to disturb, fractions allowed")
    parser.add_argument("--seed", type=int, default=None, help="decides what is run and what is disturbed when")
    parser.add_argument("--profile", choices=sorted(PROFILES), default="full")
    parser.add_argument("--amqp", action="store_true", help="the broker that WF_TEST_AMQP_URL names, a RabbitMQ")
    parser.add_argument("--keep", action="store_true", help="keep logs and files also when all is well")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1_000_000)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that every process is ended on the way out
    folder = Path(tempfile.mkdtemp(prefix="wf-chaos-"))
    profile = PROFILES[options.profile]
    say(f"seed {seed}, profile {options.profile}, {options.minutes:g} minutes, files in {folder}")

    broker_url = os.environ["WF_TEST_AMQP_URL"] if options.amqp else None
    summary = Chaos(profile, options.minutes, seed, folder, broker_url).run()

    shortfalls = summary.shortfalls(profile, options.minutes)
    for shortfall in shortfalls:
        say(f"failed: {shortfall} (seed {seed}, logs in {folder})")
    if not shortfalls and not options.keep:
        shutil.rmtree(folder)
    print(json.dumps(asdict(summary)), flush=True)
    return 1 if shortfalls else 0


if __name__ == "__main__":
    sys.exit(main())
