"""Python files and modules that a person names on the command line: their capabilities and workflows.

Only what was named is imported; nothing that is stored anywhere ever is.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from wf_core.authoring import NodeSpec, WorkflowBuilder
from wf_core.errors import WfError
from wf_core.models import Workflow


class ModuleError(WfError):
    """A module cannot be loaded, or holds nothing that was looked for."""

    default_code = "module_invalid"


def load_module(name: str) -> ModuleType:
    """Loads a Python file by its path, or a module by its dotted name (the current folder counts)."""
    path = Path(name)
    if path.suffix == ".py" or path.exists():
        if not path.is_file():
            raise ModuleError(f"{name} is no Python file", path=name, hint="name a .py file or a dotted module")
        module_name = f"wf_module_{path.stem}"
        spec = importlib.util.spec_from_file_location(module_name, path)
        if spec is None or spec.loader is None:
            raise ModuleError(f"{name} is no Python file", path=name, hint="name a .py file or a dotted module")
        module = importlib.util.module_from_spec(spec)
        # As for `python file.py`: what lies beside the file can be imported by it.
        folder = str(path.resolve().parent)
        if folder not in sys.path:
            sys.path.append(folder)
        # Registered before it runs, as an import would: annotations are looked up there.
        sys.modules[module_name] = module
        spec.loader.exec_module(module)
        return module
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(error.name + ".")):
            raise ModuleError(
                f"there is no module {name!r}",
                path=name,
                hint="name a .py file, or a module that can be imported from here",
            ) from error
        raise


def capabilities_of(module: ModuleType) -> list[NodeSpec[Any, Any]]:
    """The module's capabilities: its ``NODES``, else every one among its names."""
    declared = getattr(module, "NODES", None)
    found = (
        list(declared)
        if declared is not None
        else [value for value in vars(module).values() if isinstance(value, NodeSpec)]
    )
    unique = {id(spec): spec for spec in found}
    return list(unique.values())


def workflows_of(module: ModuleType) -> Iterator[Workflow]:
    """The module's workflows: what ``build()`` gives, else every builder and workflow among its names.

    Each comes once, behind the children that its builder prepared.
    """
    build = getattr(module, "build", None)
    candidates: list[object] = [build()] if callable(build) else list(vars(module).values())
    found: list[Workflow] = []
    for candidate in candidates:
        if isinstance(candidate, WorkflowBuilder):
            found += [*candidate.prepared_subgraphs(), candidate.compile()]
        elif isinstance(candidate, Workflow):
            found.append(candidate)
    for i, workflow in enumerate(found):
        if workflow not in found[:i]:
            yield workflow


def bundled_example(name: str) -> Path:
    """An example that ships with the product: beside this package when installed, in ``examples`` of a checkout."""
    root = Path(__file__).resolve().parents[1]
    for folder in (root / "examples", root.parent / "examples"):
        path = folder / f"{name}.py"
        if path.is_file():
            return path
    raise ModuleError(f"the example {name!r} is not installed", path=name)
