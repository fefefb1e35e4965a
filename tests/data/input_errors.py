"""Messages of errors of input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from custodes.data.reading import read
from custodes.errors import InputError


def input_error(call: Callable[..., Any], *arguments: Any, **options: Any) -> str:
    """Return the message of the `InputError` that a call raises, which is one line."""
    with pytest.raises(InputError) as error:
        call(*arguments, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


def reading_error(*sources: Any, **options: Any) -> str:
    """Return the message of the `InputError` that reading raises."""
    return input_error(read, *sources, **options)
