"""Vocabulary lookup and training: pipelines of the `tokenizers` library for BPE and word vocabularies."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import tokenizers
from tokenizers import Regex, models, normalizers, pre_tokenizers, trainers

from interlinear.text.config import BYTES, UNKNOWN, TextConfig
from interlinear.text.words import IDEOGRAPH, MARK, UNKNOWN_MARK, WORD

LETTER_COVERAGE = 0.9999  # share of the training text's letters that have a piece; rarer letters are encoded as bytes


def lookup_pipeline(
    config: TextConfig, vocabulary: Sequence[str], merges: Sequence[tuple[str, str]]
) -> tokenizers.Tokenizer:
    """The tokenizers pipeline that splits normalised text and looks up its pieces."""
    # The prefix keeps text from matching the names of special entries; the replacement of unknown words is UNKNOWN.
    special = (
        UNKNOWN_MARK if number == UNKNOWN else UNKNOWN_MARK + name for number, name in enumerate(config.reserved)
    )
    ids = {piece: number for number, piece in enumerate((*special, *vocabulary[len(config.reserved) :]))}
    if config.units == "words":
        return pre_tokenizer_pipeline(config, models.WordLevel(ids, unk_token=UNKNOWN_MARK))
    return pre_tokenizer_pipeline(config, models.BPE(ids, list(merges), unk_token=UNKNOWN_MARK, byte_fallback=True))


def pre_tokenizer_pipeline(config: TextConfig, model: models.Model) -> tokenizers.Tokenizer:
    """A pipeline that splits normalised text into the units of `model`; see `pad_with_spaces` for its input."""
    pipeline = tokenizers.Tokenizer(model)
    steps: list[pre_tokenizers.PreTokenizer] = [pre_tokenizers.WhitespaceSplit()]
    if config.units == "bpe":
        steps.append(pre_tokenizers.Metaspace("▁", "always", split=False))
        if not config.tokenised:
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


def learn_bpe(lines: Iterable[str], config: TextConfig) -> tuple[list[str], list[tuple[str, str]]]:
    """Learn a BPE vocabulary and its merges. Excludes letters below LETTER_COVERAGE, and merges that contain them."""
    letters: Counter[str] = Counter()

    def counted() -> Iterator[str]:
        for line in lines:
            letters.update(line)
            yield line

    pipeline = pre_tokenizer_pipeline(config, models.BPE())
    # Learn 50 % more pieces than needed, since those with rare letters are dropped.
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
    return [*config.reserved, *BYTES, *pieces], merges


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


def learn_words(lines: Iterable[str], config: TextConfig) -> tuple[list[str], list[tuple[str, str]]]:
    """Learn a vocabulary of the most frequent words and marks; there are no merges."""
    pipeline = pre_tokenizer_pipeline(config, models.WordLevel(unk_token=UNKNOWN_MARK))
    # Four extra entries for forms of the unknown word, which are dropped.
    trainer = trainers.WordLevelTrainer(
        vocab_size=config.vocabulary + 4, min_frequency=1, special_tokens=[], show_progress=False
    )
    pipeline.train_from_iterator((pad_with_spaces(config, line) for line in lines), trainer)
    by_id = sorted(pipeline.get_vocab().items(), key=lambda item: item[1])
    pieces = [piece for piece, _ in by_id if UNKNOWN_MARK not in piece]
    return [*config.reserved, *pieces[: config.vocabulary - len(config.reserved)]], []
