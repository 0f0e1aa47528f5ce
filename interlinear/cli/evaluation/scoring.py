"""Scores models and files of outputs on a test set; shared by `evaluate`, `compare` and `figure`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from interlinear.alignment.links import Link, Symmetrization
from interlinear.cli.console import progress, say
from interlinear.cli.decoding.alignment import Aligner, SentencePair, align_pairs, check_reading
from interlinear.cli.decoding.model_loading import load_generation
from interlinear.cli.decoding.translation import InputLine, translate_lines
from interlinear.cli.evaluation.test_sets import UNEDITED, TestSet, read_test_set
from interlinear.cli.options import SYSTEM_HELP, AlignmentKind, Lowercase, TestSetSource, Tokenize
from interlinear.config import Precision
from interlinear.errors import UsageError
from interlinear.explanation import Span
from interlinear.generation.generator import SequenceGenerator
from interlinear.generation.request import Candidate
from interlinear.metrics import catalogue
from interlinear.metrics.catalogue import ALIGNMENT, DEFAULT_METRICS
from interlinear.metrics.metric import (
    Metric,
    Preprocessing,
    ReferenceSet,
    Statistics,
    SystemOutputs,
    Task,
    check_line_counts,
)
from interlinear.metrics.significance import TESTS, compare
from interlinear.registry.bundle_folder import suggest_registered_name
from interlinear.registry.names import FolderName, parse_model_name
from interlinear.search import SearchOptions
from training.data.text_lines import read_file

MetricKind = Literal["texts", "alignments"]
TEXTS: MetricKind = "texts"
ALIGNMENTS: MetricKind = "alignments"


@dataclass(frozen=True)
class System:
    """A model or, with generation None, a file of outputs or the unedited machine translations (`unedited`).

    `backward`, a model of the opposite direction, takes part in the alignments; `symmetrization` combines both
    directions.
    """

    name: str
    generation: SequenceGenerator | None
    backward: SequenceGenerator | None = None
    symmetrization: Symmetrization | None = None

    @property
    def fields(self) -> tuple[str, ...]:
        """The text fields that it reads."""
        return () if self.generation is None else tuple(self.generation.bundle.card.model.texts)

    @property
    def pictures(self) -> tuple[str, ...]:
        """The image fields that it reads."""
        return () if self.generation is None else tuple(self.generation.bundle.card.model.images)

    @property
    def task(self) -> Task | None:
        return None if self.generation is None else self.generation.bundle.card.task

    @property
    def language(self) -> str | None:
        """The language of its output."""
        return None if self.generation is None else self.generation.bundle.card.languages.get("target")

    def outputs(
        self,
        test_set: TestSet,
        options: SearchOptions | None = None,
        by: AlignmentKind | None = None,
        label: str = "translating",
        search: bool = True,
        found: Callable[[Candidate | None], object] | None = None,
    ) -> SystemOutputs:
        """Its outputs for a test set, searched with `options` or else its recipe's, and its alignments if the set has
        gold ones.

        Without `search` a model's outputs are empty; alignment metrics do not use them. `found` is called with the best
        output of every line in order, None for a line that the model cannot read.

        Raises UsageError, and DataError for a file with another number of lines.
        """
        if self.name == UNEDITED:
            return SystemOutputs.from_lines(test_set.unedited())
        if self.generation is None:
            lines = list(read_file(Path(self.name)))
            check_line_counts(self.name, len(lines), test_set.name, len(test_set.references[0]))
            report_empty_outputs(self.name, [number for number, line in enumerate(lines, 1) if not line.strip()])
            return SystemOutputs.from_lines(lines)
        lines = [""] * test_set.rows
        if search:
            options = options or self.generation.bundle.card.search
            lines = translate_test_set(self.name, self.generation, test_set, options, label, found)
        if not test_set.gold:
            return SystemOutputs.from_lines(lines)
        for generation in filter(None, (self.generation, self.backward)):
            if by:
                check_reading(f"--by {by}", by, generation.attention_kinds)
        aligner = Aligner(self.generation, self.backward, self.symmetrization, by, test_set.raw)
        kind = by or self.generation.best_reading.name
        return SystemOutputs.from_lines(
            lines,
            align_test_set(self.name, aligner, test_set),
            f"{kind},{self.symmetrization}" if self.symmetrization else kind,
        )


def is_output_file(name: str) -> bool:
    """Whether MODEL names outputs instead of a model: a file (or pipe) with one output per line, or the machine
    translations."""
    return name == UNEDITED or (Path(name).exists() and not Path(name).is_dir())


def load_system(
    name: str,
    tracking: str | None,
    device: str,
    precision: Precision = "fp32",
    width: int | None = None,
    shortlist: bool = False,
) -> System:
    """The system that MODEL names. Raises the errors of `load_generation`."""
    if is_output_file(name):
        return System(name, None)
    if "," not in name and isinstance(parse_model_name(name), FolderName) and not Path(name).exists():
        raise UsageError(
            name, "there is no such file or folder", suggest_registered_name(name, tracking) or f"name {SYSTEM_HELP}"
        )
    return System(name, load_generation(name, tracking, device, precision, width, shortlist))


@dataclass(frozen=True)
class ScoringRun:
    """Systems by name, their test set, the metrics that it supports, and the reasons why other metrics are left out."""

    systems: Mapping[str, System]
    test_set: TestSet
    answers: ReferenceSet
    metrics: Sequence[Metric]
    left_out: Mapping[str, str]

    @classmethod
    def of(
        cls,
        systems: Mapping[str, System],
        test_set_source: TestSetSource,
        metrics: str | None,
        tokenize: Tokenize = None,
        lowercase: Lowercase = None,
        kind: MetricKind | None = None,
    ) -> "ScoringRun":
        """Read the test set and select the metrics. metrics: as in --metrics. Raises UsageError, DataError."""
        models = all(system.generation for system in systems.values())
        aligned = any(metric.name in ALIGNMENT for metric in select_metrics(metrics, kind=kind))
        test_set = read_test_set(test_set_source, [*systems.values()], aligned and models)
        answers = test_set.answers()
        requested = select_metrics(metrics, test_set.task, test_set.reading(tokenize, lowercase), kind)
        return cls(systems, test_set, answers, *computable_metrics(requested, answers))

    def outputs(self) -> dict[str, SystemOutputs]:
        """The outputs of every system, by name; their alignments by the best kind of attention that each has."""
        search = needs_outputs(self.metrics)
        return {name: system.outputs(self.test_set, label=name, search=search) for name, system in self.systems.items()}

    def statistics(self, outputs: Mapping[str, SystemOutputs]) -> dict[Metric, dict[str, Statistics]]:
        """Sentence-level statistics of every metric and system."""
        return {
            metric: {name: metric.statistics(system_outputs, self.answers) for name, system_outputs in outputs.items()}
            for metric in self.metrics
        }

    def signatures(self, outputs: Mapping[str, SystemOutputs]) -> dict[Metric, str]:
        """The signature of every metric over the outputs of all systems."""
        together = SystemOutputs.concatenate(outputs.values())
        return {metric: metric.signature(together, self.answers) for metric in self.metrics}


def select_metrics(
    names: str | None,
    task: Task | None = None,
    reading: Preprocessing | None = None,
    kind: MetricKind | None = None,
) -> tuple[Metric, ...]:
    """The metrics of --metrics, or the task's default ones; with a `kind` only metrics of texts, or of alignments.

    Raises UsageError for an unknown metric, and if none is of that kind.
    """
    default = ALIGNMENT if kind == ALIGNMENTS else DEFAULT_METRICS[task or "translation"]
    requested = names.split(",") if names is not None else default
    selected = catalogue.select_metrics((name.strip() for name in requested), reading or Preprocessing())
    if kind is None:
        return selected
    metrics = tuple(metric for metric in selected if (metric.name in ALIGNMENT) == (kind == ALIGNMENTS))
    if not metrics:
        raise UsageError(
            f"--metrics {names}", "is none of texts", "score alignments by `interlinear evaluate-alignments`"
        )
    return metrics


def needs_alignments(names: str | None) -> bool:
    """Whether any of the metrics of --metrics is an alignment metric. Raises UsageError if one is unknown."""
    return any(metric.name in ALIGNMENT for metric in select_metrics(names))


def needs_outputs(metrics: Sequence[Metric]) -> bool:
    """Whether any of the metrics scores output texts."""
    return any(metric.name not in ALIGNMENT for metric in metrics)


def computable_metrics(metrics: Sequence[Metric], answers: ReferenceSet) -> tuple[list[Metric], dict[str, str]]:
    """The metrics that a test set supports, and the reasons for leaving out the others, which are also printed.

    Raises UsageError if none is left.
    """
    left_out = {metric.name: reason for metric in metrics if (reason := metric.missing_requirement(answers))}
    if len(left_out) == len(metrics):
        reasons = "; ".join(dict.fromkeys(left_out.values()))
        raise UsageError(
            "the scores", f"{', '.join(left_out)} cannot be computed here: {reasons}", "ask for other scores, or data"
        )
    for reason in dict.fromkeys(left_out.values()):
        names = ", ".join(name for name, explanation in left_out.items() if explanation == reason)
        say(f"left out: {names}: {reason}.")
    return [metric for metric in metrics if metric.name not in left_out], left_out


def translate_test_set(
    name: str,
    generation: SequenceGenerator,
    test_set: TestSet,
    options: SearchOptions,
    label: str,
    found: Callable[[Candidate | None], object] | None = None,
) -> list[str]:
    """The output for every line. Lines that the model cannot read get an empty output; their number and the first are
    printed. `found`: as in `System.outputs`."""
    lines = input_lines(generation, test_set)
    hypotheses, problems, empty = [], [], []
    searched = translate_lines(generation, iter([lines]), options, tokenised=test_set.tokenised)
    for outcome in progress(searched, label, total=len(lines)):
        best = outcome.answer.candidates[0] if outcome.answer else None
        hypotheses.append(best.text if best else "")
        if found:
            found(best)
        if outcome.problem:
            problems.append(outcome)
        elif not hypotheses[-1].strip():
            empty.append(outcome.line.number)
    if problems:
        first = problems[0]
        count = "1 line counts" if len(problems) == 1 else f"{len(problems)} lines count"
        say(f"{name}: {count} as empty; first {first.line.where}: {first.problem}")
    report_empty_outputs(name, empty)
    return hypotheses


def input_lines(generation: SequenceGenerator, test_set: TestSet) -> list[InputLine]:
    """The lines of a test set with all inputs of the model."""
    model = generation.bundle.card.model
    first, *others = model.texts
    images = {name: test_set.pictures[name] for name in model.images if name in test_set.pictures}
    return [
        InputLine(
            row + 1,
            f"line {row + 1}",
            test_set.texts[first][row],
            {name: test_set.texts[name][row] for name in others},
            {name: picture for name, pictures in images.items() if (picture := pictures[row])},
        )
        for row in range(test_set.rows)
    ]


def report_empty_outputs(name: str, lines: Sequence[int]) -> None:
    """Print the number of empty outputs and the first line with one."""
    if len(lines) == 1:
        say(f"{name}: 1 output is empty, in line {lines[0]}. It is scored as it is.")
    elif lines:
        say(f"{name}: {len(lines)} outputs are empty, the first in line {lines[0]}. They are scored as they are.")


def align_test_set(name: str, aligner: Aligner, test_set: TestSet) -> list[frozenset[Link]]:
    """Links between every source and its first reference by forced decoding with one or two models, in word positions
    of the gold links. A pair that is empty or too long for the model has no links; the number of such pairs is printed.
    """
    texts = list(zip(test_set.sources, test_set.references[0], strict=True))
    pairs = (SentencePair(number, source, target) for number, (source, target) in enumerate(texts))
    links_by_line: list[frozenset[Link]] = []
    unaligned = 0
    for outcome in progress(align_pairs(aligner, pairs), "aligning", total=len(texts)):
        source, target = texts[outcome.number]
        unaligned += not outcome.alignment.source
        sources = overlapping_words(outcome.alignment.source, test_set.word_spans(source))
        targets = overlapping_words(outcome.alignment.target, test_set.word_spans(target))
        links = outcome.alignment.links
        links_by_line.append(
            frozenset((s, t) for link in links for s in sources[link.source] for t in targets[link.target])
        )
    if unaligned:
        count = "1 pair is" if unaligned == 1 else f"{unaligned} pairs are"
        say(f"{name}: {count} empty or too long, hence not aligned.")
    return links_by_line


def overlapping_words(spans: Sequence[Span], words: Sequence[tuple[int, int]]) -> list[list[int]]:
    """For each of a model's words, the indices of the words that share a character with it."""
    return [[n for n, (start, end) in enumerate(words) if span.start < end and start < span.end] for span in spans]


@dataclass(frozen=True)
class ImageAwareness:
    """The score with shuffled images; the improvement by the right images (Elliott 2018); and, by test, the p-value of
    a difference of this size for a model that ignores images."""

    score: float
    awareness: float
    p_values: dict[str, float]

    def __str__(self) -> str:
        p_values = ", ".join(f"p {test} {p_value:.4f}" for test, p_value in self.p_values.items())
        return f"pictures shuffled: {self.score:.2f}, awareness {self.awareness:+.2f}, {p_values}"


def image_awareness(
    metric: Metric, right: SystemOutputs, wrong: SystemOutputs, answers: ReferenceSet
) -> ImageAwareness:
    """Compare the outputs with the right images and the outputs with shuffled images."""
    systems = {"shuffled": [metric.statistics(wrong, answers)], "right": [metric.statistics(right, answers)]}
    compared = {test: compare(metric, systems, test, "").systems for test in TESTS}
    shuffled_result, right_result = compared["bootstrap"]
    sign = -1 if metric.better == "lower" else 1
    p_values = {test: results[1].p_value for test, results in compared.items()}
    return ImageAwareness(
        shuffled_result.score,
        sign * (right_result.score - shuffled_result.score),
        {test: p_value for test, p_value in p_values.items() if p_value is not None},
    )
