"""`python -m custodes`, and the command `custodes`: signals are watched before anything heavy is imported."""

from custodes.signals import watch


def main() -> None:
    """The entry point of the command."""
    watch()
    from custodes.cli import main as command

    command()


if __name__ == "__main__":
    main()
