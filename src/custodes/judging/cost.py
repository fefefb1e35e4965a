"""What asking costs: tokens and money, thought before and counted while it is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from custodes.errors import MissingExtraError, OptionError, shown
from custodes.judging.judge import Judge
from custodes.judging.requests import Request, token_count

MILLION = 1_000_000
LETTERS = 4  # characters of a token, about, in English
FRAME = 100  # tokens of the server's template, at most
JSON_LETTERS = 2  # characters of a token of a short JSON object, about
REASON_TOKENS = 100  # tokens of "a few sentences", about
PICTURE = 2_000  # tokens of a picture, at most
LIMITS = ("max_completion_tokens", "max_tokens")  # fields that bound the length of an answer
PRICES = "give --price IN,OUT, or an address whose prices genai-prices knows (pip install 'custodes[judge]')"
UNBOUND = 4_096  # tokens of an answer whose length the request does not bound


@dataclass(frozen=True, kw_only=True)
class Price:
    """Dollars a million tokens; `source` says where they are from.

    >>> Price(input=0.25, output=2.0).of(16_800_000, 500_000)
    5.2
    """

    input: float
    output: float
    source: str = "given"

    def of(self, tokens_in: float, tokens_out: float) -> float:
        """Dollars of tokens."""
        return (tokens_in * self.input + tokens_out * self.output) / MILLION


@dataclass(kw_only=True)
class Budget:
    """A limit of dollars (None: no limit) at a price (None: unknown), and what was spent of it: a reply that did not
    arrive, or whose tokens the server did not count, counts as the most that it could cost."""

    limit: float | None = None
    price: Price | None = None
    spent: float = 0.0

    @classmethod
    def of(cls, judge: Judge, limit: float | None, price: Sequence[float] | None) -> Budget:
        """At the price that is given, or that of the table. Raises OptionError for a limit where the price, or what one
        answer may cost, is unknown."""
        if price is None:
            try:
                listed_price = known_price(judge.model, base_url=judge.base_url) if judge.base_url else None
            except MissingExtraError:
                listed_price = None
        elif len(price) == 2 and all(0 <= part < float("inf") for part in price):
            listed_price = Price(input=float(price[0]), output=float(price[1]))
        else:
            raise OptionError(
                f"price={shown(list(price))} is not allowed; give two numbers, dollars per million input "
                "and output tokens"
            )
        if limit is not None and listed_price is None:
            raise OptionError(f"max_cost={limit:g}: no price of {judge.model!r} is known; {PRICES}")
        if limit is not None and not limit > 0:
            raise OptionError(f"max_cost={limit:g} is not allowed; give a number above 0")
        if limit is not None and longest(judge.sampling) is None:
            raise OptionError(
                f"max_cost={limit:g}: the length of a reply is unbounded, and so is its cost; limit it "
                f"with sampling {LIMITS[1]}=500"
            )
        return cls(limit=limit, price=listed_price)

    def dollars(self, tokens_in: float, tokens_out: float) -> float:
        """Dollars of tokens; 0 where the price is unknown."""
        return self.price.of(tokens_in, tokens_out) if self.price else 0.0

    def worst(self, body: Mapping[str, Any]) -> float:
        """Dollars of a request at most; 0 without a limit."""
        return 0.0 if self.limit is None else self.dollars(*at_most(body))


@dataclass(frozen=True, kw_only=True)
class CostEstimate:
    """Estimated cost of requests that are not sent yet.

    Attributes
    ----------
    requests, characters : int
        Requests, and the characters of their texts.
    tokens_in : int
        Tokens of the requests, at four characters a token.
    tokens_out : int
        Tokens of the answers at most.
    expected_out : int
        Expected tokens of the answers, never more than `tokens_out`.
    price : Price or None
        Price of a token; None where it is unknown. Providers ask half of it for batches (`write_requests`).
    """

    requests: int
    characters: int
    tokens_in: int
    tokens_out: int
    expected_out: int
    price: Price | None

    @property
    def dollars(self) -> float | None:
        """Dollars at most; None where the price is unknown."""
        return None if self.price is None else self.price.of(self.tokens_in, self.tokens_out)

    @property
    def expected_dollars(self) -> float | None:
        """Expected dollars; None where the price is unknown."""
        return None if self.price is None else self.price.of(self.tokens_in, self.expected_out)


def estimate(requests: Sequence[Request], *, price: Price | None, answer: float) -> CostEstimate:
    """Estimate the cost of requests before any is sent, each key once; `answer`: expected tokens of one answer."""
    bodies = list({request.key: request.body for request in requests}.values())
    tokens = [thought(body) for body in bodies]
    return CostEstimate(
        requests=len(bodies),
        characters=sum(sum(map(len, _texts(body))) for body in bodies),
        tokens_in=sum(first for first, _ in tokens),
        tokens_out=sum(second for _, second in tokens),
        expected_out=round(sum(min(answer, most) for _, most in tokens)),
        price=price,
    )


def answer_tokens(judge: Judge) -> int:
    """Expected tokens of an answer in the format that the judge is asked for, of a model that does not think first."""
    longest_answer = max(len(judge.answer(label)) for label in judge.answers)
    return -(-longest_answer // JSON_LETTERS) + REASON_TOKENS * (judge.reason == "first")


def spent(request: Mapping[str, Any], reply: Mapping[str, Any]) -> tuple[int, int, bool]:
    """Tokens in and out of a reply, and whether they are guessed because the server counted none."""
    counts = reply.get("usage")
    if isinstance(counts, Mapping):
        sent, answered = token_count(counts.get("prompt_tokens")), token_count(counts.get("completion_tokens"))
        if sent is not None and answered is not None:
            return sent, answered, False
    choices = [choice for choice in reply["choices"] if isinstance(choice, Mapping)]
    letters = "".join(_texts({"messages": [choice.get("message") for choice in choices]}))
    return thought(request)[0], _tokens(len(letters)), True


def thought(body: Mapping[str, Any]) -> tuple[int, int]:
    """Tokens in, about, and out, at most, of a request."""
    return _tokens(sum(map(len, _texts(body)))) + PICTURE * _pictures(body), _longest(body)


def at_most(body: Mapping[str, Any]) -> tuple[int, int]:
    """Tokens in and out of a request at most: no token is less than a byte. The rules of answering count too."""
    rules = {name: value for name, value in body.items() if name in ("response_format", "tools")}
    size = sum(len(text.encode(errors="replace")) for text in _texts(body)) + len(msgspec.json.encode(rules))
    return size + FRAME + PICTURE * _pictures(body), _longest(body)


def longest(body: Mapping[str, Any]) -> int | None:
    """Tokens of one answer at most, as a request bounds it; None where it does not."""
    bounds = [token_count(body.get(name)) for name in LIMITS]
    return next((bound for bound in bounds if bound), None)


def known_price(model: str, *, base_url: str | None = None) -> Price | None:
    """The price of a model in the table of genai-prices, which needs no network; None where it is not in it.

    The provider is that of the address; where the address is nobody's in the table (a server of your own), no price is
    known. Raises MissingExtraError without genai-prices.

    >>> known_price("gpt-5-mini", base_url="https://api.openai.com/v1").output
    2.0
    >>> known_price("gpt-5-mini", base_url="http://localhost:8000/v1") is None
    True
    """
    try:
        import genai_prices
    except ImportError as error:
        raise MissingExtraError("prices need genai-prices: pip install 'custodes[judge]', or give a price") from error
    counts = genai_prices.Usage(input_tokens=1000, output_tokens=1000)  # prices may change with the length
    try:
        priced = genai_prices.calc_price(counts, model, provider_api_url=base_url)
    except (LookupError, ValueError):
        return None
    dollars = [float(part) * MILLION / 1000 for part in (priced.input_price, priced.output_price)]
    return Price(
        input=round(dollars[0], 6),
        output=round(dollars[1], 6),
        source=f"genai-prices {genai_prices.__version__}, {priced.provider.id} {priced.model.id}",
    )


def _texts(body: Mapping[str, Any]) -> list[str]:
    """All texts of the messages of a body."""
    contents = [message.get("content") for message in body.get("messages", ()) if isinstance(message, Mapping)]
    parts = [part for content in contents if isinstance(content, list) for part in content]
    texts = [part.get("text") for part in parts if isinstance(part, Mapping)]
    return [text for text in (*contents, *texts) if isinstance(text, str)]


def _pictures(body: Mapping[str, Any]) -> int:
    contents = [message.get("content") for message in body.get("messages", ())]
    return sum("text" not in part for content in contents if isinstance(content, list) for part in content)


def _tokens(characters: int) -> int:
    return -(-characters // LETTERS)


def _longest(body: Mapping[str, Any]) -> int:
    """Tokens of the answers to a request at most."""
    return (longest(body) or UNBOUND) * (body.get("n") or 1)
