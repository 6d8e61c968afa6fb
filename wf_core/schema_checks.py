"""JSON Schema documents compiled once, checked many times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from jsonschema.exceptions import ValidationError, best_match
from jsonschema.protocols import Validator
from jsonschema.validators import Draft202012Validator, validator_for
from jsonschema_specifications import REGISTRY as SPECIFICATIONS
from referencing.exceptions import Unresolvable

from wf_core.errors import WorkflowExecutionError
from wf_core.paths import format_toml_path_segments

_TRIVIAL: Final[tuple[dict[str, Any], ...]] = ({}, {"type": "object"}, {"type": "object", "additionalProperties": True})


class PayloadInvalid(WorkflowExecutionError):
    """A payload does not satisfy its schema. Never retried: the same payload would fail again."""

    default_code = "payload_invalid"


class SchemaCheck:
    """One compiled schema.

    ``$schema`` selects the dialect, else Draft 2020-12. Formats are checked. Only references inside the document
    (and to the standard meta-schemas) resolve: nothing is fetched.
    """

    __slots__ = ("_accepts_any_object", "_validator", "schema")

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.schema = dict(schema)
        self._accepts_any_object = {k: v for k, v in self.schema.items() if k != "title"} in _TRIVIAL
        cls: Any = validator_for(self.schema, default=Draft202012Validator)
        self._validator: Validator = cls(self.schema, registry=SPECIFICATIONS, format_checker=cls.FORMAT_CHECKER)

    def check(self, payload: Any, label: str) -> None:
        """Raises :class:`PayloadInvalid` with the text ``<label><path>: <reason>`` when the payload does not fit."""
        if self._accepts_any_object and type(payload) is dict:
            return
        try:
            errors: list[ValidationError] = list(self._validator.iter_errors(payload))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        except Unresolvable as error:
            raise PayloadInvalid(
                f"{label}: the schema holds a reference that cannot be resolved: {error}", path=label
            ) from error
        except RecursionError as error:
            raise PayloadInvalid(f"{label}: the schema refers to itself without end", path=label) from error
        if errors:
            worst = best_match(errors) or errors[0]
            where = _location(worst)
            raise PayloadInvalid(f"{label}{where}: {worst.message}", path=f"{label}{where}")


def _location(error: ValidationError) -> str:
    text = ""
    for part in error.absolute_path:
        text += (
            f"[{part}]"
            if isinstance(part, int)
            else "." + format_toml_path_segments((part,))
            if _printable(part)
            else f"[{part!r}]"
        )
    return text


def _printable(part: str) -> bool:
    return bool(part.strip()) and part.isprintable()
