"""What a process does that makes HTML of texts, a line of JSON each: one that takes too long is ended with it."""

from __future__ import annotations

import signal
import sys

import msgspec

from custodes.annotate.texts import Render, Unlike, shown


class Asked(msgspec.Struct):
    """A text, how it is shown, and the CPU seconds that it may take; 0: as many as it takes."""

    text: str
    how: Render
    seconds: float = 0.0


class Answered(msgspec.Struct):
    """Its HTML; or why there is none: unlike (other words would be seen), failed."""

    html: str = ""
    why: str = ""


ASKED, ANSWERED = msgspec.json.Decoder(Asked), msgspec.json.Decoder(Answered)


def main() -> None:
    """Answer until the input ends."""
    for line in sys.stdin.buffer:
        asked = ASKED.decode(line)
        _limit(asked.seconds)
        try:
            answer = Answered(html=shown(asked.text, asked.how))
        except Unlike:
            answer = Answered(why="unlike")
        except (Exception, RecursionError):  # whatever a parser fails with, the text is shown plain
            answer = Answered(why="failed")
        _limit(0.0)
        sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
        sys.stdout.buffer.flush()


def _limit(seconds: float) -> None:
    """End this process after so many seconds of work, whatever it does then; not where there are no such timers."""
    if sys.platform != "win32":
        signal.setitimer(signal.ITIMER_PROF, seconds)  # SIGPROF ends a process that does not handle it
