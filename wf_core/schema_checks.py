"""JSON Schema documents compiled once, checked many times."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from jsonschema.exceptions import ValidationError, best_match  # pyright: ignore[reportUnknownVariableType]
from jsonschema.protocols import Validator
from jsonschema.validators import Draft202012Validator, validator_for
from jsonschema_specifications import REGISTRY as SPECIFICATIONS  # pyright: ignore[reportMissingTypeStubs]
from referencing.exceptions import Unresolvable

from wf_core.errors import WorkflowExecutionError
from wf_core.schema_formats import format_checker
from wf_core.toml_keys import shown_place

Predicate = Callable[[Any], bool]


class PayloadInvalid(WorkflowExecutionError):
    """A payload does not satisfy its schema. Never retried: the same payload would fail again."""

    default_code = "payload_invalid"


class SchemaCheck:
    """One compiled schema.

    ``$schema`` selects the dialect, else Draft 2020-12. Formats are checked. Only references inside the document
    (and to the standard meta-schemas) resolve: nothing is fetched.
    """

    __slots__ = ("_surely_fits", "_validator", "schema")

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.schema = dict(schema)
        cls: Any = validator_for(self.schema, default=Draft202012Validator)
        self._validator: Validator = cls(self.schema, registry=SPECIFICATIONS, format_checker=format_checker(cls))
        self._surely_fits = _surely_fits(self.schema) if cls is Draft202012Validator else None

    def check(self, payload: Any, label: str) -> None:
        """Raises :class:`PayloadInvalid` with the text ``<label><path>: <reason>`` when the payload does not fit."""
        if self._surely_fits is not None and self._surely_fits(payload):
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
            worst = cast("ValidationError | None", best_match(errors)) or errors[0]
            where = shown_place(worst.absolute_path, below=label)
            raise PayloadInvalid(f"{where}: {worst.message}", path=where)


# ---- the short way
#
# The validator costs 10 to 20 microseconds for the smallest schema, and a step checks three. Most schemas use a few
# keywords only, and most payloads fit: a predicate made once from such a schema answers in a fraction of that. It may
# only ever say "fits" where the validator would; whatever it does not say so of goes to the validator, which then also
# words the error.

_ANNOTATIONS: Final = frozenset({"title", "description", "default", "examples", "deprecated", "$comment", "$schema"})
_OBJECT_KEYWORDS: Final = frozenset({"properties", "required", "additionalProperties"})
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "null": (type(None),),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "string": (str,),
    "array": (list,),
    "object": (dict,),
}


def _surely_fits(schema: object) -> Predicate | None:
    """A predicate that is true only of values that fit, or None for a schema with keywords it does not know."""
    if schema is True:
        return _anything
    if not isinstance(schema, dict):
        return None
    keywords = cast("dict[str, Any]", schema)
    parts: list[Predicate | None] = []
    for keyword, value in keywords.items():
        if keyword in _OBJECT_KEYWORDS:
            continue
        if keyword not in _ANNOTATIONS:
            make = _MAKERS.get(keyword)
            parts.append(None if make is None else make(value))
    if not _OBJECT_KEYWORDS.isdisjoint(keywords):
        parts.append(_object(keywords))
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    if not known:
        return _anything
    if len(known) == 1:
        return known[0]
    if len(known) == 2:
        first, second = known
        return lambda value: first(value) and second(value)
    return lambda value: all(part(value) for part in known)


def _anything(value: Any) -> bool:
    return True


def _type(names: Any) -> Predicate | None:
    listed: list[Any] = [names] if isinstance(names, str) else names
    if not all(name in _TYPES for name in listed):
        return None
    types = tuple(kind for name in listed for kind in _TYPES[name])
    if len(types) == 1:
        [only] = types
        return lambda value: type(value) is only
    return lambda value: type(value) in types


def _object(keywords: Mapping[str, Any]) -> Predicate | None:
    properties = {name: _surely_fits(schema) for name, schema in keywords.get("properties", {}).items()}
    further = _surely_fits(keywords.get("additionalProperties", True))
    closed = keywords.get("additionalProperties") is False
    required = tuple(keywords.get("required", ()))
    if None in properties.values() or (further is None and not closed):
        return None
    checks = cast("dict[str, Predicate]", properties)

    def fits(value: Any) -> bool:
        if type(value) is not dict:
            return False
        table = cast("dict[str, Any]", value)
        for name in required:
            if name not in table:
                return False
        for name, item in table.items():
            check = checks.get(name, further)
            if check is None or not check(item):
                return False
        return True

    return fits


def _items(schema: Any) -> Predicate | None:
    item = _surely_fits(schema)
    if item is None:
        return None
    if item is _anything:
        return lambda value: type(value) is list
    return lambda value: type(value) is list and all(map(item, cast("list[Any]", value)))


def _any_of(schemas: Any) -> Predicate | None:
    known = [part for part in map(_surely_fits, cast("Sequence[Any]", schemas)) if part is not None]
    return (lambda value: any(part(value) for part in known)) if known else None


def _one_of_texts(values: Any) -> Predicate | None:
    given = cast("list[object]", values)
    texts: frozenset[str] = frozenset(value for value in given if isinstance(value, str))
    return lambda value: type(value) is str and value in texts


def _number(holds: Callable[[Any, Any], bool]) -> Callable[[Any], Predicate | None]:
    return lambda limit: lambda value: type(value) in (int, float) and holds(value, limit)


def _sized(kind: type, holds: Callable[[int, Any], bool]) -> Callable[[Any], Predicate | None]:
    return lambda limit: lambda value: type(value) is kind and holds(len(value), limit)


_MAKERS: Final[Mapping[str, Callable[[Any], Predicate | None]]] = {
    "type": _type,
    "items": _items,
    "anyOf": _any_of,
    "enum": _one_of_texts,
    "const": lambda value: _one_of_texts([value]),
    "minimum": _number(lambda value, limit: value >= limit),
    "maximum": _number(lambda value, limit: value <= limit),
    "exclusiveMinimum": _number(lambda value, limit: value > limit),
    "exclusiveMaximum": _number(lambda value, limit: value < limit),
    "minLength": _sized(str, lambda length, limit: length >= limit),
    "maxLength": _sized(str, lambda length, limit: length <= limit),
    "minItems": _sized(list, lambda length, limit: length >= limit),
    "maxItems": _sized(list, lambda length, limit: length <= limit),
}
