"""Requests to the annotation site without a browser."""

from __future__ import annotations

from starlette.testclient import TestClient

from custodes.annotate.service import Service
from custodes.annotate.site.app import app

URL = "http://testserver"


def visitor(service: Service, address: str = "192.0.2.1") -> TestClient:
    site = app({"study": service}, public_url=URL, secret="s" * 32, owner_key="the-key")
    return TestClient(site, client=(address, 50_000))
