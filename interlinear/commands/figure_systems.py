"""The commands `figure lengths`, `figure systems` and `figure curves`: figures that compare systems."""

from pathlib import Path
from typing import Annotated

import typer

from interlinear.console import say
from interlinear.evaluation.charts import curve_panels, score_systems, split_name
from interlinear.evaluation.scoring import select_metrics
from interlinear.evaluation.test_sets import TestSetSource
from interlinear.options import (
    DataName,
    DataRoot,
    Device,
    FigureFile,
    FontFile,
    Lowercase,
    MetricNames,
    ReferenceFiles,
    SourceFile,
    Split,
    TokenisedFiles,
    Tokenize,
    Tracking,
)
from seq2seq.errors import UsageError

Systems = Annotated[
    list[str],
    typer.Argument(
        metavar="[NAME=]MODEL...", show_default=False, help="Systems to compare; the default name is the recipe's."
    ),
]
Runs = Annotated[
    list[str],
    typer.Argument(
        metavar="[NAME=]RUN...", show_default=False,
        help="A run's folder, or runs:/ID. Runs of one name, else of one recipe, are seeds of a system.",
    ),
]  # fmt: skip


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
        typer.Option("--metric", metavar="NAME", show_default=False, help="A metric's name; else the task's first."),
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

    A threshold that fewer than ten sentences exceed is left out.
    """
    from seq2seq.figures.lengths import THRESHOLDS, score_by_length, score_curve_by_length

    if metric and len(selected := select_metrics(metric)) > 1:
        raise UsageError(f"--metric {metric}", "these are several scores", f"name one, as {selected[0].name}")
    if reference and not source and not data:
        raise UsageError(
            "--source", "sentences go by the number of their source's words", "give the file of sources too"
        )
    test_set_source = TestSetSource(data, split, source, reference or [], data_root, tokenised=tokenised)
    scores = score_systems(models, test_set_source, metric, tokenize, lowercase, device, tracking)
    chosen_metric = next(iter(scores.statistics))
    curves = [
        score_curve_by_length(name, scores.words, chosen_metric, statistics, longer_than or THRESHOLDS)
        for name, statistics in scores.statistics[chosen_metric].items()
    ]
    say(f"{chosen_metric.name.upper()}: {scores.signatures[chosen_metric]}")
    print(score_by_length(curves, chosen_metric.name.upper(), output, font))


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
    samples: Annotated[int, typer.Option(min=0, metavar="N", help="Number of resamples; 0: 1,000.")] = 0,
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
    test_set_source = TestSetSource(data, split, source, reference or [], data_root, tokenised=tokenised)
    system_scores = score_systems(models, test_set_source, metrics, tokenize, lowercase, device, tracking)
    comparisons = []
    for metric, by_system in system_scores.statistics.items():
        say(f"{metric.name.upper()}: {system_scores.signatures[metric]}")
        runs = {name: [statistics] for name, statistics in by_system.items()}
        scores = []
        for result in compare(metric, runs, "bootstrap", system_scores.signatures[metric], samples).systems:
            assert result.low is not None and result.high is not None  # the bootstrap has intervals
            scores.append(SystemScore(result.system, result.score, result.low, result.high, result.p_value))
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
    """Draw learning curves, epoch by epoch. Seeds of one system are a line, their mean, in a band."""
    from registry.curves import DEV_BLEU, read_run_curves
    from seq2seq.figures.curves import learning_curves

    read = [(name, read_run_curves(run, tracking)) for name, run in map(split_name, runs)]
    print(learning_curves(curve_panels(read, metric or [DEV_BLEU]), output, font))
