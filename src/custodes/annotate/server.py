"""Serve studies in one process on one port until Ctrl-C. Answers are on disk before they are acknowledged."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import socket
import threading
import time
import webbrowser
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any
from urllib.parse import urlsplit

from custodes.annotate.service import Service
from custodes.annotate.snapshot import FINISHED, closing_lines
from custodes.arguments import check_arguments, check_at_least
from custodes.errors import CustodesError, InputError, MissingExtraError, OptionError, reject, short_repr
from custodes.files import make_folder
from custodes.process import SIGNAL_MESSAGES

HOST, PORT = "127.0.0.1", 8080
"""Default host and port of `serve`."""
CONNECTIONS = 4000
"""Maximum number of simultaneous connections. Clients with further connections get the message that the server is
busy."""
EVERY = 15 * 60.0
"""Seconds between backups."""
STARTING, ENDING = 20.0, 5.0
"""Maximum seconds until the server has started, and maximum seconds for open requests when the server stops."""
HEADER_SECONDS = 10.0
"""Maximum seconds until all headers of a request have arrived. The time starts with the connection or, for later
requests, with the first byte."""
LARGEST_HEADERS = 32 * 1024
"""Maximum size of the headers of a request in bytes."""


@dataclass(frozen=True, kw_only=True)
class ServedSite:
    """Studies that are being served.

    `url` is the address for annotators. `owner` is the sign-in link of the owner's page; the link works once.
    `services` has the service of each study by the study's name in addresses.
    """

    url: str
    owner: str
    port: int
    services: Mapping[str, Service]
    is_alive: Callable[[], bool]

    def join(self, study: str) -> str | None:
        """Return the open link of a study, or None if all annotators have personal links."""
        return None if self.services[study].plan.annotators.recruit == "links" else f"{self.url}/j/{study}"

    def wait(self, signal_queue: SimpleQueue[int], *, tell: Callable[[str], object]) -> None:
        """Wait for a signal, or until the server ends by itself. `tell` gets a message when a study is finished."""
        finished_study_names = set[str]()
        while self.is_alive():
            with suppress(Empty):
                signal_queue.get(timeout=1.0)
                return
            for study_name, service in self.services.items():
                with suppress(CustodesError):  # the study cannot be written at present
                    if study_name not in finished_study_names and service.state().result() == FINISHED:
                        finished_study_names.add(study_name)
                        tell(f"{study_name}: finished; no more answers are needed; Ctrl-C ends the server")


@check_arguments
def serve(
    paths: Sequence[str | Path] | str | Path,
    *,
    host: str = HOST,
    port: int = PORT,
    public_url: str | None = None,
    backup: str | Path | None = None,
    open_browser: bool = False,
    i_know: bool = False,
    annotators: int = 0,
    tell: Callable[[str], object] = print,
) -> None:
    """Serve studies until Ctrl-C. `paths` are study files or folders of study files. Messages are passed to `tell`.

    The first message has the owner's sign-in link, which works once. Whoever has a link has access. `i_know` is
    therefore required if links would be sent unencrypted. This is the case for a `host` other than this machine, and
    for a `public_url` without https. If `public_url` is given, the server runs behind a proxy on this machine and
    trusts the proxy's headers on client addresses. `backup` is a folder for copies of all studies, which are made at
    the start, every 15 minutes and at the end. `annotators` is the number of new links for each study; these links are
    printed. Raises `InputError` for files that are not studies or are already served, and `OptionError` for a port in
    use.

    >>> import custodes as cu
    >>> cu.annotate.serve([], port=0)
    Traceback (most recent call last):
    custodes.errors.OptionError: nothing to serve; give study files, or a folder of study files
    """
    study_or_folder_paths = [paths] if isinstance(paths, str | Path) else list(paths)
    site_context = serve_in_thread(
        study_or_folder_paths, host=host, port=port, public_url=public_url, backup=backup, i_know=i_know, tell=tell
    )
    check_at_least("annotators", annotators, 0)
    with catch_signals() as signal_queue, site_context as served_site:
        tell(f"the owner's page (this link works once): {served_site.owner}")
        for study_name, service in served_site.services.items():
            labels_and_tokens = service.invite(annotators).result() if annotators else []
            for annotator_label, token in labels_and_tokens:
                tell(f"{study_name}: the link of annotator {annotator_label}: {served_site.url}/s/{token}")
            if join_url := served_site.join(study_name):
                tell(f"{study_name}: annotators start at {join_url}")
            elif not service.snapshot().result().annotators:
                tell(f"{study_name}: invite annotators on the owner's page")
        tell("Ctrl-C stops the server; every acknowledged answer is stored")
        if open_browser:
            webbrowser.open(served_site.owner)
        served_site.wait(signal_queue, tell=tell)
        closing_messages = ["the server has stopped; everything is stored"]
        for study_name, study_path in find_study_paths(study_or_folder_paths).items():
            with suppress(CustodesError):
                closing_messages += closing_lines(study_path, served_site.services[study_name].snapshot().result())
    for closing_message in closing_messages:
        tell(closing_message)


@contextmanager
def serve_in_thread(
    paths: Sequence[str | Path],
    *,
    host: str = HOST,
    port: int = 0,
    public_url: str | None = None,
    backup: str | Path | None = None,
    i_know: bool = False,
    tell: Callable[[str], object] = print,
) -> Iterator[ServedSite]:
    """Serve studies in a thread while the context is open. `serve`, the demo and tests use this function."""
    try:
        from custodes.annotate.site.app import app
    except ModuleNotFoundError as problem:
        if (problem.name or "").startswith("custodes"):
            raise
        raise MissingExtraError(f"serving needs {problem.name}: pip install 'custodes[annotate]'") from None
    check_open(host, public_url, i_know=i_know)
    with ExitStack() as exit_stack:
        listener = exit_stack.enter_context(bind_socket(host, port))
        service_of_study = {
            study_name: exit_stack.enter_context(Service.open(study_path))
            for study_name, study_path in find_study_paths(paths).items()
        }
        bound_port = listener.getsockname()[1]
        site_url = (public_url or local_url(host, bound_port)).rstrip("/")
        owner_key = secrets.token_urlsafe(16)
        if backup is not None:
            exit_stack.enter_context(_backups(service_of_study, make_folder(backup), tell))
        site_app = app(service_of_study, public_url=site_url, secret=secrets.token_urlsafe(32), owner_key=owner_key)
        yield ServedSite(
            url=site_url,
            owner=f"{site_url}/admin?key={owner_key}",
            port=bound_port,
            services=service_of_study,
            is_alive=exit_stack.enter_context(_run_server(site_app, listener, behind_a_proxy=public_url is not None)),
        )


def local_url(host: str = HOST, port: int = PORT) -> str:
    """Return the address of a server on this machine."""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def check_open(host: str, public_url: str | None, *, i_know: bool) -> None:
    """Raise `OptionError` if links would be sent unencrypted over a network and the user has not accepted this risk."""
    if public_url is not None:
        check_address("--public-url", public_url)
    public_url_parts = urlsplit(public_url or "")
    advice_text = "use a proxy with https (docs/howto/deploy-annotation.md), or accept the risk with --i-know"
    reject(
        (
            not (is_local(host) or i_know),
            f"--host {short_repr(host)} opens the server to the network; links are keys and would be sent "
            f"unencrypted; {advice_text}",
        ),
        (
            public_url_parts.scheme == "http" and not (is_local(public_url_parts.hostname or "") or i_know),
            f"--public-url {short_repr(public_url)}: links are keys and would be sent unencrypted; {advice_text}",
        ),
    )


def check_address(option: str, url: str) -> None:
    """Raise `OptionError` for an address that cannot be the beginning of links.

    >>> check_address("--url", "javascript:alert(1)")
    Traceback (most recent call last):
    custodes.errors.OptionError: --url 'javascript:alert(1)' is not allowed; give scheme and host only, such as https://ask.example.org
    """
    try:
        url_parts = urlsplit(url)
        is_base_address = (
            url_parts.scheme in ("http", "https")
            and url_parts.path in ("", "/")
            and not (url_parts.query or url_parts.fragment or any(map(str.isspace, url)))
            and bool(url_parts.hostname)
            and url_parts.port != 0
        )
    except ValueError:  # unclosed brackets, or an invalid port
        is_base_address = False
    reject(
        (
            not is_base_address,
            f"{option} {short_repr(url)} is not allowed; give scheme and host only, such as https://ask.example.org",
        )
    )


def is_local(host: str) -> bool:
    """Whether an address can be reached only from this machine.

    >>> is_local("127.0.0.1"), is_local("0.0.0.0")
    (True, False)
    """
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def find_study_paths(paths: Sequence[str | Path]) -> dict[str, Path]:
    """Return the path of each study by the study's name in addresses. The name is the file name without its extension.
    A folder stands for all studies in it."""
    path_of_study: dict[str, Path] = {}
    for study_or_folder_path in map(Path, paths):
        study_paths = (
            sorted(study_or_folder_path.glob("*.db")) if study_or_folder_path.is_dir() else [study_or_folder_path]
        )
        if not study_paths:
            raise InputError(
                f"{study_or_folder_path}: the folder contains no study; create a study with `custodes annotate new`"
            )
        for study_path in study_paths:
            if study_path.stem in path_of_study:
                raise OptionError(
                    f"{path_of_study[study_path.stem]} and {study_path} have the same name in addresses; rename one of "
                    "the files"
                )
            path_of_study[study_path.stem] = study_path
    if not path_of_study:
        raise OptionError("nothing to serve; give study files, or a folder of study files")
    return path_of_study


@contextmanager
def bind_socket(host: str, port: int) -> Iterator[socket.socket]:
    """Open a socket on a port; port 0 means any free port. Raise `OptionError` if the port is in use or not
    permitted."""
    check_at_least("port", port, 0)
    reject((port > 65_535, f"port={port} is not allowed; give a port of at most 65535"))
    try:
        family, *_, socket_address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.create_server(
            socket_address, family=family, dualstack_ipv6=family == socket.AF_INET6 and socket.has_dualstack_ipv6()
        )
    except socket.gaierror as problem:
        raise OptionError(
            f"--host {short_repr(host)}: {problem.strerror}; to serve only on this machine use 127.0.0.1"
        ) from None
    except OSError as problem:
        raise OptionError(
            f"port {port} on {host}: {os.strerror(problem.errno or 0)}; choose another port with --port, or 0 for any "
            "free port"
        ) from None
    with listener:
        yield listener


@contextmanager
def _run_server(app: Any, listener: socket.socket, *, behind_a_proxy: bool) -> Iterator[Callable[[], bool]]:
    """Run uvicorn in another thread, so that the calling thread handles signals."""
    import uvicorn

    server = uvicorn.Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,  # a log would contain links, and whoever has a link has access
            log_level="warning",
            http=header_limit_protocol(),
            limit_concurrency=CONNECTIONS,
            timeout_keep_alive=15,
            timeout_graceful_shutdown=int(ENDING),
            server_header=False,
            proxy_headers=behind_a_proxy,
            forwarded_allow_ips="127.0.0.1,::1" if behind_a_proxy else "",
            ws="none",
            lifespan="auto",
        )
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="custodes-site", daemon=True)
    thread.start()
    try:
        started_at = time.monotonic()
        while not server.started:
            if not thread.is_alive() or time.monotonic() > started_at + STARTING:
                raise OptionError("the server did not start; `custodes doctor` says what is missing")
            time.sleep(0.02)
        yield thread.is_alive
    finally:
        server.should_exit = True
        thread.join(ENDING + STARTING)


def header_limit_protocol(max_header_seconds: float = HEADER_SECONDS) -> type[asyncio.Protocol]:
    """Return uvicorn's protocol (with httptools if installed, else with h11) with limits of time and size for headers.

    This is necessary because uvicorn limits only the time between two requests, and httptools does not limit the size
    of headers.
    """
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as Base
    except ImportError:
        from uvicorn.protocols.http.h11_impl import H11Protocol as Base  # type: ignore[assignment]

    class Patient(Base):
        """Protocol that closes connections with slow or long headers. Limits for bodies are set by the application."""

        _header_timer: asyncio.TimerHandle | None = None
        _n_header_bytes = 0

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._start()

        def data_received(self, data: bytes) -> None:
            if self._is_idle():
                self._start()
                header_end = data.find(b"\r\n\r\n")  # the body follows, which has its own limit
                self._n_header_bytes += len(data) if header_end < 0 else header_end
                if self._n_header_bytes > LARGEST_HEADERS:
                    self.transport.close()
                    return
            super().data_received(data)
            if not self._is_idle():
                self._stop()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop()
            super().connection_lost(exc)

        def _is_idle(self) -> bool:
            """Whether the connection has no request in progress."""
            return self.cycle is None or self.cycle.response_complete

        def _start(self) -> None:
            self._header_timer = self._header_timer or self.loop.call_later(max_header_seconds, self.transport.close)

        def _stop(self) -> None:
            if self._header_timer is not None:
                self._header_timer.cancel()
            self._header_timer, self._n_header_bytes = None, 0

    return Patient


@contextmanager
def _backups(services: Mapping[str, Service], backup_folder: Path, tell: Callable[[str], object]) -> Iterator[None]:
    """Copy every study now, every quarter of an hour, and at the end. If a later copy fails, `tell` gets a message."""
    stop_event = threading.Event()

    def copy_all() -> None:
        for study_name, service in services.items():
            service.backup(backup_folder / f"{study_name}.db")

    def copy_until_stopped() -> None:
        is_stopped = False
        while not is_stopped:
            is_stopped = stop_event.wait(EVERY)
            try:
                copy_all()
            except CustodesError as problem:
                tell(f"no backup{' at the end' * is_stopped}: {problem}")

    copy_all()
    thread = threading.Thread(target=copy_until_stopped, name="custodes-backup", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop_event.set()
        thread.join()


@contextmanager
def catch_signals() -> Iterator[SimpleQueue[int]]:
    """Provide a queue that gets the first Ctrl-C or similar signal. A second signal has its usual effect.

    A signal handler may run while this thread holds the lock of an event or of a queue of another type. The handler
    would then wait for the lock forever. `SimpleQueue.put` needs no such lock, so a handler that calls it never waits.
    """
    signal_queue, previous_handler_of_signal = SimpleQueue[int](), dict[int, Any]()

    def leave(signal_number: int, frame: object) -> None:
        signal.signal(signal_number, previous_handler_of_signal[signal_number])
        signal_queue.put(signal_number)

    is_main_thread = threading.current_thread() is threading.main_thread()
    for signal_name in SIGNAL_MESSAGES if is_main_thread else ():
        signal_number = getattr(signal, signal_name, None)  # not all systems have all signals
        if signal_number is not None and signal.getsignal(signal_number) is not signal.SIG_IGN:
            previous_handler_of_signal[signal_number] = signal.signal(signal_number, leave)
    try:
        yield signal_queue
    finally:
        for signal_number, previous_handler in previous_handler_of_signal.items():
            signal.signal(signal_number, previous_handler)
