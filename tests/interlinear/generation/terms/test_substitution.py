"""The exact text of a term stands where its tokens were written, with the spaces of natural text."""

import pytest

from interlinear.generation.request_encoding import term_constraints
from interlinear.generation.terms import Term
from interlinear.generation.terms.substitution import placed_terms, stand_ins, substitute
from interlinear.text import TextConfig, Tokenizer

TEXTS = ["the dog runs fast (very fast)", 'he says "no", and: the end.', "see the page", "5 km"]
BPE = Tokenizer.train(TEXTS, TextConfig(units="bpe", vocabulary=330))
WORDS = Tokenizer.train(TEXTS, TextConfig(units="words", vocabulary=60))
MOSES = Tokenizer.train(
    ["the dog runs fast ( very fast )", "he says ' no ' , and : the end .", "see the page"],
    TextConfig(units="words", vocabulary=60, tokenised=True, lowercase=True, language="en"),
)


def written(tokenizer: Tokenizer, parts: list[str | Term], source: str) -> tuple[str, list[tuple[int, int]]]:
    """An output of texts and terms, as a search writes it, decoded; and the offsets of its tokens."""
    terms = sorted((part for part in parts if isinstance(part, Term)), key=lambda term: term.start)
    constraints = term_constraints(terms, tokenizer.encode(source, raw=True), tokenizer)
    ids: list[int] = []
    indices: list[int | None] = []
    for part in parts:
        own = constraints[terms.index(part)].ids if isinstance(part, Term) else tokenizer.encode(part, raw=True).ids
        ids += own
        indices += [terms.index(part) if isinstance(part, Term) else None] * len(own)
    placed = placed_terms(indices, terms)
    decoded, spans = substitute(tokenizer.decode_with_offsets(ids, stand_ins(placed), raw=True), placed, source)
    assert len(decoded.offsets) == len(ids)
    for each, (start, end) in zip(placed, spans, strict=True):
        assert decoded.text[start:end] == each.term.target
        assert set(decoded.offsets[each.first : each.last + 1]) == {(start, end)}
    return decoded.text, decoded.offsets


URL = "https://example.org/a?b=1"


@pytest.mark.parametrize("tokenizer", [BPE, WORDS, MOSES], ids=["bpe", "words", "moses"])
@pytest.mark.parametrize("target", [URL, "5  km", "😀👩‍👩‍👧", "{name}", '<x id="1"/>', "%s", "C++", "▁x", "Zoë’s"])
def test_it_is_exact_whatever_the_vocabulary(tokenizer: Tokenizer, target: str) -> None:
    source = f"sieh {target} an"
    text, _ = written(tokenizer, ["see", Term(5, 5 + len(target), target), "the page."], source)
    assert text.lower() == f"see {target.lower()} the page." and target in text


def test_marks_beside_a_term_touch_it_as_in_natural_text() -> None:
    source = f"({URL}), und: Ende."
    term = Term(1, 1 + len(URL), URL)
    text, offsets = written(BPE, ["see (", term, "the page"], source)
    assert text == f"see ({URL} the page"
    assert text[slice(*offsets[-1])] == "page"[-len(text[slice(*offsets[-1])]) :]


def test_straight_quotes_and_other_marks_are_as_beside_the_source_term() -> None:
    source = 'er sagt "Foo" und Foo/Bar'
    quoted = Term(9, 12, "Foo")
    text, _ = written(BPE, ['he says "', quoted, "and"], source)
    assert text == 'he says "Foo and'
    both = [Term(18, 21, "Foo"), Term(22, 25, "Bar")]
    text, _ = written(BPE, ["he", both[0], "/", both[1]], source)
    assert text.replace(" /", "/") == "he Foo/Bar"


def test_neighbours_keep_the_space_that_they_have_in_the_source() -> None:
    source = "%s%s und {a} {b}"
    text, _ = written(BPE, [Term(0, 2, "%s"), Term(2, 4, "%s"), "and", Term(9, 12, "{a}"), Term(13, 16, "{b}")], source)
    assert text == "%s%s and {a} {b}"


def test_scripts_without_spaces_have_none_beside_a_term() -> None:
    chinese = Tokenizer.train(["我 喜欢机器翻译", "机器人很好"], TextConfig(units="bpe", vocabulary=300, language="zh"))
    text, _ = written(chinese, ["我喜欢", Term(7, 9, "翻译"), "很好"], "I like MT")
    assert text == "我喜欢翻译很好"


def test_the_offsets_of_the_other_words_are_those_in_the_new_text() -> None:
    text, offsets = written(WORDS, ["the dog", Term(0, 1, "long   term"), "runs fast"], "x")
    assert [text[start:end] for start, end in offsets if (start, end) != (8, 19)] == ["the", "dog", "runs", "fast"]


def test_words_that_continue_a_word_are_known() -> None:
    joined = {BPE.pieces[i] for i in BPE.joined_ids}
    assert not any(piece.startswith("▁") for piece in joined)
    assert "<0x41>" in joined and not joined & set('(),:."') and WORDS.joined_ids == set()
    assert all(piece in joined for piece in BPE.pieces[261:] if piece.isalpha())
