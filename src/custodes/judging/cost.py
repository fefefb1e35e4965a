"""Tokens and cost of judging: estimates before a run, and counts during a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from custodes.errors import MissingExtraError, OptionError, reject, requires_extra, short_repr
from custodes.judging.judge import Judge
from custodes.judging.requests import Request, reported_tokens, token_count

MILLION = 1_000_000
LETTERS = 4  # approximate number of characters per token in English
FRAME = 100  # maximum number of tokens of the server's template
JSON_LETTERS = 2  # approximate number of characters per token of a short JSON object
REASON_TOKENS = 100  # approximate number of tokens of "a few sentences"
PICTURE = 2_000  # maximum number of tokens of an image
LIMITS = ("max_completion_tokens", "max_tokens")  # fields that limit the length of an answer
PRICES = "give --price IN,OUT, or an address whose prices genai-prices knows (pip install 'custodes[judge]')"
UNBOUND = 4_096  # assumed tokens of an answer if the request sets no limit


@dataclass(frozen=True, kw_only=True)
class Price:
    """US dollars per million tokens, and the source of the price.

    >>> Price(input=0.25, output=2.0).token_cost(16_800_000, 500_000)
    5.2
    """

    input: float
    output: float
    source: str = "given"

    def token_cost(self, tokens_in: float, tokens_out: float) -> float:
        """Cost of tokens in US dollars."""
        return (tokens_in * self.input + tokens_out * self.output) / MILLION


@dataclass(kw_only=True)
class Budget:
    """A limit in US dollars (None: no limit), a price (None: unknown), and the amount spent. If a reply is lost or has
    no token counts, the maximum cost of the request is added to the amount spent.
    """

    limit: float | None = None
    price: Price | None = None
    spent: float = 0.0

    @classmethod
    def from_options(cls, judge: Judge, dollar_limit: float | None, price: Sequence[float] | None) -> Budget:
        """The budget at the given price, or at the price in the table of genai-prices. If there is a limit, and the
        price or the maximum cost of an answer is unknown, OptionError is raised.
        """
        if price is None:
            try:
                input_and_output_price = known_price(judge.model, base_url=judge.base_url) if judge.base_url else None
            except MissingExtraError:
                input_and_output_price = None
        elif len(price) == 2 and all(0 <= dollars_per_million < float("inf") for dollars_per_million in price):
            input_and_output_price = Price(input=float(price[0]), output=float(price[1]))
        else:
            raise OptionError(
                f"price={short_repr(list(price))} is not allowed; give two numbers, dollars per million input "
                "and output tokens"
            )
        if dollar_limit is not None:
            max_cost_text = f"max_cost={dollar_limit:g}"
            reject(
                (input_and_output_price is None, f"{max_cost_text}: the price of {judge.model!r} is unknown; {PRICES}"),
                (not dollar_limit > 0, f"{max_cost_text} is not allowed; give a number above 0"),
                (
                    answer_limit(judge.sampling) is None,
                    f"{max_cost_text}: the length of a reply has no limit, so the cost has no limit either; limit the "
                    f"length with --sampling {LIMITS[1]}=500 (in Python sampling={{'{LIMITS[1]}': 500}})",
                ),
            )
        return cls(limit=dollar_limit, price=input_and_output_price)

    def worst_cost(self, body: Mapping[str, Any]) -> float:
        """Maximum cost of a request in US dollars. If the budget has no limit, the cost is not computed, and the result
        is 0."""
        return self.price.token_cost(*token_bounds(body)) if self.price and self.limit is not None else 0.0


class CostEstimate(NamedTuple):
    """Number of requests, characters of their texts, estimated input tokens, and maximum and expected output tokens."""

    requests: int
    characters: int
    tokens_in: int
    tokens_out: int
    expected_out: int


def estimate(requests: Sequence[Request], *, tokens_per_answer: float) -> CostEstimate:
    """Estimated tokens of the distinct requests before any request is sent. `tokens_per_answer` is the expected number
    of output tokens of an answer."""
    request_bodies = {request.key: request.body for request in requests}.values()
    token_count_pairs = [estimate_tokens(body) for body in request_bodies]
    return CostEstimate(
        requests=len(request_bodies),
        characters=sum(len(text) for body in request_bodies for text in _texts(body)),
        tokens_in=sum(n_input_tokens for n_input_tokens, _ in token_count_pairs),
        tokens_out=sum(max_output_tokens for _, max_output_tokens in token_count_pairs),
        expected_out=round(
            sum(min(tokens_per_answer, max_output_tokens) for _, max_output_tokens in token_count_pairs)
        ),
    )


def answer_tokens(judge: Judge) -> int:
    """Expected number of tokens of an answer in the requested format, for a model without hidden reasoning."""
    max_answer_length = max(len(judge.answer(label)) for label in judge.answers)
    return -(-max_answer_length // JSON_LETTERS) + REASON_TOKENS * (judge.reason == "first")


def count_tokens(request: Mapping[str, Any], reply: Mapping[str, Any]) -> tuple[int, int, bool]:
    """The numbers of input and output tokens of a reply, and whether the numbers are estimates. The numbers are
    estimated if the server reported no numbers."""
    n_input_tokens, n_output_tokens = reported_tokens(reply)
    if n_input_tokens is not None and n_output_tokens is not None:
        return n_input_tokens, n_output_tokens, False
    reply_messages = [choice.get("message") for choice in reply["choices"] if isinstance(choice, Mapping)]
    return estimate_tokens(request)[0], _tokens({"messages": reply_messages}), True


def estimate_tokens(body: Mapping[str, Any]) -> tuple[int, int]:
    """Approximate number of input tokens and maximum number of output tokens of a request."""
    return _tokens(body) + _picture_tokens(body), _output_limit(body)


def token_bounds(body: Mapping[str, Any]) -> tuple[int, int]:
    """Maximum numbers of input and output tokens of a request.

    A token has at least one byte. The answer schema is included.
    """
    format_fields = {
        field_name: field_value
        for field_name, field_value in body.items()
        if field_name in ("response_format", "tools")
    }
    n_bytes = sum(len(text.encode(errors="replace")) for text in _texts(body)) + len(msgspec.json.encode(format_fields))
    return n_bytes + FRAME + _picture_tokens(body), _output_limit(body)


def answer_limit(body: Mapping[str, Any]) -> int | None:
    """The maximum number of tokens of an answer according to the request; None if the request sets no limit."""
    return next(filter(None, (token_count(body.get(limit_name)) for limit_name in LIMITS)), None)


def known_price(model: str, *, base_url: str | None = None) -> Price | None:
    """The price of a model according to genai-prices (without network access); None for an unknown model.

    The address identifies the provider. If the address is not in the table (a private server), the price is unknown.
    Raises MissingExtraError if genai-prices is not installed.

    >>> known_price("gpt-5-mini", base_url="https://api.openai.com/v1").output
    2.0
    >>> known_price("gpt-5-mini", base_url="http://localhost:8000/v1") is None
    True
    """
    with requires_extra("prices need genai-prices", "judge", ", or give a price"):
        import genai_prices
    example_usage = genai_prices.Usage(input_tokens=1000, output_tokens=1000)  # prices may change with the length
    try:
        price_calculation = genai_prices.calc_price(example_usage, model, provider_api_url=base_url)
    except (LookupError, ValueError):
        return None
    return Price(
        input=round(float(price_calculation.input_price) * MILLION / 1000, 6),
        output=round(float(price_calculation.output_price) * MILLION / 1000, 6),
        source=f"genai-prices {genai_prices.__version__}, {price_calculation.provider.id} {price_calculation.model.id}",
    )


def _texts(body: Mapping[str, Any]) -> list[str]:
    """All texts of the messages of a body."""
    return [
        text for part in _content_parts(body) if isinstance(part, Mapping) and isinstance(text := part.get("text"), str)
    ]


def _picture_tokens(body: Mapping[str, Any]) -> int:
    return PICTURE * sum("text" not in part for part in _content_parts(body))


def _content_parts(body: Mapping[str, Any]) -> list[Any]:
    """The parts of all messages. A message that does not consist of parts is one part."""
    message_contents = [message.get("content") for message in body.get("messages", ()) if isinstance(message, Mapping)]
    return [
        part for content in message_contents for part in (content if isinstance(content, list) else [{"text": content}])
    ]


def _tokens(body: Mapping[str, Any]) -> int:
    """Approximate number of tokens of the texts of a body."""
    return -(-sum(map(len, _texts(body))) // LETTERS)


def _output_limit(body: Mapping[str, Any]) -> int:
    """Maximum number of output tokens of a request, summed over all answers to the request."""
    return (answer_limit(body) or UNBOUND) * (body.get("n") or 1)
