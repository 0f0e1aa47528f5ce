"""Terms that a model cannot read: it translates other words in their place, and alignment finds these in the output.

A vocabulary splits `hound`, `27` or `{name}` into tokens that the model has rarely seen in sequence. Forced to write
them (`Constraint`), a small model derails behind them. So it translates a number word in place of a number, without
forced tokens, and the words that are aligned with the term are replaced by the term.
"""

from collections.abc import Sequence

from interlinear.alignment.projection import TagSpan, project
from interlinear.explanation import Explanation
from interlinear.generation.terms.substitution import PlacedTerm
from interlinear.generation.terms.term import Term
from interlinear.text import Encoded, Tokenizer, word_spans
from interlinear.text.words import Span

# "two" to "ten" in the languages of the data sets and of most public models.
NUMBER_WORDS = {
    "cs": "dva tři čtyři pět šest sedm osm devět deset", "da": "to tre fire fem seks syv otte ni ti",
    "de": "zwei drei vier fünf sechs sieben acht neun zehn", "en": "two three four five six seven eight nine ten",
    "es": "dos tres cuatro cinco seis siete ocho nueve diez",
    "fi": "kaksi kolme neljä viisi kuusi seitsemän kahdeksan yhdeksän kymmenen",
    "fr": "deux trois quatre cinq six sept huit neuf dix", "hu": "két három négy öt hat hét nyolc kilenc tíz",
    "it": "due tre quattro cinque sei sette otto nove dieci", "ja": "二 三 四 五 六 七 八 九 十",
    "nl": "twee drie vier vijf zes zeven acht negen tien", "no": "to tre fire fem seks sju åtte ni ti",
    "pl": "dwa trzy cztery pięć sześć siedem osiem dziewięć dziesięć",
    "pt": "dois três quatro cinco seis sete oito nove dez", "ro": "doi trei patru cinci șase șapte opt nouă zece",
    "ru": "два три четыре пять шесть семь восемь девять десять", "sv": "två tre fyra fem sex sju åtta nio tio",
    "tr": "iki üç dört beş altı yedi sekiz dokuz on", "uk": "два три чотири п'ять шість сім вісім дев'ять десять",
    "zh": "两 三 四 五 六 七 八 九 十",
}  # fmt: skip


def is_word(tokenizer: Tokenizer, text: str) -> bool:
    """Whether a vocabulary has a text without spaces as a whole word."""
    pieces = [tokenizer.pieces[i].strip("▁") for i in tokenizer.encode(text, raw=True).ids]
    return [piece.casefold() for piece in pieces if piece] == [text.casefold()]


def has_words(tokenizer: Tokenizer, text: str) -> bool:
    """Whether a vocabulary has every word of a text as a whole word."""
    return all(is_word(tokenizer, text[start:end]) for start, end in word_spans(text))


def is_wordlike(text: str) -> bool:
    """Whether a text consists of words, and is not a number, a code, a placeholder or an address."""
    return all(character.isalpha() or character in " -'’" for character in text)


def number_stand_in(tokenizer: Tokenizer, language: str | None) -> str | None:
    """The number that the model has read most often: the first of its vocabulary, as a word or in digits; None if it
    has none."""
    words = number_words(language)
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
    """The words of a source text; the words that a term overlaps are one word, the term."""
    spans = [(term.start, term.end) for term in terms]
    apart = [word for word in words if not any(start < word[1] and word[0] < end for start, end in spans)]
    return sorted([*apart, *spans])


def place_by_alignment(
    explanation: Explanation, terms: Sequence[Term], offsets: Sequence[Span], languages: tuple[str | None, str | None]
) -> list[PlacedTerm]:
    """The tokens of an output that its terms replace: for each term the tokens of the words that are aligned with it
    (`project`).

    A term that was translated as a number replaces the number of the output with most weight that is not aligned with
    another term. explanation: of the output, in whose source each term is a word. offsets: of the output's tokens.
    languages: of source and output. A term is left out if no token is left for it: the output has fewer than terms.
    """
    words, target = {(word.start, word.end): i for i, word in enumerate(explanation.source)}, explanation.target
    position = {words[term.start, term.end]: term for term in terms}
    weights = explanation.matrices.get(explanation.aligned_by or "", [])
    links = {(i, j): weights[j][i] for i, j in explanation.alignment}
    of_numbers = {j for i, j in links if i not in position and is_number(explanation.source[i].text, languages[0])}
    numbers = {j for j, word in enumerate(target) if is_number(word.text, languages[1])} - of_numbers
    read_as_number = [i for i, term in position.items() if not is_wordlike(explanation.source[i].text)]
    for _, i, j in sorted(((weights[j][i], i, j) for i in read_as_number for j in numbers), reverse=True):
        if j in numbers and i in read_as_number:
            numbers.remove(j)
            read_as_number.remove(i)
            links = {link: weight for link, weight in links.items() if link[0] != i and link[1] != j} | {(i, j): 1.0}
    tags = [TagSpan(i, i + 1) for i in position]
    spans = project(tags, list(links), len(words), len(target), list(links.values()))
    placed: list[PlacedTerm] = []
    for span, term in sorted(zip(spans, terms, strict=True), key=lambda each: (each[0].start, each[0].end)):
        own = target[span.start : span.end]
        after = placed[-1].last if placed else -1  # one token may contain the words of several terms
        tokens = [
            p
            for p, (first, last) in enumerate(offsets)
            if p > after and any(w.start < last and first < w.end for w in own)
        ]
        if tokens:
            placed.append(PlacedTerm(term, tokens[0], tokens[-1]))
    return placed


def is_number(word: str, language: str | None) -> bool:
    """Whether a word has digits, or is a number word that may stand for digits."""
    return any(map(str.isdigit, word)) or word.casefold() in number_words(language)


def says_number(text: str, number: str, language: str | None) -> bool:
    """Whether a translation has a number, in digits or, up to ten, as a word. "1" may be an article."""
    words = [text[start:end].casefold() for start, end in word_spans(text)]
    as_word = dict(zip(map(str, range(2, 11)), number_words(language), strict=False)).get(number)
    return number == "1" or number in words or as_word in words


def number_words(language: str | None) -> list[str]:
    """The words for two to ten, if the language is known."""
    return NUMBER_WORDS.get((language or "").lower().split("-")[0], "").split()
