"""Audits a Python environment: does every file that a package installed still have the content it was installed with?

Every installed distribution is an item of an outer concurrent loop, every file that its RECORD lists an item of an
inner one. Workers hash the files; what does not match is collected through reducers; a person signs the report off.

Run it with ``wf demo``. The workflow and its capabilities are ordinary users of the DSL.
"""

from __future__ import annotations

import base64
import hashlib
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel

from wf_core.authoring import END, WorkflowBuilder, input_from, input_path, node, output_to, state_field, state_path

# ---- what the job speaks of


class ListedFile(BaseModel):
    """One line of a RECORD: path below the package's root, digest as the RECORD gives it (none for some files)."""

    path: str
    digest: str | None = None


class Package(BaseModel):
    """An installed distribution."""

    name: str
    version: str
    root: str
    files: list[ListedFile]


class PackageRef(BaseModel):
    """A package without its files."""

    name: str
    root: str


class Finding(BaseModel):
    """A file that is not as it was installed."""

    package: str
    path: str
    problem: Literal["mismatched", "missing", "unlisted"]


class Summary(BaseModel):
    """The report in numbers."""

    packages: int
    files: int
    unverifiable: int
    mismatched: int
    missing: int
    unlisted: int


class SignOffRequest(BaseModel):
    """What the person sees."""

    summary: Summary


class SignOff(BaseModel):
    """What the person answers."""

    approved: bool
    note: str | None = None


class AuditInput(BaseModel):
    """What is audited."""

    packages: list[Package]


class AuditState(BaseModel):
    """Sibling items write these together, so each has a reducer that merges."""

    findings: Annotated[list[Finding], state_field(reducer="wf.std.append")] = []
    packages_seen: Annotated[int, state_field(reducer="wf.std.add")] = 0
    files_seen: Annotated[int, state_field(reducer="wf.std.add")] = 0
    unverifiable: Annotated[int, state_field(reducer="wf.std.add")] = 0
    summary: Summary | None = None
    sign_off: SignOff | None = None


class AuditOutput(BaseModel):
    """What the run gives back."""

    summary: Summary
    findings: list[Finding]
    sign_off: SignOff


# ---- the capabilities


class HashIn(BaseModel):
    """One file of one package."""

    package: PackageRef
    file: ListedFile


class HashOut(BaseModel):
    """What this file adds to the audit."""

    findings: list[Finding]
    files: int
    unverifiable: int


@node
def hash_file(payload: HashIn) -> HashOut:
    """Hashes one file and compares it with its RECORD."""
    package, file = payload.package, payload.file
    path = Path(package.root, file.path)
    try:
        content = path.read_bytes()
    except OSError:
        # Bytecode is made and removed by the interpreter; its absence says nothing.
        problems = (
            [] if file.path.endswith(".pyc") else [Finding(package=package.name, path=file.path, problem="missing")]
        )
        return HashOut(findings=problems, files=1, unverifiable=int(not problems))
    if file.digest is None:
        return HashOut(findings=[], files=1, unverifiable=1)
    algorithm, _, expected = file.digest.partition("=")
    actual = base64.urlsafe_b64encode(hashlib.new(algorithm, content).digest()).rstrip(b"=").decode()
    if actual == expected:
        return HashOut(findings=[], files=1, unverifiable=0)
    return HashOut(
        findings=[Finding(package=package.name, path=file.path, problem="mismatched")], files=1, unverifiable=0
    )


class PackageIn(BaseModel):
    """A package with its files."""

    package: Package


class UnlistedOut(BaseModel):
    """What no RECORD line mentions."""

    findings: list[Finding]
    packages: int


@node
def find_unlisted(payload: PackageIn) -> UnlistedOut:
    """Looks for files in the package's own folders that its RECORD does not list."""
    package = payload.package
    listed = {file.path for file in package.files}
    folders = sorted({path.split("/", 1)[0] for path in listed if "/" in path and not path.startswith("..")})
    findings: list[Finding] = []
    for folder in folders:
        if folder.endswith(".dist-info") or f"{folder}/__init__.py" in listed:
            for path in sorted(Path(package.root, folder).rglob("*")):
                relative = path.relative_to(package.root).as_posix()
                if path.is_file() and "__pycache__" not in path.parts and relative not in listed:
                    findings.append(Finding(package=package.name, path=relative, problem="unlisted"))
    return UnlistedOut(findings=findings, packages=1)


class ReportIn(BaseModel):
    """Everything the loops collected."""

    findings: list[Finding]
    packages: int
    files: int
    unverifiable: int


class ReportOut(BaseModel):
    """The report in numbers."""

    summary: Summary


@node
def build_report(payload: ReportIn) -> ReportOut:
    """Counts what was found."""
    count = {
        problem: sum(f.problem == problem for f in payload.findings)
        for problem in ("mismatched", "missing", "unlisted")
    }
    return ReportOut(
        summary=Summary(packages=payload.packages, files=payload.files, unverifiable=payload.unverifiable, **count)
    )


NODES = (hash_file, find_unlisted, build_report)
"""The capabilities a worker must serve to run this workflow."""


def build() -> WorkflowBuilder:
    """The workflow."""
    flow = WorkflowBuilder("environment_audit", AuditInput, AuditState, AuditOutput)
    packages = flow.foreach(
        id="packages",
        over=input_path("packages"),
        as_="package",
        mode="concurrent",
        concurrent={"max_active": 4, "max_outstanding": 8},
    )
    files = flow.foreach(
        id="files",
        over=packages.item.child("files"),
        as_="file",
        mode="concurrent",
        concurrent={"max_active": 16, "max_outstanding": 32},
    )
    check = flow.use(
        hash_file,
        input=[
            input_from(packages.item.child("name"), "package.name"),
            input_from(packages.item.child("root"), "package.root"),
            input_from(files.item, "file"),
        ],
        output=[
            output_to("findings", state_path("findings")),
            output_to("files", state_path("files_seen")),
            output_to("unverifiable", state_path("unverifiable")),
        ],
    )
    unlisted = flow.use(
        find_unlisted,
        input=[input_from(packages.item, "package")],
        output=[output_to("findings", state_path("findings")), output_to("packages", state_path("packages_seen"))],
    )
    report = flow.use(
        build_report,
        input=[
            input_from(state_path("findings"), "findings"),
            input_from(state_path("packages_seen"), "packages"),
            input_from(state_path("files_seen"), "files"),
            input_from(state_path("unverifiable"), "unverifiable"),
        ],
        output=[output_to("summary", state_path("summary"))],
    )
    sign_off = flow.interrupt(
        id="sign_off",
        kind="sign_off",
        request=[input_from(state_path("summary"), "summary")],
        resume=[output_to(".", state_path("sign_off"))],
        request_schema=SignOffRequest,
        resume_schema=SignOff,
    )
    flow.set_entry_point(packages)
    flow.set_route(packages, "loop", files)
    flow.set_route(files, "loop", check)
    flow.set_route(check, "ok", files)
    flow.set_route(files, "done", unlisted)
    flow.set_route(unlisted, "ok", packages)
    flow.set_route(packages, "done", report)
    flow.set_route(report, "ok", sign_off)
    flow.set_route(sign_off, "submitted", END)
    flow.set_output(
        [
            input_from(state_path("summary"), "summary"),
            input_from(state_path("findings"), "findings"),
            input_from(state_path("sign_off"), "sign_off"),
        ]
    )
    return flow


def installed_packages(limit: int | None = None) -> list[dict[str, Any]]:
    """The distributions of this Python environment with the files their RECORDs list, as the run input wants them."""
    packages: list[Package] = []
    for distribution in sorted(metadata.distributions(), key=lambda d: d.name.lower()):
        if not distribution.files:
            continue
        files = [
            ListedFile(path=file.as_posix(), digest=f"{file.hash.mode}={file.hash.value}" if file.hash else None)
            for file in distribution.files
        ]
        root = str(distribution.locate_file(""))
        packages.append(Package(name=distribution.name, version=distribution.version, root=root, files=files))
    return [package.model_dump() for package in packages[:limit]]
