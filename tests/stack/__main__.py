"""`python -m tests.stack`: the stack of docker-compose.yml as processes, for a machine without Docker."""

import subprocess
import sys
from typing import Annotated

import typer

from interlinear.console import say
from seq2seq.errors import InterlinearError
from tests.stack import running

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__)


@app.command()
def up(
    services: Annotated[
        list[str] | None, typer.Argument(metavar="SERVICE...", help="Only these, and their needs.")
    ] = None,
    profile: Annotated[str | None, typer.Option(help="Services of this profile too.")] = None,
) -> None:
    """Start services that are not running, in dependency order, each when its dependencies are healthy."""
    running.up(profile, tuple(services or ()))


@app.command()
def down(volumes: Annotated[bool, typer.Option("--volumes", help="Remove all that was kept, too.")] = False) -> None:
    """Stop every process and remove the network."""
    running.down(volumes)


@app.command(context_settings={"ignore_unknown_options": True})
def exec(  # noqa: A001 - as Docker calls it
    service: str, command: Annotated[list[str], typer.Argument(metavar="COMMAND...")]
) -> None:
    """Run a command in a running service."""
    raise typer.Exit(subprocess.run(running.inside(service, tuple(command)), check=False).returncode)


@app.command(context_settings={"ignore_unknown_options": True})
def run(service: str, command: Annotated[list[str], typer.Argument(metavar="COMMAND...")]) -> None:
    """Run a command with a service's volumes and secrets, whether or not the service is running."""
    raise typer.Exit(subprocess.run(running.beside(service, tuple(command)), check=False).returncode)


@app.command()
def stop(service: str) -> None:
    """Stop one service; `up` starts it again."""
    running.stop(service)


@app.command()
def status() -> None:
    """List the instances that were started, and which of them have ended."""
    for host, alive in running.status():
        print(f"{host.service}-{host.number}\t{host.address}\t{'runs' if alive else 'ended'}")


@app.command()
def test() -> None:
    """Train, register, promote and translate through the running stack."""
    from tests.stack import trial

    trial.run()


if __name__ == "__main__":
    try:
        app()
    except InterlinearError as error:
        say(f"stack: {error}")
        sys.exit(1)
