"""Results in notebooks: HTML display and export with figures, without network access."""

from __future__ import annotations

import re

import pytest

import custodes as cu

nbconvert = pytest.importorskip("nbconvert")
nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

CELLS = (
    "import custodes as cu; study = cu.read('demo')",
    "result = cu.agreement(study, metrics='judge,noise', resamples=20, compare_by=()); result",
    "print(result)",
    "result.plot(aspect='fluency')",
)


def test_an_exported_notebook_shows_tables_and_pictures_without_a_network() -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in CELLS])
    nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
    _, displayed, printed, picture = (cell.outputs for cell in notebook.cells)
    assert displayed[0].data["text/html"].count("<svg") == 2
    assert printed[0].text.startswith("metrics (coherence)")
    assert "\x1b" not in printed[0].text
    assert "image/svg+xml" in picture[0].data
    page, _ = nbconvert.HTMLExporter().from_notebook_node(notebook)
    body = page[page.index("<body") :]
    assert body.count("<svg") == 2
    assert 'src="data:image/svg+xml;base64' in body
    assert not re.search(r'(src|href)="https?://', body)


def test_a_report_is_displayed_as_its_verdict_and_its_results() -> None:
    study = cu.read("demo").select(aspect="fluency", metrics="judge,noise")
    report = cu.report(study, positive=">=4", resamples=20)
    page = report._repr_html_()
    assert str(report) == str(report.verdict)
    assert repr(report).startswith("<Report of demo: check, rates, annotators")
    assert page.startswith(report.verdict._repr_html_())
    assert page.count("<details>") == len(report.results)
    assert page.count("<svg") >= 2
    assert not re.search(r'<script|(src|href)="https?://', page)
