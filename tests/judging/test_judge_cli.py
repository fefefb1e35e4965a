"""`custodes judge`: files, exit statuses, early errors and resuming."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from threading import Event

import polars as pl
import pytest

from tests.command_line import Run, custodes, interruptible, refused
from tests.judging.clients import longer, outputs_of
from tests.judging.servers import Manner, Seen, Server, fails, says, silence

__all__ = ["custodes"]  # the fixture

TEXTS = [
    {"item": str(item), "source": f"Question {item}", "outputs": {"X": "x" * (item + 1), "Y": "y" * 3, "Z": "z" * 5}}
    for item in range(4)
]


@pytest.fixture(autouse=True)
def texts(custodes: Run, quick: None) -> None:
    """Write `texts.jsonl` into the working folder."""
    Path("texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in TEXTS))


def lengths(request: Seen, attempts: int) -> Manner:
    return says(json.dumps({"verdict": longer(*outputs_of(request.body))}))


def command(server: Server, *more: str) -> Sequence[str]:
    return ("judge", "texts.jsonl", "--model", "m", "--base-url", server.url, "-o", "verdicts.csv", *more)


def test_from_texts_to_a_question(custodes: Run, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_JUDGE_KEY", "sk-never-to-be-seen")
    server.answer = lengths
    result = custodes(*command(server, "--name", "length", "--own-system", "X", "--key-env", "TEST_JUDGE_KEY"))
    assert (result.status, result.out.split()) == (0, ["verdicts.csv", "verdicts.raters.csv", "verdicts.details.jsonl"])
    assert (
        "24 of 24 queries have a reply, and 24 replies contain a verdict; 24 requests sent; all replies, "
        "including stored ones: 240 input tokens, 48 output tokens" in result.err
    )
    header = Path("verdicts.csv").read_text().splitlines()[0]
    assert header == ("item,system_a,system_b,rater,kind,aspect,repeat,order,preference,invalid,p_a,p_tie,p_b")
    raters = pl.read_csv("verdicts.raters.csv").row(0, named=True)
    assert (raters["rater"], raters["kind"], raters["own_system"], raters["cost"]) == ("length", "metric", "X", None)
    assert raters["cost_unit"] is None
    assert raters["signature"].startswith("model:served|mode:pairwise|prompt:answer:")
    details = [json.loads(line) for line in Path("verdicts.details.jsonl").read_text().splitlines()]
    assert [row["model"] for row in details] == ["served"] * 24
    assert server.seen[0].headers["authorization"] == "Bearer sk-never-to-be-seen"
    assert Path("verdicts.cache.db").exists()
    assert not any(b"never-to-be-seen" in path.read_bytes() for path in Path().iterdir())
    assert custodes("leaderboard", "verdicts.csv", "--format", "json").status == 0
    assert custodes("consistency", "verdicts.csv", "texts.jsonl").status == 0


def test_a_part_is_written_and_the_next_run_asks_the_rest(custodes: Run, server: Server) -> None:
    def patchy(request: Seen, attempts: int) -> Manner:
        return fails(413, "too long for me") if "Question 2" in str(request.body) else lengths(request, attempts)

    server.answer = patchy
    result = custodes(*command(server, "--concurrency", "1", "--pairs", "vs:X"))
    assert result.status == 1
    assert "4 of 16 queries have no reply (4 rejected: 413: too long for me" in result.err
    assert "); correct the cause of the rejections, and run the same command again" in result.err
    failures = pl.read_csv("verdicts.csv", infer_schema=False).filter(pl.col("invalid") != "")
    assert failures.select("invalid", "preference").rows() == [("rejected", None)] * 4
    server.answer, n_sent = lengths, len(server.seen)
    assert custodes(*command(server, "--pairs", "vs:X")).status == 0
    assert len(server.seen) == n_sent + 4


def test_a_dry_run_sends_and_writes_nothing(custodes: Run, server: Server) -> None:
    options = ("--price", "1,10", "--sampling", "max_tokens=20")
    result = custodes(*command(server, "--dry-run", *options))
    assert (result.status, result.err) == (0, "")
    assert not server.seen
    assert sorted(path.name for path in Path().iterdir()) == ["texts.jsonl"]
    lines = result.out.splitlines()
    assert lines[0] == "24 queries and 24 requests; 24 requests have no reply yet"
    assert lines[1].endswith("about 216 output tokens expected, at most 480")
    assert lines[2].startswith(
        "assumptions: all replies are readable, so that no request is repeated, and 9 tokens per"
    )
    assert lines[3] == "cost: about $0.0064 expected, at most $0.0090; a batch costs about half (price: given)"
    sampled = custodes(*command(server, "--dry-run", "--pairs", "sample:2"))
    assert sampled.err == "custodes: note: 2 of 4 items are judged for each pair of systems\n"
    server.answer = lengths
    assert custodes(*command(server, "--pairs", "sample:2", "--quiet")).err.startswith(sampled.err)


@pytest.mark.parametrize("more", [("--dry-run",), ("--write-requests", "requests.jsonl")])
def test_what_asks_nothing_needs_no_client(
    custodes: Run, server: Server, monkeypatch: pytest.MonkeyPatch, more: Sequence[str]
) -> None:
    monkeypatch.setitem(sys.modules, "httpx2", None)
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    result = custodes(*command(server, *more))
    assert result.status == 0, result.err
    price_text = "give --price IN,OUT, or an address whose prices genai-prices knows (pip install 'custodes[judge]')"
    assert (f"the price of m is unknown; {price_text}" in result.out) == (more == ("--dry-run",))
    refused(
        custodes(*command(server, *more, "--max-cost", "1")), f"--max-cost 1: the price of 'm' is unknown; {price_text}"
    )


def test_batches(custodes: Run, server: Server, tmp_path: Path) -> None:
    result = custodes(*command(server, "--write-requests", "requests.jsonl"))
    assert (result.status, result.out) == (0, "requests.jsonl\n")
    requests = [json.loads(line) for line in Path("requests.jsonl").read_text().splitlines()]
    replies = []
    for place, row in enumerate(requests):
        content = "Hm." if place == 0 else json.dumps({"verdict": longer(*outputs_of(row["body"]))})
        body = {"model": "batch", "choices": [{"index": 0, "message": {"content": content}, "finish_reason": "stop"}]}
        replies.append({"custom_id": row["custom_id"], "response": {"status_code": 200, "body": body}, "error": None})
    Path("replies.jsonl").write_text("".join(json.dumps(row) + "\n" for row in replies))
    imported = custodes(*command(server, "--replies", "replies.jsonl"))
    assert imported.status == 1  # one answer is still to be queried
    assert (
        "1 of 24 queries have no reply (1 unavailable: not sent yet); run the same command again to "
        "send only these queries\ncustodes: note: 24 replies report no"
    ) in imported.err
    assert custodes(*command(server, "--write-requests", "more.jsonl")).status == 0
    (again,) = [json.loads(line) for line in Path("more.jsonl").read_text().splitlines()]
    assert again["custom_id"] not in {row["custom_id"] for row in requests}
    assert not server.seen


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--key-env", "NO_SUCH_KEY_HERE"), "--key-env: no environment variable has this name"),
        (("--timeout", "0"), "--timeout 0 is not allowed; give a number of seconds above 0"),
        (("--mode", "pair"), "pairwise"),
        (("--pairs", "nothing.csv"), "no such file"),
        (("--scale", "1-5:0.3", "--mode", "pointwise"), "custodes: --scale '1-5:0.3' is not allowed; give LOW-HIGH"),
        (("--sampling", "temperature"), "custodes: --sampling 'temperature' is not allowed; give KEY=VALUE"),
        (("--price", "1"), "give two numbers"),
        (
            ("--examples", "texts.jsonl:2"),
            "custodes: examples: there are no scores, verdicts or answers of annotators yet",
        ),
        (("--dry-run", "--replies", "texts.jsonl"), "give one of these options"),
        (("--cache", "texts.jsonl"), "it is the input"),
        (("--orders", "abba"), "random"),
        (("--mode", "pointwise", "--orders", "both"), "--orders both has no effect: the judge is pointwise"),
    ],
)
def test_what_is_refused_before_anything_is_sent(
    custodes: Run, server: Server, words: Sequence[str], message: str
) -> None:
    refused(custodes(*command(server, *words)), message)
    assert not server.seen
    assert not Path("verdicts.csv").exists()


def test_very_many_requests_want_a_word(custodes: Run, server: Server) -> None:
    rows = [
        {"item": str(item), "outputs": {str(system): f"{item} {system}" for system in range(12)}} for item in range(20)
    ]
    Path("texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    refused(
        custodes(*command(server, "--price", "0,1", "--sampling", "max_tokens=1000")),
        "2640 requests, about $0.0238 expected, at most $2.64: more than 2000 need permission; give --max-cost "
        "DOLLARS or --yes, or send fewer requests, as with --pairs sample:N",
    )
    assert not server.seen


@pytest.mark.parametrize("key", ["sk-abcdefghijklmnop0123", "sk=part,two"])
@pytest.mark.parametrize("words", [("--key-env", "{}"), ("--key-env", "{}", "--dry-run"), ("--api-key={}",)])
def test_a_key_in_place_of_its_variable_is_not_repeated(
    custodes: Run, server: Server, key: str, words: Sequence[str]
) -> None:
    result = custodes(*command(server, *(word.format(key) for word in words)))
    assert result.status == (0 if "--dry-run" in words else 2)
    assert (key.partition("=")[2] or key) not in result.out + result.err
    assert not server.seen
    assert not any(key.encode() in path.read_bytes() for path in Path().iterdir())


@pytest.mark.parametrize("readable", [11, 12])
def test_mostly_unreadable_replies_are_a_failure(custodes: Run, server: Server, readable: int) -> None:
    seen_bodies: list[str] = []

    def reply(request: Seen, attempts: int) -> Manner:
        body = str(request.body)
        if body not in seen_bodies:
            seen_bodies.append(body)
        return lengths(request, attempts) if seen_bodies.index(body) < readable else says("I prefer not to say.")

    server.answer = reply
    result = custodes(*command(server, "--concurrency", "1"))
    assert f"{readable} replies contain a verdict" in result.err
    assert result.status == (1 if readable < 12 else 0)
    assert (f"only {readable} of 24 replies" in result.err) == (readable < 12)
    assert custodes(*command(server)).status == result.status  # also from the cache


def test_requests_sent_are_counted_with_retries(custodes: Run, server: Server) -> None:
    times = 2

    def busy(request: Seen, attempts: int) -> Manner:
        if "Question 1" in str(request.body):
            return says("no idea")  # causes a second request
        return fails(503) if "Question 2" in str(request.body) and attempts < times else lengths(request, attempts)

    server.answer = busy
    result = custodes(*command(server))
    assert len(server.seen) == 24 + 6 + 6 * times
    assert f"{len(server.seen)} requests sent ({6 * times} of them retries)" in result.err


def test_an_interrupted_judge_resumes(custodes: Run, server: Server) -> None:
    reached = Event()

    def answer(request: Seen, attempts: int) -> Manner:
        if len(server.seen) > 5:
            reached.set()
            return silence
        return lengths(request, attempts)

    server.answer = answer
    words = command(server, "--concurrency", "1")
    ran = subprocess.Popen(
        interruptible("-m", "custodes", *words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert reached.wait(600)
    ran.send_signal(signal.SIGINT)
    out, err = ran.communicate()
    assert (ran.returncode, out) == (130, "")
    assert err == "custodes: interrupted: results are stored in verdicts.cache.db; repeat the command to continue\n"
    assert not Path("verdicts.csv").exists()
    n_sent = len(server.seen)
    server.answer = lengths
    assert custodes(*words).status == 0
    assert len(server.seen) == n_sent + 24 - 5
