"""Significance tests of score differences between systems, over test sentences and over training runs.

The tests need only additive statistics, so they apply to every metric. A system is one or several training runs
(seeds); its score is the mean over its runs. Equal systems have p = 1.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from interlinear.errors import UsageError
from interlinear.metrics.metric import Metric, Statistics, Values

Test = Literal["bootstrap", "randomisation", "sign"]
TESTS: tuple[Test, ...] = ("bootstrap", "randomisation", "sign")
Correction = Literal["holm", "bonferroni"]

SAMPLES: dict[Test, int] = {"bootstrap": 1000, "randomisation": 10_000, "sign": 0}  # defaults
SEED = 12345
_NUMBERS_IN_MEMORY = 2_000_000  # random numbers in memory at a time
EQUAL = 1e-9  # smaller differences count as equal, so the summation order has no effect


@dataclass(frozen=True)
class SystemResult:
    """Test result of one system against the baseline.

    score: mean over the scores in `runs`. low, high, mean: 95 % interval and mean over resampled test sets; interval:
    half the interval's width (bootstrap only). more, less: number of sentences that would raise or lower the
    baseline's score (sign test only). p_value: probability of a difference of at least this size between equal systems;
    corrected: the p-value after correction for multiple comparisons. Fields that do not apply are None, such as the
    baseline's p-value.
    """

    system: str
    score: float
    runs: tuple[float, ...]
    mean: float | None = None
    interval: float | None = None
    low: float | None = None
    high: float | None = None
    more: int | None = None
    less: int | None = None
    p_value: float | None = None
    corrected: float | None = None


@dataclass(frozen=True)
class Comparison:
    """Results of one test; the first of `systems` is the baseline."""

    test: Test
    signature: str
    systems: tuple[SystemResult, ...]


def compare(
    metric: Metric, systems: Mapping[str, Sequence[Statistics]], test: Test, signature: str, samples: int = 0
) -> Comparison:
    """Compares every system with the first, from each run's statistics (N, S) on the same N sentences.

    bootstrap: paired bootstrap resampling (Koehn 2004); several runs are resampled too. randomisation: approximate
    randomisation (Riezler and Maxwell 2005); with several runs, each sentence's outputs are permuted among all runs
    (Clark et al. 2011), so that p is about other sentences: where one run is better than another of the same system in
    all sentences, permutation averages that away. sign: the sign test of Collins et al. (2005) on the mean of the runs.
    `samples`: number of resamples or trials; 0 means 1,000 or 10,000. Raises UsageError for fewer than two systems.
    """
    if len(systems) < 2:
        raise UsageError("compare", "one system alone cannot be compared", "name two or more")
    results = {"bootstrap": bootstrap, "randomisation": randomisation, "sign": sign}[test](
        metric, systems, samples or SAMPLES[test]
    )
    abbreviation = {"bootstrap": "bs", "randomisation": "ar"}.get(test)
    suffix = f"|{abbreviation}:{samples or SAMPLES[test]}|seed:{SEED}" if abbreviation else "|sign"
    run_count = max(len(runs) for runs in systems.values())
    return Comparison(test, signature + suffix + (f"|runs:{run_count}" if run_count > 1 else ""), tuple(results))


def score_runs(metric: Metric, name: str, runs: Sequence[Statistics]) -> SystemResult:
    """Score of a system: each run's, and their mean."""
    scores = metric.values(np.stack([run.sum(0) for run in runs]))
    return SystemResult(name, float(scores.mean()), tuple(scores.tolist()))


def bootstrap(metric: Metric, systems: Mapping[str, Sequence[Statistics]], samples: int) -> Iterator[SystemResult]:
    """Paired bootstrap: resamples sentences (the same for all systems) and runs, with replacement.

    p is the share of resamples whose absolute difference exceeds the mean absolute difference of all resamples by at
    least the observed difference, as in the Moses script and sacrebleu: one-tailed, while the other tests are
    two-tailed. An observed difference of 0 has p = 1, set explicitly: absolute differences are never negative.
    """
    generator = np.random.default_rng(SEED)
    columns = np.concatenate([run for runs in systems.values() for run in runs], 1)
    sums = np.concatenate([counts @ columns for counts in bootstrap_counts(len(columns), samples, generator)])
    width = columns.shape[1] // sum(len(runs) for runs in systems.values())
    baseline: tuple[SystemResult, Values] | None = None
    first = 0
    for name, runs in systems.items():
        last = first + width * len(runs)
        run_scores = np.stack([metric.values(sums[:, i : i + width]) for i in range(first, last, width)], 1)
        first = last
        scores = np.take_along_axis(run_scores, generator.integers(len(runs), size=run_scores.shape), 1).mean(1)
        ordered = np.sort(scores)
        low, high = float(ordered[samples // 40]), float(ordered[samples - samples // 40 - 1])
        result = replace(
            score_runs(metric, name, runs), mean=float(scores.mean()), interval=(high - low) / 2, low=low, high=high
        )
        if baseline is None:
            baseline = result, scores
        else:
            differences = np.abs(scores - baseline[1])
            observed = abs(result.score - baseline[0].score)
            p_value = tail_probability(differences - differences.mean(), observed) if observed > EQUAL else 1.0
            result = replace(result, p_value=p_value)
        yield result


def bootstrap_counts(sentences: int, samples: int, generator: np.random.Generator) -> Iterator[Statistics]:
    """Number of times each sentence occurs in each resample, in blocks of (some samples, N)."""
    block = max(1, _NUMBERS_IN_MEMORY // sentences)
    for start in range(0, samples, block):
        rows = min(block, samples - start)
        indices = generator.integers(sentences, size=(rows, sentences)) + sentences * np.arange(rows)[:, None]
        yield np.bincount(indices.ravel(), minlength=rows * sentences).reshape(rows, sentences).astype(np.float64)


def randomisation(metric: Metric, systems: Mapping[str, Sequence[Statistics]], samples: int) -> Iterator[SystemResult]:
    """Approximate randomisation: permutes each sentence's outputs among the runs of both systems.

    p is the share of trials whose score difference is at least the observed one.
    """
    (first, baseline_runs), *others = systems.items()
    baseline = score_runs(metric, first, baseline_runs)
    yield baseline
    for name, runs in others:
        result = score_runs(metric, name, runs)
        generator = np.random.default_rng(SEED)
        differences = np.concatenate(
            [
                score_differences(metric, sums, len(baseline_runs))
                for sums in shuffled_sums(np.stack([*baseline_runs, *runs]), samples, generator)
            ]
        )
        yield replace(result, p_value=tail_probability(differences, abs(result.score - baseline.score)))


def shuffled_sums(runs: Statistics, samples: int, generator: np.random.Generator) -> Iterator[Statistics]:
    """Summed statistics of runs (R, N, S) after permuting each sentence's outputs: blocks of (R, some samples, S)."""
    count, sentences, width = runs.shape
    block = max(1, _NUMBERS_IN_MEMORY // (sentences * count))
    for start in range(0, samples, block):
        size = (min(block, samples - start), sentences)
        if count == 2:
            swapped = generator.integers(2, size=size, dtype=np.uint8).astype(np.float64)
            change = swapped @ (runs[1] - runs[0])
            yield np.stack([runs[0].sum(0) + change, runs[1].sum(0) - change])
        else:
            # For each slot, the index of the run whose output it receives; contiguous by slot, so that every run takes
            # one product.
            permutation = generator.random((*size, count)).argsort(-1)
            received = np.ascontiguousarray(np.moveaxis(permutation.astype(np.min_scalar_type(count)), -1, 0))
            sums = np.zeros((count * size[0], width))
            for run in range(count):
                sums += (received == run).reshape(-1, sentences).astype(np.float64) @ runs[run]
            yield sums.reshape(count, size[0], width)


def score_differences(metric: Metric, sums: Statistics, baseline_runs: int) -> Values:
    """Absolute difference of mean scores: the first `baseline_runs` of `sums` (R, samples, S) against the others."""
    scores = np.stack([metric.values(run) for run in sums])
    differences: Values = np.abs(scores[:baseline_runs].mean(0) - scores[baseline_runs:].mean(0))
    return differences


def sign(metric: Metric, systems: Mapping[str, Sequence[Statistics]], samples: int) -> Iterator[SystemResult]:
    """Sign test: counts sentences whose replacement in the baseline's output raises or lowers its score."""
    (first, baseline_runs), *others = systems.items()
    yield score_runs(metric, first, baseline_runs)
    for name, runs in others:
        effects = sentence_effects(metric, np.mean(baseline_runs, 0), np.mean(runs, 0))
        more, less = int((effects > EQUAL).sum()), int((effects < -EQUAL).sum())
        yield replace(score_runs(metric, name, runs), more=more, less=less, p_value=sign_test(more, less))


def sentence_effects(metric: Metric, baseline: Statistics, other: Statistics) -> Values:
    """Change in the baseline's score when one sentence is replaced by the sentence of `other`, for each sentence,
    (N,)."""
    total = baseline.sum(0)
    effects: Values = metric.values(total - baseline + other) - metric.values(total[None])[0]
    return effects


def sign_test(more: int, less: int) -> float:
    """Two-sided p-value of the binomial sign test with probability 1/2; ties are left out."""
    count, larger = more + less, max(more, less)
    ways, total = math.comb(count, larger), 0
    for k in range(larger, count + 1):
        total += ways
        ways = ways * (count - k) // (k + 1)
    return min(1.0, 2 * total / (1 << count))


def tail_probability(differences: Values, observed: float) -> float:
    """Share of differences that are at least the observed one, which counts as one more: (n + 1) / (N + 1)."""
    return (int((differences >= observed - EQUAL).sum()) + 1) / (len(differences) + 1)


def correct_p_values(comparisons: Sequence[Comparison], how: Correction | None) -> list[Comparison]:
    """Comparisons with p-values corrected for their total number; `how` None returns them unchanged."""
    if how is None:
        return list(comparisons)
    p_values = [
        result.p_value for comparison in comparisons for result in comparison.systems if result.p_value is not None
    ]
    corrected = iter(adjust_p_values(p_values, how))
    return [
        replace(
            comparison,
            signature=f"{comparison.signature}|{how}:{len(p_values)}",
            systems=tuple(
                result if result.p_value is None else replace(result, corrected=next(corrected))
                for result in comparison.systems
            ),
        )
        for comparison in comparisons
    ]


def adjust_p_values(p_values: Sequence[float], how: Correction) -> list[float]:
    """P-values adjusted to control the family-wise error rate.

    Bonferroni: each p-value times the number of tests. Holm (1979): the smallest times that number n, the next times
    n - 1, and so on, made monotone.
    """
    count = len(p_values)
    if how == "bonferroni":
        return [min(1.0, p * count) for p in p_values]
    adjusted, highest = [0.0] * count, 0.0
    for rank, index in enumerate(sorted(range(count), key=lambda i: p_values[i])):
        highest = max(highest, min(1.0, (count - rank) * p_values[index]))
        adjusted[index] = highest
    return adjusted
