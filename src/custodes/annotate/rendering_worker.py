"""A process that makes HTML of texts, a line of JSON each: one that takes too long is ended with it.

python -m custodes.annotate.rendering_worker
"""

from __future__ import annotations

import sys

import msgspec

from custodes.annotate.texts import Render, Unlike, shown


class Asked(msgspec.Struct):
    """A text, and how it is shown."""

    text: str
    how: Render


class Answered(msgspec.Struct):
    """Its HTML; or why there is none: unlike (other words would be seen), failed."""

    html: str = ""
    why: str = ""


def main() -> None:
    """Answer until the input ends."""
    decoder = msgspec.json.Decoder(Asked)
    for line in sys.stdin.buffer:
        asked = decoder.decode(line)
        try:
            answer = Answered(html=shown(asked.text, asked.how))
        except Unlike:
            answer = Answered(why="unlike")
        except (Exception, RecursionError):  # whatever a parser fails with, the text is shown plain
            answer = Answered(why="failed")
        sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
        sys.stdout.buffer.flush()
