"""``wf run events``: what it prints and how it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.api.conftest import Api
from tests.api.test_cli import here, wf
from tests.api.workflows import APPROVAL, DOUBLE, SIGNATURES


def test_the_events_so_far_are_shown_a_line_each(api: Api) -> None:
    api.publish(SIGNATURES)
    api.start("signatures", input={"people": ["ann", "bob"]}, run_id="r1")

    people, program = here("run", "events", "r1", url=api.url), here("run", "events", "r1", "--json", url=api.url)

    assert (people.exit_code, program.exit_code) == (0, 0)
    events = [json.loads(line) for line in program.stdout.splitlines()]
    assert [event["kind"] for event in events][-2:] == ["interrupt_opened", "status"]
    lines = people.stdout.splitlines()
    assert len(lines) == len(events)
    assert all(event["id"] in line and event["at"] in line for event, line in zip(events, lines, strict=True))
    assert "each opens 2 items" in people.stdout and "sign[1] asks interrupt:sign#" in people.stdout


def test_after_goes_on_behind_an_event(api: Api) -> None:
    api.publish(DOUBLE)
    api.start("double", input={"n": 1}, run_id="r1")
    ids = [json.loads(line)["id"] for line in here("run", "events", "r1", "--json", url=api.url).stdout.splitlines()]

    behind = here("run", "events", "r1", "--after", ids[1], url=api.url)
    unknown = here("run", "events", "r1", "--after", "9.00000000", url=api.url)

    assert [line.split()[0] for line in behind.stdout.splitlines()] == ids[2:]
    assert "twice ok -> end" in behind.stdout
    assert (unknown.exit_code, "event_id_unknown" in unknown.output) == (3, True)


def test_follow_stays_until_the_run_has_ended(api: Api) -> None:
    api.publish(APPROVAL)
    api.start("approval", input={"title": "t"}, run_id="r1")
    environment = {**os.environ, "WF_API_URL": api.url}
    command = [sys.executable, "-m", "wf_api.cli.main", "run", "events", "r1", "--follow"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as following:
        assert following.stdout is not None
        while "interrupted" not in following.stdout.readline():
            pass
        wf("run", "resume", "r1", "--outcome", "approved", "--payload", '{"note": "n"}', url=api.url)
        rest = following.stdout.read()

    assert following.returncode == 0
    assert [word in rest for word in ("was answered", "approved -> end", "completed")] == [True] * 3


@pytest.mark.parametrize("follow", [True, False])
def test_only_who_follows_is_told_by_the_exit_code_how_the_run_ended(api: Api, follow: bool) -> None:
    api.publish(APPROVAL)
    api.start("approval", input={"title": "t"}, run_id="r1")
    api.post("/v1/runs/r1/cancel")

    done = here("run", "events", "r1", *(["--follow"] if follow else []), url=api.url)

    assert done.exit_code == (4 if follow else 0)
    assert "cancelled" in done.stdout
