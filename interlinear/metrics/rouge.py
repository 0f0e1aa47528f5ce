"""ROUGE-1, -2 and -L, equal to ROUGE-1.5.5 with `-n2 -m -w 1.2` (Lin 2004) in every printed digit.

A summary is one sentence, or several separated by line feeds. The script's behaviour that is reproduced here:

- Words are runs of a-z and 0-9 in lower case; words of four or more letters are stemmed. All else separates words.
- ROUGE-L counts, for each reference sentence, the words in a longest common subsequence with any sentence of the
  summary, each word at most as often as it occurs in the summary.
- With several references, matches and lengths are summed over them (`-f A`), without jackknifing.
- Recall, precision and F1 of a summary are rounded to five digits, F1 is computed from the rounded values; then all
  are averaged.
- The 95 % interval, and the mean that the script prints, come from 1,000 resamples with Perl's random numbers.
"""

import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from interlinear.components import METRICS
from interlinear.metrics.metric import Metric, ReferenceSet, Statistics, SystemOutputs, Values, percentage
from interlinear.metrics.score import IntervalScore
from interlinear.metrics.stemming import stem

_WORD = re.compile(r"[A-Za-z0-9]+")
_RESAMPLES = 1000
_NUMBERS_IN_MEMORY = 200_000  # random numbers in memory at a time
_LOW, _HIGH = 25, 974  # 0-based ranks of the sorted resamples that the script takes as the ends of a 95 % interval

Stems = list[str]

DUC_BYTES = 75  # length limit of short summaries in DUC 2003 and 2004, task 1


class Rouge(Metric):
    """Base of the ROUGE metrics: F1, or with `limit` recall on the first `limit` bytes of both sides (`-b`), in per
    cent."""

    def __init__(self, name: str, limit: int | None = None) -> None:
        super().__init__(name)
        self.limit = limit

    def missing_requirement(self, reference_set: ReferenceSet) -> str:
        if self.limit and reference_set.task not in (None, "summarization"):
            return "recall of a cut text is a score of summaries"
        if not any(_WORD.search(line) for reference in reference_set.references for line in reference):
            return "ROUGE-1.5.5 knows the letters a-z and digits alone, and the references have none"
        return ""

    def statistics(self, outputs: SystemOutputs, reference_set: ReferenceSet) -> Statistics:
        summaries = zip(outputs.hypotheses, *reference_set.references, strict=True)
        return np.array([(self.sentence(summary, references), 1) for summary, *references in summaries])

    def values(self, sums: Statistics) -> Values:
        return percentage(sums)

    def signature_settings(self, reference_set: ReferenceSet) -> str:
        cut = f"-b {self.limit}" if self.limit else "all"
        return (
            f"nrefs:{len(reference_set.references)}|{'recall' if self.limit else 'f1'}|length:{cut}|"
            "options:-n2 -m -w 1.2 -f A|like:ROUGE-1.5.5"
        )

    def report(self, statistics: Statistics, signature: str) -> IntervalScore:
        plain = super().report(statistics, signature)
        low, high, mean = (round(100 * end, 3) for end in confidence_interval(statistics[:, 0]))
        return IntervalScore(score=plain.score, signature=signature, low=low, high=high, mean=mean)

    def sentence(self, summary: str, references: Sequence[str]) -> float:
        """F1 (or recall) of one summary, 0 to 1."""
        matches, reference_size, summary_size = (
            sum(column) for column in zip(*self.matches(summary, references), strict=True)
        )
        recall, precision = rounded_ratio(matches, reference_size), rounded_ratio(matches, summary_size)
        return recall if self.limit else rounded_ratio(recall * precision, 0.5 * precision + 0.5 * recall)

    @abstractmethod
    def matches(self, summary: str, references: Sequence[str]) -> Iterator[tuple[int, int, int]]:
        """For each reference: matches with the summary, size of the reference, size of the summary."""


class RougeN(Rouge):
    """ROUGE-N over unigrams (`order` 1) or bigrams (`order` 2)."""

    def __init__(self, name: str, order: int, limit: int | None = None) -> None:
        super().__init__(name, limit)
        self.order = order

    def matches(self, summary: str, references: Sequence[str]) -> Iterator[tuple[int, int, int]]:
        summary_ngrams = self.ngrams(summary)
        for reference in references:
            reference_ngrams = self.ngrams(reference)
            yield (summary_ngrams & reference_ngrams).total(), reference_ngrams.total(), summary_ngrams.total()

    def ngrams(self, text: str) -> Counter[Hashable]:
        words = stemmed_words(text, self.limit)
        return Counter(words if self.order == 1 else pairwise(words))


class RougeL(Rouge):
    """ROUGE-L over longest common subsequences of sentences."""

    def matches(self, summary: str, references: Sequence[str]) -> Iterator[tuple[int, int, int]]:
        summary_sentences, summary_counts = (
            stemmed_sentences(summary, self.limit),
            Counter(stemmed_words(summary, self.limit)),
        )
        for reference in references:
            reference_sentences = stemmed_sentences(reference, self.limit)
            summary_left, reference_left = Counter(summary_counts), Counter(stemmed_words(reference, self.limit))
            matches = 0
            for sentence in reference_sentences:
                for word in lcs_words(sentence, summary_sentences):
                    if summary_left[word] > 0 and reference_left[word] > 0:
                        summary_left[word] -= 1
                        reference_left[word] -= 1
                        matches += 1
            yield matches, sum(map(len, reference_sentences)), summary_counts.total()


def lcs_words(reference: Stems, summary: Sequence[Stems]) -> list[str]:
    """Words of a reference sentence that are in a longest common subsequence with any sentence of the summary."""
    positions: set[int] = set()
    for sentence in summary:
        positions |= lcs_positions(reference, sentence)
    return [reference[i] for i in sorted(positions)]


def lcs_positions(reference: Stems, summary: Stems) -> set[int]:
    """Positions of the longest common subsequence in the reference; ties are resolved as the script does."""
    if not set(reference) & set(summary):
        return set()
    lengths = [[0] * (len(summary) + 1)]
    for word in reference:
        above, row, longest = lengths[-1], [0], 0
        for j, other in enumerate(summary):
            if word == other:
                longest = above[j] + 1
            elif above[j + 1] > longest:
                longest = above[j + 1]
            row.append(longest)
        lengths.append(row)
    positions, i, j = set(), len(reference), len(summary)
    while i and j:
        if reference[i - 1] == summary[j - 1]:
            i, j = i - 1, j - 1
            positions.add(i)
        elif lengths[i - 1][j] >= lengths[i][j - 1]:
            i -= 1
        else:
            j -= 1
    return positions


def stemmed_words(text: str, limit: int | None) -> Stems:
    """Stems of the first `limit` bytes of a summary; the line feeds between sentences do not count."""
    words: Stems = []
    for sentence in filter(None, text.split("\n")):
        words += stem_words(sentence, limit)
        if limit is not None:
            limit -= len(sentence.encode())
            if limit <= 0:
                break
    return words


def stemmed_sentences(text: str, limit: int | None) -> list[Stems]:
    """Stems of each sentence. As in the script, `limit` applies to each sentence, and sentences after a cut one are
    dropped."""
    sentences = []
    for sentence in filter(None, text.split("\n")):
        sentences.append(stem_words(sentence, limit))
        if limit is not None and len(sentence.encode()) >= limit:
            break
    return sentences


def stem_words(sentence: str, limit: int | None) -> Stems:
    if limit is not None:
        sentence = sentence.encode()[:limit].decode(errors="ignore")
    return [stem(word.lower()) for word in _WORD.findall(sentence)]


def rounded_ratio(part: float, whole: float) -> float:
    """`part / whole` rounded to five digits; 0 if `whole` is 0."""
    return round(part / whole, 5) if whole else 0.0


def confidence_interval(values: Values) -> tuple[float, float, float]:
    """Low and high end of the script's 95 % interval of a mean, and the mean that it prints, to five digits."""
    count = len(values)
    in_order = values[sorted(range(count), key=lambda i: f"{i + 1}.")]  # the script sorts its cases as text
    means = np.sort(np.concatenate([in_order[draws].mean(1) for draws in perl_random_indices(count)]))
    return round(float(means[_LOW]), 5), round(float(means[_HIGH]), 5), round(float(means.mean()), 5)


def perl_random_indices(count: int) -> Iterator[NDArray[np.int64]]:
    """Bootstrap indices in blocks of rows; a row is `count` values of `int(rand(count))` after `srand(resample)`.

    Perl since 5.20 uses the generator of drand48, x' = a x + c modulo 2^48; the n-th number is
    a^n x + c (a^(n-1) + ... + 1).
    """
    a, c, bits = 0x5DEECE66D, 0xB, (1 << 48) - 1
    factors, summands, factor, summand = [], [], 1, 0
    for _ in range(count):
        factor, summand = factor * a & bits, (summand * a + c) & bits
        factors.append(factor)
        summands.append(summand)
    powers, offsets = np.array(factors, np.uint64), np.array(summands, np.uint64)
    seeds = (np.arange(_RESAMPLES, dtype=np.uint64) << np.uint64(16)) + np.uint64(0x330E)
    block = max(1, _NUMBERS_IN_MEMORY // count)
    for start in range(0, _RESAMPLES, block):
        states = (powers * seeds[start : start + block, None] + offsets) & np.uint64(bits)
        yield (count * (states.astype(np.float64) * 2.0**-48)).astype(np.int64)


for suffix, limit in (("", None), ("-recall-75", DUC_BYTES)):
    METRICS.register(f"rouge-1{suffix}")(lambda name, _, limit=limit: RougeN(name, 1, limit))
    METRICS.register(f"rouge-2{suffix}")(lambda name, _, limit=limit: RougeN(name, 2, limit))
    METRICS.register(f"rouge-l{suffix}")(lambda name, _, limit=limit: RougeL(name, limit))
