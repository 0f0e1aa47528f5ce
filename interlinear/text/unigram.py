"""Unigram vocabularies (Kudo 2018): training by SentencePiece, and the spans of characters without a piece."""

import io
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import tokenizers
from tokenizers import models

from interlinear.errors import UsageError
from interlinear.installation import how_to_install
from interlinear.text.config import BYTES, TextConfig
from interlinear.text.vocabulary import Vocabulary, frequent_letters, pre_tokenizer_pipeline
from interlinear.text.words import UNKNOWN_MARK, Span

UNTRAINABLE = "\0▅"  # SentencePiece reads no line with one of them
# Text that repeats is a piece where different characters follow it. After a word these are the next word or BREAK.
BREAK = UNKNOWN_MARK
TRAINING: dict[str, Any] = {
    "num_threads": 16,  # probabilities are summed by thread: the result depends on their number, and on nothing else
    "normalization_rule_name": "identity",
    "add_dummy_prefix": False,
    "remove_extra_whitespaces": False,
    "split_by_unicode_script": False,
    "split_by_number": False,
    "character_coverage": 1.0,
    "hard_vocab_limit": False,
    "max_sentence_length": 1 << 30,
    "user_defined_symbols": [BREAK],  # belongs to no piece
    "bos_id": -1,
    "eos_id": -1,
    "minloglevel": 2,
}


def learn_unigram(lines: Iterable[str], config: TextConfig) -> Vocabulary:
    """Learn a unigram vocabulary by expectation maximization. Excludes letters below LETTER_COVERAGE.

    `tokenizers` has a trainer too, whose results differ from run to run. Raises UsageError where `sentencepiece` is not
    installed.
    """
    letters: Counter[str] = Counter()
    chunks: Counter[str] = Counter()
    for line in lines:
        letters.update(line)
        chunks.update(line.split())
    for excluded in UNTRAINABLE:
        letters.pop(excluded, None)
    capacity = config.vocabulary - len(config.reserved) - len(BYTES)
    frequent = "".join(frequent_letters(letters, at_most=capacity // 2))
    others = re.compile(f"[^▁{re.escape(frequent)}]")
    split = pre_tokenizer_pipeline(config, models.BPE()).pre_tokenizer.pre_tokenize_str
    words: Counter[str] = Counter()
    for chunk, count in chunks.items():
        for word, _ in split(chunk):
            words.update({part: count for part in others.split(word) if part})
    scores = {piece: score for piece, score in train(words, capacity) if piece not in BYTES}
    return Vocabulary((*config.reserved, *BYTES, *scores), (), tuple(scores.values()))


def train(words: Mapping[str, int], size: int) -> list[tuple[str, float]]:
    """At most `size` pieces of words with counts, every letter among them, and their log-probabilities; the most
    probable first."""
    if not words:
        return [("▁", 0.0)]
    try:
        from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
    except ImportError:
        reason = "is learned by sentencepiece, which is not installed"
        raise UsageError("units: unigram", reason, how_to_install("train")) from None
    model = io.BytesIO()
    with tempfile.NamedTemporaryFile("w", suffix=".tsv", encoding="utf-8") as file:
        for word, count in sorted(words.items()):
            file.write(f"{word}\t{count - 1}\n" * (count > 1) + f"{word}{BREAK}\t1\n")
        file.flush()
        SentencePieceTrainer.train(
            input=file.name, input_format="tsv", model_writer=model, vocab_size=size + 2, **TRAINING
        )
    trained = SentencePieceProcessor(model_proto=model.getvalue())
    return [(trained.id_to_piece(n), trained.get_score(n)) for n in range(2, trained.get_piece_size())]


def spans_of_bytes(config: TextConfig, encoding: tokenizers.Encoding) -> list[Span]:
    """The spans of an encoding's pieces in its text, each byte's of its own character: `tokenizers` gives the bytes of
    consecutive characters without a piece one span."""
    spans: list[Span] = encoding.offsets
    first = len(config.reserved)
    if config.units != "unigram":
        return spans
    fixed: list[Span] = []
    run: Span | None = None
    for number, span in zip(encoding.ids, spans, strict=True):
        byte = number - first
        if not 0 <= byte < len(BYTES):
            run = None
            fixed.append(span)
            continue
        if span != run:
            run, place = span, span[0] - 1
        place += byte & 0xC0 != 0x80  # the first byte of a character
        fixed.append((place, place + 1))
    return fixed
