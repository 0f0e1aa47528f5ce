"""Word alignment without a translation model: the HMM aligner, learned from the pairs or read from a folder."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from interlinear.alignment.hmm import LinkPosteriors, WordAligner
from interlinear.alignment.links import Alignment, Symmetrization
from interlinear.alignment.links import symmetrize as combine
from interlinear.alignment.pair_batches import normalized_words, split_words
from interlinear.alignment.stored_aligner import load_aligner, save_aligner
from interlinear.cli.console import say
from interlinear.cli.decoding.alignment import AlignmentOutcome, SentencePair
from interlinear.cli.progress import LiveLine
from interlinear.errors import UsageError
from interlinear.explanation import Span, WeightedLink, to_spans

MAX_WORDS = 1000  # words of a side; memory grows with the square
FEW_PAIRS = 20  # with fewer pairs, positions and equal words decide
UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]{4,}")


@dataclass(frozen=True)
class PairWords:
    """The words of a pair with their offsets; a side that is too long has none, and `problem` names it."""

    pair: SentencePair
    source: list[Span]
    target: list[Span]
    problem: str = ""

    @classmethod
    def of(cls, pair: SentencePair, tokenised: bool) -> "PairWords":
        """The words of a pair: in raw text words and punctuation marks, in tokenised text separated by spaces."""
        source, target = (to_spans(text, split_words(text, tokenised)) for text in (pair.source, pair.target))
        for side, words in (("source", source), ("target", target)):
            if len(words) > MAX_WORDS:
                return cls(pair, [], [], f"the {side} has {len(words):,} words, and at most {MAX_WORDS:,} are aligned.")
        return cls(pair, source, target)


def align_statistically(
    pairs: Iterator[SentencePair],
    model: str | None,
    symmetrize: Symmetrization | None,
    tokenised: bool,
    save: Path | None,
) -> Iterator[AlignmentOutcome]:
    """Align pairs with the aligner in the folder `model`, or with one learned from them, which is kept in `save`.

    Every pair has an outcome, in order. Raises DataError for files of different length or a damaged aligner, and
    UsageError if there is nothing to learn from.
    """
    kept = list(pairs)
    if tokenised:
        warn_of_unspaced(kept)
    # The words are computed again for the output: with their offsets they would take most of the memory.
    words = (learned_words(pair, tokenised) for pair in kept)
    aligned = load_aligner(Path(model)).align(words) if model else learn(list(words), tokenised, save)
    for pair, posteriors in zip(kept, aligned, strict=True):
        text = PairWords.of(pair, tokenised)
        yield AlignmentOutcome(pair.number, alignment_of(text, posteriors, symmetrize), text.problem)


def learned_words(pair: SentencePair, tokenised: bool) -> tuple[list[str], list[str]]:
    """The words of a pair as the aligner learns them; none where a side is too long."""
    source, target = (normalized_words(text, tokenised) for text in (pair.source, pair.target))
    return ([], []) if max(len(source), len(target)) > MAX_WORDS else (source, target)


def learn(
    words: Sequence[tuple[list[str], list[str]]], tokenised: bool, save: Path | None
) -> Iterator[LinkPosteriors | None]:
    """Learn from the pairs and align them, with progress on stderr. The aligner is kept in the folder `save`."""
    count = sum(bool(source and target) for source, target in words)
    if count == 0:
        raise UsageError("--source and --target", "no pair has words on both sides", "there is nothing to learn from")
    if count < FEW_PAIRS:
        say(f"{count} pairs are few to learn from: links follow positions and words that are written alike.")
    line = LiveLine()
    line.show(f"learning from {count:,} pairs")
    aligner, aligned = WordAligner.learn(
        words, lambda done, passes: line.show(f"learning from {count:,} pairs: pass {done} of {passes}")
    )
    line.clear()
    if save:
        save_aligner(aligner, save, tokenised)
    return aligned


def alignment_of(text: PairWords, posteriors: LinkPosteriors | None, symmetrize: Symmetrization | None) -> Alignment:
    """The links of a pair with the posterior probabilities of both directions."""
    if posteriors is None:
        return Alignment(source=text.source, target=text.target)
    found = combine(posteriors.forward(), posteriors.backward(), symmetrize) if symmetrize else posteriors.agreed()
    links = [
        WeightedLink.of_both(i, j, float(posteriors.forward_JI[j, i]), float(posteriors.backward_JI[j, i]))
        for i, j in found
    ]
    return Alignment(source=text.source, target=text.target, links=links)


def warn_of_unspaced(pairs: Sequence[SentencePair]) -> None:
    """Say once if tokenised text has no spaces where its script has none."""
    for pair in pairs:
        for side, text in (("source", pair.source), ("target", pair.target)):
            if len(text.split()) == 1 and UNSPACED.search(text):
                say(f"line {pair.number}: the {side} is one word, as it has no spaces; leave out --tokenised.")
                return
