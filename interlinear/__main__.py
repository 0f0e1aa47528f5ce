"""Entry point of the command: `interlinear`, or `python -m interlinear`."""

from interlinear.hidden_modules import end_if_hidden


def main() -> None:
    """Run the command, unless files of the working folder hide its modules."""
    end_if_hidden()
    from interlinear.cli import main as run_command

    run_command()


if __name__ == "__main__":
    main()
