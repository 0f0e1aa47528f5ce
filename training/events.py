"""Descriptions of a training (plan, job), the reports that it emits while it runs, and the observer interface."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from interlinear.config import ModelConfig
from interlinear.generation.request import Request
from interlinear.metrics.metric import Preprocessing, default_tokenization
from interlinear.metrics.score import Score
from interlinear.search import SearchOptions
from interlinear.text import Tokenizer, join_subwords
from training.data.baselines import Baseline
from training.data.prepare.prepared import PreparedSplit
from training.recipe import Recipe

EXAMPLE_WORDS = (4, 14)  # the fewest and the most words of an example source


@dataclass(frozen=True)
class DevSet:
    """The dev set as text: sources by name, one or more references of one line per row, and how it is scored.

    `tokenised`: the texts, and possibly `target`, whose words are separated by spaces.
    `lines`: the line number of each row in the corpus, from 0; it finds the row's images in the prepared data.
    `language`: of the references; None if unknown.
    """

    sources: dict[str, tuple[str, ...]]
    references: tuple[tuple[str, ...], ...]
    tokenised: frozenset[str] = frozenset()
    lowercase: bool = False
    lines: tuple[int, ...] = ()
    language: str | None = None

    @property
    def preprocessing(self) -> Preprocessing:
        """How outputs and references are compared."""
        tokenize = default_tokenization(self.language, "target" in self.tokenised)
        return Preprocessing(tokenize, self.lowercase, self.language)

    def request(
        self, row: int, options: SearchOptions, split: PreparedSplit, config: ModelConfig, explain: bool = False
    ) -> Request:
        """The model's input for one row: its texts and images. With several sources, a missing one is left out."""
        first, *_ = self.sources
        texts = {name: lines[row] for name, lines in self.sources.items() if name == first or lines[row].strip()}
        all_images = {name: split.image(name, self.lines[row], grid) for name, grid in config.images.items()}
        images = {name: image for name, image in all_images.items() if image is not None}
        return Request(texts, options, explain, self.tokenised, images)

    def example_rows(self, rows: Iterable[int]) -> list[int]:
        """The rows that are good examples for trying a model: with every text, and EXAMPLE_WORDS words in the first
        source. Without such rows, all rows with text."""
        first, *_ = self.sources
        with_text = [row for row in rows if self.sources[first][row].strip()]
        complete = [row for row in with_text if all(lines[row].strip() for lines in self.sources.values())]
        least, most = EXAMPLE_WORDS
        return [row for row in complete if least <= len(self.sources[first][row].split()) <= most] or with_text

    def written(self, name: str, line: str, tokenizer: Tokenizer) -> str:
        """A line of a source or reference as text for people, detokenised."""
        if name not in self.tokenised:
            return line.strip()
        return tokenizer.detokenize(join_subwords(line, tokenizer.config.segmentation)).text


@dataclass(frozen=True)
class RunStorage:
    """The storage to which a run's checkpoints are uploaded, and the id of the command that may write there. See
    training/loop/checkpoints/checkpoint_upload.py."""

    uri: str
    owner: str


@dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """The facts about a training before its data is prepared."""

    recipe: Recipe
    recipe_name: str
    dataset: str
    licence: str
    task: str
    languages: dict[str, str]
    run: Path
    resume: bool = False
    git_commit: str | None = None
    network_weights: Mapping[str, Path] = field(default_factory=dict)  # initial weights of the image sources' networks
    stated: frozenset[str] = frozenset()  # recipe keys that were set for this training (training/runs/small_data.py)
    cuda_graphs: bool = True  # on GPUs; not part of the recipe, so a resumed run may have another value

    @property
    def name(self) -> str:
        return self.run.name

    @property
    def default_name(self) -> str:
        """The run's name where the user gives none."""
        return f"{self.recipe_name}-{self.dataset}"


@dataclass(frozen=True, kw_only=True)
class TrainingJob(TrainingPlan):
    """One training: all inputs of a worker. Picklable."""

    prepared: Path
    dev: DevSet
    init_from: Path | None = None  # the bundle whose weights it starts from
    run_storage: RunStorage | None = None


@dataclass(frozen=True)
class StartReport:
    """A training starts or resumes."""

    parameters: int
    pairs: int
    updates_per_epoch: int
    updates_done: int  # updates done by earlier processes


@dataclass(frozen=True)
class StepReport:
    """The updates since the last report; sums over all workers.

    The loss is in nats per target word, the end symbol included; with `objective: risk` it is the expected risk per
    sentence. The perplexity is computed on the references in both cases.
    """

    update: int
    updates: int  # in total, if every epoch is run
    epoch: int
    loss: float
    perplexity: float
    learning_rate: float
    gradient_norm: float
    tokens_per_second: float
    eta_seconds: float
    split_batches: int = 0  # how many times a worker had to split its part of a batch for lack of memory, so far
    guide: float | None = None  # loss of guided attention in nats per linked target word, unweighted; part of the loss


@dataclass(frozen=True)
class EpochReport:
    """The result of an epoch on the dev set. The training loss is defined as in StepReport."""

    epoch: int
    update: int
    train_loss: float
    dev_perplexity: float
    dev_bleu: Score
    learning_rate: float
    seconds: float  # of training, summed over all processes of the run
    epoch_seconds: float  # of training in this epoch
    improved: bool
    dev_rouge: Score | None = None  # ROUGE-L, where it is the deciding score
    train_guide: float | None = None  # the guide's loss as in StepReport
    dev_gate: float | None = None  # mean of the contextual gates: the share of the annotations


@dataclass(frozen=True)
class Outcome:
    """How a training ended. `signal`: the signal that interrupted it; its state is saved, and there is no bundle
    yet."""

    run: Path
    epochs: int
    updates: int
    weights_sha256: str | None = None
    bundle: Path | None = None
    dev_bleu: Score | None = None
    dev_perplexity: float | None = None
    averaged: tuple[int, ...] = ()
    signal: int = 0
    baseline: Baseline | None = None  # from rank 0, where the dev set was scored


class Observer(Protocol):
    """Receives the events of a training from the worker that it is attached to."""

    def started(self, job: TrainingJob, start: StartReport) -> None: ...

    def step(self, report: StepReport) -> None: ...

    def epoch(self, report: EpochReport) -> None: ...

    def warned(self, message: str) -> None: ...

    def finished(self, outcome: Outcome) -> None: ...


class Observers:
    """Several observers as one; each event is passed to all of them, in order."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = observers

    def started(self, job: TrainingJob, start: StartReport) -> None:
        for observer in self._observers:
            observer.started(job, start)

    def step(self, report: StepReport) -> None:
        for observer in self._observers:
            observer.step(report)

    def epoch(self, report: EpochReport) -> None:
        for observer in self._observers:
            observer.epoch(report)

    def warned(self, message: str) -> None:
        for observer in self._observers:
            observer.warned(message)

    def finished(self, outcome: Outcome) -> None:
        for observer in self._observers:
            observer.finished(outcome)
