"""What the modules named on the command line hold for a worker or a server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from wf_api.cli.modules import ModuleError, capabilities_of, load_module
from wf_core.authoring import AuthoredReducer, NodeSpec, ReducerCatalog, WorkflowBuilder
from wf_core.reducers import ReducerDefinition


@dataclass
class Served:
    """Typed capabilities, plain handlers by name, reducers by name."""

    nodes: list[NodeSpec[Any, Any]] = field(default_factory=list[NodeSpec[Any, Any]])
    handlers: dict[str, Callable[..., Any]] = field(default_factory=dict[str, Callable[..., Any]])
    reducers: dict[str, ReducerDefinition] = field(default_factory=dict[str, ReducerDefinition])

    def take(self, module: ModuleType) -> None:
        """Adds what a module holds: its ``registry`` of plain handlers where it has one, else its capabilities."""
        registry = getattr(module, "registry", None)
        if isinstance(registry, Mapping):
            self.handlers.update(registry)
        else:
            specs = capabilities_of(module)
            self.nodes += [spec for spec in specs if not any(spec is known for known in self.nodes)]
        for value in vars(module).values():
            if isinstance(value, AuthoredReducer):
                self.reducers[value.name] = value.definition
            elif isinstance(value, ReducerCatalog):
                self.reducers.update(value.definitions)
            elif isinstance(value, WorkflowBuilder):
                self.reducers.update(value.reducer_registry())


def load_all(names: Sequence[str]) -> Served:
    """What the modules of these names or files hold together."""
    served = Served()
    for name in names:
        served.take(load_module(name))
    return served


def load_attribute(text: str) -> Any:
    """The object that ``module:name`` or ``file.py:name`` names."""
    module_name, _, attribute = text.rpartition(":")
    module = load_module(module_name)
    if not hasattr(module, attribute):
        raise ModuleError(
            f"{module_name} has no {attribute!r}", path=text, hint="name something at the top level of the module"
        )
    return getattr(module, attribute)
