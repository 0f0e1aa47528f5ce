"""ROUGE-1, -2 and -L as ROUGE-1.5.5 reckons them with `-n2 -m -w 1.2` (Lin 2004), to its last digit.

A summary is one sentence, or several with line feeds between them. What the script does, this does too:

- Stems are runs of a-z and 0-9, in lower case; those of four letters or more are stemmed. All else separates.
- ROUGE-L takes, for each sentence of a reference, the words that are in a longest common subsequence with any sentence
  of the summary, each word at most as often as the summary has it.
- With several references, matches and lengths are summed over them (`-f A`). Nothing is left out in turn.
- Recall, precision and F1 of a summary are rounded to five digits, F1 is made of the rounded; then all are averaged.
- The 95 % interval, and the mean that the script prints, come from 1,000 resamples drawn by Perl's random numbers.
"""

import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from seq2seq.metrics.metric import Metric, ReferenceSet, Statistics, SystemOutputs, Values, percentage
from seq2seq.metrics.score import IntervalScore
from seq2seq.metrics.stemming import stem

_WORD = re.compile(r"[A-Za-z0-9]+")
_RESAMPLES = 1000
_AT_ONCE = 200_000  # drawn numbers held in memory
_LOW, _HIGH = 25, 974  # of the sorted resamples, counted from 0: where the script has the ends of a 95 % interval

Stems = list[str]


class Rouge(Metric):
    """A summary's F1, or with `limit` its recall over the first so many bytes of either side (`-b`), in per cent."""

    def __init__(self, name: str, limit: int | None = None) -> None:
        super().__init__(name)
        self.limit = limit

    def missing_requirement(self, answers: ReferenceSet) -> str:
        if self.limit and answers.task not in (None, "summarization"):
            return "recall of a cut text is a score of summaries"
        if not any(_WORD.search(line) for reference in answers.references for line in reference):
            return "ROUGE-1.5.5 knows the letters a-z and digits alone, and the references have none"
        return ""

    def statistics(self, outputs: SystemOutputs, answers: ReferenceSet) -> Statistics:
        summaries = zip(outputs.hypotheses, *answers.references, strict=True)
        return np.array([(self.sentence(summary, references), 1) for summary, *references in summaries])

    def values(self, sums: Statistics) -> Values:
        return percentage(sums)

    def signature_settings(self, answers: ReferenceSet) -> str:
        cut = f"-b {self.limit}" if self.limit else "all"
        return (
            f"nrefs:{len(answers.references)}|{'recall' if self.limit else 'f1'}|length:{cut}|"
            "options:-n2 -m -w 1.2 -f A|like:ROUGE-1.5.5"
        )

    def report(self, statistics: Statistics, signature: str) -> IntervalScore:
        plain = super().report(statistics, signature)
        low, high, mean = (round(100 * end, 3) for end in confidence_interval(statistics[:, 0]))
        return IntervalScore(score=plain.score, signature=signature, low=low, high=high, mean=mean)

    def sentence(self, summary: str, references: Sequence[str]) -> float:
        """F1 (or recall) of one summary, 0 to 1."""
        found, theirs, ours = (sum(column) for column in zip(*self.matches(summary, references), strict=True))
        recall, precision = rounded_ratio(found, theirs), rounded_ratio(found, ours)
        return recall if self.limit else rounded_ratio(recall * precision, 0.5 * precision + 0.5 * recall)

    @abstractmethod
    def matches(self, summary: str, references: Sequence[str]) -> Iterator[tuple[int, int, int]]:
        """For each reference: what it shares with the summary, its own size, and the summary's."""


class RougeN(Rouge):
    """Of words, or of pairs of words."""

    def __init__(self, name: str, order: int, limit: int | None = None) -> None:
        super().__init__(name, limit)
        self.order = order

    def matches(self, summary: str, references: Sequence[str]) -> Iterator[tuple[int, int, int]]:
        ours = self.ngrams(summary)
        for reference in references:
            theirs = self.ngrams(reference)
            yield (ours & theirs).total(), theirs.total(), ours.total()

    def ngrams(self, text: str) -> Counter[Hashable]:
        words = stemmed_words(text, self.limit)
        return Counter(words if self.order == 1 else pairwise(words))


class RougeL(Rouge):
    """Of longest common subsequences."""

    def matches(self, summary: str, references: Sequence[str]) -> Iterator[tuple[int, int, int]]:
        ours, said = stemmed_sentences(summary, self.limit), Counter(stemmed_words(summary, self.limit))
        for reference in references:
            theirs = stemmed_sentences(reference, self.limit)
            left, wanted = Counter(said), Counter(stemmed_words(reference, self.limit))
            found = 0
            for sentence in theirs:
                for word in lcs_words(sentence, ours):
                    if left[word] > 0 and wanted[word] > 0:
                        left[word] -= 1
                        wanted[word] -= 1
                        found += 1
            yield found, sum(map(len, theirs)), said.total()


def lcs_words(reference: Stems, summary: Sequence[Stems]) -> list[str]:
    """The words of a reference's sentence that are in its longest common subsequence with any of the summary's."""
    places: set[int] = set()
    for sentence in summary:
        places |= lcs_positions(reference, sentence)
    return [reference[i] for i in sorted(places)]


def lcs_positions(reference: Stems, summary: Stems) -> set[int]:
    """Where the longest common subsequence lies in the reference; of several, the one that the script finds."""
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
    places, i, j = set(), len(reference), len(summary)
    while i and j:
        if reference[i - 1] == summary[j - 1]:
            i, j = i - 1, j - 1
            places.add(i)
        elif lengths[i - 1][j] >= lengths[i][j - 1]:
            i -= 1
        else:
            j -= 1
    return places


def stemmed_words(text: str, limit: int | None) -> Stems:
    """The stems of a summary's first bytes; between its sentences nothing is counted."""
    words: Stems = []
    for sentence in filter(None, text.split("\n")):
        words += stem_words(sentence, limit)
        if limit is not None:
            limit -= len(sentence.encode())
            if limit <= 0:
                break
    return words


def stemmed_sentences(text: str, limit: int | None) -> list[Stems]:
    """The stems of each sentence. The script cuts each by itself here, and leaves out what follows one that it cut."""
    found = []
    for sentence in filter(None, text.split("\n")):
        found.append(stem_words(sentence, limit))
        if limit is not None and len(sentence.encode()) >= limit:
            break
    return found


def stem_words(sentence: str, limit: int | None) -> Stems:
    if limit is not None:
        sentence = sentence.encode()[:limit].decode(errors="ignore")
    return [stem(word.lower()) for word in _WORD.findall(sentence)]


def rounded_ratio(part: float, whole: float) -> float:
    """A ratio to five digits; 0 of nothing."""
    return round(part / whole, 5) if whole else 0.0


def confidence_interval(values: Values) -> tuple[float, float, float]:
    """The ends of the script's 95 % interval of a mean, and the mean that it prints, to five digits."""
    count = len(values)
    in_order = values[sorted(range(count), key=lambda i: f"{i + 1}.")]  # as text, which is how it sorts its cases
    means = np.sort(np.concatenate([in_order[draws].mean(1) for draws in perl_random_indices(count)]))
    return round(float(means[_LOW]), 5), round(float(means[_HIGH]), 5), round(float(means.mean()), 5)


def perl_random_indices(count: int) -> Iterator[NDArray[np.int64]]:
    """For some resamples a row each: `int(rand(count))` so many times after `srand(resample)`, by Perl since 5.20.

    Its generator is that of drand48, x' = a x + c modulo 2^48; the n-th number is a^n x + c (a^(n-1) + ... + 1).
    """
    a, c, bits = 0x5DEECE66D, 0xB, (1 << 48) - 1
    factors, summands, factor, summand = [], [], 1, 0
    for _ in range(count):
        factor, summand = factor * a & bits, (summand * a + c) & bits
        factors.append(factor)
        summands.append(summand)
    powers, offsets = np.array(factors, np.uint64), np.array(summands, np.uint64)
    seeds = (np.arange(_RESAMPLES, dtype=np.uint64) << np.uint64(16)) + np.uint64(0x330E)
    some = max(1, _AT_ONCE // count)
    for start in range(0, _RESAMPLES, some):
        states = (powers * seeds[start : start + some, None] + offsets) & np.uint64(bits)
        yield (count * (states.astype(np.float64) * 2.0**-48)).astype(np.int64)
