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
from custodes.commands.output_files import OutputFiles, print_next_step
from custodes.console import print_diagnostic, print_line, print_notes
from custodes.errors import OptionError, reject, short_repr, suggestion
from custodes.judging import batch, cost, run
from custodes.judging.clients import client_from_spec
from custodes.judging.cost import PRICES, Budget, Price
from custodes.judging.judge import Judge
from custodes.judging.plan import JudgingPlan
from custodes.judging.querying import query, query_plan, read_answers, read_stored, second_requests
from custodes.judging.requests import Request, find_replies
from custodes.judging.run import client_of, prepare
from custodes.judging.tables import Judgements, judgements_of
from custodes.options import InputOptions, Inputs, input_files, progress
from custodes.process import Stoppable
from custodes.question_commands import READING, arguments_of, with_options

MANY = 2_000
"""Maximum number of requests if neither a cost limit nor --yes is given."""

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
    yes: Annotated[bool, SWITCH, Parameter(help="Allow more than 2,000 requests without --max-cost.")] = False,
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
        bool, SWITCH, Parameter(help="Print no progress bar and no next step.", group=OUTPUT_OPTIONS)
    ] = False,
    reading: InputOptions = READING,
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
    output_files = OutputFiles.make(output, cache, raters=".raters.csv", details=".details.jsonl", probes=".probes.csv")
    input_paths = [
        *reading.files,
        (options.get("examples") or "").rpartition(":")[0],
        options.get("prompt"),
        options.get("pairs"),
        value_list("probe", options.get("probe") or ()),
        replies,
    ]
    output_files.check(input_files(inputs, *input_paths, sidecars=False), *([write_requests] if write_requests else []))
    if options.get("sampling") is not None:
        options["sampling"] = parse_sampling(options["sampling"])
    llm_judge, given_arguments = Judge(**arguments_of(Judge, options)), arguments_of(run.judge, options)
    ineffective_options_of_mode = {
        "verdict": ["scale"],
        "score": ["pairs", "orders"],
        "label": ["pairs", "orders", "scale"],
    }
    for option_name in ineffective_options_of_mode[llm_judge.key]:
        if option_name in options:
            mode_text = "gives labels" if option_name == "scale" and llm_judge.labels else f"is {llm_judge.mode}"
            raise OptionError(f"--{option_name} {options[option_name]} has no effect: the judge {mode_text}")
    given_client = client_from_spec(given_arguments["client"]) if "client" in given_arguments else None
    value_of_argument = {
        option_name: parameter.default for option_name, parameter in inspect.signature(run.judge).parameters.items()
    } | given_arguments
    sends_requests = not dry_run and write_requests is None and replies is None
    judging_plan = prepare(
        reading.study(inputs),
        llm_judge,
        client=given_client,
        **{
            option_name: value_of_argument[option_name]
            for option_name in ("pairs", "orders", "repeats", "probe", "rng")
        },
    )
    connected_client = (
        client_of(llm_judge, given_client, key=read_api_key(key_env), timeout=value_of_argument["timeout"])
        if sends_requests
        else None
    )
    cost_budget = Budget.from_options(llm_judge, value_of_argument["max_cost"], value_of_argument["price"])
    with Stoppable(output_files.follows), Cache(output_files.cache) as reply_cache:
        failure_of_request, notes = (
            batch.read_replies(replies, all_requests(judging_plan, reply_cache), reply_cache) if replies else ({}, [])
        )
        _, unsent_requests = find_replies(all_requests(judging_plan, reply_cache), reply_cache)
        notes += judging_plan.notes
        if dry_run or write_requests is not None:
            print_notes(notes)
        if dry_run:
            for estimate_line in estimate_lines(
                judging_plan, unsent_requests, cost_budget.price, reply_tokens(judging_plan, reply_cache)
            ):
                print_line(estimate_line)
            return 0
        if write_requests is not None:
            print_line(str(batch.write_requests(write_requests, unsent_requests)))
            return 0
        if sends_requests:
            check_calls(
                llm_judge,
                unsent_requests,
                is_allowed=yes or value_of_argument["max_cost"] is not None,
                price=cost_budget.price,
            )
        with progress(quiet=quiet) as track_progress:
            get_replies = partial(read_stored, cache=reply_cache, failures=failure_of_request)
            if connected_client:
                get_replies = partial(
                    query,
                    client=connected_client,
                    cache=reply_cache,
                    budget=cost_budget,
                    progress=track_progress,
                    concurrency=value_of_argument["concurrency"],
                    rpm=value_of_argument["rpm"],
                )
            judgements = judgements_of(judging_plan, query_plan(judging_plan, get_replies), cost_budget.price)
    print_notes([*notes, *judgements.notes])
    output_files.write(judgements.output_tables())
    print_diagnostic(summary(judgements))
    if "raters" in output_files.tables and not quiet:
        print_next_step(output_files.tables[""], has_labels=judgements.key == "label")
    return judgements.status


def parse_sampling(entries: Sequence[str]) -> dict[str, Any]:
    """The values of entries KEY=VALUE by key. A value that is valid JSON is parsed; any other value stays text.

    Commas inside a JSON value belong to the value. All other commas separate entries.
    """
    value_of_key: dict[str, Any] = {}
    assignment_texts = [
        assignment_text
        for option_entry in entries
        for assignment_text in (
            [option_entry] if _parse_json(option_entry.partition("=")[2])[1] else assignment_list(option_entry)
        )
    ]
    for assignment_text in assignment_texts:
        key, equals_sign, value_text = assignment_text.partition("=")
        parsed_value, is_json = _parse_json(value_text)
        reject(
            (
                not equals_sign or not key.strip() or key.strip() in value_of_key,
                f"--sampling {assignment_text!r} is not allowed; give KEY=VALUE, each key once, as in "
                "--sampling temperature=0",
            ),
            (
                not is_json and value_text.lstrip()[:1] in ("[", "{"),
                f"--sampling {short_repr(assignment_text)}: the value is not JSON; give one KEY=VALUE, and repeat "
                "the option for each further KEY=VALUE",
            ),
        )
        value_of_key[key.strip()] = parsed_value
    return value_of_key


def _parse_json(text: str) -> tuple[Any, bool]:
    """The value of a text that is JSON, otherwise the text; and whether the text is JSON."""
    try:
        return msgspec.json.decode(text), True
    except msgspec.DecodeError:
        return text, False


def read_api_key(variable: str | None) -> str | None:
    """The API key in an environment variable. Errors do not show the name of the variable, since it may be the key."""
    if variable is None:
        return None
    api_key = os.environ.get(variable, "").strip() if "\0" not in variable else ""
    if not api_key:
        key_variables = [variable_name for variable_name in os.environ if variable_name.endswith(("KEY", "TOKEN"))]
        raise OptionError(
            "--key-env: no environment variable has this name. The name is not shown here, because it may be a key; "
            "give the name of the variable that holds the key, never the key "
            f"itself{suggestion(variable, key_variables)}"
        )
    return api_key


def all_requests(plan: JudgingPlan, cache: Cache) -> list[Request]:
    """All requests: the first request of each query, and a second request if the reply to the first contains no
    answer."""
    reply_of_key, _ = find_replies(plan.requests, cache)
    return [*plan.requests, *second_requests(plan, read_answers(plan, reply_of_key)).values()]


def reply_tokens(plan: JudgingPlan, cache: Cache) -> list[int]:
    """The numbers of output tokens in the cached replies of this judge."""
    request_of_key = {request.key: request for request in plan.requests}
    reply_of_key, _ = find_replies(plan.requests, cache)
    return [cost.count_tokens(request_of_key[key].body, reply.body)[1] for key, reply in reply_of_key.items()]


def estimate_lines(
    plan: JudgingPlan, unsent_requests: Sequence[Request], price: Price | None, reply_token_counts: Sequence[int]
) -> Iterator[str]:
    """Lines with the estimated requests and cost.

    The output tokens of new replies are estimated from the cached replies (`reply_token_counts`)."""
    judge_settings = plan.judge
    if reply_token_counts:
        n_answer_tokens = mean(reply_token_counts)
        token_basis_text = f"the mean of {len(reply_token_counts)} cached replies"
    else:
        n_answer_tokens = cost.answer_tokens(judge_settings)
        reason_tokens_text = f" and {cost.REASON_TOKENS} tokens of a reason" if judge_settings.reason == "first" else ""
        token_basis_text = (
            f"the JSON answer{reason_tokens_text}; a model that reasons before its answer needs more tokens"
        )
    cost_estimate = cost.estimate(unsent_requests, tokens_per_answer=n_answer_tokens)
    yield (
        f"{len(plan.questions)} queries and {len(plan.requests)} requests; {cost_estimate.requests} requests have no "
        "reply yet"
    )
    yield (
        f"{cost_estimate.characters} characters, about {cost_estimate.tokens_in} input tokens; about "
        f"{cost_estimate.expected_out} output tokens expected, at most {cost_estimate.tokens_out}"
    )
    yield (
        f"assumptions: all replies are readable, so that no request is repeated, and {n_answer_tokens:.0f} tokens per "
        f"answer ({token_basis_text})"
    )
    if price is None:
        yield f"the price of {judge_settings.model} is unknown; {PRICES}"
    else:
        yield f"cost: {format_cost(cost_estimate, price)}; a batch costs about half (price: {price.source})"


def format_cost(cost_estimate: cost.CostEstimate, price: Price) -> str:
    """The expected and the maximum cost of requests as text."""
    expected_text, maximum_text = (
        format_dollars(price.token_cost(cost_estimate.tokens_in, n_output_tokens))
        for n_output_tokens in (cost_estimate.expected_out, cost_estimate.tokens_out)
    )
    return f"about {expected_text} expected, at most {maximum_text}"


def format_dollars(amount: float) -> str:
    """An amount of money as text. Small amounts have four decimals, and a positive amount is never shown as 0.

    >>> format_dollars(12.345), format_dollars(0.00123), format_dollars(1e-9), format_dollars(0)
    ('$12.35', '$0.0012', '$0.0001', '$0.00')
    """
    return f"${amount:.2f}" if amount == 0 or amount >= 0.1 else f"${max(amount, 0.0001):.4f}"


def check_calls(judge: Judge, unsent_requests: Sequence[Request], *, is_allowed: bool, price: Price | None) -> None:
    """Raise an error for too many requests, unless `--yes` or a cost limit is given."""
    if len(unsent_requests) > MANY and not is_allowed:
        cost_estimate = cost.estimate(unsent_requests, tokens_per_answer=cost.answer_tokens(judge))
        amount_text = f", {format_cost(cost_estimate, price)}" if price else ""
        raise OptionError(
            f"{len(unsent_requests)} requests{amount_text}: more than {MANY} need permission; give --max-cost DOLLARS "
            "or --yes, or send fewer requests, as with --pairs sample:N (`custodes plan` estimates a sufficient N)"
        )


def summary(result: Judgements) -> str:
    """Summary of a run in one line."""
    usage_row: Mapping[str, Any] = result.usage.row(0, named=True)
    cost_text = "" if usage_row["dollars"] is None else f", ${usage_row['dollars']:.4f}"
    n_retries = usage_row["sent"] - usage_row["asked"]
    retries_text = f" ({n_retries} of them retries)" if n_retries else ""
    return (
        f"{result.details.height} of {usage_row['questions']} queries have a reply, and {result.answer_count} replies "
        f"contain a {result.key}; {usage_row['sent']} requests sent{retries_text}; all replies, including stored "
        f"ones: {usage_row['tokens_in']} input tokens, {usage_row['tokens_out']} output tokens{cost_text}"
    )


with_options(judge, Judge, run.judge)
