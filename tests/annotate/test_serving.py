"""Servers: local by default, with every answer stored at the end."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest

import custodes as cu
from custodes import cli
from custodes.annotate import server
from custodes.annotate.demo import demo_texts
from custodes.errors import InputError, OptionError
from tests.annotate.simulated_annotators import Browser
from tests.annotate.studies import query_rows
from tests.waiting import PATIENCE

pytest.importorskip("uvicorn")


@pytest.fixture
def study(tmp_path: Path) -> Path:
    return cu.annotate.new(demo_texts(items=6), tmp_path / "study.db")


@contextmanager
def server_process(*words: str) -> Iterator[subprocess.Popen[str]]:
    """Run a server as a separate process."""
    process = subprocess.Popen(
        [sys.executable, "-m", "custodes", "annotate", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "BROWSER": "true"},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def printed_link(process: subprocess.Popen[str], pattern: str) -> str:
    """Return the first match of `pattern` in the printed lines."""
    assert process.stdout is not None
    for text in process.stdout:
        if match := re.search(pattern, text):
            return match[0]
    raise AssertionError(process.stderr.read() if process.stderr else "")


def test_ctrl_c_stores_every_answer(study: Path, tmp_path: Path) -> None:
    links = tmp_path / "links.csv"
    assert cli.run(["annotate", "invite", str(study), "--annotators", "1", "-o", str(links)]) == 0
    assert links.stat().st_mode & 0o077 == 0, "links are keys"
    token = links.read_text(encoding="utf-8").split("/s/")[1].strip()
    copies = tmp_path / "copies"
    with server_process("serve", str(study), "--port", "0", "--backup", str(copies)) as process:
        address = printed_link(process, r"http://127\.0\.0\.1:\d+/admin\?key=\S+").partition("/admin")[0]
        assert cli.run(["annotate", "stop", str(study)]) == 2, "somebody else serves it"
        assert cli.run(["annotate", "status", str(study)]) == 0, "who reads need not wait"
        with closing(Browser(f"{address}/s/{token}")) as browser:
            browser.begin()
            browser.act({"do": "answer", "assignment": str(browser.assignment), "v0": "1"})
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0
        assert "everything is stored" in out
        assert "study: open; " in out
        assert "0 of 3 pairs completed" in out
        assert f"next: custodes annotate serve {study} continues" in out
        assert err == ""
    for path in (study, copies / "study.db"):
        assert query_rows(path, "SELECT count(*) FROM judgment") == [(1,)]
        assert query_rows(path, "PRAGMA integrity_check") == [("ok",)]
    assert cli.run(["annotate", "stop", str(study), "--why", "done"]) == 0
    assert cu.annotate.status(study).study["state"].to_list() == ["stopped"]
    assert cli.run(["annotate", "reopen", str(study)]) == 0
    assert cu.annotate.status(study).study["state"].to_list() == ["open"]


def link_starts(study: Path, path: Path, *more: str) -> list[str]:
    """Invite one annotator, and return the start of the printed links."""
    assert cli.run(["annotate", "invite", str(study), "--annotators", "1", "-o", str(path), *more]) == 0
    return re.findall(r"(http\S+)/s/", path.read_text(encoding="utf-8"))


def output_of_serve(study: Path, port: int) -> list[str]:
    """Return the lines that `serve` prints before it is stopped."""
    with server_process("serve", str(study), "--port", str(port)) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline()]
        while "Ctrl-C" not in lines[-1]:
            lines.append(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE)
    return lines


def test_links_begin_with_the_given_address(study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    default, elsewhere = "http://127.0.0.1:8080", "https://ask.example.org"
    assert link_starts(study, tmp_path / "a.csv") == [default]
    assert f"links work only if the study is served at {default}" in capsys.readouterr().err
    assert link_starts(study, tmp_path / "b.csv", "--url", f"{elsewhere}/") == [elsewhere]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    lines = output_of_serve(study, port)
    assert "/admin?key=" in lines[0]
    assert not [text for text in lines if "invite annotators" in text]  # they have links already


def test_the_demo_starts_and_cleans_up() -> None:
    with server_process("demo", "--no-browser") as process:
        ask = printed_link(process, r"http://127\.0\.0\.1:\d+/s/\S+")
        with closing(Browser(ask)) as browser:
            browser.begin()
            first = browser.assignment
            browser.act({"do": "answer", "assignment": str(first), "v0": "0"})
            assert browser.assignment != first
            assert not re.search("Aster|Birch|Cedar", browser.page), "no system has its name on a page"
        path = Path(printed_link(process, r"/\S+/study\.db"))
        assert path.exists()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE)
        assert process.returncode == 0
    assert not path.exists()


def test_a_port_that_is_taken_is_one_line(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert cli.run(["annotate", "serve", str(study), "--port", str(port)]) == 2
    err = capsys.readouterr().err
    assert f"port {port} on 127.0.0.1" in err
    assert err.count("\n") == 1


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="needs IPv6")
def test_all_addresses_of_ipv6_include_those_of_ipv4() -> None:
    with server.bind_socket("::", 0) as listener:
        socket.create_connection(("127.0.0.1", listener.getsockname()[1]), timeout=PATIENCE).close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"host": "0.0.0.0"}, "opens the server to the network; links are keys and would be sent unencrypted; use a"),
        ({"public_url": "http://ask.example.org"}, "links are keys"),
        ({"public_url": "ask.example.org"}, "give scheme and host"),
        ({"public_url": "https://ask.example.org/x"}, "give scheme and host"),
        ({"host": "no such host"}, "--host 'no such host': Name or service not known; to serve only on this machine"),
        ({"port": 70_000}, "65535"),
    ],
    ids=["network", "no-https", "no-scheme", "path", "no-host", "port"],
)
def test_unsafe_and_invalid_addresses_are_refused(study: Path, options: dict[str, object], message: str) -> None:
    extra = {"i_know": True} if "no such" in str(options) else {}
    with pytest.raises(OptionError, match=message):
        cu.annotate.serve(study, **options, **extra)


def test_unsafe_addresses_are_possible_on_request(study: Path) -> None:
    messages: list[str] = []
    url = "http://ask.example.org"
    with server.serve_in_thread([study], public_url=url, i_know=True, tell=messages.append) as site:
        assert site.url == url
        with urlopen(f"http://127.0.0.1:{site.port}/health", timeout=PATIENCE) as reply:
            assert reply.read() == b"ok"
    assert not messages


def test_folders_are_their_studies_and_names_differ(study: Path, tmp_path: Path) -> None:
    other_study = cu.annotate.new(demo_texts(items=3), tmp_path / "other.db")
    assert server.find_study_paths([tmp_path]) == {"other": other_study, "study": study}
    (tmp_path / "more").mkdir()
    with pytest.raises(InputError, match="the folder contains no study"):
        server.find_study_paths([tmp_path / "more"])
    twin = cu.annotate.new(demo_texts(items=3), tmp_path / "more" / "study.db")
    with pytest.raises(OptionError, match="the same name in addresses"):
        server.find_study_paths([study, twin])
