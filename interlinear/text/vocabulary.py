"""Vocabularies, their training, and lookup by pipelines of the `tokenizers` library."""

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import tokenizers
from tokenizers import Regex, models, normalizers, pre_tokenizers, trainers

from interlinear.text.config import BYTES, UNKNOWN, TextConfig
from interlinear.text.words import IDEOGRAPH, MARK, UNKNOWN_MARK, WORD

BYTE_NAME = Regex("<(?=0x[0-9A-F]{2}>)")  # in tokenised text; is split off, so that no text matches a byte's piece
LETTER_COVERAGE = 0.9999  # share of the training text's letters that have a piece; rarer letters are encoded as bytes


@dataclass(frozen=True)
class Vocabulary:
    """The pieces of a field by id, beginning with the special ones, and the parameters that segment words: `merges`, of
    BPE in order of priority; `scores`, log-probabilities of a unigram model's pieces after the bytes."""

    pieces: tuple[str, ...]
    merges: tuple[tuple[str, str], ...] = ()
    scores: tuple[float, ...] = ()

    def check(self, config: TextConfig) -> None:
        """Raises ValueError for parts that do not fit together."""
        reserved = len(config.reserved)
        if len(self.pieces) != reserved + len(set(self.pieces[reserved:])):
            raise ValueError("a piece stands twice in the vocabulary")
        if not {piece for left, right in self.merges for piece in (left, right, left + right)}.issubset(self.pieces):
            raise ValueError("a pair makes no piece")
        scored = len(self.pieces) - reserved - len(BYTES) if config.units == "unigram" else 0
        if len(self.scores) != scored or not all(map(math.isfinite, self.scores)):
            raise ValueError("every piece of a unigram model, and of no other, has a finite score")

    def ids(self, config: TextConfig) -> dict[str, int]:
        """The id of each piece. A prefix keeps text from matching the names of special entries; the replacement of
        unknown words is UNKNOWN."""
        special = [UNKNOWN_MARK + name for name in config.reserved]
        special[UNKNOWN] = UNKNOWN_MARK
        return {piece: number for number, piece in enumerate((*special, *self.pieces[len(special) :]))}

    @cached_property
    def beginnings(self) -> frozenset[str]:
        """The subwords that others begin with: the left parts of merges, or the beginnings of a unigram model's
        pieces."""
        if self.merges:
            return frozenset(left for left, _ in self.merges)
        return frozenset(piece[:end] for piece in self.pieces for end in range(1, len(piece)))


def lookup_pipeline(config: TextConfig, vocabulary: Vocabulary) -> tokenizers.Tokenizer:
    """The tokenizers pipeline that splits normalised text and looks up its pieces."""
    ids = vocabulary.ids(config)
    model: models.Model
    if config.units == "words":
        model = models.WordLevel(ids, unk_token=UNKNOWN_MARK)
    elif config.units == "bpe":
        model = models.BPE(ids, list(vocabulary.merges), unk_token=UNKNOWN_MARK, byte_fallback=True)
    else:
        unscored = len(ids) - len(vocabulary.scores)
        scores = (*([0.0] * unscored), *vocabulary.scores)
        model = models.Unigram(list(zip(ids, scores, strict=True)), UNKNOWN, byte_fallback=True)
    return pre_tokenizer_pipeline(config, model)


def pre_tokenizer_pipeline(config: TextConfig, model: models.Model) -> tokenizers.Tokenizer:
    """A pipeline that splits normalised text into the units of `model`; see `pad_with_spaces` for its input."""
    pipeline = tokenizers.Tokenizer(model)
    steps: list[pre_tokenizers.PreTokenizer] = [pre_tokenizers.WhitespaceSplit()]
    if config.subwords:
        steps.append(pre_tokenizers.Metaspace("▁", "always", split=False))
        if config.tokenised:
            steps.append(pre_tokenizers.Split(BYTE_NAME, "isolated"))
        else:
            steps.append(pre_tokenizers.Split(Regex(rf"▁?(?:{WORD}|(?:{IDEOGRAPH})+|{MARK})"), "isolated"))
    elif not config.tokenised:
        pipeline.normalizer = normalizers.Replace(Regex(" +"), "▁ ▁")
        steps.append(pre_tokenizers.Split(Regex(rf"{WORD}|▁?(?:{IDEOGRAPH}|{MARK})▁?"), "removed", invert=True))
    pipeline.pre_tokenizer = pre_tokenizers.Sequence(steps)
    return pipeline


def needs_padding_spaces(config: TextConfig) -> bool:
    return config.units == "words" and not config.tokenised


def pad_with_spaces(config: TextConfig, text: str) -> str:
    """Add a space at both ends if the vocabulary marks white space beside punctuation."""
    return f" {text} " if needs_padding_spaces(config) else text


def learn_bpe(lines: Iterable[str], config: TextConfig) -> Vocabulary:
    """Learn a BPE vocabulary. Excludes letters below LETTER_COVERAGE, and merges that contain them."""
    letters: Counter[str] = Counter()

    def counted() -> Iterator[str]:
        for line in lines:
            letters.update(line)
            yield line

    pipeline = pre_tokenizer_pipeline(config, models.BPE())
    # Learn 50 % more pieces than needed, since pieces with rare letters are dropped.
    trainer = trainers.BpeTrainer(
        vocab_size=config.vocabulary + config.vocabulary // 2, min_frequency=2, special_tokens=[], show_progress=False
    )
    pipeline.train_from_iterator(counted(), trainer)
    capacity = config.vocabulary - len(config.reserved) - len(BYTES)
    pieces = dict.fromkeys(["▁", *frequent_letters(letters, at_most=capacity // 2)])
    merges = []
    for left, right in json.loads(pipeline.to_str())["model"]["merges"]:
        joined = left + right
        if left not in pieces or right not in pieces or joined in BYTES:
            continue
        if joined not in pieces and len(pieces) == capacity:
            break
        pieces[joined] = None
        merges.append((left, right))
    return Vocabulary((*config.reserved, *BYTES, *pieces), tuple(merges))


def frequent_letters(letters: Counter[str], at_most: int) -> list[str]:
    """The most frequent letters that cover LETTER_COVERAGE of the text, sorted by code point."""
    for excluded in (" ", UNKNOWN_MARK):
        letters.pop(excluded, None)
    missing = letters.total() * LETTER_COVERAGE
    frequent = []
    for letter, count in sorted(letters.items(), key=lambda item: (-item[1], item[0]))[:at_most]:
        if missing <= 0:
            break
        frequent.append(letter)
        missing -= count
    return sorted(frequent)


def learn_words(lines: Iterable[str], config: TextConfig) -> Vocabulary:
    """Learn a vocabulary of the most frequent words and marks."""
    pipeline = pre_tokenizer_pipeline(config, models.WordLevel(unk_token=UNKNOWN_MARK))
    # Four extra entries for forms of the unknown word, which are dropped.
    trainer = trainers.WordLevelTrainer(
        vocab_size=config.vocabulary + 4, min_frequency=1, special_tokens=[], show_progress=False
    )
    pipeline.train_from_iterator((pad_with_spaces(config, line) for line in lines), trainer)
    by_id = sorted(pipeline.get_vocab().items(), key=lambda item: item[1])
    pieces = [piece for piece, _ in by_id if UNKNOWN_MARK not in piece]
    return Vocabulary((*config.reserved, *pieces[: config.vocabulary - len(config.reserved)]))
