"""The workflows that these tests publish, and the handlers of their steps."""

from __future__ import annotations

from typing import Any

from wf_core.run_state import RuntimeContext

ANY_OBJECT: dict[str, Any] = {"type": "object"}


def _double(payload: dict[str, Any], _: RuntimeContext) -> dict[str, Any]:
    return {"outcome": "ok", "output": {"n": payload["n"] * 2}}


HANDLERS = {"double": _double}

DOUBLE: dict[str, Any] = {
    "name": "double",
    "input_schema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
    "state_schema": {"type": "object", "properties": {"n": {"type": "integer"}, "result": {"type": "integer"}}},
    "output_schema": {"type": "object", "properties": {"result": {"type": "integer"}}},
    "node_defs": [
        {
            "name": "double",
            "input_schema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
            "output_schema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
            "outcomes": ["ok"],
        }
    ],
    "start": "twice",
    "nodes": [
        {
            "id": "twice",
            "type": "node",
            "node": "double",
            "input": [{"target": "n", "path": "input.n"}],
            "output": [{"source": "n", "target": "state.result"}],
        }
    ],
    "edges": [{"from": "twice", "outcome": "ok", "to": "__end__"}],
}
"""Doubles ``n``: one handler step."""

APPROVAL: dict[str, Any] = {
    "name": "approval",
    "input_schema": {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]},
    "state_schema": {"type": "object", "properties": {"title": {"type": "string"}, "note": {"type": "string"}}},
    "output_schema": {"type": "object", "properties": {"note": {"type": "string"}}},
    "start": "ask",
    "nodes": [
        {
            "id": "ask",
            "type": "interrupt",
            "kind": "approval",
            "request": [{"target": "title", "path": "input.title"}],
            "resume": [{"source": "note", "target": "state.note"}],
            "outcomes": ["approved", "rejected"],
            "resume_schema": {
                "type": "object",
                "properties": {"note": {"type": "string"}},
                "required": ["note"],
                "additionalProperties": False,
            },
        },
        {"id": "refused", "type": "end", "outcome": "rejected"},
    ],
    "outcomes": ["ok", "rejected"],
    "edges": [
        {"from": "ask", "outcome": "approved", "to": "__end__"},
        {"from": "ask", "outcome": "rejected", "to": "refused"},
    ],
}
"""Asks one person, who approves or rejects with a note."""

SIGNATURES: dict[str, Any] = {
    "name": "signatures",
    "input_schema": {"type": "object", "properties": {"people": {"type": "array", "items": {"type": "string"}}}},
    "state_schema": {"type": "object", "properties": {"signed": {"type": "array", "reducer": "wf.std.append"}}},
    "output_schema": {"type": "object", "properties": {"signed": {"type": "array"}}},
    "start": "each",
    "nodes": [
        {
            "id": "each",
            "type": "foreach",
            "over": "input.people",
            "as": "person",
            "mode": "concurrent",
            "concurrent": {"max_active": 4, "interrupt": "continue"},
        },
        {
            "id": "sign",
            "type": "interrupt",
            "kind": "signature",
            "request": [{"target": "person", "path": "context.foreach.each.item"}],
            "resume": [{"source": "name", "target": "state.signed"}],
        },
    ],
    "edges": [
        {"from": "each", "outcome": "loop", "to": "sign"},
        {"from": "sign", "outcome": "submitted", "to": "each"},
        {"from": "each", "outcome": "done", "to": "__end__"},
    ],
}
"""Asks several people at once."""

TWO_QUESTIONS: dict[str, Any] = {
    "name": "two_questions",
    "input_schema": ANY_OBJECT,
    "state_schema": {"type": "object", "properties": {}},
    "output_schema": ANY_OBJECT,
    "start": "first",
    "nodes": [
        {"id": "first", "type": "interrupt", "kind": "question"},
        {"id": "second", "type": "interrupt", "kind": "question"},
    ],
    "edges": [
        {"from": "first", "outcome": "submitted", "to": "second"},
        {"from": "second", "outcome": "submitted", "to": "__end__"},
    ],
}
"""Asks one person twice."""
