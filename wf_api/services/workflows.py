"""Publishing workflows and looking at them."""

from __future__ import annotations

import re
from typing import Any, Final

from pydantic import ValidationError

from wf_api.services.cursors import cursor_for, cursor_parts
from wf_api.services.model_errors import Issue, issues_of, unknown_fields
from wf_api.wire import PublishedView, VersionsView, WorkflowPage, WorkflowView
from wf_core.models.workflow import Workflow
from wf_worker.errors import RequestRefused
from wf_worker.store.protocol import Published
from wf_worker.store.runs import RunStore

LATEST: Final = "latest"
NAME_LENGTH: Final = 200
_VERSION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,99}")
_PUBLISH_TRIES: Final = 20


class WorkflowService:
    """Published workflows. A version is bound to its document for ever."""

    def __init__(self, store: RunStore) -> None:
        self._store = store

    def publish(self, document: dict[str, Any], version: str | None = None) -> PublishedView:
        """Checks a workflow document and publishes it. Without a version: the next number, or the one it already has.

        Raises ``workflow_invalid`` with every issue in ``details.issues``, ``workflow_version_invalid`` and
        ``workflow_version_exists``; nothing is stored then.
        """
        if version is not None:
            _check_version(version)
        workflow = checked_workflow(document)
        published = self._publish(workflow, version)
        return {
            "name": published.name,
            "version": published.version,
            "digest": published.digest,
            "created": published.created,
        }

    def _publish(self, workflow: Workflow, version: str | None) -> Published:
        for _ in range(_PUBLISH_TRIES):
            try:
                return self._store.publish(workflow, version)
            except RequestRefused as refusal:
                if version is not None or refusal.code != "workflow_version_exists":
                    raise
                # Another publisher took the number that was next when it was looked up: look again.
        raise RequestRefused(
            f"too many publish workflow {workflow.name!r} at the same time",
            code="workflow_version_exists",
            path="version",
            hint="publish again, or name the version",
        )

    def list_workflows(self, *, cursor: str | None = None, limit: int = 50) -> WorkflowPage:
        """Published workflows by name."""
        after = None if cursor is None else cursor_parts(cursor, str)[0]
        names = self._store.workflow_names()
        rest = [name for name in names if after is None or name > after]
        page = rest[:limit]
        entries = [(name, list(self._store.versions(name))) for name in page]
        return {
            "workflows": [
                {"name": name, "latest": versions[-1], "versions": len(versions)}
                for name, versions in entries
                if versions
            ],
            "total": len(names),
            "next_cursor": cursor_for(page[-1]) if len(rest) > limit else None,
        }

    def versions(self, name: str) -> VersionsView:
        """All versions of a workflow."""
        versions = self._known(name)
        return {
            "name": name,
            "latest": list(versions)[-1],
            "versions": [{"version": version, "digest": digest} for version, digest in versions.items()],
        }

    def document(self, name: str, version: str) -> WorkflowView:
        """One version of a workflow: by its version, by its digest, or ``latest``."""
        version, digest = self.resolve(name, version)
        workflow = self._store.program(digest).root.workflow
        return {
            "name": name,
            "version": version,
            "digest": digest,
            "workflow": workflow.model_dump(mode="json", by_alias=True),
        }

    def resolve(self, name: str, version: str | None) -> tuple[str, str]:
        """Version and digest that a name and a version, a digest or nothing (the latest) stand for."""
        versions = self._known(name)
        if version is None or version == LATEST:
            return list(versions.items())[-1]
        if version in versions:
            return version, versions[version]
        for known, digest in reversed(versions.items()):
            if digest == version:
                return known, digest
        raise RequestRefused(
            f"workflow {name!r} has no version {version!r}",
            code="workflow_version_not_found",
            path="version",
            hint=f"use one of: {_some(list(versions))}",
        )

    def resolve_digest(self, digest: str) -> tuple[str, str]:
        """Name and version of a digest; the version is empty where none is bound to it."""
        if not self._store.has_document(digest):
            raise RequestRefused(
                f"there is no workflow with the digest {digest}",
                code="workflow_not_found",
                path="digest",
                hint="publish the workflow first",
            )
        name = self._store.program(digest).root.workflow.name
        found = [version for version, bound in self._store.versions(name).items() if bound == digest]
        return name, found[-1] if found else ""

    def _known(self, name: str) -> dict[str, str]:
        versions = self._store.versions(name)
        if not versions:
            raise RequestRefused(
                f"there is no workflow {name!r}",
                code="workflow_not_found",
                path="workflow",
                hint="publish it first: POST /v1/workflows, or wf workflow publish",
            )
        return versions


def checked_workflow(document: dict[str, Any]) -> Workflow:
    """The workflow of a document; ``workflow_invalid`` with all issues that can be found."""
    unknown = unknown_fields(Workflow, document)
    issues = _name_issues(document.get("name")) + unknown
    try:
        workflow = Workflow.model_validate(document)
    except ValidationError as error:
        said = {(issue["code"], issue["path"]) for issue in unknown}
        issues += [issue for issue in issues_of(error, document) if (issue["code"], issue["path"]) not in said]
        raise _invalid(issues) from None
    issues += [_issue(found.as_dict()) for found in workflow.validate_structure().errors]
    if issues:
        raise _invalid(issues)
    return workflow


def _issue(found: dict[str, str]) -> Issue:
    return {"code": found["code"], "path": found["path"], "message": found["message"], "hint": found["hint"]}


def _name_issues(name: object) -> list[Issue]:
    """A name becomes part of a URL, so it must be one path segment."""
    if not isinstance(name, str):
        return []  # the model says so
    if name.strip() and name not in (".", "..") and "/" not in name and name.isprintable() and len(name) <= NAME_LENGTH:
        return []
    return [
        {
            "code": "workflow_name_invalid",
            "path": "name",
            "message": "the workflow's name cannot be part of a URL",
            "hint": f"use 1 to {NAME_LENGTH} printable characters without '/'",
        }
    ]


def _invalid(issues: list[Issue]) -> RequestRefused:
    first = issues[0]
    more = f" (and {len(issues) - 1} more)" if len(issues) > 1 else ""
    return RequestRefused(
        f"the workflow is invalid: {first['path']}: {first['message']}{more}",
        code="workflow_invalid",
        path=first["path"],
        hint=first["hint"],
        details={"issues": issues},
    )


def _check_version(version: str) -> None:
    if version == LATEST or not _VERSION.fullmatch(version):
        raise RequestRefused(
            f"{version[:120]!r} cannot be a version",
            code="workflow_version_invalid",
            path="version",
            hint=f"use letters, digits, '.', '_', '+', '-', 100 at most, and not {LATEST!r}",
        )


def _some(versions: list[str]) -> str:
    shown = ", ".join(versions[-5:])
    return shown if len(versions) <= 5 else f"..., {shown}"
