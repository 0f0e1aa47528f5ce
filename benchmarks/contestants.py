"""The trainers that are compared, each in its own process: ours, JoeyNMT and OpenNMT-py.

All train the reference model - 8,000 words a side, embedding 256, a bidirectional LSTM encoder of two layers, an LSTM
decoder of two layers of 256, additive attention, Adam, 32 sentences a batch, no dropout - on the same text files.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from benchmarks.reporting import ROOT

PEERS = Path(__file__).parent / "peers"
LEARNED = 300  # updates of the models for the search benchmark; their outputs have 20 words whatever they have learned
NEVER = 1_000_000  # updates
JOEYNMT, OPENNMT = "JoeyNMT 2.3.0", "OpenNMT-py 3.5.1"


@dataclass(frozen=True)
class Result:
    """One run: seconds a step or a batch of sentences, several measurements."""

    seconds: list[float]
    parameters: int
    threads: int


class Toolkit(Protocol):
    @property
    def name(self) -> str:
        """The name in tables."""

    def train(self, updates: int) -> Result:
        """Seconds a step in the first updates of a training."""

    def learn(self) -> None:
        """Train a model for the search benchmark, if there is none yet."""

    def search(self, batch: int) -> Result:
        """Seconds for so many of the 640 test sentences that are searched together, beam 5, 20 words each."""


@dataclass(frozen=True)
class Arena:
    """The folder created by peers/set_up.sh, and the number of threads of each contestant."""

    folder: Path
    threads: int

    def __post_init__(self) -> None:
        if not (self.folder / "data" / "vocabulary.txt").is_file():
            sys.exit(f"{self.folder}: the peers are not there. Run benchmarks/peers/set_up.sh {self.folder}")

    @property
    def python(self) -> Path:
        """The interpreter of the peers' environment; without it only ours takes part."""
        return self.folder / "venv" / "bin" / "python"

    def run(self, name: str, command: Sequence[str | Path], environment: Mapping[str, str]) -> Result:
        """Run one contestant to its end. It writes its result to the path in place of OUTPUT in the command."""
        log = self.folder / f"{name}.log"
        with tempfile.TemporaryDirectory() as scratch:
            output = Path(scratch) / "record.json"
            words = [str(output) if word == "OUTPUT" else str(word) for word in command]
            threads = {"OMP_NUM_THREADS": str(self.threads)}
            with log.open("w") as file:
                ended = subprocess.run(
                    words, cwd=scratch, env={**os.environ, **threads, **environment},
                    stdout=file, stderr=subprocess.STDOUT, check=False,
                )  # fmt: skip
            record = json.loads(output.read_text()) if output.exists() else {"seconds": []}
        if not record["seconds"]:
            sys.exit(f"{name} ended with code {ended.returncode} and measured nothing; what it said is in {log}")
        return Result(**record)

    def run_peer(self, name: str, what: str, arguments: Sequence[str | Path]) -> Result:
        """A peer's own command, with timing."""
        # OpenNMT-py's checkpoints contain an argparse.Namespace, which torch does not unpickle by default.
        environment = {"TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1"}
        command = [self.python, PEERS / "timed.py", "OUTPUT", what, *arguments]
        return self.run(f"{name}-{what.rpartition('-')[2]}", command, environment)

    def configuration(self, name: str, values: Mapping[str, int]) -> Path:
        """A peer's configuration with the placeholders in capitals replaced."""
        text = (PEERS / name).read_text()
        for word, value in {**values, "FOLDER": self.folder}.items():
            text = text.replace(word, str(value))
        path = self.folder / name
        path.write_text(text)
        return path


@dataclass(frozen=True)
class JoeyNMT:
    arena: Arena
    name: str = JOEYNMT

    def train(self, updates: int, validate: int = NEVER) -> Result:
        configuration = self.configuration(updates, validate, batch=32)
        return self.arena.run_peer("joeynmt", "training", ["joeynmt", "train", configuration, "--skip-test"])

    def learn(self) -> None:
        if not (self.arena.folder / "joeynmt" / "best.ckpt").exists():
            self.train(LEARNED, validate=LEARNED)

    def configuration(self, updates: int, validate: int, batch: int) -> Path:
        values = {"UPDATES": updates, "VALIDATION": validate, "SEARCH_BATCH": batch}
        return self.arena.configuration("joeynmt.yaml", values)

    def search(self, batch: int) -> Result:
        configuration = self.configuration(LEARNED, LEARNED, batch)
        output = self.arena.folder / "joeynmt-output"
        return self.arena.run_peer("joeynmt", "joeynmt-search", ["joeynmt", "-o", output, "test", configuration])


@dataclass(frozen=True)
class OpenNMT:
    arena: Arena
    name: str = OPENNMT

    def train(self, updates: int, save: int = NEVER) -> Result:
        configuration = self.arena.configuration("opennmt.yaml", {})
        steps = ["-train_steps", str(updates), "-save_checkpoint_steps", str(save)]
        model = self.arena.folder / "opennmt" / ("model" if save == updates else "unused")
        command = ["onmt.bin.train", "-config", str(configuration), *steps, "-save_model", str(model)]
        return self.arena.run_peer("opennmt", "training", command)

    @property
    def model(self) -> Path:
        return self.arena.folder / "opennmt" / f"model_step_{LEARNED}.pt"

    def learn(self) -> None:
        if not self.model.exists():
            self.train(LEARNED, save=LEARNED)

    def search(self, batch: int) -> Result:
        folder = self.arena.folder
        command = ["onmt.bin.translate", "-model", self.model, "-src", folder / "data" / "test.source"]
        command += ["-output", folder / "opennmt-output", "-beam_size", "5", "-batch_size", str(batch)]
        command += ["-min_length", "20", "-max_length", "20", "-length_penalty", "avg", "-alpha", "1.0"]
        return self.arena.run_peer("opennmt", "opennmt-search", [str(word) for word in command])


@dataclass(frozen=True)
class Interlinear:
    arena: Arena
    precision: Literal["fp32", "bf16", "int8"]  # int8 is for search
    settings: tuple[str, ...] = ()
    called: str = ""  # after the settings are applied
    workers: int = 1  # of training; of several, each has one thread
    compiled: bool = False  # the step of the search

    @property
    def name(self) -> str:
        return ", ".join(filter(None, [f"Interlinear {self.precision}", self.called, self.compiled and "compiled"]))

    def train(self, updates: int, verb: str = "train") -> Result:
        precision = "fp32" if self.precision == "int8" else self.precision
        settings = [f"training.precision={precision}", *self.settings]
        words = [word for setting in settings for word in ("--set", setting)]
        return self.run([verb, "--updates", str(updates), "--workers", str(self.workers), *words])

    def learn(self) -> None:
        if not (self.arena.folder / "interlinear" / "bundle").exists():
            self.train(LEARNED, "learn")

    def search(self, batch: int) -> Result:
        compiled = ["--compiled"] if self.compiled else []
        return self.run(["search", "--precision", self.precision, "--slots", str(batch), *compiled])

    def run(self, arguments: Sequence[str]) -> Result:
        command = [sys.executable, "-m", "benchmarks.ours", str(self.arena.folder), "OUTPUT", *arguments]
        return self.arena.run(f"interlinear-{arguments[0]}", command, {"PYTHONPATH": str(ROOT)})


def peers(arena: Arena) -> list[Toolkit]:
    """The peers, where their environment is there."""
    return [JoeyNMT(arena), OpenNMT(arena)] if arena.python.exists() else []
