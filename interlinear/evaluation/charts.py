"""The pictures of `interlinear figure` that set systems beside each other: `lengths`, `curves`, `systems`."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from interlinear.console import say
from interlinear.evaluation.scoring import MetricNames, ScoringRun, System, load_system, select_metrics
from interlinear.evaluation.test_sets import (
    Lowercase,
    ReferenceFiles,
    SourceFile,
    Split,
    TestSetSource,
    TokenisedFiles,
    Tokenize,
)
from interlinear.options import DataName, DataRoot, Device, FigureFile, FontFile, Tracking
from seq2seq.errors import UsageError

if TYPE_CHECKING:
    from registry.curves import RunCurves
    from seq2seq.figures.curves import Panel
    from seq2seq.metrics.metric import Metric, Statistics

Systems = Annotated[
    list[str],
    typer.Argument(
        metavar="[NAME=]MODEL...", show_default=False, help="What is compared, under its name, else its recipe's."
    ),
]
Runs = Annotated[
    list[str],
    typer.Argument(
        metavar="[NAME=]RUN...", show_default=False,
        help="Trainings: a run's folder, or runs:/ID. Those of one name, else of one recipe, are seeds of a system.",
    ),
]  # fmt: skip


@dataclass(frozen=True)
class SystemScores:
    """Scores on a test set: the number of words of each source; and by each score how it is reckoned, and what every
    sentence of every system adds, by the system's name."""

    words: list[int]
    signatures: "dict[Metric, str]"
    statistics: "dict[Metric, dict[str, Statistics]]"


def lengths(
    models: Systems,
    data: DataName = None,
    split: Split = None,
    source: SourceFile = None,
    reference: ReferenceFiles = None,
    longer_than: Annotated[
        list[int] | None,
        typer.Option(min=0, metavar="N", show_default=False, help="A threshold; may be repeated. Else 0, 10, ..., 60."),
    ] = None,
    tokenised: TokenisedFiles = False,
    metric: Annotated[
        str | None,
        typer.Option("--metric", metavar="NAME", show_default=False, help="A score by name; else the task's first."),
    ] = None,
    tokenize: Tokenize = None,
    lowercase: Lowercase = None,
    output: FigureFile = Path("lengths.png"),
    font: FontFile = None,
    data_root: DataRoot = None,
    device: Device = "cpu",
    tracking: Tracking = None,
) -> None:
    """Draw the score of the sentences with more than N source words (Meng et al. 2016, figure 4, by BLEU).

    A threshold that fewer than ten sentences pass is left out.
    """
    from seq2seq.figures.lengths import THRESHOLDS, score_by_length, score_curve_by_length

    if metric and len(several := select_metrics(metric)) > 1:
        raise UsageError(f"--metric {metric}", "these are several scores", f"name one, as {several[0].name}")
    if reference and not source and not data:
        raise UsageError(
            "--source", "sentences go by the number of their source's words", "give the file of sources too"
        )
    place = TestSetSource(data, split, source, reference or [], data_root, tokenised=tokenised)
    made = score_systems(models, place, metric, tokenize, lowercase, device, tracking)
    one = next(iter(made.statistics))
    curves = [
        score_curve_by_length(name, made.words, one, statistics, longer_than or THRESHOLDS)
        for name, statistics in made.statistics[one].items()
    ]
    say(f"{one.name.upper()}: {made.signatures[one]}")
    print(score_by_length(curves, one.name.upper(), output, font))


def systems(
    models: Systems,
    data: DataName = None,
    split: Split = None,
    source: SourceFile = None,
    reference: ReferenceFiles = None,
    tokenised: TokenisedFiles = False,
    metrics: MetricNames = None,
    tokenize: Tokenize = None,
    lowercase: Lowercase = None,
    samples: Annotated[int, typer.Option(min=0, metavar="N", help="Resamples; 0: 1,000.")] = 0,
    output: FigureFile = Path("systems.png"),
    font: FontFile = None,
    data_root: DataRoot = None,
    device: Device = "cpu",
    tracking: Tracking = None,
) -> None:
    """Draw the scores of systems with 95 % intervals by paired bootstrap; the first is the baseline."""
    from seq2seq.figures.systems import Comparison, SystemScore, system_comparison, system_comparisons
    from seq2seq.metrics.significance import compare

    if len(models) < 2:
        raise UsageError("figure systems", "one system alone cannot be compared", "name two or more")
    place = TestSetSource(data, split, source, reference or [], data_root, tokenised=tokenised)
    made = score_systems(models, place, metrics, tokenize, lowercase, device, tracking)
    comparisons = []
    for metric, own in made.statistics.items():
        say(f"{metric.name.upper()}: {made.signatures[metric]}")
        runs = {name: [statistics] for name, statistics in own.items()}
        scores = []
        for one in compare(metric, runs, "bootstrap", made.signatures[metric], samples).systems:
            assert one.low is not None and one.high is not None  # the bootstrap's
            scores.append(SystemScore(one.system, one.score, one.low, one.high, one.p_value))
        comparisons.append(Comparison(metric.name.upper(), tuple(scores)))
    if len(comparisons) == 1:
        print(system_comparison(scores, f"{metric.name.upper()} with 95 % intervals", output, font))
    else:
        print(system_comparisons(comparisons, "Scores with 95 % intervals", output, font))


def curves(
    runs: Runs,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            show_default=False,
            help="A curve in MLflow, dev/... or epoch/...; may be repeated. Else dev/bleu.",
        ),
    ] = None,
    output: FigureFile = Path("curves.png"),
    font: FontFile = None,
    tracking: Tracking = None,
) -> None:
    """Draw what trainings had learnt after each epoch; seeds of one system are a line, their mean, in a band."""
    from registry.curves import DEV_BLEU, read_run_curves
    from seq2seq.figures.curves import learning_curves

    read = [(name, read_run_curves(run, tracking)) for name, run in map(split_name, runs)]
    print(learning_curves(curve_panels(read, metric or [DEV_BLEU]), output, font))


def curve_panels(runs: Sequence[tuple[str, "RunCurves"]], metrics: Sequence[str]) -> list["Panel"]:
    """Runs as the curves of systems. Raises CallError where seeds by recipe differ in more than the seed."""
    from registry.curves import curve_title
    from seq2seq.figures.curves import Curve, Panel

    one_data_set = len({run.dataset for _, run in runs}) == 1
    grouped: dict[str, list[RunCurves]] = {}
    for given, run in runs:
        name = given or (run.recipe if one_data_set else f"{run.recipe}, {run.dataset}")
        grouped.setdefault(name, []).append(run)
        first = grouped[name][0]
        differing = sorted(
            key for key in {*first.settings, *run.settings} if first.settings.get(key) != run.settings.get(key)
        )
        if not given and differing:
            raise UsageError(
                name,
                f"runs {first.run_id} and {run.run_id} differ in {', '.join(differing[:3])}, not in their seed alone",
                "name them apart, NAME=RUN",
            )
    return [
        Panel(
            curve_title(metric),
            tuple(Curve(name, tuple(run.per_epoch(metric) for run in seeds)) for name, seeds in grouped.items()),
        )
        for metric in metrics
    ]


def score_systems(
    models: Sequence[str],
    place: TestSetSource,
    metrics: str | None,
    tokenize: Tokenize,
    lowercase: Lowercase,
    device: str,
    tracking: str | None,
) -> SystemScores:
    """Every system's scores on the test set, one after the other. Raises CallError where two have one name."""
    systems: dict[str, System] = {}
    for given, model in map(split_name, models):
        system = load_system(model, tracking, device)
        card = system.generation.bundle.card if system.generation else None
        name = given or (str(card.recipe.get("name", model)) if card else Path(model).name)
        if name in systems:
            raise UsageError(model, f"another system is called {name} already", "name it, NAME=MODEL")
        systems[name] = system
    scoring = ScoringRun.of(systems, place, metrics, tokenize, lowercase)
    outputs = scoring.outputs()
    return SystemScores(
        [len(scoring.test_set.word_spans(text)) for text in scoring.test_set.sources],
        scoring.signatures(outputs),
        scoring.statistics(outputs),
    )


def split_name(argument: str) -> tuple[str, str]:
    """`NAME=WHAT` as its parts; the name is empty where none is given. A path or an address is no name."""
    match = re.fullmatch(r"([^/\\:=]+)=(.+)", argument)
    return (match[1].strip(), match[2]) if match else ("", argument)
