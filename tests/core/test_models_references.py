from __future__ import annotations

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from wf_core.models import (
    CapabilityRef,
    ReducerRef,
    ReducerSpec,
    SiblingWritePolicy,
    SourceRef,
    WorkflowRef,
    workflow_ref_from,
)

APPEND = CapabilityRef(SourceRef(("wf", "std")), "append")


# --- Capabilities and reducers ---


def test_a_capability_text_is_split_at_its_last_dot() -> None:
    ref = CapabilityRef.parse("acme.billing.charge")

    assert ref == CapabilityRef(source=SourceRef(("acme", "billing")), name="charge")
    assert str(ref) == "acme.billing.charge"
    assert len({ref, CapabilityRef.parse("acme.billing.charge")}) == 1


def test_a_capability_reads_text_structure_and_instance_and_dumps_structure() -> None:
    adapter = TypeAdapter(CapabilityRef)
    structure = {"source": "wf.std", "capability_key": "append"}

    for value in ("wf.std.append", structure, APPEND, {"source": SourceRef(("wf", "std")), "capability_key": "append"}):
        ref = adapter.validate_python(value)
        assert ref == APPEND
        assert adapter.dump_python(ref) == adapter.dump_python(ref, mode="json") == structure


@pytest.mark.parametrize(
    "value",
    [
        "append",
        "",
        ".append",
        "wf.",
        "wf..append",
        {"source": "wf.std"},
        {"source": 1, "capability_key": "append"},
        {"source": "wf.std", "capability_key": "std.append"},
        {"source": "wf.std", "capability_key": "append", "more": 1},
        1,
        None,
    ],
)
def test_a_malformed_capability_is_refused(value: object) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(CapabilityRef).validate_python(value)


def test_a_source_field_reads_and_dumps_text() -> None:
    adapter = TypeAdapter(SourceRef)

    assert adapter.validate_python("wf.std") == SourceRef(("wf", "std"))
    assert adapter.dump_python(SourceRef(("wf", "std")), mode="json") == "wf.std"
    assert adapter.json_schema()["type"] == "string"


def test_every_written_form_of_a_reducer_means_the_same() -> None:
    canonical = {"ref": {"source": "wf.std", "capability_key": "append"}, "config": {}}

    forms = [
        ReducerRef.model_validate("wf.std.append"),
        ReducerRef.model_validate({"name": "wf.std.append"}),
        ReducerRef.model_validate({"name": "wf.std.append", "config": {}}),
        ReducerRef.model_validate(canonical),
        ReducerRef(name="wf.std.append"),
        ReducerRef(ref=APPEND),
    ]

    for form in forms:
        assert form.name == "wf.std.append"
        assert form.model_dump(mode="json") == canonical


def test_a_reducer_keeps_its_configuration() -> None:
    reducer = ReducerRef(name="acme.top", config={"n": 3})

    assert ReducerRef.model_validate_json(reducer.model_dump_json()) == reducer
    assert reducer.as_declared() == {"ref": {"source": "acme", "capability_key": "top"}, "config": {"n": 3}}
    assert ReducerRef(name="wf.std.append").as_declared() == "wf.std.append"


def test_reference_and_name_of_a_reducer_are_mutually_exclusive() -> None:
    with pytest.raises(ValueError, match="mutually exclusive"):
        ReducerRef(ref=APPEND, name="wf.std.append")


@pytest.mark.parametrize("value", [{}, {"name": 1}, {"name": "append"}, {"config": {}}, 1, None, ["wf.std.append"]])
def test_a_malformed_reducer_is_refused(value: object) -> None:
    with pytest.raises(ValidationError):
        ReducerRef.model_validate(value)


def test_a_reducer_spec_admits_no_configuration_and_merges_siblings_unless_told() -> None:
    spec = ReducerSpec.model_validate({"name": "acme.sum", "vendor": "acme"})

    assert spec.config_schema == {"type": "object", "properties": {}, "additionalProperties": False}
    assert spec.sibling_write_policy is SiblingWritePolicy.MERGEABLE
    assert spec.model_dump()["vendor"] == "acme"
    assert ReducerSpec(name="x.y", sibling_write_policy=SiblingWritePolicy("exclusive")).model_dump(mode="json")[
        "sibling_write_policy"
    ] == ("exclusive")


def test_a_reducer_spec_refuses_an_invalid_configuration_schema() -> None:
    with pytest.raises(ValidationError, match="invalid JSON Schema"):
        ReducerSpec(name="acme.sum", config_schema={"type": "nothing"})


# --- Workflows ---


@pytest.mark.parametrize(
    ("text", "dump"),
    [
        ("charge", {"name": "charge"}),
        ("workflow.billing.v3", {"artifact_id": "billing", "version": 3}),
        ("workflow.billing.v2.v3", {"artifact_id": "billing.v2", "version": 3}),
        ("workflow.billing", {"name": "workflow.billing"}),
        ("workflow.billing.vnext", {"name": "workflow.billing.vnext"}),
        ("workflow..v1", {"name": "workflow..v1"}),
        ("billing.v3", {"name": "billing.v3"}),
    ],
)
def test_a_workflow_text_means_an_artifact_or_a_name(text: str, dump: dict[str, object]) -> None:
    ref = WorkflowRef.model_validate(text)

    assert ref.model_dump() == ref.model_dump(mode="json") == dump
    assert WorkflowRef.model_validate(dump) == ref
    assert ref.display == text


@pytest.mark.parametrize(
    "value",
    [
        {},
        "",
        "  ",
        {"name": " "},
        {"artifact_id": "billing"},
        {"version": 1},
        {"artifact_id": " ", "version": 1},
        {"artifact_id": "billing", "version": 0},
        {"artifact_id": "billing", "version": True},
        {"artifact_id": "billing", "version": "1"},
        {"name": "x", "artifact_id": "billing", "version": 1},
        {"name": "x", "version": 1},
        {"name": "x", "more": 1},
        "workflow.billing.v0",
        1,
    ],
)
def test_a_malformed_workflow_reference_is_refused(value: object) -> None:
    with pytest.raises(ValidationError):
        WorkflowRef.model_validate(value)


def test_references_are_normalised_from_every_form() -> None:
    ref = WorkflowRef(artifact_id="billing", version=3)

    assert workflow_ref_from("workflow.billing.v3") == ref
    assert workflow_ref_from({"artifact_id": "billing", "version": 3}) == ref
    assert workflow_ref_from(ref) == ref


def test_a_field_takes_a_workflow_text() -> None:
    class Holder(BaseModel):
        workflow: WorkflowRef

    assert Holder.model_validate({"workflow": "charge"}).model_dump() == {"workflow": {"name": "charge"}}
