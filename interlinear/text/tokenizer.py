"""Tokenizer: converts text to ids with character offsets, and ids to natural text.

A piece is one entry of a vocabulary. `▁` in a piece marks white space beside it:

- `bpe`, `unigram`: the first piece of a word begins with `▁`; the following pieces continue it. Characters without a
  piece are encoded as UTF-8 bytes, `<0x00>` to `<0xFF>`, so nothing is unknown. BPE merges the pair with the highest
  priority until none is left; unigram chooses the pieces with the largest sum of log-probabilities (Kudo 2018).
- `words`: words carry no marker; a punctuation mark has a `▁` on each side that had white space (`,▁`, `▁(`), from
  which decoding restores the spaces.
- Tokenised text is split at spaces only.

Text is normalised to NFC internally; offsets always count characters (code points) of the original string.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from interlinear.errors import BundleError
from interlinear.text.casing import Casing, CasingCounter
from interlinear.text.config import BYTES, UNKNOWN, TextConfig
from interlinear.text.detokenizer import (
    Decoded,
    change_spaces,
    detokenize,
    join_pieces,
    output_piece,
    sentence_case,
    written_word,
)
from interlinear.text.normalization import MappedText, compose, lowercase, normalize
from interlinear.text.segmentation import moses, moses_tokenize, segment
from interlinear.text.unigram import learn_unigram, spans_of_bytes
from interlinear.text.vocabulary import (
    Vocabulary,
    learn_bpe,
    learn_words,
    lookup_pipeline,
    needs_padding_spaces,
    pad_with_spaces,
)
from interlinear.text.words import UNKNOWN_MARK, Span, continues_word, spaced_spans, substitute_reserved, word_spans

FORMAT = 1


@dataclass(frozen=True)
class Encoded:
    """Ids without begin and end symbols, and the span of each in the original string.

    Spans may be equal: for the bytes of one character, and for a lone `▁` and the following character.
    """

    ids: list[int]
    offsets: list[Span]


class Tokenizer:
    """Encodes and decodes the text of one field with its vocabulary. Immutable and thread-safe."""

    def __init__(self, config: TextConfig, vocabulary: Vocabulary, casing: Casing | None = None) -> None:
        """`casing`: the forms of words in the training text, if they are known. Raises ValueError for a vocabulary that
        does not suit the units."""
        self.config = config
        self.casing = casing
        self.vocabulary = vocabulary
        vocabulary.check(config)
        self._rust = lookup_pipeline(config, vocabulary)
        self._output_pieces = [output_piece(config, number, piece) for number, piece in enumerate(self.pieces)]

    @classmethod
    def train(cls, lines: Iterable[str], config: TextConfig) -> "Tokenizer":
        """Learn a vocabulary from lines of text, read once as a stream. Deterministic."""
        learn = {"bpe": learn_bpe, "unigram": learn_unigram, "words": learn_words}[config.units]
        counter = CasingCounter()
        vocabulary = learn(counter.watch(normalize(line, config).text for line in lines), config)
        return cls(config, vocabulary, counter.casing())

    @property
    def size(self) -> int:
        """The number of ids."""
        return len(self.pieces)

    @property
    def pieces(self) -> tuple[str, ...]:
        """The pieces by id, beginning with the special ones."""
        return self.vocabulary.pieces

    def encode(self, text: str, raw: bool = False) -> Encoded:
        """Ids and offsets of a text; never raises.

        `raw`: the text is raw, also for a model that was trained on tokenised text. Lone surrogates are replaced by
        U+FFFD.
        """
        return self.encode_batch([text], raw)[0]

    def encode_batch(self, texts: Sequence[str], raw: bool = False) -> list[Encoded]:
        """`encode` for a batch of texts."""
        mapped = [self._normalize(text, raw) for text in texts]
        encodings = self._rust.encode_batch([pad_with_spaces(self.config, each.text) for each in mapped])
        return [
            Encoded(encoding.ids, self._original_spans(each, spans_of_bytes(self.config, encoding)))
            for each, encoding in zip(mapped, encodings, strict=True)
        ]

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids without offsets for a batch of texts; faster than `encode_batch`."""
        normalized = [pad_with_spaces(self.config, normalize(text, self.config).text) for text in texts]
        return [encoding.ids for encoding in self._rust.encode_batch_fast(normalized)]

    def split_words(self, ids: Sequence[int]) -> list[str]:
        """The words that subwords are parts of, with `▁` before words after white space, from the ids of a normalised
        text: no piece continues from one to the next."""
        first, end = len(self.config.reserved), len(self.config.reserved) + len(BYTES)
        written = b"".join(
            bytes([number - first])
            if first <= number < end
            else (UNKNOWN_MARK if number == UNKNOWN else piece).encode()
            for number, piece in ((number, self.pieces[number]) for number in ids)
        )
        text = written.decode().replace("▁", " ")
        return [word for word, _ in self._rust.pre_tokenizer.pre_tokenize_str(text)]

    def decode(self, ids: Sequence[int], unknown_words: Mapping[int, str] | None = None, raw: bool = False) -> str:
        """Convert ids to one line of text; begin, end and padding symbols produce no text.

        `unknown_words`: replacements of the words at positions in `ids`; an empty one has no text. `raw`: detokenize
        and capitalise the output of a model that was trained on tokenised or lower-cased text.
        """
        return self.decode_with_offsets(ids, unknown_words, raw).text

    def decode_with_offsets(
        self, ids: Sequence[int], unknown_words: Mapping[int, str] | None = None, raw: bool = False
    ) -> Decoded:
        """Like `decode`, with the span of each id in the text."""
        replacements = unknown_words or {}
        decoded = join_pieces(
            self._output_pieces[number] if position not in replacements else written_word(replacements[position])
            for position, number in enumerate(ids)
        )
        if raw and self.config.tokenised:
            decoded = detokenize(decoded, self.config.language)
        if raw and self.config.lowercase:
            decoded = Decoded(sentence_case(decoded.text, self.config.language), decoded.offsets)
        return decoded

    def word_spans(self, text: str, raw: bool = False) -> list[Span]:
        """Spans of words: in tokenised text separated by spaces (segmented words joined), else `word_spans(text)`."""
        if raw or not self.config.tokenised:
            return word_spans(text)
        spans: list[Span] = []
        joiner = self.config.segmentation
        for start, end in spaced_spans(text):
            if spans and joiner and text.endswith(joiner, *spans[-1]):
                spans[-1] = (spans[-1][0], end)
            else:
                spans.append((start, end))
        return spans

    def detokenize(self, text: str) -> Decoded:
        """Detokenize text; returns it with the span of each token."""
        tokens = text.split()
        starts = [0, *accumulate(len(token) + 1 for token in tokens)]
        spans = [(start, start + len(token)) for start, token in zip(starts, tokens, strict=False)]
        return detokenize(Decoded(" ".join(tokens), spans), self.config.language)

    def tokenize(self, written: Decoded) -> Decoded:
        """Tokenize raw text by Moses' rules: words and punctuation marks separated by spaces, like tokenised data."""
        return change_spaces(written, " ".join(moses(self.config.language)[0].tokenize(written.text, escape=False)))

    def for_language(self, language: str | None) -> "Tokenizer":
        """A tokenizer with the same vocabulary for another language: the second side of a joint vocabulary."""
        config = self.config.model_copy(update={"language": language})
        return Tokenizer(config, self.vocabulary, self.casing)

    def to_json(self) -> str:
        """The content of the tokenizer's file, as JSON; identical for equal tokenizers."""
        content = {
            "format": FORMAT,
            "config": self.config.model_dump(),
            "vocabulary": self.pieces,
            "merges": self.vocabulary.merges,
            "scores": self.vocabulary.scores,
            "casing": None if self.casing is None else asdict(self.casing),
        }
        return json.dumps(content, ensure_ascii=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, content: str, where: str = "tokenizer") -> "Tokenizer":
        """Parse the output of `to_json`. Raises BundleError located at `where`."""
        try:
            read = json.loads(content)
            if read["format"] != FORMAT:
                problem = f"has format {read['format']}, and this version reads format {FORMAT}"
                raise BundleError(where, problem, "use the version of interlinear that wrote it")
            config = TextConfig.model_validate(read["config"])
            merges = tuple((left, right) for left, right in read["merges"])
            vocabulary = Vocabulary(tuple(read["vocabulary"]), merges, tuple(map(float, read["scores"])))
            casing = read.get("casing")
            return cls(config, vocabulary, casing and TypeAdapter(Casing).validate_python(casing))
        except (ValueError, KeyError, TypeError, ValidationError) as error:
            raise BundleError(where, f"is not a tokenizer ({type(error).__name__})", "make or copy it again") from None

    def save(self, path: Path) -> None:
        """Write the tokenizer to a JSON file."""
        path.write_text(self.to_json(), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> "Tokenizer":
        """Read a file written by `save`. Raises BundleError with the file's name."""
        try:
            content = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BundleError(str(path), f"cannot be read: {error}") from None
        return cls.from_json(content, str(path))

    @cached_property
    def piece_ids(self) -> dict[str, int]:
        """The id of each piece."""
        return {piece: number for number, piece in enumerate(self.pieces)}

    @cached_property
    def joined_ids(self) -> set[int]:
        """The ids whose text continues the preceding whole word: of pieces that begin with a letter or digit, and of
        bytes, which encode one."""
        config = self.config
        if not config.subwords:
            return set()
        first_piece = len(config.reserved) + len(BYTES)
        joined = {
            number
            for number, piece in enumerate(self.pieces[first_piece:], first_piece)
            if not piece.startswith("▁") and (config.tokenised or continues_word(piece))
        }
        return joined | set(range(len(config.reserved), first_piece))

    @cached_property
    def whole_words(self) -> tuple[str, ...]:
        """The words that consist of one piece, in the order of the vocabulary, the most frequent first.

        Excludes a BPE piece that is the left part of a merge, and a unigram piece that begins another, since it may be
        only the beginning of words.
        """
        if self.config.units == "words":
            pieces: Iterable[str] = self.pieces[len(self.config.reserved) :]
        else:
            pieces = (p[1:] for p in self.pieces if p.startswith("▁") and p not in self.vocabulary.beginnings)
        return tuple(piece for piece in pieces if piece.isalpha())

    @cached_property
    def unseen_ids(self) -> frozenset[int]:
        """The ids of text that was not in the training text: the unknown word and, in subwords, the bytes of other
        characters."""
        first = len(self.config.reserved)
        return frozenset({UNKNOWN, *(range(first, first + len(BYTES)) if self.config.subwords else ())})

    def fingerprint(self) -> str:
        """SHA-256 (hex) of the file's content."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    def __reduce__(self) -> tuple[Any, ...]:
        return Tokenizer.from_json, (self.to_json(),)

    def _normalize(self, text: str, raw: bool) -> "MappedText":
        """Normalise a text to the form of the tokenizer's training data."""
        if not (raw and self.config.tokenised):
            return normalize(text, self.config)
        mapped = lowercase(
            moses_tokenize(compose(substitute_reserved(text)), self.config.language), self.config.lowercase
        )
        return segment(mapped, self._known_pieces, self.config.segmentation if self.config.units == "words" else None)

    @cached_property
    def _known_pieces(self) -> frozenset[str]:
        """The pieces that are a whole word of tokenised text, or begin a segmented word."""
        if self.config.units == "words":
            return frozenset(self.pieces[len(self.config.reserved) :])
        return frozenset(piece[1:] for piece in self.pieces if piece.startswith("▁"))

    def _original_spans(self, mapped: "MappedText", offsets: Sequence[Span]) -> list[Span]:
        """Map offsets in the normalised text to offsets in the original text, without surrounding white space."""
        shift = int(needs_padding_spaces(self.config))
        spans = []
        for start, end in offsets:
            start, end = max(start - shift, 0), min(end - shift, len(mapped.text))
            while start < end and mapped.text[start] == " ":
                start += 1
            while end > start and mapped.text[end - 1] == " ":
                end -= 1
            spans.append(mapped.span(start, end))
        return spans
