"""Scores and learning curves of several systems, as the figures of `interlinear figure` need them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from interlinear.cli.evaluation.scoring import ScoringRun, System, load_system
from interlinear.cli.evaluation.test_sets import parse_dataset_split
from interlinear.cli.options import TestSetSource
from interlinear.errors import UsageError
from interlinear.figures.curves import Curve, Panel
from interlinear.metrics.metric import Metric, Statistics

if TYPE_CHECKING:
    from interlinear.registry.curves import RunCurves


@dataclass(frozen=True)
class SystemScores:
    """Scores on a test set: the number of words of each source; and for each metric its signature, and the statistics
    of every sentence by system name."""

    words: list[int]
    signatures: dict[Metric, str]
    statistics: dict[Metric, dict[str, Statistics]]


def curve_panels(runs: Sequence[tuple[str, "RunCurves"]], metrics: Sequence[str]) -> list[Panel]:
    """Panels with the learning curves of systems. Raises UsageError if runs grouped by recipe differ in more than the
    seed."""
    from interlinear.registry.curves import curve_title

    one_data_set = len({run.dataset for _, run in runs}) == 1
    grouped: dict[str, list[RunCurves]] = {}
    for given_name, run in runs:
        name = given_name or (run.recipe if one_data_set else f"{run.recipe}, {run.dataset}")
        grouped.setdefault(name, []).append(run)
        first = grouped[name][0]
        differing = sorted(
            key for key in {*first.settings, *run.settings} if first.settings.get(key) != run.settings.get(key)
        )
        if not given_name and differing:
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
    data: str,
    data_root: Path | None,
    metrics: str | None,
    device: str,
    tracking: str | None,
) -> SystemScores:
    """Score every system on DATASET[:SPLIT], one after the other. Raises UsageError if two have the same name."""
    systems: dict[str, System] = {}
    for given_name, model in map(split_name, models):
        system = load_system(model, tracking, device)
        card = system.generation.bundle.card if system.generation else None
        name = given_name or (str(card.recipe.get("name", model)) if card else Path(model).name)
        if name in systems:
            raise UsageError(model, f"another system is called {name} already", "name it, NAME=MODEL")
        systems[name] = system
    name, split = parse_dataset_split(data)
    scoring = ScoringRun.of(systems, TestSetSource(name, split, data_root=data_root), metrics)
    outputs = scoring.outputs()
    return SystemScores(
        [len(scoring.test_set.word_spans(text)) for text in scoring.test_set.sources],
        scoring.signatures(outputs),
        scoring.statistics(outputs),
    )


def split_name(argument: str) -> tuple[str, str]:
    """Split `NAME=VALUE`; the name is empty if absent. A path or a URI is not a name."""
    match = re.fullmatch(r"([^/\\:=]+)=(.+)", argument)
    return (match[1].strip(), match[2]) if match else ("", argument)
