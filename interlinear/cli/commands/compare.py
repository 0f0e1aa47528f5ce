"""`interlinear compare`: statistical comparison of systems."""

import json
from dataclasses import asdict
from typing import Annotated, Any, Literal

import typer

from interlinear.cli.options import (
    SYSTEM_HELP,
    Device,
    Json,
    Lowercase,
    MetricNames,
    TestSetSource,
    Tokenize,
    Tracking,
)
from interlinear.errors import UsageError


def compare(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL[,MODEL...]",
            show_default=False,
            help="Two or more, the first the baseline; several runs of one system are joined by commas. Each: "
            f"{SYSTEM_HELP}.",
        ),
    ],
    test_set_source: Annotated[
        TestSetSource,
        "data",
        "split",
        "source",
        "references",
        "data_root",
        "tokenised",
    ] = TestSetSource(),
    metrics: MetricNames = None,
    tokenize: Tokenize = None,
    lowercase: Lowercase = None,
    samples: Annotated[
        int, typer.Option(min=0, metavar="N", help="Number of resamples and trials; 0: 1,000 and 10,000.")
    ] = 0,
    correction: Annotated[
        Literal["holm", "bonferroni"] | None,
        typer.Option(show_default=False, help="Correction of each test's p-values for multiple comparisons."),
    ] = None,
    cases: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="N",
            help="Show N lines with which each model gains most on the first, and N with which it loses most.",
        ),
    ] = 0,
    as_json: Json = False,
    device: Device = "cpu",
    tracking: Tracking = None,
) -> None:
    """Compare the scores of models: 95 % intervals, and p-values of the differences from the first model.

    Three paired tests: bootstrap resampling, approximate randomisation, and the sign test. If a system has several runs
    with different seeds, the mean of their scores is compared. Only bootstrap resampling takes the variation between
    runs into account; the scores of the runs are printed as well.
    """
    from interlinear.cli.evaluation.comparison import (
        compare_systems,
        find_cases,
        format_cases,
        format_table,
        ranking_metric,
    )
    from interlinear.cli.evaluation.scoring import ScoringRun, load_system, select_metrics

    systems = {model: model.split(",") for model in models}
    runs = [run for names in systems.values() for run in names]
    if len(models) < 2 or len(set(runs)) < len(runs):
        raise UsageError("compare", "two different models at least are needed", "name each model once")
    select_metrics(metrics)  # raises for unknown ones before any model is loaded
    loaded = {run: load_system(run, tracking, device) for run in runs}
    scoring = ScoringRun.of(loaded, test_set_source, metrics, tokenize, lowercase)
    case_metric = ranking_metric(scoring.metrics) if cases else None
    outputs = scoring.outputs()
    statistics = {
        metric: {name: [by_run[run] for run in names] for name, names in systems.items()}
        for metric, by_run in scoring.statistics(outputs).items()
    }
    comparisons_by_metric = compare_systems(statistics, scoring.signatures(outputs), samples, correction)
    if case_metric:
        first_runs = {name: (outputs[names[0]], statistics[case_metric][name][0]) for name, names in systems.items()}
        cases_by_system = find_cases(case_metric, first_runs, scoring.test_set, cases)
    if as_json:
        record: dict[str, Any] = {
            name: {test: asdict(each) for test, each in own.items()} for name, own in comparisons_by_metric.items()
        }
        if scoring.left_out:
            record["left_out"] = scoring.left_out
        if case_metric:
            record["cases"] = {name: [asdict(case) for case in own] for name, own in cases_by_system.items()}
        print(json.dumps(record))
        return
    blocks = [format_table(name, by_test) for name, by_test in comparisons_by_metric.items()]
    if case_metric:
        blocks += format_cases(models[0], cases_by_system, case_metric.name.upper())
    print("\n\n".join(blocks))
