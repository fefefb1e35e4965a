"""Encoder files: selection, one-line errors, and digest."""

import json
import os
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from custodes.errors import CustodesError, InputError, MissingExtraError
from custodes.scoring.encoder.files import find_model_files
from custodes.scoring.metrics.bertscore import BERTSCORE
from tests.scoring.encoders import onnx_model, scorer, tokenizer


def copied(encoder: Path, folder: Path) -> Path:
    for file in encoder.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    return folder


NOWHERE = "there is no such file or folder, and this is not the name of a model on the hub; give model=FOLDER"


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("", "no model is given; give model=FOLDER with an ONNX model"),
        ("./not/there", rf"'\./not/there': {NOWHERE}"),
        ("a b", f"'a b': {NOWHERE}"),
        ("x\0y", NOWHERE),
        ("--", f"'--': {NOWHERE}"),
    ],
)
def test_a_model_that_is_not_there(model: str, message: str) -> None:
    with pytest.raises(CustodesError, match=message):
        find_model_files(model, "auto", "")


def test_what_is_wrong_with_a_folder(encoder: Path, tmp_path: Path) -> None:
    cases = [
        (tmp_path, "auto", "", "the folder has no ONNX model and no weights that transformers can read; give model="),
        (tmp_path, "onnx", "", "the folder has no ONNX model; export one"),
        (encoder, "tensorflow", "", "backend='tensorflow'; allowed: auto, onnx, transformers"),
        (encoder, "auto", "main", "revision='main': .* is a local file or folder"),
        (encoder / "tokenizer.json", "auto", "", r"not an ONNX model \(\.onnx\)"),
        (encoder / "model.onnx", "transformers", "", "is a single file; give the folder"),
    ]
    for place, backend, revision, message in cases:
        with pytest.raises(CustodesError, match=message):
            find_model_files(str(place), backend, revision)
    for name, message in (
        ("one.onnx", r"no tokenizer\.json next to one\.onnx; add the tokenizer.json of the model"),
        ("two.onnx", r"several ONNX models \(one\.onnx, two\.onnx\); give the path of one file"),
    ):
        (tmp_path / name).write_bytes(b"")
        with pytest.raises(InputError, match=message):
            find_model_files(str(tmp_path), "auto", "")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("model.onnx", b"", r"onnxruntime cannot load the model"),
        ("tokenizer.json", b"{", r"the tokenizer\.json of the model is not a tokenizer: EOF while parsing"),
        ("tokenizer_config.json", b"{", r"the file tokenizer_config\.json of the model is not JSON: Input data was"),
    ],
)
def test_damaged_files(encoder: Path, tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (copied(encoder, tmp_path) / name).write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        scorer(BERTSCORE, tmp_path)
    assert "\n" not in str(caught.value)


def test_the_usual_name_goes_first(encoder: Path, tmp_path: Path) -> None:
    copied(encoder, tmp_path)
    (tmp_path / "onnx").mkdir()
    (tmp_path / "model.onnx").rename(tmp_path / "onnx" / "model.onnx")
    (tmp_path / "onnx" / "model_O4.onnx").write_bytes(b"")
    files = find_model_files(str(tmp_path), "auto", "")
    assert files.onnx == tmp_path / "onnx" / "model.onnx"
    assert files.folder == tmp_path
    assert find_model_files(str(tmp_path / "onnx" / "model.onnx"), "auto", "").digest == files.digest


def test_a_digest_is_of_content(encoder: Path, tmp_path: Path) -> None:
    whole = find_model_files(str(encoder), "auto", "").digest
    assert find_model_files(str(copied(encoder, tmp_path)), "auto", "").digest == whole
    (tmp_path / "README.md").write_text("of no matter")
    assert find_model_files(str(tmp_path), "auto", "").digest == whole
    (tmp_path / "config.json").write_text("{}")
    with_settings = find_model_files(str(tmp_path), "auto", "").digest
    (tmp_path / "model.onnx_data").write_bytes(b"weights beside it")
    with_weights = find_model_files(str(tmp_path), "auto", "").digest
    (tmp_path / "model.onnx_data").unlink()
    onnx_model(tmp_path / "model.onnx", seed=1)
    second = find_model_files(str(tmp_path), "auto", "").digest
    assert len({whole, with_settings, with_weights, second}) == 4


def test_weights_for_transformers(encoder: Path, tmp_path: Path) -> None:
    tokenizer(tmp_path, limit=24)
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "pytorch_model.bin").write_bytes(b"1")
    old = find_model_files(str(tmp_path), "auto", "")
    assert old.onnx is None
    (tmp_path / "model.safetensors").write_bytes(b"2")
    new = find_model_files(str(tmp_path), "auto", "")
    (tmp_path / "pytorch_model.bin").write_bytes(b"3")  # ignored next to the others
    assert find_model_files(str(tmp_path), "auto", "").digest == new.digest != old.digest


def test_extras_are_named(encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, message in (("onnxruntime", r"need onnxruntime: pip"), ("tokenizers", r"need tokenizers: pip")):
        with monkeypatch.context() as patched:
            patched.setitem(sys.modules, module, None)
            with pytest.raises(MissingExtraError, match=rf"{message} install 'custodes\[encode\]'"):
                scorer(BERTSCORE, encoder)
    tokenizer(tmp_path, limit=24)
    (tmp_path / "model.safetensors").write_bytes(b"1")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"transformers and PyTorch: pip install torch transformers; or export"):
        scorer(BERTSCORE, tmp_path)
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingExtraError, match=r"models of the hub need huggingface_hub"):
        find_model_files("some/model", "auto", "")


class Hub(BaseHTTPRequestHandler):
    """Hub with the files of a repository at one commit."""

    folder: Path
    commit = "0123456789abcdef0123456789abcdef01234567"
    asked: list[str]
    status = 200

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        files = [file.relative_to(self.folder).as_posix() for file in sorted(self.folder.rglob("*.*"))]
        name = path.removeprefix(f"/some/encoder/resolve/{self.commit}/")
        if self.status != 200:
            self.answer(self.status, b"")
        elif path.startswith("/api/models/some/encoder/tree/"):
            self.answer(200, json.dumps([{"type": "file", "path": f, "size": 1, "oid": f} for f in files]).encode())
        elif path.startswith("/api/models/some/encoder"):
            siblings = [{"rfilename": file} for file in files]
            self.answer(200, json.dumps({"id": "some/encoder", "sha": self.commit, "siblings": siblings}).encode())
        elif name != path:
            self.asked.append(name)
            self.answer(200, (self.folder / name).read_bytes())
        else:
            self.answer(404, b"", **{"X-Error-Code": "RepoNotFound"})

    do_HEAD = do_GET  # noqa: N815

    def answer(self, status: int, content: bytes, **headers: str) -> None:
        self.send_response(status)
        headers |= {"X-Repo-Commit": self.commit, "ETag": f'"{hash(content):x}"', "Content-Length": str(len(content))}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


FROM_HUB = """
import sys
from custodes.errors import InputError
from custodes.scoring.encoder.files import find_model_files
for name in sys.argv[1:]:
    try:
        found = find_model_files(name, "auto", "")
        print(found.digest, found.onnx.name)
    except InputError as problem:
        print(problem)
"""


def test_a_model_of_the_hub(encoder: Path, tmp_path: Path) -> None:
    """Only required files are downloaded; offline the copy is used, or one line says what to do."""
    repository = tmp_path / "repository"
    repository.mkdir()
    copied(encoder, repository)
    (repository / "pytorch_model.bin").write_bytes(b"large")
    (repository / "README.md").write_text("to be read")
    Hub.folder, Hub.asked = repository, []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    Thread(target=server.serve_forever, daemon=True).start()
    variables = {"HF_HOME": str(tmp_path / "home"), "HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}"}
    environment = {**os.environ, **variables, "HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}

    def ask() -> list[str]:
        call = [sys.executable, "-c", FROM_HUB, "some/encoder", "some/other"]
        process = subprocess.run(call, capture_output=True, text=True, env=environment, check=True)
        assert process.stderr == ""
        return process.stdout.splitlines()

    try:
        online = ask()
        Hub.status = 503
        busy = ask()
    finally:
        Hub.status = 200
        server.shutdown()
        server.server_close()
    assert online[0] == f"{find_model_files(str(encoder), 'auto', '').digest} model.onnx"
    assert set(Hub.asked) == {"model.onnx", "tokenizer.json", "tokenizer_config.json"}
    assert "'some/other': there is no such file or folder, and the hub reports: 404 Client Error." in online[1]
    offline = ask()
    assert offline[0] == busy[0] == online[0]
    for line in (busy[1], offline[1]):
        assert "'some/other': there is no such file or folder, and the hub is not reachable (" in line
        assert line.endswith("give a folder with the model, or the name of a model that was downloaded before")
