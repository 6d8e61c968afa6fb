"""Every order of every customer, each in a child workflow: nested loops, a subgraph, an approval.

Customers are the items of an outer concurrent loop, their orders those of an inner one. A large order waits until
somebody approves it. Each order then runs in a workflow of its own, which sees the order and the customer's name and
nothing else of its caller.

    python -m examples.orders

runs it twice, in this process and on worker processes of a local installation, and prints what comes out of both.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel

from wf_core.authoring import (
    END,
    NodeReturn,
    WorkflowBuilder,
    expr,
    input_from,
    input_path,
    input_value,
    node,
    outcome,
    output_to,
    state_field,
    state_path,
)
from wf_core.run_state import RuntimeContext

# ---- what the job speaks of


class Order(BaseModel):
    """So many pieces of an article."""

    number: str
    article: str
    quantity: int


class Customer(BaseModel):
    """Somebody with orders."""

    name: str
    orders: list[Order]


class Receipt(BaseModel):
    """What became of an order that was handled."""

    number: str
    customer: str
    amount_cents: int
    parcel: str | None


CUSTOMERS = [
    {
        "name": "Ada",
        "orders": [
            {"number": "A-1", "article": "paper", "quantity": 20},
            {"number": "A-2", "article": "ink", "quantity": 150},
            {"number": "A-3", "article": "globe", "quantity": 1},
        ],
    },
    {
        "name": "Grace",
        "orders": [
            {"number": "G-1", "article": "ink", "quantity": 3},
            {"number": "G-2", "article": "paper", "quantity": 5_000},
        ],
    },
    {"name": "Alan", "orders": []},
    {"name": "Edsger", "orders": [{"number": "E-1", "article": "paper", "quantity": 400}]},
]
PRICES_IN_CENTS = {"paper": 5, "ink": 1_250, "globe": 8_900}
IN_STOCK = {"paper", "ink"}
LARGE = 100

# ---- the child: one order


class OneOrder(BaseModel):
    """All that the child sees."""

    customer: str
    order: Order


class OneOrderState(BaseModel):
    """Every child has a state of its own: siblings never write here."""

    amount_cents: int | None = None
    parcel: str | None = None
    receipt: Receipt | None = None


class OneOrderOutput(BaseModel):
    """What the child hands back."""

    receipt: Receipt


class Price(BaseModel):
    """What an order costs."""

    amount_cents: int


class Parcel(BaseModel):
    """What leaves the house; nothing for an article that is sold out."""

    parcel: str | None


class ReceiptIn(BaseModel):
    """An order with what the steps before found out."""

    customer: str
    order: Order
    amount_cents: int
    parcel: str | None


@node
def price_order(payload: OneOrder) -> Price:
    """Says what an order costs."""
    return Price(amount_cents=PRICES_IN_CENTS[payload.order.article] * payload.order.quantity)


@node(outcomes=["packed", "sold_out"])
def pack_order(payload: OneOrder) -> NodeReturn[Parcel]:
    """Packs an order, if there is enough of it."""
    order = payload.order
    if order.article not in IN_STOCK:
        return outcome("sold_out", Parcel(parcel=None))
    return outcome("packed", Parcel(parcel=f"{order.quantity} x {order.article} for {payload.customer}"))


@node
def write_receipt(payload: ReceiptIn) -> OneOrderOutput:
    """Writes down what became of an order; what was not packed costs nothing."""
    amount = payload.amount_cents if payload.parcel is not None else 0
    receipt = Receipt(
        number=payload.order.number, customer=payload.customer, amount_cents=amount, parcel=payload.parcel
    )
    return OneOrderOutput(receipt=receipt)


def build_child() -> WorkflowBuilder:
    """The workflow of one order; it ends with ``ok`` or ``sold_out``."""
    flow = WorkflowBuilder("one_order", OneOrder, OneOrderState, OneOrderOutput, outcomes=["ok", "sold_out"])
    price = flow.use(price_order)
    pack = flow.use(pack_order)
    receipt = flow.use(write_receipt, id="receipt")
    empty_receipt = flow.use(write_receipt, id="empty_receipt")
    flow.set_entry_point(price)
    flow.set_route(price, "ok", pack)
    flow.branch(pack, {"packed": receipt, "sold_out": empty_receipt})
    flow.set_route(receipt, "ok", END)
    flow.set_route(empty_receipt, "ok", flow.end("sold_out"))
    return flow


# ---- the workflow that calls it


class OrdersInput(BaseModel):
    """Whose orders are handled."""

    customers: list[Customer]


class OrdersState(BaseModel):
    """Sibling items write these together, so each has a reducer that merges."""

    receipts: Annotated[list[Receipt], state_field(reducer="wf.std.append")] = []
    approvals: Annotated[list[str], state_field(reducer="wf.std.append")] = []
    log: Annotated[list[str], state_field(reducer="wf.std.append")] = []


class OrdersOutput(BaseModel):
    """Receipts, approvals and log, in the order of the input however the work was spread."""

    receipts: list[Receipt]
    approvals: list[str]
    log: list[str]


class Question(BaseModel):
    """What the person sees who approves large orders."""

    customer: str
    order: Order


class Approval(BaseModel):
    """What the person answers."""

    note: str


class LogIn(BaseModel):
    """What became of the order that is being handled."""

    what: Literal["shipped", "sold out", "refused"]


class LogOut(BaseModel):
    """A line for people."""

    line: str


@node
def log_order(payload: LogIn, ctx: RuntimeContext) -> LogOut:
    """Says which order of which customer this is: both loops are there, each under the id of its step."""
    customer, order = ctx.foreach["customers"], ctx.foreach["orders"]
    name, number = _field(customer.item, "name"), _field(order.item, "number")
    return LogOut(line=f"customer {customer.index + 1} {name}, order {order.index + 1} {number}: {payload.what}")


def _field(item: object, name: str) -> str:
    assert isinstance(item, dict)
    return str(item[name])


NODES = (price_order, pack_order, write_receipt, log_order)
"""The capabilities a worker must serve to run this workflow and its child."""


def build() -> WorkflowBuilder:
    """The workflow, its child prepared."""
    flow = WorkflowBuilder("customer_orders", OrdersInput, OrdersState, OrdersOutput)
    one_order = flow.prepare_subgraph(build_child())
    customers = flow.foreach(
        id="customers",
        over=input_path("customers"),
        as_="customer",
        mode="concurrent",
        concurrent={"max_active": 3, "interrupt": "continue"},
    )
    orders = flow.foreach(
        id="orders",
        over="context.foreach.customers.item.orders",
        as_="order",
        mode="concurrent",
        concurrent={"max_active": 4, "interrupt": "continue"},
    )
    approve = flow.interrupt(
        id="approve",
        kind="approval",
        request=[input_from(f"{customers.item}.name", "customer"), input_from(orders.item, "order")],
        resume=[output_to("note", state_path("approvals"))],
        outcomes=["approved", "refused"],
        request_schema=Question,
        resume_schema=Approval,
    )
    handle = flow.subgraph(
        one_order,
        id="handle",
        input=[input_from(f"{customers.item}.name", "customer"), input_from(orders.item, "order")],
        output=[output_to("receipt", state_path("receipts"))],
    )
    written = {
        what: flow.use(
            log_order, id=id, input=[input_value("what", what)], output=[output_to("line", state_path("log"))]
        )
        for id, what in (("log_shipped", "shipped"), ("log_sold_out", "sold out"), ("log_refused", "refused"))
    }
    large = flow.when(expr(f"{orders.item}.quantity") >= LARGE, then=approve, otherwise=handle, id="is_large")
    flow.set_entry_point(customers)
    flow.branch(customers, {"loop": orders, "done": END})
    flow.branch(orders, {"loop": large.entry, "done": customers})
    flow.branch(approve, {"approved": handle, "refused": written["refused"]})
    flow.branch(handle, {"ok": written["shipped"], "sold_out": written["sold out"]})
    flow.handle(*((step, "ok") for step in written.values()), to=orders)
    return flow


# ---- running it


def answer(question: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The outcome and the answer of somebody who approves up to a thousand pieces."""
    order = question["order"]
    if order["quantity"] > 1_000:
        return "refused", {"note": f"{order['number']} is too much for {question['customer']}"}
    return "approved", {"note": f"{order['number']} is fine"}


def run_in_memory() -> Any:
    """The output from this process, one step after another."""
    flow = build()
    run = flow.execute({"customers": CUSTOMERS})
    while run.interrupt is not None:
        chosen, payload = answer(run.interrupt.payload)
        run = flow.resume(run, payload=payload, outcome=chosen)
    return run.output


def run_on_workers(data: Path) -> Any:
    """The output from worker processes, everything over HTTP."""
    from wf_api.cli.stack import Stack
    from wf_api.client import WorkflowClient

    flow = build()
    with (
        Stack(data, [str(Path(__file__).resolve())], workers=2, fresh=True) as stack,
        WorkflowClient(stack.url) as client,
    ):
        for child in flow.prepared_subgraphs():
            client.publish(child)
        client.publish(flow)
        run = client.start(flow.name, {"customers": CUSTOMERS})
        while (run := client.wait(run["run_id"], timeout=60))["status"] == "interrupted":
            for asked in run["interrupts"]:
                chosen, payload = answer(asked["payload"])
                client.resume(run["run_id"], payload, chosen, interrupt_key=asked["interrupt_key"])
    if run["status"] != "completed":
        raise RuntimeError(f"the run is {run['status']}: {run['error']}")
    return run["output"]


def show(output: Any) -> None:
    """The output for people."""
    for line in output["log"]:
        print(f"  {line}")
    for receipt in output["receipts"]:
        print(f"  {receipt['number']}  {receipt['amount_cents'] / 100:9.2f}  {receipt['parcel'] or 'nothing sent'}")
    for note in output["approvals"]:
        print(f"  {note}")


def main() -> int:
    """Both runs; 1 when they differ."""
    local = run_in_memory()
    print("in memory:")
    show(local)
    distributed = run_on_workers(Path(".wf") / "orders")
    print("on worker processes:")
    show(distributed)
    return int(local != distributed)


if __name__ == "__main__":
    sys.exit(main())
