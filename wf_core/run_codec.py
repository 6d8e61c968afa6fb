"""A run as one JSON document, and back: what a host keeps of a run in memory between two processes.

    {"version": 2, "state": {every field of RunState, records as objects}}

It is meant for runs at rest, and may be written between any two steps. Nothing is converted on the way: what is not
JSON is refused when it is written, and what is not exactly of its field's type is refused when it is read. Workflows,
handlers, prepared children and the host's platform object are no part of it. Frame metadata is plain JSON here and is
checked where it is read.

Version 1 knew no step budget. Its runs get the default one, so a host keeps the upgraded document before it goes on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias, cast, get_args, get_origin, get_type_hints

from pydantic import BaseModel, BeforeValidator, ConfigDict, TypeAdapter, ValidationError

from wf_core.errors import WfError
from wf_core.models.json_values import validate_strict_json_value
from wf_core.models.reducers import ReducerRef
from wf_core.models.workflow_refs import WorkflowRef
from wf_core.paths import StatePath
from wf_core.run_limits import DEFAULT_MAX_STEPS
from wf_core.run_state import ROOT_SCOPE_ID, Json, RunState
from wf_core.toml_keys import shown_place

_Object: TypeAlias = dict[str, Any]


class PersistedRunInvalid(WfError, ValueError):
    """The state of a stored run cannot be what this module wrote; ``path`` names the place."""

    default_code: ClassVar[str] = "persisted_run_invalid"


def _exactly_int(value: object) -> object:
    if type(value) is not int:
        raise ValueError(f"a version is an integer, not {type(value).__name__}")
    return value


class _Envelope(BaseModel):
    model_config = ConfigDict(extra="forbid")

    state: Annotated[_Object, BeforeValidator(validate_strict_json_value)]
    """A copy of what was given, checked to be JSON; what it must hold is checked when it is loaded."""


class PersistedRunState(_Envelope):
    """The stored form of a run. ``version`` changes whenever the meaning of ``state`` does."""

    version: Annotated[Literal[2], BeforeValidator(_exactly_int)]


class _PersistedRunStateV1(_Envelope):
    version: Literal[1]


# ---- writing

_PLACE: Final = re.compile(r"""(?:[^:'"]|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")+(?=: )""")
"""The check for JSON tells place and reason in one text; a colon of the place itself stands within quotes."""


def dump_run_state(run: RunState) -> dict[str, Any]:
    """The run as JSON that shares nothing with it.

    :class:`PersistedRunInvalid` where it holds something that JSON cannot say, such as a date that a handler returned.
    """
    try:
        state = validate_strict_json_value(_writer(RunState)(run))
    except ValueError as error:
        place = _PLACE.match(str(error))
        raise PersistedRunInvalid(
            f"the run cannot be stored: state.{error}",
            code="run_not_json",
            path=None if place is None else f"state.{place[0]}",
            hint="only null, bool, int, finite float, str, list and dict can be stored",
        ) from error
    root = run.scopes.get(ROOT_SCOPE_ID)
    if root is not None and root.committed_state is not run.state and root.committed_state != run.state:
        raise _two_states()
    return {"version": 2, "state": state}


_Writer: TypeAlias = Callable[[Any], Json]


@cache
def _writer(declared: Any) -> _Writer:
    """How a value of a declared type is written.

    A value of any other type is left alone: either it is null, or the check for JSON refuses it with its place. What
    is declared as JSON is left alone too, so that a record inside a handler's output is refused and not written.
    """
    kind = get_origin(declared) or declared
    inner = [_writer(argument) for argument in get_args(declared) if argument is not type(None)]
    if kind in (dict, list):
        return _as_it_is if inner[-1] is _as_it_is else _CONTAINERS[kind](inner[-1])
    if inner:
        return inner[0]  # ``X | None`` is the only union of these records
    if is_dataclass(kind):
        return _record_writer(cast(type, kind))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return lambda value: value.value if isinstance(value, kind) else value
    return _LEAVES.get(kind, _as_it_is)


def _dict_writer(write: _Writer) -> _Writer:
    def written(value: Any) -> Json:
        return {k: write(v) for k, v in cast("_Object", value).items()} if isinstance(value, dict) else value

    return written


def _list_writer(write: _Writer) -> _Writer:
    def written(value: Any) -> Json:
        return [write(v) for v in cast("list[Any]", value)] if isinstance(value, list) else value

    return written


def _record_writer(kind: type) -> _Writer:
    hints = get_type_hints(kind)
    table = [(field.name, _writer(hints[field.name])) for field in fields(kind)]
    return lambda value: {n: write(getattr(value, n)) for n, write in table} if isinstance(value, kind) else value


def _as_it_is(value: Any) -> Json:
    return value


def _reducer(value: Any) -> Json:
    return {"ref": value.ref.as_dict(), "config": value.config} if isinstance(value, ReducerRef) else value


_CONTAINERS: Final = {dict: _dict_writer, list: _list_writer}
_LEAVES: Final[dict[Any, _Writer]] = {
    StatePath: lambda value: str(value) if isinstance(value, StatePath) else value,
    ReducerRef: _reducer,
    WorkflowRef: lambda value: value.model_dump() if isinstance(value, WorkflowRef) else value,
}


# ---- reading


def load_run_state(payload: object) -> RunState:
    """The run of a stored document, which it shares nothing with. Errors: see :func:`load_run_state_with_upgrade`."""
    return load_run_state_with_upgrade(payload)[0]


def load_run_state_with_upgrade(payload: object) -> tuple[RunState, bool]:
    """The run, and whether it was read from an older version and should be stored anew before it goes on.

    pydantic's ``ValidationError`` for anything but an envelope of a known version with JSON in it, and
    :class:`PersistedRunInvalid` for a state that is no run. Both are ``ValueError``.
    """
    if _is_version_1(payload):
        state = _PersistedRunStateV1.model_validate(payload).state
        _give_default_budget(state)
        return _run_of(state), True
    state = PersistedRunState.model_validate(payload).state
    _check_budget(state)
    return _run_of(state), False


def _is_version_1(payload: object) -> bool:
    version = cast("_Object", payload).get("version") if isinstance(payload, dict) else None
    return type(version) is int and version == 1


_RUN_STATE: Final = TypeAdapter(RunState)


def _run_of(state: _Object) -> RunState:
    interrupt = state.get("interrupt")
    for name in ("resumable", "typed"):  # pydantic would take 1 and "yes" for true
        if isinstance(interrupt, dict) and type(cast("_Object", interrupt).get(name, True)) is not bool:
            raise _refused(f"state.interrupt.{name}", "must be true or false")
    try:
        run = _RUN_STATE.validate_python(state, extra="forbid")
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        more = error.error_count() - 1
        raise _refused(
            _place("state", *first["loc"]), first["msg"] + (f" (and {more} more mistakes)" if more else "")
        ) from error
    root = run.scopes.get(ROOT_SCOPE_ID)
    if root is not None:
        if root.committed_state != run.state:
            raise _two_states()
        run.state = root.committed_state
    return run


def _two_states() -> PersistedRunInvalid:
    return _refused("state.state", "is not the committed state of the scope 'root'")


# ---- the step budget


def _give_default_budget(state: _Object) -> None:
    """Whatever a document of version 1 says of a budget was written by somebody else, and is not read."""
    state["limits"], state["steps_executed"] = {"max_steps": DEFAULT_MAX_STEPS}, 0
    for _, record in _numbered_records(state):
        record["step_number"] = None


def _check_budget(state: _Object) -> None:
    """Every part of the budget must be there and fit the others: a default would be a budget renewed."""
    limits = state.get("limits")
    if not isinstance(limits, dict) or set(cast("_Object", limits)) != {"max_steps"}:
        raise _refused("state.limits", "must be an object with max_steps and nothing else")
    maximum = cast("_Object", limits)["max_steps"]
    if type(maximum) is not int or maximum < 1:
        raise _refused("state.limits.max_steps", f"must be an integer of at least 1, not {maximum!r}")
    executed = state.get("steps_executed")
    if type(executed) is not int or not 0 <= executed <= maximum:
        raise _refused("state.steps_executed", f"must be an integer from 0 to max_steps={maximum}, not {executed!r}")
    if not isinstance(state.get("frames"), dict):
        raise _refused("state.frames", "must be an object")
    for place, record in _numbered_records(state):
        if "step_number" not in record:
            raise _refused(_place(*place, "step_number"), "is missing")
        number = record["step_number"]
        if number is not None and (type(number) is not int or not 1 <= number <= executed):
            raise _refused(
                _place(*place, "step_number"),
                f"must be null or an integer from 1 to steps_executed={executed}, not {number!r}",
            )


def _numbered_records(state: _Object) -> Iterator[tuple[tuple[int | str, ...], _Object]]:
    """Everything that carries a step number, with its place. What has another shape is left to the check of shapes."""
    frames, trace, interrupt = (state.get(name) for name in ("frames", "trace", "interrupt"))
    if isinstance(frames, dict):
        for key, frame in cast("_Object", frames).items():
            if isinstance(frame, dict):
                yield ("state", "frames", key), cast("_Object", frame)
    if isinstance(trace, list):
        for index, entry in enumerate(cast("list[Any]", trace)):
            if isinstance(entry, dict):
                yield ("state", "trace", index), cast("_Object", entry)
    if isinstance(interrupt, dict):
        yield ("state", "interrupt"), cast("_Object", interrupt)


# ---- places


def _refused(path: str, fault: str) -> PersistedRunInvalid:
    return PersistedRunInvalid(f"the stored run is not valid: {path}: {fault}", path=path)


def _place(*steps: int | str) -> str:
    return shown_place(steps)
