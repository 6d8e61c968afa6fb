"""Workflows over HTTP: parse, call one service, render."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from wf_api.http.bodies import ENVELOPE_BYTES, read_model
from wf_api.http.offload import Offload
from wf_api.http.openapi import answers, takes
from wf_api.http.requests import ListWorkflows, NoQuery, PublishWorkflow
from wf_api.http.responses import JsonResponse
from wf_api.services.workflows import WorkflowService
from wf_api.wire import PublishedView, VersionsView, WorkflowPage, WorkflowView


def workflow_routes(workflows: WorkflowService, offload: Offload, most_bytes: int) -> APIRouter:
    """The routes under /v1/workflows."""
    router = APIRouter(prefix="/v1/workflows", tags=["workflows"])

    @router.post("", status_code=201, responses=answers(PublishedView, 201, 200), openapi_extra=takes(PublishWorkflow))
    async def publish_workflow(request: Request, _: Annotated[NoQuery, Query()]) -> Response:
        """Publish a workflow. 201 for a new version, 200 when this very version was there already."""
        body = await read_model(request, PublishWorkflow, most_bytes + ENVELOPE_BYTES)
        published = await offload(workflows.publish, body.workflow, body.version)
        return JsonResponse(published, 201 if published["created"] else 200)

    @router.get("", responses=answers(WorkflowPage))
    async def list_workflows(query: Annotated[ListWorkflows, Query()]) -> Response:
        """Published workflows by name."""
        return JsonResponse(await offload(workflows.list_workflows, cursor=query.cursor, limit=query.limit))

    @router.get("/{name}", responses=answers(VersionsView))
    async def workflow_versions(name: str, _: Annotated[NoQuery, Query()]) -> Response:
        """The versions of a workflow, oldest first."""
        return JsonResponse(await offload(workflows.versions, name))

    @router.get("/{name}/{version}", responses=answers(WorkflowView))
    async def workflow_document(name: str, version: str, _: Annotated[NoQuery, Query()]) -> Response:
        """One version with its document: by version, by digest, or `latest`."""
        return JsonResponse(await offload(workflows.document, name, version))

    return router
