"""Asking a plan: every request once, and once more where its reply holds no answer; what may be spent on both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from custodes.arguments import at_least
from custodes.cache import Cache
from custodes.errors import MissingExtraError, OptionError, shown
from custodes.judging import asking, cost
from custodes.judging.judge import Judge
from custodes.judging.plan import Plan
from custodes.judging.request import Client, Failure, Reply, Request
from custodes.judging.verdict import AGAIN, Answer, read_answer
from custodes.progress import Progress

PRICES = "give --price IN,OUT, or an address whose prices genai-prices knows (pip install 'custodes[judge]')"
"""How a price becomes known."""

UNASKED = Failure(reason="unavailable", said="not asked yet")


@dataclass(frozen=True, kw_only=True)
class Round:
    """What came of a plan: for each key the request that counts, its reply (None: not answered, and why), and what was
    read; `again`: second requests by the key of the first; `used`: all requests that were answered, with their replies;
    `asked`: requests that were sent; `sent`: how often one was sent, retries included."""

    requests: Mapping[str, Request]
    replies: Mapping[str, Reply]
    answers: Mapping[str, Answer]
    failures: Mapping[str, Failure]
    again: Mapping[str, Request]
    used: Sequence[tuple[Request, Reply]]
    asked: int
    sent: int


Ask = Callable[[Sequence[Request]], asking.Answers]


def asked_of(plan: Plan, ask: Ask) -> Round:
    """Ask all requests, and once more, under a key of its own, what had no answer in its reply."""
    requests = {request.key: request for request in plan.requests}
    texts = plan.texts
    first = ask(list(requests.values()))
    answers = {key: read_answer(reply.body, plan.judge, texts[key]) for key, reply in first.replies.items()}
    again = _seconds(plan, answers)
    second = ask(list(again.values())) if again else asking.Answers(replies={}, failures={})
    replies, failures = dict(first.replies), dict(first.failures)
    used = [(requests[key], reply) for key, reply in replies.items()]
    used += [(own, second.replies[own.key]) for own in again.values() if own.key in second.replies]
    for key, request in again.items():
        if request.key in second.replies:
            requests[key], replies[key] = request, second.replies[request.key]
            answers[key] = read_answer(replies[key].body, plan.judge, texts[key])
        elif (failure := second.failures[request.key]).reason != "rejected":
            failures[key] = failure  # the first reply may not be the last word
    return Round(
        requests=requests,
        replies=replies,
        answers=answers,
        failures=failures,
        again=again,
        used=used,
        asked=first.asked + second.asked,
        sent=first.sent + second.sent,
    )


def only_kept(cache: Cache, failures: Mapping[str, Failure]) -> Ask:
    """Ask nobody: only what the cache holds; `failures` say why something is not there, where that is known."""

    def ask(requests: Sequence[Request]) -> asking.Answers:
        replies, missing = asking.kept(requests, cache)
        return asking.Answers(replies=replies, failures={own.key: failures.get(own.key, UNASKED) for own in missing})

    return ask


class Purse:
    """What may still be spent (None: whatever it costs), over both rounds of asking, and at which price."""

    def __init__(self, limit: float | None, price: cost.Price | None) -> None:
        self.limit, self.price = limit, price

    @classmethod
    def make(cls, judge: Judge, limit: float | None, price: Sequence[float] | None) -> Purse:
        """At the price that was given, or that of the table; OptionError for a limit where nobody knows a price, or
        what one answer may cost."""
        known = priced(judge, price)
        if limit is not None and known is None:
            raise OptionError(f"max_cost={limit:g}: no price of {judge.model!r} is known; {PRICES}")
        if limit is not None and not limit > 0:
            raise OptionError(f"max_cost={limit:g}: must be more than 0")
        if limit is not None and cost.longest(judge.sampling) is None:
            raise OptionError(
                f"max_cost={limit:g}: nobody knows what an answer may cost that may be of any length;"
                f" bound it, as by sampling {cost.LIMITS[1]}=500"
            )
        return cls(limit, known)

    def left(self) -> cost.Budget | None:
        """The budget of the next round."""
        return cost.Budget(limit=self.limit, price=self.price) if self.limit is not None and self.price else None

    def pay(self, dollars: float) -> None:
        """Take off what a round may have cost."""
        if self.limit is not None:
            self.limit = max(0.0, self.limit - dollars)


def asking_of(
    client: Client,
    cache: Cache,
    purse: Purse,
    *,
    concurrency: int,
    rpm: float | None,
    tpm: float | None,
    progress: Progress,
) -> Ask:
    """Ask a client what the cache does not hold, as far as the purse allows."""
    at_least("concurrency", concurrency, 1)
    for name, rate in (("rpm", rpm), ("tpm", tpm)):
        if rate is not None and not rate > 0:
            raise OptionError(f"{name}={rate:g}: must be more than 0")

    def ask(requests: Sequence[Request]) -> asking.Answers:
        answers = asking.ask(
            requests,
            client,
            cache=cache,
            concurrency=concurrency,
            rpm=rpm,
            tpm=tpm,
            budget=purse.left(),
            progress=progress,
        )
        purse.pay(answers.dollars)
        return answers

    return ask


def priced(judge: Judge, price: Sequence[float] | None) -> cost.Price | None:
    """The price that was given, or that of the table; None where nobody knows it."""
    if price is None:
        try:
            return cost.known_price(judge.model, base_url=judge.base_url) if judge.base_url else None
        except MissingExtraError:
            return None
    if len(price) != 2 or not all(0 <= own < float("inf") for own in price):
        raise OptionError(f"price={shown(list(price))}: give two numbers, dollars a million tokens in and out")
    return cost.Price(input=float(price[0]), output=float(price[1]))


def again_of(plan: Plan, replies: Mapping[str, Reply]) -> dict[str, Request]:
    """The second requests that first replies call for, by the key of the first."""
    texts = plan.texts
    return _seconds(plan, {key: read_answer(own.body, plan.judge, texts[key]) for key, own in replies.items()})


def _seconds(plan: Plan, answers: Mapping[str, Answer]) -> dict[str, Request]:
    firsts = {own.request.key: own for own in plan.asked}
    made: dict[str, Request] = {}
    for key, answer in answers.items():
        request = firsts[key].request
        if answer.why in AGAIN:
            second = _again(plan.address, request, answer, firsts[key].repeat)
            made |= {key: second} if second else {}
    return made


def _again(place: str, request: Request, answer: Answer, repeat: int) -> Request | None:
    """The second request: the same, or with twice the room for one that was cut off; None where no room is known."""
    body = dict(request.body)
    if answer.why == "truncated":
        limit = next((name for name in cost.LIMITS if isinstance(body.get(name), int)), cost.LIMITS[1])
        room = body.get(limit, answer.tokens_out)
        if not room:
            return None
        body[limit] = 2 * room
    return Request.make(place, body, f"{repeat} again")
