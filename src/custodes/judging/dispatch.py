"""Scheduling of requests in an event loop. A dispatch decides when each request is sent, and records the outcome of
each request."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import monotonic

from custodes.answers.wording import plural
from custodes.control_characters import escape_controls
from custodes.judging.cost import Budget, count_tokens
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
from custodes.plugins import describe_error

MINUTE = 60.0

REJECTED = 5
"""Number of consecutive rejected requests after which a run ends. The server probably rejects all requests of the
run."""

GIVEN_UP = 5
"""Minimum number of consecutive unanswered requests after which a run ends, because the server is probably unavailable.
With many concurrent requests, the run ends after twice the maximum number of concurrent requests."""

LEFT = "not sent: "


@dataclass(frozen=True, kw_only=True)
class Patience:
    """Retry policy of a request.

    A request has at most `tries` attempts. The first wait is at most `first` seconds. The maximum of each later wait is
    twice the previous maximum, up to `longest`. If a server requests a pause longer than `most` seconds, the run ends.
    """

    tries: int = 6
    first: float = 1.0
    longest: float = 60.0
    most: float = 600.0

    def wait(self, n_tries: int, retry_after: float | None) -> float:
        """Seconds until the next attempt. If the server requests a pause, the wait is at least this pause. Otherwise
        the wait is uniformly distributed between 0 and the maximum ("full jitter", Brooker 2015, AWS Architecture
        Blog). Requests that failed at the same time are therefore repeated at different times.
        """
        random_wait = random.uniform(0, min(self.longest, self.first * 2.0 ** (n_tries - 1)))
        return random_wait if retry_after is None else retry_after + min(random_wait, self.first)


@dataclass(kw_only=True)
class Window:
    """Maximum number of concurrent requests. The maximum starts at 1, grows by 1 for each answer and is halved if the
    server is busy, as in TCP (Jacobson 1988). A wrong key therefore costs only one request, and the maximum adapts to
    the server.
    """

    most: int
    size: float = 1.0
    cut: float = field(default=float("-inf"))

    def increase(self) -> None:
        """Increase the maximum by one."""
        self.size = min(float(self.most), self.size + 1)

    def decrease(self, sent_time: float, now: float) -> None:
        """Halve the maximum number of concurrent requests. If the maximum was already halved after the request was
        sent, nothing changes, so the failures of concurrent requests halve the maximum only once. `sent_time` is the
        time at which this request was sent."""
        if sent_time > self.cut:
            self.size, self.cut = max(1.0, self.size / 2), now


@dataclass(kw_only=True)
class Rate:
    """Limit of requests per minute, spaced evenly over time. None means no limit."""

    per_minute: float | None
    free: float = field(default=float("-inf"))

    def take(self, now: float) -> None:
        """Record that a request is being sent now."""
        if self.per_minute is not None:
            self.free = max(self.free, now) + MINUTE / self.per_minute


@dataclass(kw_only=True)
class Dispatch:
    """State of a run. `store` stores a reply. `on_finished` is called when a request has an answer or has failed."""

    requests: Sequence[Request]
    client: Client
    window: Window
    requests_rate: Rate
    budget: Budget
    patience: Patience
    store: Callable[[Request, Reply], None]
    on_finished: Callable[[], None]
    replies: dict[str, Reply] = field(default_factory=dict)
    failures: dict[str, Failure] = field(default_factory=dict)
    asked: int = 0
    """Number of requests that were sent at least once."""
    sent: int = 0
    """Number of times requests were sent, retries included."""
    refused: str | None = None
    """The reason why the server answers no request, if the reason is known."""

    async def run(self) -> None:
        """Send all requests and record the answer or failure of each."""
        self._waiting = deque(self.requests)
        self._changed = asyncio.Event()
        self._stopped: Failure | None = None
        self._active = self._rejected = self._given_up = 0
        self._reserved = 0.0
        worker_tasks = [asyncio.ensure_future(self._work()) for _ in range(min(self.window.most, len(self.requests)))]
        try:
            await asyncio.gather(*worker_tasks)
        finally:
            for worker_task in worker_tasks:
                worker_task.cancel()
            await asyncio.gather(*worker_tasks, return_exceptions=True)

    async def _work(self) -> None:
        """Send waiting requests one after the other. The next request is sent after the current request was answered or
        has failed."""
        while self._waiting:
            request, n_tries, earliest_send_time = self._waiting.popleft(), 0, None
            while not n_tries or earliest_send_time is not None:
                max_cost_dollars = self.budget.worst_cost(request.body)
                await self._turn(max_cost_dollars, earliest_send_time, is_new_request=not n_tries)
                if self._stopped is not None:
                    self._fail(request, self._stopped)
                    break
                n_tries += 1
                earliest_send_time = await self._send(request, max_cost_dollars, n_tries)

    async def _turn(self, max_cost_dollars: float, earliest_send_time: float | None, *, is_new_request: bool) -> None:
        """Wait until the limits allow a request that costs at most `max_cost_dollars`, or until the run is stopped."""
        while self._stopped is None:
            dollar_limit, spent_dollars = self.budget.limit, self.budget.spent
            wait_seconds = max(earliest_send_time or 0.0, self.requests_rate.free) - monotonic()
            # With so many unanswered requests the server may be unavailable, so no new one is sent.
            n_unanswered_requests = self.asked - len(self.replies) - len(self.failures)
            is_blocked_by_unanswered = is_new_request and n_unanswered_requests >= self._most_given_up
            is_over_limit = (
                dollar_limit is not None and spent_dollars + self._reserved + max_cost_dollars > dollar_limit
            )
            if self._active >= int(self.window.size) or is_blocked_by_unanswered:
                await self._wait_for_change(None)
            elif wait_seconds > 0:
                await self._wait_for_change(wait_seconds)
            elif not is_over_limit:
                return
            elif self._active:
                await self._wait_for_change(None)  # replies may cost less than their maximum
            else:
                self._stop(
                    "budget",
                    f"the request could exceed the cost limit of ${dollar_limit:g}, of which ${spent_dollars:.4f} are "
                    "spent",
                )

    async def _wait_for_change(self, max_seconds: float | None) -> None:
        """Wait until another request has an outcome, at most `max_seconds` seconds."""
        self._changed.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(max_seconds):
                await self._changed.wait()

    @property
    def _most_given_up(self) -> int:
        return max(GIVEN_UP, 2 * int(self.window.size))

    async def _send(self, request: Request, max_cost_dollars: float, n_tries: int) -> float | None:
        """Send a request and handle its outcome. Return the time of the next attempt; None if there is no further
        attempt."""
        sent_time, start_datetime, paid_dollars, earliest_send_time = monotonic(), datetime.now(UTC), 0.0, None
        self.asked += n_tries == 1
        self.sent += 1
        self._active += 1
        self._reserved += max_cost_dollars
        self.requests_rate.take(sent_time)
        try:
            reply_body = await self.client(deepcopy(request.body))  # the client may modify it
            check_completion(reply_body)
            reply = Reply.make(reply_body, sent_time=start_datetime.isoformat(), seconds=monotonic() - sent_time)
        except (Rejected, Denied) as error:
            self._refuse(request, error)
        except Unavailable as error:
            paid_dollars = max_cost_dollars if error.paid else 0.0
            earliest_send_time = self._schedule_retry(request, error, sent_time, n_tries)
        except (Exception, SystemExit, asyncio.CancelledError) as error:  # a user's client can raise anything
            if (current_task := asyncio.current_task()) and current_task.cancelling():
                raise
            paid_dollars = max_cost_dollars
            error_text = describe_error(error) if isinstance(error, Exception) else type(error).__name__
            earliest_send_time = self._schedule_retry(request, Unavailable(error_text), sent_time, n_tries)
        else:
            paid_dollars = max_cost_dollars
            self.store(request, reply)
            self.replies[request.key] = reply
            n_input_tokens, n_output_tokens, are_counts_estimated = count_tokens(request.body, reply.body)
            if self.budget.price and max_cost_dollars and not are_counts_estimated:
                paid_dollars = self.budget.price.token_cost(n_input_tokens, n_output_tokens)
            self.window.increase()
            self._rejected = self._given_up = 0
            self.on_finished()
        finally:
            self._active -= 1
            self._reserved -= max_cost_dollars
            self.budget.spent += paid_dollars
            self._changed.set()
        return earliest_send_time

    def _schedule_retry(self, request: Request, error: Unavailable, sent_time: float, n_tries: int) -> float | None:
        """The time of the next attempt; None if the request has failed."""
        current_time, requested_pause_seconds = monotonic(), error.retry_after or 0.0
        if error.busy:
            self.window.decrease(sent_time, current_time)
            self.requests_rate.free = max(self.requests_rate.free, current_time + requested_pause_seconds)
        if n_tries < self.patience.tries and requested_pause_seconds <= self.patience.most:
            return current_time + self.patience.wait(n_tries, error.retry_after)
        failure_message = f"{escape_controls(str(error))} (sent {plural(n_tries, 'time')})"
        self._fail(request, Failure(reason="unavailable", message=failure_message))
        self._given_up += 1
        if requested_pause_seconds > self.patience.most:
            self._stop(
                "unavailable",
                f"the server requests a pause of {requested_pause_seconds:.0f} s; run the command again after that "
                "time",
            )
        elif self._given_up >= self._most_given_up:
            self._stop("unavailable", f"{self._given_up} requests in a row were not answered: {failure_message}")
        return None

    def _refuse(self, request: Request, error: Rejected | Denied) -> None:
        message = escape_controls(str(error))
        self._fail(request, Failure(reason=error.reason, message=message))
        self._rejected += 1
        if isinstance(error, Rejected):
            message = f"{self._rejected} requests in a row were rejected: {message}"
        if isinstance(error, Denied) or self._rejected >= REJECTED:
            self.refused = message
            self._stop(error.reason, message)

    def _stop(self, reason: Reason, message: str) -> None:
        """Send no further requests. Replies to requests in progress are still stored."""
        if self._stopped is None:
            self._stopped = Failure(reason=reason, message=LEFT + message)
            self._changed.set()

    def _fail(self, request: Request, failure: Failure) -> None:
        self.failures[request.key] = failure
        self.on_finished()
