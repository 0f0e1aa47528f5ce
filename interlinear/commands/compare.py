"""`interlinear compare`: whether one model is better than another by more than chance."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from interlinear.commands.align import AlignedBy
from interlinear.decoding.images import ImageFolder, ImageNames
from interlinear.evaluation.case_study import Case, find_cases, format_cases, ranking_metric
from interlinear.evaluation.scoring import SYSTEM_HELP, MetricNames, ScoringRun, load_system, needs_alignments
from interlinear.evaluation.test_sets import (
    Lowercase,
    MtFile,
    ReferenceFiles,
    SourceFile,
    Split,
    TestSetSource,
    TokenisedFiles,
    Tokenize,
)
from interlinear.options import DataName, DataRoot, Device, Json, Tracking
from seq2seq.errors import UsageError

if TYPE_CHECKING:
    from seq2seq.metrics.significance import Comparison, SystemResult, Test

Models = Annotated[
    list[str],
    typer.Argument(
        metavar="MODEL[,MODEL...]",
        show_default=False,
        help=f"Two or more, the first the baseline; several runs of one system are joined by commas. Each: {SYSTEM_HELP}.",
    ),
]


def compare(
    models: Models,
    data: DataName = None,
    split: Split = None,
    source: SourceFile = None,
    reference: ReferenceFiles = None,
    mt: MtFile = None,
    image_dir: ImageFolder = None,
    images: ImageNames = None,
    tokenised: TokenisedFiles = False,
    metrics: MetricNames = None,
    tokenize: Tokenize = None,
    lowercase: Lowercase = None,
    by: AlignedBy = None,
    samples: Annotated[int, typer.Option(min=0, metavar="N", help="Resamples and trials; 0: 1,000 and 10,000.")] = 0,
    correction: Annotated[
        Literal["holm", "bonferroni"] | None,
        typer.Option(show_default=False, help="Correct each test's p-values for there being several."),
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
    data_root: DataRoot = None,
    device: Device = "cpu",
    tracking: Tracking = None,
) -> None:
    """Score models side by side: with 95 % intervals, and the chance that a difference from the first is none.

    Three paired tests: bootstrap resampling, approximate randomisation, and the sign test. Of several runs, with seeds
    of their own, the mean is compared, and the tests reckon with their differences.
    """
    from seq2seq.metrics.significance import TESTS, correct_p_values
    from seq2seq.metrics.significance import compare as compare_systems

    systems = {model: model.split(",") for model in models}
    runs = [run for names in systems.values() for run in names]
    if len(models) < 2 or len(set(runs)) < len(runs):
        raise UsageError("compare", "two different models at least are needed", "name each model once")
    needs_alignments(metrics, by)  # what is asked for in vain is refused before any model is loaded
    place = TestSetSource(data, split, source, reference or [], data_root, mt, image_dir, images, tokenised=tokenised)
    opened = {run: load_system(run, tracking, device) for run in runs}
    scoring = ScoringRun.of(opened, place, metrics, tokenize, lowercase, by)
    case_metric = ranking_metric(scoring.metrics) if cases else None
    outputs = scoring.outputs(by)
    signatures = scoring.signatures(outputs)
    statistics = {
        metric: {name: [by_run[run] for run in names] for name, names in systems.items()}
        for metric, by_run in scoring.statistics(outputs).items()
    }
    found: dict[str, dict[Test, Comparison]] = {metric.name: {} for metric in scoring.metrics}
    for test in TESTS:
        comparisons = [
            compare_systems(metric, own, test, signatures[metric], samples) for metric, own in statistics.items()
        ]
        for metric, comparison in zip(scoring.metrics, correct_p_values(comparisons, correction), strict=True):
            found[metric.name][test] = comparison
    shown: dict[str, list[Case]] = {}
    if case_metric:
        first_runs = {name: (outputs[names[0]], statistics[case_metric][name][0]) for name, names in systems.items()}
        shown = find_cases(case_metric, first_runs, scoring.test_set, cases)
    if as_json:
        answer: dict[str, Any] = {
            name: {test: asdict(each) for test, each in own.items()} for name, own in found.items()
        }
        if scoring.left_out:
            answer["left_out"] = scoring.left_out
        if case_metric:
            answer["cases"] = {name: [asdict(case) for case in own] for name, own in shown.items()}
        print(json.dumps(answer))
        return
    blocks = [format_table(name, by_test) for name, by_test in found.items()]
    if case_metric:
        blocks += format_cases(models[0], shown, case_metric.name.upper())
    print("\n\n".join(blocks))


def format_table(metric: str, comparisons: "Mapping[Test, Comparison]") -> str:
    """What the tests say of one score: a line for every system, and how each test was made."""
    bootstrap = comparisons["bootstrap"].systems
    width = max(len(one.system) for one in bootstrap)
    names = "".join(f"  {f'p {test.upper()}':>15}" for test in comparisons)
    score_width = max(8, len(metric))
    lines = [f"{'MODEL'.ljust(width)}  {metric.upper():>{score_width}}     95 % INTERVAL{names}"]
    for one, *all_tests in zip(bootstrap, *(each.systems for each in comparisons.values()), strict=True):
        interval = f"{one.mean:.2f} ± {one.interval:.2f}"
        chances = "".join(f"  {format_p_value(of_test):>15}" for of_test in all_tests)
        lines.append(f"{one.system.ljust(width)}  {one.score:>{score_width}.2f}  {interval:>16}{chances}")
    return "\n".join([*lines, *(f"{test + ':':<14} {each.signature}" for test, each in comparisons.items())])


def format_p_value(compared: "SystemResult") -> str:
    """The p-value that is meant: the corrected one, where it was corrected."""
    p_value = compared.p_value if compared.corrected is None else compared.corrected
    if p_value is None:
        return "baseline"
    return f"{p_value:.4f}" if p_value >= 0.0001 else "< 0.0001"
