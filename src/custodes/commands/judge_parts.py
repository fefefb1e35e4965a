"""Parts of the command `judge`: files, values of options, and estimates before a run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from statistics import mean
from typing import Any

import msgspec

from custodes.arguments import assignment_list
from custodes.cache import Cache
from custodes.errors import OptionError, shown, suggestion
from custodes.judging import cost
from custodes.judging.cache import find_replies
from custodes.judging.cost import PRICES
from custodes.judging.judge import Judge
from custodes.judging.plan import JudgingPlan
from custodes.judging.querying import read_answers, second_requests
from custodes.judging.requests import Request
from custodes.judging.tables import Judgements

MANY = 2_000
"""Maximum number of requests without a cost limit and without --yes."""


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


def asked_for(plan: JudgingPlan, cache: Cache) -> list[Request]:
    """All requests: the first requests, and the second requests for replies that contain no answer."""
    replies, _ = find_replies(plan.requests, cache)
    return [*plan.requests, *second_requests(plan, read_answers(plan, replies)).values()]


def answers_kept(plan: JudgingPlan, cache: Cache) -> list[int]:
    """The numbers of output tokens in the cached replies of this judge."""
    requests = {request.key: request for request in plan.requests}
    replies, _ = find_replies(plan.requests, cache)
    return [cost.spent(requests[key].body, reply.body)[1] for key, reply in replies.items()]


def estimate_lines(
    plan: JudgingPlan, waiting: Sequence[Request], price: cost.Price | None, answers: Sequence[int]
) -> Iterator[str]:
    """Lines with the estimated requests and cost.

    The numbers of output tokens of cached replies (`answers`) give the estimate for new replies."""
    judge = plan.judge
    if answers:
        answer, basis = mean(answers), f"the mean of {len(answers)} cached replies"
    else:
        answer = cost.answer_tokens(judge)
        reason = f" and {cost.REASON_TOKENS} tokens of a reason" if judge.reason == "first" else ""
        basis = f"the JSON answer{reason}; a model that reasons before it answers needs more tokens"
    left = cost.estimate(waiting, price=price, answer=answer)
    yield (f"{len(plan.asked)} queries and {len(plan.requests)} requests; {left.requests} requests have no reply yet")
    yield (
        f"{left.characters} characters, about {left.tokens_in} input tokens; about "
        f"{left.expected_out} output tokens expected, at most {left.tokens_out}"
    )
    yield f"expected: {answer:.0f} tokens per answer ({basis}), if each query is sent once"
    if left.dollars is None or left.expected_dollars is None or price is None:
        yield f"the price of {judge.model} is unknown; {PRICES}"
    else:
        yield (
            f"cost: about {dollars(left.expected_dollars)} expected, at most {dollars(left.dollars)}; a batch "
            f"costs about half (price: {price.source})"
        )


def dollars(amount: float) -> str:
    """An amount of money as text. Small amounts have four decimals, and a positive amount is never shown as 0.

    >>> dollars(12.345), dollars(0.00123), dollars(1e-9), dollars(0)
    ('$12.35', '$0.0012', '$0.0001', '$0.00')
    """
    return f"${amount:.2f}" if amount == 0 or amount >= 0.1 else f"${max(amount, 0.0001):.4f}"


def check_calls(judge: Judge, waiting: Sequence[Request], *, allowed: bool, price: cost.Price | None) -> None:
    """Raise an error for too many requests, unless `--yes` or a cost limit is given."""
    if len(waiting) <= MANY or allowed:
        return
    left = cost.estimate(waiting, price=price, answer=cost.answer_tokens(judge))
    money = ""
    if left.dollars is not None and left.expected_dollars is not None:
        money = f", about {dollars(left.expected_dollars)} expected and at most {dollars(left.dollars)}"
    raise OptionError(
        f"{len(waiting)} requests{money}; allow them with --max-cost DOLLARS or --yes, or send "
        "fewer, as with --pairs sample:N (`custodes plan` estimates how many are needed)"
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
