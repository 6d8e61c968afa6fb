"""Adapters for step shapes that are still read but never written. Delete them to end the compatibility.

Each takes the raw input of a model and returns its canonical form in a new object; what is not an object is passed
on for the model to refuse.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast


def fold_binding_maps(data: object, *, values: str | None, paths: str, inputs: str, outputs: str) -> object:
    """Turn binding maps into lists of bindings.

    ``values`` names a map {local path: value} and ``paths`` a map {graph path: local path}, both for the list
    ``inputs``, in that order; ``out_map`` is {local path: state path} for the list ``outputs``.
    """
    if not isinstance(data, dict):
        return data
    raw = cast("dict[str, object]", data)
    deprecated = [key for key in (values, paths, "out_map") if key is not None and key in raw]
    if not deprecated:
        return raw
    if mixed := [key for key in (inputs, outputs) if key in raw]:
        raise ValueError(f"deprecated {_listed(deprecated)} cannot be mixed with {_listed(mixed)}")

    fields = {key: value for key, value in raw.items() if key not in deprecated}
    bindings: list[dict[str, object]] = []
    if values in deprecated:
        bindings += [{"target": target, "value": value} for target, value in _map(raw, values).items()]
    if paths in deprecated:
        bindings += [{"target": target, "path": path} for path, target in _map(raw, paths).items()]
    if bindings:
        fields[inputs] = bindings
    if "out_map" in deprecated:
        fields[outputs] = [{"source": source, "target": target} for source, target in _map(raw, "out_map").items()]
    return fields


def fold_foreach_shapes(data: object) -> object:
    """Turn ``on_item_error``, the mode ``parallel`` and the key ``parallel`` into their present names."""
    if not isinstance(data, dict):
        return data
    fields = dict(cast("dict[str, object]", data))
    if "on_item_error" in fields:
        if "item_error" in fields:
            raise ValueError("deprecated 'on_item_error' cannot be mixed with 'item_error'")
        action = fields.pop("on_item_error")
        if not isinstance(action, str):
            raise ValueError("deprecated 'on_item_error' must be the name of an action")
        fields["item_error"] = action
    if "parallel" in fields:
        if "concurrent" in fields:
            raise ValueError("deprecated 'parallel' cannot be mixed with 'concurrent'")
        fields["concurrent"] = fields.pop("parallel")
    if fields.get("mode") == "parallel":
        fields["mode"] = "concurrent"
    return fields


def _map(raw: dict[str, object], key: str) -> Mapping[object, object]:
    value = raw[key]
    if not isinstance(value, Mapping):
        raise ValueError(f"deprecated {key!r} must be an object")
    return cast("Mapping[object, object]", value)


def _listed(keys: list[str]) -> str:
    return ", ".join(repr(key) for key in keys)
