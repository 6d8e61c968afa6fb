"""Interrupts outlive every process."""

from __future__ import annotations

from tests.support import jobs
from tests.support.waiting import eventually
from wf_api.cli.stack import Stack
from wf_api.client import WorkflowClient

CUSTOMERS = [{"name": "Ada", "orders": ["a1", "a2"]}, {"name": "Grace", "orders": ["g1", "g2", "g3"]}]


def restart_everything_but_the_store(stack: Stack) -> None:
    for part in list(stack.parts):
        if part.name != "store":
            stack.kill(part)
            stack.parts.remove(part)
    stack.start_server()
    for _ in range(2):
        stack.start_worker()


def test_an_interrupt_in_a_nested_loop_is_resumed_in_the_same_place_after_every_process_was_replaced(
    stack: Stack, client: WorkflowClient
) -> None:
    client.publish(jobs.nested_interrupts())
    run_id = client.start("nested_interrupts", {"customers": CUSTOMERS})["run_id"]
    eventually(lambda: client.inspect(run_id)["status"] == "interrupted", "the run waits for answers")
    before = client.interrupts(run_id)["interrupts"]

    restart_everything_but_the_store(stack)

    assert client.interrupts(run_id)["interrupts"] == before
    answered: list[str] = []
    while (view := client.inspect(run_id))["status"] != "completed":
        for interrupt in view["interrupts"]:
            order = interrupt["payload"]["order"]
            client.resume(run_id, {"note": f"yes to {order}"}, interrupt_key=interrupt["interrupt_key"])
            answered.append(order)
        seen = len(answered)
        eventually(
            lambda: (now := client.inspect(run_id))["status"] == "completed" or bool(now["interrupts"]),
            f"the run goes on after {seen} answers",
        )

    assert sorted(answered) == ["a1", "a2", "g1", "g2", "g3"]
    assert view["output"]["answers"] == [f"yes to {order}" for order in ("a1", "a2", "g1", "g2", "g3")]
    lines = view["output"]["lines"]
    assert len(lines) == 10
    for order in ("a1", "a2", "g1", "g2", "g3"):
        places = {line.split(" ", 1)[0]: line.split(" ", 2)[2] for line in lines if line.split(" ")[1] == order}
        assert places["before"] == places["after"]
        assert places["before"].startswith("customers=")
