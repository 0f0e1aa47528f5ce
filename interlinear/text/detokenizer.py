"""Decoding: joins pieces to text, restores the spaces of natural text, and capitalises sentences."""

import re
from codecs import getincrementaldecoder
from collections.abc import Iterable
from dataclasses import dataclass

from interlinear.text.config import BYTES, UNKNOWN, TextConfig
from interlinear.text.normalization import MappedText, align_characters
from interlinear.text.segmentation import ONLY_WORD, moses
from interlinear.text.words import LITERAL_MARK, Span

SENTENCE_START = re.compile(r"(?:\A|[.!?…][\"'”“’»)\]]*\s+)[\"'„“‚‘«(\[¿¡]*\w")


@dataclass(frozen=True)
class Decoded:
    """A text, and the span of each id in it (empty for an id without text)."""

    text: str
    offsets: list[Span]


@dataclass(frozen=True)
class OutputPiece:
    """Text of a piece. A space separates two pieces if the first has `after` and the second has `before`."""

    content: str
    before: bool = True
    after: bool = True
    byte: bytes = b""


def written_word(word: str) -> OutputPiece | None:
    """The output of a word, with spaces beside it; None if it is empty."""
    return OutputPiece(word) if word else None


def output_piece(config: TextConfig, number: int, piece: str) -> OutputPiece | None:
    """The output of an id's piece; None if it has no text."""
    reserved = len(config.reserved)
    if number < reserved:
        return OutputPiece(config.unknown or piece) if number == UNKNOWN else None
    if config.subwords:
        if number < reserved + len(BYTES):
            return OutputPiece("", before=False, byte=bytes([number - reserved]))
        return OutputPiece(piece.removeprefix("▁"), before=piece.startswith("▁"))
    if config.tokenised:
        joined = config.segmentation is not None and piece.endswith(config.segmentation)
        return OutputPiece(piece.removesuffix(config.segmentation or "") if joined else piece, after=not joined)
    if ONLY_WORD.pre_tokenize_str(piece):
        return OutputPiece(piece)
    return OutputPiece(piece.strip("▁"), before=piece.startswith("▁"), after=piece.endswith("▁"))


def join_pieces(pieces: Iterable[OutputPiece | None]) -> Decoded:
    """Join pieces to one line of text. Invalid UTF-8 bytes become U+FFFD."""
    parts: list[str] = []
    offsets: list[Span] = []
    length = 0
    space = after = False  # write a space before the next text; the last piece allows a space after it
    decoder = getincrementaldecoder("utf-8")("replace")
    pending_bytes = 0  # bytes of an incomplete character

    def append(content: str, count: int) -> None:
        """Append the text of `count` pieces."""
        nonlocal length, space
        visible = " ".join(content.split()).replace(LITERAL_MARK, "▁")
        space = space or content[:1].isspace()
        if visible:
            if space and length:
                parts.append(" ")
                length += 1
            parts.append(visible)
            length += len(visible)
            space = content[-1].isspace()
        offsets.extend([(length - len(visible), length)] * count)

    for piece in pieces:
        if piece is not None and piece.byte:
            pending_bytes += 1
            if character := decoder.decode(piece.byte):
                append(character, pending_bytes)
                pending_bytes = 0
            after = True
            continue
        if pending_bytes:
            append(decoder.decode(b"", final=True), pending_bytes)
            pending_bytes = 0
        if piece is None:
            append("", 1)
            continue
        space = space or (piece.before and after)
        append(piece.content, 1)
        after = piece.after
    if pending_bytes:
        append(decoder.decode(b"", final=True), pending_bytes)
    return Decoded("".join(parts), offsets)


def detokenize(decoded: Decoded, language: str | None) -> Decoded:
    """Detokenize by Moses' rules for the language."""
    if not decoded.text:
        return decoded
    return change_spaces(decoded, moses(language)[1].detokenize(decoded.text.split(" "), unescape=False))


def change_spaces(decoded: Decoded, text: str) -> Decoded:
    """Replace the text by `text`, which differs in spaces, and map the offsets."""
    mapped = MappedText(decoded.text, align_characters(decoded.text, text))
    return Decoded(text, [mapped.span(*span) for span in decoded.offsets])


def sentence_case(text: str, language: str | None) -> str:
    """Capitalise the sentences of lower-cased text (and English I), preserving its length."""
    text = SENTENCE_START.sub(lambda start: start.group()[:-1] + capital_letter(start.group()[-1]), text)
    return re.sub(r"\bi\b(?!\.\w)", "I", text) if language == "en" else text


def capital_letter(letter: str) -> str:
    return letter.upper() if len(letter.upper()) == 1 else letter
