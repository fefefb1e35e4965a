"""Load on an annotation server: answers per second, 99th percentile of latency, memory, and time of the owner's page.

`python benchmarks/annotation.py [--seconds 20]`. The server is `custodes annotate serve` in a separate process on
127.0.0.1. Clients are connections of this process that answer without pauses: 500 of them correspond to some 40,000
annotators with 1.5 answers per minute. The latency of an answer is the time from the first byte of the request to the
last byte of the next page, when the answer is on disk. Clients and server share the cores of one machine.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import numpy as np

import custodes as cu
from custodes.annotate.plan import AnnotatorPlan, StoppingRule
from custodes.annotate.plan import StudyPlan as Plan

SYSTEMS, ITEMS = 10, 600
JUDGED = 100_000
TARGETS = {
    "500 clients, answers a second": ">= 500",
    "500 clients, p99": "< 1.5 s",
    "500 clients, errors": "0",
    "500 clients, memory of the server": "< 150 MB",
    "50 clients, p99": "< 0.3 s",
    "owner's page": "< 0.3 s",
}
DO = re.compile(rb'name="do" value="(\w+)"')
ASKED = re.compile(rb'name="assignment" value="(\d+)"')
DIGEST = re.compile(rb'name="digest" value="(\w+)"')


class Client:
    """Browser of one annotator: a persistent connection, and the form on the current page."""

    def __init__(self, port: int, path: str) -> None:
        self._port, self._path = port, path
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self.page = b""
        self.failed = 0

    async def request(self, method: str, path: str, body: bytes = b"", cookie: str = "") -> tuple[int, bytes, bytes]:
        """Return status, head and body. As in a browser, a request on a connection that the server closed is sent again
        on a new connection."""
        is_reused = self._streams is not None
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        head = [f"{method} {path} HTTP/1.1", f"host: 127.0.0.1:{self._port}", f"content-length: {len(body)}"]
        head += ["content-type: application/x-www-form-urlencoded"] if body else []
        head += [f"cookie: {cookie}"] if cookie else []
        writer.write("\r\n".join([*head, "", ""]).encode() + body)
        try:
            header = await reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            self.close()
            if not is_reused:
                raise
            return await self.request(method, path, body, cookie)
        match = re.search(rb"content-length: (\d+)", header.lower())
        content = await reader.readexactly(int(match[1])) if match else b""
        if b"connection: close" in header.lower():
            self.close()
        return int(header.split(b" ", 2)[1]), header, content

    def close(self) -> None:
        """Close the connection."""
        if self._streams is not None:
            self._streams[1].close()
        self._streams = None

    async def look(self) -> None:
        """Request the current page."""
        status, _, self.page = await self.request("GET", self._path)
        self.failed += status != 200

    async def act(self) -> bool:
        """Submit the first form of the page; return whether it was an answer."""
        do = DO.search(self.page)
        if do is None:  # waiting for a task
            await asyncio.sleep(0.5)
            await self.look()
            return False
        fields = {"do": do[1].decode()}
        if question := ASKED.search(self.page):
            number = int(question[1])
            fields |= {"assignment": str(number), "v0": str(number % 3 - 1), "seconds": "1.0"}
        if digest := DIGEST.search(self.page):
            fields |= {"digest": digest[1].decode(), "agree": "1"}
        status, _, content = await self.request("POST", self._path, urlencode(fields).encode())
        self.failed += status != 200
        self.page = content if status == 200 else self.page
        return fields["do"] == "answer" and status == 200


async def load(port: int, pid: int, paths: Sequence[str], seconds: float) -> tuple[list[float], int, float, float]:
    """Seconds of every answer, errors, total time, and CPU time of the server meanwhile."""
    clients, took = [Client(port, path) for path in paths], list[float]()
    end = [float("inf")]

    async def work(client: Client) -> None:
        while time.perf_counter() < end[0]:
            start = time.perf_counter()
            if await client.act():
                took.append(time.perf_counter() - start)

    await asyncio.gather(*(client.look() for client in clients))
    for _ in range(3):  # consent and instructions
        await asyncio.gather(*(client.act() for client in clients if b'value="answer"' not in client.page))
    start, before = time.perf_counter(), processor(pid)
    end[0] = start + seconds
    await asyncio.gather(*(work(client) for client in clients))
    spent, busy = time.perf_counter() - start, processor(pid) - before
    for client in clients:
        client.close()
    return took, sum(client.failed for client in clients), spent, busy


def new_study(folder: Path, annotators: int, *, items: int = ITEMS) -> tuple[Path, list[str]]:
    """Create a study with enough tasks, and return the addresses of `annotators`."""
    rng = np.random.default_rng(0)
    words = np.array(["the", "room", "was", "clean", "and", "quiet", "but", "small", "breakfast", "late"])
    names = [f"system{k}" for k in range(SYSTEMS)]
    rows = [
        {"item": f"item{k:05}", "system": name, "text": f"{name[-1]}: {' '.join(rng.choice(words, 60))}."}
        for k in range(items)
        for name in names
    ]
    import polars as pl

    plan = Plan(
        name="load",
        annotators=AnnotatorPlan(batch=50, batches=1000, cap=1.0, gold_every=0, attention=0, most=10_000),
        stopping=StoppingRule(looks=(items,), stop="decided", boundary="none"),
    )
    place = cu.annotate.new(pl.DataFrame(rows), folder / "study.db", plan=plan)
    service = cu.annotate.Service.open(place, threaded=False)
    try:
        links = service.invite(annotators).result()
    finally:
        service.close()
    return place, [f"/s/{token}" for _, token in links]


@contextmanager
def served(study: Path) -> Iterator[tuple[int, str, int]]:
    """Start a server; return its port, the owner's path, and its process ID."""
    command = [sys.executable, "-m", "custodes", "annotate", "serve", str(study), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        link = urlsplit(line.rpartition(" ")[2].strip())
        assert link.port is not None, line
        yield link.port, f"{link.path}?{link.query}", process.pid
    finally:
        process.terminate()
        process.stdout.read()
        process.wait(30)


def memory(pid: int) -> float:
    """Peak memory of a process in MB."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", text)[1]) / 1000  # type: ignore[index]


def processor(pid: int) -> float:
    """CPU seconds of a process."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


async def owners(port: int, path: str, times: int = 5) -> list[float]:
    """Seconds for the owner's page of a study."""
    client = Client(port, "/")
    _, head, _ = await client.request("GET", path)
    cookie = re.search(rb"set-cookie: ([^;]+)", head, re.IGNORECASE)
    assert cookie, head
    took = []
    for _ in range(times):
        start = time.perf_counter()
        status, _, page = await client.request("GET", "/admin/study", cookie=cookie[1].decode())
        took.append(time.perf_counter() - start)
        assert status == 200, status
        assert b"system0" in page
    client.close()
    return took


def filled(study: Path, answers: int) -> None:
    """Submit answers through the service as fast as possible; return their number."""
    from custodes.annotate.views import Agree, Answer, Ask, Begin, Consent

    service = cu.annotate.Service.open(study, threaded=False, durable=False)
    try:
        done = 0
        for _, token in service.invite(200).result():
            view = service.view(token).result()
            for _ in range(answers // 200 + 20):
                if isinstance(view, Consent):
                    view = service.act(token, Agree(digest=view.digest)).result()
                elif isinstance(view, Ask):
                    answer = Answer(assignment=view.assignment, values={"": view.assignment % 3 - 1}, seconds=20.0)
                    view = service.act(token, answer).result()
                    done += 1
                else:
                    view = service.act(token, Begin()).result()
                if done >= answers:
                    return
    finally:
        service.close()


def main() -> None:
    """Print one row per figure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--judged", type=int, default=JUDGED)
    arguments = parser.parse_args()
    cores, waiting = os.cpu_count(), os.getloadavg()[0]
    print(
        f"{platform.platform()}, Python {platform.python_version()}, {cores} cores, {waiting:.1f} processes waiting\n"
    )
    print("| what | measured | target |\n|---|---|---|")
    for annotators in (500, 50):
        with tempfile.TemporaryDirectory() as folder:
            study, paths = new_study(Path(folder), annotators)
            with served(study) as (port, _, pid):
                idle = memory(pid)
                took, failed, spent, busy = asyncio.run(load(port, pid, paths, arguments.seconds))
                held = memory(pid)
        figures = {
            "answers a second": f"{len(took) / spent:.0f}",
            "p50": f"{np.quantile(took, 0.5):.3f} s",
            "p99": f"{np.quantile(took, 0.99):.3f} s",
            "errors": f"{failed}",
            "memory of the server": f"{held:.0f} MB",
            "memory before anybody came": f"{idle:.0f} MB",
            "processor time of the server, an answer": f"{1000 * busy / len(took):.2f} ms",
        }
        for name, figure in figures.items():
            row(f"{annotators} clients, {name}", figure)
    with tempfile.TemporaryDirectory() as folder:
        pairs = len(list(combinations(range(SYSTEMS), 2)))
        study, _ = new_study(Path(folder), 1, items=arguments.judged // pairs + 200)
        start = time.perf_counter()
        filled(study, arguments.judged)
        row(f"{arguments.judged:,} answers through the service", f"{time.perf_counter() - start:.0f} s")
        start = time.perf_counter()
        with served(study) as (port, owner, pid):
            row("the server is there again after", f"{time.perf_counter() - start:.1f} s")
            row("processor time until then", f"{processor(pid):.1f} s")
            row("owner's page", f"{np.median(asyncio.run(owners(port, owner))):.3f} s")
            row("memory of the server", f"{memory(pid):.0f} MB")


def row(what: str, figure: str) -> None:
    """Print a row of the table immediately."""
    print(f"| {what} | {figure} | {TARGETS.get(what, '')} |", flush=True)


if __name__ == "__main__":
    main()
