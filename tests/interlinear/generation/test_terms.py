"""Requests with terms: their text is in every output, exactly and once, and explanations say where."""

from dataclasses import replace
from pathlib import Path

import pytest

from interlinear.errors import RequestError
from interlinear.explanation import Doubt, Explanation, to_spans
from interlinear.generation.generator import SequenceGenerator
from interlinear.generation.request import GenerationResult, Request
from interlinear.generation.terms import GlossaryEntry, Term, TermFinder, TermOptions
from interlinear.generation.terms.explained import explain_terms
from interlinear.search import SearchOptions
from interlinear.text import TextConfig, Tokenizer
from tests.interlinear.bundles import untrained

SENTENCES = ["the big bat sleeps well", "a bat flies (fast)", "see the page, and sleep", "it runs"]
OPTIONS = SearchOptions(beam=3, n_best=3)
URL = "https://example.org/a?b=ü"


@pytest.fixture(scope="module", params=["bpe", "words"])
def generator(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> SequenceGenerator:
    """A model that was not trained: where it wants to go says nothing about the terms."""
    tokenizer = Tokenizer.train(SENTENCES, TextConfig(units=request.param, vocabulary=310))
    both = dict.fromkeys(("source", "target"), tokenizer)
    bundle = untrained(tmp_path_factory.mktemp(request.param) / "bundle", both, 4)
    bundle.model.double()
    return SequenceGenerator(bundle)


def translate(generator: SequenceGenerator, *requests: Request) -> list[GenerationResult]:
    results = list(generator.generate(requests))
    assert len(results) == len(requests)
    assert all(isinstance(result, GenerationResult) and result.candidates for result in results), results
    return results  # type: ignore[return-value]


def with_terms(text: str, glossary: dict[str, str] | None = None, **options: object) -> Request:
    entries = tuple(GlossaryEntry(source, target) for source, target in (glossary or {}).items())
    found = TermFinder(TermOptions(entries)).find(text)
    return Request({"source": text}, OPTIONS, terms=found, **options)  # type: ignore[arg-type]


def test_terms_are_in_every_output_once_beside_requests_without_any(generator: SequenceGenerator) -> None:
    plain = Request({"source": "the big bat"}, OPTIONS)
    (alone,) = translate(generator, plain)
    requests = [
        with_terms(f"see {URL} and sleep"),
        plain,
        with_terms("the big bat sleeps", {"bat": "Fledermäuse", "sleeps": "qrs"}),
        with_terms("5 km (2,5 %) 😀 a bat"),
    ]
    results = translate(generator, *requests)
    assert [c.ids for c in results[1].candidates] == [c.ids for c in alone.candidates]
    for request, result in zip(requests, results, strict=True):
        assert result.candidates
        for candidate in result.candidates:
            for term in request.terms:
                assert candidate.text.count(term.target) == 1, candidate.text


def test_greedy_search_and_several_sentences_at_a_time_write_terms_too(generator: SequenceGenerator) -> None:
    greedy = SearchOptions(beam=1)
    requests = [replace(with_terms(f"a bat {i} km flies"), options=greedy) for i in range(40)]
    for i, result in enumerate(translate(generator, *requests)):
        assert result.candidates[0].text.count(f"{i} km") == 1


def test_an_explanation_has_the_terms_and_links_their_words(generator: SequenceGenerator) -> None:
    request = with_terms(f"see {URL}, a big bat", {"big bat": "very large hound"}, explain=True)
    (result,) = translate(generator, request)
    text, explanation = result.candidates[0].text, result.explanation
    assert explanation is not None and explanation.terms is not None
    assert {text[slice(*one.target)] for one in explanation.terms} == {URL, "very large hound"}
    source = request.texts["source"]
    assert all(text[span.start : span.end] == span.text for span in explanation.target)
    for one in explanation.terms:
        own = [j for j, word in enumerate(explanation.target) if one.target[0] <= word.start < one.target[1]]
        assert own and all(explanation.confidence[j] is None for j in own)
        for j in own:
            linked = [explanation.source[i] for i, k in explanation.alignment if k == j]
            assert linked and all(one.source[0] <= word.start < one.source[1] for word in linked), source
    assert all(len(rows) == len(explanation.target) for rows in explanation.matrices.values())


def test_the_words_of_a_term_are_not_doubtful_but_those_beside_it_may_be() -> None:
    words = to_spans("ein neuer hund", [(0, 3), (4, 9), (10, 14)])
    doubts = [Doubt(reason="low_probability", side="target", word=j) for j in range(3)]
    doubts += [Doubt(reason="untranslated", side="source", word=i) for i in (1, 2)]
    fields = {"matrices": {"attention": [[0.3] * 3] * 3}, "aligned_by": "attention", "alignment": [(0, 0)]}
    explanation = Explanation(source=words, target=words, confidence=[0.1] * 3, doubts=doubts, **fields)
    explained = explain_terms(explanation, [Term(4, 9, "neuer")], [(4, 9)])
    assert explained.confidence == [0.1, None, 0.1]
    assert explained.doubts == [doubts[0], doubts[2], doubts[4]]


def test_a_text_of_protected_things_alone_is_passed_through(generator: SequenceGenerator) -> None:
    text = f"  {URL} ({{name}}!)"
    requests = [with_terms(text, explain=True), with_terms("a bat"), with_terms(text)]
    copied, _, again = translate(generator, *requests)
    assert copied.candidates[0].text == again.candidates[0].text == text
    explanation = copied.explanation
    assert explanation is not None and explanation.source == explanation.target
    assert explanation.alignment == [(i, i) for i in range(len(explanation.source))]
    assert len(explanation.terms or []) == 2 and generator.active == 0 and not generator.rows


@pytest.mark.parametrize("text", ["-", "1234", "12:30", "***", "...", " 5 % "])
def test_a_text_without_letters_is_never_searched(generator: SequenceGenerator, text: str) -> None:
    plain, explained = Request({"source": text}, OPTIONS), with_terms(text, explain=True)
    for result in translate(generator, plain, explained):
        assert [candidate.text for candidate in result.candidates] == [text]


def test_a_text_of_unknown_words_alone_stays_as_it_is(tmp_path: Path) -> None:
    """Names of which a model of whole words knows none; with one word that it knows, the text is translated."""
    tokenizer = Tokenizer.train(
        ["Anna sees the cat, .", "the cat sees Anna , ."], TextConfig(units="words", vocabulary=20)
    )
    card = {"languages": {"source": "en", "target": "en"}}
    generator = SequenceGenerator(
        untrained(tmp_path / "bundle", dict.fromkeys(("source", "target"), tokenizer), 4, card)
    )
    names = ["Zorbas", "Zorbas, Annegret Schulze.", " Zorbas!"]
    for text, result in zip(
        names, translate(generator, *(Request({"source": text}, OPTIONS) for text in names)), strict=True
    ):
        assert [candidate.text for candidate in result.candidates] == [text]
    for searched in ("the Zorbas", "cat"):
        assert not generator.request_encoder.encode(Request({"source": searched}, OPTIONS)).is_copied


def test_a_number_that_the_vocabularies_have_is_left_to_the_model(tmp_path: Path) -> None:
    """A number without one comes out as it is, in the place of what the model says for a number that it knows."""
    tokenizer = Tokenizer.train(["two 2 cats", "2 cats sleep"], TextConfig(units="words", vocabulary=20))
    card = {"languages": {"source": "en", "target": "en"}}
    bundle = untrained(tmp_path / "bundle", dict.fromkeys(("source", "target"), tokenizer), 4, card)
    encoder = SequenceGenerator(bundle).request_encoder
    known, unknown = encoder.encode(with_terms("2 cats")), encoder.encode(with_terms("27 cats"))
    assert [encoder.translates(term) for row in (known, unknown) for term in row.terms] == [True, False]
    assert unknown.sources["source"].ids == known.sources["source"].ids
    assert unknown.sources["source"].offsets == [(0, 2), (3, 7)]


def test_a_source_may_have_more_words_than_tokens(tmp_path: Path) -> None:
    """Of what a number stands for, a word each is a bracket: the repetition guard counts the words that are read."""
    tokenizer = Tokenizer.train(["two 2 cats", "2 cats sleep"], TextConfig(units="words", vocabulary=20))
    bundle = untrained(tmp_path / "bundle", dict.fromkeys(("source", "target"), tokenizer), 4)
    request = with_terms(" ".join(["{a}"] * 12) + " cats")
    (result,) = translate(SequenceGenerator(bundle), request)
    assert result.candidates[0].text.count("{a}") == 12


def test_partial_outputs_are_a_beginning_of_the_text(generator: SequenceGenerator) -> None:
    """They end before the first term, whose text is known when it is complete."""
    request = replace(with_terms("a bat flies fast", {"flies": "a"}), options=SearchOptions(beam=2, min_length=6))
    generator.admit([(0, generator.encode(request))])
    tokenizer, prefixes, finished = generator.bundle.tokenizers["target"], [], []
    while not finished:
        prefixes += generator.prefixes([0]).values()
        finished = generator.step()
    ((_, result),) = finished
    assert len(prefixes) > 3
    assert all(result.candidates[0].text.startswith(tokenizer.decode(ids, raw=True)) for ids in prefixes)


def test_a_length_that_is_too_short_is_refused(generator: SequenceGenerator) -> None:
    request = replace(with_terms(f"see {URL}"), options=SearchOptions(max_length=2))
    with pytest.raises(RequestError, match=r"the terms have \d+ tokens, and the output may have 2"):
        generator.encode(request)
    request = replace(with_terms("a bat", {"bat": "word " * 500}), options=SearchOptions())
    with pytest.raises(RequestError, match="Allow a longer output"):
        generator.encode(request)


def test_the_default_length_has_room_for_terms(generator: SequenceGenerator) -> None:
    target = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
    (result,) = translate(generator, with_terms("a bat", {"bat": target}))
    assert target in result.candidates[0].text


@pytest.mark.parametrize(
    ("terms", "said"),
    [
        ((Term(0, 3, "x"), Term(2, 5, "y")), "overlaps another"),
        ((Term(0, 3, ""),), "the target of 'the' is empty"),
        ((Term(0, 99, "x"),), "outside the text"),
    ],
)
def test_invalid_terms_are_refused(generator: SequenceGenerator, terms: tuple[Term, ...], said: str) -> None:
    with pytest.raises(RequestError, match=said):
        generator.encode(Request({"source": "the bat"}, OPTIONS, terms=terms))


def test_tokenised_text_takes_no_terms(generator: SequenceGenerator) -> None:
    request = Request({"source": "the bat"}, OPTIONS, tokenised=frozenset({"source"}), terms=(Term(0, 3, "x"),))
    with pytest.raises(RequestError, match="raw text"):
        generator.encode(request)
