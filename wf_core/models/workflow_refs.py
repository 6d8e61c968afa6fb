"""References to workflows: by name, or by artifact and version."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

_ARTIFACT_TEXT: Final = re.compile(r"workflow\.(?P<artifact>.+)\.v(?P<version>[0-9]+)", re.DOTALL)


def _is_none(value: object) -> bool:
    return value is None


class WorkflowRef(BaseModel):
    """Another workflow: either ``name``, or ``artifact_id`` with ``version``.

    The text ``workflow.<artifact>.v<version>`` means the artifact form; any other text is a name.
    """

    model_config = ConfigDict(extra="forbid")

    name: str | None = Field(default=None, exclude_if=_is_none)
    artifact_id: str | None = Field(default=None, exclude_if=_is_none)
    version: int | None = Field(default=None, ge=1, strict=True, exclude_if=_is_none)

    @property
    def display(self) -> str:
        """The text form; also the key under which a prepared child is looked up."""
        return self.name if self.name is not None else f"workflow.{self.artifact_id}.v{self.version}"

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, data: object) -> object:
        if not isinstance(data, str):
            return data
        match = _ARTIFACT_TEXT.fullmatch(data)
        if match is None:
            return {"name": data}
        return {"artifact_id": match["artifact"], "version": int(match["version"])}

    @model_validator(mode="after")
    def _exactly_one_form(self) -> Self:
        by_artifact = self.artifact_id is not None and self.version is not None
        if self.name is not None:
            if self.artifact_id is not None or self.version is not None:
                raise ValueError("workflow reference 'name' and 'artifact_id' with 'version' are mutually exclusive")
        elif not by_artifact:
            raise ValueError("a workflow reference needs 'name', or 'artifact_id' and 'version'")
        text = self.artifact_id if by_artifact else self.name
        if text is None or not text.strip():
            raise ValueError("a workflow reference must not be blank")
        return self


def workflow_ref_from(value: WorkflowRef | str | Mapping[str, Any]) -> WorkflowRef:
    """The reference that a text, an object or a ready reference stands for; raises ``ValueError``."""
    if isinstance(value, Mapping):
        return WorkflowRef.model_validate(dict(value))
    return WorkflowRef.model_validate(value)
