"""The command line: verbs to calls. A verb is loaded where it is asked, and none where the list of them is."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from cyclopts import App

from custodes.ending import end, status_of
from custodes.files import STANDARD_INPUT, STANDARD_OUTPUT
from custodes.homes import asked, homes, sentence
from custodes.words import HOW

ALIASES = {"ranking": "rank", "correction": "correct"}
"""What verbs were called before."""

OTHERS: Mapping[str, str] = {
    name: f"custodes.commands.{name}:{name}"
    for name in ("report", "count", "score", "judge", "annotate", "convert", "doctor")
}
"""Verbs that are no plain question, and where they are."""

GROUPS = {
    "combine": "A better metric from those you have: fit it to people's ratings, apply it to new scores, validate it on"
    " other data.",
    "annotate": "Ask people: make a study of texts, serve it to people, close the loop. Every verb reads the study.",
}
"""What verbs of verbs are for."""


def _places() -> dict[str, str]:
    """Every verb and where it is."""
    questions = {name: f"custodes.commands.asking:{name}" for name in asked() if name != "validate"}
    return questions | {"combine": "custodes.commands.combine:combine"} | OTHERS


def _command(*, listing: bool) -> App:
    """The command with every verb where it is, or with no more of each than its sentence, which loads none."""
    made = App(
        help="Judge the judges: which automatic metric or LLM judge agrees with people, whom it favours, which system"
        " is better.",
        **(HOW | {"help_format": "plaintext"} if listing else HOW),
    )
    made.register_install_completion_command()
    for verb, place in _places().items():
        names = [verb, *filter(None, [ALIASES.get(verb)])]
        if listing:
            module, _, function = place.partition(":")
            told = GROUPS.get(verb) or sentence(homes().get(verb, module), function)
            made.command(App(name=names, help=told))
        elif verb in GROUPS:
            made.command(place, name=names, help=GROUPS[verb])
        else:
            made.command(place, name=names)
    return made


app = _command(listing=False)


def run(argv: Sequence[str]) -> int:
    """Run a command line and return its exit status."""
    words = _with_streams(argv)
    verb = next((word for word in words if not word.startswith("-")), None)
    listed = verb is None and not any(word.startswith("--install-completion") for word in words)
    return status_of(lambda: (_command(listing=True) if listed else app)(words))


def _with_streams(argv: Sequence[str]) -> list[str]:
    """The words of a command line; `-`, which would be taken for an option, by its longer name: standard output where
    it is an output, and standard input elsewhere."""
    words = []
    for before, word in zip(["", *argv], argv, strict=False):
        if word == "-":
            words.append(STANDARD_OUTPUT if before in ("-o", "--output") else STANDARD_INPUT)
        else:
            words.append(word[:-1] + STANDARD_OUTPUT if word in ("-o=-", "--output=-") else word)
    return words


def main() -> None:
    """The work of the command `custodes`."""
    end(lambda: run(sys.argv[1:]))
