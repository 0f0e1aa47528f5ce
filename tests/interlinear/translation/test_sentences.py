"""Documents as sentences: equal ones once, their tags, and the texts made of their translations."""

from interlinear.documents import AlignedText, parse_html
from interlinear.generation.terms import Term
from interlinear.translation.sentences import LONGEST, DocumentSentences, Sentence

HTML = "<p>Ein Hund.  Eine <b>Katze</b>.</p> <p>Eine Katze.</p><p title='Ein Hund.'>Ein Hund. Ein <i>Kind.</i></p>"


def sentences_of(html: str, **options) -> DocumentSentences:
    return DocumentSentences(parse_html(html).segments, "de", "en", **{"most": 100} | options)


def test_equal_sentences_are_one():
    found = sentences_of(HTML)
    assert found.sentences == [
        Sentence("Ein Hund.", completes=1),
        Sentence("Eine Katze.", explain=True, completes=2),
        Sentence("Ein Kind.", explain=True, completes=1),
    ]
    joined = found.join([AlignedText(text) for text in ("A dog.", "A cat.", "A child.")])
    assert [each.text for each in joined] == ["A dog. A cat.", "A cat.", "A dog.", "A dog. A child."]


def test_terms_make_a_difference():
    """And one that reaches over the end of a sentence is in one."""
    html = "<p>Der Hund Otto! Bar ist hier.</p><p>Der Hund.</p>"
    terms = {"Der Hund Otto! Bar ist hier.": [Term(4, 8, "hound"), Term(9, 18, "Otto!")]}
    found = sentences_of(html, find_terms=lambda text: terms.get(text, ()))
    assert found.sentences[0].text == "Der Hund Otto! Bar ist hier."
    assert found.sentences[0].terms == (Term(4, 8, "hound"), Term(9, 18, "Otto!"))
    assert found.sentences[1] == Sentence("Der Hund.", completes=1)


def test_a_very_long_sentence_is_divided_where_it_can_be():
    words = "wort " * 4000
    found = sentences_of(f"<p>{words}</p>")
    assert max(len(sentence.text) for sentence in found.sentences) <= LONGEST
    (joined,) = found.join([AlignedText(sentence.text) for sentence in found.sentences])
    assert joined.text == words.strip()
