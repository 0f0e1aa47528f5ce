"""Tokenised text (words separated by spaces) as input of a model that was trained on raw text."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from interlinear.bundle import Bundle
from interlinear.generation.generator import SequenceGenerator
from interlinear.generation.request import GenerationResult, Request
from interlinear.models.model import Model
from interlinear.search import SearchOptions
from interlinear.text import Decoded, TextConfig, Tokenizer
from tests.interlinear.bundles import untrained

LINES = ["A dog runs fast.", "The small dog (a puppy) sleeps.", "Two men don't run, they sleep!", "A man runs."]
RAW, TOKENISED = "The puppy doesn't sleep (fast)!", "The puppy doesn 't sleep ( fast ) !"
OPTIONS = SearchOptions(beam=3, n_best=3, min_length=5, max_length=8)


def written(folder: Path, operations: bool = False) -> Bundle[Model]:
    """A model trained on raw text, or one that generates edit operations on it."""
    plain = TextConfig(units="words", vocabulary=60, language="en")
    target = Tokenizer.train(LINES * 3, plain.model_copy(update={"operations_on": "mt" if operations else None}))
    tokenizers = {"source": Tokenizer.train(LINES * 3, plain), "target": target}
    if operations:
        tokenizers["mt"] = target
    card: dict[str, Any] = {"task": "post-edit" if operations else "translation"}
    card["languages"] = dict.fromkeys([name for name in tokenizers if name != "target"], "en")
    combination = "flat" if operations else "none"
    return untrained(folder, tokenizers, 4, card, combination=combination, cell="gru", initialization_scale=1.5)


def answered(bundle: Bundle[Model], *requests: Request) -> list[GenerationResult]:
    found = list(SequenceGenerator(bundle).generate(requests))
    assert all(isinstance(answer, GenerationResult) for answer in found)
    return [answer for answer in found if isinstance(answer, GenerationResult)]


@pytest.mark.parametrize("operations", [False, True])
def test_tokenised_text_is_joined_for_the_model_and_split_again_after_it(tmp_path, operations):
    bundle = written(tmp_path, operations)
    raw = Request(dict.fromkeys(bundle.card.model.texts, RAW), OPTIONS, explain=True)
    names = frozenset({*bundle.card.model.texts, "target"})
    spaced = replace(raw, texts=dict.fromkeys(raw.texts, TOKENISED), tokenised=names)
    as_written, cut = answered(bundle, raw, spaced)
    target = bundle.tokenizers["target"]
    for one, other in zip(as_written.candidates, cut.candidates, strict=True):
        assert (other.ids, other.score) == (one.ids, pytest.approx(one.score))
        assert other.text == target.tokenize(Decoded(one.text, [])).text
    assert any(one.text != other.text for one, other in zip(as_written.candidates, cut.candidates, strict=True))

    explanation = cut.explanation
    assert explanation is not None
    assert [word.text for word in explanation.source] == TOKENISED.split()
    assert all(TOKENISED[word.start : word.end] == word.text for word in explanation.source)
    assert [word.text for word in explanation.target] == cut.candidates[0].text.split()
    forced = list(SequenceGenerator(bundle).align([(spaced.texts, cut.candidates[0].text)], raw=False))
    assert [explanation.source, explanation.target] == [forced[0].source, forced[0].target]


def test_only_text_marked_as_tokenised_is_joined(tmp_path):
    bundle = written(tmp_path)
    raw, mixed = answered(
        bundle, Request({"source": RAW}, OPTIONS), Request({"source": TOKENISED}, OPTIONS, False, frozenset({"source"}))
    )
    assert [one.ids for one in raw.candidates] == [one.ids for one in mixed.candidates]
    assert all("doesn 't" not in one.text and " )" not in one.text for one in mixed.candidates)


def test_marks_are_separated_and_every_piece_keeps_its_offset():
    tokenizer = Tokenizer.train(LINES * 3, TextConfig(units="words", vocabulary=60, language="en"))
    ids = tokenizer.encode(LINES[1]).ids
    cut = tokenizer.tokenize(tokenizer.decode_with_offsets(ids))
    assert cut.text == "The small dog ( a puppy ) sleeps ."
    assert [cut.text[start:end] for start, end in cut.offsets] == cut.text.split()
    assert tokenizer.detokenize(cut.text).text == LINES[1]
    assert tokenizer.tokenize(Decoded("", [(0, 0)])) == Decoded("", [(0, 0)])
