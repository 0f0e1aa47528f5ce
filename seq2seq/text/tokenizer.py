"""Text to ids, with the place of each in the text, and ids to text that reads as the language writes it.

A piece is one entry of a vocabulary. `▁` in a piece stands for white space beside it:

- `bpe`: a piece that begins a word begins with `▁`; the others continue it. What no piece covers is spelt in UTF-8
  bytes, `<0x00>` to `<0xFF>`, so nothing is unknown.
- `word_spans`: words are bare, whatever stands beside them; a punctuation mark carries a `▁` on each side where white space
  was (`,▁`, `▁(`), which is what puts the spaces back.
- tokenised text is split at its spaces and nowhere else.

Inside, text is NFC; offsets always count characters (code points) of the string that was given.
"""

import hashlib
import json
import re
import unicodedata
from codecs import getincrementaldecoder
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal, Self

import tokenizers
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from tokenizers import Regex, models, normalizers, pre_tokenizers, trainers

from seq2seq.errors import BundleError

PAD, UNKNOWN, BEGIN, END = 0, 1, 2, 3  # the first entries of every vocabulary
SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")
KEEP, DELETE = 4, 5  # the next entries of a vocabulary that edit operations are written in
OPERATIONS = ("<keep>", "<delete>")
BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))

FORMAT = 1
LETTER_COVERAGE = 0.9999  # of all letters seen in training are covered by pieces; rarer ones are spelt in bytes

Span = tuple[int, int]

# Code points that Unicode keeps for programs' own use, and that text must not contain.
_LITERAL_MARK = "\ufdd0"  # a `▁` of the text itself
_UNKNOWN = "\ufdd1"  # a word that the text itself gives as unknown
_ODD = re.compile(f"[^\\S ]|[\ud800-\udfff▁{_LITERAL_MARK}{_UNKNOWN}]")

# Words are runs of letters, digits and combining marks with inner apostrophes, hyphens and joiners; scripts written
# without spaces fall to single characters; any other character stands alone, with what modifies it.
_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}ーｰ"
_LETTER = rf"[[\p{{L}}\p{{N}}\p{{M}}]&&[^{_UNSPACED}]]"
_WORD = rf"{_LETTER}+(?:['’‐‑\-\x{{AD}}\x{{200C}}\x{{200D}}]{_LETTER}+)*"
_IDEOGRAPH = rf"[{_UNSPACED}]\p{{M}}*"
_MARK = r"[^\s▁\p{L}\p{N}\p{M}](?:[\p{M}\x{1F3FB}-\x{1F3FF}]|\x{200D}[^\s▁])*"

_UNSPACED_RANGES = "\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
_LONGEST_PIECE = 20  # characters, when words are cut into known pieces

_WORDS = pre_tokenizers.Split(Regex(rf"{_WORD}|{_IDEOGRAPH}|{_MARK}"), "removed", invert=True)
_ONLY_WORD = pre_tokenizers.Split(Regex(rf"\A{_WORD}\z"), "removed", invert=True)


class TextConfig(BaseModel):
    """How one field's text becomes ids: what the text is like, and what is made of it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    units: Literal["bpe", "words"]
    vocabulary: int = Field(ge=len(SPECIAL) + 1, description="at most so many ids, the four special ones included")
    lowercase: bool = Field(False, description="read and write lower case")
    tokenised: bool = Field(False, description="the text's words and punctuation are separated by spaces already")
    language: str | None = Field(None, description="ISO code")
    unknown: str | None = Field(None, description="how the text itself writes an unknown word")
    segmentation: str | None = Field(None, description="what ends a piece that the next one continues, as `@@`")
    operations_on: str | None = Field(
        None, description="the vocabulary can say to keep and to delete pieces of this source"
    )

    @property
    def reserved(self) -> tuple[str, ...]:
        """The entries that no text has, which come first."""
        return SPECIAL if self.operations_on is None else SPECIAL + OPERATIONS

    @model_validator(mode="after")
    def _possible(self) -> Self:
        least = len(self.reserved) + len(BYTES) + 1
        if self.units == "bpe" and self.vocabulary < least:
            raise ValueError(f"vocabulary: bpe needs at least {least} entries, 256 of them for bytes")
        if self.segmentation is not None and not self.tokenised:
            raise ValueError("segmentation: has no effect unless the text is tokenised")
        return self


@dataclass(frozen=True)
class Encoded:
    """Ids without begin and end symbols, and the part of the given string that each stands for.

    Pieces may share a part: the bytes of one character, and a lone `▁` with the character behind it.
    """

    ids: list[int]
    offsets: list[Span]


@dataclass(frozen=True)
class Decoded:
    """A text, and the part of it that each id became (an empty part where it became nothing)."""

    text: str
    offsets: list[Span]


def word_spans(text: str) -> list[Span]:
    """Where the words and punctuation marks of raw text lie.

    A word is a longest run of letters, digits and combining marks, with single apostrophes and hyphens inside; a Han or
    Kana character is a word; any other character that is no space is one, with the marks that modify it.
    """
    return [span for _, span in _WORDS.pre_tokenize_str(_substitute_reserved(text))]


class Tokenizer:
    """One field's vocabulary, and the way from text to ids and back. Never changes; threads may share it."""

    def __init__(self, config: TextConfig, vocabulary: Sequence[str], merges: Sequence[tuple[str, str]] = ()) -> None:
        """`vocabulary`: pieces by id, the special ones first; `merges`: the pairs that BPE joins, first come first."""
        self.config = config
        reserved = len(config.reserved)
        if len(vocabulary) != reserved + len(set(vocabulary[reserved:])):
            raise ValueError("a piece stands twice in the vocabulary")
        self._vocabulary = tuple(vocabulary)
        self._merges = tuple(merges)
        self._rust = _lookup_pipeline(config, self._vocabulary, self._merges)
        self._shown = [_output_piece(config, number, piece) for number, piece in enumerate(self._vocabulary)]

    @classmethod
    def train(cls, lines: Iterable[str], config: TextConfig) -> "Tokenizer":
        """Learn a vocabulary from lines of text, read once and not kept. The same lines give the same vocabulary."""
        learn = _learn_bpe if config.units == "bpe" else _learn_words
        vocabulary, merges = learn((_normalize(line, config).text for line in lines), config)
        return cls(config, vocabulary, merges)

    @property
    def size(self) -> int:
        """The number of ids."""
        return len(self._vocabulary)

    def encode(self, text: str, raw: bool = False) -> Encoded:
        """Ids and offsets of a text; never fails.

        `raw`: the text is as people write it, even where the model was trained on tokenised text. Lone surrogates count
        as U+FFFD.
        """
        return self.encode_batch([text], raw)[0]

    def encode_batch(self, texts: Sequence[str], raw: bool = False) -> list[Encoded]:
        """As `encode`, for many texts at once."""
        read = [self._read(text, raw) for text in texts]
        encodings = self._rust.encode_batch([_pad_with_spaces(self.config, each.text) for each in read])
        return [
            Encoded(encoding.ids, self._places(each, encoding.offsets))
            for each, encoding in zip(read, encodings, strict=True)
        ]

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids alone, for many texts at once; faster than `encode_batch`."""
        read = [_pad_with_spaces(self.config, _normalize(text, self.config).text) for text in texts]
        return [encoding.ids for encoding in self._rust.encode_batch_fast(read)]

    def decode(self, ids: Sequence[int], unknown_words: Mapping[int, str] | None = None, raw: bool = False) -> str:
        """Text on one line; begin, end and padding are nothing.

        `unknown_words`: by position in `ids`, the word to write for an unknown one. `raw`: text as people write it,
        where the model was trained on tokenised or lower-cased text: joined as the language does, capitalised.
        """
        return self.decode_with_offsets(ids, unknown_words, raw).text

    def decode_with_offsets(
        self, ids: Sequence[int], unknown_words: Mapping[int, str] | None = None, raw: bool = False
    ) -> Decoded:
        """As `decode`, with the part of the text that each id became."""
        stand_ins = unknown_words or {}
        decoded = _join_pieces(
            _OutputPiece(stand_ins[position]) if position in stand_ins else self._shown[number]
            for position, number in enumerate(ids)
        )
        if raw and self.config.tokenised:
            decoded = _detokenize(decoded, self.config.language)
        if raw and self.config.lowercase:
            decoded = Decoded(_sentence_case(decoded.text, self.config.language), decoded.offsets)
        return decoded

    def word_spans(self, text: str, raw: bool = False) -> list[Span]:
        """Where the words lie: between spaces in tokenised text (segmented words whole), else as `word_spans` has it."""
        if raw or not self.config.tokenised:
            return word_spans(text)
        spans: list[Span] = []
        joiner = self.config.segmentation
        for match in re.finditer(r"\S+", text):
            if spans and joiner and text.endswith(joiner, *spans[-1]):
                spans[-1] = (spans[-1][0], match.end())
            else:
                spans.append(match.span())
        return spans

    def detokenize(self, text: str) -> Decoded:
        """Tokenised text as people write it, and the part of it that each token became."""
        tokens = text.split()
        starts = [0, *accumulate(len(token) + 1 for token in tokens)]
        places = [(start, start + len(token)) for start, token in zip(starts, tokens, strict=False)]
        return _detokenize(Decoded(" ".join(tokens), places), self.config.language)

    def tokenize(self, written: Decoded) -> Decoded:
        """Text as people write it with its words and punctuation marks between spaces, by Moses' rules, as data that is
        tokenised has it."""
        return _change_spaces(written, " ".join(_moses(self.config.language)[0].tokenize(written.text, escape=False)))

    def for_language(self, language: str | None) -> "Tokenizer":
        """The same vocabulary, for the text of another language: what a joint vocabulary is on its second side."""
        config = self.config.model_copy(update={"language": language})
        return Tokenizer(config, self._vocabulary, self._merges)

    def to_json(self) -> str:
        """The file's content: equal for equal tokenizers."""
        content = {
            "format": FORMAT,
            "config": self.config.model_dump(),
            "vocabulary": self._vocabulary,
            "merges": self._merges,
        }
        return json.dumps(content, ensure_ascii=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, content: str, where: str = "tokenizer") -> "Tokenizer":
        """Read what `to_json` wrote. Raises BundleError, which begins with `where`."""
        try:
            read = json.loads(content)
            if read["format"] > FORMAT:
                raise BundleError(where, f"has format {read['format']}, newer than {FORMAT}", "update interlinear")
            config = TextConfig.model_validate(read["config"])
            merges = [(left, right) for left, right in read["merges"]]
            if not {piece for left, right in merges for piece in (left, right, left + right)}.issubset(
                read["vocabulary"]
            ):
                raise ValueError("a pair makes no piece")
            return cls(config, read["vocabulary"], merges)
        except (ValueError, KeyError, TypeError, ValidationError) as error:
            raise BundleError(where, f"is not a tokenizer ({type(error).__name__})", "make or copy it again") from None

    def save(self, path: Path) -> None:
        """Write one JSON file."""
        path.write_text(self.to_json(), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> "Tokenizer":
        """Read a file that `save` wrote. Raises BundleError with the file's name."""
        try:
            content = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BundleError(str(path), f"cannot be read: {error}") from None
        return cls.from_json(content, str(path))

    @cached_property
    def whole_words(self) -> tuple[str, ...]:
        """The words that are one piece each, in the vocabulary's order: the frequent ones first.

        A piece of BPE that later pieces begin with is left out: it may be no word but only the beginning of some.
        """
        if self.config.units == "words":
            pieces: Iterable[str] = self._vocabulary[len(self.config.reserved) :]
        else:
            beginnings = {left for left, _ in self._merges}
            pieces = (p[1:] for p in self._vocabulary if p.startswith("▁") and p not in beginnings)
        return tuple(piece for piece in pieces if piece.isalpha())

    def fingerprint(self) -> str:
        """SHA-256 (hex) of the file's content."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    def __reduce__(self) -> tuple[Any, ...]:
        return Tokenizer.from_json, (self.to_json(),)

    def _read(self, text: str, raw: bool) -> "_MappedText":
        """The text as the vocabulary was trained to see it."""
        if not (raw and self.config.tokenised):
            return _normalize(text, self.config)
        mapped = _lowercase(
            _tokenize(_compose(_substitute_reserved(text)), self.config.language), self.config.lowercase
        )
        return _segment(mapped, self._known, self.config.segmentation if self.config.units == "words" else None)

    @cached_property
    def _known(self) -> frozenset[str]:
        """The pieces that stand for a whole word of tokenised text, or begin a segmented one."""
        if self.config.units == "words":
            return frozenset(self._vocabulary[len(self.config.reserved) :])
        return frozenset(piece[1:] for piece in self._vocabulary if piece.startswith("▁"))

    def _places(self, read: "_MappedText", offsets: Sequence[Span]) -> list[Span]:
        """Offsets in the normalised text as offsets in the given one, without the white space around."""
        shift = int(_needs_padding_spaces(self.config))
        places = []
        for start, end in offsets:
            start, end = max(start - shift, 0), min(end - shift, len(read.text))
            while start < end and read.text[start] == " ":
                start += 1
            while end > start and read.text[end - 1] == " ":
                end -= 1
            places.append(read.span(start, end))
        return places


# From text to what a vocabulary sees. Each step keeps, for every character, the part of the given text it comes from.


@dataclass(frozen=True)
class _MappedText:
    """A text made of another; `spans`: for each character its part of the first text (None: itself)."""

    text: str
    spans: list[Span] | None = None

    def span(self, start: int, end: int) -> Span:
        if self.spans is None:
            return start, end
        if start < end:
            return self.spans[start][0], self.spans[end - 1][1]
        place = self.spans[start][0] if start < len(self.spans) else self.spans[-1][1] if self.spans else 0
        return place, place

    def then(self, text: str, spans: list[Span]) -> "_MappedText":
        """A further step: `spans` are parts of this text."""
        return _MappedText(text, [self.span(*span) for span in spans])


def _normalize(text: str, config: TextConfig) -> _MappedText:
    """NFC, one kind of space, no lone surrogates; lower case and pieces joined where the config says so."""
    mapped = _lowercase(_compose(_substitute_reserved(text)), config.lowercase)
    if config.unknown is not None:
        own = config.unknown.lower() if config.lowercase else config.unknown
        mapped = _replace(mapped, re.compile(rf"(?<!\S){re.escape(own)}(?!\S)"), _UNKNOWN)
    if config.segmentation is not None and config.units == "bpe":
        mapped = _replace(mapped, re.compile(rf"{re.escape(config.segmentation)}(?: +|$)"), "")
    return mapped


def _substitute_reserved(text: str) -> str:
    """Characters that have no place in text replaced, one for one."""
    if text.isprintable() and "▁" not in text:  # so it is nearly always, and this is quicker than the search
        return text
    return _ODD.sub(_substitute, text)


def _substitute(match: re.Match[str]) -> str:
    odd = match.group()
    return " " if odd.isspace() else _LITERAL_MARK if odd == "▁" else "\ufffd"


def _compose(text: str) -> _MappedText:
    """NFC."""
    if unicodedata.is_normalized("NFC", text):
        return _MappedText(text)
    composed: list[str] = []
    spans: list[Span] = []
    start = 0
    while start < len(text):
        end = start + 1
        while end < len(text) and _composes(text, start, end):
            end += 1
        group = unicodedata.normalize("NFC", text[start:end])
        composed.append(group)
        spans += [(start, end)] * len(group)
        start = end
    return _MappedText("".join(composed), spans)


def _composes(text: str, start: int, end: int) -> bool:
    """Whether the character at `end` may compose with, or change places in, the group before it, from `start` on."""
    following = text[end]
    if following.isascii():
        return False
    if unicodedata.combining(following):
        return True
    group = text[start:end]
    apart = unicodedata.normalize("NFC", group) + unicodedata.normalize("NFC", following)
    return unicodedata.normalize("NFC", group + following) != apart


def _lowercase(mapped: _MappedText, lowercase: bool) -> _MappedText:
    if not lowercase:
        return mapped
    lower = mapped.text.lower()
    if len(lower) == len(mapped.text):
        return _MappedText(lower, mapped.spans)
    letters = [letter.lower() for letter in mapped.text]  # a few letters become two
    spans = [(i, i + 1) for i, letter in enumerate(letters) for _ in letter]
    return mapped.then("".join(letters), spans)


def _replace(mapped: _MappedText, pattern: re.Pattern[str], replacement: str) -> _MappedText:
    """Each match replaced."""
    if not pattern.search(mapped.text):
        return mapped
    parts: list[str] = []
    spans: list[Span] = []
    done = 0
    for match in pattern.finditer(mapped.text):
        parts += [mapped.text[done : match.start()], replacement]
        spans += [(i, i + 1) for i in range(done, match.start())] + [match.span()] * len(replacement)
        done = match.end()
    parts.append(mapped.text[done:])
    spans += [(i, i + 1) for i in range(done, len(mapped.text))]
    return mapped.then("".join(parts), spans)


def _tokenize(mapped: _MappedText, language: str | None) -> _MappedText:
    """Words and punctuation separated by spaces, as Moses does."""
    text = "".join(" " if unicodedata.category(letter) == "Cc" else letter for letter in mapped.text)
    joined = " ".join(_moses(language)[0].tokenize(text, escape=False))
    return mapped.then(joined, _align_characters(joined, text))


def _segment(mapped: _MappedText, known: frozenset[str], joiner: str | None) -> _MappedText:
    """Words cut into the longest known pieces: in scripts without spaces, and all words where pieces have a joiner."""
    together = _replace(mapped, re.compile(rf"(?<=[{_UNSPACED_RANGES}]) (?=[{_UNSPACED_RANGES}])"), "")
    parts: list[str] = []
    spans: list[Span] = []
    for match in re.finditer(rf"([{_UNSPACED_RANGES}]+)|[^ {_UNSPACED_RANGES}]+", together.text):
        place = match.start()
        for piece, size in _longest_pieces(match.group(), known, "" if match.group(1) else joiner):
            parts.append(piece + " ")
            spans += [(i, i + 1) for i in range(place, place + size)]
            place += size
            spans += [(place, place)] * (len(piece) + 1 - size)
    return together.then("".join(parts), spans)


def _longest_pieces(word: str, known: frozenset[str], joiner: str | None) -> list[tuple[str, int]]:
    """A word as known pieces, the longest first, with their sizes in it; whole where pieces do not join or suffice."""
    pieces = []
    start = 0
    while start < len(word):
        for end in range(min(len(word), start + _LONGEST_PIECE), start, -1):
            piece = word[start:end] + (joiner if joiner and end < len(word) else "")
            if piece in known:
                break
        else:
            if joiner != "":
                return [(word, len(word))]
            end, piece = start + 1, word[start]
        pieces.append((piece, end - start))
        start = end
    return pieces


@lru_cache
def _moses(language: str | None) -> tuple[Any, Any]:
    """Moses' tokenizer and detokenizer, needed only where tokenised models meet raw text, or raw ones tokenised."""
    from sacremoses import MosesDetokenizer, MosesTokenizer

    return MosesTokenizer(language or "en"), MosesDetokenizer(language or "en")


def _align_characters(text: str, other: str) -> list[Span]:
    """For each character of a text its part of another that differs from it in spaces (and little else)."""
    spans = []
    place = 0
    for letter in text:
        found = place
        while found < len(other) and other[found] == " ":
            found += 1
        if letter != " " and (found := other.find(letter, found, found + 4)) >= 0:
            spans.append((found, found + 1))
            place = found + 1
        else:
            spans.append((place, place))
    return spans


# What a vocabulary is, and how it is learned.


def _lookup_pipeline(
    config: TextConfig, vocabulary: Sequence[str], merges: Sequence[tuple[str, str]]
) -> tokenizers.Tokenizer:
    """The tokenizer that cuts normalised text and looks its pieces up."""
    # No text can spell the special ones' names here, and the character that unknown words were replaced by is UNKNOWN.
    special = (_UNKNOWN if number == UNKNOWN else _UNKNOWN + name for number, name in enumerate(config.reserved))
    ids = {piece: number for number, piece in enumerate((*special, *vocabulary[len(config.reserved) :]))}
    if config.units == "words":
        return _pre_tokenizer_pipeline(config, models.WordLevel(ids, unk_token=_UNKNOWN))
    return _pre_tokenizer_pipeline(config, models.BPE(ids, list(merges), unk_token=_UNKNOWN, byte_fallback=True))


def _pre_tokenizer_pipeline(config: TextConfig, model: models.Model) -> tokenizers.Tokenizer:
    """A pipeline that cuts normalised text (framed, where it must be) into what the model looks up."""
    pipeline = tokenizers.Tokenizer(model)
    steps: list[pre_tokenizers.PreTokenizer] = [pre_tokenizers.WhitespaceSplit()]
    if config.units == "bpe":
        steps.append(pre_tokenizers.Metaspace("▁", "always", split=False))
        if not config.tokenised:
            steps.append(pre_tokenizers.Split(Regex(rf"▁?(?:{_WORD}|(?:{_IDEOGRAPH})+|{_MARK})"), "isolated"))
    elif not config.tokenised:
        pipeline.normalizer = normalizers.Replace(Regex(" +"), "▁ ▁")
        steps.append(pre_tokenizers.Split(Regex(rf"{_WORD}|▁?(?:{_IDEOGRAPH}|{_MARK})▁?"), "removed", invert=True))
    pipeline.pre_tokenizer = pre_tokenizers.Sequence(steps)
    return pipeline


def _needs_padding_spaces(config: TextConfig) -> bool:
    return config.units == "words" and not config.tokenised


def _pad_with_spaces(config: TextConfig, text: str) -> str:
    """With white space at both ends, where a mark shows the white space beside it."""
    return f" {text} " if _needs_padding_spaces(config) else text


def _learn_bpe(lines: Iterable[str], config: TextConfig) -> tuple[list[str], list[tuple[str, str]]]:
    """Vocabulary and merges. Letters too rare for a piece of their own, and merges of them, are left out."""
    letters: Counter[str] = Counter()

    def counted() -> Iterator[str]:
        for line in lines:
            letters.update(line)
            yield line

    pipeline = _pre_tokenizer_pipeline(config, models.BPE())
    # Half as many again as wanted, since those with rare letters are dropped.
    trainer = trainers.BpeTrainer(
        vocab_size=config.vocabulary + config.vocabulary // 2, min_frequency=2, special_tokens=[], show_progress=False
    )
    pipeline.train_from_iterator(counted(), trainer)
    room = config.vocabulary - len(config.reserved) - len(BYTES)
    pieces = dict.fromkeys(["▁", *_frequent_letters(letters, at_most=room // 2)])
    merges = []
    for left, right in json.loads(pipeline.to_str())["model"]["merges"]:
        joined = left + right
        if left not in pieces or right not in pieces or joined in BYTES:
            continue
        if joined not in pieces and len(pieces) == room:
            break
        pieces[joined] = None
        merges.append((left, right))
    return [*config.reserved, *BYTES, *pieces], merges


def _frequent_letters(letters: Counter[str], at_most: int) -> list[str]:
    """The most frequent letters that cover nearly all of the text, in the order of their code points."""
    for none in (" ", _UNKNOWN):
        letters.pop(none, None)
    missing = letters.total() * LETTER_COVERAGE
    frequent = []
    for letter, count in sorted(letters.items(), key=lambda item: (-item[1], item[0]))[:at_most]:
        if missing <= 0:
            break
        frequent.append(letter)
        missing -= count
    return sorted(frequent)


def _learn_words(lines: Iterable[str], config: TextConfig) -> tuple[list[str], list[tuple[str, str]]]:
    """The most frequent words and marks; no merges."""
    pipeline = _pre_tokenizer_pipeline(config, models.WordLevel(unk_token=_UNKNOWN))
    # Room for the forms of the unknown word too, which are dropped.
    trainer = trainers.WordLevelTrainer(
        vocab_size=config.vocabulary + 4, min_frequency=1, special_tokens=[], show_progress=False
    )
    pipeline.train_from_iterator((_pad_with_spaces(config, line) for line in lines), trainer)
    by_id = sorted(pipeline.get_vocab().items(), key=lambda item: item[1])
    found = [piece for piece, _ in by_id if _UNKNOWN not in piece]
    return [*config.reserved, *found[: config.vocabulary - len(config.reserved)]], []


# From pieces to text.


@dataclass(frozen=True)
class _OutputPiece:
    """A piece in a text: white space stands between two pieces where both have it on that side."""

    content: str
    before: bool = True
    after: bool = True
    byte: bytes = b""


def _output_piece(config: TextConfig, number: int, piece: str) -> _OutputPiece | None:
    """How the piece of an id is written; None: not at all."""
    reserved = len(config.reserved)
    if number < reserved:
        return _OutputPiece(config.unknown or piece) if number == UNKNOWN else None
    if config.units == "bpe":
        if number < reserved + len(BYTES):
            return _OutputPiece("", before=False, byte=bytes([number - reserved]))
        return _OutputPiece(piece.removeprefix("▁"), before=piece.startswith("▁"))
    if config.tokenised:
        joined = config.segmentation is not None and piece.endswith(config.segmentation)
        return _OutputPiece(piece.removesuffix(config.segmentation or "") if joined else piece, after=not joined)
    if _ONLY_WORD.pre_tokenize_str(piece):
        return _OutputPiece(piece)
    return _OutputPiece(piece.strip("▁"), before=piece.startswith("▁"), after=piece.endswith("▁"))


def _join_pieces(pieces: Iterable[_OutputPiece | None]) -> Decoded:
    """The pieces as one line. Bytes that make no character are U+FFFD."""
    parts: list[str] = []
    offsets: list[Span] = []
    length = 0
    space = after = False  # wanted before what comes next; allowed by the piece before
    decoder = getincrementaldecoder("utf-8")("replace")
    waiting = 0  # bytes that are no character yet

    def put(content: str, count: int) -> None:
        """Write what `count` pieces have become."""
        nonlocal length, space
        written = " ".join(content.split()).replace(_LITERAL_MARK, "▁")
        space = space or content[:1].isspace()
        if written:
            if space and length:
                parts.append(" ")
                length += 1
            parts.append(written)
            length += len(written)
            space = content[-1].isspace()
        offsets.extend([(length - len(written), length)] * count)

    for piece in pieces:
        if piece is not None and piece.byte:
            waiting += 1
            if character := decoder.decode(piece.byte):
                put(character, waiting)
                waiting = 0
            after = True
            continue
        if waiting:
            put(decoder.decode(b"", final=True), waiting)
            waiting = 0
        if piece is None:
            put("", 1)
            continue
        space = space or (piece.before and after)
        put(piece.content, 1)
        after = piece.after
    if waiting:
        put(decoder.decode(b"", final=True), waiting)
    return Decoded("".join(parts), offsets)


def _detokenize(decoded: Decoded, language: str | None) -> Decoded:
    """Spaces as the language writes them, by Moses' rules."""
    if not decoded.text:
        return decoded
    return _change_spaces(decoded, _moses(language)[1].detokenize(decoded.text.split(" "), unescape=False))


def _change_spaces(decoded: Decoded, text: str) -> Decoded:
    """The same text with other spaces."""
    mapped = _MappedText(decoded.text, _align_characters(decoded.text, text))
    return Decoded(text, [mapped.span(*span) for span in decoded.offsets])


_SENTENCE_START = re.compile(r"(?:\A|[.!?…][\"'”“’»)\]]*\s+)[\"'„“‚‘«(\[¿¡]*\w")


def _sentence_case(text: str, language: str | None) -> str:
    """Lower-cased text with its sentences capitalised (and English I), letter for letter."""
    text = _SENTENCE_START.sub(lambda start: start.group()[:-1] + _capital(start.group()[-1]), text)
    return re.sub(r"\bi\b(?!\.\w)", "I", text) if language == "en" else text


def _capital(letter: str) -> str:
    return letter.upper() if len(letter.upper()) == 1 else letter
