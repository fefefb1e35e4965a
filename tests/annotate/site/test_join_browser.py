"""Origin checks of forms in a browser, also without fetch metadata."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from custodes.annotate.service import Service
from custodes.annotate.site.app import app
from tests.annotate.site.served import serve_app
from tests.annotate.studies import plan_of, study
from tests.conftest import MAPPED

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("host", ["127.0.0.1", MAPPED])
def test_joining_by_an_open_link(browser: Any, host: str, tmp_path: Path) -> None:
    """Chromium sends `Sec-Fetch-Site` to 127.0.0.1 and, without TLS, to no other host, where the origin decides."""
    plan = plan_of(annotators={"recruit": "open"})
    with (
        Service.open(study(tmp_path / "study.db", plan=plan), durable=False) as service,
        serve_app(app({"study": service})) as address,
    ):
        page = browser.new_page()
        page.goto(f"{address.replace('127.0.0.1', host)}/j/study")
        page.click("main button")
        page.wait_for_url("**/s/*")
        page.close()
        assert service.snapshot().result().annotators
