"""The command `judge`: write verdicts of an LLM judge on texts to a file that every other command reads."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from custodes.arguments import assignment_list, value_list
from custodes.cache import Cache
from custodes.command_line import OUTPUT_OPTIONS, SWITCH
from custodes.commands.sidecar_files import OutputFiles
from custodes.commands.summaries import summary_lines
from custodes.console import say, tell
from custodes.errors import OptionError, shown, suggestion
from custodes.judging import batch, cost, run
from custodes.judging.clients import client_named
from custodes.judging.cost import PRICES, Budget, Price
from custodes.judging.judge import Judge
from custodes.judging.plan import JudgingPlan
from custodes.judging.querying import query, query_plan, read_answers, read_stored, second_requests
from custodes.judging.requests import Request, find_replies
from custodes.judging.run import client_of, prepare
from custodes.judging.tables import Judgements, judgements_of
from custodes.options import Inputs, Reading, progress, read_by
from custodes.process import Stoppable
from custodes.question_commands import READING, arguments_of, with_options

MANY = 2_000
"""Maximum number of requests without a cost limit and without --yes."""

Text = str | None


def judge(
    *inputs: Inputs,
    output: Annotated[
        str,
        Parameter(
            name=["--output", "-o"],
            help="File for the verdicts, ratings or labels (.csv .tsv .jsonl .parquet, .gz).",
            group=OUTPUT_OPTIONS,
        ),
    ],
    key_env: Annotated[Text, Parameter(help="Name of the environment variable with the API key.")] = None,
    yes: Annotated[bool, SWITCH, Parameter(help="Allow any number of requests without --max-cost.")] = False,
    dry_run: Annotated[
        bool, SWITCH, Parameter(help="Print the estimated requests and cost, then exit.", group=OUTPUT_OPTIONS)
    ] = False,
    write_requests: Annotated[
        Path | None,
        Parameter(help="Write the requests as a batch (JSON Lines), then exit.", group=OUTPUT_OPTIONS),
    ] = None,
    replies: Annotated[Path | None, Parameter(help="Read the replies of a batch instead of sending requests.")] = None,
    cache: Annotated[
        Text, Parameter(help="File for cached replies, or none (default: OUTPUT.cache.db).", group=OUTPUT_OPTIONS)
    ] = None,
    quiet: Annotated[
        bool, SWITCH, Parameter(help="Print no progress bar and no summary.", group=OUTPUT_OPTIONS)
    ] = False,
    reading: Reading = READING,
    **options: Any,
) -> int:
    """Get verdicts of an LLM judge on texts: the better of two outputs, or a score or a label for each output.

    Next to FILE, the command writes FILE.raters.csv, FILE.details.jsonl, FILE.probes.csv (with --probe) and the cache
    of replies. The exit status is 1 if questions have no reply, or if more than half of the replies are unreadable. If
    questions have no reply, the same command sends only these questions again.

    Example: `custodes judge texts.jsonl --model qwen3 --base-url http://127.0.0.1:8000/v1 -o verdicts.csv`
    """
    if sum((dry_run, write_requests is not None, replies is not None)) > 1:
        raise OptionError(
            "judge: --dry-run, --write-requests and --replies cannot be combined; give one of these options"
        )
    places = OutputFiles.make(output, cache, raters=".raters.csv", details=".details.jsonl", probes=".probes.csv")
    examples, prompt, pairs, probe = (options.get(name) for name in ("examples", "prompt", "pairs", "probe"))
    rewrites = value_list("probe", probe or ())
    read = [*reading.files, (examples or "").rpartition(":")[0], prompt, pairs, rewrites, replies]
    places.check(read_by(inputs, *read, sidecars=False), *([write_requests] if write_requests else []))
    if "sampling" in options:
        options["sampling"] = sampling_of(options["sampling"])
    who, arguments = Judge(**arguments_of(Judge, options)), arguments_of(run.judge, options)
    without_effect = {"verdict": ["scale"], "score": ["pairs", "orders"], "label": ["pairs", "orders", "scale"]}
    for name in without_effect[who.key]:
        if name in options:
            what = "gives labels" if name == "scale" and who.labels else f"is {who.mode}"
            raise OptionError(f"--{name} {options[name]} has no effect: the judge {what}")
    client = client_named(arguments["client"]) if "client" in arguments else None
    values = {name: p.default for name, p in inspect.signature(run.judge).parameters.items()} | arguments
    asks = not dry_run and write_requests is None and replies is None
    plan = prepare(
        reading.study(inputs),
        who,
        client=client,
        **{name: values[name] for name in ("pairs", "orders", "repeats", "probe", "rng")},
    )
    asker = client_of(who, client, key=key_of(key_env), timeout=values["timeout"]) if asks else None
    budget = Budget.of(who, values["max_cost"], values["price"])
    with Stoppable(places.follows), Cache(places.cache) as stored:
        failures, notes = batch.read_replies(replies, all_requests(plan, stored), stored) if replies else ({}, [])
        _, waiting = find_replies(all_requests(plan, stored), stored)
        if dry_run:
            for line in estimate_lines(plan, waiting, budget.price, reply_tokens(plan, stored)):
                say(line)
            return 0
        if write_requests is not None:
            say(str(batch.write_requests(write_requests, waiting)))
            return 0
        if asks:
            check_calls(who, waiting, allowed=yes or values["max_cost"] is not None, price=budget.price)
        with progress(quiet=quiet) as track:
            limits = {name: values[name] for name in ("concurrency", "rpm", "tpm")}
            send = partial(read_stored, cache=stored, failures=failures)
            if asker:
                send = partial(query, client=asker, cache=stored, budget=budget, progress=track, **limits)
            judgements = judgements_of(plan, query_plan(plan, send), budget.price)
    for note in dict.fromkeys([*notes, *judgements.notes]):
        tell(f"note: {note.message}")
    places.write(judgements.written())
    tell(summary(judgements))
    if "raters" in places.tables and not quiet:
        for line in summary_lines(places.tables[""]):
            tell(line)
    return judgements.status


def sampling_of(entries: Sequence[str] | None) -> dict[str, Any] | None:
    """The values of entries KEY=VALUE by key. A value that is valid JSON is parsed; any other value stays text."""
    if entries is None:
        return None
    values: dict[str, Any] = {}
    for text in (part for entry in entries for part in ([entry] if _holds_json(entry) else assignment_list(entry))):
        name, sign, value = text.partition("=")
        if not sign or not name.strip() or name.strip() in values:
            raise OptionError(
                f"--sampling {text!r} is not allowed; give KEY=VALUE, each key once, as in --sampling temperature=0"
            )
        try:
            values[name.strip()] = msgspec.json.decode(value)
        except msgspec.DecodeError:
            if value.lstrip()[:1] in ("[", "{"):
                raise OptionError(
                    f"--sampling {shown(text)}: the value is not JSON; give one KEY=VALUE, and repeat the "
                    f"option for each further KEY=VALUE"
                ) from None
            values[name.strip()] = value
    return values


def _holds_json(text: str) -> bool:
    """Whether the value of KEY=VALUE is JSON, so that commas belong to the value."""
    try:
        msgspec.json.decode(text.partition("=")[2])
    except msgspec.DecodeError:
        return False
    return True


def key_of(variable: str | None) -> str | None:
    """The API key in an environment variable. Errors do not show the name of the variable, since it may be the key."""
    if variable is None:
        return None
    key = os.environ.get(variable, "").strip() if "\0" not in variable else ""
    if not key:
        names = [name for name in os.environ if name.endswith(("KEY", "TOKEN"))]
        raise OptionError(
            "--key-env: no environment variable of this name is set (the name is not shown, because it may "
            "be a key); give the name of the variable that holds the key, never the key "
            f"itself{suggestion(variable, names)}"
        )
    return key


def all_requests(plan: JudgingPlan, cache: Cache) -> list[Request]:
    """All requests: the first requests, and the second requests for replies that contain no answer."""
    replies, _ = find_replies(plan.requests, cache)
    return [*plan.requests, *second_requests(plan, read_answers(plan, replies)).values()]


def reply_tokens(plan: JudgingPlan, cache: Cache) -> list[int]:
    """The numbers of output tokens in the cached replies of this judge."""
    requests = {request.key: request for request in plan.requests}
    replies, _ = find_replies(plan.requests, cache)
    return [cost.spent(requests[key].body, reply.body)[1] for key, reply in replies.items()]


def estimate_lines(
    plan: JudgingPlan, waiting: Sequence[Request], price: Price | None, tokens: Sequence[int]
) -> Iterator[str]:
    """Lines with the estimated requests and cost.

    The numbers of output tokens of cached replies (`tokens`) give the estimate for new replies."""
    judge = plan.judge
    if tokens:
        answer, basis = mean(tokens), f"the mean of {len(tokens)} cached replies"
    else:
        answer = cost.answer_tokens(judge)
        reason = f" and {cost.REASON_TOKENS} tokens of a reason" if judge.reason == "first" else ""
        basis = f"the JSON answer{reason}; a model that reasons before it answers needs more tokens"
    left = cost.estimate(waiting, answer=answer)
    yield f"{len(plan.asked)} queries and {len(plan.requests)} requests; {left.requests} requests have no reply yet"
    yield (
        f"{left.characters} characters, about {left.tokens_in} input tokens; about "
        f"{left.expected_out} output tokens expected, at most {left.tokens_out}"
    )
    yield f"expected: {answer:.0f} tokens per answer ({basis}), if each query is sent once"
    if price is None:
        yield f"the price of {judge.model} is unknown; {PRICES}"
    else:
        yield f"cost: {money(left, price)}; a batch costs about half (price: {price.source})"


def money(left: cost.CostEstimate, price: Price) -> str:
    """The expected and the maximum cost of requests as text."""
    expected, most = (dollars(price.of(left.tokens_in, out)) for out in (left.expected_out, left.tokens_out))
    return f"about {expected} expected, at most {most}"


def dollars(amount: float) -> str:
    """An amount of money as text. Small amounts have four decimals, and a positive amount is never shown as 0.

    >>> dollars(12.345), dollars(0.00123), dollars(1e-9), dollars(0)
    ('$12.35', '$0.0012', '$0.0001', '$0.00')
    """
    return f"${amount:.2f}" if amount == 0 or amount >= 0.1 else f"${max(amount, 0.0001):.4f}"


def check_calls(judge: Judge, waiting: Sequence[Request], *, allowed: bool, price: Price | None) -> None:
    """Raise an error for too many requests, unless `--yes` or a cost limit is given."""
    if len(waiting) > MANY and not allowed:
        left = cost.estimate(waiting, answer=cost.answer_tokens(judge))
        amount = f", {money(left, price)}" if price else ""
        raise OptionError(
            f"{len(waiting)} requests{amount}; allow them with --max-cost DOLLARS or "
            "--yes, or send fewer, as with --pairs sample:N (`custodes plan` estimates how many are needed)"
        )


def summary(result: Judgements) -> str:
    """Summary of a run in one line."""
    row: Mapping[str, Any] = result.usage.row(0, named=True)
    money = "" if row["dollars"] is None else f", ${row['dollars']:.4f}"
    retries = row["sent"] - row["asked"]
    again = f" ({retries} of them retries)" if retries else ""
    return (
        f"{result.details.height} of {row['questions']} queries have a reply, {result.answered} a "
        f"{result.key}; {row['sent']} requests sent{again}, {row['tokens_in']} input "
        f"tokens, {row['tokens_out']} output tokens{money}"
    )


with_options(judge, Judge, run.judge)
