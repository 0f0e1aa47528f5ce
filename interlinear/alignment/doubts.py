"""Word-level quality estimation without a further model: words of an output that are likely wrong, or left out.

The evidence comes from an explanation: the probability of each word (Fomicheva et al. 2020, "Unsupervised Quality
Estimation for Neural Machine Translation"), and the alignment weights, for words left out and words translated twice
(Tu et al. 2016, "Modeling Coverage for Neural Machine Translation", name both errors).

Weights are (L, S): a row for each of L target words, a column for each of S source words.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from interlinear.alignment.links import Link
from interlinear.explanation import Doubt, Explanation, Span

Weights = Sequence[Sequence[float]]


@dataclass(frozen=True)
class DoubtThresholds:
    """Thresholds for doubtful words; chosen on dev sets by `research/quality/doubts.py` (research/results/).

    probability: a target word is improbable below it.
    attended: a source word whose weights sum to less, over all target words, is not translated.
    attended_letters: shorter source words are never untranslated. Function words are often left out rightly, and
        a language's frequent words are its short ones (Zipf 1935), which needs no list of them.
    repeated: the weight with which both of two equal target words must attend to one source word.
    repeated_letters: shorter target words are never repeated, for the same reason (`as ... as`).
    """

    probability: float = 0.2
    attended: float = 0.3
    attended_letters: int = 5
    repeated: float = 0.5
    repeated_letters: int = 3


THRESHOLDS = DoubtThresholds()


def with_doubts(explanation: Explanation, complete: bool, unseen: Sequence[int] = ()) -> Explanation:
    """The explanation with its doubts; unchanged if the probabilities of its words are not known.

    complete: the output has the full meaning of the source, as a translation has and a summary has not; only then can a
    source word be untranslated. unseen: the source words that are not in the model's training text.
    """
    if explanation.confidence is None:
        return explanation
    words = texts(explanation.source)
    found = [Doubt(reason="unseen", side="source", word=i) for i in unseen if not is_punctuation(words[i])]
    return explanation.model_copy(update={"doubts": find_doubts(explanation, complete) + found})


def find_doubts(explanation: Explanation, complete: bool, thresholds: DoubtThresholds = THRESHOLDS) -> list[Doubt]:
    """The doubts about an explanation's target words, then about its source words, in the order of the words.

    A word may be doubtful for several reasons. Without a text source only probabilities count. `complete` as in
    `with_doubts`.
    """
    source, target, links = texts(explanation.source), texts(explanation.target), explanation.alignment
    weights = explanation.matrices[explanation.aligned_by] if explanation.aligned_by else []
    found = [
        Doubt(reason="low_probability", side="target", word=j)
        for j in improbable_words(target, explanation.confidence or [], thresholds.probability)
    ]
    found += [
        Doubt(reason="repeated", side="target", word=j, earlier=earlier)
        for j, earlier in repeated_words(source, target, weights, links, thresholds)
    ]
    found.sort(key=lambda doubt: doubt.word)
    if complete and weights:
        left_out = untranslated_words(source, weights, links, thresholds)
        found += [Doubt(reason="untranslated", side="source", word=i) for i in left_out]
    return found


def improbable_words(words: Sequence[str], confidence: Sequence[float | None], threshold: float) -> list[int]:
    """The target words with a probability below the threshold. A word without a probability (None) is not doubtful;
    punctuation is not judged."""
    pairs = zip(words, confidence, strict=False)
    return [j for j, (word, p) in enumerate(pairs) if p is not None and p < threshold and not is_punctuation(word)]


def untranslated_words(
    words: Sequence[str], weights: Weights, alignment: Collection[Link], thresholds: DoubtThresholds
) -> list[int]:
    """The source words without a link whose weights sum to less than `attended`.

    Only words of at least `attended_letters` count: punctuation never does, nor does a word of Chinese, whose length is
    not informative.
    """
    linked = {i for i, _ in alignment}
    attended = [sum(column) for column in zip(*weights, strict=True)]
    return [
        i
        for i, word in enumerate(words)
        if i not in linked and attended[i] < thresholds.attended and letter_count(word) >= thresholds.attended_letters
    ]


def repeated_words(
    source: Sequence[str],
    target: Sequence[str],
    weights: Weights,
    alignment: Collection[Link],
    thresholds: DoubtThresholds,
) -> list[tuple[int, int]]:
    """The target words that repeat an earlier one: pairs of a word and the earlier one.

    Both are equal but for their case, of at least `repeated_letters`, and linked to one source word with at least the
    weight `repeated`. Equal words that are linked to different source words (the articles of two nouns) do not count,
    nor does a word that the source repeats.
    """
    source, target = [word.lower() for word in source], [word.lower() for word in target]
    counts = Counter(source)
    said: dict[tuple[str, int], int] = {}
    found: dict[int, int] = {}
    for i, j in sorted(alignment, key=lambda link: (link[1], link[0])):
        enough = weights[j][i] >= thresholds.repeated and letter_count(target[j]) >= thresholds.repeated_letters
        if enough and counts[source[i]] == 1:
            earlier = said.setdefault((target[j], i), j)
            if earlier != j:
                found.setdefault(j, earlier)
    return sorted(found.items())


def is_punctuation(word: str) -> bool:
    """Whether a word has neither letters nor digits."""
    return not any(character.isalnum() for character in word)


def letter_count(word: str) -> int:
    """The number of letters in a word."""
    return sum(map(str.isalpha, word))


def texts(spans: Sequence[Span]) -> list[str]:
    """The words as text."""
    return [span.text for span in spans]
