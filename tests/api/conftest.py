"""The API over a real port, a real Valkey and a worker in this process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
import uvicorn
from fastapi import FastAPI

from tests.api.workflows import HANDLERS
from tests.support.inline_worker import InlineWorker
from tests.support.valkey import EmbeddedValkey
from tests.support.waiting import eventually
from wf_api.client import WorkflowClient
from wf_api.http import create_app
from wf_worker.settings import Settings
from wf_worker.store.opening import open_store
from wf_worker.store.runs import RunStore


@contextmanager
def served(app: FastAPI) -> Iterator[str]:
    """The application on a free port, as long as the block lasts; its URL."""
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="critical", lifespan="off", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, name="uvicorn")
    thread.start()
    try:
        eventually(lambda: server.started or not thread.is_alive(), "the server starts", seconds=10)
        assert server.started, "the server ended at its start"
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()


@dataclass
class Api:
    """What a test has at hand: the URL, plain HTTP, and what stands behind it."""

    url: str
    http: httpx.Client
    store: RunStore
    worker: InlineWorker
    valkey: EmbeddedValkey

    def get(self, path: str, **params: Any) -> httpx.Response:
        return self.http.get(path, params=params or None)

    def post(self, path: str, body: Any = None) -> httpx.Response:
        return self.http.post(path, json=body)

    def post_raw(self, path: str, content: bytes | str) -> httpx.Response:
        return self.http.post(path, content=content, headers={"Content-Type": "application/json"})

    def publish(self, document: dict[str, Any]) -> dict[str, Any]:
        response = self.post("/v1/workflows", {"workflow": document})
        assert response.status_code in (200, 201), response.text
        return response.json()

    def start(self, workflow: str, **body: Any) -> dict[str, Any]:
        """A started run, as far as it gets by itself."""
        response = self.post("/v1/runs", {"workflow": workflow, **body})
        assert response.status_code == 201, response.text
        self.worker.drain()
        return self.run(response.json()["run_id"])

    def run(self, run_id: str) -> dict[str, Any]:
        response = self.get(f"/v1/runs/{run_id}")
        assert response.status_code == 200, response.text
        return response.json()

    def contents(self) -> dict[Any, bytes]:
        """Everything that the store holds, to be compared before and after."""
        with self.valkey.client() as client:
            return {key: client.dump(key) or b"" for key in sorted(client.keys("*"))}


@pytest.fixture(scope="session")
def settings(valkey_server: EmbeddedValkey) -> Settings:
    return Settings(store_url=valkey_server.url, input_bytes=200_000, payload_bytes=50_000, shards=4)


@pytest.fixture(scope="session")
def store(settings: Settings) -> Iterator[RunStore]:
    store = open_store(settings)
    yield store
    store.records.close()


@pytest.fixture(scope="session")
def server(store: RunStore, settings: Settings, valkey_server: EmbeddedValkey) -> Iterator[Api]:
    """One server for all tests: it keeps nothing of its own."""
    worker = InlineWorker(store, HANDLERS)
    with (
        served(create_app(store, worker.publish, settings)) as url,
        httpx.Client(base_url=url, timeout=30) as http,
    ):
        yield Api(url, http, store, worker, valkey_server)


@pytest.fixture
def api(server: Api, valkey: EmbeddedValkey) -> Api:
    """The server over an empty store, with nothing due."""
    server.worker.forget()
    return server


@pytest.fixture
def client(api: Api) -> Iterator[WorkflowClient]:
    with WorkflowClient(api.url) as client:
        yield client
