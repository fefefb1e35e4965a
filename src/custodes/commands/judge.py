"""`custodes judge`: an LLM judge asked about texts, its verdicts in a file that every other verb reads."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from custodes.cache import Cache
from custodes.commands.judge_parts import (
    Places,
    answers_kept,
    asked_for,
    check_calls,
    check_idle,
    estimate_lines,
    key_of,
    sampling_of,
    summary,
    with_defaults,
)
from custodes.console import say, tell
from custodes.errors import OptionError
from custodes.files import is_stream
from custodes.judging import batch
from custodes.judging.asking import ask, ask_nobody, ask_plan
from custodes.judging.batch import Batch, read_replies
from custodes.judging.cache import find_replies
from custodes.judging.clients import client_named
from custodes.judging.cost import Budget
from custodes.judging.judge import Judge
from custodes.judging.run import client_of, prepare
from custodes.judging.tables import judgements_of
from custodes.options import Inputs, Reading, Telling
from custodes.process import Stoppable
from custodes.verbs import READING, numbers
from custodes.words import SWITCH, whole

Text = str | None
Whole = Parameter(converter=whole)


def judge(
    *inputs: Inputs,
    output: Annotated[
        str, Parameter(name=["--output", "-o"], help="FILE (.csv .tsv .jsonl .parquet, .gz) of verdicts or ratings.")
    ],
    model: Annotated[str, Parameter(help="The model that is asked, as its server calls it.")],
    base_url: Annotated[Text, Parameter(help="Where: http://127.0.0.1:8000/v1, https://api.openai.com/v1, ...")] = None,
    key_env: Annotated[Text, Parameter(help="The environment variable that holds the key (never the key).")] = None,
    client: Annotated[
        Text, Parameter(help="Instead of --base-url: pydantic-ai:PROVIDER:MODEL, or MODULE:FUNCTION.")
    ] = None,
    mode: Annotated[
        Literal["pairwise", "pointwise"] | None, Parameter(help="Two outputs compared (default), or one scored.")
    ] = None,
    prompt: Annotated[
        Text, Parameter(help="summary, translation, answer (default), dialogue, caption, or a Jinja FILE.")
    ] = None,
    references: Annotated[
        int | None, Whole, Parameter(help="How many references of an item to show (default: 0).")
    ] = None,
    aspects: Annotated[
        list[str] | None,
        Parameter(
            help="NAME or 'NAME: what it means', asked one by one; comma list (of names) or repeated.", negative=""
        ),
    ] = None,
    scale: Annotated[Text, Parameter(help="Of scores: LOW-HIGH or LOW-HIGH:STEP (default: 1-5).")] = None,
    pairs: Annotated[
        Text,
        Parameter(help="all (default), vs:SYSTEM, sample:N items of each pair, or a table item, system_a, system_b."),
    ] = None,
    orders: Annotated[
        Literal["both", "random", "ab"] | None, Parameter(help="Presentation orders (default: both).")
    ] = None,
    repeats: Annotated[int | None, Whole, Parameter(help="How often each is asked (default: 1).")] = None,
    examples: Annotated[Text, Parameter(help="STUDY:K, verdicts of people on K items, which are not judged.")] = None,
    reason: Annotated[Literal["first", "none"] | None, Parameter(help="Ask for a reason (default: none).")] = None,
    structured: Annotated[bool, SWITCH, Parameter(help="Send the JSON schema of answers (response_format).")] = False,
    logprobs: Annotated[bool, SWITCH, Parameter(help="Ask for the probabilities of all answers.")] = False,
    sampling: Annotated[
        list[str] | None,
        Parameter(
            help="KEY=VALUE sent with every request: temperature=0,max_tokens=64; comma list or repeated.", negative=""
        ),
    ] = None,
    name: Annotated[Text, Parameter(help="What the judge is called (default: the model).")] = None,
    own_system: Annotated[Text, Parameter(help="The systems of the judge's family: comma list of globs.")] = None,
    concurrency: Annotated[int | None, Whole, Parameter(help="Requests at once at most (default: 16).")] = None,
    rpm: Annotated[float | None, Parameter(help="Requests a minute at most.")] = None,
    tpm: Annotated[float | None, Parameter(help="Tokens a minute at most.")] = None,
    timeout: Annotated[float | None, Parameter(help="Seconds of one try of a request (default: 600).")] = None,
    max_cost: Annotated[float | None, Parameter(help="Dollars at most; the next run asks what is left.")] = None,
    price: Annotated[Text, Parameter(help="IN,OUT: dollars a million tokens (default: of genai-prices).")] = None,
    yes: Annotated[bool, SWITCH, Parameter(help="Ask however many requests that are.")] = False,
    dry_run: Annotated[bool, SWITCH, Parameter(help="Say what it would take, and ask nothing.")] = False,
    write_requests: Annotated[
        Path | None, Parameter(help="Write what is to be asked as a batch (JSON Lines), and ask nothing.")
    ] = None,
    replies: Annotated[Path | None, Parameter(help="Read the replies of a batch, and ask nothing.")] = None,
    cache: Annotated[Text, Parameter(help="File of replies, or none (default: OUTPUT.cache.db).")] = None,
    seed: Annotated[int | None, Whole, Parameter(help="Of samples, orders and examples (default: 0).")] = None,
    quiet: Annotated[bool, SWITCH, Parameter(help="No progress bar.")] = False,
    reading: Reading = READING,
) -> int:
    """Ask an LLM judge about texts: which of two outputs is better, or how good one is.

    Beside FILE it writes FILE.raters.csv, FILE.details.jsonl and the cache of replies. Exit status 1 where some
    questions have no reply (the same command asks these alone), or fewer than half of the replies can be read.

    Example: `custodes judge texts.jsonl --model qwen3 --base-url http://127.0.0.1:8000/v1 -o verdicts.csv`
    """
    if sum((dry_run, write_requests is not None, replies is not None)) > 1:
        raise OptionError("judge: --dry-run, --write-requests and --replies each ask nothing; give one of them")
    places = Places.make(output, cache)
    study_of_examples = examples and examples.rpartition(":")[0]
    places.check(inputs, [*reading.files, study_of_examples, prompt, pairs, replies], write_requests)
    given: dict[str, Any] = {
        "name": name,
        "base_url": base_url,
        "mode": mode,
        "prompt": prompt,
        "references": references,
        "aspects": aspects,
        "scale": scale,
        "examples": examples,
        "reason": reason,
        "structured": structured,
        "logprobs": logprobs,
        "sampling": sampling_of(sampling),
        "own_system": own_system,
    }
    who = Judge(model=model, **{option: value for option, value in given.items() if value is not None})
    check_idle(who, scale=scale, pairs=pairs, orders=orders)
    own = None if client is None else client_named(client)
    wanted = with_defaults(pairs=pairs, orders=orders, repeats=repeats, rng=seed)
    asks = not dry_run and write_requests is None and replies is None
    plan = prepare(reading.study(inputs), who, client=own, **wanted)
    asker = client_of(who, own, key=key_of(key_env), timeout=timeout) if asks else None
    budget = Budget.of(who, max_cost, None if price is None else numbers("--price", price))
    with Stoppable(places.follows), Cache(places.cache) as kept:
        came = Batch(kept=0, failures={}, notes=())
        if replies is not None:
            came = read_replies(replies, asked_for(plan, kept), kept)
        _, waiting = find_replies(asked_for(plan, kept), kept)
        if dry_run:
            for line in estimate_lines(plan, waiting, budget.price, answers_kept(plan, kept)):
                say(line)
            return 0
        if write_requests is not None:
            say(str(batch.write_requests(write_requests, waiting)))
            return 0
        if asks:
            check_calls(who, waiting, allowed=yes or max_cost is not None, price=budget.price)
        with Telling(quiet=quiet).progress() as progress:
            limits = with_defaults(concurrency=concurrency, rpm=rpm, tpm=tpm)
            send = partial(ask_nobody, cache=kept, failures=came.failures)
            if asker:
                send = partial(ask, client=asker, cache=kept, budget=budget, progress=progress, **limits)
            made = judgements_of(plan, ask_plan(plan, send), budget.price)
    for note in dict.fromkeys([*came.notes, *made.notes]):
        tell(f"note: {note.message}")
    for place in places.write(made):
        if not is_stream(place):
            say(str(place))
    tell(summary(made))
    return made.status
