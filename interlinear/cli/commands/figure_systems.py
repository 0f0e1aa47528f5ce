"""The commands `figure lengths`, `figure systems` and `figure curves`: figures that compare systems."""

from pathlib import Path
from typing import Annotated

import typer

from interlinear.cli.console import say
from interlinear.cli.options import (
    DataRoot,
    Device,
    FigureFile,
    FontFile,
    MetricNames,
    Tracking,
)
from interlinear.errors import UsageError

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
TestData = Annotated[
    str,
    typer.Option(
        "--data", metavar="DATASET[:SPLIT]", show_default=False, help="A data set's name or YAML; its test split, else."
    ),
]


def lengths(
    models: Systems,
    data: TestData,
    longer_than: Annotated[
        list[int] | None,
        typer.Option(min=0, metavar="N", show_default=False, help="A threshold; may be repeated. Else 0, 10, ..., 60."),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option("--metric", metavar="NAME", show_default=False, help="A metric's name; else the task's first."),
    ] = None,
    output: FigureFile = None,
    font: FontFile = None,
    data_root: DataRoot = None,
    device: Device = "cpu",
    tracking: Tracking = None,
) -> None:
    """Draw the score of the sentences with more than N source words (Meng et al. 2016, figure 4, by BLEU).

    A threshold that fewer than ten sentences exceed is left out.
    """
    from interlinear.cli.evaluation.charts import score_systems
    from interlinear.cli.evaluation.scoring import select_metrics
    from interlinear.figures.lengths import THRESHOLDS, score_by_length, score_curve_by_length

    if metric and len(selected := select_metrics(metric)) > 1:
        raise UsageError(f"--metric {metric}", "these are several scores", f"name one, as {selected[0].name}")
    scores = score_systems(models, data, data_root, metric, device, tracking)
    chosen_metric = next(iter(scores.statistics))
    curves = [
        score_curve_by_length(name, scores.words, chosen_metric, statistics, longer_than or THRESHOLDS)
        for name, statistics in scores.statistics[chosen_metric].items()
    ]
    say(f"{chosen_metric.name.upper()}: {scores.signatures[chosen_metric]}")
    print(score_by_length(curves, chosen_metric.name.upper(), output or Path("lengths.png"), font))


def systems(
    models: Systems,
    data: TestData,
    metrics: MetricNames = None,
    output: FigureFile = None,
    font: FontFile = None,
    data_root: DataRoot = None,
    device: Device = "cpu",
    tracking: Tracking = None,
) -> None:
    """Draw the scores of systems with 95 % intervals by paired bootstrap; the first is the baseline."""
    from interlinear.cli.evaluation.charts import score_systems
    from interlinear.figures.systems import Comparison, SystemScore, system_comparison, system_comparisons
    from interlinear.metrics.significance import compare

    if len(models) < 2:
        raise UsageError("figure systems", "one system alone cannot be compared", "name two or more")
    system_scores = score_systems(models, data, data_root, metrics, device, tracking)
    comparisons = []
    for metric, by_system in system_scores.statistics.items():
        say(f"{metric.name.upper()}: {system_scores.signatures[metric]}")
        runs = {name: [statistics] for name, statistics in by_system.items()}
        scores = []
        for result in compare(metric, runs, "bootstrap", system_scores.signatures[metric]).systems:
            assert result.low is not None and result.high is not None  # the bootstrap has intervals
            scores.append(SystemScore(result.system, result.score, result.low, result.high, result.p_value))
        comparisons.append(Comparison(metric.name.upper(), tuple(scores)))
    output = output or Path("systems.png")
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
    output: FigureFile = None,
    font: FontFile = None,
    tracking: Tracking = None,
) -> None:
    """Draw learning curves, epoch by epoch. Seeds of one system are a line, their mean, in a band."""
    from interlinear.cli.evaluation.charts import curve_panels, split_name
    from interlinear.figures.curves import learning_curves
    from interlinear.registry.curves import DEV_BLEU, read_run_curves

    read = [(name, read_run_curves(run, tracking)) for name, run in map(split_name, runs)]
    print(learning_curves(curve_panels(read, metric or [DEV_BLEU]), output or Path("curves.png"), font))
