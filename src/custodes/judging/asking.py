"""Ask all of some requests: each once, as fast as the server bears, every reply kept the moment it comes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue

import msgspec

from custodes.cache import Cache
from custodes.errors import OptionError
from custodes.judging.cost import Budget
from custodes.judging.dispatch import LEFT, Dispatch
from custodes.judging.pace import Patience, Rate, Window
from custodes.judging.request import Client, Failure, Reply, Request
from custodes.progress import Progress

PATIENCE = Patience()
NOT_REACHED = Failure(reason="unavailable", said=f"{LEFT}the run was ended")


@dataclass(frozen=True, kw_only=True)
class Answers:
    """What came of requests: replies and failures by key, each key in one of both; `asked`: how many requests were sent
    in this run, not counting those that were kept before; `sent`: how often one was sent, retries included; `dollars`:
    what they may have cost, with a budget."""

    replies: Mapping[str, Reply]
    failures: Mapping[str, Failure]
    asked: int = 0
    sent: int = 0
    dollars: float = 0.0


def ask(
    requests: Sequence[Request],
    client: Client,
    *,
    cache: Cache,
    concurrency: int,
    rpm: float | None,
    tpm: float | None,
    budget: Budget | None,
    progress: Progress,
    patience: Patience | None = None,
) -> Answers:
    """Ask what the cache does not hold, and keep each reply in it as it comes.

    At most `concurrency` requests are on their way at once (fewer while the server is busy), `rpm` start and `tpm`
    tokens are used a minute, and no request is sent that could pass the budget. What is not answered is a failure with
    its reason, is not kept, and is asked again next time. It works in a thread of its own, so also inside a running
    event loop; Ctrl-C ends it, and what came is kept. Raises OptionError where there is no answer at all because the
    server will give none: a wrong key, model or address, or the same fault in every request.
    """
    wanted = {request.key: request for request in requests}
    replies, missing = kept(requests, cache)
    if not missing:
        return Answers(replies=replies, failures={})
    told = SimpleQueue[bool]()
    dispatch = Dispatch(
        requests=missing,
        client=client,
        window=Window(most=concurrency),
        requests_rate=Rate(per_minute=rpm),
        tokens_rate=Rate(per_minute=tpm),
        budget=budget,
        patience=patience or PATIENCE,
        keep=partial(keep, cache),
        settled=lambda: told.put(True),
    )
    with closing(_working(dispatch, told)) as working:
        for _ in progress(working, total=len(missing), desc="asking"):
            pass
    replies |= dispatch.replies
    if dispatch.refused is not None and not replies:
        raise OptionError(f"the judge cannot be asked: {dispatch.refused}")
    return Answers(
        replies=replies,
        failures={key: dispatch.failures.get(key, NOT_REACHED) for key in wanted if key not in replies},
        asked=dispatch.asked,
        sent=dispatch.sent,
        dollars=dispatch.dollars,
    )


def kept(requests: Sequence[Request], cache: Cache) -> tuple[dict[str, Reply], list[Request]]:
    """The replies that are kept, by key, and the requests that have none, each key once."""
    wanted = {request.key: request for request in requests}
    rows = {key: Reply(record) for key, record in cache.replies(list(wanted))}
    missing = [request for key, request in wanted.items() if key not in rows]
    if len(rows) > len(wanted) - len(missing):  # those of other requests
        rows = {key: rows[key] for key in wanted if key in rows}
    return rows, missing


def keep(cache: Cache, request: Request, reply: Reply) -> None:
    """Put a reply into a cache."""
    cache.keep_reply(request.key, reply.record, msgspec.json.encode(request.body))


def _working(dispatch: Dispatch, told: SimpleQueue[bool]) -> Generator[None, None, None]:
    """Run it in a thread; one value for each request that is settled, as it happens. Where the caller goes, it ends."""
    runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
    main, faults = list[asyncio.Task[None]](), list[BaseException]()

    async def whole() -> None:
        main.append(asyncio.ensure_future(dispatch.run()))
        try:
            await main[0]
        finally:
            if close := getattr(dispatch.client, "aclose", None):
                await close()

    def work() -> None:
        try:
            with runner:
                runner.run(whole())
        except BaseException as fault:  # it is raised where somebody sees it
            faults.append(fault)
        finally:
            told.put(False)

    def cancel() -> None:
        for task in main:
            task.cancel()

    thread = threading.Thread(target=work, name="custodes-ask", daemon=True)
    loop = runner.get_loop()
    thread.start()
    try:
        while True:
            with suppress(Empty):
                if not told.get(timeout=0.5):  # with a bound, so that Ctrl-C is seen on every system
                    break
                yield
    finally:
        with suppress(RuntimeError):  # it may be closed, since all is done
            loop.call_soon_threadsafe(cancel)
        thread.join()
    if faults:
        raise faults[0]
