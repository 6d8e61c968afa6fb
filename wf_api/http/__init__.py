"""The REST API."""

from wf_api.http.app import create_app

__all__ = ["create_app"]
