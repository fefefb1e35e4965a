"""Start of `python -m custodes` and of the command `custodes`.

Signals and streams are set up before any large module is imported.
"""

import sys

from custodes.process import exit_on_signals, open_streams, use_one_heap


def main() -> None:
    """Run the command; this function is its entry point."""
    exit_on_signals()
    open_streams()
    use_one_heap()
    if sys.argv[1:3] == ["annotate", "serve"]:
        from custodes.commands.annotate_serve import main as command
    else:
        from custodes.cli import main as command

    command()


if __name__ == "__main__":
    main()
