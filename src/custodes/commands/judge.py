"""The command `judge`: write verdicts of an LLM judge on texts to a file that every other command reads."""

from __future__ import annotations

import inspect
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from custodes.arguments import value_list
from custodes.cache import Cache
from custodes.command_line import OUTPUT_OPTIONS, SWITCH
from custodes.commands.judge_parts import (
    answers_kept,
    asked_for,
    check_calls,
    estimate_lines,
    key_of,
    sampling_of,
    summary,
)
from custodes.commands.sidecar_files import OutputFiles
from custodes.commands.summaries import summary_lines
from custodes.console import say, tell
from custodes.errors import OptionError
from custodes.judging import batch, run
from custodes.judging.batch import Batch, read_replies
from custodes.judging.cache import find_replies
from custodes.judging.clients import client_named
from custodes.judging.cost import Budget
from custodes.judging.judge import Judge
from custodes.judging.querying import query, query_plan, read_stored
from custodes.judging.run import client_of, prepare
from custodes.judging.tables import judgements_of
from custodes.options import Inputs, Reading, progress, read_by
from custodes.process import Stoppable
from custodes.question_commands import READING, arguments_of, with_options

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
        came = Batch(kept=0, failures={}, notes=())
        if replies is not None:
            came = read_replies(replies, asked_for(plan, stored), stored)
        _, waiting = find_replies(asked_for(plan, stored), stored)
        if dry_run:
            for line in estimate_lines(plan, waiting, budget.price, answers_kept(plan, stored)):
                say(line)
            return 0
        if write_requests is not None:
            say(str(batch.write_requests(write_requests, waiting)))
            return 0
        if asks:
            check_calls(who, waiting, allowed=yes or values["max_cost"] is not None, price=budget.price)
        with progress(quiet=quiet) as track:
            limits = {name: values[name] for name in ("concurrency", "rpm", "tpm")}
            send = partial(read_stored, cache=stored, failures=came.failures)
            if asker:
                send = partial(query, client=asker, cache=stored, budget=budget, progress=track, **limits)
            judgements = judgements_of(plan, query_plan(plan, send), budget.price)
    for note in dict.fromkeys([*came.notes, *judgements.notes]):
        tell(f"note: {note.message}")
    places.write(judgements.written())
    tell(summary(judgements))
    if "raters" in places.tables and not quiet:
        for line in summary_lines(places.tables[""]):
            tell(line)
    return judgements.status


with_options(judge, Judge, run.judge)
