"""METEOR 1.5 (Denkowski and Lavie 2014) with the exact and stem matchers, without synonyms and paraphrases.

Words are aligned one to one where they are equal or share a stem: first as many as possible, then in as few chunks as
possible. A chunk is a run of matches that is contiguous and in the same order on both sides. Matches are weighted by
matcher, and by content or function word:

    P = sum_i w_i (d m_i(c) + (1 - d) m_i(f)) / (d |c| + (1 - d) |f|)      R likewise, over the reference
    F = P R / (a P + (1 - a) R)      penalty = g (chunks / matches)^b      score = (1 - penalty) F

As in the original program, a sentence that equals its reference has 0 chunks, so no penalty. With several references
the one with the best score counts.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain

import numpy as np

from interlinear.components import METRICS
from interlinear.metrics.metric import Metric, Preprocessing, ReferenceSet, Statistics, SystemOutputs, Values
from interlinear.metrics.translation import WordTokenizer

FREQUENT = 0.001  # minimum relative frequency of a function word: the paper's rule for a new language
UNMATCHED = -2  # position of an unmatched word: adjacent to no real position
BEAM = 40  # beam width of the alignment search, as in the original program


@dataclass(frozen=True)
class Parameters:
    """Tuned parameters of a language. `stem`: weight of a stem match and the stemmer's name; None: no stem matching."""

    alpha: float
    beta: float
    gamma: float
    delta: float
    stem: tuple[float, str] | None = None


# Ranking parameters of METEOR 1.5, which has no stemmer for Czech. DEFAULT_PARAMETERS are the paper's universal ones.
LANGUAGE_PARAMETERS = {
    "en": Parameters(0.85, 0.20, 0.60, 0.75, (0.6, "english")),
    "de": Parameters(0.95, 1.00, 0.55, 0.55, (0.8, "german")),
    "fr": Parameters(0.90, 1.40, 0.60, 0.65, (0.2, "french")),
    "es": Parameters(0.65, 1.30, 0.50, 0.80, (0.8, "spanish")),
    "cs": Parameters(0.95, 0.20, 0.60, 0.80),
}
DEFAULT_PARAMETERS = Parameters(0.70, 1.40, 0.30, 0.70)


@METRICS.register("meteor")
class Meteor(Metric):
    """Corpus-level METEOR with exact and stem matches, in per cent."""

    def __init__(self, name: str, preprocessing: Preprocessing) -> None:
        super().__init__(name)
        self.parameters = LANGUAGE_PARAMETERS.get(preprocessing.language or "", DEFAULT_PARAMETERS)
        self.language = preprocessing.language if preprocessing.language in LANGUAGE_PARAMETERS else "other"
        self.lowercase = preprocessing.lowercase is not False
        self.words = WordTokenizer(preprocessing)
        self.stemmed = snowball_stemmer(self.parameters.stem[1]) if self.parameters.stem else None

    def statistics(self, outputs: SystemOutputs, reference_set: ReferenceSet) -> Statistics:
        references = [[self.tokenize(line) for line in reference] for reference in reference_set.references]
        function = function_words(line for reference in references for line in reference)
        return np.array(
            [
                self.best_reference(self.tokenize(hypothesis), references_of_sentence, function)
                for hypothesis, references_of_sentence in zip(
                    outputs.hypotheses, zip(*references, strict=True), strict=True
                )
            ]
        )

    def values(self, sums: Statistics) -> Values:
        hypothesis_matches, hypothesis_length, reference_matches, reference_length, chunks, matches = sums.T
        precision = divide_or_zero(hypothesis_matches, hypothesis_length)
        recall = divide_or_zero(reference_matches, reference_length)
        p = self.parameters
        mean = divide_or_zero(precision * recall, p.alpha * precision + (1 - p.alpha) * recall)
        penalty: Values = p.gamma * divide_or_zero(chunks, matches) ** p.beta
        return 100 * mean * (1 - penalty)

    def signature_settings(self, reference_set: ReferenceSet) -> str:
        p = self.parameters
        stages = f"exact+stem:{p.stem[1]}" if p.stem else "exact"
        values = f"{p.alpha:g},{p.beta:g},{p.gamma:g},{p.delta:g}" + (f",{p.stem[0]:g}" if p.stem else "")
        case = "lc" if self.lowercase else "mixed"
        return (
            f"meteor:{stages}|like:METEOR-1.5|lang:{self.language}|parameters:{values}|"
            f"nrefs:{len(reference_set.references)}|case:{case}|"
            f"{self.words.signature_settings.partition('|')[2]}|function:{FREQUENT:g}-of-references"
        )

    def tokenize(self, line: str) -> tuple[str, ...]:
        words = self.words(line)
        return tuple(word.lower() for word in words) if self.lowercase else tuple(words)

    def best_reference(
        self, hypothesis: Sequence[str], references: Sequence[Sequence[str]], function: frozenset[str]
    ) -> list[float]:
        """Statistics of a sentence against its best-scoring reference; ties go to the smallest statistics."""
        statistics = [self.sentence_statistics(hypothesis, reference, function) for reference in references]
        scores = self.values(np.array(statistics)).tolist()
        return min(zip(scores, statistics, strict=True), key=lambda pair: (-pair[0], pair[1]))[1]

    def sentence_statistics(
        self, hypothesis: Sequence[str], reference: Sequence[str], function: frozenset[str]
    ) -> list[float]:
        """Weighted matches and weighted length of the hypothesis, the same of the reference, chunks and matches."""
        links = align(hypothesis, reference, self.stemmed)
        chunks = sum(link not in {(i + 1, j + 1) for i, j in links} for link in links)
        if chunks == 1 and len(links) == len(hypothesis) == len(reference):
            chunks = 0
        sides = []
        for side, words in enumerate((hypothesis, reference)):
            weights = [1 - self.parameters.delta if word in function else self.parameters.delta for word in words]
            sides += [sum(self.match_weight(hypothesis[i], reference[j]) * weights[(i, j)[side]] for i, j in links)]
            sides += [sum(weights)]
        return [*sides, float(chunks), float(len(links))]

    def match_weight(self, one: str, other: str) -> float:
        """Matcher weight: 1 for equal words, the stem weight otherwise."""
        return 1.0 if one == other or not self.parameters.stem else self.parameters.stem[0]


def divide_or_zero(part: Values, whole: Values) -> Values:
    """Element-wise `part / whole`; 0 where `whole` is 0."""
    return np.divide(part, whole, out=np.zeros(len(part)), where=whole != 0)


def function_words(lines: Iterable[Sequence[str]]) -> frozenset[str]:
    """Words with a relative frequency of at least `FREQUENT` in these lines."""
    counts = Counter(chain.from_iterable(lines))
    least = FREQUENT * counts.total()
    return frozenset(word for word, count in counts.items() if count >= least)


def align(
    hypothesis: Sequence[str], reference: Sequence[str], stemmed: Callable[[str], str] | None = None
) -> tuple[tuple[int, int], ...]:
    """Aligns matching words one to one; returns position pairs in hypothesis order.

    Criteria of the paper, in this order: the most matches, the fewest chunks, the smallest sum of distances between
    matched positions. Words match if they are equal or have the same stem. The number of matches of a stem is the
    smaller of its counts on the two sides, so the search chooses only which occurrences match: a beam search over the
    hypothesis words with `BEAM` partial alignments.
    """
    hypothesis_forms, reference_forms = (
        [stemmed(word) if stemmed else word for word in words] for words in (hypothesis, reference)
    )
    positions: dict[str, list[int]] = {}
    for j, form in enumerate(reference_forms):
        positions.setdefault(form, []).append(j)
    surplus = {form: max(0, count - len(positions.get(form, ()))) for form, count in Counter(hypothesis_forms).items()}
    beam = [PartialAlignment()]
    for i, form in enumerate(hypothesis_forms):
        extended: dict[tuple[frozenset[int], int], PartialAlignment] = {}
        for partial in beam:
            unmatched = hypothesis_forms[:i].count(form) - sum(j in partial.used for j in positions.get(form, ()))
            extensions = [partial.with_match(i, j) for j in positions.get(form, ()) if j not in partial.used]
            if unmatched < surplus[form]:
                extensions.append(replace(partial, last=UNMATCHED))
            for extension in extensions:
                best = extended.get((extension.used, extension.last))
                if best is None or extension.cost < best.cost:
                    extended[extension.used, extension.last] = extension
        beam = sorted(extended.values(), key=lambda partial: partial.cost)[:BEAM]
    return beam[0].links


@dataclass(frozen=True)
class PartialAlignment:
    """An alignment of the first words of a hypothesis. last: reference position of the last word, or UNMATCHED."""

    links: tuple[tuple[int, int], ...] = ()
    used: frozenset[int] = frozenset()
    last: int = UNMATCHED
    chunks: int = 0
    distance: int = 0

    @property
    def cost(self) -> tuple[int, int, tuple[tuple[int, int], ...]]:
        return self.chunks, self.distance, self.links

    def with_match(self, i: int, j: int) -> "PartialAlignment":
        return PartialAlignment(
            (*self.links, (i, j)), self.used | {j}, j, self.chunks + (self.last != j - 1), self.distance + abs(i - j)
        )


@lru_cache
def snowball_stemmer(language: str) -> Callable[[str], str]:
    """The Snowball stemmer of a language, with a cache."""
    from snowballstemmer import stemmer

    return lru_cache(maxsize=200_000)(stemmer(language).stemWord)
