"""Near-duplicates: normalization of a text to words, and a search for texts that share most of them."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from itertools import pairwise

# Near-duplicates have a Jaccard similarity of at least 7/10, kept as integers so that no rounding decides.
SIMILAR, OF = 7, 10
# Scripts without spaces between words (Thai, Lao, Myanmar, Khmer, kana, Han): each character is taken for a word.
UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
WORDS = re.compile(rf"[{UNSPACED}]|[^\W\d_{UNSPACED}]+|\d+")
NUMBER = "0"

Features = set[str | tuple[str, str]]


def normalized_words(text: str) -> list[str]:
    """The words of a text without regard to case, white space, punctuation, compatibility forms and the value of
    numbers."""
    words = WORDS.findall(unicodedata.normalize("NFKC", text).casefold())
    return [NUMBER if word[0].isdigit() else word for word in words]


class NearDuplicateIndex:
    """A set of texts, searched for near-duplicates of others.

    Two texts are near-duplicates if the sets of their words and pairs of adjacent words have a Jaccard similarity
    (common elements by all elements) of at least 0.7: of ten words one may differ, of five none. The search is exact:
    a text that is similar to another shares one of its rarest features (prefix filtering, Chaudhuri et al. 2006),
    and only texts with that feature are compared. Memory grows with the indexed texts only.
    """

    def __init__(self, texts: Iterable[Sequence[str]]) -> None:
        """`texts`: the words of each text, see `normalized_words`."""
        self.features = [text_features(words) for words in texts]
        self.postings: dict[str | tuple[str, str], list[int]] = {}
        for number, features in enumerate(self.features):
            for feature in features:
                self.postings.setdefault(feature, []).append(number)

    def matches(self, words: Sequence[str]) -> bool:
        """Whether one of the texts is a near-duplicate of this one, or equal to it."""
        features = text_features(words)
        known = [feature for feature in features if feature in self.postings]
        required = -(-SIMILAR * len(features) // OF)  # features that any similar text shares
        if not known or len(known) < required:
            return False
        known.sort(key=lambda feature: len(self.postings[feature]))
        rarest = known[: len(known) - required + 1]
        candidates = {number for feature in rarest for number in self.postings[feature]}
        return any(are_similar(features, self.features[number]) for number in candidates)


def text_features(words: Sequence[str]) -> Features:
    """The words and the pairs of adjacent words of a text."""
    return {*words, *pairwise(words)}


def are_similar(one: Features, other: Features) -> bool:
    """Whether the Jaccard similarity of two sets is at least 0.7."""
    # common / (total - common) >= 7/10, without a division
    total = len(one) + len(other)
    if OF * min(len(one), len(other)) < SIMILAR * max(len(one), len(other)):
        return False
    return (SIMILAR + OF) * len(one & other) >= SIMILAR * total
