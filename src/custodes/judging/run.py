"""Judging: query a plan, parse the replies, and collect the tables."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from custodes.answers.question import Rng, resolve_seed
from custodes.arguments import check_arguments, check_at_least
from custodes.cache import Cache
from custodes.data.outputs import missing_texts_error
from custodes.data.patterns import select_labels
from custodes.data.probes import REPEAT
from custodes.data.reading import read
from custodes.data.study import Study
from custodes.errors import InputError, OptionError, join_labels, short_repr
from custodes.judging.client import address, http_client
from custodes.judging.clients import BY_NAME, asynchronous, client_identity
from custodes.judging.cost import Budget
from custodes.judging.examples import examples_of
from custodes.judging.judge import Judge, positive_note
from custodes.judging.plan import JudgedTexts, JudgingPlan, Shown, lot, plan_questions
from custodes.judging.probes import Probes
from custodes.judging.prompt import Prompt
from custodes.judging.querying import query, query_plan
from custodes.judging.requests import Client
from custodes.judging.tables import Judgements, judgements_of
from custodes.progress import Progress, silent


@check_arguments
def judge(
    texts: Any,
    judge: Judge,
    *,
    pairs: Any = "all",
    orders: Shown = "both",
    repeats: int = 1,
    probe: Sequence[str] = (),
    cache: str | Path | Cache | None = None,
    client: Any = None,
    concurrency: int = 16,
    rpm: float | None = None,
    timeout: float | None = None,
    max_cost: float | None = None,
    price: Sequence[float] | None = None,
    rng: Rng = 0,
    progress: Progress = silent,
) -> Judgements:
    """Query an LLM judge about texts: which of two outputs is better, or a score or label for each output.

    Failures are counted by reason and never get a score.

    Parameters
    ----------
    texts : Study or anything that `read` takes
        Outputs of systems, with texts.
    judge : Judge
        Model, prompt, aspects and answer format.
    pairs : str or table
        Pairs of outputs: all, vs:SYSTEM, sample:N (N items per pair of systems), or a table with the columns item,
        system_a and system_b.
    orders : {'both', 'random', 'ab'}
        Presentation orders: both, random, or ab (alphabetical).
    repeats : int
        Number of verdicts per question and order.
    probe : sequence of str
        Probes of biases: order, length, format, name, repeat, or files of rewritten outputs (item, system, text). Comma
        list or repeated.
    cache : path, Cache or None
        File of cached replies; None: no file.
    client : callable or None
        Function that gets the body of a chat completion and returns the reply, async or not (default: the server at
        base_url). On the command line pydantic-ai:PROVIDER:MODEL or MODULE:FUNCTION.
    concurrency : int
        Maximum number of concurrent requests.
    rpm : float or None
        Maximum number of requests per minute.
    timeout : float or None
        Timeout of a request in seconds (default: 600).
    max_cost : float or None
        Maximum cost of the requests of this run in US dollars (cached replies cost nothing). If the limit is reached, a
        later run sends the remaining requests, with a new limit.
    price : sequence of float or None
        Price in US dollars per million tokens: input, output (default: from genai-prices).
    rng : int, Generator or None
        Random seed of samples, orders and examples.
    progress : Progress
        A callable that wraps an iterable.

    Returns
    -------
    Judgements
        Verdicts, ratings or labels, the judge as a rater, failures, cost and details.

    Raises
    ------
    InputError
        For texts, pairs or examples that cannot be judged.
    OptionError
        If no request can be answered.

    Examples
    --------
    >>> import polars as pl
    >>> texts = pl.DataFrame({"item": ["1", "1"], "system": ["X", "Y"], "text": ["Yes.", "No."]})
    >>> def client(body):
    ...     return {"choices": [{"message": {"content": '{"verdict": "A"}'}, "finish_reason": "stop"}]}
    >>> judge(texts, Judge(model="m"), client=client).verdicts["preference"].to_list()
    [1, -1]
    """
    plan = prepare(
        texts,
        judge,
        pairs=pairs,
        orders=orders,
        repeats=repeats,
        probe=probe,
        client=client,
        rng=rng,
        has_lasting_cache=(cache.path if isinstance(cache, Cache) else cache) is not None,
    )
    connected_client = client_of(judge, client, key=None, timeout=timeout)
    budget = Budget.from_options(judge, max_cost, price)
    with nullcontext(cache) if isinstance(cache, Cache) else Cache(cache) as open_cache:
        return judgements_of(
            plan,
            query_plan(
                plan,
                partial(
                    query,
                    client=connected_client,
                    cache=open_cache,
                    budget=budget,
                    progress=progress,
                    concurrency=concurrency,
                    rpm=rpm,
                ),
            ),
            budget.price,
        )


def prepare(
    texts: Any,
    judge: Judge,
    *,
    pairs: Any,
    orders: Shown,
    repeats: int,
    client: Any,
    rng: Rng,
    probe: Sequence[str] = (),
    has_lasting_cache: bool = True,
) -> JudgingPlan:
    """The plan of all questions. All errors in the input are raised before any request is sent. `has_lasting_cache` is
    true if replies are stored in a file; the file may also contain replies of other clients.
    """
    check_at_least("repeats", repeats, 1)
    server_identity = _server_identity(judge, client, has_lasting_cache=has_lasting_cache)
    rng_or_seed, recorded_seed = resolve_seed(rng)
    seed = rng_or_seed if isinstance(rng_or_seed, int) else int(rng_or_seed.integers(2**32))
    study = texts if isinstance(texts, Study) else read(*(texts if isinstance(texts, list | tuple) else [texts]))
    if study.outputs is None:
        raise missing_texts_error(study)
    for option_name, option_value, default in (("pairs", pairs, "all"), ("orders", orders, "both")):
        if judge.mode == "pointwise" and not (isinstance(option_value, str) and option_value == default):
            raise OptionError(
                f"{option_name}={short_repr(option_value)} has no effect, because a pointwise judge rates single "
                "outputs"
            )
    prompt = Prompt.load(judge)
    selected_systems = select_labels(
        study.selection.get("systems"),
        study.outputs.texts["system"].unique().sort().to_list(),
        option="systems",
        what="system",
    )
    text_rows = study.outputs.texts.filter(pl.col("system").is_in(selected_systems))
    if judge.own_system:
        select_labels(judge.own_system, selected_systems, option="own_system", what="system")
    if judge.references and not study.outputs.sources["references"].list.len().sum():
        raise InputError(
            f"{study.name}: references={judge.references}, but no item has a reference; add "
            f"references to the texts, or set references=0"
        )
    shown_examples = examples_of(prompt, JudgedTexts.make(replace(study.outputs, texts=text_rows)), seed)
    judged_rows = text_rows.filter(~pl.col("item").is_in(shown_examples.items))
    if shown_examples.items and judged_rows.is_empty():
        raise InputError(
            f"examples use all {len(shown_examples.items)} items ({join_labels(shown_examples.items)}), so no item is "
            "left to judge; use fewer examples"
        )
    judged_texts = JudgedTexts.make(replace(study.outputs, texts=judged_rows))
    probes = Probes.make(probe, judge, orders=orders, outputs=judged_texts.outputs)
    questions, identical_output_questions, notes = plan_questions(
        judged_texts,
        prompt,
        server_identity,
        pairs=pairs,
        orders=orders,
        repeats=max(repeats, 2) if REPEAT in probes.names else repeats,
        seed=seed,
        example_messages_of_aspect=shown_examples.before,
        probes=probes,
    )
    recorded_judge = judge
    if isinstance(judge.examples, tuple):
        recorded_judge = replace(judge, examples=f"{judge.examples[0].name}:{judge.examples[1]}")
    return JudgingPlan(
        study=study,
        prompt=prompt,
        address=server_identity,
        questions=questions,
        identical_output_questions=identical_output_questions,
        examples=f"{len(shown_examples.items)}:{lot(shown_examples.before)[:12]}" if shown_examples.items else "",
        notes=(*study.notes, *shown_examples.notes, *notes, *positive_note(judge.labels)),
        options={
            "judge": recorded_judge,
            "pairs": str(pairs) if isinstance(pairs, str | Path) else "table",
            "orders": orders,
            "repeats": repeats,
            "probe": ",".join(probes.names),
        },
        seed=recorded_seed,
    )


def client_of(judge: Judge, client: Any, *, key: str | None, timeout: float | None) -> Client:
    """The client `client`, or a client for the server of the judge if `client` is None."""
    if client is None:
        return http_client(judge.base_url, key=key, **({} if timeout is None else {"timeout": timeout}))
    for option_name, option_value in (("key", key), ("timeout", timeout)):
        if option_value is not None:
            raise OptionError(
                f"{option_name} applies only to the server at base_url, but client is given; set the {option_name} "
                "in this client"
            )
    return asynchronous(client)


def _server_identity(judge: Judge, client: Any, *, has_lasting_cache: bool) -> str:
    """Identity of the server in the cache keys."""
    if judge.base_url:
        return address(judge.base_url)
    if client is None:
        raise OptionError("base_url='': give the address of the server, such as http://127.0.0.1:8000/v1, or a client")
    identity = client_identity(client)
    if identity is None and has_lasting_cache and callable(client):
        raise OptionError(f"client: the cache cannot tell from which client a reply comes; {BY_NAME}, or use no cache")
    return identity or "client"
