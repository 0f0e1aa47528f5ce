"""Requests with a target prefix: outputs begin with its characters, whatever the vocabulary, and explanations cover
it."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlinear.errors import RequestError
from interlinear.generation.generator import SequenceGenerator
from interlinear.generation.request import Request
from interlinear.generation.target_prefix import decode_beginning
from interlinear.generation.terms import Term
from interlinear.search import SearchOptions
from interlinear.text import word_spans
from tests.interlinear.generation.test_terms import OPTIONS, generator, translate, with_terms

__all__ = ["generator"]


def begun(text: str, prefix: str, options: SearchOptions = OPTIONS, **other: object) -> Request:
    return Request({"source": text}, options, target_prefix=prefix, **other)  # type: ignore[arg-type]


@settings(max_examples=25)
@given(prefix=st.text("abt  ,.(-'ü中\U0001f600", max_size=12), explain=st.booleans())
def test_outputs_begin_with_the_prefix_character_by_character(
    generator: SequenceGenerator, prefix: str, explain: bool
) -> None:
    plain = Request({"source": "the big bat"}, OPTIONS)
    (alone,) = translate(generator, plain)
    result, other = translate(generator, begun("a bat flies", prefix, explain=explain), plain)
    assert [c.ids for c in other.candidates] == [c.ids for c in alone.candidates]
    assert result.candidates
    for candidate in result.candidates:
        assert candidate.text.startswith(prefix)
    words = [candidate.text[len(prefix) :].strip() for candidate in result.candidates]
    assert len({word[slice(*word_spans(word)[0])] if word else "" for word in words}) == len(words)
    if explain:
        explanation = result.explanation
        assert explanation is not None and explanation.confidence is not None
        text = result.candidates[0].text
        assert [span.text for span in explanation.target] == [text[start:end] for start, end in word_spans(text)]
        assert all(value is not None for value in explanation.confidence), "forced words have their probability"
        assert all(len(rows) == len(explanation.target) for rows in explanation.matrices.values())


def test_a_word_after_a_prefix_does_not_continue_its_last_word(generator: SequenceGenerator) -> None:
    for source in ("the big bat sleeps well", "it runs", "see the page"):
        (result,) = translate(generator, begun(source, "a ba"))
        assert all(not c.text[4:5].isalnum() for c in result.candidates)


def test_terms_hold_beside_a_prefix(generator: SequenceGenerator) -> None:
    request = replace(with_terms("the big bat sleeps 5 km", {"bat": "Fledermaus"}), target_prefix="the ü,")
    (result,) = translate(generator, request)
    for candidate in result.candidates:
        assert candidate.text.startswith("the ü,")
        assert candidate.text.count("Fledermaus") == candidate.text.count("5 km") == 1


def test_a_term_that_the_prefix_has_is_not_written_again(generator: SequenceGenerator) -> None:
    terms = {"bat": "Fledermaus", "sleeps": "ruht aus"}
    request = with_terms("the big bat sleeps", terms, explain=True, target_prefix="Fledermausflug, Fledermaus und")
    (result,) = translate(generator, request)
    text, explanation = result.candidates[0].text, result.explanation
    assert text.count("Fledermaus") == 2 and text.count("ruht aus") == 1
    assert explanation is not None and explanation.terms is not None
    placed = {"the big bat sleeps"[slice(*one.source)]: text[slice(*one.target)] for one in explanation.terms}
    assert placed == terms
    assert min(one.target for one in explanation.terms) == (16, 26), "not a part of another word"


def test_two_terms_of_one_target_need_it_twice(generator: SequenceGenerator) -> None:
    terms = (Term(0, 3, "Tier"), Term(8, 11, "Tier"))
    request = Request({"source": "bat and bat"}, OPTIONS, terms=terms, target_prefix="Tier")
    (result,) = translate(generator, request)
    assert all(candidate.text.count("Tier") == 2 for candidate in result.candidates)


def test_a_text_of_protected_things_alone_begins_with_the_prefix_too(generator: SequenceGenerator) -> None:
    request = replace(with_terms("5 km"), target_prefix="see")
    (result,) = translate(generator, request)
    assert result.candidates[0].text.startswith("see") and result.candidates[0].text.count("5 km") == 1


def test_partial_outputs_begin_with_the_prefix_and_are_a_beginning_of_the_text(generator: SequenceGenerator) -> None:
    request = begun("a bat flies fast", "ü (bat", SearchOptions(beam=2, min_length=8))
    generator.admit([(0, generator.encode(request))])
    tokenizer, prefixes, finished = generator.bundle.tokenizers["target"], [], []
    while not finished:
        prefixes += generator.prefixes([0]).values()
        finished = generator.step()
    ((_, result),) = finished
    texts = [decode_beginning(tokenizer, ids, request.target_prefix, raw=True) for ids in prefixes]
    assert any(texts) and all(result.candidates[0].text.startswith(text) for text in texts)
    assert all(not text or text.startswith("ü (bat") for text in texts)


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (begun("a bat", "a bat flies", SearchOptions(max_length=2)), r"target_prefix: the prefix has \d+ tokens"),
        (begun("a bat", "bat " * 500), "give a shorter prefix"),
        (begun("a bat", "a", tokenised=frozenset({"source", "target"})), "it is for raw text"),
    ],
)
def test_a_prefix_that_cannot_be_is_refused(generator: SequenceGenerator, request_: Request, said: str) -> None:
    with pytest.raises(RequestError, match=said):
        generator.encode(request_)
