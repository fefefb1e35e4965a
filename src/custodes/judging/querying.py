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
    tpm: float | None,
    progress: Progress,
    patience: Patience | None = None,
) -> QueryReplies:
    """Send the requests without a stored reply, and store each reply on arrival.

    At most `concurrency` requests are in progress at a time, and fewer while the server is busy. At most `rpm` requests
    start and at most `tpm` tokens are used per minute. A request that could exceed the budget is not sent. An
    unanswered request is a failure with a reason. Failures are not stored, so the next run sends these requests again.
    The requests run in a separate thread, so this also works inside a running event loop. After Ctrl-C the stored
    replies remain. Raises OptionError if there is no reply, not even a stored one, and the server denies all requests
    (wrong key, model or address) or rejects several in a row.

    """
    check_at_least("concurrency", concurrency, 1)
    for option_name, limit_per_minute in (("rpm", rpm), ("tpm", tpm)):
        if limit_per_minute is not None and not limit_per_minute > 0:
            raise OptionError(f"{option_name}={limit_per_minute:g} is not allowed; give a number above 0")
    reply_of_key, missing_requests = find_replies(requests, cache)
    if not missing_requests:
        return QueryReplies(replies=reply_of_key, failures={})
    finished_queue = SimpleQueue[bool]()
    dispatch = Dispatch(
        requests=missing_requests,
        client=client,
        window=Window(most=concurrency),
        requests_rate=Rate(per_minute=rpm),
        tokens_rate=Rate(per_minute=tpm),
        budget=budget,
        patience=patience or PATIENCE,
        keep=partial(store_reply, cache),
        settled=lambda: finished_queue.put(True),
    )
    with closing(_run_in_thread(dispatch, finished_queue)) as finish_events:
        for _ in progress(finish_events, total=len(missing_requests), desc="asking"):
            pass
    reply_of_key |= dispatch.replies
    if dispatch.refused is not None and not reply_of_key:
        raise OptionError(f"the judge cannot be queried: {dispatch.refused}")
    failure_of_key = {
        request.key: dispatch.failures.get(request.key, NOT_REACHED)
        for request in missing_requests
        if request.key not in reply_of_key
    }
    return QueryReplies(replies=reply_of_key, failures=failure_of_key, asked=dispatch.asked, sent=dispatch.sent)


def _run_in_thread(dispatch: Dispatch, finished_queue: SimpleQueue[bool]) -> Generator[None, None, None]:
    """Run a dispatch in a thread, and yield once for each finished request. If the caller stops, the run ends."""
    asyncio_runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
    event_loop, dispatch_tasks = asyncio_runner.get_loop(), list[asyncio.Task[None]]()

    async def run_dispatch() -> None:
        dispatch_tasks.append(asyncio.ensure_future(dispatch.run()))
        try:
            await dispatch_tasks[0]
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
            while True:
                with suppress(Empty):
                    if not finished_queue.get(timeout=0.5):  # with a timeout, so that Ctrl-C works on every system
                        break
                    yield
        finally:
            with suppress(RuntimeError):  # the loop is closed after the last request
                event_loop.call_soon_threadsafe(lambda: [dispatch_task.cancel() for dispatch_task in dispatch_tasks])
        future.result()


def read_stored(requests: Sequence[Request], *, cache: Cache, failures: Mapping[str, Failure]) -> QueryReplies:
    """The stored replies, without sending any request. `failures` has the known reasons for missing replies."""
    reply_of_key, missing_requests = find_replies(requests, cache)
    failure_of_key = {request.key: failures.get(request.key, NOT_SENT) for request in missing_requests}
    return QueryReplies(replies=reply_of_key, failures=failure_of_key)


@dataclass(frozen=True, kw_only=True)
class QueriedPlan:
    """The outcome of a plan. The keys of all mappings are the keys of first requests. `requests` has the request that
    counts, which is the second one if it has a reply. `replies` has the reply to this request, and `answers` the parsed
    answer. `failures` has the failure of the first request or of the second request. A rejected second request is not a
    failure, because the first reply then counts. `again` has the second request. `used` has all requests with a reply,
    each with the reply. `asked` is the number of requests that were sent. `sent` is the number of times that requests
    were sent, retries included.
    """

    requests: Mapping[str, Request]
    replies: Mapping[str, Reply]
    answers: Mapping[str, ReadReply]
    failures: Mapping[str, Failure]
    again: Mapping[str, Request]
    used: Sequence[tuple[Request, Reply]]
    asked: int
    sent: int


def query_plan(plan: JudgingPlan, send: SendRequests) -> QueriedPlan:
    """Send all requests. If a reply has no answer, the request is repeated once, under a different key."""
    request_of_key = {request.key: request for request in plan.requests}
    first_replies = send(list(request_of_key.values()))
    answer_of_key = read_answers(plan, first_replies.replies)
    second_request_of_key = second_requests(plan, answer_of_key)
    second_replies = send(list(second_request_of_key.values()))
    second_reply_of_key = {
        first_key: second_replies.replies[request.key]
        for first_key, request in second_request_of_key.items()
        if request.key in second_replies.replies
    }
    # If the second request was rejected, the first reply counts; other failures may succeed in a later run.
    second_failure_of_key = {
        first_key: failure
        for first_key, request in second_request_of_key.items()
        if (failure := second_replies.failures.get(request.key)) and failure.reason != "rejected"
    }
    return QueriedPlan(
        requests=request_of_key | {first_key: second_request_of_key[first_key] for first_key in second_reply_of_key},
        replies={**first_replies.replies, **second_reply_of_key},
        answers=answer_of_key | read_answers(plan, second_reply_of_key),
        failures={**first_replies.failures, **second_failure_of_key},
        again=second_request_of_key,
        used=[
            *((request_of_key[first_key], reply) for first_key, reply in first_replies.replies.items()),
            *((second_request_of_key[first_key], reply) for first_key, reply in second_reply_of_key.items()),
        ],
        asked=first_replies.asked + second_replies.asked,
        sent=first_replies.sent + second_replies.sent,
    )


def read_answers(plan: JudgingPlan, replies: Mapping[str, Reply]) -> dict[str, ReadReply]:
    """The parsed replies to the requests of a plan, by the key of the first request."""
    output_texts_of_key = {question.request.key: question.texts for question in plan.asked}
    return {key: read_answer(reply.body, plan.judge, output_texts_of_key[key]) for key, reply in replies.items()}


def second_requests(plan: JudgingPlan, answers: Mapping[str, ReadReply]) -> dict[str, Request]:
    """The second requests after first replies without an answer, by the key of the first request. A second request has
    the same body as the first request, except after a truncated reply. After a truncated reply, the second request has
    twice the token limit, or twice the tokens of the reply if there is no limit. If there is no limit and the server
    did not report the tokens of the reply, there is no second request.
    """
    first_question_of_key = {question.request.key: question for question in plan.asked}
    second_request_of_key: dict[str, Request] = {}
    for key, answer in answers.items():
        if answer.why not in AGAIN:
            continue
        body = dict(first_question_of_key[key].request.body)
        if answer.why == "truncated":
            limit_name = next((limit_name for limit_name in LIMITS if isinstance(body.get(limit_name), int)), LIMITS[1])
            token_limit = body.get(limit_name, answer.tokens_out)
            if not token_limit:
                continue
            body[limit_name] = 2 * token_limit
        second_request_of_key[key] = Request.make(plan.address, body, f"{first_question_of_key[key].repeat} again")
    return second_request_of_key
