"""All that is known of a study as bytes, by which a state is compared with what the file alone gives."""

from __future__ import annotations

import msgspec

from custodes.annotate.book import Book


def state_of(book: Book) -> bytes:
    """All of it but clocks, as bytes that are equal where the states are."""
    people = [
        (
            *(own.id, own.label, own.excluded, own.by, own.reason, own.forgotten, own.qualified, own.batches),
            *(sorted(own.seen), sorted(own.had), sorted(own.known), sorted(own.refused), sorted((+own.load).items())),
            *(sorted((unit, given.id) for unit, given in table.items()) for table in (own.votes, own.lapsed)),
            *(getattr(own.work, name) for name in own.work.__slots__[:-1]),
            own.work.times.tolist(),
        )
        for own in book.workers.values()
    ]
    visits = [
        (
            *(own.id, own.agreed, own.declined, own.begun, own.finished, own.batch, own.number, own.last_item),
            *(sorted(own.known.items()), sorted(own.codes.items()), sorted(own.params.items())),
            *([given.id for given in table] for table in (own.open, own.answered)),
        )
        for own in book.sessions.values()
    ]
    units = [
        (
            *(own.id, sorted(own.votes.items()), sorted(own.seconds.items()), own.leased),
            *map(sorted, (own.holders, own.asked, own.refused)),
        )
        for own in book.ballots.units.values()
        if own.votes or own.seconds or own.holders or own.asked or own.refused
    ]
    given = [
        (own.id, own.role, own.flip, own.holds, own.expired, own.counts, own.value, own.is_void)
        for own in book.given.values()
    ]
    totals = [getattr(book.totals, name) for name in book.totals.__slots__]
    rest = [list(book.paces), list(book.primaries), book.comments, book.control, book.version, book.last, totals]
    engine = b"" if book.ballots.asking is None else book.ballots.asking.state_bytes()
    tokens = sorted((token, own.id) for token, own in book.tokens.items())
    singles = [sorted(own) for own in book.ballots.singles]
    return msgspec.json.encode([people, visits, units, given, tokens, singles, rest]) + engine
