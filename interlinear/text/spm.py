"""SentencePiece's model files (`.spm`, `.model`): reading, writing, and the same ids and texts as that library's.

A file is a protobuf message `ModelProto`; this module reads its pieces, kind of model and normalizer. A file may come
from anywhere: every length is checked, nothing is read recursively, and the normalizer's
tables are checked before `tokenizers` reads them.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from itertools import count

import numpy as np
import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers

from interlinear.errors import BundleError
from interlinear.text.config import BYTES
from interlinear.text.vocabulary import BYTE_NAME

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5  # protobuf's types of fields
UNIGRAM, BPE = 1, 2  # TrainerSpec.ModelType
UNKNOWN_SURFACE = " \u2047 "  # output for an unknown piece
NEVER = "\ufdd2"  # a noncharacter before the names of pieces that no text matches

DECODER = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])

Value = int | bytes


class PieceType(IntEnum):
    """SentencePiece.Type."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True)
class Piece:
    """An entry of the vocabulary; `score`: a log-probability, of a BPE piece its priority."""

    text: str
    score: float = 0.0
    type: PieceType = PieceType.NORMAL


@dataclass(frozen=True)
class SentencePieceModel:
    """A model of a file. Its normalizer maps characters by `charsmap`, a compiled trie (empty: unchanged)."""

    pieces: tuple[Piece, ...]
    kind: int = UNIGRAM
    byte_fallback: bool = False
    normalizer: str = "identity"
    charsmap: bytes = b""
    add_dummy_prefix: bool = True
    remove_extra_whitespaces: bool = True
    escape_whitespaces: bool = True

    @classmethod
    def from_bytes(cls, content: bytes, where: str = "SentencePiece model") -> "SentencePieceModel":
        """Read a file's content. Raises BundleError located at `where`."""
        try:
            model = _read(content)
            model.check()
            model._rust  # noqa: B018 - raises for tables and names that cannot be used
        except Exception as error:  # tokenizers raises bare Exception
            raise BundleError(where, f"is not a SentencePiece model ({error})", "make or copy it again") from None
        return model

    def check(self) -> None:
        """Raises ValueError for a model that this module cannot segment with."""
        if self.kind not in (UNIGRAM, BPE):
            raise ValueError("it is neither a unigram nor a BPE model")
        if [piece.type for piece in self.pieces].count(PieceType.UNKNOWN) != 1:
            raise ValueError("it must have one unknown piece")
        if len({piece.text for piece in self.pieces}) < len(self.pieces) or not all(p.text for p in self.pieces):
            raise ValueError("a piece is empty or stands twice")
        if not np.isfinite([piece.score for piece in self.pieces]).all():
            raise ValueError("a score is not finite")
        names = {piece.text for piece in self.pieces if piece.type == PieceType.BYTE}
        if names != (set(BYTES) if self.byte_fallback else set()):
            raise ValueError("byte fallback needs the pieces of all bytes, and only then there are some")
        check_charsmap(self.charsmap)

    def to_bytes(self) -> bytes:
        """The content of a file."""
        pieces = b"".join(
            _message(1, _message(1, piece.text.encode()) + _float(2, piece.score) + _integer(3, piece.type))
            for piece in self.pieces
        )
        trainer = _integer(3, self.kind) + _integer(35, self.byte_fallback)
        normalizer = (
            _message(1, self.normalizer.encode())
            + _message(2, self.charsmap)
            + _integer(3, self.add_dummy_prefix)
            + _integer(4, self.remove_extra_whitespaces)
            + _integer(5, self.escape_whitespaces)
        )
        return pieces + _message(2, trainer) + _message(3, normalizer)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text."""
        return [encoding.ids for encoding in self._rust.encode_batch_fast(texts)]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, without the space before the first word; control pieces have none."""
        written: list[str] = []
        begins = self.add_dummy_prefix or self.remove_extra_whitespaces
        for piece in (self.pieces[number] for number in ids):
            if piece.type == PieceType.CONTROL:
                continue
            text = piece.text.removeprefix("▁") if begins else piece.text
            begins = begins and not text and self.remove_extra_whitespaces
            written.append(UNKNOWN_SURFACE if piece.type == PieceType.UNKNOWN else text)
        decoded: str = DECODER.decode(written)
        return decoded

    @cached_property
    def _rust(self) -> tokenizers.Tokenizer:
        """The normalizer, and the model over a whole text, whose pieces may have spaces inside."""
        unmatched = (PieceType.CONTROL, PieceType.UNUSED, PieceType.UNKNOWN)
        names = [NEVER + piece.text if piece.type in unmatched else piece.text for piece in self.pieces]
        unknown = next(n for n, piece in enumerate(self.pieces) if piece.type == PieceType.UNKNOWN)
        model = self._unigram(names, unknown) if self.kind == UNIGRAM else self._bpe(names, names[unknown])
        pipeline = tokenizers.Tokenizer(model)
        pipeline.normalizer = self._normalizer()
        if self.byte_fallback:
            pipeline.pre_tokenizer = pre_tokenizers.Split(BYTE_NAME, "isolated")
        return pipeline

    def _normalizer(self) -> normalizers.Normalizer:
        steps: list[normalizers.Normalizer] = [normalizers.Precompiled(self.charsmap)] if self.charsmap else []
        if self.remove_extra_whitespaces:
            steps += [normalizers.Replace(Regex("^ +| +$"), ""), normalizers.Replace(Regex(" {2,}"), " ")]
        if self.add_dummy_prefix:
            steps.append(normalizers.Prepend("▁" if self.escape_whitespaces else " "))
        if self.escape_whitespaces:
            steps.append(normalizers.Replace(" ", "▁"))
        return normalizers.Sequence(steps)

    def _unigram(self, names: Sequence[str], unknown: int) -> models.Model:
        largest = max((piece.score for piece in self.pieces if piece.type == PieceType.NORMAL), default=0.0)
        scores = [
            len(piece.text.encode()) * largest - 0.1 if piece.type == PieceType.USER_DEFINED else piece.score
            for piece in self.pieces
        ]
        return models.Unigram(list(zip(names, scores, strict=True)), unknown, byte_fallback=self.byte_fallback)

    def _bpe(self, names: Sequence[str], unknown: str) -> models.Model:
        """SentencePiece merges any two pieces to a third, the one with the highest score first."""
        if any(piece.type == PieceType.USER_DEFINED for piece in self.pieces):
            raise ValueError("user-defined pieces of a BPE model are not supported")
        ids = {name: number for number, name in enumerate(names)}
        merges = []
        for piece in sorted(self.pieces, key=lambda piece: -piece.score):
            if piece.type == PieceType.NORMAL:
                halves = ((piece.text[:at], piece.text[at:]) for at in range(1, len(piece.text)))
                merges += sorted(
                    (pair for pair in halves if pair[0] in ids and pair[1] in ids),
                    key=lambda pair: (ids[pair[0]], ids[pair[1]]),
                )
        return models.BPE(ids, merges, unk_token=unknown, fuse_unk=True, byte_fallback=self.byte_fallback)


def check_charsmap(charsmap: bytes) -> None:
    """Raises ValueError where a lookup in the normalizer's tables would leave them.

    They are the size of a trie in bytes, the trie as a double array (darts-clone), and the results, which end in zeros.
    """
    if not charsmap:
        return
    size = int.from_bytes(charsmap[:4], "little")
    units, results = charsmap[4 : 4 + size], charsmap[4 + size :]
    if len(charsmap) < 4 or size % 4 or not 0 < size == len(units):
        raise ValueError("the normalizer's tables are truncated")
    unit_N = np.frombuffer(units, "<u4").astype(np.int64)
    is_result_N = unit_N >> 31 == 1
    child_N = np.arange(len(unit_N)) ^ ((unit_N >> 10) << ((unit_N & (1 << 9)) >> 6))
    starts = unit_N[is_result_N] & 0x7FFFFFFF
    if (child_N[~is_result_N] | 0xFF).max(initial=0) >= len(unit_N) or starts.max(initial=0) >= len(results):
        raise ValueError("the normalizer's tables are damaged")
    if not results.endswith(b"\0") or (np.frombuffer(results, np.uint8)[starts] & 0xC0 == 0x80).any():
        raise ValueError("the normalizer's results are damaged")
    results.decode()


def _read(content: bytes) -> SentencePieceModel:
    pieces: list[Piece] = []
    trainer: dict[int, Value] = {}
    normalizer: dict[int, Value] = {}
    for number, value in _fields(content):
        if number == 1:
            pieces.append(_piece(dict(_fields(_bytes(value)))))
        elif number == 2:
            trainer.update(_fields(_bytes(value)))
        elif number == 3:
            normalizer.update(_fields(_bytes(value)))
    if trainer.get(24):
        raise ValueError("white space as a suffix of pieces is not supported")
    return SentencePieceModel(
        pieces=tuple(pieces),
        kind=int(trainer.get(3, UNIGRAM)),
        byte_fallback=bool(trainer.get(35, 0)),
        normalizer=_bytes(normalizer.get(1, b"")).decode(),
        charsmap=_bytes(normalizer.get(2, b"")),
        add_dummy_prefix=bool(normalizer.get(3, 1)),
        remove_extra_whitespaces=bool(normalizer.get(4, 1)),
        escape_whitespaces=bool(normalizer.get(5, 1)),
    )


def _piece(fields: dict[int, Value]) -> Piece:
    (score,) = struct.unpack("<f", _bytes(fields.get(2, bytes(4))))
    return Piece(_bytes(fields.get(1, b"")).decode(), score, PieceType(int(fields.get(3, PieceType.NORMAL))))


def _bytes(value: Value) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError("a field has another type")
    return value


def _fields(message: bytes) -> Iterator[tuple[int, Value]]:
    """The fields of a protobuf message: numbers of type varint as integers, all others as bytes."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind = key & 7
        if kind == VARINT:
            value, at = _varint(message, at)
            yield key >> 3, value
            continue
        if kind == LENGTH:
            size, at = _varint(message, at)
        elif kind in (FIXED32, FIXED64):
            size = 4 if kind == FIXED32 else 8
        else:
            raise ValueError("a field has an unknown type")
        if at + size > len(message):
            raise ValueError("it is truncated")
        yield key >> 3, message[at : at + size]
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """A number, seven bits in a byte, and the position after it."""
    number = 0
    for shift in count(0, 7):
        if at >= len(message) or shift > 63:
            raise ValueError("it is truncated")
        byte = message[at]
        number, at = number | (byte & 127) << shift, at + 1
        if byte < 128:
            break
    return number, at


def _key(number: int, kind: int) -> bytes:
    return _encoded(number << 3 | kind)


def _encoded(number: int) -> bytes:
    encoded = bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    return bytes([*encoded, number])


def _integer(number: int, value: int) -> bytes:
    return _key(number, VARINT) + _encoded(int(value))


def _float(number: int, value: float) -> bytes:
    return _key(number, FIXED32) + struct.pack("<f", value)


def _message(number: int, content: bytes) -> bytes:
    return _key(number, LENGTH) + _encoded(len(content)) + content
