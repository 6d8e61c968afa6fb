"""A schema said ``date-time`` and any text was accepted; a misspelt format was accepted without a word.

To the library a format is a remark unless a checker is given, and an unknown one is never checked
(python-jsonschema/jsonschema#848, #1278, #235). Here formats are checked wherever a payload is, and a workflow whose
schemas name one that nobody checks is refused when it is saved.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.conftest import Api
from tests.cases.flows import END, contract, flow, found, inline, step
from tests.support.stores import MemoryCase
from wf_core.models import Workflow
from wf_core.schema_checks import PayloadInvalid, SchemaCheck
from wf_core.schema_formats import format_checker, known_formats
from wf_core.validation import validate_workflow

WHEN: dict[str, Any] = {"type": "string", "format": "date-time"}

GOOD_AND_BAD: dict[str, tuple[list[Any], list[Any]]] = {
    "date-time": (
        ["2026-01-01T00:00:00Z", "2026-01-01t23:59:59.123+02:00", "2024-02-29T00:00:00-00:00"],
        [
            *("this should fail", "2026-02-30T00:00:00Z", "2026-01-01T00:00:00", "2026-01-01", "2026-01-01 00:00:00Z"),
            *("2026-01-01T24:00:00Z", "20260101T000000Z", "2026-01-01T00:00:00Z\n", "", "２026-01-01T00:00:00Z"),
        ],
    ),
    "date": (["2024-02-29"], ["2026-02-29", "2026-1-1", "20260101", "2026-01-01\n"]),
    "time": (["12:00:00Z"], ["12:00:00", "25:00:00Z", "12:00:00Z\n"]),
    "duration": (["P1DT2H"], ["1 day", "P"]),
    "email": (["a@b.example"], ["a.example"]),
    "hostname": (["a-b.example"], ["-a", "a_b"]),
    "ipv4": (["10.0.0.1"], ["10.0.0", "010.0.0.1"]),
    "ipv6": (["::1"], ["::g"]),
    "uri": (["https://a.example/b?c#d"], ["not a uri", "https://a b"]),
    "iri": (["https://ä.example/日本", "https://a.example"], ["not an iri", "https://a b", "https://\x80", "ä"]),
    "iri-reference": (["/日本", "ä#ö"], ["a b", "%zz"]),
    "uuid": (["12345678-1234-5678-1234-567812345678"], ["12345678"]),
    "json-pointer": (["/a/b~1c"], ["a"]),
    "regex": (["^a+$"], ["["]),
    "int32": ([2**31 - 1, -(2**31), 1.5], [2**31]),
    "int64": ([-(2**63)], [2**63]),
}


@pytest.mark.parametrize("name", GOOD_AND_BAD)
def test_a_format_admits_what_it_describes_and_nothing_else(name: str) -> None:
    check = SchemaCheck({"format": name})
    good, bad = GOOD_AND_BAD[name]

    for value in good:
        check.check(value, "it")
    for value in bad:
        with pytest.raises(PayloadInvalid):
            check.check(value, "it")


def test_every_format_of_the_standard_is_checked() -> None:
    standard = (
        "date-time date time duration email idn-email hostname idn-hostname ipv4 ipv6 uri uri-reference iri "
        "iri-reference uuid uri-template json-pointer relative-json-pointer regex"
    )
    assert set(standard.split()) <= set(known_formats())


@pytest.mark.parametrize("text", GOOD_AND_BAD["date-time"][1])
def test_a_bad_time_is_refused_at_every_entrance_with_its_place(api: Api, text: str) -> None:
    document = flow(
        "timed",
        [step("echo", "echo", "input.when", "state.when")],
        [("echo", "ok", END)],
        takes={"when": WHEN},
        state={"when": WHEN},
    )
    api.publish(document)

    refused = api.post("/v1/runs", {"workflow": "timed", "input": {"when": text}})

    assert refused.status_code == 422
    error = refused.json()["error"]
    assert (error["code"], error["path"]) == ("workflow_input_invalid", "input.when")


@pytest.mark.parametrize("place", ["input", "output", "state"])
def test_a_bad_time_inside_a_run_fails_its_step_and_names_the_place(memory_case: MemoryCase, place: str) -> None:
    node = contract("echo")
    if place != "state":
        node[f"{place}_schema"] = {"type": "object", "properties": {"value": WHEN}}
    document = flow(
        "timed",
        [step("echo", "echo", "input.when", "state.when")],
        [("echo", "ok", END)],
        takes={"when": {}},
        state={"when": WHEN if place == "state" else {}},
        defs=[node],
    )
    with inline(memory_case.store, document, {"when": "2026-02-30T00:00:00Z"}) as (_, run):
        record = found(memory_case.store, run)

    assert record.error is not None
    assert (record.status, record.error["type"], record.error["node_id"]) == ("failed", "payload_invalid", "echo")
    assert ("when" if place == "state" else "value") in str(record.error["message"])
    assert "date-time" in str(record.error["message"])


UNKNOWN: list[tuple[dict[str, Any], str]] = [
    ({"properties": {"when": {"format": "datetime"}}}, "properties.when.format"),
    ({"properties": {"a.b": {"items": {"format": "datetime"}}}}, 'properties."a.b".items.format'),
    ({"properties": {"x": {"anyOf": [{"type": "null"}, {"format": "datetime"}]}}}, "properties.x.anyOf[1].format"),
    ({"$defs": {"T": {"additionalProperties": {"format": "datetime"}}}}, "$defs.T.additionalProperties.format"),
    ({"properties": {"x": {"if": True, "then": {"not": {"format": "datetime"}}}}}, "properties.x.then.not.format"),
    ({"properties": {"format": {"format": "datetime"}}}, "properties.format.format"),
]


@pytest.mark.parametrize(("schema", "place"), UNKNOWN)
def test_a_workflow_with_an_unknown_format_is_refused_when_it_is_saved(
    api: Api, schema: dict[str, Any], place: str
) -> None:
    document = flow("misspelt", [step("echo", "echo")], [("echo", "ok", END)])
    document["node_defs"][0]["output_schema"] = {"type": "object", **schema}
    before = api.contents()

    refused = api.post("/v1/workflows", {"workflow": document})

    assert refused.status_code == 422
    [issue] = [i for i in refused.json()["error"]["details"]["issues"] if i["code"] == "unknown_format"]
    shown = place.replace("$defs", '"$defs"')
    assert issue["path"] == f"node_defs[0].output_schema.{shown}"
    assert issue["hint"] == "did you mean 'date-time'?"
    assert api.contents() == before


def test_every_schema_of_a_workflow_is_looked_at() -> None:
    bad = {"type": "object", "properties": {"x": {"format": "nothing-like-it"}}}
    document = flow(
        "all",
        [{"id": "ask", "type": "interrupt", "kind": "k", "request_schema": bad, "resume_schema": bad}],
        [("ask", "submitted", END)],
        defs=[{**contract("echo"), "input_schema": bad, "output_schema": bad}],
    )
    for name in ("input_schema", "state_schema", "output_schema"):
        document[name] = bad

    issues = validate_workflow(Workflow.model_validate(document)).errors

    assert [issue.path.removesuffix(".properties.x.format") for issue in issues if issue.code == "unknown_format"] == [
        "input_schema",
        "state_schema",
        "output_schema",
        "node_defs[0].input_schema",
        "node_defs[0].output_schema",
        "nodes[0].request_schema",
        "nodes[0].resume_schema",
    ]


@pytest.mark.parametrize(
    "schema",
    [
        {"const": {"format": "datetime"}},
        {"enum": [{"format": "datetime"}]},
        {"default": {"format": "datetime"}},
        {"examples": [{"format": "datetime"}]},
        {"properties": {"format": {"type": "string"}}},
        {"properties": {"secret": {"type": "string", "format": "password"}, "n": {"format": "int64"}}},
    ],
)
def test_a_format_that_is_data_or_says_only_what_a_value_is_meant_for_is_no_mistake(schema: dict[str, Any]) -> None:
    document = flow("fine", [step("echo", "echo")], [("echo", "ok", END)])
    document["node_defs"][0]["input_schema"] = {"type": "object", **schema}

    assert validate_workflow(Workflow.model_validate(document)).ok


def test_a_schema_of_an_older_draft_has_its_own_formats_and_the_newer_ones() -> None:
    from jsonschema.validators import Draft4Validator

    assert {"date-time", "uuid", "duration"} <= set(format_checker(Draft4Validator).checkers)
    with pytest.raises(PayloadInvalid):
        SchemaCheck({"$schema": "http://json-schema.org/draft-04/schema#", "format": "uuid"}).check("x", "it")
