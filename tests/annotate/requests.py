"""Requests to the annotation site without a browser."""

from __future__ import annotations

from typing import Any

from starlette.testclient import TestClient

from custodes.annotate.service import Service
from custodes.annotate.site.app import app

URL = "http://testserver"
SAME_ORIGIN = {"Origin": URL}


def visitor(service: Service, address: str = "192.0.2.1", **options: Any) -> TestClient:
    """Return a client of a site with one study. `options` override arguments of `app`."""
    site = app({"study": service}, **{"public_url": URL, "secret": "s" * 32, "owner_key": "the-key"} | options)
    return TestClient(site, client=(address, 50_000))


def signed_in(service: Service) -> TestClient:
    """Return a client that is signed in as the owner."""
    client = visitor(service)
    assert client.get("/admin?key=the-key").status_code == 200
    return client


def post(client: TestClient, path: str, headers: dict[str, str] = SAME_ORIGIN, **fields: str) -> Any:
    """Submit a form as a browser does."""
    return client.post(path, data=fields or {"sent": "1"}, headers=headers)
