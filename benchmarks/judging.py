"""Client cost of LLM judges: CPU time per verdict compared with the openai client, and time to read verdicts again.

`python benchmarks/judging.py [--peer PYTHON]`. The server is a separate process on 127.0.0.1 that answers immediately,
so that only the client is measured: 2,000 calls, 32 in parallel, minimum of three runs, without imports. Ours also
hashes requests, caches replies in a file and counts tokens. `--peer` is an interpreter with `openai` (`pip install
openai`); without it that row is omitted.

Reading: 100,000 replies from the cache, compared with one JSON file of the same replies and texts in the form in which
AlpacaEval reads its annotations (`pandas.read_json`, merged on the texts), and with the same file read by the json
module into pandas, without the merge.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from custodes.cache import Cache
from custodes.judging.client import http_client
from custodes.judging.cost import Budget
from custodes.judging.querying import query
from custodes.judging.requests import Reply, Request, find_replies, store_reply
from custodes.progress import silent

CALLS, AT_ONCE, ROUNDS = 2_000, 32, 3
VERDICTS = 100_000
TARGETS = {"call": "<= 2 ms", "ratio": "<= 0.8", "again": ">= 10 times"}
TEXT = "The committee met on Tuesday and agreed on the terms of the new contract, its chair said. "
SOURCE, OUTPUT = TEXT * 24, TEXT * 4  # lengths of SummEval
PROMPT = f"Which summary is better?\n\n{SOURCE}\n\nA: {OUTPUT}\n\nB: {OUTPUT}"

SERVER = """
import asyncio, json
BODY = json.dumps({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [{"index": 0,
    "message": {"role": "assistant", "content": '{"verdict": "A"}'}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 600, "completion_tokens": 6, "total_tokens": 606}}).encode()
HEAD = b"HTTP/1.1 200 OK\\r\\ncontent-type: application/json\\r\\ncontent-length: %d\\r\\n\\r\\n" % len(BODY)

async def talk(reader, writer):
    try:
        while True:
            head = (await reader.readuntil(b"\\r\\n\\r\\n")).lower()
            await reader.readexactly(int(head.split(b"content-length:")[1].split(b"\\r\\n")[0]))
            writer.write(HEAD + BODY)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()

async def main():
    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

asyncio.run(main())
"""

PEER = """
import asyncio, sys, time
from openai import AsyncOpenAI
url, calls, at_once, rounds, prompt = sys.argv[1], *map(int, sys.argv[2:5]), sys.argv[5]

async def once(client, gate, n):
    async with gate:
        made = await client.chat.completions.create(
            model="m", temperature=0, max_tokens=64, messages=[{"role": "user", "content": f"{prompt}{n}"}])
        return made.choices[0].message.content

async def main():
    gate = asyncio.Semaphore(at_once)
    async with AsyncOpenAI(base_url=url, api_key="k") as client:
        await once(client, gate, 0)
        start = time.process_time()
        await asyncio.gather(*(once(client, gate, n) for n in range(calls)))
        return time.process_time() - start

print(min(asyncio.run(main()) for _ in range(rounds)))
"""


def requests(count: int, place: str) -> list[Request]:
    """Different questions of equal length."""
    sampling = {"model": "m", "temperature": 0, "max_tokens": 64}
    return [
        Request.make(place, {**sampling, "messages": [{"role": "user", "content": f"{PROMPT}{n}"}]})
        for n in range(count)
    ]


def ours(url: str, folder: Path) -> float:
    """CPU seconds of all calls, with a cache file."""
    seconds = []
    for turn in range(ROUNDS):
        with Cache(folder / f"{turn}.db") as cache:
            client = http_client(url, key="k", timeout=60)
            options = {"concurrency": AT_ONCE, "rpm": None, "tpm": None, "budget": Budget(), "progress": silent}
            query(requests(1, "warm"), client, cache=cache, **options)
            start = time.process_time()
            answers = query(requests(CALLS, url), client, cache=cache, **options)
            seconds.append(time.process_time() - start)
            assert len(answers.replies) == CALLS
    return min(seconds)


def peer(python: str, url: str) -> float:
    """CPU seconds of the openai client, without a cache."""
    words = [python, "-c", PEER, url, *map(str, (CALLS, AT_ONCE, ROUNDS)), PROMPT]
    return float(subprocess.run(words, capture_output=True, check=True, text=True).stdout)


def best(work: Callable[[], object]) -> float:
    """Minimum CPU seconds over several runs."""
    seconds = []
    for _ in range(ROUNDS):
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return min(seconds)


def read_again(folder: Path) -> dict[str, float]:
    """CPU seconds to read all verdicts from the cache, and from one JSON file in two ways."""
    import pandas as pd

    wanted_requests = requests(VERDICTS, "http://judge")
    choices = [{"index": 0, "message": {"role": "assistant", "content": '{"verdict": "A"}'}, "finish_reason": "stop"}]
    body = {"model": "m", "choices": choices, "usage": {"prompt_tokens": 900, "completion_tokens": 6}}
    with Cache(folder / "again.db") as cache:
        for part in wanted_requests:
            store_reply(cache, part, Reply.make(body, sent_time="2026-01-01T00:00:00.000000+00:00", seconds=1.234567))
        results = {
            "the cache, replies": best(lambda: find_replies(wanted_requests, cache)),
            "the cache, replies and the text of each": best(
                lambda: [
                    value.body["choices"][0]["message"]["content"]
                    for value in find_replies(wanted_requests, cache)[0].values()
                ]
            ),
        }
    texts = {"output_1": OUTPUT, "generator_1": "x", "output_2": OUTPUT, "generator_2": "y", "annotator": "m"}
    entries = {"preference": 1.0, "raw_completion": body, "price_per_example": 0.0001, "time_per_example": 1.0}
    file = folder / "annotations.json"
    rows = [{"instruction": f"{SOURCE}{n}", **texts, **entries} for n in range(VERDICTS)]
    frame = pd.DataFrame(rows)
    frame.to_json(file, orient="records", indent=2)
    columns = ["instruction", "output_1", "output_2", "annotator"]
    frame = frame[columns]

    def as_alpaca_eval() -> object:
        return frame.merge(pd.read_json(file)[[*columns, "preference", "raw_completion"]], on=columns, how="left")

    return results | {
        "one JSON file, pandas.read_json and merge": best(as_alpaca_eval),
        "one JSON file, json and pandas": best(lambda: pd.DataFrame(json.loads(file.read_text()))),
    }


def main() -> None:
    """Run all and print a Markdown table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--peer", help="a Python that has openai")
    python = options.parse_args().peer
    print("| what | measured | target |\n|---|---|---|")
    server = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
        with tempfile.TemporaryDirectory() as folder:
            mine = ours(url, Path(folder)) / CALLS * 1000
            print(f"| a verdict: ours, cache included | {mine:.2f} ms | {TARGETS['call']} |", flush=True)
            if python:
                theirs = peer(python, url) / CALLS * 1000
                print(f"| a verdict: the openai client | {theirs:.2f} ms | |")
                print(f"| a verdict: ratio | {mine / theirs:.2f} | {TARGETS['ratio']} |", flush=True)
    finally:
        server.kill()
        server.communicate()
    with tempfile.TemporaryDirectory() as folder:
        seconds = read_again(Path(folder))
    for what, took in seconds.items():
        print(f"| {VERDICTS:,} verdicts again: {what} | {took:.2f} s | |")
    ours_all, ours_read, alpaca, plain = seconds.values()
    ratios = [f"{them / us:.1f}" for them in (alpaca, plain) for us in (ours_all, ours_read)]
    summary = "{} and {} times read_json and merge; {} and {} times json".format(*ratios)
    print(f"| {VERDICTS:,} verdicts again: ratios | {summary} | {TARGETS['again']} |")


if __name__ == "__main__":
    main()
