"""`interlinear demo`: runs the whole workflow once, by the same commands that a user would type."""

import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from interlinear.console import say
from interlinear.evaluation.demo_example import DATA, pick_example, read_test_set
from seq2seq.errors import ServiceError

if TYPE_CHECKING:
    from rich.console import Console

RECIPE, MODEL = "rnnsearch_small", "demo-de-en"
OUTPUT = "test.en"  # the model's translations of the test set
READY_WITHIN, ENDS_WITHIN = 180, 30  # seconds to wait for the service to load, and for a child process to end
MODEL_PACKAGES = ("seq2seq", "registry", "training")  # packages that a trained model depends on, besides the recipes


@dataclass(frozen=True)
class TrainingRecord:
    """The demo's last training: a hash of the code, and the registered version."""

    code: str
    version: str


def demo(
    folder: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for all output.")] = Path("demo"),
    fresh: Annotated[bool, typer.Option("--fresh", help="Train again even if nothing changed.")] = False,
) -> None:
    """Create a small corpus, train through Ray, register, evaluate, serve, translate, and stop all processes again.

    A second run reuses what exists: the corpus and its prepared form, and the model if neither code nor recipe changed.
    """
    from rich.console import Console

    folder.mkdir(parents=True, exist_ok=True)
    demo_run = DemoRun(folder.resolve(), Console(highlight=False, soft_wrap=True))
    started = time.monotonic()
    demo_run.step("A small world of German and English, written by its grammar and made ready for training")
    demo_run.run("prepare", RECIPE, "--data", DATA)
    demo_run.train(fresh)
    demo_run.step("What is it worth, on sentences that it has not seen?")
    demo_run.say(demo_run.run("evaluate", f"models:/{MODEL}@champion", "--data", DATA, "--output", OUTPUT))
    demo_run.step("The registry's champion, behind a REST service")
    outputs = (folder / OUTPUT).read_text(encoding="utf-8").splitlines()
    with demo_run.service() as address:
        answer = demo_run.translate(address, pick_example(read_test_set(folder), outputs))
    demo_run.show(answer)
    demo_run.step(f"Done in {time.monotonic() - started:.0f} seconds, and nothing is left running. What next?")
    demo_run.print_next_steps()


class DemoRun:
    """The steps of the demo, all in one folder."""

    def __init__(self, folder: Path, console: "Console") -> None:
        self.folder = folder
        self.console = console
        self.steps = 0
        # The demo uses its own registry, so these variables are removed.
        removed = ("MLFLOW_TRACKING_URI", "MLFLOW_REGISTRY_URI", "RAY_ADDRESS")
        self.environment = {name: value for name, value in os.environ.items() if name not in removed}

    def step(self, title: str) -> None:
        """Print a numbered heading."""
        self.steps += 1
        self.console.print(f"\n[bold cyan]{self.steps}[/]  [bold]{title}[/]")

    def say(self, lines: str) -> None:
        """Print lines unchanged."""
        for line in lines.splitlines():
            self.console.print(f"   {line}", markup=False)

    def run(self, *arguments: str, shown: bool = True) -> str:
        """Print and run a command, showing its progress; returns its output. Ends the demo if the command fails."""
        if shown:
            self.console.print(f"   [dim]$ interlinear {' '.join(arguments)}[/]")
        with self.child(arguments, stdout=subprocess.PIPE, text=True) as child:
            printed, _ = child.communicate()
        if child.returncode:
            say(f"demo: `interlinear {arguments[0]}` ended with exit code {child.returncode}; the reason stands above.")
            raise typer.Exit(child.returncode if child.returncode > 0 else 128 - child.returncode)
        return str(printed)

    @contextmanager
    def child(self, arguments: Sequence[str], **streams: Any) -> "Iterator[subprocess.Popen[Any]]":
        """Run an `interlinear` command in the demo's folder; the process is terminated when the block ends."""
        command = [sys.executable, "-m", "interlinear", *arguments]
        child = subprocess.Popen(command, cwd=self.folder, env=self.environment, **streams)
        try:
            yield child
        except KeyboardInterrupt:
            child.wait(ENDS_WITHIN)  # the child got Ctrl-C too and saves its state
            raise
        finally:
            if child.poll() is None:
                child.terminate()
                try:
                    child.wait(ENDS_WITHIN)
                except subprocess.TimeoutExpired:
                    child.kill()
                    child.wait()

    def train(self, fresh: bool) -> None:
        """Train, register and promote a model, unless this version of the code has already trained one."""
        record, code = self.folder / "trained.json", code_hash()
        if not fresh and record.is_file():
            trained = TrainingRecord(**json.loads(record.read_text(encoding="utf-8")))
            if trained.code == code and trained.version in self.versions():
                self.step("Trained already, by this very code: `--fresh` trains anew")
                return
        self.step("A translator, trained through Ray by two workers, kept in MLflow's registry")
        existing = self.versions()
        fewer_epochs = ("--set", "training.epochs=5")  # the data set's default is 8
        self.run("train", RECIPE, "--data", DATA, *fewer_epochs, "--workers", "2", "--register", MODEL)
        (version,) = set(self.versions()).difference(existing)
        if existing:  # a first version becomes the champion automatically
            self.run("promote", MODEL, version)
        record.write_text(json.dumps(asdict(TrainingRecord(code, version))), encoding="utf-8")

    def versions(self) -> list[str]:
        """The versions of the demo's model in its registry."""
        if not (self.folder / "mlflow.db").exists():
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
        self.console.print(f"   [dim]$ interlinear {' '.join(arguments)}[/]")
        with log.open("wb") as log_file, self.child(arguments, stdout=log_file, stderr=log_file) as child:
            wait_until_ready(address, child, log)
            yield address

    def translate(self, address: str, sentence: str) -> Any:
        """Send an HTTP request; returns the service's answer."""
        import urllib.request

        question = {"q": sentence, "source": "de", "target": "en", "explain": True}
        self.console.print(
            f"   [dim]$ curl {address}/translate -d q='{sentence}' -d source=de -d target=en -d explain=true[/]"
        )
        request = urllib.request.Request(
            f"{address}/translate", json.dumps(question).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as response:
            return json.load(response)

    def show(self, answer: Any) -> None:
        """Print the interlinear gloss of the translation and draw its attention matrix."""
        from interlinear.decoding.gloss import print_gloss
        from seq2seq.explain import Explanation
        from seq2seq.figures.matrices import attention_matrix

        (explanation,) = [Explanation.model_validate(record) for record in answer["explanations"]]
        self.step("Between the lines: every word over what it became, and the place of that in the translation")
        self.console.print()
        print_gloss(explanation, self.console, indent=3)
        self.console.print(f"   “{answer['translatedText']}”", markup=False)
        links = " ".join(f"{i}-{j}" for i, j in explanation.alignment)
        self.console.print(f"   [dim]alignment {links}[/]")
        picture = attention_matrix(explanation, self.folder / "attention.png")
        self.console.print(f"   [dim]the weights behind it: {relative_path(picture)}[/]")

    def print_next_steps(self) -> None:
        """Print how to open the playground and the registry's page, and how to train on one's own text."""
        store = f"sqlite:///{relative_path(self.folder / 'mlflow.db')}"
        interlinear, mlflow = program_path("interlinear"), program_path("mlflow")
        for label, command, url in (
            ("playground", f"{interlinear} serve --tracking {store}", "http://127.0.0.1:8000"),
            ("registry", f"{mlflow} ui --backend-store-uri {store}", "http://127.0.0.1:5000"),
            ("your text", f"{interlinear} train rnnsearch --data mine.yaml", "docs/your-own-data.md"),
        ):
            self.console.print(f"   [bold]{label:10}[/]  {command}  [cyan]{url}[/]")


def wait_until_ready(address: str, child: "subprocess.Popen[Any]", log: Path) -> None:
    """Wait until the service is ready. Raises ServiceError if its process ends or it takes too long."""
    import urllib.error
    import urllib.request

    deadline = time.monotonic() + READY_WITHIN
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


def code_hash() -> str:
    """SHA-256 of everything that a trained model depends on: code, grammar, recipes, data descriptions, and torch's
    version."""
    from importlib.metadata import version

    from training.package_files import PACKAGE, resource_folder

    digest = hashlib.sha256(version("torch").encode())
    folders = [
        *(PACKAGE.parent / package for package in MODEL_PACKAGES),
        resource_folder("recipes"),
        resource_folder("corpora"),
    ]
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.suffix in (".py", ".yaml"):
                digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


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
