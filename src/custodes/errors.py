"""Errors that are reported to the user.

A message states what is wrong, which value is wrong, what is allowed, and what to do.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from custodes.control_characters import escape_controls

NO_SLICES = "This question does not compare slices; to use only the items of one group, set group='NAME'"
"""Advice for the argument `by` of a question that has only the argument `group`."""

LONGEST, HEAD = 2000, 600
"""Maximum length of an error message, and number of characters that a longer message keeps from its beginning. A longer
message is shortened in the middle, because its end contains the advice.
"""


class CustodesError(Exception):
    """Base class of errors that the user can correct. The message is one line; control characters are escaped."""

    def __str__(self) -> str:
        message = escape_controls(" ".join(super().__str__().splitlines()))
        if len(message) <= LONGEST:
            return message
        return f"{message[:HEAD]} [{len(message) - LONGEST} characters left out] {message[HEAD - LONGEST :]}"


class InputError(CustodesError):
    """Error of a file or table that cannot be read."""


class OptionError(CustodesError, ValueError):
    """Error of an argument or option whose value is not allowed."""


class MissingExtraError(CustodesError, ImportError):
    """Error of a feature whose optional package is not installed."""


@contextmanager
def requires_extra(need: str, extra: str, advice: str = "") -> Iterator[None]:
    """Context for the import of an optional package. If the package is not installed, MissingExtraError is raised.

    `need`: what needs the package, as in 'ROUGE needs rouge-score-rs'. `extra`: the extra that installs the package.
    """
    try:
        yield
    except ImportError as error:
        raise MissingExtraError(f"{need}: pip install 'custodes[{extra}]'{advice}") from error


class CustodesWarning(UserWarning):
    """Warning about a problem that may make a number unreliable."""


def reject(*problems: tuple[object, str], error: type[CustodesError] = OptionError) -> None:
    """Raise an error with the message of the first problem whose condition is true.

    Each problem is a pair of a condition and a message.

    >>> reject((False, "n=0: must be 1 or more"))
    """
    for condition, message in problems:
        if condition:
            raise error(message)


def join_labels(labels: Iterable[object], *, limit: int = 8) -> str:
    """Labels as a short comma list, with the number of omitted labels. An empty label is shown as ''.

    >>> join_labels(["a", "b", "c"], limit=2), join_labels(["a", ""])
    ('a, b and 1 more', "a, ''")
    """
    label_texts = [str(label) or "''" for label in labels]
    first_labels_text = ", ".join(label_texts[:limit])
    return (
        first_labels_text if len(label_texts) <= limit else f"{first_labels_text} and {len(label_texts) - limit} more"
    )


def suggestion(name: str, allowed: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Text ' (did you mean ...?)' with a similar allowed name, or an empty string if no allowed name is similar.

    >>> suggestion("expret", ["expert1", "turker1"])
    " (did you mean 'expert1'?)"
    """
    label_of_lowercase = {label.lower(): label for label in allowed}
    close_matches = difflib.get_close_matches(name.lower(), label_of_lowercase, n=1, cutoff=cutoff)
    return f" (did you mean '{label_of_lowercase[close_matches[0]]}'?)" if close_matches else ""


def short_repr(value: object) -> str:
    """A value as a short text on one line, for an error message.

    >>> short_repr("a" * 200)[-6:]
    'aaa...'
    """
    try:
        text = " ".join(repr(value).split())
    except Exception:  # a value that cannot be printed is invalid anyway
        text = f"<{type(value).__name__}>"
    return text if len(text) <= MAX_REPR_LENGTH else f"{text[: MAX_REPR_LENGTH - 3]}..."


MAX_REPR_LENGTH = 80
"""Maximum number of characters of a value in an error message."""
