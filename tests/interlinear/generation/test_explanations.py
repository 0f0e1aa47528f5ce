"""Explanations: the confidence of each word, the links of both directions, and the choice of the best reading."""

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import interlinear
from interlinear.alignment.links import symmetrize
from interlinear.batch import collate
from interlinear.bundle import Limits
from interlinear.errors import UsageError
from interlinear.explanation import Explanation, word_probabilities
from interlinear.generation.generator import SequenceGenerator
from interlinear.generation.request import Request
from interlinear.models.attention_reading import READINGS, quick_reading
from interlinear.models.ensemble import Ensemble
from interlinear.models.model import Model
from interlinear.models.recurrent.step_orders import ConditionalDecoder
from interlinear.search import SearchOptions
from interlinear.text import BEGIN, TextConfig, Tokenizer
from tests.interlinear.bundles import untrained
from tests.interlinear.systems import every_system, model_of

GERMAN = [
    "der kleine hund schläft",
    "die große katze läuft im garten",
    "ein hund",
    "katze",
    "der mann liest das große buch im kleinen garten",
    "im garten schläft die katze",
]
ENGLISH = ["the small dog sleeps", "a big cat runs", "the garden of the small man", "book", "he reads a big book"]


def bundle(folder: Path, there: bool, decoder: str = "bahdanau", limit: int = 100) -> Path:
    """An untrained bundle with words of several pieces, from German to English or back."""
    lines = {"de": GERMAN, "en": ENGLISH}
    source, target = ("de", "en") if there else ("en", "de")
    tokenizers = {
        field: Tokenizer.train(lines[language], TextConfig(units="bpe", vocabulary=290, language=language))
        for field, language in (("source", source), ("target", target))
    }
    card = {
        "languages": {"source": source, "target": target},
        "search": SearchOptions(beam=3, max_length=12, min_length=6),
        "limits": Limits(source_length=limit, target_length=100),
    }
    sizes = {"embedding": 24, "hidden": 24, "initialization_scale": 0.5}
    untrained(folder, tokenizers, 1 + there, card, decoder=decoder, **sizes)
    return folder


@pytest.fixture(scope="module")
def de_en(tmp_path_factory) -> Path:
    return bundle(tmp_path_factory.mktemp("bundles") / "de-en", there=True, decoder="conditional")


@pytest.fixture(scope="module")
def en_de(tmp_path_factory) -> Path:
    return bundle(tmp_path_factory.mktemp("bundles") / "en-de", there=False)


def requests(texts: list[str], options: SearchOptions) -> list[Request]:
    return [Request({"source": text}, options, explain=True) for text in texts]


def explain(generation: SequenceGenerator, texts: list[str] = GERMAN) -> list[tuple[list[int], str, Explanation]]:
    """Tokens, text and explanation of each output."""
    options = generation.bundle.card.search
    results = list(generation.generate(requests(texts, options)))
    return [(one.candidates[0].ids, one.candidates[0].text, one.explanation) for one in results]


def token_probabilities(generation: SequenceGenerator, source: str, ids: list[int]) -> list[float]:
    """p(y_l | x, y_<l) of every token: a step for each, and a softmax over all logits."""
    model, tokenizer = generation.bundle.model, generation.bundle.tokenizers["source"]
    assert isinstance(model, Model)
    with torch.inference_mode():
        memory = model.encode(collate({"source": [tokenizer.encode(source).ids]}))
        state, probabilities = model.start(memory), []
        for before, token in zip([BEGIN, *ids], ids, strict=False):
            state, readout, _ = model.step(memory, state, torch.tensor([[before]]))
            probabilities.append(float(torch.softmax(model.logits(readout)[0, 0].double(), -1)[token]))
    return probabilities


def test_the_confidence_of_a_word_is_the_product_of_its_pieces_probabilities(de_en):
    generation = SequenceGenerator(interlinear.load(de_en))
    tokenizer = generation.bundle.tokenizers["target"]
    several = 0
    for source, (ids, text, explanation) in zip(GERMAN, explain(generation), strict=True):
        spans = tokenizer.decode_with_offsets(ids).offsets
        probabilities = token_probabilities(generation, source, ids)
        expected = []
        for word in explanation.target:
            own = [p for p, (a, b) in zip(probabilities, spans, strict=True) if a < word.end and word.start < b]
            several += len(own) > 1
            expected.append(math.prod(own))
        assert explanation.confidence == pytest.approx(expected, abs=6e-5), text
    assert several > 3, "words of several pieces are tested"


def test_a_given_output_has_the_confidence_that_the_search_gives_it(de_en):
    generation = SequenceGenerator(interlinear.load(de_en))
    for source, (ids, text, explanation) in zip(GERMAN, explain(generation), strict=True):
        if generation.bundle.tokenizers["target"].encode(text).ids != ids:
            continue  # the search may write a text in other pieces than those in which it is read
        (given,) = generation.align([({"source": source}, text)], confidence=True)
        assert given.confidence == pytest.approx(explanation.confidence, abs=2e-4)
        assert given.target == explanation.target and given.alignment == explanation.alignment
        (without,) = generation.align([({"source": source}, text)])
        assert without.confidence is None


def test_an_ensemble_has_the_mean_probability(de_en):
    one, other = (SequenceGenerator(interlinear.load(de_en)) for _ in range(2))
    with torch.no_grad():
        for parameter in other.bundle.model.parameters():
            parameter.mul_(0.5)
    together = SequenceGenerator(replace(one.bundle, model=Ensemble([one.bundle.model, other.bundle.model]).eval()))
    for source, (ids, _, explanation) in zip(GERMAN, explain(together), strict=True):
        each = [token_probabilities(member, source, ids) for member in (one, other)]
        means = [math.log(sum(pair) / 2) for pair in zip(*each, strict=True)]
        spans = one.bundle.tokenizers["target"].decode_with_offsets(ids).offsets
        words = [(word.start, word.end) for word in explanation.target]
        assert explanation.confidence == pytest.approx(word_probabilities(means, spans, words), abs=6e-5)


def test_a_piece_of_several_words_counts_in_each_and_one_of_none_in_none():
    logs = [math.log(p) for p in (0.5, 0.25, 0.5, 0.9)]
    pieces = [(0, 2), (3, 4), (4, 5), (5, 5)]  # of "你好 ab"; the last one has no text
    assert word_probabilities(logs, pieces, [(0, 1), (1, 2), (3, 5), (7, 8)]) == [0.5, 0.5, pytest.approx(0.125), None]
    assert word_probabilities([1e-9], [(0, 1)], [(0, 1)]) == [1.0], "rounding does not exceed 1"


def test_the_mark_of_a_words_begin_belongs_to_the_word(de_en):
    """A character without a piece is written as `▁` and its bytes: all are the word's."""
    generation = SequenceGenerator(interlinear.load(de_en))
    tokenizer = generation.bundle.tokenizers["target"]
    text = "dog Ж"
    encoded = tokenizer.encode(text)
    assert tokenizer.pieces[encoded.ids[-3]] == "▁" and encoded.ids[-2] < 300
    (given,) = generation.align([({"source": "ein hund"}, text)], confidence=True)
    probabilities = token_probabilities(generation, "ein hund", encoded.ids)
    assert given.confidence[1] == pytest.approx(math.prod(probabilities[-3:]), abs=6e-5)
    output = generation.read_texts("target", [text])[0]
    decoded = tokenizer.decode_with_offsets(encoded.ids)
    written = replace(output, encoded=replace(output.encoded, offsets=decoded.offsets))
    logs = [math.log(p) for p in probabilities]
    assert generation._word_probabilities(written, logs) == generation._word_probabilities(output, logs)


def test_both_directions_are_symmetrized(de_en, en_de):
    there, back = (SequenceGenerator(interlinear.load(folder)) for folder in (de_en, en_de))
    both = SequenceGenerator(there.bundle, reverse=back)
    differing = 0
    for source, alone, explained in zip(GERMAN, explain(there), explain(both), strict=True):
        forward, found = alone[2], explained[2]
        (reverse,) = back.align([({"source": explained[1]}, source)])
        expected = symmetrize(forward.alignment, [(i, j) for j, i in reverse.alignment], "grow-diag-final-and")
        assert found.symmetrized and found.alignment == expected
        assert [(link.source, link.target) for link in found.links] == expected
        for link in found.links:
            weight = forward.matrices["posterior"][link.target][link.source]
            other = reverse.matrices["posterior"][link.source][link.target]
            assert (link.weight, link.reverse_weight) == (weight, pytest.approx(other, abs=1e-4))
            assert link.symmetrized_weight == pytest.approx((weight + other) / 2, abs=1.1e-4)
        differing += found.alignment != forward.alignment
        same = {"alignment": forward.alignment, "links": None, "symmetrized": None}
        assert found.model_copy(update=same) == forward, "all else is as without a reverse model"
    assert differing


def test_an_explanation_does_not_depend_on_the_other_sentences(de_en, en_de):
    reverse = SequenceGenerator(interlinear.load(en_de))
    bundle = interlinear.load(de_en)
    together = explain(SequenceGenerator(bundle, reverse=reverse))
    few = explain(SequenceGenerator(bundle, slots=2, reverse=reverse))  # most enter late
    alone = [explain(SequenceGenerator(bundle, slots=1, reverse=reverse), [text])[0] for text in GERMAN]
    assert together == few == alone


def test_a_pair_that_the_reverse_model_cannot_read_keeps_the_links_of_one_direction(de_en, en_de, tmp_path):
    there = SequenceGenerator(interlinear.load(de_en))
    short = SequenceGenerator(interlinear.load(bundle(tmp_path / "short", there=False, limit=2)))
    for (_, _, forward), (_, _, found) in zip(
        explain(there), explain(SequenceGenerator(there.bundle, reverse=short)), strict=True
    ):
        assert found == forward.model_copy(update={"symmetrized": False})


def test_a_reverse_model_of_the_same_direction_is_refused(de_en, en_de):
    there, back = (interlinear.load(folder).card for folder in (de_en, en_de))
    there.check_opposite(back, "--reverse")
    with pytest.raises(UsageError, match=r"goes from de to en, and MODEL from de to en\. Name a model from en to de"):
        there.check_opposite(there, "--reverse")


@every_system
def test_every_system_has_a_best_reading_of_the_kinds_that_there_are(system):
    model = model_of(system)
    assert model.readings[0] == READINGS["uam" if "uam" in model.attention_kinds else model.decoder.best_readings[1]]
    assert {reading.kind for reading in model.readings} <= set(model.attention_kinds)
    assert all(reading.name == name for name, reading in READINGS.items())


def test_an_explanation_is_read_as_the_best_reading_says(de_en, monkeypatch):
    """The links, their matrix and its name follow the choice, in a search and for a given output."""
    generation = SequenceGenerator(interlinear.load(de_en))
    ((ids, text, before), *_) = explain(generation, GERMAN[:1])
    assert before.aligned_by == generation.best_reading.matrix == "posterior"
    assert set(before.matrices) == {"attention", "posterior"}
    assert quick_reading(generation.bundle.model.readings) == READINGS["attention"]
    monkeypatch.setattr(ConditionalDecoder, "best_readings", ("uam", "gated", "next"))
    ((_, _, searched), *_) = explain(generation, GERMAN[:1])
    assert searched.aligned_by == "next_attention" and set(searched.matrices) == {"attention", "next_attention"}
    assert searched.matrices["attention"] == before.matrices["attention"]
    rows = searched.matrices["next_attention"]
    assert searched.alignment == sorted((row.index(max(row)), j) for j, row in enumerate(rows))
    (asked,) = generation.align([({"source": GERMAN[0]}, text)], reading=READINGS["next"])
    (given,) = generation.align([({"source": GERMAN[0]}, text)])
    assert given == asked
    if generation.bundle.tokenizers["target"].encode(text).ids == ids:
        assert torch.tensor(given.matrices["next_attention"]).allclose(torch.tensor(rows), atol=2e-4)


def test_words_are_those_of_the_text(de_en):
    for _, text, explanation in explain(SequenceGenerator(interlinear.load(de_en))):
        assert len(explanation.confidence) == len(explanation.target)
        assert "".join(span.text for span in explanation.target) == re.sub(r"\s", "", text)
        assert all(0 <= c <= 1 for c in explanation.confidence if c is not None)


@pytest.mark.parametrize(("explain_all", "expected"), [(False, 2), (True, 4)])
def test_a_step_says_that_it_works_before_each_explanation(tmp_path: Path, explain_all: bool, expected: int):
    """Explanations of long texts take seconds: whoever watches the search would take it for hanging."""
    generator = SequenceGenerator(interlinear.load(bundle(tmp_path / "one", there=True)))
    options = SearchOptions(beam=3, n_best=2, max_length=6, min_length=6)  # all end in the same step
    rows = [
        Request({"source": line}, options, explain=explain, explain_all=explain_all)
        for line, explain in zip(GERMAN, (True, False, True), strict=False)
    ]
    generator.admit([(key, generator.encode(row)) for key, row in enumerate(rows)])
    signs: list[int] = []
    steps = [generator.step(lambda: signs.append(generator.active)) for _ in range(7)]
    assert [len(results) for results in steps] == [0, 0, 0, 0, 0, 0, 3] and len(signs) == expected
    explained = [candidate for _, result in steps[-1] for candidate in result.candidates if candidate.explanation]
    assert len(explained) == expected
