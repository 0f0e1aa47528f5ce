"""The target prefix of a request: its tokens, the terms that it contains, and its exact characters in an output.

A tokenizer may lack characters of a prefix, and decoding may change its spaces. So the decoded text of its tokens is
replaced by the prefix itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from interlinear.errors import RequestError
from interlinear.generation.terms import Term
from interlinear.search import TargetPrefix
from interlinear.text import Decoded, Encoded, Tokenizer, word_spans
from interlinear.text.words import Span, continues_word

TARGET_PREFIX = "target_prefix"  # location of errors


@dataclass(frozen=True)
class EncodedPrefix:
    """A target prefix with its tokens. placed: the terms that it contains, with their spans [start, end) in it."""

    text: str
    encoded: Encoded
    placed: tuple[tuple[Term, Span], ...] = ()

    def for_search(self, tokenizer: Tokenizer, alternatives: bool) -> TargetPrefix:
        """The prefix for a search. The next word is a new one, unless the last character of the prefix, such as a
        hyphen, may be in a word."""
        last = self.text[-1:]
        new_word = tokenizer.config.tokenised or last.isspace() or (last != "" and continues_word(last))
        return TargetPrefix(tuple(self.encoded.ids), new_word, alternatives)

    def begin(self, decoded: Decoded) -> tuple[Decoded, int]:
        """The output with the prefix in place of the decoded text of its tokens, and the number of characters that the
        rest has moved by. A prefix that ends with a space is followed by no other space."""
        tokens = len(self.encoded.ids)
        end = decoded.offsets[tokens - 1][1] if tokens else 0
        rest = decoded.text[end:]
        if self.text[-1:].isspace():
            rest = rest.lstrip()
        moved, start = len(self.text) + len(rest) - len(decoded.text), len(self.text)
        offsets = [(max(a + moved, start), max(b + moved, start)) for a, b in decoded.offsets[tokens:]]
        return Decoded(self.text + rest, [*self.encoded.offsets, *offsets]), moved

    def first_word(self, output: str) -> str:
        """The first word of an output after the prefix; empty if it ends there."""
        rest = output[len(self.text) :]
        return next((rest[start:end] for start, end in word_spans(rest)), "")


def encode_prefix(
    text: str, tokenizer: Tokenizer, terms: Sequence[Term], tokenised: bool
) -> tuple[EncodedPrefix, tuple[Term, ...]]:
    """The prefix, and the terms that it does not contain. Raises RequestError for tokenised text, and for outputs that
    are edit operations."""
    if tokenizer.config.operations_on is not None:
        raise RequestError(TARGET_PREFIX, "the model takes none: it edits texts", "leave it out")
    if tokenised:
        raise RequestError(TARGET_PREFIX, "it is for raw text, and this is tokenised", "give raw text")
    placed: list[tuple[Term, Span]] = []
    remaining = []
    for term in terms:
        span = find_words(text, term.target, [span for _, span in placed])
        if span:
            placed.append((term, span))
        else:
            remaining.append(term)
    return EncodedPrefix(text, tokenizer.encode(text, raw=True), tuple(placed)), tuple(remaining)


def find_words(text: str, words: str, taken: Sequence[Span]) -> Span | None:
    """The first place of `words` in a text that begins and ends with words there, and overlaps none of `taken`."""
    start = text.find(words)
    while start >= 0:
        end = start + len(words)
        divided = any(text[i - 1 : i].isalnum() and text[i : i + 1].isalnum() for i in (start, end))
        if not divided and not any(a < end and start < b for a, b in taken):
            return start, end
        start = text.find(words, start + 1)
    return None


def decode_beginning(tokenizer: Tokenizer, ids: Sequence[int], target_prefix: str | None, raw: bool) -> str:
    """The text of the first ids of an output, without the bytes of an incomplete character; empty until a prefix is
    complete."""
    decoded = tokenizer.decode_with_offsets(ids, raw=raw)
    if target_prefix is not None:
        encoded = tokenizer.encode(target_prefix, raw=True)
        if len(ids) < len(encoded.ids):
            return ""
        decoded, _ = EncodedPrefix(target_prefix, encoded).begin(decoded)
    return decoded.text.rstrip("\ufffd")
