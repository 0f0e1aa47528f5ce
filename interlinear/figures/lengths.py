"""Scores by source length."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from interlinear.errors import UsageError
from interlinear.figures.charts import (
    AXIS_SPACE,
    CHART_HEIGHT,
    CHART_WIDTH,
    TICK_LINE,
    TICK_SPACE,
    TITLE_SPACE,
    check_systems,
    lay_out_charts,
    system_line,
)
from interlinear.figures.style import SOFT, Sheet, check_suffix
from interlinear.metrics.metric import Metric, Statistics

THRESHOLDS = tuple(range(0, 70, 10))  # as in Meng et al. 2016
MIN_SENTENCES = 10  # minimum number of sentences of a point
FEWEST_IN_LINE = 3  # points needed for a line: two would suggest a trend


@dataclass(frozen=True)
class LengthPoint:
    """Score and number of the sentences whose source has more than `longer_than` words."""

    longer_than: int
    sentences: int
    score: float


@dataclass(frozen=True)
class LengthCurve:
    """Scores of a system by source length."""

    name: str
    points: tuple[LengthPoint, ...]


def score_curve_by_length(
    name: str, lengths: Sequence[int], metric: Metric, statistics: Statistics, thresholds: Sequence[int] = THRESHOLDS
) -> LengthCurve:
    """Scores of a system for the sentences that exceed each threshold of source words.

    `lengths` are the source words of each sentence, `statistics` (N, S) its statistics for `metric`. A threshold with
    fewer than MIN_SENTENCES longer sentences has no point. Raises UsageError if no threshold has one.
    """
    points = []
    for threshold in sorted(set(thresholds)):
        chosen = np.asarray(lengths) > threshold
        if (sentences := int(chosen.sum())) >= MIN_SENTENCES:
            points.append(LengthPoint(threshold, sentences, float(metric.values(statistics[chosen].sum(0)[None])[0])))
    if not points:
        raise UsageError(
            "thresholds",
            f"none has {MIN_SENTENCES} sentences with more words; the longest has {max(lengths, default=0)}",
            "name smaller ones, or bring more sentences",
        )
    return LengthCurve(name, tuple(points))


def score_by_length(curves: Sequence[LengthCurve], metric: str, path: Path, font: Path | None = None) -> Path:
    """Draws the scores of sentences longer than each threshold (as Meng et al. 2016, figure 4, for BLEU).

    Three or more points are joined by a line. Returns `path`. Raises as `learning_curves`.
    """
    check_suffix(path)
    names = [curve.name for curve in curves]
    check_systems(names)
    sheet = Sheet(names, font)
    left, top = lay_out_charts(
        sheet, f"{metric} by length of the source", names, TITLE_SPACE + CHART_HEIGHT + TICK_SPACE + TICK_LINE
    )
    axes = sheet.chart(left + AXIS_SPACE, top + TITLE_SPACE, CHART_WIDTH - AXIS_SPACE, CHART_HEIGHT)
    sheet.place(sheet.note(metric, size=7.5), left, top, "left", "top")
    counts = {point.longer_than: point.sentences for curve in curves for point in curve.points}
    for number, curve in enumerate(curves):
        line = system_line(
            [point.longer_than for point in curve.points], [point.score for point in curve.points], number
        )
        if len(curve.points) < FEWEST_IN_LINE:
            line.set_linestyle("none")
        axes.add_line(line)
    axes.set_xticks(sorted(counts), [f"> {longer}\n{counts[longer]:,}" for longer in sorted(counts)])
    axes.set_xlabel("words of the source, and sentences that have more", color=SOFT, fontsize=7.5, family=sheet.plain)
    axes.margins(x=0.04, y=0.1)
    return sheet.save(path)
