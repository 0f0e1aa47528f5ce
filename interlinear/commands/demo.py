"""`interlinear demo`: the whole road once, by the same commands that a person would type."""

import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from interlinear.console import say
from seq2seq.errors import ServiceError

if TYPE_CHECKING:
    from rich.console import Console

RECIPE, DATA, MODEL = "rnnsearch_small", "demo", "demo-de-en"
OUTPUT = "test.en"  # what the model makes of the test set
READY_WITHIN, ENDS_WITHIN = 180, 30  # seconds that the service may take to load, and a child to end
MODEL_PACKAGES = ("seq2seq", "registry", "training")  # with the recipes, what a trained model depends on


@dataclass(frozen=True)
class TrainingRecord:
    """What the demo remembers of its last training: the code that trained, and the version that came of it."""

    code: str
    version: str


@dataclass(frozen=True)
class DemoSentence:
    """A sentence of the test set, its reference, and the gold alignment in Pharaoh format."""

    source: str
    reference: str
    alignment: str


def demo(
    folder: Annotated[Path, typer.Option(metavar="FOLDER", help="Where all that it makes goes.")] = Path("demo"),
    fresh: Annotated[bool, typer.Option("--fresh", help="Train anew, also where nothing changed.")] = False,
) -> None:
    """Make a small corpus, train through Ray, register, evaluate, serve, translate - and leave nothing running.

    A second time what is there is used again: the corpus and its prepared form, and the model if neither code nor
    recipe changed.
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
        # The demo has a registry of its own, whatever the surroundings say.
        own = ("MLFLOW_TRACKING_URI", "MLFLOW_REGISTRY_URI", "RAY_ADDRESS")
        self.environment = {name: value for name, value in os.environ.items() if name not in own}

    def step(self, title: str) -> None:
        """A heading."""
        self.steps += 1
        self.console.print(f"\n[bold cyan]{self.steps}[/]  [bold]{title}[/]")

    def say(self, lines: str) -> None:
        """Lines as they are."""
        for line in lines.splitlines():
            self.console.print(f"   {line}", markup=False)

    def run(self, *arguments: str, shown: bool = True) -> str:
        """Show and run a command, its progress passing through; returns what it printed. Ends the demo if it fails."""
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
        """A command of ours in the demo's folder, that does not outlive this block."""
        command = [sys.executable, "-m", "interlinear", *arguments]
        child = subprocess.Popen(command, cwd=self.folder, env=self.environment, **streams)
        try:
            yield child
        except KeyboardInterrupt:
            child.wait(ENDS_WITHIN)  # Ctrl-C reached it too: let it save
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
        """Train, register and promote a model, unless there is one of this very code."""
        record, code = self.folder / "trained.json", code_hash()
        if not fresh and record.is_file():
            trained = TrainingRecord(**json.loads(record.read_text(encoding="utf-8")))
            if trained.code == code and trained.version in self.versions():
                self.step("Trained already, by this very code: `--fresh` trains anew")
                return
        self.step("A translator, trained through Ray by two workers, kept in MLflow's registry")
        before = self.versions()
        quick = ("--set", "training.epochs=5")  # of the eight that the data set asks for
        self.run("train", RECIPE, "--data", DATA, *quick, "--workers", "2", "--register", MODEL)
        (version,) = set(self.versions()).difference(before)
        if before:  # the first version is the champion by itself
            self.run("promote", MODEL, version)
        record.write_text(json.dumps(asdict(TrainingRecord(code, version))), encoding="utf-8")

    def versions(self) -> list[str]:
        """The versions that the demo's registry has of its model."""
        if not (self.folder / "mlflow.db").exists():
            return []
        listed = json.loads(self.run("models", "--json", shown=False))
        return [model["version"] for model in listed if model["name"] == MODEL]

    @contextmanager
    def service(self) -> Iterator[str]:
        """The service as a process of its own, on a free port, until the block ends; gives its address."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        address, log = f"http://127.0.0.1:{port}", self.folder / "service.log"
        arguments = ("serve", "--model", f"de-en=models:/{MODEL}@champion", "--port", port)
        self.console.print(f"   [dim]$ interlinear {' '.join(arguments)}[/]")
        with log.open("wb") as said, self.child(arguments, stdout=said, stderr=said) as child:
            wait_until_ready(address, child, log)
            yield address

    def translate(self, address: str, sentence: str) -> Any:
        """A real request over HTTP; the service's answer."""
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
        """The translation between the lines of its source, and the picture."""
        from interlinear.decoding.gloss import print_gloss
        from seq2seq.explain import Explanation
        from seq2seq.figures.matrices import attention_matrix

        (explanation,) = [Explanation.model_validate(one) for one in answer["explanations"]]
        self.step("Between the lines: every word over what it became, and the place of that in the translation")
        self.console.print()
        print_gloss(explanation, self.console, indent=3)
        self.console.print(f"   “{answer['translatedText']}”", markup=False)
        links = " ".join(f"{i}-{j}" for i, j in explanation.alignment)
        self.console.print(f"   [dim]alignment {links}[/]")
        picture = attention_matrix(explanation, self.folder / "attention.png")
        self.console.print(f"   [dim]the weights behind it: {relative_path(picture)}[/]")

    def print_next_steps(self) -> None:
        """Three lines: the playground, the registry's page, one's own text."""
        store = f"sqlite:///{relative_path(self.folder / 'mlflow.db')}"
        ours, theirs = program_path("interlinear"), program_path("mlflow")
        for label, command, where in (
            ("playground", f"{ours} serve --tracking {store}", "http://127.0.0.1:8000"),
            ("registry", f"{theirs} ui --backend-store-uri {store}", "http://127.0.0.1:5000"),
            ("your text", f"{ours} train rnnsearch --data mine.yaml", "docs/your-own-data.md"),
        ):
            self.console.print(f"   [bold]{label:10}[/]  {command}  [cyan]{where}[/]")


def wait_until_ready(address: str, child: "subprocess.Popen[Any]", log: Path) -> None:
    """Return when the service answers that it is ready. Raises ServiceError when it ended, or takes too long."""
    import urllib.error
    import urllib.request

    deadline = time.monotonic() + READY_WITHIN
    while time.monotonic() < deadline and child.poll() is None:
        try:
            with urllib.request.urlopen(f"{address}/health/ready", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    said = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    raise ServiceError("demo", f"the service did not come up ({said[-1] if said else 'it said nothing'})", f"see {log}")


def pick_example(rows: Iterable[DemoSentence], outputs: Iterable[str], most_words: int = 11) -> str:
    """The short sentence to show: of those whose output scores best against the reference - where any is right, of
    those that are equal to it - the one whose links cross most."""
    from sacrebleu.metrics import CHRF

    chrf = CHRF()
    scored = [
        (chrf.sentence_score(output, [row.reference]).score, count_crossings(row.alignment), row.source)
        for row, output in zip(rows, outputs, strict=True)
        if len(row.source.split()) <= most_words
    ]
    return max(scored)[-1]


def read_test_set(folder: Path) -> Iterator[DemoSentence]:
    """The demo's test set."""
    from training.data.dataset import open_dataset, read_rows

    dataset = open_dataset(DATA, generated=folder / "prepared" / "generated")
    for row in read_rows(dataset, "test", ("source", "target", "alignment")):
        yield DemoSentence(*row.texts)


def count_crossings(pharaoh: str) -> int:
    """Pairs of links that cross."""
    links = [tuple(map(int, link.split("-"))) for link in pharaoh.split()]
    return sum((i - other_i) * (j - other_j) < 0 for (i, j), (other_i, other_j) in combinations(links, 2))


def code_hash() -> str:
    """SHA-256 over all that a trained model depends on: code, grammar, recipes, descriptions, and torch's version."""
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
    """How to call a program that is installed beside this Python: by its name where that finds it, else by its path."""
    beside = Path(sys.executable).with_name(name)
    found = shutil.which(name)
    return name if found and Path(found).resolve() == beside.resolve() else relative_path(beside)


def relative_path(path: Path) -> str:
    """A path as short as it can be said from here."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
