"""Published workflows: by name and version, by digest, and pinned together into programs."""

from __future__ import annotations

import hashlib

from wf_core.models.steps import SubgraphNode
from wf_core.models.workflow import Workflow
from wf_core.plan import workflow_digest
from wf_worker.errors import RequestRefused
from wf_worker.store.calls import StoreCalls
from wf_worker.store.encoding import to_bytes
from wf_worker.store.protocol import (
    Published,
)


class Flows(StoreCalls):
    """What can be done with workflows."""

    def publish(self, workflow: Workflow, version: str | None = None) -> Published:
        """Stores a valid workflow under its name and a version, for ever.

        Without a version the next number is taken, unless the newest version is this very document. Raises
        ``ValueError`` with every issue of an invalid workflow, and ``workflow_version_exists`` where the version is
        bound to another document.
        """
        workflow.validate_structure().raise_for_errors()
        document = workflow.model_dump(mode="json", by_alias=True)
        digest = workflow_digest(workflow)
        known = self.records.versions(workflow.name)
        if version is None:
            newest = max(known, key=version_order, default=None)
            if newest is not None and known[newest] == digest:
                return Published(workflow.name, newest, digest, created=False)
            version = str(max((int(v) for v in known if v.isdigit()), default=0) + 1)
        self.records.put_document(digest, to_bytes(document))
        bound = self.records.add_version(workflow.name, version, digest)
        if bound != digest:
            raise RequestRefused(
                f"version {version!r} of workflow {workflow.name!r} is another document",
                code="workflow_version_exists",
                path="version",
                hint="a published version never changes: publish under a new version, or leave the version out",
                details={"digest": bound},
            )
        return Published(workflow.name, version, digest, created=version not in known)

    def program_of(self, digest: str) -> str:
        """The digest of the program that a run of this workflow executes.

        A workflow that enters no other is a program by itself. Else every workflow it can enter is looked up now, by
        name (the newest version) or by artifact and version, and pinned by digest in a document of its own. Raises
        ``child_workflow_missing`` where one is not published, and ``workflow_cycle`` where one would enter itself.
        """
        root = self._workflow(digest)
        pinned: dict[str, str] = {}
        self._pin(root, pinned, (root.name,))
        if not pinned:
            return digest
        record = to_bytes({"program": 1, "root": digest, "children": dict(sorted(pinned.items()))})
        program = "program:" + hashlib.sha256(record).hexdigest()
        self.records.put_document(program, record)
        return program

    def _pin(self, workflow: Workflow, pinned: dict[str, str], above: tuple[str, ...]) -> None:
        for i, step in enumerate(workflow.nodes):
            if not isinstance(step, SubgraphNode):
                continue
            ref, place = step.workflow, f"nodes[{i}].workflow"
            name = ref.name if ref.name is not None else str(ref.artifact_id)
            if name in above:
                raise RequestRefused(
                    f"workflow {name!r} would enter itself: {' -> '.join((*above, name))}",
                    code="workflow_cycle",
                    path=place,
                )
            versions = self.versions(name)
            version = str(ref.version) if ref.version is not None else next(reversed(versions), None)
            if version is None or version not in versions:
                raise RequestRefused(
                    f"step {step.id!r} enters workflow {ref.display!r}, which is not published",
                    code="child_workflow_missing",
                    path=place,
                    hint="publish it before a run is started",
                )
            pinned[ref.display] = versions[version]
            self._pin(self._workflow(versions[version]), pinned, (*above, name))

    def _workflow(self, digest: str) -> Workflow:
        return self.program(digest).root.workflow

    def workflow_names(self) -> list[str]:
        """The names of all published workflows, sorted."""
        return sorted(self.records.flow_names())

    def versions(self, name: str) -> dict[str, str]:
        """Version to digest, oldest first; empty when the name is unknown."""
        return dict(sorted(self.records.versions(name).items(), key=lambda pair: version_order(pair[0])))

    def has_document(self, digest: str) -> bool:
        """Whether a workflow document of this digest is stored."""
        return self.records.document(digest) is not None


def version_order(version: str) -> tuple[int, int, str]:
    return (1, int(version), "") if version.isdigit() else (0, 0, version)
