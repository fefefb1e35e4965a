"""Querying of a plan. Each request is sent once. After a reply without an answer, the request is sent a second time.
Replies are stored when they arrive."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue

from custodes.arguments import check_at_least
from custodes.cache import Cache
from custodes.errors import OptionError
from custodes.judging.cost import LIMITS, Budget
from custodes.judging.dispatch import LEFT, Dispatch, Patience, Rate, Window
from custodes.judging.plan import JudgingPlan
from custodes.judging.replies import AGAIN, ReadReply, read_answer
from custodes.judging.requests import Client, Failure, Reply, Request, find_replies, store_reply
from custodes.progress import Progress

PATIENCE = Patience()
NOT_REACHED = Failure(reason="unavailable", message=f"{LEFT}the run was ended")
NOT_SENT = Failure(reason="unavailable", message="not sent yet")


@dataclass(frozen=True, kw_only=True)
class QueryReplies:
    """A reply or a failure for each key. `asked` is the number of distinct requests that were sent in this run, without
    cached requests. `sent` is the number of times that requests were sent, retries included.
    """

    replies: Mapping[str, Reply]
    failures: Mapping[str, Failure]
    asked: int = 0
    sent: int = 0


SendRequests = Callable[[Sequence[Request]], QueryReplies]


def query(
    requests: Sequence[Request],
    client: Client,
    *,
    cache: Cache,
    budget: Budget,
    concurrency: int,
    rpm: float | None,
    progress: Progress,
    patience: Patience | None = None,
) -> QueryReplies:
    """Send the requests without a stored reply, and store each reply on arrival.

    At most `concurrency` requests are in progress at a time, and fewer while the server is busy. At most `rpm` requests
    start per minute. A request that could exceed the budget is not sent. An unanswered request is a failure with a
    reason. Failures are not stored, so the next run sends these requests again. The requests run in a separate thread,
    so the function also works inside a running event loop. After Ctrl-C the stored replies remain. Raises OptionError
    if there is neither a new nor a stored reply. Also raises it if the server denies all requests (wrong key, model or
    address) or rejects several requests in a row.

    """
    check_at_least("concurrency", concurrency, 1)
    if rpm is not None and not rpm > 0:
        raise OptionError(f"rpm={rpm:g} is not allowed; give a number above 0")
    reply_of_key, missing_requests = find_replies(requests, cache)
    if not missing_requests:
        return QueryReplies(replies=reply_of_key, failures={})
    finished_queue = SimpleQueue[bool]()
    dispatch = Dispatch(
        requests=missing_requests,
        client=client,
        window=Window(most=concurrency),
        requests_rate=Rate(per_minute=rpm),
        budget=budget,
        patience=patience or PATIENCE,
        store=partial(store_reply, cache),
        on_finished=lambda: finished_queue.put(True),
    )
    with closing(_run_in_thread(dispatch, finished_queue)) as finish_events:
        for _ in progress(finish_events, total=len(missing_requests), desc="asking"):
            pass
    reply_of_key |= dispatch.replies
    if dispatch.refused is not None and not reply_of_key:
        raise OptionError(f"the judge cannot be queried: {dispatch.refused}")
    return QueryReplies(
        replies=reply_of_key,
        failures={
            request.key: dispatch.failures.get(request.key, NOT_REACHED)
            for request in missing_requests
            if request.key not in reply_of_key
        },
        asked=dispatch.asked,
        sent=dispatch.sent,
    )


def _run_in_thread(dispatch: Dispatch, finished_queue: SimpleQueue[bool]) -> Generator[None, None, None]:
    """Run a dispatch in a thread, and yield once for each finished request. If the caller stops, the run ends."""
    asyncio_runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
    event_loop = asyncio_runner.get_loop()
    dispatch_task = event_loop.create_task(dispatch.run())

    async def run_dispatch() -> None:
        try:
            await dispatch_task
        finally:
            if close_client := getattr(dispatch.client, "aclose", None):
                await close_client()

    def run_loop() -> None:
        with asyncio_runner:
            asyncio_runner.run(run_dispatch())

    with ThreadPoolExecutor(1, thread_name_prefix="custodes-ask") as thread_pool:
        future = thread_pool.submit(run_loop)
        future.add_done_callback(lambda _: finished_queue.put(False))
        try:
            while not future.done() or not finished_queue.empty():
                with suppress(Empty):
                    if finished_queue.get(timeout=0.5):  # with a timeout, so that Ctrl-C works on every system
                        yield
        finally:
            with suppress(RuntimeError):  # the loop is closed after the last request
                event_loop.call_soon_threadsafe(dispatch_task.cancel)
        future.result()


def read_stored(requests: Sequence[Request], *, cache: Cache, failures: Mapping[str, Failure]) -> QueryReplies:
    """The stored replies, without sending any request. `failures` has the known reasons for missing replies."""
    reply_of_key, missing_requests = find_replies(requests, cache)
    return QueryReplies(
        replies=reply_of_key,
        failures={request.key: failures.get(request.key, NOT_SENT) for request in missing_requests},
    )


@dataclass(frozen=True, kw_only=True)
class QueriedPlan:
    """The outcome of a plan. The keys of all mappings are the keys of first requests. `requests` has the request that
    counts. It is the second request if this request has a reply, otherwise the first. `replies` has the reply to the
    request that counts, and `answers` the parsed answer. `failures` has the failure of the first request or of the
    second request. A rejected second request is no failure, because the first reply is used instead. `n_requests` is
    the number of distinct requests, second requests included. `used` has all requests with a reply, each with the
    reply. `asked` is the number of requests that were sent. `sent` is the number of times that requests were sent,
    retries included.
    """

    requests: Mapping[str, Request]
    replies: Mapping[str, Reply]
    answers: Mapping[str, ReadReply]
    failures: Mapping[str, Failure]
    n_requests: int
    used: Sequence[tuple[Request, Reply]]
    asked: int
    sent: int


def query_plan(plan: JudgingPlan, send: SendRequests) -> QueriedPlan:
    """Send all requests. If a reply has no answer, the request is repeated once, under a different key."""
    request_of_key = {request.key: request for request in plan.requests}
    first_query_result = send(list(request_of_key.values()))
    answer_of_key = read_answers(plan, first_query_result.replies)
    second_request_of_key = second_requests(plan, answer_of_key)
    second_query_result = send(list(second_request_of_key.values()))
    requests_and_replies = [(request_of_key[key], reply) for key, reply in first_query_result.replies.items()]
    second_reply_of_key, failure_of_key = dict[str, Reply](), dict(first_query_result.failures)
    for first_key, second_request in second_request_of_key.items():
        if second_request.key in second_query_result.replies:
            second_reply_of_key[first_key] = second_query_result.replies[second_request.key]
            request_of_key[first_key] = second_request
            requests_and_replies.append((second_request, second_reply_of_key[first_key]))
        elif second_query_result.failures[second_request.key].reason != "rejected":
            failure_of_key[first_key] = second_query_result.failures[second_request.key]
    return QueriedPlan(
        requests=request_of_key,
        replies={**first_query_result.replies, **second_reply_of_key},
        answers=answer_of_key | read_answers(plan, second_reply_of_key),
        failures=failure_of_key,
        n_requests=len(request_of_key) + len(second_request_of_key),
        used=requests_and_replies,
        asked=first_query_result.asked + second_query_result.asked,
        sent=first_query_result.sent + second_query_result.sent,
    )


def read_answers(plan: JudgingPlan, replies: Mapping[str, Reply]) -> dict[str, ReadReply]:
    """The parsed replies to the requests of a plan, by the key of the first request."""
    output_texts_of_key = {question.request.key: question.texts for question in plan.questions}
    return {key: read_answer(reply.body, plan.judge, output_texts_of_key[key]) for key, reply in replies.items()}


def second_requests(plan: JudgingPlan, answers: Mapping[str, ReadReply]) -> dict[str, Request]:
    """The second requests after first replies without an answer, by the key of the first request. A second request has
    the same body as the first request, except after a truncated reply. After a truncated reply, the second request has
    twice the token limit, or twice the tokens of the reply if there is no limit. If there is no limit and the server
    did not report the tokens of the reply, there is no second request.
    """
    second_request_of_key: dict[str, Request] = {}
    for question in plan.questions:
        key, body = question.request.key, dict(question.request.body)
        missing_reason = answers[key].why if key in answers else ""
        if missing_reason == "truncated":
            limit_name = next((limit_name for limit_name in LIMITS if isinstance(body.get(limit_name), int)), LIMITS[1])
            body[limit_name] = 2 * (body.get(limit_name, answers[key].tokens_out) or 0)
        if missing_reason in AGAIN and (missing_reason != "truncated" or body[limit_name]):
            second_request_of_key[key] = Request.make(plan.address, body, f"{question.repeat} again")
    return second_request_of_key
