"""How much of given outputs a shortlist would let a search write."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from seq2seq.shortlist.shortlist import Shortlist


@dataclass(frozen=True)
class Coverage:
    """Counts over sentences: candidate words, tokens of the outputs, and those of them that are candidates."""

    sentences: int = 0
    candidates: int = 0
    tokens: int = 0
    covered: int = 0

    @property
    def share(self) -> float:
        """The share of the outputs' tokens that are candidates of their sentence; 1 if there are none."""
        return self.covered / self.tokens if self.tokens else 1.0

    @property
    def candidates_each(self) -> float:
        """Candidate words of a sentence, on average."""
        return self.candidates / max(1, self.sentences)


def coverage(shortlist: Shortlist, pairs: Iterable[tuple[Mapping[str, Sequence[int]], Sequence[int]]]) -> Coverage:
    """The coverage of outputs, given as token ids without END beside their sources'."""
    sentences = candidates = tokens = covered = 0
    for sources, output in pairs:
        words = shortlist.words(sources)
        sentences, candidates, tokens = sentences + 1, candidates + len(words), tokens + len(output)
        covered += int(np.isin(output, words).sum())
    return Coverage(sentences, candidates, tokens, covered)
