"""The how-to on deployment: its nginx configuration, plan and systemd unit work as documented."""

from __future__ import annotations

import datetime
import http.client
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from custodes.annotate.plan_file import read_plan
from custodes.annotate.server import ServedSite, serve_in_thread
from tests.annotate.studies import plan_of, study
from tests.waiting import PATIENCE, until

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "deploy-annotation.md"
NAME = "ask.example.org"
NGINX = shutil.which("nginx", path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"]))
CONNECTIONS = 8
"""Limit of connections in place of the page's 100."""
FORM = "application/x-www-form-urlencoded"


def block(kind: str) -> str:
    """Return the only fenced block of a language on the page."""
    (code,) = re.findall(rf"```{kind}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return str(code)


class Proxy(NamedTuple):
    """nginx in front of a site, with its ports and folder."""

    site: ServedSite
    plain: int
    secure: int
    folder: Path
    token: str

    def ask(
        self, method: str, path: str, body: Any = None, *, source: str = "127.0.0.1", **headers: str
    ) -> tuple[int, Any, str]:
        """Send a request over HTTPS and return status, headers and text."""
        with closing(self.line(source)) as line:
            all_headers = {"Host": NAME, **{name.replace("_", "-"): value for name, value in headers.items()}}
            line.request(method, path, body=body, headers=all_headers)
            reply = line.getresponse()
            return reply.status, reply.headers, reply.read().decode("utf-8", "replace")

    def line(self, source: str = "127.0.0.1") -> http.client.HTTPSConnection:
        context = ssl.create_default_context(cafile=str(self.folder / "fullchain.pem"))
        context.check_hostname = False
        return http.client.HTTPSConnection(
            "127.0.0.1", self.secure, context=context, timeout=PATIENCE, source_address=(source, 0)
        )


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def certificate(folder: Path) -> None:
    """Write a self-signed certificate for the host name."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, NAME)])
    now = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(now - day).not_valid_after(now + day)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    pem = serialization.Encoding.PEM
    (folder / "fullchain.pem").write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(pem))
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "privkey.pem").write_bytes(private)


def configuration(folder: Path, *, port: int, plain: int, secure: int, timeout: str) -> str:
    """Return the page's nginx block with the ports, paths and limits of this test."""
    text = block("nginx")
    for old, new in {
        "listen 80;": f"listen 127.0.0.1:{plain};",
        "listen 443 ssl;": f"listen 127.0.0.1:{secure} ssl;",
        "/etc/letsencrypt/live/ask.example.org/": f"{folder}/",
        "/var/log/nginx/": f"{folder}/",
        "http://127.0.0.1:8080": f"http://127.0.0.1:{port}",
        "_timeout 10s;": f"_timeout {timeout};",
        "limit_conn people 100;": f"limit_conn people {CONNECTIONS};",
    }.items():
        assert old in text, old
        text = text.replace(old, new)
    text, n = re.subn(r"\n *listen \[::\]:(80|443)( ssl)?;", "", text)  # not every machine has IPv6
    assert n == 2
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    places = "".join(f"{kind}_temp_path {folder}/{kind};\n" for kind in kinds)
    user = "user root;" if os.geteuid() == 0 else ""
    head = f"daemon off;\n{user}\npid {folder}/nginx.pid;\nerror_log {folder}/start.log;\n"
    return f"{head}events {{ worker_connections 1024; }}\nhttp {{\naccess_log {folder}/usual.log;\n{places}{text}}}\n"


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    with run_proxy(tmp_path_factory.mktemp("nginx"), timeout=f"{2 * PATIENCE:.0f}s") as running_proxy:
        yield running_proxy


@contextmanager
def run_proxy(folder: Path, *, timeout: str) -> Iterator[Proxy]:
    """Run nginx with the page's block and `timeout` for idle connections."""
    if NGINX is None or sys.platform != "linux":
        pytest.skip("nginx is not installed (Debian: apt install nginx-light), or 127.0.0.2 is not this machine")
    certificate(folder)
    path = study(folder / "study.db", plan=plan_of(annotators={"recruit": "open"}))
    with serve_in_thread([path], port=0, public_url=f"https://{NAME}") as site:
        ((_, token),) = site.services["study"].invite(1).result()
        plain, secure = free_port(), free_port()
        place = folder / "nginx.conf"
        text = configuration(folder, port=site.port, plain=plain, secure=secure, timeout=timeout)
        place.write_text(text, encoding="utf-8")
        command = [NGINX, "-e", str(folder / "start.log"), "-c", str(place)]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                until(lambda: plain_reply(plain))
                yield Proxy(site, plain, secure, folder, token)
            finally:
                process.terminate()


def plain_reply(port: int) -> tuple[int, str]:
    """Return status and location of a request without TLS."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as line:
        line.request("GET", "/s/abc?x=1", headers={"Host": NAME})
        reply = line.getresponse()
        return reply.status, reply.headers["Location"]


def test_the_site_answers_over_https(proxy: Proxy) -> None:
    assert plain_reply(proxy.plain) == (301, f"https://{NAME}/s/abc?x=1")
    status, headers, text = proxy.ask("GET", "/health")
    assert (status, text) == (200, "ok")
    assert headers["Strict-Transport-Security"] == "max-age=31536000"
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert proxy.ask("GET", "/none")[1]["Strict-Transport-Security"]  # also for errors
    with closing(proxy.line()) as line:
        line.connect()
        assert line.sock.version() in ("TLSv1.2", "TLSv1.3")


def test_annotators_and_the_owner_act(proxy: Proxy) -> None:
    path = proxy.site.owner.removeprefix(f"https://{NAME}")
    status, headers, _ = proxy.ask("GET", path)
    assert (status, headers["Location"]) == (303, "/admin")
    assert "; secure" in headers["Set-Cookie"].lower()
    cookie = headers["Set-Cookie"].partition(";")[0]
    signed_in = {"Cookie": cookie, "Content_Type": FORM}
    assert proxy.ask("POST", f"/s/{proxy.token}", "do=begin", Content_Type=FORM, Origin=f"https://{NAME}")[0] == 200
    assert proxy.ask("GET", "/admin/study", Cookie=cookie)[0] == 200
    for origin, expected in ((f"https://{NAME}", 303), (f"http://{NAME}", 403), ("https://evil.example", 403)):
        assert proxy.ask("POST", "/admin/study/pause", "sent=1", Origin=origin, **signed_in)[0] == expected
    proxy.ask("POST", "/admin/study/resume", "sent=1", Origin=f"https://{NAME}", **signed_in)
    # X-Forwarded-Proto and Host: redirects lead to https at the public host name
    status, headers, _ = proxy.ask("GET", "/admin/study/", Cookie=cookie)
    assert (status, headers["Location"]) == (307, f"https://{NAME}/admin/study")


def test_addresses_are_those_of_connections(proxy: Proxy) -> None:
    """Rate limits use the address of the connection, not the address that a visitor claims."""
    statuses = [
        proxy.ask("GET", f"/s/guess{k}", source="127.0.0.2", X_Forwarded_For=f"192.0.2.{k}")[0] for k in range(70)
    ]
    assert statuses == [404] * 60 + [429] * 10
    assert proxy.ask("GET", "/s/guess", source="127.0.0.3")[0] == 404


def test_slow_requests_time_out(tmp_path: Path) -> None:
    """Requests with incomplete headers or an incomplete body time out."""

    def reply_of(proxy: Proxy, request: bytes) -> bytes:
        with closing(proxy.line()) as line:
            line.connect()  # OSError on a slow machine: `until` tries again
            line.sock.sendall(request)
            return line.sock.recv(65536) or b"HTTP/1.1 408 without words"

    with run_proxy(tmp_path, timeout="500ms") as fast_proxy:
        for request in (b"GET /", b"POST /s/x HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\na"):
            assert b" 408 " in until(lambda request=request: reply_of(fast_proxy, request)).partition(b"\r\n")[0]


def test_connections_of_an_address(proxy: Proxy) -> None:
    lines = [proxy.line("127.0.0.4") for _ in range(CONNECTIONS)]
    try:
        for line in lines:
            line.connect()
        for line in lines:
            line.sock.sendall(b"POST /s/x HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\na")
        until(lambda: proxy.ask("GET", "/health", source="127.0.0.4")[0] == 503)  # nginx has read them all
        assert proxy.ask("GET", "/health", source="127.0.0.5")[0] == 200
    finally:
        for line in lines:
            line.close()


def test_logs_hold_no_link(proxy: Proxy) -> None:
    """Logs contain no link of a successful, failed or unencrypted request."""
    plain_reply(proxy.plain)
    proxy.ask("GET", f"/s/{proxy.token}")
    status, _, text = proxy.ask("POST", f"/s/{proxy.token}", "x" * (64 * 1024 + 1), Content_Type=FORM)
    assert (status, "nginx" in text) == (413, True)
    line = re.compile(r"^\d{4}-\d\d-\d\dT\S+ GET 200 \d+\.\d+$", re.MULTILINE)
    until(lambda: line.search((proxy.folder / f"{NAME}.log").read_text()))  # written after the reply
    assert not (proxy.folder / "usual.log").read_text()
    for path in proxy.folder.glob("*.log"):
        assert proxy.token not in path.read_text()
        assert "/s/" not in path.read_text()


def test_the_plan_of_a_platform(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(block("toml"), encoding="utf-8")
    annotators = read_plan(path).annotators
    assert (annotators.recruit, annotators.worker_id, annotators.codes.finished) == ("open", "PROLIFIC_PID", "C1XXXXXX")
    assert annotators.return_url.endswith("complete?cc={code}")


def test_the_systemd_unit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command of the systemd unit exists, and systemd accepts the unit where it is installed."""
    from custodes import cli

    unit = block("ini")
    (command,) = re.findall(r"^ExecStart=\S+/custodes (.*)$", unit, re.MULTILINE)
    assert cli.run([*command.split()[:2], "--help"]) == 0
    help_text = capsys.readouterr().out
    for option in re.findall(r"--[\w-]+", command):
        assert option in help_text
    if shutil.which("systemd-analyze"):
        path = tmp_path / "custodes.service"
        text = re.sub(r"^(ExecStart=)\S+/custodes", r"\1/bin/true", unit, flags=re.MULTILINE)
        path.write_text(text.replace("User=custodes", "User=root"), encoding="utf-8")
        result = subprocess.run(["systemd-analyze", "verify", str(path)], capture_output=True, text=True, check=False)
        assert "Unknown" not in result.stderr
