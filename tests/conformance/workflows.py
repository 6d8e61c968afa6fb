"""The workflows that the conformance tests run. Their node ``work`` answers ``ok``, or ``ask`` to be asked about."""

from __future__ import annotations

from typing import Any

from wf_core.models import Workflow

_WORK: dict[str, Any] = {
    "name": "work",
    "input_schema": {"type": "object", "properties": {"value": {}}},
    "output_schema": {"type": "object", "properties": {"value": {}}},
    "outcomes": ["ok", "ask"],
}
_ITEMS = {
    "type": "array",
    "items": {"type": "object", "properties": {"name": {}, "orders": {"type": "array", "items": {}}}},
}


def _document(name: str, start: str, nodes: list[dict[str, Any]], edges: list[tuple[str, str, str]]) -> Workflow:
    return Workflow.model_validate(
        {
            "name": name,
            "input_schema": {"type": "object", "properties": {"items": _ITEMS, "value": {}}},
            "state_schema": {
                "type": "object",
                "properties": {"values": {"type": "array", "reducer": "wf.std.append"}, "last": {}, "answer": {}},
            },
            "output_schema": {"type": "object", "properties": {"values": {}}},
            "output": [],
            "node_defs": [_WORK],
            "start": start,
            "nodes": nodes,
            "edges": [{"from": source, "outcome": outcome, "to": target} for source, outcome, target in edges],
        }
    )


def _node(step_id: str, target: str = "state.values", reads: str | None = None) -> dict[str, Any]:
    inputs = [] if reads is None else [{"target": "value", "path": reads}]
    return {
        "id": step_id,
        "type": "node",
        "node": "work",
        "input": inputs,
        "output": [{"source": "value", "target": target}],
    }


def _each(step_id: str, over: str, *, active: int, outstanding: int, interrupt: str, **more: Any) -> dict[str, Any]:
    return {
        "id": step_id,
        "type": "foreach",
        "over": over,
        "as": f"{step_id}_item",
        "mode": "concurrent",
        "concurrent": {"max_active": active, "max_outstanding": outstanding, "interrupt": interrupt},
        **more,
    }


_ASK: dict[str, Any] = {
    "id": "ask",
    "type": "interrupt",
    "kind": "approval",
    "request": [],
    "resume_schema": {"type": "object", "properties": {"answer": {"type": "string"}}},
}


def line(**first: Any) -> Workflow:
    """``first`` then ``second``; an ``ask`` of the first is asked about in between."""
    return _document(
        "line",
        "first",
        [{**_node("first", "state.last"), **first}, _node("second", "state.last", reads="input.value"), _ASK],
        [
            ("first", "ok", "second"),
            ("first", "ask", "ask"),
            ("ask", "submitted", "second"),
            ("second", "ok", "__end__"),
            ("second", "ask", "__end__"),
        ],
    )


def asking(**ask: Any) -> Workflow:
    """A question, then ``answered``, or ``unanswered`` where ``ask`` declares the outcome ``expired``."""
    expires = "expired" in ask.get("outcomes", ())
    return _document(
        "asking",
        "ask",
        [
            {**_ASK, **ask},
            _node("answered", "state.last"),
            *([_node("unanswered", "state.last")] if expires else []),
        ],
        [
            ("ask", "submitted", "answered"),
            *([("ask", "expired", "unanswered")] if expires else []),
            *((step, word, "__end__") for step in ("answered", "unanswered")[: 1 + expires] for word in ("ok", "ask")),
        ],
    )


def each(
    *,
    active: int = 2,
    outstanding: int = 8,
    interrupt: str = "quiesce",
    follow_up: bool = False,
    work: dict[str, Any] | None = None,
    ask: dict[str, Any] | None = None,
    **more: Any,
) -> Workflow:
    """``each`` item is worked on, and asked about where ``work`` says so; then ``after``.

    With ``follow_up`` an answered item has one more step before it arrives.
    """
    return _document(
        "each",
        "each",
        [
            _each("each", "input.items", active=active, outstanding=outstanding, interrupt=interrupt, **more),
            {**_node("work", reads="context.foreach.each.item"), **(work or {})},
            _node("after", "state.last"),
            {**_ASK, **(ask or {})},
            *([_node("follow_up")] if follow_up else []),
        ],
        [
            ("each", "loop", "work"),
            ("work", "ok", "each"),
            ("work", "ask", "ask"),
            ("ask", "submitted", "follow_up" if follow_up else "each"),
            *([("follow_up", "ok", "each"), ("follow_up", "ask", "each")] if follow_up else []),
            ("each", "done", "after"),
            *([("each", "completed_with_errors", "after")] if more else []),
            ("after", "ok", "__end__"),
            ("after", "ask", "__end__"),
        ],
    )


def rounds(steps: int = 2, target: str = "state.values") -> Workflow:
    """``step0``, ``step1`` ... each write the input's value; an ``ask`` of the last one leads back to the first."""
    names = [f"step{i}" for i in range(steps)]
    return _document(
        "rounds",
        "step0",
        [_node(name, target, reads="input.value") for name in names] + [_node("after", "state.last")],
        [
            *((names[i], word, names[i + 1]) for i in range(steps - 1) for word in ("ok", "ask")),
            (names[-1], "ask", "step0"),
            (names[-1], "ok", "after"),
            ("after", "ok", "__end__"),
            ("after", "ask", "__end__"),
        ],
    )


def one_by_one() -> Workflow:
    """A serial loop over the input's items, whose step writes to the run's own state; then ``after``."""
    return _document(
        "one_by_one",
        "each",
        [
            {"id": "each", "type": "foreach", "over": "input.items", "as": "each_item", "mode": "serial"},
            _node("work", reads="context.foreach.each.item"),
            _node("after", "state.last"),
        ],
        [
            ("each", "loop", "work"),
            ("work", "ok", "each"),
            ("work", "ask", "each"),
            ("each", "done", "after"),
            ("after", "ok", "__end__"),
            ("after", "ask", "__end__"),
        ],
    )


def nested(
    *,
    outer: str = "quiesce",
    inner: str = "quiesce",
    active: int = 2,
    outstanding: int = 8,
    inner_active: int = 2,
    inner_outstanding: int = 8,
) -> Workflow:
    """``outer`` over the input's items, ``inner`` over their orders, each order worked on and perhaps asked about."""
    return _document(
        "nested",
        "outer",
        [
            _each("outer", "input.items", active=active, outstanding=outstanding, interrupt=outer),
            _each(
                "inner",
                "context.foreach.outer.item.orders",
                active=inner_active,
                outstanding=inner_outstanding,
                interrupt=inner,
            ),
            _node("work", reads="context.foreach.inner.item"),
            _ASK,
        ],
        [
            ("outer", "loop", "inner"),
            ("inner", "loop", "work"),
            ("work", "ok", "inner"),
            ("work", "ask", "ask"),
            ("ask", "submitted", "inner"),
            ("inner", "done", "outer"),
            ("outer", "done", "__end__"),
        ],
    )


def resting(**moment: Any) -> Workflow:
    """``first``, a wait named ``rest``, ``second``; an ``ask`` of the second is asked about, then it ends."""
    return _document(
        "resting",
        "first",
        [
            _node("first", "state.last"),
            {"id": "rest", "type": "wait", **moment},
            _node("second", "state.last", reads="input.value"),
            _ASK,
        ],
        [
            ("first", "ok", "rest"),
            ("first", "ask", "rest"),
            ("rest", "elapsed", "second"),
            ("second", "ok", "__end__"),
            ("second", "ask", "ask"),
            ("ask", "submitted", "__end__"),
        ],
    )


def each_rests(*, active: int = 2, outstanding: int = 8, interrupt: str = "quiesce", **moment: Any) -> Workflow:
    """Each item is worked on, asked about where ``work`` says so, and rests otherwise."""
    return _document(
        "each_rests",
        "each",
        [
            _each("each", "input.items", active=active, outstanding=outstanding, interrupt=interrupt),
            _node("work", reads="context.foreach.each.item"),
            {"id": "rest", "type": "wait", **moment},
            _ASK,
        ],
        [
            ("each", "loop", "work"),
            ("work", "ok", "rest"),
            ("work", "ask", "ask"),
            ("rest", "elapsed", "each"),
            ("ask", "submitted", "each"),
            ("each", "done", "__end__"),
        ],
    )


def items(count: int, orders: int = 0) -> dict[str, Any]:
    """An input of ``count`` items, each with so many orders."""
    return {"items": [{"name": f"n{i}", "orders": [10 * i + j for j in range(orders)]} for i in range(count)]}
