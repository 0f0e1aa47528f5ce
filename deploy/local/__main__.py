"""`python -m deploy.local`: the stack of docker-compose.yml as processes, for a machine without Docker."""

import subprocess
import sys
from typing import Annotated

import typer

from deploy.local import running
from interlinear.console import say
from seq2seq.errors import InterlinearError

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__)


@app.command()
def up(
    services: Annotated[
        list[str] | None, typer.Argument(metavar="SERVICE...", help="Only these, and their needs.")
    ] = None,
    profile: Annotated[str | None, typer.Option(help="Services of this profile too.")] = None,
) -> None:
    """Start what does not run yet, in the order of dependencies, each once what it needs is healthy."""
    running.up(profile, tuple(services or ()))


@app.command()
def down(volumes: Annotated[bool, typer.Option("--volumes", help="Remove all that was kept, too.")] = False) -> None:
    """End every process and remove the network."""
    running.down(volumes)


@app.command(context_settings={"ignore_unknown_options": True})
def exec(  # noqa: A001 - as Docker calls it
    service: str, command: Annotated[list[str], typer.Argument(metavar="COMMAND...")]
) -> None:
    """Run a command inside of a service."""
    raise typer.Exit(subprocess.run(running.inside(service, tuple(command)), check=False).returncode)


@app.command(context_settings={"ignore_unknown_options": True})
def run(service: str, command: Annotated[list[str], typer.Argument(metavar="COMMAND...")]) -> None:
    """Run a command as a service would, with its volumes and secrets, whether the service runs or not."""
    raise typer.Exit(subprocess.run(running.beside(service, tuple(command)), check=False).returncode)


@app.command()
def stop(service: str) -> None:
    """End one service; `up` starts it again."""
    running.stop(service)


@app.command()
def status() -> None:
    """Which instances were started, and which of them have ended since."""
    for host, alive in running.status():
        print(f"{host.service}-{host.number}\t{host.address}\t{'runs' if alive else 'ended'}")


@app.command()
def test() -> None:
    """Train, register, promote and translate through the stack that is up."""
    from deploy.local import trial

    trial.run()


if __name__ == "__main__":
    try:
        app()
    except InterlinearError as error:
        say(f"stack: {error}")
        sys.exit(1)
