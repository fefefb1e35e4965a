"""A process that runs a service for many concurrent annotators and prints each acknowledged answer.

`python service_worker.py STUDY TOKENS`: TOKENS is a file with one token per line. The output line `TOKEN ASSIGNMENT
VALUE NEXT` means that this answer was acknowledged and that the reply showed the question NEXT (0: none).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from random import Random
from threading import Thread

from custodes.annotate.service import Service
from custodes.annotate.views import Answer, Ask, Begin, Break, View, Wait


def person(service: Service, token: str) -> None:
    """Answer questions until none is left."""
    view: View | None = service.view(token).result()
    draw = Random(token)
    while True:
        while isinstance(view, Wait):
            view = service.view(token).result()
        if isinstance(view, Break):
            view = service.act(token, Begin()).result()
        if not isinstance(view, Ask):
            return
        value = draw.choice((1, 0, -1))
        next_view = service.act(token, Answer(assignment=view.assignment, values={"": value}, seconds=1.0)).result()
        next_question = next_view.assignment if isinstance(next_view, Ask) else 0
        os.write(1, f"{token} {view.assignment} {value} {next_question}\n".encode())
        view = next_view


def main() -> None:
    path, tokens = sys.argv[1:]
    service = Service.open(path)
    os.write(1, b"ready\n")
    annotators = [Thread(target=person, args=(service, token)) for token in Path(tokens).read_text().split()]
    for thread in annotators:
        thread.start()
    for thread in annotators:
        thread.join()
    service.close()


if __name__ == "__main__":
    main()
