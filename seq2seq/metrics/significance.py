"""Whether one system's score is better than another's by more than chance explains: of sentences, and of training runs.

Every test works on statistics that add up, so that it serves every metric. A system is one training run or several
(seeds); its score is the mean of its runs'. Equal systems have p = 1.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from seq2seq.errors import UsageError
from seq2seq.metrics.metric import Metric, Statistics, Values

Test = Literal["bootstrap", "randomisation", "sign"]
TESTS: tuple[Test, ...] = ("bootstrap", "randomisation", "sign")
Correction = Literal["holm", "bonferroni"]

SAMPLES: dict[Test, int] = {"bootstrap": 1000, "randomisation": 10_000, "sign": 0}  # where the caller says nothing
SEED = 12345
_AT_ONCE = 2_000_000  # drawn numbers held in memory
EQUAL = 1e-9  # scores that differ by less are equal: a sum's order shall decide nothing


@dataclass(frozen=True)
class SystemResult:
    """One system beside the baseline.

    score: the mean over its `runs`. low, high, mean: its 95 % interval and mean over resampled test sets, `interval`
    half the former's width (bootstrap only). more, less: sentences that would raise or lower the baseline's score
    (sign test only). p_value: the chance of such a difference between equal systems; `corrected` for all comparisons
    made. None where there is nothing to say, as of the baseline's own p-value.
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
    """The first of `systems` is the baseline of all others."""

    test: Test
    signature: str
    systems: tuple[SystemResult, ...]


def compare(
    metric: Metric, systems: Mapping[str, Sequence[Statistics]], test: Test, signature: str, samples: int = 0
) -> Comparison:
    """Every system against the first one, by each run's statistics (N, S) of the same N sentences.

    bootstrap: paired bootstrap resampling (Koehn 2004); with several runs, those are drawn again too. randomisation:
    approximate randomisation (Riezler and Maxwell 2005); of several runs, each sentence's outputs are dealt out anew
    among all (Clark et al. 2011). sign: the sign test of Collins et al. (2005); several runs count by their mean.
    `samples`: resamples or trials; 0: 1,000 and 10,000. Raises CallError for fewer than two systems.
    """
    if len(systems) < 2:
        raise UsageError("compare", "one system alone cannot be compared", "name two or more")
    found = {"bootstrap": bootstrap, "randomisation": randomisation, "sign": sign}[test](
        metric, systems, samples or SAMPLES[test]
    )
    how = {"bootstrap": "bs", "randomisation": "ar"}.get(test)
    drawn = f"|{how}:{samples or SAMPLES[test]}|seed:{SEED}" if how else "|sign"
    most = max(len(runs) for runs in systems.values())
    return Comparison(test, signature + drawn + (f"|runs:{most}" if most > 1 else ""), tuple(found))


def score_runs(metric: Metric, name: str, runs: Sequence[Statistics]) -> SystemResult:
    """A system's score."""
    scores = metric.values(np.stack([run.sum(0) for run in runs]))
    return SystemResult(name, float(scores.mean()), tuple(scores.tolist()))


def bootstrap(metric: Metric, systems: Mapping[str, Sequence[Statistics]], samples: int) -> Iterator[SystemResult]:
    """Test sets of sentences drawn with replacement, the same for all systems; and runs drawn with replacement.

    p is the share of resamples whose difference exceeds the resamples' mean difference by as much as the real one is,
    as Moses' script and sacrebleu have it: one tail, where the other tests count both. No difference at all has p = 1:
    of distances, which are never below 0, no resample could say so.
    """
    draw = np.random.default_rng(SEED)
    columns = np.concatenate([run for runs in systems.values() for run in runs], 1)
    sums = np.concatenate([counts @ columns for counts in bootstrap_counts(len(columns), samples, draw)])
    width = columns.shape[1] // sum(len(runs) for runs in systems.values())
    baseline: tuple[SystemResult, Values] | None = None
    first = 0
    for name, runs in systems.items():
        last = first + width * len(runs)
        each = np.stack([metric.values(sums[:, i : i + width]) for i in range(first, last, width)], 1)
        first = last
        scores = np.take_along_axis(each, draw.integers(len(runs), size=each.shape), 1).mean(1)
        in_order = np.sort(scores)
        low, high = float(in_order[samples // 40]), float(in_order[samples - samples // 40 - 1])
        found = replace(
            score_runs(metric, name, runs), mean=float(scores.mean()), interval=(high - low) / 2, low=low, high=high
        )
        if baseline is None:
            baseline = found, scores
        else:
            differences = np.abs(scores - baseline[1])
            real = abs(found.score - baseline[0].score)
            p_value = tail_probability(differences - differences.mean(), real) if real > EQUAL else 1.0
            found = replace(found, p_value=p_value)
        yield found


def bootstrap_counts(sentences: int, samples: int, draw: np.random.Generator) -> Iterator[Statistics]:
    """How often each sentence is in each resample, (some samples, N)."""
    some = max(1, _AT_ONCE // sentences)
    for start in range(0, samples, some):
        rows = min(some, samples - start)
        places = draw.integers(sentences, size=(rows, sentences)) + sentences * np.arange(rows)[:, None]
        yield np.bincount(places.ravel(), minlength=rows * sentences).reshape(rows, sentences).astype(np.float64)


def randomisation(metric: Metric, systems: Mapping[str, Sequence[Statistics]], samples: int) -> Iterator[SystemResult]:
    """Pairs of pseudo-systems made by dealing out each sentence's outputs anew; p is the share of trials that differ
    as much as the real systems do."""
    (first, own), *others = systems.items()
    baseline = score_runs(metric, first, own)
    yield baseline
    for name, runs in others:
        found = score_runs(metric, name, runs)
        draw = np.random.default_rng(SEED)
        differences = np.concatenate(
            [
                score_differences(metric, sums, len(own))
                for sums in shuffled_sums(np.stack([*own, *runs]), samples, draw)
            ]
        )
        yield replace(found, p_value=tail_probability(differences, abs(found.score - baseline.score)))


def shuffled_sums(runs: Statistics, samples: int, draw: np.random.Generator) -> Iterator[Statistics]:
    """Sums of runs (R, N, S) whose outputs have been dealt out anew, sentence by sentence: (R, some samples, S)."""
    count, sentences, _ = runs.shape
    some = max(1, _AT_ONCE // (sentences * count))
    for start in range(0, samples, some):
        size = (min(some, samples - start), sentences)
        if count == 2:
            swapped = draw.integers(2, size=size, dtype=np.uint8).astype(np.float64)
            moved = swapped @ (runs[1] - runs[0])
            yield np.stack([runs[0].sum(0) + moved, runs[1].sum(0) - moved])
        else:
            dealt = draw.random((*size, count)).argsort(-1)  # which run's output each place gets
            places = [
                np.sum([(dealt[:, :, place] == run).astype(np.float64) @ runs[run] for run in range(count)], axis=0)
                for place in range(count)
            ]
            yield np.stack(places)


def score_differences(metric: Metric, sums: Statistics, own: int) -> Values:
    """How far apart the first `own` of the pseudo-runs (R, samples, S) score from the others, on average."""
    scores = np.stack([metric.values(run) for run in sums])
    apart: Values = np.abs(scores[:own].mean(0) - scores[own:].mean(0))
    return apart


def sign(metric: Metric, systems: Mapping[str, Sequence[Statistics]], samples: int) -> Iterator[SystemResult]:
    """Each sentence of a system put into the baseline's test set: does the score rise, or fall?"""
    (first, own), *others = systems.items()
    yield score_runs(metric, first, own)
    for name, runs in others:
        found = sentence_effects(metric, np.mean(own, 0), np.mean(runs, 0))
        more, less = int((found > EQUAL).sum()), int((found < -EQUAL).sum())
        yield replace(score_runs(metric, name, runs), more=more, less=less, p_value=sign_test(more, less))


def sentence_effects(metric: Metric, own: Statistics, other: Statistics) -> Values:
    """By how much the score of `own` changes with each sentence that is taken from `other` instead, (N,)."""
    total = own.sum(0)
    found: Values = metric.values(total - own + other) - metric.values(total[None])[0]
    return found


def sign_test(more: int, less: int) -> float:
    """The chance of so uneven a split, or one more uneven, where both sides are equally likely; ties are left out."""
    count, larger = more + less, max(more, less)
    ways, total = math.comb(count, larger), 0
    for k in range(larger, count + 1):
        total += ways
        ways = ways * (count - k) // (k + 1)
    return min(1.0, 2 * total / (1 << count))


def tail_probability(found: Values, real: float) -> float:
    """The share of differences that are as large as the real one, itself counted."""
    return (int((found >= real - EQUAL).sum()) + 1) / (len(found) + 1)


def correct_p_values(comparisons: Sequence[Comparison], how: Correction | None) -> list[Comparison]:
    """Comparisons of one test with p-values corrected for all that were made; None leaves them as they are."""
    if how is None:
        return list(comparisons)
    found = [one.p_value for each in comparisons for one in each.systems if one.p_value is not None]
    after = iter(adjust_p_values(found, how))
    return [
        replace(
            each,
            signature=f"{each.signature}|{how}:{len(found)}",
            systems=tuple(one if one.p_value is None else replace(one, corrected=next(after)) for one in each.systems),
        )
        for each in comparisons
    ]


def adjust_p_values(p_values: Sequence[float], how: Correction) -> list[float]:
    """P-values of tests made together, so that any false finding among them is as unlikely as each value says.

    Bonferroni: times their number. Holm (1979): the smallest times their number, the next times one less, and so on,
    never falling.
    """
    count = len(p_values)
    if how == "bonferroni":
        return [min(1.0, p * count) for p in p_values]
    found, highest = [0.0] * count, 0.0
    for rank, place in enumerate(sorted(range(count), key=lambda i: p_values[i])):
        highest = max(highest, min(1.0, (count - rank) * p_values[place]))
        found[place] = highest
    return found
