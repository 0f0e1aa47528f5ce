"""Terms that a model cannot read: the decoder reads words of its own in their place, and alignment says which they are.

A vocabulary has `hound`, `27` or `{name}` in pieces that the model has rarely seen in a row. Forced to write them
(`Constraint`), a small model derails behind them. So it translates a number word in place of a number, is not forced to
anything, and the words that are aligned with the term become the term.
"""

from collections.abc import Sequence

from seq2seq.explain import Explanation
from seq2seq.projection import TagSpan, project
from seq2seq.terms.substitution import PlacedTerm
from seq2seq.terms.term import Term
from seq2seq.text import UNKNOWN, Encoded, Tokenizer, word_spans
from seq2seq.text.config import Span

# "two" to "five" in the languages of the data sets and of most public models.
NUMBER_WORDS = {
    "cs": "dva tři čtyři pět", "da": "to tre fire fem", "de": "zwei drei vier fünf", "en": "two three four five",
    "es": "dos tres cuatro cinco", "fi": "kaksi kolme neljä viisi", "fr": "deux trois quatre cinq",
    "hu": "két három négy öt", "it": "due tre quattro cinque", "ja": "二 三 四 五", "nl": "twee drie vier vijf",
    "no": "to tre fire fem", "pl": "dwa trzy cztery pięć", "pt": "dois três quatro cinco", "ro": "doi trei patru cinci",
    "ru": "два три четыре пять", "sv": "två tre fyra fem", "tr": "iki üç dört beş", "uk": "два три чотири п'ять",
    "zh": "两 三 四 五",
}  # fmt: skip


def is_word(tokenizer: Tokenizer, text: str) -> bool:
    """Whether a vocabulary has a text without spaces as one word."""
    ids = [i for i in tokenizer.encode(text, raw=True).ids if tokenizer.pieces[i] != "▁"]
    return len(ids) == 1 and ids[0] != UNKNOWN


def has_words(tokenizer: Tokenizer, text: str) -> bool:
    """Whether a vocabulary has every word of a text as one."""
    return all(is_word(tokenizer, text[start:end]) for start, end in word_spans(text))


def is_wordlike(text: str) -> bool:
    """Whether a text is words, and not a number, a code, a placeholder or an address."""
    return all(character.isalpha() or character in " -'’" for character in text)


def number_stand_in(tokenizer: Tokenizer, language: str | None) -> str | None:
    """The number that the model has read most often: the first of its vocabulary, as a word or in digits; None if it
    has none."""
    words = NUMBER_WORDS.get((language or "").lower().split("-")[0], "").split()
    ids = {word: tokenizer.encode(word, raw=True).ids[-1] for word in [*words, *map(str, range(2, 100))]}
    return min((word for word in ids if is_word(tokenizer, word)), key=ids.__getitem__, default=None)


def encode_with(stand_in: str, tokenizer: Tokenizer, text: str, terms: Sequence[Term]) -> Encoded:
    """The ids of a text with another word in place of each of these terms, and their spans in the text itself."""
    replaced, bounds, end = "", [], 0  # bounds: where a stand-in is, and the term that it stands for
    for term in terms:
        replaced += text[end : term.start]
        bounds.append((len(replaced), len(replaced) + len(stand_in), term))
        replaced, end = replaced + stand_in, term.end
    encoded = tokenizer.encode(replaced + text[end:], raw=True)

    def original(span: Span) -> Span:
        shift = 0
        for start, stop, term in bounds:
            if span[0] < stop and start < span[1]:
                return term.start, term.end
            if span[0] >= stop:
                shift = term.end - stop
        return span[0] + shift, span[1] + shift

    return Encoded(encoded.ids, [original(span) for span in encoded.offsets])


def words_with_terms(words: Sequence[Span], terms: Sequence[Term]) -> list[Span]:
    """The words of a source text, of which those that a term overlaps are one: the term."""
    spans = [(term.start, term.end) for term in terms]
    apart = [word for word in words if not any(start < word[1] and word[0] < end for start, end in spans)]
    return sorted([*apart, *spans])


def place_by_alignment(explanation: Explanation, terms: Sequence[Term], offsets: Sequence[Span]) -> list[PlacedTerm]:
    """The tokens of an output that its terms replace: those of the words that are aligned with each (`project`).

    explanation: of the output, in whose source each term is a word. offsets: of the output's tokens. A term is left out
    if no token is left for it: the output has fewer than terms.
    """
    source = {(word.start, word.end): i for i, word in enumerate(explanation.source)}
    positions = [source[term.start, term.end] for term in terms]
    weights = explanation.matrices.get(explanation.aligned_by or "", [])
    projected = project(
        [TagSpan(i, i + 1) for i in positions],
        explanation.alignment,
        len(explanation.source),
        len(explanation.target),
        [weights[j][i] for i, j in explanation.alignment],
    )
    placed: list[PlacedTerm] = []
    for term, span in sorted(zip(terms, projected, strict=True), key=lambda each: (each[1].start, each[1].end)):
        words = explanation.target[span.start : span.end]
        after = placed[-1].last if placed else -1  # the words of several terms may be one token
        own = [
            p
            for p, (first, last) in enumerate(offsets)
            if p > after and words and first < words[-1].end and words[0].start < last
        ]
        if own:
            placed.append(PlacedTerm(term, own[0], own[-1]))
    return placed
