"""What models and files with outputs are worth, by which scores: what `evaluate` and `compare` share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from interlinear.commands.align import Aligner, By, Pair, check_kind, outcomes
from interlinear.commands.translate import Line
from interlinear.commands.translate import outcomes as searched_outcomes
from interlinear.console import progress, say
from interlinear.evaluation.test_sets import UNEDITED, Lowercase, Place, TestSet, Tokenize
from seq2seq.errors import CallError

if TYPE_CHECKING:
    from seq2seq.alignment import Link, Symmetrization
    from seq2seq.config import Precision
    from seq2seq.explain import Span
    from seq2seq.generate import Generation
    from seq2seq.metrics.metric import Answers, Metric, Outputs, Reading, Statistics, Task
    from seq2seq.search import SearchOptions

JUDGED = (
    "a bundle's folder, models:/NAME@ALIAS, models:/NAME/VERSION, runs:/ID/model, a file with outputs, or `unedited`: "
    "the machine translations of a set for post-editing"
)

MetricNames = Annotated[
    str | None,
    typer.Option(
        "--metrics", metavar="NAME,...|all", show_default=False,
        help="Scores by name (docs/scores.md); else bleu; rouge for summaries, bleu and hter for post-edits.",
    ),
]  # fmt: skip


@dataclass(frozen=True)
class System:
    """A model, or (generation None) a file with outputs, or the machine translations as they are (`unedited`).

    `backward`, a model of the opposite direction, has a part in its alignments, which become one as `how` says.
    """

    name: str
    generation: "Generation | None"
    backward: "Generation | None" = None
    how: "Symmetrization | None" = None

    @property
    def fields(self) -> tuple[str, ...]:
        """The texts that it reads."""
        return () if self.generation is None else tuple(self.generation.bundle.card.model.texts)

    @property
    def pictures(self) -> tuple[str, ...]:
        """The pictures that it reads."""
        return () if self.generation is None else tuple(self.generation.bundle.card.model.images)

    @property
    def task(self) -> "Task | None":
        return None if self.generation is None else self.generation.bundle.card.task

    @property
    def language(self) -> str | None:
        """The language that it writes."""
        return None if self.generation is None else self.generation.bundle.card.languages.get("target")

    def outputs(
        self,
        test_set: TestSet,
        options: "SearchOptions | None" = None,
        by: By | None = None,
        label: str = "translating",
        search: bool = True,
    ) -> "Outputs":
        """What it says of a test set, searched for as its recipe does, or by `options`; with gold, its alignments too.

        Without `search` a model's outputs are empty, which no score of alignments looks at.
        Raises CallError, and DataError for a file with another number of lines.
        """
        from seq2seq.explain import best_of
        from seq2seq.metrics.metric import Outputs, check_lines
        from training.data.formats import read_file

        if self.name == UNEDITED:
            return Outputs.of(test_set.unedited())
        if self.generation is None:
            lines = list(read_file(Path(self.name)))
            check_lines(self.name, len(lines), test_set.name, len(test_set.references[0]))
            say_empty(self.name, [number for number, line in enumerate(lines, 1) if not line.strip()])
            return Outputs.of(lines)
        lines = [""] * test_set.rows
        if search:
            options = options or self.generation.bundle.card.search
            lines = translated(self.name, self.generation, test_set, options, label)
        if not test_set.gold:
            return Outputs.of(lines)
        for generation in filter(None, (self.generation, self.backward)):
            if by:
                check_kind(f"--by {by}", by, generation.kinds)
        aligner = Aligner(self.generation, self.backward, self.how, by, test_set.raw)
        looks = by or best_of(self.generation.kinds)
        return Outputs.of(lines, aligned(self.name, aligner, test_set), f"{looks},{self.how}" if self.how else looks)


def is_outputs(name: str) -> bool:
    """Whether MODEL's outputs are there: a file (or pipe) of them, a line each, or the machine translations."""
    return name == UNEDITED or (Path(name).exists() and not Path(name).is_dir())


def open_system(
    name: str, tracking: str | None, device: str, precision: "Precision" = "fp32", width: int | None = None
) -> System:
    """What MODEL means. Raises as `load_generation` does."""
    from interlinear.decoding.model_loading import load_generation
    from registry.names import FolderName, meant, parse

    if is_outputs(name):
        return System(name, None)
    if "," not in name and isinstance(parse(name), FolderName) and not Path(name).exists():
        raise CallError(name, "there is no such file or folder", meant(name, tracking) or f"name {JUDGED}")
    return System(name, load_generation(name, tracking, device, precision, width))


@dataclass(frozen=True)
class Trial:
    """Systems by name, what they are tried on, the scores that it has the means for, and why it has none for others."""

    systems: Mapping[str, System]
    test_set: TestSet
    answers: "Answers"
    metrics: "Sequence[Metric]"
    left_out: Mapping[str, str]

    @classmethod
    def of(
        cls,
        systems: Mapping[str, System],
        place: Place,
        metrics: str | None,
        tokenize: Tokenize,
        lowercase: Lowercase,
        by: By | None = None,
    ) -> "Trial":
        """Reads the test set. metrics: as in --metrics. Raises CallError, DataError."""
        models = all(system.generation for system in systems.values())
        test_set = place.read([*systems.values()], wants_alignments(metrics, by) and models)
        answers = test_set.answers()
        asked = asked_metrics(metrics, test_set.task, test_set.reading(tokenize, lowercase))
        return cls(systems, test_set, answers, *applicable(asked, answers))

    def outputs(self, by: By | None = None) -> "dict[str, Outputs]":
        """What every system says, by its name; its alignments by these looks, else the best that it has."""
        search = of_outputs(self.metrics)
        return {
            name: system.outputs(self.test_set, by=by, label=name, search=search)
            for name, system in self.systems.items()
        }

    def statistics(self, outputs: "Mapping[str, Outputs]") -> "dict[Metric, dict[str, Statistics]]":
        """What each sentence of every system adds to each score."""
        return {
            metric: {name: metric.statistics(own, self.answers) for name, own in outputs.items()}
            for metric in self.metrics
        }

    def signatures(self, outputs: "Mapping[str, Outputs]") -> "dict[Metric, str]":
        """How each score of all these outputs is reckoned."""
        from seq2seq.metrics.metric import Outputs

        together = Outputs.together(outputs.values())
        return {metric: metric.signature(together, self.answers) for metric in self.metrics}


def asked_metrics(
    names: str | None, task: "Task | None" = None, reading: "Reading | None" = None
) -> "tuple[Metric, ...]":
    """The scores in --metrics, or those that are usual for the task. Raises CallError for an unknown one."""
    from seq2seq.metrics.catalogue import USUAL, chosen
    from seq2seq.metrics.metric import Reading

    asked = names.split(",") if names is not None else USUAL[task or "translation"]
    return chosen((name.strip() for name in asked), reading or Reading())


def wants_alignments(names: str | None, by: By | None) -> bool:
    """Whether any of these scores is of alignments. Raises CallError: one is unknown, or none is, and `by` is given."""
    from seq2seq.metrics.catalogue import ALIGNMENT

    wanted = any(metric.name in ALIGNMENT for metric in asked_metrics(names))
    if by and not wanted:
        raise CallError(f"--by {by}", "no score of alignments is asked for", "ask for them: --metrics alignment")
    return wanted


def of_outputs(metrics: "Sequence[Metric]") -> bool:
    """Whether any of these scores is of what systems write."""
    from seq2seq.metrics.catalogue import ALIGNMENT

    return any(metric.name not in ALIGNMENT for metric in metrics)


def applicable(metrics: "Sequence[Metric]", answers: "Answers") -> "tuple[list[Metric], dict[str, str]]":
    """The scores that a test set has the means for; and why not the others, which is said.

    Raises CallError where none is left.
    """
    left_out = {metric.name: reason for metric in metrics if (reason := metric.lacks(answers))}
    if len(left_out) == len(metrics):
        reasons = "; ".join(dict.fromkeys(left_out.values()))
        raise CallError(
            "--metrics", f"{', '.join(left_out)} cannot be reckoned here: {reasons}", "ask for other scores"
        )
    for reason in dict.fromkeys(left_out.values()):
        say(f"left out: {', '.join(name for name, why in left_out.items() if why == reason)}: {reason}.")
    return [metric for metric in metrics if metric.name not in left_out], left_out


def translated(
    name: str, generation: "Generation", test_set: TestSet, options: "SearchOptions", label: str
) -> list[str]:
    """The output for every line; empty where the model cannot read it, which is said with count and first line."""
    lines = read_lines(generation, test_set)
    hypotheses, problems, empty = [], [], []
    searched = searched_outcomes(generation, iter([lines]), options, tokenised=test_set.tokenised)
    for outcome in progress(searched, label, total=len(lines)):
        hypotheses.append(outcome.answer.candidates[0].text if outcome.answer else "")
        if outcome.problem:
            problems.append(outcome)
        elif not hypotheses[-1].strip():
            empty.append(outcome.line.number)
    if problems:
        first = problems[0]
        count = "1 line counts" if len(problems) == 1 else f"{len(problems)} lines count"
        say(f"{name}: {count} as empty; first {first.line.where}: {first.problem}")
    say_empty(name, empty)
    return hypotheses


def read_lines(generation: "Generation", test_set: TestSet) -> list[Line]:
    """The lines of a test set with all that the model reads."""
    model = generation.bundle.card.model
    first, *others = model.texts
    seen = {name: test_set.pictures[name] for name in model.images if name in test_set.pictures}
    return [
        Line(
            row + 1,
            f"line {row + 1}",
            test_set.texts[first][row],
            {name: test_set.texts[name][row] for name in others},
            {name: picture for name, pictures in seen.items() if (picture := pictures[row])},
        )
        for row in range(test_set.rows)
    ]


def say_empty(name: str, lines: Sequence[int]) -> None:
    """Name outputs in which nothing is."""
    if len(lines) == 1:
        say(f"{name}: 1 output is empty, in line {lines[0]}. It is scored as it is.")
    elif lines:
        say(f"{name}: {len(lines)} outputs are empty, the first in line {lines[0]}. They are scored as they are.")


def aligned(name: str, aligner: Aligner, test_set: TestSet) -> "list[frozenset[Link]]":
    """The links that a model, or two, see between every source and its first reference, by forced decoding, in the
    words that gold links count. A pair that is empty, or too long for the model, has none, which is said."""
    texts = list(zip(test_set.sources, test_set.references[0], strict=True))
    pairs = (Pair(number, source, target) for number, (source, target) in enumerate(texts))
    found: list[frozenset[Link]] = []
    unaligned = 0
    for outcome in progress(outcomes(aligner, pairs), "aligning", total=len(texts)):
        source, target = texts[outcome.number]
        unaligned += not outcome.alignment.source
        sources = covering(outcome.alignment.source, test_set.words(source))
        targets = covering(outcome.alignment.target, test_set.words(target))
        links = outcome.alignment.links
        found.append(frozenset((s, t) for link in links for s in sources[link.source] for t in targets[link.target]))
    if unaligned:
        count = "1 pair is" if unaligned == 1 else f"{unaligned} pairs are"
        say(f"{name}: {count} empty or too long, hence not aligned.")
    return found


def covering(spans: "Sequence[Span]", words: Sequence[tuple[int, int]]) -> list[list[int]]:
    """For each of a model's words, the words that share a character with it."""
    return [[n for n, (start, end) in enumerate(words) if span.start < end and start < span.end] for span in spans]


@dataclass(frozen=True)
class Awareness:
    """A score with wrong pictures; what right ones add, to the better (Elliott 2018); and how likely such a difference
    is of a model that does not look at them, by the name of the test."""

    score: float
    awareness: float
    p_values: dict[str, float]

    def __str__(self) -> str:
        chances = ", ".join(f"p {test} {p_value:.4f}" for test, p_value in self.p_values.items())
        return f"pictures shuffled: {self.score:.2f}, awareness {self.awareness:+.2f}, {chances}"


def awareness(metric: "Metric", right: "Outputs", wrong: "Outputs", answers: "Answers") -> Awareness:
    """How far outputs with the right pictures are better than those with wrong ones."""
    from seq2seq.metrics.significance import TESTS, compare

    systems = {"shuffled": [metric.statistics(wrong, answers)], "right": [metric.statistics(right, answers)]}
    compared = {test: compare(metric, systems, test, "").systems for test in TESTS}
    shuffled, own = compared["bootstrap"]
    sign = -1 if metric.better == "lower" else 1
    p_values = {test: both[1].p_value for test, both in compared.items()}
    return Awareness(
        shuffled.score,
        sign * (own.score - shuffled.score),
        {test: p_value for test, p_value in p_values.items() if p_value is not None},
    )
