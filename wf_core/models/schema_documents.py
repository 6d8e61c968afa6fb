"""The check that a document is a valid JSON Schema in its own dialect."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, Final, TypeAlias

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from jsonschema.validators import validator_for
from pydantic import AfterValidator

from wf_core.models.json_values import JsonValue

# Checking costs about 0.2 ms for every subschema, and the same documents are parsed again and again. The cache is
# bounded twice: by the number of its entries and by the size of a document that may enter it.
_CACHED_DOCUMENTS: Final = 512
_CACHED_DOCUMENT_CHARS: Final = 16_384


def check_json_schema(document: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` unless the document is valid under ``$schema``, or under Draft 2020-12 without one."""
    try:
        text = json.dumps(document)
    except RecursionError:
        raise ValueError("invalid JSON Schema: the document is nested too deeply") from None
    except (TypeError, ValueError):
        raise ValueError("invalid JSON Schema: the document is not JSON") from None
    fault = _cached_fault(text) if len(text) <= _CACHED_DOCUMENT_CHARS else _fault(text)
    if fault is not None:
        raise ValueError(f"invalid JSON Schema: {fault}")


def _fault(text: str) -> str | None:
    try:
        document: dict[str, Any] = json.loads(text)
        if not isinstance(document.get("$schema", ""), str):
            return "$schema must be a string"
        if document.get("required") == []:
            # An empty list demands nothing. Draft 4 alone forbids it, and dumps of our models write it.
            del document["required"]
        validator_for(document, default=Draft202012Validator).check_schema(document)
    except SchemaError as error:
        return f"{error.message} (at {error.json_path})"
    except RecursionError:
        return "the document is nested too deeply"
    except ValueError as error:
        return f"$schema is no URI: {error}"
    return None


_cached_fault: Final = lru_cache(maxsize=_CACHED_DOCUMENTS)(_fault)


def _checked(document: dict[str, JsonValue]) -> dict[str, JsonValue]:
    check_json_schema(document)
    return document


SchemaDocument: TypeAlias = Annotated[dict[str, JsonValue], AfterValidator(_checked)]
"""A model field that holds a JSON Schema as a plain object."""
