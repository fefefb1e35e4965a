"""`python -m custodes` and the command `custodes`: set up signals and streams before importing anything large."""

import sys

from custodes.process import one_heap, open_streams, watch


def main() -> None:
    """The entry point of the command."""
    watch()
    open_streams()
    one_heap()
    if sys.argv[1:3] == ["annotate", "serve"]:
        from custodes.commands.annotate_serve import main as command
    else:
        from custodes.cli import main as command

    command()


if __name__ == "__main__":
    main()
