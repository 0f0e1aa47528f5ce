"""The guide of prepared data: links of the training pairs, in files beside their ids.

train.guide.npy, train.guide.ends.npy       links (target piece, source piece) of every row

or, for training.guide.from: self, the inputs of these links, which are made during the training:

train.reverse.npy, ...                      links (source word, target word) of the model of the opposite direction
train.source.words.npy, ...                 the words that each piece of the first text, and of the target, touches
train.target.words.npy, ...
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict

from interlinear.errors import DataError
from interlinear.text import Tokenizer
from training.data.guide.link_sources import GuidePair, LinkSource, Words
from training.data.guide.piece_links import RowArrays, RowArraysWriter, piece_links, word_ranges

GUIDE, REVERSE, SOURCE_WORDS, TARGET_WORDS = "train.guide", "train.reverse", "train.source.words", "train.target.words"
CHUNK = 500  # rows that are tokenized at a time


class GuideRecord(BaseModel):
    """The source of a guide's links, the number of pairs with links, and the number of links between words."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    origin: dict[str, str]
    symmetrized: bool
    linked_pairs: int
    word_links: int


@dataclass(frozen=True)
class WordLinks:
    """The links of the opposite direction, and the words of the pieces of source and target, of every row."""

    reverse: RowArrays
    source: RowArrays
    target: RowArrays


def load_guide(folder: Path, record: GuideRecord) -> RowArrays | WordLinks:
    """The links between pieces, or the links that they are made from if that needs the model in training."""
    if record.symmetrized:
        return RowArrays.load(folder, GUIDE)
    return WordLinks(*(RowArrays.load(folder, name) for name in (REVERSE, SOURCE_WORDS, TARGET_WORDS)))


@dataclass(frozen=True)
class TrainingTexts:
    """The texts of the training pairs that were kept, and their tokenizers; `rows` reads them from the first again."""

    rows: Callable[[], Iterator[tuple[int, str, str]]]  # line from 0, source, target
    source: Tokenizer
    target: Tokenizer

    def pairs(self) -> Iterator[GuidePair]:
        """The pairs with their words."""
        for line, source, target in self.rows():
            yield GuidePair(line, source, target, (words(self.source, source), words(self.target, target)))


def words(tokenizer: Tokenizer, text: str) -> Words:
    """The words and punctuation marks of a training text, as `interlinear align` counts them."""
    return [text[start:end] for start, end in tokenizer.word_spans(text)]


def write_guide(
    folder: Path, texts: TrainingTexts, source: LinkSource, align: Callable[[int], None], write: Callable[[int], None]
) -> GuideRecord:
    """Align the pairs and write the guide's files. The callbacks receive the number of pairs just aligned, and written.

    Raises DataError if no pair has a link.
    """
    names = (GUIDE,) if source.symmetrized else (REVERSE, SOURCE_WORDS, TARGET_WORDS)
    writers = [RowArraysWriter(folder, name) for name in names]
    links = source.links(texts.pairs, align)
    rows = texts.rows()
    linked_pairs = word_links = 0
    while chunk := list(islice(rows, CHUNK)):
        encoded = [
            [
                word_ranges(each.offsets, tokenizer.word_spans(text))
                for each, text in zip(tokenizer.encode_batch(column), column, strict=True)
            ]
            for tokenizer, column in (
                (texts.source, [source for _, source, _ in chunk]),
                (texts.target, [target for _, _, target in chunk]),
            )
        ]
        for source_T2, target_L2 in zip(*encoded, strict=True):
            found = next(links)
            linked_pairs, word_links = linked_pairs + bool(found), word_links + len(found)
            arrays = (
                (piece_links(source_T2, target_L2, found),)
                if source.symmetrized
                else (np.array(found, np.int64).reshape(-1, 2), source_T2, target_L2)
            )
            for writer, array in zip(writers, arrays, strict=True):
                writer.append(array)
        write(len(chunk))
    for writer in writers:
        writer.close()
    if not linked_pairs:
        raise DataError(
            "training.guide",
            f"none of the {len(RowArrays.load(folder, names[0]).ends_R):,} training pairs has a link",
            "look at the links, or train without a guide",
        )
    return GuideRecord(
        origin=dict(source.identity),
        symmetrized=source.symmetrized,
        linked_pairs=linked_pairs,
        word_links=word_links,
    )
