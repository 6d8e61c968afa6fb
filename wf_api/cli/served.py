"""What the modules named on the command line hold for a worker or a server."""

from __future__ import annotations

import inspect
import sysconfig
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from wf_api.cli.modules import ModuleError, capabilities_of, load_module, workflows_of
from wf_core.authoring import AuthoredReducer, NodeSpec, ReducerCatalog, WorkflowBuilder
from wf_core.errors import WfError
from wf_core.models import Workflow
from wf_core.reducers import ReducerDefinition

_PRODUCT: Final = Path(__file__).resolve().parents[2]
_FOREIGN: Final = (
    *(Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "purelib", "platlib")),
    *(_PRODUCT / name for name in ("wf_core", "wf_worker", "wf_api/cli")),
)
"""Where no code of the module's author is."""


@dataclass
class Served:
    """Typed capabilities, plain handlers by name, reducers by name, and the modules that hold them."""

    nodes: list[NodeSpec[Any, Any]] = field(default_factory=list[NodeSpec[Any, Any]])
    handlers: dict[str, Callable[..., Any]] = field(default_factory=dict[str, Callable[..., Any]])
    reducers: dict[str, ReducerDefinition] = field(default_factory=dict[str, ReducerDefinition])
    modules: dict[str, ModuleType] = field(default_factory=dict[str, ModuleType])

    @property
    def capabilities(self) -> list[str]:
        """The names of what a worker can execute."""
        return [*(spec.name for spec in self.nodes), *self.handlers]

    def require_capabilities(self) -> None:
        """Raises :class:`ModuleError` where a worker would have nothing to do."""
        if not self.nodes and not self.handlers:
            raise ModuleError(
                f"no capabilities in {', '.join(self.modules)}",
                hint="write one as a function with @node, or list them in `registry`",
            )

    def workflows(self) -> list[Workflow]:
        """The workflows of all modules."""
        found: list[Workflow] = []
        for name, module in self.modules.items():
            with _blamed(name, "has workflows that cannot be built"):
                found += workflows_of(module)
        return found

    def take(self, name: str, module: ModuleType) -> None:
        """Adds what a module holds: its ``registry`` of plain handlers where it has one, else its capabilities."""
        self.modules[name] = module
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
        served.take(name, _loaded(name))
    return served


def load_attribute(text: str) -> Any:
    """The object that ``module:name`` or ``file.py:name`` names; what a function gives is taken for the function."""
    module_name, _, attribute = text.rpartition(":")
    module = _loaded(module_name)
    if not hasattr(module, attribute):
        raise ModuleError(
            f"{module_name} has no {attribute!r}", path=text, hint="name something at the top level of the module"
        )
    found = getattr(module, attribute)
    if not callable(found) or isinstance(found, WorkflowBuilder):
        return found
    needed = _needed_arguments(found)
    if needed:
        raise ModuleError(
            f"{text} cannot be called without arguments: it needs {', '.join(needed)}",
            path=text,
            hint="name a workflow, or a function without arguments that returns one",
        )
    with _blamed(text, "cannot be called"):
        return found()


def _needed_arguments(function: Callable[..., Any]) -> list[str]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []  # nobody knows before it is called
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [each.name for each in parameters if each.default is each.empty and each.kind not in optional]


def _loaded(name: str) -> ModuleType:
    with _blamed(name, "cannot be imported"):
        return load_module(name)


@contextmanager
def _blamed(name: str, failed: str) -> Iterator[None]:
    """Whatever the author's code raises becomes one error that says where."""
    try:
        yield
    except ModuleError:
        raise
    except (Exception, SystemExit) as error:
        where = f" ({place})" if (place := _place(error)) else ""
        said = error.msg if isinstance(error, SyntaxError) else str(error)
        hint = error.hint if isinstance(error, WfError) else None
        raise ModuleError(
            f"{name} {failed}: {type(error).__name__}: {said}{where}",
            path=name,
            hint=hint or "repair the module; python shows the whole traceback when it imports it",
        ) from error


def _place(error: BaseException) -> str | None:
    """File and line of the author's code that is nearest to the fault."""
    places = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename:
        places.append((error.filename, error.lineno))
    own = [(file, line) for file, line in places if _is_authors(file)]
    return f"{own[-1][0]}:{own[-1][1]}" if own else None


def _is_authors(file: str) -> bool:
    path = Path(file)
    return path.suffix == ".py" and path.exists() and not any(path.resolve().is_relative_to(root) for root in _FOREIGN)
