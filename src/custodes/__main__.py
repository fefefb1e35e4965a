"""`python -m custodes`, and the command `custodes`: signals and streams come before anything heavy is imported."""

from custodes.process import open_streams, watch


def main() -> None:
    """The entry point of the command."""
    watch()
    open_streams()
    from custodes.cli import main as command

    command()


if __name__ == "__main__":
    main()
