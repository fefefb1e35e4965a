"""Work in bounded memory: slices that cover everything once, none beyond what an array may hold."""

from hypothesis import given
from hypothesis import strategies as st

from custodes.stats.arrays import CHUNK, chunks


@given(st.integers(0, 300), st.integers(0, 3 * CHUNK))
def test_slices_cover_everything_once_and_hold_no_more_than_allowed(n: int, size: int) -> None:
    parts = list(chunks(n, size))
    assert [k for part in parts for k in range(n)[part]] == list(range(n))
    for part in parts:
        # one thing is held whatever its size
        assert part.stop - part.start == 1 or (part.stop - part.start) * size <= CHUNK
    full = {part.stop - part.start for part in parts[:-1]}
    # no more slices than needed: one more thing would be too much
    assert len(full) <= 1
    assert all((width + 1) * size > CHUNK for width in full)


def test_nothing_is_no_slice() -> None:
    assert list(chunks(0, 5)) == []
