"""Study files, services and servers for tests of the annotation site."""

from __future__ import annotations

import json
import re
import shutil
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl

from custodes.annotate.new_study import new
from custodes.annotate.plan import AnnotatorPlan, StoppingRule, StudyPlan, StudyTexts
from custodes.annotate.service import Service
from tests.annotate.studies import query_rows
from tests.waiting import PATIENCE

SYSTEMS = ("Asterisk-7B", "Birchwood-Large")
TOKEN = re.compile(r"/s/([\w-]+)")
ANNOTATORS = AnnotatorPlan(batch=3, batches=2, cap=1.0, overlap=0.0, attention=0, gold_every=15)
PLAN = StudyPlan(
    annotators=ANNOTATORS,
    stopping=StoppingRule(looks=(20, 30), boundary="none"),
    texts=StudyTexts(
        title="Hotels", consent="We ask which text is better.", instructions="Read both.", contact="a@example.org"
    ),
)


def texts(items: int = 30, **outputs: str) -> pl.DataFrame:
    """Return outputs of two systems; `s0` and `s1` in `outputs` replace the texts of a system."""
    default_texts = [[f"Item {i}, text {'AB'[s]}." for s in range(2)] for i in range(items)]
    return pl.DataFrame(
        {
            "item": [f"i{i:02d}" for i in range(items) for _ in SYSTEMS],
            "system": [name for _ in range(items) for name in SYSTEMS],
            "text": [outputs.get(f"s{s}", default_texts[i][s]) for i in range(items) for s in range(2)],
        }
    )


def new_study(path: Path, plan: StudyPlan = PLAN, **outputs: str) -> Path:
    return new(texts(**outputs), path, plan=plan)


def image_study(folder: Path) -> Path:
    """Create a study of captioned images; the names of the files contain the names of the systems."""
    from PIL import Image

    rows = []
    for k in range(4):
        outputs = {}
        for at, name in enumerate(SYSTEMS):
            Image.new("RGB", (300 + k, 200), ("teal", "orange")[at]).save(folder / f"{name}-{k}.png")
            outputs[name] = {"text": f"Caption {k}.", "image": f"{name}-{k}.png"}
        rows.append(json.dumps({"item": f"i{k}", "outputs": outputs}))
    (folder / "texts.jsonl").write_text("\n".join(rows))
    return new(folder / "texts.jsonl", folder / "pictures.db", plan=PLAN)


@contextmanager
def open_copy(template: Path, path: Path) -> Iterator[Service]:
    """Open the service of a copy of a study."""
    shutil.copy(template, path)
    with Service.open(path) as service:
        yield service


def new_token(service: Service) -> str:
    """Return the token of a new annotator."""
    ((_, token),) = service.invite(1).result()
    return token


def judgments(path: Path) -> list[tuple[object, ...]]:
    """Return assignment, answer, reason and visible seconds of each judgment in order."""
    return query_rows(path, "SELECT assignment, answer, reason, visible_seconds FROM judgment ORDER BY judgment")


def hidden_fields(page: str) -> Mapping[str, str]:
    """Return the hidden fields of the first form on a page."""
    form = page[page.index('<form method="post"') :]
    form = form[: form.index("</form>")]
    return dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', form))


@contextmanager
def serve_app(app: Any, **options: Any) -> Iterator[str]:
    """Serve an application in a thread with options of uvicorn, and yield its address."""
    import uvicorn

    with socket.create_server(("127.0.0.1", 0), backlog=4096) as listener:
        config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", ws="none", **options)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(PATIENCE)
