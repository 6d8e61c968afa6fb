"""Requests that cannot be carried out: status, envelope, and nothing stored."""

from __future__ import annotations

import copy
from typing import Any

import httpx
import pytest

from tests.api.conftest import Api
from tests.api.workflows import APPROVAL, DOUBLE, SIGNATURES

DEEP = '{"workflow": "double", "input": {"n": 1, "x": ' + "[" * 300 + "]" * 300 + "}}"

BAD_TEXTS = [
    ("", "json_invalid", 400),
    ('{"workflow": "double"', "json_invalid", 400),
    ("workflow: double", "json_invalid", 400),
    ('{"workflow": "double", "input": {"n": NaN}}', "json_not_finite", 400),
    ('{"workflow": "double", "input": {"n": -Infinity}}', "json_not_finite", 400),
    ('{"workflow": "double", "input": {"n": 1e999}}', "json_not_finite", 400),
    ('{"workflow": "double", "workflow": "double", "input": {"n": 1}}', "json_duplicate_key", 400),
    ('{"workflow": "double", "input": {"n": 1, "n": 2}}', "json_duplicate_key", 400),
    ('{"workflow": "double", "input": {"n": 1, "s": "\\ud800"}}', "json_lone_surrogate", 400),
    (DEEP, "json_too_deep", 400),
    ("[" * 100_000, "json_too_deep", 400),
    ('{"workflow": "double", "input": {"n": ' + "1" * 5000 + "}}", "json_number_too_long", 400),
    ("[]", "request_invalid", 422),
    ("null", "request_invalid", 422),
]

BAD_STARTS: list[tuple[dict[str, Any], str, int, str | None]] = [
    ({"workflow": "double", "input": {"n": 1}, "inputs": {}}, "request_invalid", 422, "inputs"),
    ({"workflow": "double", "input": {"n": 1}, "limits": {"max_step": 1}}, "request_invalid", 422, "limits.max_steps"),
    ({"workflow": "double", "input": {"n": 1}, "limits": {"max_steps": 0}}, "request_invalid", 422, "limits.max_steps"),
    (
        {"workflow": "double", "input": {"n": 1}, "limits": {"max_steps": "9"}},
        "request_invalid",
        422,
        "limits.max_steps",
    ),
    (
        {"workflow": "double", "input": {"n": 1}, "limits": {"max_steps": True}},
        "request_invalid",
        422,
        "limits.max_steps",
    ),
    ({"workflow": "double", "input": [1]}, "request_invalid", 422, "input"),
    ({"workflow": "double", "input": None}, "request_invalid", 422, "input"),
    ({"workflow": 7, "input": {}}, "request_invalid", 422, "workflow"),
    ({"input": {"n": 1}}, "request_invalid", 422, None),
    ({"workflow": "double", "digest": "sha256:" + "0" * 64}, "request_invalid", 422, None),
    ({"workflow": "double", "input": {"n": 1}, "run_id": "a/b"}, "request_invalid", 422, "run_id"),
    ({"workflow": "double", "input": {"n": 1}, "run_id": "x" * 129}, "request_invalid", 422, "run_id"),
    ({"workflow": "double", "input": {"n": 1}, "run_id": "a\n"}, "request_invalid", 422, "run_id"),
    ({"workflow": "double", "input": {"n": 1}, "wait_seconds": 61}, "request_invalid", 422, "wait_seconds"),
    ({"workflow": "double", "input": {"n": 1}, "wait_seconds": -1}, "request_invalid", 422, "wait_seconds"),
    ({"workflow": "double", "input": {"n": 1}, "idempotency_key": ""}, "request_invalid", 422, "idempotency_key"),
    ({"workflow": "double", "input": {"n": 1}, "idempotency_key": "a\nb"}, "request_invalid", 422, "idempotency_key"),
    ({"workflow": "double", "input": {"n": 1}, "open_policy": "maybe"}, "request_invalid", 422, "open_policy"),
    (
        {"workflow": "double", "input": {"n": 1}, "open_policy": "use_existing", "idempotency_key": "k"},
        "request_invalid",
        422,
        "idempotency_key",
    ),
    ({"workflow": "nobody", "input": {}}, "workflow_not_found", 404, "workflow"),
    ({"workflow": "", "input": {}}, "workflow_not_found", 404, "workflow"),
    ({"workflow": "double", "version": "9", "input": {"n": 1}}, "workflow_version_not_found", 404, "version"),
    ({"digest": "sha256:" + "0" * 64, "input": {}}, "workflow_not_found", 404, "digest"),
    ({"workflow": "double", "input": {}}, "workflow_input_invalid", 422, "input"),
    ({"workflow": "double", "input": {"n": "1"}}, "workflow_input_invalid", 422, "input.n"),
    ({"workflow": "double", "input": {"n": 1.5}}, "workflow_input_invalid", 422, "input.n"),
    ({"workflow": "double", "input": {"n": "1"}, "idempotency_key": "k"}, "workflow_input_invalid", 422, "input.n"),
    ({"workflow": "double", "input": {"n": 1, "x": "y" * 200_000}}, "payload_too_large", 413, "input"),
]


def assert_refused(response: httpx.Response, code: str, status: int) -> dict[str, Any]:
    """The envelope, and nothing but the envelope."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    body = response.json()
    assert set(body) == {"error"}
    error = body["error"]
    assert {"code", "message", "path", "hint"} <= set(error) <= {"code", "message", "path", "hint", "details"}
    assert error["code"] == code, error
    assert error["message"]
    assert "Traceback" not in response.text
    return error


@pytest.mark.parametrize(("text", "code", "status"), BAD_TEXTS)
@pytest.mark.parametrize("path", ["/v1/runs", "/v1/workflows"])
def test_a_body_that_is_not_strict_json_is_refused_and_nothing_stored(
    api: Api, path: str, text: str, code: str, status: int
) -> None:
    api.publish(DOUBLE)
    before = api.contents()

    response = api.post_raw(path, text)

    assert assert_refused(response, code, status)["hint"]
    assert api.contents() == before


@pytest.mark.parametrize(("body", "code", "status", "path"), BAD_STARTS)
def test_a_start_that_cannot_be_carried_out_is_refused_and_nothing_stored(
    api: Api, body: dict[str, Any], code: str, status: int, path: str | None
) -> None:
    api.publish(DOUBLE)
    before = api.contents()

    response = api.post("/v1/runs", body)

    assert assert_refused(response, code, status)["path"] == path
    assert api.contents() == before


def test_a_body_above_the_limit_is_refused_by_size(api: Api) -> None:
    api.publish(DOUBLE)
    before = api.contents()

    response = api.post("/v1/runs", {"workflow": "double", "input": {"n": 1, "x": "y" * 1_000_000}})

    assert "limit" in assert_refused(response, "body_too_large", 413)["message"]
    assert api.contents() == before


def test_a_body_far_above_the_limit_does_not_harm_the_server(api: Api) -> None:
    try:
        response = api.post_raw("/v1/runs", b" " * 20_000_000)
    except httpx.TransportError:
        pass  # the server has stopped reading, which is an answer as well
    else:
        assert_refused(response, "body_too_large", 413)

    assert httpx.get(api.url + "/healthz").status_code == 200


def test_a_body_sent_in_parts_without_a_length_is_measured_all_the_same(api: Api) -> None:
    def parts() -> Any:
        for _ in range(100):
            yield b" " * 10_000

    response = api.http.post("/v1/runs", content=parts(), headers={"Content-Type": "application/json"})

    assert_refused(response, "body_too_large", 413)


@pytest.mark.parametrize("media_type", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_a_body_that_is_not_declared_as_json_is_refused(api: Api, media_type: str) -> None:
    response = api.http.post("/v1/runs", content=b'{"workflow": "double"}', headers={"Content-Type": media_type})

    assert "Content-Type: application/json" in assert_refused(response, "media_type_unsupported", 415)["hint"]


def test_every_issue_of_an_invalid_workflow_comes_at_once_and_nothing_is_stored(api: Api) -> None:
    before = api.contents()
    document = copy.deepcopy(DOUBLE)
    document["start"] = "nowhere"
    document["nodes"][0]["node"] = "triple"
    document["nodes"][0]["output"] = [{"source": "n", "target": "state.unknown"}]
    document["edges"].append({"from": "twice", "outcome": "later", "to": "ghost"})

    response = api.post("/v1/workflows", {"workflow": document})

    error = assert_refused(response, "workflow_invalid", 422)
    issues = error["details"]["issues"]
    assert all(set(issue) == {"code", "path", "message", "hint"} and issue["hint"] for issue in issues)
    assert {"unknown_start", "unknown_node_def", "unknown_edge_destination"} <= {issue["code"] for issue in issues}
    assert api.contents() == before


def test_every_malformed_part_of_a_workflow_is_named_by_its_place(api: Api) -> None:
    before = api.contents()
    document = {
        "name": "a/b",
        "start": 3,
        "input_schema": {"type": "objekt"},
        "state_schema": {},
        "nodes": [
            {"id": "ask", "type": "interrupt", "kind": "k", "request": [{"target": "a b", "path": "foo.x"}]},
            {"id": "what", "type": "teleport"},
        ],
        "edges": [{"from": "ask", "to": "__end__"}],
    }

    error = assert_refused(api.post("/v1/workflows", {"workflow": document}), "workflow_invalid", 422)

    places = [issue["path"] for issue in error["details"]["issues"]]
    assert places == [
        "name",
        "input_schema",
        "output_schema",
        "start",
        "nodes[0].request[0].target",
        "nodes[0].request[0].path",
        "nodes[1]",
        "edges[0].outcome",
    ]
    assert api.contents() == before


def test_keys_that_no_model_takes_are_refused_at_their_place_with_all_other_issues(api: Api) -> None:
    before = api.contents()
    document = {
        **copy.deepcopy(SIGNATURES),
        "surprise": 1,
        "node_defs": [{**DOUBLE["node_defs"][0], "retries": 1}],
        "start": "nowhere",
    }
    document["nodes"][0] |= {"item_eror": "skip", "layout": {"x": 1}}
    document["nodes"][0]["concurrent"]["max_activ"] = 2
    document["nodes"][1]["request"][0]["sauce"] = "state.signed"
    document["nodes"].append(
        {
            "id": "choose",
            "type": "condition",
            "check": {
                "op": "and",
                "args": [{"op": "not", "agr": 1, "arg": {"op": "exists", "path": "state.signed", "a b": 1}}],
            },
        }
    )
    document["edges"][2]["form"] = "each"

    error = assert_refused(api.post("/v1/workflows", {"workflow": document}), "workflow_invalid", 422)

    issues = error["details"]["issues"]
    hints = {issue["path"]: issue["hint"] for issue in issues if issue["code"] == "unknown_field"}
    assert set(hints) == {
        "surprise",
        "node_defs[0].retries",
        "nodes[0].item_eror",
        "nodes[0].layout",
        "nodes[0].concurrent.max_activ",
        "nodes[1].request[0].sauce",
        "nodes[2].check.args[0].agr",
        'nodes[2].check.args[0].arg."a b"',
        "edges[2].form",
    }
    assert hints["nodes[0].item_eror"] == "did you mean 'item_error'?"
    assert hints["node_defs[0].retries"] == "did you mean 'retry'?"
    assert hints["nodes[0].concurrent.max_activ"] == "did you mean 'max_active'?"
    assert hints["edges[2].form"] == "did you mean 'from'?"
    assert "input_schema" in hints["surprise"]
    assert len(issues) == len({(issue["code"], issue["path"]) for issue in issues})
    assert api.contents() == before


def test_unknown_keys_come_together_with_the_issues_of_the_graph(api: Api) -> None:
    document = {**DOUBLE, "start": "nowhere", "surprise": 1}

    error = assert_refused(api.post("/v1/workflows", {"workflow": document}), "workflow_invalid", 422)

    assert [(issue["code"], issue["path"]) for issue in error["details"]["issues"]] == [
        ("unknown_field", "surprise"),
        ("unknown_start", "start"),
    ]


def test_every_shape_that_the_models_read_is_still_published(api: Api) -> None:
    document = copy.deepcopy(SIGNATURES)
    document["input_schema"]["x-note"] = {"any": "keyword"}
    document["state_schema"] = {
        "x-owner": "ann",
        "fields": [
            {"path": "state.signed", "type": "array", "reducer": "wf.std.append", "description": "kept"},
            {"path": "state.copy", "type": "array"},
        ],
    }
    document["nodes"][0] = {
        "id": "each",
        "type": "foreach",
        "over": "input.people",
        "as_": "person",
        "mode": "parallel",
        "parallel": {"max_active": 4, "interrupt": "continue"},
        "on_item_error": "skip",
    }
    document["nodes"][1] = {
        "id": "sign",
        "type": "interrupt",
        "kind": "signature",
        "request_map": {"context.foreach.each.item": "person"},
        "out_map": {"name": "state.signed"},
        "resume_schema": {"type": "object", "x-form": "wide"},
    }
    document["edges"][0] = {"from_": "each", "outcome": "loop", "to": "sign"}
    document["edges"].append({"from": "each", "outcome": "completed_with_errors", "to": "__end__"})

    published = api.publish(document)

    kept = api.get(f"/v1/workflows/{published['name']}/1").json()["workflow"]
    assert kept["input_schema"]["x-note"] == {"any": "keyword"} and kept["state_schema"]["x-owner"] == "ann"
    assert kept["nodes"][0]["item_error"]["action"] == "skip"
    assert api.publish(kept)["digest"] == published["digest"]


def test_deeply_nested_conditions_are_looked_through(api: Api) -> None:
    check: dict[str, Any] = {"op": "exists", "path": "input.n", "surprise": 1}
    for _ in range(200):
        check = {"op": "not", "arg": check}
    document = {**DOUBLE, "nodes": [*DOUBLE["nodes"], {"id": "c", "type": "condition", "check": check}]}

    error = assert_refused(api.post("/v1/workflows", {"workflow": document}), "workflow_invalid", 422)

    assert "unknown_field" in {issue["code"] for issue in error["details"]["issues"]}


@pytest.mark.parametrize("version", ["", "latest", "a b", "a/b", "x" * 101])
def test_a_version_that_cannot_be_part_of_a_url_is_refused(api: Api, version: str) -> None:
    response = api.post("/v1/workflows", {"workflow": DOUBLE, "version": version})

    assert_refused(response, "workflow_version_invalid", 422)
    assert api.contents() == {}


def test_unknown_fields_are_refused_by_every_request(api: Api) -> None:
    api.publish(APPROVAL)
    run = api.start("approval", input={"title": "t"})
    before = api.contents()

    for path in (
        "/v1/workflows",
        "/v1/runs",
        f"/v1/runs/{run['run_id']}/resume",
        f"/v1/runs/{run['run_id']}/interrupts/{run['interrupt']['interrupt_key'].replace('#', '%23')}/resume",
        f"/v1/runs/{run['run_id']}/cancel",
    ):
        error = assert_refused(api.post(path, {"surprise": 1}), "request_invalid", 422)
        assert "unknown_field" in {issue["code"] for issue in error["details"]["issues"]}

    assert api.contents() == before


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/v1/runs?limit=0", "limit"),
        ("/v1/runs?limit=101", "limit"),
        ("/v1/runs?limit=x", "limit"),
        ("/v1/runs?status=odd", "status"),
        ("/v1/runs?statuss=failed", "statuss"),
        ("/v1/runs/r?include=everything", "include"),
        ("/v1/runs/r/trace?limit=101", "limit"),
        ("/v1/runs/r/trace?start=-1", "start"),
        ("/v1/runs/r/interrupts?x=1", "x"),
        ("/v1/workflows?limit=0", "limit"),
    ],
)
def test_wrong_parameters_are_refused_before_anything_is_looked_up(api: Api, path: str, place: str) -> None:
    assert assert_refused(api.get(path), "request_invalid", 422)["path"] == place


@pytest.mark.parametrize("cursor", ["x", "!!!", "W10", "WyIiLDEsMl0", "\u00e9", "A" * 5000])
@pytest.mark.parametrize("path", ["/v1/runs", "/v1/workflows"])
def test_a_cursor_that_no_list_gave_is_refused(api: Api, path: str, cursor: str) -> None:
    assert_refused(api.get(path, cursor=cursor), "cursor_invalid", 400)


def test_a_cursor_of_one_filter_is_refused_under_another(api: Api) -> None:
    api.publish(DOUBLE)
    for _ in range(3):
        api.start("double", input={"n": 1})
    cursor = api.get("/v1/runs", limit=1).json()["next_cursor"]

    assert_refused(api.get("/v1/runs", limit=1, status="completed", cursor=cursor), "cursor_invalid", 400)


def test_unknown_routes_and_methods_answer_with_the_envelope(api: Api) -> None:
    assert_refused(api.get("/v1/nothing"), "route_not_found", 404)
    assert_refused(api.get("/v1/runs/"), "route_not_found", 404)
    assert_refused(api.get("/docs"), "route_not_found", 404)

    response = api.http.delete("/v1/runs")

    assert "GET, POST" in assert_refused(response, "method_not_allowed", 405)["hint"]
    assert response.headers["allow"] == "GET, POST"


@pytest.mark.parametrize("below", ["", "/trace", "/interrupts", "/progress"])
def test_an_unknown_run_is_not_found(api: Api, below: str) -> None:
    assert_refused(api.get("/v1/runs/nobody" + below), "run_not_found", 404)


@pytest.mark.parametrize("below", ["/resume", "/interrupts/x%231/resume", "/cancel"])
def test_nothing_can_be_done_to_an_unknown_run(api: Api, below: str) -> None:
    assert_refused(api.post("/v1/runs/nobody" + below, {}), "run_not_found", 404)
    assert api.contents() == {}


def test_a_failure_inside_the_server_shows_nothing_of_it(api: Api) -> None:
    with api.valkey.client() as client:
        client.set("wf:flows", "not a set")

    error = assert_refused(api.get("/v1/workflows"), "damaged", 500)

    assert "WRONGTYPE" not in str(error)
