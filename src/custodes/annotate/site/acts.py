"""What the owner may do to a study: fields of a form in, an event in the file out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from custodes.annotate.plan import StudyPlan
from custodes.errors import OptionError

Act = Callable[[Any, dict[str, str]], Awaitable[None]]


async def _control(what: str, desk: Any, fields: dict[str, str]) -> None:
    await asyncio.wrap_future(desk.control(what, fields.get("why", "")))


async def _person(what: str, desk: Any, fields: dict[str, str]) -> None:
    label = fields.get("worker", "")
    reason = (fields.get("reason", "") or "no reason given",) if what == "exclude" else ()
    await asyncio.wrap_future(getattr(desk, what)(label, *reason))


async def _replan(desk: Any, fields: dict[str, str]) -> None:
    """Price, people at most, their share of a look and budget: what may change while a study runs."""
    plan: StudyPlan = desk.plan
    price = _number("price", fields.get("price", ""), such_as=0.15)
    cap = _number("cap", fields.get("cap", str(plan.people.cap)), such_as=0.25)
    if not 0 <= price < 1e6:
        raise OptionError(f"price {price:g}: must be a number of 0 or more")
    budget = fields.get("budget", "").strip()
    await asyncio.wrap_future(
        desk.replan(
            msgspec.structs.replace(
                plan,
                money=msgspec.structs.replace(plan.money, price=price),
                people=msgspec.structs.replace(plan.people, most=whole("most", fields.get("most", "")), cap=cap),
                stopping=msgspec.structs.replace(
                    plan.stopping, budget=whole("budget", budget) if budget else plan.stopping.budget
                ),
            )
        )
    )


def _number(name: str, text: str, *, such_as: float) -> float:
    try:
        return float(text)
    except ValueError:
        raise OptionError(f"{name} {text!r}: a number, such as {such_as:g}") from None


def whole(name: str, text: str, *, most: int = 10**9) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:12]) <= most):
        raise OptionError(f"{name} {text[:20]!r}: a whole number from 1 to {most}")
    return int(text)


ACTS: Mapping[str, Act] = {
    **{what: partial(_control, what) for what in ("pause", "resume", "stop", "reopen")},
    **{what: partial(_person, what) for what in ("exclude", "restore", "forget")},
    "replan": _replan,
}
"""By the last word of the address."""
