"""The steps of the demo: each runs a command of `interlinear` in a child process and prints it."""

import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from interlinear.cli.console import say
from interlinear.cli.demo.demo_example import DATA, pick_example, read_test_set
from interlinear.cli.demo.training_record import TrainingRecord, code_hash
from interlinear.errors import ServiceError
from interlinear.installation import PYTHON, shell_command
from interlinear.registry.address import DEFAULT_TRACKING, sqlite_file, tracking_uri

RECIPE, MODEL = "rnnsearch_small", "demo-de-en"
OUTPUT = "test.en"  # the model's translations of the test set
STARTUP_TIMEOUT, STOP_TIMEOUT = 180, 30  # seconds to wait for the service to load, and for a child process to end


class DemoRun:
    """The steps of the demo, all in one folder."""

    def __init__(self, folder: Path, console: Console) -> None:
        self.folder = folder
        self.console = console
        self.steps = 0
        # The commands run in the demo's folder, and use the store of the current one, as all others do.
        self.store = sqlite_file(tracking_uri(DEFAULT_TRACKING))
        removed = ("MLFLOW_REGISTRY_URI", "RAY_ADDRESS")
        self.environment = {name: value for name, value in os.environ.items() if name not in removed}
        self.environment["MLFLOW_TRACKING_URI"] = tracking_uri(DEFAULT_TRACKING)

    def run_workflow(self) -> None:
        """Run every step."""
        started = time.monotonic()
        self.step("A small corpus of German and English, prepared for training")
        self.run("prepare", RECIPE, "--data", DATA)
        self.train()
        self.step("Its scores on generated sentences that it has not seen")
        self.say(self.run("evaluate", f"models:/{MODEL}@champion", "--data", DATA, "--output", OUTPUT))
        self.step("The registry's champion, behind a REST service")
        outputs = (self.folder / OUTPUT).read_text(encoding="utf-8").splitlines()
        with self.service() as address:
            answer = self.translate(address, pick_example(read_test_set(), outputs))
        self.show(answer)
        self.step(f"Done in {time.monotonic() - started:.0f} seconds, and nothing is left running. What next?")
        self.print_next_steps()

    def step(self, title: str) -> None:
        """Print a numbered heading."""
        self.steps += 1
        self.console.print(f"\n[bold cyan]{self.steps}[/]  [bold]{title}[/]")

    def say(self, lines: str) -> None:
        """Print lines unchanged."""
        for line in lines.splitlines():
            self.console.print(f"   {line}", markup=False)

    def show_command(self, command: str) -> None:
        """Print a command before its output."""
        self.console.print(f"   $ {command}", style="dim", markup=False, highlight=False, soft_wrap=True)

    def run(self, *arguments: str, shown: bool = True) -> str:
        """Print and run a command, showing its progress; returns its output. Ends the demo if the command fails."""
        if shown:
            self.show_command(shell_command(*arguments))
        with self.child(arguments, stdout=subprocess.PIPE, encoding="utf-8") as child:
            printed, _ = child.communicate()
        if child.returncode:
            say(f"demo: `interlinear {arguments[0]}` ended with exit code {child.returncode}; see the error above.")
            raise typer.Exit(child.returncode if child.returncode > 0 else 128 - child.returncode)
        return str(printed)

    @contextmanager
    def child(self, arguments: Sequence[str], **streams: Any) -> Iterator[subprocess.Popen[Any]]:
        """Run an `interlinear` command in the demo's folder; the process is terminated when the block ends."""
        command = [*PYTHON, "-m", "interlinear", *arguments]
        child = subprocess.Popen(command, cwd=self.folder, env=self.environment, **streams)
        try:
            yield child
        except KeyboardInterrupt:
            child.wait(STOP_TIMEOUT)  # the child got Ctrl-C too and saves its state
            raise
        finally:
            if child.poll() is None:
                child.terminate()
                try:
                    child.wait(STOP_TIMEOUT)
                except subprocess.TimeoutExpired:
                    child.kill()
                    child.wait()

    def train(self) -> None:
        """Train, register and promote a model, unless this version of the code has already trained one."""
        record, code = self.folder / "trained.json", code_hash()
        if record.is_file():
            trained = TrainingRecord.read(record)
            if trained.code == code and trained.version in self.versions():
                self.step("Trained already, by this very code")
                return
        self.step("A translator with guided attention, trained through Ray by two workers, kept in MLflow's registry")
        existing = self.versions()
        chosen = ("training.epochs=5", "training.guide=hmm", "training.lexicon=0.2")  # the data set's default: 8 epochs
        settings = [part for setting in chosen for part in ("--set", setting)]
        self.run("train", RECIPE, "--data", DATA, *settings, "--workers", "2", "--register", MODEL)
        (version,) = set(self.versions()).difference(existing)
        if existing:  # a first version becomes the champion automatically
            self.run("promote", MODEL, version)
        TrainingRecord(code, version).write(record)

    def versions(self) -> list[str]:
        """The versions of the demo's model in its registry."""
        if not self.store.exists():
            return []
        listed = json.loads(self.run("models", "--json", shown=False))
        return [model["version"] for model in listed if model["name"] == MODEL]

    @contextmanager
    def service(self) -> Iterator[str]:
        """Run the service in a child process on a free port until the block ends; yields its URL."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = str(probe.getsockname()[1])
        address, log = f"http://127.0.0.1:{port}", self.folder / "service.log"
        arguments = ("serve", "--model", f"de-en=models:/{MODEL}@champion", "--port", port)
        self.show_command(shell_command(*arguments))
        with log.open("wb") as log_file, self.child(arguments, stdout=log_file, stderr=log_file) as child:
            wait_until_ready(address, child, log)
            yield address

    def translate(self, address: str, sentence: str) -> Any:
        """Send an HTTP request; returns the service's answer."""
        question = {"q": sentence, "source": "de", "target": "en", "explain": True}
        fields = (
            f"-d{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in question.items()
        )
        self.show_command(shlex.join(["curl", f"{address}/translate", *fields]))
        request = urllib.request.Request(
            f"{address}/translate", json.dumps(question).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as response:
            return json.load(response)

    def show(self, answer: Any) -> None:
        """Print the interlinear gloss of the translation and draw its attention matrix."""
        from interlinear.cli.decoding.gloss import print_gloss
        from interlinear.explanation import Explanation
        from interlinear.figures.matrices import attention_matrix

        (explanation,) = [Explanation.model_validate(record) for record in answer["explanations"]]
        self.step("Between the lines: every word over what it became, its place in the translation, its probability")
        self.console.print()
        print_gloss(explanation, self.console, indent=3)
        self.console.print(f"   “{answer['translatedText']}”", markup=False)
        links = " ".join(f"{i}-{j}" for i, j in explanation.alignment)
        self.console.print(f"   [dim]alignment {links}[/]")
        picture = attention_matrix(explanation, self.folder / "attention.png")
        self.console.print(f"   [dim]the weights behind it: {relative_path(picture)}[/]")

    def print_next_steps(self) -> None:
        """Print how to open the playground and the registry's page, and how to train on one's own text."""
        interlinear, mlflow = (shlex.quote(program_path(name)) for name in ("interlinear", "mlflow"))
        for label, command, url in (
            ("playground", f"{interlinear} serve", "http://127.0.0.1:8000"),
            ("registry", f"{mlflow} ui --backend-store-uri {DEFAULT_TRACKING}", "http://127.0.0.1:5000"),
            ("your text", f"{interlinear} train rnnsearch --source F.de --target F.en", "docs/your-own-data.md"),
        ):
            self.console.print(f"   [bold]{label:10}[/]  {command}  [cyan]{url}[/]")


def wait_until_ready(address: str, child: subprocess.Popen[Any], log: Path) -> None:
    """Wait until the service is ready. Raises ServiceError if its process ends or it takes too long."""
    deadline = time.monotonic() + STARTUP_TIMEOUT
    while time.monotonic() < deadline and child.poll() is None:
        try:
            with urllib.request.urlopen(f"{address}/health/ready", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    log_lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    raise ServiceError(
        "demo", f"the service did not come up ({log_lines[-1] if log_lines else 'it said nothing'})", f"see {log}"
    )


def program_path(name: str) -> str:
    """The command for a program installed beside this Python: its name if PATH finds the same program, else its
    path."""
    installed = Path(sys.executable).with_name(name)
    on_path = shutil.which(name)
    return name if on_path and Path(on_path).resolve() == installed.resolve() else relative_path(installed)


def relative_path(path: Path) -> str:
    """The path relative to the current folder if possible."""
    current = Path.cwd()
    return str(path.relative_to(current)) if path.is_relative_to(current) else str(path)
