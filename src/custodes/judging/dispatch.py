"""Scheduling of requests in an event loop: when each is sent, and its outcome."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from heapq import heappop, heappush
from time import monotonic
from typing import NamedTuple

from custodes.control_characters import escape_controls
from custodes.judging.cost import Budget, spent, thought
from custodes.judging.requests import (
    Client,
    Denied,
    Failure,
    Reason,
    Rejected,
    Reply,
    Request,
    Unavailable,
    check_completion,
)
from custodes.plugins import said

MINUTE = 60.0

REJECTED = 5
"""Number of consecutive rejected requests after which a run ends: the server rejects all requests of this kind."""

GIVEN_UP = 5
"""Number of consecutive failed requests (at least twice the number of concurrent ones) after which a run ends:

the server is unavailable.
"""

LEFT = "not sent: "


@dataclass(frozen=True, kw_only=True)
class Patience:
    """Retry policy of a request.

    `tries` attempts at most; the first wait is at most `first` seconds, and each later maximum is doubled, up to
    `longest`. If a server requests a pause longer than `most` seconds, the run ends.
    """

    tries: int = 6
    first: float = 1.0
    longest: float = 60.0
    most: float = 600.0

    def wait(self, tried: int, retry_after: float | None) -> float:
        """Seconds until the next attempt: at least the pause that the server requests; without one, uniform up to the
        maximum ("full jitter", Brooker 2015, AWS Architecture Blog), so that requests that failed together are not sent
        again together."""
        drawn = random.uniform(0, min(self.longest, self.first * 2.0 ** (tried - 1)))
        return drawn if retry_after is None else retry_after + min(drawn, self.first)


@dataclass(kw_only=True)
class Window:
    """Maximum number of concurrent requests: initially 1, plus 1 for each answer, halved if the server is busy, as in
    TCP (Jacobson 1988). So a wrong key costs one request, and the number adapts to the server's capacity.
    """

    most: int
    size: float = 1.0
    cut: float = field(default=float("-inf"))

    def answered(self) -> None:
        """Increase the maximum by one."""
        self.size = min(float(self.most), self.size + 1)

    def busy(self, sent: float, now: float) -> None:
        """Halve the maximum, once for all requests that were in progress; `sent`: when this request was sent."""
        if sent > self.cut:
            self.size, self.cut = max(1.0, self.size / 2), now


@dataclass(kw_only=True)
class Rate:
    """Limit of a rate per minute, evenly spaced; None for no limit."""

    per_minute: float | None
    free: float = field(default=float("-inf"))

    def take(self, now: float, amount: float = 1.0) -> None:
        """Record an amount that is being sent now."""
        if self.per_minute is not None:
            self.free = max(self.free, now) + MINUTE * amount / self.per_minute

    def settle(self, more: float) -> None:
        """Add the difference between the actual and the estimated amount."""
        if self.per_minute is not None:
            self.free += MINUTE * more / self.per_minute


class WaitingRequest(NamedTuple):
    """A waiting request: time of its next attempt, its position, and its number of attempts."""

    due: float
    order: int
    tried: int
    request: Request


@dataclass(kw_only=True)
class Dispatch:
    """State of a run. `keep` stores a reply, `settled` is called after each request that is answered or has failed."""

    requests: Sequence[Request]
    client: Client
    window: Window
    requests_rate: Rate
    tokens_rate: Rate
    budget: Budget
    patience: Patience
    keep: Callable[[Request, Reply], None]
    settled: Callable[[], None]
    replies: dict[str, Reply] = field(default_factory=dict)
    failures: dict[str, Failure] = field(default_factory=dict)
    asked: int = 0
    """Number of requests that were sent at least once."""
    sent: int = 0
    """Number of times requests were sent, retries included."""
    refused: str | None = None
    """Why the server answers no request, if this is known."""

    async def run(self) -> None:
        """Send all requests and record the answer or failure of each."""
        self._fresh = [WaitingRequest(0.0, order, 0, request) for order, request in enumerate(self.requests)][::-1]
        self._again = list[WaitingRequest]()  # a heap by the time of the next attempt
        self._active = set[asyncio.Task[None]]()
        self._changed = asyncio.Event()
        self._stopped: Failure | None = None
        self._ended = False
        self._fault: BaseException | None = None
        self._reserved = 0.0
        self._rejected = self._given_up = 0
        try:
            while ((self._fresh or self._again) and self._stopped is None) or self._active:
                self._changed.clear()
                within = self._send_what_may()
                if self._active or within is not None:
                    await self._changes(within)
                if self._fault is not None:
                    raise self._fault
        finally:
            self._ended = True
            for task in self._active:
                task.cancel()
            await asyncio.gather(*self._active, return_exceptions=True)
        if self._stopped is not None:
            for job in (*self._again, *self._fresh):
                self._fail(job, self._stopped)

    async def _changes(self, within: float | None) -> None:
        """Wait for a reply, at most `within` seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._changed.wait()

    def _send_what_may(self) -> float | None:
        """Send the requests that the limits allow now; seconds until the next may be sent, None if only a reply allows
        one."""
        while self._stopped is None and len(self._active) < int(self.window.size):
            now = monotonic()
            again = bool(self._again) and (self._again[0].due <= now or not self._fresh or self._failing)
            if not again and not self._fresh:
                return None
            job = self._again[0] if again else self._fresh[-1]
            due = max(job.due, self.requests_rate.free, self.tokens_rate.free)
            if due > now:
                return due - now
            worst, limit, used = self.budget.worst(job.request.body), self.budget.limit, self.budget.spent
            if limit is not None and used + self._reserved + worst > limit:
                if not self._active:
                    self._stop("budget", f"the request could exceed the limit of ${limit:g}; ${used:.4f} are spent")
                return None  # replies may cost less than their maximum
            heappop(self._again) if again else self._fresh.pop()
            self._send(job, now, worst)
        return None

    @property
    def _failing(self) -> bool:
        """Whether so many requests wait for a retry that no new request is sent, because the server may be
        unavailable."""
        return len(self._again) + len(self._active) >= self._most_given_up

    @property
    def _most_given_up(self) -> int:
        return max(GIVEN_UP, 2 * int(self.window.size))

    def _send(self, job: WaitingRequest, now: float, worst: float) -> None:
        tokens = sum(thought(job.request.body)) if self.tokens_rate.per_minute else 0
        self.asked += job.tried == 0
        self.sent += 1
        self._reserved += worst
        self.requests_rate.take(now)
        self.tokens_rate.take(now, tokens)
        task = asyncio.get_running_loop().create_task(self._sent(job, now, worst, tokens))
        self._active.add(task)
        task.add_done_callback(self._returned)

    def _returned(self, task: asyncio.Task[None]) -> None:
        self._active.discard(task)
        if not task.cancelled() and (fault := task.exception()) is not None:
            self._fault = fault
        self._changed.set()

    async def _sent(self, job: WaitingRequest, sent: float, worst: float, tokens: int) -> None:
        """Send a request and handle its outcome."""
        started, paid = datetime.now(UTC), 0.0
        try:
            body = await self.client(deepcopy(job.request.body))  # the client may modify it
            check_completion(body)
            reply = Reply.make(body, sent=started.isoformat(), seconds=monotonic() - sent)
        except (Rejected, Denied) as error:
            self._refuse(job, error)
        except Unavailable as error:
            paid = worst if error.paid else 0.0
            self._unavailable(job, error, sent)
        except (Exception, SystemExit, asyncio.CancelledError) as error:  # a user's client can raise anything
            if self._ended:
                raise
            paid = worst
            self._unavailable(
                job, Unavailable(said(error) if isinstance(error, Exception) else type(error).__name__), sent
            )
        else:
            paid = worst
            self.keep(job.request, reply)
            self.replies[job.request.key] = reply
            tokens_in, tokens_out, guessed = spent(job.request.body, reply.body)
            if worst and not guessed:
                paid = self.budget.dollars(tokens_in, tokens_out)
            self.tokens_rate.settle(tokens_in + tokens_out - tokens)
            self.window.answered()
            self._rejected = self._given_up = 0
            self.settled()
        finally:
            self._reserved -= worst
            self.budget.spent += paid

    def _unavailable(self, job: WaitingRequest, error: Unavailable, sent: float) -> None:
        now, wait = monotonic(), error.retry_after
        if error.busy:
            self.window.busy(sent, now)
            self.requests_rate.free = max(self.requests_rate.free, now + (wait or 0.0))
        tried = job.tried + 1
        if tried < self.patience.tries and (wait or 0.0) <= self.patience.most:
            heappush(self._again, job._replace(due=now + self.patience.wait(tried, wait), tried=tried))
            return
        times = f"{tried} time{'s' * (tried > 1)}"
        failure = Failure(reason="unavailable", message=f"{escape_controls(str(error))} (sent {times})")
        self._fail(job, failure)
        self._given_up += 1
        if wait is not None and wait > self.patience.most:
            self._stop("unavailable", f"the server requests a pause of {wait:.0f} s; run again then")
        elif self._given_up >= self._most_given_up:
            self._stop("unavailable", f"{self._given_up} requests in a row were not answered: {failure.message}")

    def _refuse(self, job: WaitingRequest, error: Rejected | Denied) -> None:
        words = escape_controls(str(error))
        self._fail(job, Failure(reason=error.reason, message=words))
        self._rejected += 1
        if isinstance(error, Rejected):
            words = f"{self._rejected} requests in a row were rejected: {words}"
        if isinstance(error, Denied) or self._rejected >= REJECTED:
            self.refused = words
            self._stop(error.reason, words)

    def _stop(self, reason: Reason, words: str) -> None:
        """Stop sending; pending replies are still stored."""
        if self._stopped is None:
            self._stopped = Failure(reason=reason, message=LEFT + words)

    def _fail(self, job: WaitingRequest, failure: Failure) -> None:
        self.failures[job.request.key] = failure
        self.settled()
