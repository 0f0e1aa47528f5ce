"""METEOR 1.5 (Denkowski and Lavie 2014) with its exact and stem matchers; it has no synonyms and no paraphrases.

Words are aligned one to one, where they are equal or have one stem: as many as can be, in as few chunks as can be. A
chunk is a run that is contiguous, and in one order, on both sides. With precision and recall weighted by matcher and by
kind of word, content or function,

    P = sum_i w_i (d m_i(c) + (1 - d) m_i(f)) / (d |c| + (1 - d) |f|)      R likewise, over the reference
    F = P R / (a P + (1 - a) R)      penalty = g (chunks / matches)^b      score = (1 - penalty) F

A sentence that equals its reference has matches and no chunk, as in the paper's own program. Of several references the
one with the best score counts.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain

import numpy as np

from seq2seq.metrics.metric import Metric, Preprocessing, ReferenceSet, Statistics, SystemOutputs, Values
from seq2seq.metrics.translation import WordTokenizer

FREQUENT = 0.001  # a function word's share of all words, at least: how the paper finds them for a new language
UNMATCHED = -2  # beside no place
BEAM = 40  # partial alignments that are followed, as in the paper's own program


@dataclass(frozen=True)
class Parameters:
    """The tuned numbers of a language. `stem`: the weight of a match of stems, and the stemmer; None: not matched."""

    alpha: float
    beta: float
    gamma: float
    delta: float
    stem: tuple[float, str] | None = None


# METEOR 1.5's for ranking. Czech has no stemmer there; UNIVERSAL are the paper's for any other language.
LANGUAGE_PARAMETERS = {
    "en": Parameters(0.85, 0.20, 0.60, 0.75, (0.6, "english")),
    "de": Parameters(0.95, 1.00, 0.55, 0.55, (0.8, "german")),
    "fr": Parameters(0.90, 1.40, 0.60, 0.65, (0.2, "french")),
    "es": Parameters(0.65, 1.30, 0.50, 0.80, (0.8, "spanish")),
    "cs": Parameters(0.95, 0.20, 0.60, 0.80),
}
DEFAULT_PARAMETERS = Parameters(0.70, 1.40, 0.30, 0.70)


class Meteor(Metric):
    """METEOR with exact and stem matches, in per cent, of the sums over all sentences."""

    def __init__(self, name: str, reading: Preprocessing) -> None:
        super().__init__(name)
        self.parameters = LANGUAGE_PARAMETERS.get(reading.language or "", DEFAULT_PARAMETERS)
        self.language = reading.language if reading.language in LANGUAGE_PARAMETERS else "other"
        self.lowercase = reading.lowercase is not False
        self.words = WordTokenizer(reading)
        self.stemmed = snowball_stemmer(self.parameters.stem[1]) if self.parameters.stem else None

    def statistics(self, outputs: SystemOutputs, answers: ReferenceSet) -> Statistics:
        references = [[self.tokenize(line) for line in reference] for reference in answers.references]
        function = function_words(line for reference in references for line in reference)
        return np.array(
            [
                self.best_reference(self.tokenize(hypothesis), own, function)
                for hypothesis, own in zip(outputs.hypotheses, zip(*references, strict=True), strict=True)
            ]
        )

    def values(self, sums: Statistics) -> Values:
        ours, our_length, theirs, their_length, chunks, matches = sums.T
        precision, recall = divide_or_zero(ours, our_length), divide_or_zero(theirs, their_length)
        one = self.parameters
        mean = divide_or_zero(precision * recall, one.alpha * precision + (1 - one.alpha) * recall)
        penalty: Values = one.gamma * divide_or_zero(chunks, matches) ** one.beta
        return 100 * mean * (1 - penalty)

    def signature_settings(self, answers: ReferenceSet) -> str:
        one = self.parameters
        stages = f"exact+stem:{one.stem[1]}" if one.stem else "exact"
        numbers = f"{one.alpha:g},{one.beta:g},{one.gamma:g},{one.delta:g}" + (f",{one.stem[0]:g}" if one.stem else "")
        case = "lc" if self.lowercase else "mixed"
        return (
            f"meteor:{stages}|like:METEOR-1.5|lang:{self.language}|parameters:{numbers}|nrefs:{len(answers.references)}|"
            f"case:{case}|{self.words.signature_settings.partition('|')[2]}|function:{FREQUENT:g}-of-references"
        )

    def tokenize(self, line: str) -> tuple[str, ...]:
        words = self.words(line)
        return tuple(word.lower() for word in words) if self.lowercase else tuple(words)

    def best_reference(
        self, hypothesis: Sequence[str], references: Sequence[Sequence[str]], function: frozenset[str]
    ) -> list[float]:
        """What a sentence adds, by the reference for which it scores best; of equals by that which adds the least."""
        each = [self.sentence_statistics(hypothesis, reference, function) for reference in references]
        scores = self.values(np.array(each)).tolist()
        return min(zip(scores, each, strict=True), key=lambda one: (-one[0], one[1]))[1]

    def sentence_statistics(
        self, hypothesis: Sequence[str], reference: Sequence[str], function: frozenset[str]
    ) -> list[float]:
        """Weighted matches and length of the hypothesis, and of the reference; chunks, and matches."""
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
        """The weight of a match."""
        return 1.0 if one == other or not self.parameters.stem else self.parameters.stem[0]


def divide_or_zero(part: Values, whole: Values) -> Values:
    """0 where there is nothing to share."""
    return np.divide(part, whole, out=np.zeros(len(part)), where=whole != 0)


def function_words(lines: Iterable[Sequence[str]]) -> frozenset[str]:
    """Function words: those that are at least `FREQUENT` of all."""
    counts = Counter(chain.from_iterable(lines))
    least = FREQUENT * counts.total()
    return frozenset(word for word, count in counts.items() if count >= least)


def align(
    hypothesis: Sequence[str], reference: Sequence[str], stemmed: Callable[[str], str] | None = None
) -> tuple[tuple[int, int], ...]:
    """Places of words that match, one to one, in the order of the hypothesis: as many as can be, of all such ways one
    with the fewest chunks, and then with the least distances between the places (the paper's criteria).

    To match is to be of one kind (equal, or of one stem), so that each kind has as many matches as its rarer side has
    words, whichever they are: what remains to be chosen is which. It is chosen word by word, `BEAM` ways at a time.
    """
    ours, theirs = ([stemmed(word) if stemmed else word for word in words] for words in (hypothesis, reference))
    places: dict[str, list[int]] = {}
    for j, kind in enumerate(theirs):
        places.setdefault(kind, []).append(j)
    left_over = {kind: max(0, count - len(places.get(kind, ()))) for kind, count in Counter(ours).items()}
    ways = [PartialAlignment()]
    for i, kind in enumerate(ours):
        longer: dict[tuple[frozenset[int], int], PartialAlignment] = {}
        for way in ways:
            unmatched = ours[:i].count(kind) - sum(j in way.used for j in places.get(kind, ()))
            further = [way.with_match(i, j) for j in places.get(kind, ()) if j not in way.used]
            if unmatched < left_over[kind]:
                further.append(replace(way, last=UNMATCHED))
            for one in further:
                known = longer.get((one.used, one.last))
                if known is None or one.cost < known.cost:
                    longer[one.used, one.last] = one
        ways = sorted(longer.values(), key=lambda way: way.cost)[:BEAM]
    return ways[0].links


@dataclass(frozen=True)
class PartialAlignment:
    """A way to align the first words of a hypothesis. last: the place that the last one matches, or NOWHERE."""

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
    """A language's Snowball stemmer, which remembers words."""
    from snowballstemmer import stemmer

    return lru_cache(maxsize=200_000)(stemmer(language).stemWord)
