"""What a training tells while it runs, and to whom."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from seq2seq.config import ModelConfig
from seq2seq.generate import Request
from seq2seq.metrics.score import Score
from seq2seq.search import SearchOptions
from seq2seq.text import Tokenizer
from training.data.baselines import Baseline
from training.data.prepare.prepared import PreparedSplit
from training.recipe import Recipe

EXAMPLE_WORDS = (4, 14)  # the least and the most of a text that a model is tried with


@dataclass(frozen=True)
class DevSet:
    """The dev set as text: sources by name, and one or more references, a line each; and how it is scored.

    `tokenised`: the texts, and `target`, whose words stand between spaces.
    `lines`: the number of each in the corpus, from 0, by which its pictures are found in the prepared data.
    """

    sources: dict[str, tuple[str, ...]]
    references: tuple[tuple[str, ...], ...]
    tokenised: frozenset[str] = frozenset()
    lowercase: bool = False
    lines: tuple[int, ...] = ()

    def request(
        self, row: int, options: SearchOptions, split: PreparedSplit, config: ModelConfig, explain: bool = False
    ) -> Request:
        """What a model is to read of a row: its texts and pictures, but for those of several sources that it lacks."""
        first, *_ = self.sources
        texts = {name: lines[row] for name, lines in self.sources.items() if name == first or lines[row].strip()}
        pictures = {name: split.image(name, self.lines[row], grid) for name, grid in config.images.items()}
        images = {name: picture for name, picture in pictures.items() if picture is not None}
        return Request(texts, options, explain, self.tokenised, images)

    def examples(self, tokenizers: Mapping[str, Tokenizer], wanted: int = 3) -> list[dict[str, str]]:
        """Sources to try a model with, as people write them: rows from the whole set that have every text and are short
        enough to be taken in at a glance; without such rows, any that have text."""
        first, *_ = self.sources
        rows = [row for row, line in enumerate(self.sources[first]) if line.strip()]
        whole = [row for row in rows if all(lines[row].strip() for lines in self.sources.values())]
        glance = [row for row in whole if EXAMPLE_WORDS[0] <= len(self.sources[first][row].split()) <= EXAMPLE_WORDS[1]]
        possible = glance or rows
        chosen = sorted({(2 * i + 1) * len(possible) // (2 * wanted) for i in range(wanted)} if possible else ())
        return [
            {
                name: tokenizers[name].detokenize(lines[row]).text if name in self.tokenised else lines[row].strip()
                for name, lines in self.sources.items()
                if lines[row].strip()
            }
            for row in (possible[place] for place in chosen)
        ]


@dataclass(frozen=True)
class RunStorage:
    """Where a run's checkpoints are put besides, and the command that may: see training/loop/checkpoint_upload.py."""

    uri: str
    owner: str


@dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """What is known of a training before its data is ready."""

    recipe: Recipe
    recipe_name: str
    dataset: str
    licence: str
    task: str
    languages: dict[str, str]
    run: Path
    resume: bool = False
    git_commit: str | None = None
    network_weights: Mapping[str, Path] = field(default_factory=dict)  # weights that image sources' networks begin with
    stated: frozenset[str] = (
        frozenset()
    )  # keys of the recipe that were set for this training (training/runs/small_data.py)

    @property
    def name(self) -> str:
        return self.run.name

    @property
    def default_name(self) -> str:
        """The run's name where none is given."""
        return f"{self.recipe_name}-{self.dataset}"


@dataclass(frozen=True, kw_only=True)
class TrainingJob(TrainingPlan):
    """One training: everything that a worker needs to know. Picklable."""

    prepared: Path
    dev: DevSet
    init_from: Path | None = None  # the bundle whose weights it starts from
    run_storage: RunStorage | None = None


@dataclass(frozen=True)
class StartReport:
    """A training begins, or goes on."""

    parameters: int
    pairs: int
    updates_per_epoch: int
    updates_done: int  # updates of an earlier process


@dataclass(frozen=True)
class StepReport:
    """The updates since the last report; sums over all workers.

    The loss is in nats a target word, END counted; with `objective: risk` it is the risk that is expected of a
    sentence. The perplexity is that of the references in either case.
    """

    update: int
    updates: int  # if every epoch is run
    epoch: int
    loss: float
    perplexity: float
    learning_rate: float
    gradient_norm: float
    tokens_per_second: float
    eta_seconds: float
    split_batches: int = 0  # parts of batches that did not fit into a worker's memory, in all


@dataclass(frozen=True)
class EpochReport:
    """An epoch and what the dev set says of it; the training loss is what it is in a StepReport."""

    epoch: int
    update: int
    train_loss: float
    dev_perplexity: float
    dev_bleu: Score
    learning_rate: float
    seconds: float  # of training in all, over all processes
    epoch_seconds: float  # of training in this epoch
    improved: bool
    dev_rouge: Score | None = None  # ROUGE-L, where it decides


@dataclass(frozen=True)
class Outcome:
    """How a training ended. `signal`: it was interrupted, its state is saved, and there is no bundle yet."""

    run: Path
    epochs: int
    updates: int
    weights_sha256: str | None = None
    bundle: Path | None = None
    dev_bleu: Score | None = None
    dev_perplexity: float | None = None
    averaged: tuple[int, ...] = ()
    signal: int = 0
    baseline: Baseline | None = None  # of rank 0, where the dev set was scored


class Observer(Protocol):
    """Hears of a training as it goes, from the worker that it was given to."""

    def started(self, job: TrainingJob, start: StartReport) -> None: ...

    def step(self, report: StepReport) -> None: ...

    def epoch(self, report: EpochReport) -> None: ...

    def warned(self, message: str) -> None: ...

    def finished(self, outcome: Outcome) -> None: ...
