"""What the verb `judge` is made of: its files, its options as values, and what it says before it asks."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from custodes.arguments import assignment_list
from custodes.cache import Cache
from custodes.commands.beside import beside, check_raters
from custodes.data.writing import check_suffix, write_table
from custodes.errors import OptionError, shown, suggestion
from custodes.files import check_apart, check_writable, is_stream
from custodes.judging import asking, cost, run
from custodes.judging.judge import Judge
from custodes.judging.judgements import Judgements
from custodes.judging.plan import Plan
from custodes.judging.request import Request
from custodes.judging.rounds import PRICES, again_of
from custodes.options import named_by

MANY = 2_000
"""Calls from which on somebody must have said what they may cost."""

NO_CACHE = "none"


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where verdicts or ratings go, and what is written beside them."""

    main: Path
    cache: Path | None

    @classmethod
    def make(cls, output: str, cache: str | None) -> Places:
        """The places of an output; beside what is no file, such as /dev/stdout, stands nothing."""
        main = Path(output)
        if cache == NO_CACHE or (cache is None and is_stream(main)):
            return cls(main=main, cache=None)
        return cls(main=main, cache=beside(main, ".cache.db") if cache is None else Path(cache))

    @property
    def tables(self) -> dict[str, Path]:
        """The name of a table of judgements to its file."""
        if is_stream(self.main):
            return {"": self.main}
        return {
            "": self.main,
            "raters": beside(self.main, ".raters.csv"),
            "details": beside(self.main, ".details.jsonl"),
        }

    def check(self, inputs: Sequence[str], read: Sequence[Any], written: Path | None) -> None:
        """Refuse before the work what could not be written after it, and what would be written over what is read."""
        check_suffix(self.main)
        places = [*self.tables.values(), *([written] if written else []), *([self.cache] if self.cache else [])]
        for place in places:
            check_writable(place)
        check_apart(places, named_by(inputs, *filter(None, read)))
        check_raters(places, self.main)

    def write(self, made: Judgements) -> Iterator[Path]:
        """Write all tables."""
        for name, table in made.written().items():
            if name in self.tables:
                yield write_table(table, self.tables[name])


def with_defaults(**given: Any) -> dict[str, Any]:
    """The arguments of `cu.judge`, as far as they were not given, as it has them."""
    defaults = {name: own.default for name, own in inspect.signature(run.judge).parameters.items()}
    return {name: defaults[name] if value is None else value for name, value in given.items()}


def sampling_of(given: Sequence[str] | None) -> dict[str, Any] | None:
    """KEY=VALUE as values: what is JSON is taken as such, any other word as text."""
    if given is None:
        return None
    made: dict[str, Any] = {}
    for text in (part for entry in given for part in ([entry] if _holds_json(entry) else assignment_list(entry))):
        name, sign, value = text.partition("=")
        if not sign or not name.strip() or name.strip() in made:
            raise OptionError(f"--sampling {text!r}: say KEY=VALUE, each key once, as in --sampling temperature=0")
        try:
            made[name.strip()] = msgspec.json.decode(value)
        except msgspec.DecodeError:
            if value.lstrip()[:1] in ("[", "{"):
                raise OptionError(
                    f"--sampling {shown(text)}: the value is no JSON; give it alone, repeat the option"
                ) from None
            made[name.strip()] = value
    return made


def _holds_json(text: str) -> bool:
    """Whether the whole value of KEY=VALUE is JSON, whose commas belong to it."""
    try:
        msgspec.json.decode(text.partition("=")[2])
    except msgspec.DecodeError:
        return False
    return True


def key_of(variable: str | None) -> str | None:
    """The key in an environment variable; nothing is asked where it is not set."""
    if variable is None:
        return None
    found = os.environ.get(variable, "").strip()
    if not found:
        known = [name for name in os.environ if name.endswith(("KEY", "TOKEN"))]
        raise OptionError(f"--key-env {shown(variable)}: not set in the environment{suggestion(variable, known)}")
    return found


def check_idle(judge: Judge, **given: Any) -> None:
    """Refuse what was given of `pairs`, `orders` and `scale` and is for judges of the other mode, be it the default."""
    idle = {"pairwise": ["scale"], "pointwise": ["pairs", "orders"]}[judge.mode]
    for name in idle:
        if given[name] is not None:
            raise OptionError(f"--{name} {given[name]} would change nothing: the judge is {judge.mode}")


def asked_for(plan: Plan, cache: Cache) -> list[Request]:
    """All requests: the first, and second ones where the first hold no answer."""
    replies, _ = asking.kept(plan.requests, cache)
    return [*plan.requests, *again_of(plan, replies).values()]


def estimate_lines(plan: Plan, waiting: Sequence[Request], price: cost.Price | None) -> Iterator[str]:
    """What asking would take."""
    all_of, left = len(plan.requests), cost.estimate(waiting, price=price)
    yield f"{len(plan.asked)} questions, {all_of} requests, {left.requests} of them not answered yet"
    yield f"{left.characters} characters, about {left.tokens_in} tokens in, at most {left.tokens_out} out"
    if left.dollars is None or price is None:
        yield f"no price of {plan.judge.model} is known; {PRICES}"
    else:
        yield f"at most ${left.dollars:.2f}, as a batch about ${left.dollars / 2:.2f} (price: {price.source})"


def check_calls(waiting: Sequence[Request], *, allowed: bool, price: cost.Price | None) -> None:
    """Refuse to ask very many where nobody said that they may be so many, or what they may cost."""
    if len(waiting) <= MANY or allowed:
        return
    dollars = cost.estimate(waiting, price=price).dollars
    money = "" if dollars is None else f", at most ${dollars:.2f}"
    raise OptionError(
        f"{len(waiting)} requests{money}: say --max-cost DOLLARS or --yes; or ask fewer, as by --pairs sample:N"
        " (`custodes plan` says how many it takes)"
    )


def summary(made: Judgements) -> str:
    """What came, in a line."""
    row: Mapping[str, Any] = made.usage.row(0, named=True)
    money = "" if row["dollars"] is None else f", ${row['dollars']:.4f}"
    kind = "verdict" if made.mode == "pairwise" else "score"
    return (
        f"{made.details.height} of {row['questions']} questions have a reply, {made.answered} a {kind};"
        f" {row['asked']} requests sent, {row['tokens_in']} tokens in, {row['tokens_out']} out{money}"
    )
