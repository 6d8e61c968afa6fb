from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from wf_core.models import (
    ConditionNode,
    EndNode,
    ForeachConcurrentPolicy,
    ForeachItemErrorPolicy,
    ForeachNode,
    InputPathBinding,
    InterruptNode,
    JoinNode,
    NodeUse,
    Step,
    SubgraphNode,
    WaitNode,
)
from wf_core.paths import GraphSourcePath, LocalPath, StatePath

steps = TypeAdapter(Step)

ANY_OBJECT = {"type": "object", "additionalProperties": True}


def foreach(**overrides: object) -> dict[str, object]:
    return {"type": "foreach", "id": "each", "over": "state.orders", "as": "order", **overrides}


def interrupt(**overrides: object) -> dict[str, object]:
    return {"type": "interrupt", "id": "ask", "kind": "approval", **overrides}


def node(**overrides: object) -> dict[str, object]:
    return {"type": "node", "id": "pay", "node": "charge", **overrides}


# --- The union ---


@pytest.mark.parametrize(
    ("raw", "model"),
    [
        (node(), NodeUse),
        ({"type": "subgraph", "id": "s", "workflow": "child"}, SubgraphNode),
        ({"type": "condition", "id": "c", "check": {"op": "exists", "path": "input.x"}}, ConditionNode),
        (foreach(), ForeachNode),
        (interrupt(), InterruptNode),
        ({"type": "wait", "id": "w", "until": "input.due"}, WaitNode),
        ({"type": "join", "id": "j"}, JoinNode),
        ({"type": "end", "id": "e"}, EndNode),
    ],
)
def test_every_step_kind_parses_by_type_ignores_unknown_keys_and_round_trips(
    raw: dict[str, object], model: type
) -> None:
    step = steps.validate_python({**raw, "position": {"x": 1}})

    assert type(step) is model
    dump = steps.dump_python(step, mode="json")
    assert "position" not in dump
    assert steps.validate_python(dump) == step
    assert steps.validate_json(steps.dump_json(step)) == step


@pytest.mark.parametrize("raw", [{"id": "a"}, {"type": "teleport", "id": "a"}, {"type": "join"}, {"type": "end"}])
def test_a_step_needs_a_known_type_and_an_id(raw: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        steps.validate_python(raw)


def test_the_published_schema_requires_the_type_of_a_step() -> None:
    definitions = steps.json_schema()["$defs"]

    kinds = (NodeUse, SubgraphNode, ConditionNode, ForeachNode, InterruptNode, WaitNode, JoinNode, EndNode)
    for name in (kind.__name__ for kind in kinds):
        assert "type" in definitions[name]["required"]


# --- Node ---


def test_a_node_step_has_empty_bindings_and_no_hints_by_default() -> None:
    assert NodeUse(id="pay", node="charge").model_dump() == {
        "id": "pay",
        "type": "node",
        "node": "charge",
        "desc": None,
        "input": [],
        "output": [],
        "retry": None,
        "timeout_seconds": None,
    }


@pytest.mark.parametrize(
    "hint", [{"retry": -1}, {"retry": True}, {"retry": 1.5}, {"timeout_seconds": 0}, {"timeout_seconds": True}]
)
def test_hints_out_of_range_are_refused(hint: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        steps.validate_python(node(**hint))


def test_deprecated_maps_become_bindings_values_first_and_are_never_dumped() -> None:
    raw = node(
        in_map={"state.person.email": "user.email", "input.whole": "."},
        input_values={"mode": "fast", "nothing": None},
        out_map={".": "state.result", "a.b": "state.ab"},
    )

    step = steps.validate_python(raw)

    dump = step.model_dump(mode="json")
    assert dump["input"] == [
        {"target": "mode", "value": "fast"},
        {"target": "nothing", "value": None},
        {"target": "user.email", "path": "state.person.email"},
        {"target": ".", "path": "input.whole"},
    ]
    assert dump["output"] == [
        {"source": ".", "target": "state.result"},
        {"source": "a.b", "target": "state.ab"},
    ]
    assert not {"in_map", "input_values", "out_map"} & set(dump)
    assert "in_map" in raw


def test_deprecated_maps_take_ready_paths() -> None:
    step = NodeUse.model_validate(
        node(in_map={GraphSourcePath.state("a"): LocalPath.of("b")}, out_map={LocalPath.root(): StatePath.of("r")})
    )

    assert step.input == [InputPathBinding(target=LocalPath.of("b"), path=GraphSourcePath.state("a"))]
    assert step.output[0].target == StatePath.of("r")


@pytest.mark.parametrize("deprecated", ["in_map", "input_values", "out_map"])
@pytest.mark.parametrize("canonical", ["input", "output"])
def test_deprecated_maps_do_not_mix_with_bindings(deprecated: str, canonical: str) -> None:
    with pytest.raises(ValidationError, match="cannot be mixed"):
        steps.validate_python(node(**{deprecated: {}, canonical: []}))


@pytest.mark.parametrize("deprecated", ["in_map", "input_values", "out_map"])
@pytest.mark.parametrize("value", [None, [], "x"])
def test_a_deprecated_map_must_be_an_object(deprecated: str, value: object) -> None:
    with pytest.raises(ValidationError, match="must be an object"):
        steps.validate_python(node(**{deprecated: value}))


def test_empty_deprecated_maps_mean_no_bindings() -> None:
    step = steps.validate_python(node(in_map={}, input_values={}, out_map={}))

    assert (step.input, step.output) == ([], [])


# --- Subgraph ---


def test_a_subgraph_step_takes_open_objects_and_ends_ok_by_default() -> None:
    step = SubgraphNode.model_validate({"id": "s", "workflow": "workflow.child.v2"})

    assert step.workflow.artifact_id == "child"
    assert step.input_schema.as_json_schema() == step.output_schema.as_json_schema() == {"type": "object"}
    assert step.outcomes == ["ok"]
    with pytest.raises(ValidationError):
        SubgraphNode.model_validate({"id": "s", "workflow": "child", "outcomes": []})
    with pytest.raises(ValidationError, match="invalid JSON Schema"):
        SubgraphNode.model_validate({"id": "s", "workflow": "child", "input_schema": {"type": "nothing"}})


# --- Foreach ---


def test_foreach_reference_exposes_item_and_index_paths() -> None:
    step = ForeachNode(id="each", over=GraphSourcePath.state("orders"), as_="order")

    assert step.item == GraphSourcePath("context", ("foreach", "each", "item"))
    assert step.index == GraphSourcePath("context", ("foreach", "each", "index"))
    assert str(step.item) == "context.foreach.each.item"


def test_foreach_reference_treats_dotted_id_as_one_literal_segment() -> None:
    step = ForeachNode.model_validate(foreach(id="orders.v2"))

    assert step.item.parts == ("foreach", "orders.v2", "item")
    assert str(step.item) == 'context.foreach."orders.v2".item'
    assert GraphSourcePath.parse(str(step.index)) == step.index


def test_foreach_computed_paths_are_not_serialized_fields() -> None:
    step = ForeachNode.model_validate(foreach())

    for dump in (step.model_dump(), step.model_dump(mode="json"), step.model_dump(by_alias=True)):
        assert not {"item", "index"} & set(dump)
    assert not {"item", "index"} & set(ForeachNode.model_fields)
    assert not {"item", "index"} & set(ForeachNode.model_json_schema()["properties"])


def test_foreach_paths_work_in_node_input_and_subgraph_input() -> None:
    outer = ForeachNode.model_validate(foreach(id="orders.v2"))

    for step_type, extra in ((NodeUse, {"node": "charge"}), (SubgraphNode, {"workflow": "child"})):
        from_instance = step_type.model_validate(
            {"id": "x", "input": [{"target": "order", "path": outer.item}], **extra}
        )
        from_text = step_type.model_validate(
            {"id": "x", "input": [{"target": "order", "path": str(outer.item)}], **extra}
        )
        assert from_instance == from_text


def test_a_loop_dumps_its_alias_as_the_key_as_without_being_asked() -> None:
    dump = ForeachNode.model_validate(foreach()).model_dump(mode="json")

    assert dump == {
        "id": "each",
        "type": "foreach",
        "over": "state.orders",
        "as": "order",
        "mode": "serial",
        "item_error": {"action": "fail", "collect_to": None},
        "concurrent": None,
    }


def test_the_alias_is_read_under_either_name() -> None:
    by_name = {key: value for key, value in foreach().items() if key != "as"} | {"as_": "order"}

    assert steps.validate_python(by_name) == steps.validate_python(foreach())
    with pytest.raises(ValidationError):
        steps.validate_python({key: value for key, value in foreach().items() if key != "as"})


def test_concurrent_mode_and_policy_go_together() -> None:
    step = steps.validate_python(foreach(mode="concurrent", concurrent={}))

    assert step.concurrent == ForeachConcurrentPolicy(max_active=4, max_outstanding=20, interrupt="quiesce")
    with pytest.raises(ValidationError, match="concurrent policy"):
        steps.validate_python(foreach(mode="concurrent"))
    with pytest.raises(ValidationError, match="concurrent policy"):
        steps.validate_python(foreach(mode="serial", concurrent={}))


@pytest.mark.parametrize(
    "policy",
    [
        {"max_active": 0},
        {"max_outstanding": 0},
        {"max_active": 21},
        {"max_active": 3, "max_outstanding": 2},
        {"max_active": True},
        {"interrupt": "panic"},
        {"more": 1},
    ],
)
def test_a_malformed_concurrent_policy_is_refused(policy: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        ForeachConcurrentPolicy.model_validate(policy)


def test_the_window_error_names_max_outstanding() -> None:
    with pytest.raises(ValidationError, match="max_outstanding"):
        ForeachConcurrentPolicy(max_active=3, max_outstanding=2)


def test_a_bare_string_is_the_item_error_action() -> None:
    assert steps.validate_python(foreach(item_error="skip")).item_error == ForeachItemErrorPolicy(action="skip")


@pytest.mark.parametrize(
    "policy",
    ["collect", {"action": "collect"}, {"action": "skip", "collect_to": "state.errors"}, {"collect_to": "state.e"}],
)
def test_a_collect_target_is_given_exactly_for_collect(policy: object) -> None:
    with pytest.raises(ValidationError, match="collect_to"):
        steps.validate_python(foreach(item_error=policy))


@pytest.mark.parametrize(
    "policy", [{"action": "retry"}, {"action": "collect", "collect_to": "state"}, {"action": "fail", "more": 1}]
)
def test_a_malformed_item_error_policy_is_refused(policy: object) -> None:
    with pytest.raises(ValidationError):
        steps.validate_python(foreach(item_error=policy))


def test_deprecated_loop_shapes_become_their_present_names() -> None:
    step = steps.validate_python(foreach(mode="parallel", parallel={"max_active": 2}, on_item_error="skip"))

    dump = step.model_dump(mode="json")
    assert (dump["mode"], dump["concurrent"]["max_active"], dump["item_error"]["action"]) == ("concurrent", 2, "skip")
    assert not {"parallel", "on_item_error"} & set(dump)


@pytest.mark.parametrize(
    "shape",
    [
        {"on_item_error": "skip", "item_error": "skip"},
        {"mode": "concurrent", "parallel": {}, "concurrent": {}},
        {"on_item_error": {"action": "skip"}},
        {"on_item_error": "collect"},
        {"on_item_error": None},
    ],
)
def test_deprecated_loop_shapes_do_not_mix_with_present_ones(shape: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        steps.validate_python(foreach(**shape))


# --- Interrupt ---


def test_an_interrupt_admits_any_object_by_default() -> None:
    step = InterruptNode(id="ask", kind="approval")

    assert step.model_dump() == {
        "id": "ask",
        "type": "interrupt",
        "kind": "approval",
        "request": [],
        "resume": [],
        "outcomes": ["submitted"],
        "request_schema": ANY_OBJECT,
        "resume_schema": ANY_OBJECT,
    }
    assert not step.has_explicit_contract


@pytest.mark.parametrize("key", ["request_schema", "resume_schema"])
def test_a_schema_makes_the_contract_explicit_unless_it_admits_any_object(key: str) -> None:
    explicit = InterruptNode.model_validate(interrupt(**{key: {"type": "object", "required": ["approved"]}}))
    permissive = InterruptNode.model_validate(interrupt(**{key: ANY_OBJECT}))

    assert explicit.has_explicit_contract
    assert not permissive.has_explicit_contract
    assert "has_explicit_contract" not in explicit.model_dump()


def test_an_untyped_interrupt_stays_untyped_when_its_dump_is_parsed() -> None:
    step = InterruptNode.model_validate(interrupt())

    assert not InterruptNode.model_validate(step.model_dump()).has_explicit_contract


@pytest.mark.parametrize("key", ["request_schema", "resume_schema"])
@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({}, "type 'object'"),
        ({"type": "string"}, "type 'object'"),
        ({"type": ["object", "null"]}, "type 'object'"),
        ({"type": "object", "properties": []}, "invalid JSON Schema"),
        (None, "valid dictionary"),
        (True, "valid dictionary"),
    ],
)
def test_an_interrupt_schema_must_be_a_valid_object_schema(key: str, schema: object, reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        steps.validate_python(interrupt(**{key: schema}))


def test_deprecated_interrupt_maps_become_bindings() -> None:
    step = steps.validate_python(interrupt(request_map={"state.a": "a"}, out_map={"answer": "state.answer"}))

    dump = step.model_dump(mode="json")
    assert dump["request"] == [{"target": "a", "path": "state.a"}]
    assert dump["resume"] == [{"source": "answer", "target": "state.answer"}]
    assert not {"request_map", "out_map"} & set(dump)


@pytest.mark.parametrize("deprecated", ["request_map", "out_map"])
@pytest.mark.parametrize("canonical", ["request", "resume"])
def test_deprecated_interrupt_maps_do_not_mix_with_bindings(deprecated: str, canonical: str) -> None:
    with pytest.raises(ValidationError, match="cannot be mixed"):
        steps.validate_python(interrupt(**{deprecated: {}, canonical: []}))
    with pytest.raises(ValidationError, match="must be an object"):
        steps.validate_python(interrupt(**{deprecated: None}))


# --- End ---


def test_an_end_step_ends_ok_unless_told_and_never_blank() -> None:
    assert EndNode(id="e").outcome == "ok"
    with pytest.raises(ValidationError):
        EndNode(id="e", outcome="")
